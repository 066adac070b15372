"""Exports with the flexible files layout: the client writes both copies of a file itself and reads
either, and goes on when the data server of one dies."""

import re
import time

import pytest
from harness import paths, servers
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import MIB, through_data_servers, weft
from harness.run import sh

def mounted(run, network, kind="uml61", **extra):
    cluster = Cluster(run, network, Options(layout="flexfiles",
                                            extra={"Copies": "2", **extra}))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    client = start_client(run, network, kind)
    client.mount(cluster.address, cluster.path)
    assert client.pnfs_driver() == "LAYOUT_FLEX_FILES"
    return cluster, client


def copies_of(cluster, path):
    """The file's object at every data server that has one, as it is on disk."""
    name = weft(cluster, "layout", "show", path)["object"]
    found = {}
    for server in cluster.ds:
        for file in server.store.rglob(f"*{name}*"):
            found[server.name] = file.read_bytes()
    return found


@pytest.mark.parametrize("kind", ["uml61", "uml612"])
def test_copy_in_and_out(run, network, kind):
    """Both copies are byte for byte what was written, and no I/O went to the metadata server."""
    cluster, client = mounted(run, network, kind)
    with through_data_servers(cluster, written=2 * 32 * MIB, read=32 * MIB):
        client.run("""
head -c 32M /dev/urandom > /tmp/in
dd if=/tmp/in of=/mnt/nfs/a bs=1M conv=fsync status=none
weft-drop-caches
cmp /mnt/nfs/a /tmp/in
sha256sum < /tmp/in
""", 120)
        for number in range(8):
            client.run(f"head -c 100000 /tmp/in > /mnt/nfs/small{number}")
    copies = copies_of(cluster, "/export/a")
    assert len(copies) == 2, list(copies)
    first, second = copies.values()
    assert len(first) == 32 * MIB and first == second


@pytest.mark.parametrize("mirrors", ["sync", "async"])
def test_our_own_client_writes_both_copies(run, network, mirrors):
    """The load generator as a client that duplicates (protocols 3 and 4): after its commit the
    copies are equal on the disks, and a window that is full delays it, no more."""
    cluster = Cluster(run, network, Options(layout="flexfiles", extra={"Copies": "2"}))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    node = network.program(1)
    binary = servers.require(paths.build_folder() / "tools" / "load" / "weft-load")
    common = [*node.enter_command(), str(binary), "data", "--address",
              cluster.address, "--export", cluster.path, "--file", "own", "--keep", "--size",
              "32MiB", "--mirrors", mirrors, "--window", "2MiB", "--verify", "--seconds", "1"]
    with through_data_servers(cluster, written=2 * 32 * MIB, read=32 * MIB):
        sh(*common, "--op", "write", timeout=60)
        sh(*common, "--op", "read", timeout=60)
    first, second = copies_of(cluster, "/export/own").values()
    assert len(first) == 32 * MIB and first == second


READER = """
import os, time
from weftio import *
worst = 0.0
fd = os.open("/mnt/nfs/a", os.O_RDONLY)
data = block(1, SIZE)
begun = time.monotonic()
turn = 0
while time.monotonic() - begun < 25:
    at = turn * MIB % SIZE
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    before = time.monotonic()
    same("data", os.pread(fd, MIB, at) == data[at:at + MIB], True)
    worst = max(worst, time.monotonic() - before)
    turn += 1
    if turn == 20:
        os.system("weft-signal reading")
print(f"turns={turn} worst={worst:.2f}")
"""


@pytest.mark.faults
@pytest.mark.parametrize("kind", [pytest.param("uml61", marks=pytest.mark.long), "uml612"])
def test_data_server_killed_while_reading(run, network, kind):
    """The other copy is read: no error at the application, and a short pause."""
    cluster, client = mounted(run, network, kind)
    client.python("from weftio import *\nwith open('/mnt/nfs/a', 'wb') as file:\n"
                  "    file.write(block(1, 16 * MIB))")
    io = {row["ds_name"] for row in weft(cluster, "layout", "show", "/export/a")["io"]}
    holders = sorted(copies_of(cluster, "/export/a"))
    assert io <= set(holders), (io, holders)
    client.drop_caches()
    with through_data_servers(cluster, mds_calls=64) as found:
        job = client.start_job("#!/usr/bin/python3\nSIZE = 16 << 20\n" + READER)
        client.wait_event("reading")
        time.sleep(1)
        read_from = max(holders, key=lambda name: counted_reads(cluster, name))
        next(s for s in cluster.ds if s.name == read_from).process.kill()
        output = job.wait(90).output
    worst = float(re.search(r"worst=([0-9.]+)", output).group(1))
    print(f"{kind}: {output.strip()}; {found['counts']}")
    assert worst < 10, output


def counted_reads(cluster, name):
    return next(s["read_bytes"] for s in weft(cluster, "ds", "list") if s["name"] == name)


WRITER = """
import os, time
from weftio import *
worst = 0.0
fd = os.open("/mnt/nfs/w", os.O_CREAT | os.O_WRONLY)
begun = time.monotonic()
turn = 0
while time.monotonic() - begun < 25 or turn < 32:
    before = time.monotonic()
    os.pwrite(fd, block(turn, MIB), turn * MIB)
    os.fsync(fd)
    worst = max(worst, time.monotonic() - before)
    turn += 1
    if turn == 8:
        os.system("weft-signal writing")
    time.sleep(0.05)
os.close(fd)
drop_caches()
with open("/mnt/nfs/w", "rb") as file:
    for at in range(turn):
        same(f"block {at}", file.read(MIB) == block(at, MIB), True)
print(f"turns={turn} worst={worst:.2f}")
"""


@pytest.mark.faults
@pytest.mark.parametrize("kind", ["uml61", pytest.param("uml612", marks=pytest.mark.long)])
def test_data_server_killed_while_writing(run, network, kind):
    """The copy is left out, durably, and the file goes on at the other: no error, a short pause."""
    cluster, client = mounted(run, network, kind)
    job = client.start_job("#!/usr/bin/python3\n" + WRITER)
    client.wait_event("writing")
    victim, other = sorted(copies_of(cluster, "/export/w"))
    next(s for s in cluster.ds if s.name == victim).process.kill()
    output = job.wait(120).output
    print(f"{kind}: {output.strip()}")
    turns, worst = re.search(r"turns=(\d+) worst=([0-9.]+)", output).groups()
    assert float(worst) < 10, output
    left = copies_of(cluster, "/export/w")
    assert len(left[other]) == int(turns) * MIB > len(left[victim])
    assert "event=copy_stale" in (run.folder / "ganesha.log").read_text()
