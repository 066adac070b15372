"""A data server of a pair is lost under a write load and comes back: its copies get what they
missed, and little more, and end up as the others on the disks."""

import time

import pytest
from harness import counters
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.copies import checksums_of, objects_of
from harness.run import wait_until

MIB = 1 << 20

# Rewrites blocks of a file in place until told to stop; says how many bytes it wrote, and what the
# file is to be.
LOAD = """
import os, random
rng = random.Random(5)
size, block = {size}, {block}
fd = os.open("/mnt/nfs/d/f", os.O_RDWR)
expected = bytearray(b"a" * size)
written = 0
signalled = False
while not os.path.exists("/tmp/stop"):
    at = rng.randrange(size // block) * block
    data = bytes([rng.randrange(1, 255)]) * block
    assert os.pwrite(fd, data, at) == block
    os.fsync(fd)
    expected[at:at + block] = data
    written += block
    if not signalled:
        signalled = True
        os.system("weft-signal loaded")
os.close(fd)
open("/tmp/expected", "wb").write(expected)
print(written)
"""


@pytest.fixture
def pair(run, network):
    """Two data servers, a folder whose files have a copy at each, and a client."""
    cluster = Cluster(run, network, Options(data_servers=2))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    cluster.client = client
    client.run("mkdir /mnt/nfs/d")
    counters.weft(cluster, "policy", "set", cluster.path + "/d", "copies=2", "stripes=1")
    return cluster


def status(cluster):
    return counters.weft(cluster, "status")


def wait_resynced(cluster, timeout_s=60):
    wait_until(lambda: status(cluster)["stale_objects"] == 0, timeout_s, "the copies to be equal",
               0.3)


@pytest.mark.faults
@pytest.mark.parametrize("victim", [0, 1])
def test_lost_under_writes(pair, victim):
    """What crosses the network is at most 1.5 times what was written meanwhile."""
    size, block = 64 * MIB, 64 << 10
    client = pair.client
    client.run(f"tr '\\0' a < /dev/zero | head -c {size} > /mnt/nfs/d/f; sync", 120)
    before = status(pair)["repair_copied_bytes"]
    job = client.start_job("rm -f /tmp/stop; python3 - <<'END'\n"
                           + LOAD.format(size=size, block=block) + "END\n")
    client.wait_event("loaded")
    pair.ds[victim].process.kill()
    time.sleep(6)
    pair.ds[victim].process.start()
    pair.wait_up()
    time.sleep(2)  # writes go on during the resync
    client.run("touch /tmp/stop")
    written = int(job.wait(120).output.strip().splitlines()[-1])
    wait_resynced(pair)
    client.run("weft-drop-caches; cmp /mnt/nfs/d/f /tmp/expected", 120)
    first, second = (checksums_of(server.store) for server in pair.ds[:2])
    assert first == second
    sizes = [file.stat().st_size for file in objects_of(pair.ds[0].store).values()]
    assert size in sizes
    copied = status(pair)["repair_copied_bytes"] - before
    assert 0 < copied <= 1.5 * written
