"""Clients that die while they write, having told the metadata server nothing of their bytes."""

import json
import subprocess
import time

import pytest
from harness import paths, servers
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.config import NFS_PORT
from harness.counters import weft
from harness.run import wait_until
from wire import Status, const, layout_ops, ops

pytestmark = pytest.mark.faults

MIB = 1 << 20
SIZE = 5 * MIB
SMALL = 64 * 1024

# Written back, and no fsync: the bytes are at the data servers, and there was no LAYOUTCOMMIT.
WRITE = f"""#!/usr/bin/python3
import ctypes, os, time
from weftio import *
fd = os.open("/mnt/nfs/a", os.O_CREAT | os.O_RDWR)
os.write(fd, block(7, {SIZE}))
everything, wait_write_wait = ctypes.c_long(0), 7
libc = ctypes.CDLL("libc.so.6", use_errno=True)
assert libc.sync_file_range(fd, everything, everything, wait_write_wait) == 0
os.system("weft-signal written")
time.sleep(1000)
"""

CHECK = f"""#!/usr/bin/python3
import os
from weftio import *
assert os.stat("/mnt/nfs/a").st_size == {SIZE}, os.stat("/mnt/nfs/a").st_size
check("/mnt/nfs/a", block(7, {SIZE}))
"""


@pytest.fixture
def mounted(run, network):
    """A Weft, and two clients of it."""
    cluster = Cluster(run, network, Options(lease_s=5, grace_s=6,
                                            extra={"Kept_Layouts": "0"}))  # no writer stays
    if not cluster.counted:
        pytest.skip("needs a Weft")
    clients = start_client(run, network), start_client(run, network)
    clients[0].mount(cluster.address, cluster.path)
    clients[1].mount(cluster.address, cluster.path, "vers=4.2,noac")
    return cluster, clients


def size_of(client, timeout_s=60) -> int:
    return int(client.run("stat -c %s /mnt/nfs/a", timeout_s).output.split()[-1])


def wait_for_size(client, limit_s: float) -> float:
    """How long it took."""
    begin = time.monotonic()
    while size_of(client) != SIZE:
        assert time.monotonic() - begin < limit_s, size_of(client)
        time.sleep(0.5)
    return time.monotonic() - begin


def written(cluster) -> int:
    """How many files the journal says are being written."""
    program = servers.require(paths.fsck_program())
    done = subprocess.run([str(program), "--json", str(cluster.folder / "metadata")], text=True,
                          stdout=subprocess.PIPE, timeout=120, check=True)
    report = json.loads(done.stdout)
    assert report["clean"], report
    return report["written"]


def test_writer_that_dies_with_the_metadata_server_loses_nothing(mounted):
    cluster, (writer, other) = mounted
    writer.start_job(WRITE)
    writer.wait_event("written")
    assert size_of(other) < SIZE, "the client has told the size: the test proves nothing"
    writer.kill()
    cluster.mds.kill()
    assert written(cluster) == 1
    cluster.restart_mds()
    assert size_of(other) == SIZE, "a size was told that the data servers would have corrected"
    other.run(CHECK, 60)
    assert weft(cluster, "status")
    time.sleep(8)  # nobody writes it: the record goes
    cluster.mds.stop()
    assert written(cluster) == 0


def test_writer_that_dies_alone_loses_nothing(mounted):
    cluster, (writer, other) = mounted
    writer.start_job(WRITE)
    writer.wait_event("written")
    assert size_of(other) < SIZE, "the client has told the size: the test proves nothing"
    writer.kill()
    wait_for_size(other, 60)
    other.run(CHECK, 60)


def test_files_closed_long_ago_are_not_in_the_journal(mounted):
    cluster, (writer, _) = mounted
    writer.run("for i in 1 2 3 4 5 6 7 8; do head -c 100K /dev/zero > /mnt/nfs/f$i; done; sync",
               60)
    time.sleep(8)
    cluster.mds.kill()
    assert written(cluster) == 0
    cluster.restart_mds()
    writer.run("cat /mnt/nfs/f?", 60)


def left_in_doubt(run, network):
    """A cluster whose metadata server was killed with the only writer of a file: its SMALL bytes
    are at the data server, and nobody has told of them. It is in grace; and the file's handle."""
    cluster = Cluster(run, network, Options(data_servers=1, lease_s=5, grace_s=30,
                                            extra={"Inline": "0", "Kept_Layouts": "0"}))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    cluster.ds[0].process.wait_port(NFS_PORT)
    writer = cluster.connect(owner=b"writer")
    at_server = cluster.connect_to(cluster.ds[0], owner=b"writer")
    handle, opened = writer.open("/export", b"file", create=True)
    layout = writer.call(ops.putfh(handle), layout_ops.layoutget(opened, const.IOMODE_RW))
    [there] = layout_ops.unpack_files_layout(layout.layouts[0].body).handles
    at_server.call(ops.putfh(there), ops.write(ops.ANONYMOUS, 0, b"x" * SMALL, const.UNSTABLE4),
                   ops.commit())
    assert size_told(writer, ops.putfh(handle)) < SMALL, "it has: the test proves nothing"
    at_server.vanish()
    writer.vanish()
    cluster.mds.kill()
    assert written(cluster) == 1
    cluster.restart_mds()
    return cluster, handle


def size_told(client, *where):
    """The first size that is told."""
    def told():
        reply = client.compound(*where, ops.getattr([const.ATTR_SIZE]))
        return None if reply.status == Status.DELAY else reply.check()
    return wait_until(told, 20, "a size", 0.1).last.attributes[const.ATTR_SIZE]


def still_in_grace(cluster) -> bool:
    """Afterwards writers of before are fenced, and all sizes are known."""
    return weft(cluster, "status")["grace_left_ms"] > 0


def test_who_looks_a_name_up_hears_no_size_that_is_in_doubt(run, network):
    cluster, _ = left_in_doubt(run, network)
    client = cluster.connect(owner=b"reader")
    assert size_told(client, *client.at("/export/file")) == SMALL
    assert still_in_grace(cluster), "the test proves nothing"
    client.close()


def test_a_size_in_doubt_that_was_listed_is_not_told_for_long(run, network):
    cluster, handle = left_in_doubt(run, network)
    client = cluster.connect(owner=b"reader")
    listed = client.call(*client.at("/export"), ops.readdir(bits=[const.ATTR_SIZE]))
    assert [entry.name for entry in listed.entries] == [b"file"]
    wait_until(lambda: size_told(client, ops.putfh(handle)) == SMALL, 10, "the right size", 0.2)
    assert still_in_grace(cluster), "the test proves nothing"
    client.close()
