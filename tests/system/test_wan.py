"""A client 300 ms away, behind a delay line: sessions, layouts and recalls hold at that distance.
Another client is near."""

import time

import pytest
from harness.client import start_clients
from harness.cluster import Cluster, Options
from harness.copies import wait_equal
from harness.counters import MIB, through_data_servers, weft
from harness.delay_line import DelayLine
from harness.run import wait_until

RTT_MS = 300
RATE = 12 * MIB
FILE_MIB = 24
OUTAGE_S = 60
AFTER_OUTAGE_S = 240

HEAD = "#!/usr/bin/python3\nimport os\nfrom weftio import *\n"


@pytest.fixture
def ends(run, network):
    """A Weft of two copies, the client that is far away, one that is near, and the line."""
    cluster = Cluster(run, network, Options(domains=("a", "b"),
                                            extra={"Copies": "2", "Inline": "0"}))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    far, near = start_clients(run, network, ["uml61", "uml61"])
    line = DelayLine(run, far.node)
    line.set(RTT_MS, rate=RATE)
    near.mount(cluster.address, cluster.path)
    far.mount(cluster.address, cluster.path, mount_options(cluster))
    return cluster, far, near, line


def mount_options(cluster) -> str:
    return weft(cluster, "plan", "wan", "--bandwidth", str(RATE), "--delay", f"{RTT_MS}ms",
                "--servers", "2")["mount_options"]


def revoked(run) -> bool:
    return "event=layout_revoked" in (run.folder / "ganesha.log").read_text()


def test_writes_and_reads_back(run, ends):
    cluster, far, near, _ = ends
    with through_data_servers(cluster, written=FILE_MIB * MIB, read=FILE_MIB * MIB):
        far.run(f"""set -e
head -c {FILE_MIB}M /dev/urandom > /tmp/in
cp /tmp/in /mnt/nfs/a
weft-drop-caches
cmp /tmp/in /mnt/nfs/a
sha256sum < /tmp/in > /mnt/nfs/sum""", 180)
    near.run('[ "$(sha256sum < /mnt/nfs/a)" = "$(cat /mnt/nfs/sum)" ]', 90)
    wait_equal(cluster)
    assert not revoked(run)


def test_a_recall_is_answered(run, ends):
    """Of the layout under which the far client writes, by a near one that cuts the file."""
    cluster, far, near, _ = ends
    job = far.start_job(f"""{HEAD}
fd = os.open("/mnt/nfs/a", os.O_CREAT | os.O_RDWR)
for at in range(8):
    os.pwrite(fd, block(at), at * MIB)
os.fsync(fd)
os.system("weft-signal written; weft-wait cut 120")
os.pwrite(fd, block(9), 9 * MIB)  # by another layout
os.fsync(fd)
os.close(fd)
drop_caches()
check("/mnt/nfs/a", block(0) + block(1) + bytes(7 * MIB) + block(9))
""")
    far.wait_event("written", 120)
    before = weft(cluster, "status")["recalls"]
    near.run(f"truncate -s {2 * MIB} /mnt/nfs/a", 60)
    after = weft(cluster, "status")
    assert after["recalls"] > before
    near.python(f"{HEAD}check('/mnt/nfs/a', block(0) + block(1))", 60)
    far.signal("cut")
    job.wait(180)
    near.python(f"{HEAD}check('/mnt/nfs/a', block(0) + block(1) + bytes(7 * MIB) + block(9))", 60)
    wait_until(lambda: weft(cluster, "status")["recalls_pending"] == 0, 60, "recalls to be over")
    assert not revoked(run)
    wait_equal(cluster)


@pytest.mark.faults
@pytest.mark.long
def test_an_outage_of_a_minute(ends):
    """In the middle of a write: it goes on afterwards, and all of it is there. The client's lease
    has ended meanwhile, and its layouts were revoked."""
    cluster, far, near, line = ends
    job = far.start_job(f"""{HEAD}
fd = os.open("/mnt/nfs/a", os.O_CREAT | os.O_WRONLY)
for at in range({4 * FILE_MIB}):
    os.pwrite(fd, block(at), at * MIB)
    if at % 8 == 7:
        os.fsync(fd)
    if at == {FILE_MIB - 1}:
        os.system("weft-signal middle")
os.close(fd)
""")
    far.wait_event("middle", 120)
    line.cut()
    time.sleep(OUTAGE_S)
    assert not job.done()
    line.restore()
    job.wait(AFTER_OUTAGE_S)
    whole = f"check('/mnt/nfs/a', b''.join(block(at) for at in range({4 * FILE_MIB})))"
    near.python(f"{HEAD}{whole}", 120)
    wait_equal(cluster)
