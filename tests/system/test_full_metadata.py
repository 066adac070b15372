"""A full metadata disk: nothing is made, everything else goes on, and so does the server when there
is space again. And a disk that fails: the server ends, to be started again."""

import os
import time

import pytest
from harness import disks
from harness.client import start_client, start_clients
from harness.cluster import Cluster, Options
from harness.counters import weft
from harness.process import tail
from harness.run import wait_until
from wire import NfsError, Op, Status

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not os.path.exists("/dev/loop-control"), reason="needs loop devices")]

MAKE = """
import errno, os
from weftio import *
os.chdir(DIRECTORY)
os.mkdir("dir")
os.mkdir("gone")
for number in range(50):
    for directory in ("dir", "gone"):
        with open(f"{directory}/{number}", "wb") as file:
            file.write(block(number, 3 * KIB))
            os.fsync(file.fileno())
with open("long", "wb") as file:
    file.write(block("long", 3 * MIB))
os.sync()
"""

REFUSED = """
import errno, os
from weftio import *
os.chdir(DIRECTORY)

def refused(what, make):
    try:
        make()
    except OSError as error:
        return same(what, errno.errorcode[error.errno], "ENOSPC")
    same(what, "done", "ENOSPC")

refused("create", lambda: open("new", "wb"))
refused("mkdir", lambda: os.mkdir("new"))
refused("symlink", lambda: os.symlink("long", "new"))
refused("link", lambda: os.link("long", "new"))
refused("mknod", lambda: os.mkfifo("new"))
refused("setxattr", lambda: os.setxattr("long", "user.new", b"value"))
same("new", os.path.exists("new"), False)
"""

GOES_ON = """
import os
from weftio import *
os.chdir(DIRECTORY)
for number in range(FIRST, FIRST + 25):
    os.unlink(f"gone/{number}")
os.rename("dir/{}".format(FIRST), "dir/renamed-{}".format(FIRST))
with open("long", "r+b") as file:
    file.write(block(FIRST, MIB))
    file.flush()
    os.fsync(file.fileno())
os.truncate("long", 2 * MIB)
drop_caches()
check("long", block(FIRST, MIB) + block("long", 3 * MIB)[MIB:2 * MIB])
for number in range(26, 50):
    check(f"dir/{number}", block(number, 3 * KIB))
"""

AFTERWARDS = """
import os
from weftio import *
os.chdir(DIRECTORY)
same("gone", os.listdir("gone"), [])
same("dir", sorted(os.listdir("dir")),
     sorted({"renamed-0", "renamed-25", *map(str, range(50))} - {"0", "25"}))
for name in os.listdir("dir"):
    check(f"dir/{name}", block(name.removeprefix("renamed-"), 3 * KIB))
check("long", block(25, MIB) + block("long", 3 * MIB)[MIB:2 * MIB])
check("again", block("again"))
"""


def warned(cluster: Cluster) -> bool:
    return any("metadata store is full" in text for text in weft(cluster, "status")["problems"])


def told_the_end(run) -> bool:
    return "event=metadata_store_failed" in tail(run.folder / "ganesha.log", 200)


def make_again(client) -> None:
    client.python("""
import os, time
from weftio import *
os.chdir(DIRECTORY)
for attempt in range(200):
    try:
        with open("again", "wb") as file:
            file.write(block("again"))
        break
    except OSError:
        time.sleep(1)
os.sync()
check("again", block("again"))
""", 120)


def start(run, network, data_servers=1, **options):
    """A cluster whose metadata is on a disk of its own, and a client that has it mounted."""
    cluster = Cluster(run, network, Options(data_servers=data_servers, **options))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    return cluster, client


WRITE_F = """
import os
from weftio import *
os.chdir(DIRECTORY)
with open("f", "wb") as file:
    file.write(block("f"))
os.chmod("f", 0o644)
"""

CHECK_F = """
import os
from weftio import *
os.chdir(DIRECTORY)
check("f", block("f"))
"""


def refused_clients(cluster: Cluster) -> bool:
    return any("client that came was refused" in text
               for text in weft(cluster, "status")["problems"])


def test_a_client_that_cannot_be_recorded_is_refused(run, network):
    """It could not reclaim its locks. Who is there goes on, and there is no wait for the others."""
    cluster = Cluster(run, network, Options(data_servers=1))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    cluster.mds.stop()
    recovery = disks.Disk(run, cluster.folder / "recovery", 64)
    cluster.restart_mds()
    cluster.wait_up()
    there, other = start_clients(run, network, ["uml61", "uml612"])
    there.mount(cluster.address, cluster.path)
    there.python(WRITE_F, 60)
    disks.fill(recovery.folder)
    begun = time.monotonic()
    refused = other.run("mkdir -p /mnt/nfs; mount -t nfs -o vers=4.2 "
                        f"{cluster.address}:{cluster.path} /mnt/nfs", 60, root=True, check=False)
    assert refused.status != 0, refused.output
    assert time.monotonic() - begun < 10
    with pytest.raises(NfsError) as why:
        cluster.connect()
    assert (why.value.op, why.value.status) == (Op.CREATE_SESSION, Status.NOSPC)
    assert refused_clients(cluster)
    there.python(CHECK_F, 60)
    disks.unfill(recovery.folder)
    other.mount(cluster.address, cluster.path)
    other.python(CHECK_F, 60)
    assert not refused_clients(cluster)


def test_others_fill_the_metadata_disk(run, network):
    cluster, client = start(run, network, data_servers=2, mds_mib=256)
    client.python(MAKE, 120)
    pid = cluster.mds.pid
    disks.fill(cluster.folder)
    wait_until(lambda: warned(cluster), 20, "the warning")
    client.python(REFUSED, 120)
    client.python("FIRST = 0\n" + GOES_ON, 120)
    # The same after a start on the full disk.
    assert cluster.mds.alive and cluster.mds.pid == pid
    cluster.mds.kill()
    cluster.restart_mds()
    client.python("FIRST = 25\n" + GOES_ON, 180)
    client.python(REFUSED, 120)
    assert warned(cluster)
    pid = cluster.mds.pid
    disks.unfill(cluster.folder)
    make_again(client)
    assert cluster.mds.alive and cluster.mds.pid == pid and not warned(cluster)
    cluster.mds.kill()
    cluster.restart_mds()
    client.python("from weftio import *\ndrop_caches()\n" + AFTERWARDS, 180)


def test_metadata_fills_its_disk(run, network):
    """And what is removed makes room again."""
    cluster, client = start(run, network, mds_mib=96)
    filled = client.python("""
import errno, os
from weftio import *
os.chdir(DIRECTORY)
number, made = 0, 0
try:
    for number in range(400):
        with open(f"file-{number}", "wb"):
            pass
        for name in range(200):
            os.setxattr(f"file-{number}", f"user.{name}", os.urandom(4_000))
            made += 1
except OSError as error:
    same(f"error after {made}", errno.errorcode[error.errno], "ENOSPC")
    print("full after", made)
""", 300).output
    assert "full after" in filled
    assert int(filled.split()[-1]) * 4_000 > 40 << 20  # most of it can be used
    assert warned(cluster)
    client.python("""
import os
from weftio import *
os.chdir(DIRECTORY)
os.sync()
for name in os.listdir():
    os.unlink(name)
""", 120)
    make_again(client)
    assert cluster.mds.alive and not warned(cluster)


def test_metadata_server_ends_when_its_disk_fails(run, network):
    """Started again, it has all that was promised, and clients have noticed nothing but time."""
    cluster, client = start(run, network, mds_mib=256)
    client.run("touch /mnt/nfs/before && sync")
    disks.shut_down(cluster.folder)
    job = client.start_job("mkdir /mnt/nfs/after")
    wait_until(lambda: not cluster.mds.alive, 30, "the metadata server to end")
    assert told_the_end(run)
    assert not job.done()
    cluster.mds.kill()
    cluster.mds_disk.mount_again()
    cluster.restart_mds()
    job.wait(120)
    client.run("ls /mnt/nfs/before /mnt/nfs/after")


def test_metadata_server_ends_when_its_disk_does_not_answer(run, network):
    cluster, client = start(run, network, mds_mib=256, extra={"Metadata_Timeout": "5"})
    client.run("touch /mnt/nfs/before && sync")
    with disks.frozen(cluster.folder):
        job = client.start_job("mkdir /mnt/nfs/after")
        wait_until(lambda: told_the_end(run), 30,
                   "the end to be told")
        assert not job.done()
    wait_until(lambda: not cluster.mds.alive, 20, "the metadata server to end")
    cluster.mds.kill()
    cluster.restart_mds()
    job.wait(120)
    client.run("ls /mnt/nfs/before /mnt/nfs/after")
