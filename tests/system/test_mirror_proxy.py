"""Files with several copies and clients without pNFS: the metadata server writes through leaders
and reads any copy, and a data server that dies is no interruption."""

import pytest
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import MIB, snapshot, weft
from harness.run import wait_until

pytestmark = pytest.mark.faults

COPY = """
set -e
head -c {mib}M /dev/urandom > /tmp/in
weft-signal made-{name}
dd if=/tmp/in of=/mnt/nfs/{name} bs=256k conv=fsync status=none
weft-signal written-{name}
weft-drop-caches
cmp /tmp/in /mnt/nfs/{name}
"""


@pytest.fixture(params=["4.0", "4.2"])
def mirrored(request, run, network):
    """Two copies, no pNFS, and a client that has it mounted. Layouts of before a restart, which
    only time out, are no matter any more."""
    cluster = Cluster(run, network, Options(data_servers=4, pnfs=False, extra={"Copies": "2"}))
    if not cluster.counted:
        pytest.skip("Ganesha's VFS has no copies")
    cluster.client = start_client(run, network)
    cluster.client.mount(cluster.address, cluster.path, f"vers={request.param}")
    wait_until(lambda: weft(cluster, "status")["grace_left_ms"] == 0, 30, "the end of grace", 0.2)
    return cluster


def test_both_copies_are_written(mirrored):
    before = snapshot(mirrored)
    mirrored.client.run(COPY.format(mib=16, name="both"), 90)
    counts = snapshot(mirrored).since(before)
    assert counts.total_written >= 2 * 16 * MIB, counts
    assert counts.mds_writes > 0 and counts.total_read >= 16 * MIB, counts


def test_data_server_dies_while_it_is_written(mirrored):
    """What is written, before and after, is read back; then what was there can still be changed."""
    client = mirrored.client
    for server in mirrored.ds:
        server.node.limit("100mbit")
    before = snapshot(mirrored)
    job = client.start_job(COPY.format(mib=48, name="file"))
    client.wait_event("made-file")

    def written():
        return {one["name"]: one["written_bytes"] - before.written[one["name"]]
                for one in weft(mirrored, "status")["data_servers"]}

    wait_until(lambda: sum(written().values()) > 16 * MIB, 60, "a part to be written", 0.1)
    amounts = written()
    lost = max(mirrored.ds, key=lambda server: amounts[server.name])
    assert not job.done()
    lost.process.kill()
    job.wait(120)
    client.run("""
set -e
dd if=/dev/urandom of=/tmp/in bs=1M seek=7 count=5 conv=notrunc status=none
dd if=/tmp/in of=/mnt/nfs/file bs=1M skip=7 seek=7 count=5 conv=notrunc,fsync status=none
truncate -s 40M /tmp/in /mnt/nfs/file
truncate -s 44M /tmp/in /mnt/nfs/file
weft-drop-caches
cmp /tmp/in /mnt/nfs/file
cp /mnt/nfs/file /mnt/nfs/again
cmp /tmp/in /mnt/nfs/again
rm /mnt/nfs/file /mnt/nfs/again
""", 120)


def test_data_server_dies_while_it_is_read(mirrored):
    client = mirrored.client
    client.run(COPY.format(mib=32, name="read"), 90)
    job = client.start_job("""
set -e
weft-drop-caches
weft-signal reading
cmp /tmp/in /mnt/nfs/read
""")
    client.wait_event("reading")
    mirrored.ds[1].process.kill()
    job.wait(90)
