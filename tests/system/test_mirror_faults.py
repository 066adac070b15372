"""Two copies, files layout: one server of a pair dies, hangs or is cut off while a kernel client
writes and reads. The application sees no error and waits for at most 10 s."""

import json
import os
import signal
import time

import pytest
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.copies import objects_of

pytestmark = pytest.mark.faults

SECONDS = 10
LIMIT_S = 10

# Writes a file that grows at first, over and over, syncing it often, and then reads it around the
# cache, for a while each. Prints the longest call of both; ends with an error when a call fails or
# data is not right.
LOAD = """#!/usr/bin/python3
import json, mmap, os, time
from weftio import *
path, blocks, seconds = "/mnt/nfs/%(name)s", 96, %(seconds)d
longest = {"writing": 0.0, "reading": 0.0}
def timed(phase, call, *arguments):
    begin = time.monotonic()
    result = call(*arguments)
    longest[phase] = max(longest[phase], time.monotonic() - begin)
    return result
seen = {}
fd = os.open(path, os.O_CREAT | os.O_RDWR)
calls = 0
end = None
while end is None or time.monotonic() < end:
    at = calls %% blocks
    seen[at] = calls
    timed("writing", os.pwrite, fd, block(calls), at * MIB)
    calls += 1
    if calls %% 4 == 0:
        timed("writing", os.fsync, fd)
    if calls == 16:
        os.system("weft-signal writing-%(name)s")
        end = time.monotonic() + seconds
timed("writing", os.fsync, fd)
os.close(fd)
drop_caches()
fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
page = mmap.mmap(-1, MIB)
os.system("weft-signal reading-%(name)s")
end = time.monotonic() + seconds
reads = 0
while time.monotonic() < end:
    at = reads %% len(seen)
    same("bytes", timed("reading", os.preadv, fd, [page], at * MIB), MIB)
    if page[:] != block(seen[at]):
        raise SystemExit(f"block {at} is not version {seen[at]}: {page[:16].hex()}")
    reads += 1
os.close(fd)
drop_caches()
check(path, b"".join(block(seen[at]) for at in sorted(seen)))
print(json.dumps({**longest, "writes": calls, "reads": reads}))
"""


@pytest.fixture
def mirrored(run, network):
    """Two pairs of data servers, supervised, and a client."""
    cluster = Cluster(run, network, Options(
        supervise=True, domains=("a", "b"), extra={"Copies": "2"}))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    cluster.client = start_client(run, network)
    cluster.client.mount(cluster.address, cluster.path)
    return cluster


class Fault:
    """Something that happens to a data server that has a copy, and its end."""

    def __init__(self, cluster):
        holders = [server for server in cluster.ds if objects_of(server.store)]
        assert len(holders) in (2, 4), [server.name for server in holders]
        self.server, self.partner = holders[:2]

    def begin(self): ...

    def end(self): ...


class Kill(Fault):
    def begin(self):
        self.server.process.kill()

    def end(self):
        self.server.process.start()


class Stop(Fault):
    """Of the server, not of its supervisor, which ends it."""

    def begin(self):
        os.kill(self.server.process.child_pid(), signal.SIGSTOP)


class Cut(Fault):
    """From the network. A 6.1 client would wait for 245 s, for the timers of its TCP; its partner
    takes the address after 3 s, so that the connection is reset."""

    def begin(self):
        self.server.node.cut()
        time.sleep(3)
        self.partner.node.take_address(self.server.node.address)

    def end(self):
        self.partner.node.drop_address(self.server.node.address)
        self.server.node.restore()


@pytest.mark.parametrize("kind, phase", [
    (Stop, "writing"), (Cut, "writing"),  # killed: test_mirrors.py
    pytest.param(Kill, "writing", marks=pytest.mark.long),
    *(pytest.param(kind, "reading", marks=pytest.mark.long) for kind in (Kill, Stop, Cut))])
def test_one_server_of_a_pair(mirrored, kind, phase):
    job = mirrored.client.start_job(LOAD % {"name": "a", "seconds": SECONDS})
    mirrored.client.wait_event(f"{phase}-a", 120)
    time.sleep(1)
    assert not job.done()
    fault = kind(mirrored)
    fault.begin()
    longest = json.loads(job.wait(SECONDS * 4 + 120).output.splitlines()[-1])
    print(f"{kind.__name__} of {fault.server.name} while {phase}: {longest}")
    fault.end()
    mirrored.wait_up()
    assert longest[phase] <= LIMIT_S, longest
    mirrored.client.run("cd /mnt/nfs; echo 3 > /proc/sys/vm/drop_caches; sha256sum a", 60)
