"""A file with two copies is cut, has a hole made and space reserved, while the disk of one of its
servers is full, or one of them hangs: the application sees no error, and copies are equal in the
end."""

import os

import pytest
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.copies import wait_equal
from harness.counters import weft
from harness.run import wait_until

pytestmark = pytest.mark.faults

CHANGES = """
set -e
fallocate -p -o 1M -l 1M /mnt/nfs/a
truncate -s 3M /mnt/nfs/a
truncate -s 5M /mnt/nfs/a"""
CHECK = """
from weftio import *
drop_caches()
expected = bytearray(block(1, 4 * MIB))
expected[MIB:2 * MIB] = bytes(MIB)
expected[3 * MIB:] = bytes(2 * MIB)
check("/mnt/nfs/a", bytes(expected))
"""


def written(run, network, **options):
    """A system of two data servers, and a client that wrote 4 MiB to a file with two copies."""
    cluster = Cluster(run, network, Options(
        data_servers=2, domains=("a", "b"), extra={"Copies": "2"}, **options))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    client.python("""
from weftio import *
with open("/mnt/nfs/a", "wb") as file:
    file.write(block(1, 4 * MIB))
""")
    return cluster, client


def check_repaired(cluster, client):
    wait_until(lambda: weft(cluster, "status")["stale_objects"] == 0, 120, "the repair", 0.5)
    wait_equal(cluster)
    client.python(CHECK)


@pytest.mark.parametrize("full", [0, 1])
def test_changes_while_one_disk_is_full(run, network, full):
    if not os.path.exists("/dev/loop-control"):
        pytest.skip("needs loop devices, which this machine or container lacks")
    cluster, client = written(run, network, store_mib=160)
    server = cluster.ds[full]
    server.fill()
    client.python("""
import os
from weftio import *
fd = os.open("/mnt/nfs/a", os.O_RDWR)
os.posix_fallocate(fd, 2 * MIB, 20 * MIB)
same("size", os.fstat(fd).st_size, 22 * MIB)
os.close(fd)
""", 90)
    [stripe] = weft(cluster, "layout", "show", f"{cluster.path}/a")["stripes"]
    states = {copy["ds_name"]: copy["state"] for copy in stripe["copies"]}
    assert states.pop(server.name).startswith(("stale", "resyncing")), states
    assert set(states.values()) == {"current"}, states
    client.run(CHANGES, 90)
    client.python(CHECK)
    server.unfill()
    check_repaired(cluster, client)


@pytest.mark.parametrize("layout", ["files", "flexfiles"])
@pytest.mark.parametrize("hung", [0, 1])
def test_changes_while_one_server_hangs(run, network, layout, hung):
    """It is stopped, so its connections stay and nobody is refused."""
    cluster, client = written(run, network, layout=layout)
    server = cluster.ds[hung]
    server.process.pause()
    client.run(CHANGES, 90)
    client.python(CHECK, 90)
    server.process.resume()
    check_repaired(cluster, client)
