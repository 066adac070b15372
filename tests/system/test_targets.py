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
