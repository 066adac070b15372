"""Copying files in and out of data servers whose objects are at a weft-target."""

import pytest
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import MIB, through_data_servers, weft

COPY = """
set -e
head -c {mib}M /dev/urandom > /tmp/in
cp /tmp/in /mnt/nfs/{name}
weft-drop-caches
cmp /tmp/in /mnt/nfs/{name}
"""

TRANSPORTS = {"shm": "shared memory", "tcp": "tcp"}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_copy_over_a_target(run, network, transport):
    """Two data servers with one target: a copy, and one more after the target was killed."""
    cluster = Cluster(run, network, Options(data_servers=2, store=transport))
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    with through_data_servers(cluster, written=32 * MIB, read=32 * MIB):
        client.run(COPY.format(mib=32, name="a"), timeout_s=120)
    for server in cluster.ds:
        known = {one["name"]: one for one in weft(cluster, "status")["data_servers"]}
        assert known[server.name]["store"] == TRANSPORTS[transport]
        assert not any((server.store / "objects").glob("*/*")), "an object at the data server"
    cluster.targets[0].process.kill()
    cluster.targets[0].process.start()
    client.run("cmp /tmp/in /mnt/nfs/a")
    with through_data_servers(cluster, written=32 * MIB, read=32 * MIB):
        client.run(COPY.format(mib=32, name="b"), timeout_s=120)
    client.unmount()


@pytest.mark.parametrize("descriptors", [True, False])
def test_what_moves_the_bytes(run, network, descriptors):
    """What is in the page cache goes past a target that hands descriptors over, and through one of
    which the data server wants none."""
    options = f"target_descriptors = {str(descriptors).lower()}\n"
    cluster = Cluster(run, network, Options(data_servers=1, store="shm", metrics=True,
                                            store_options=options))
    if not cluster.counted:
        pytest.skip("Ganesha's VFS has no targets")
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    client.run(COPY.format(mib=1, name="first"), timeout_s=120)
    with through_data_servers(cluster, written=32 * MIB, read=32 * MIB):
        client.run(COPY.format(mib=32, name="file"), timeout_s=120)
    client.unmount()
    counted = cluster.metrics(cluster.ds[0])
    past = {name: counted[f"weft_ds_target_past_{name}_total"]
            for name in ("bytes", "written_bytes")}
    if descriptors:
        assert min(past.values()) > 0, past
    else:
        assert past == {"bytes": 0, "written_bytes": 0}
