"""Random faults under a verified load: nothing acknowledged is lost, nothing stale is read, and the
namespace is what the client made of it.

Each round something happens to one server: it is killed, stopped, cut off, slowed down or full,
for some seconds; data servers of one failure domain only, so never two copies of a stripe at once.
After some rounds the load pauses, copies are compared on the disks once they were repaired, and it
is the other domain's turn.

WEFT_FAULT_ROUNDS (8; ./dev test faults: 200) and WEFT_FAULT_SEED (drawn, and printed) choose."""

import json
import os
import random
import signal
import time

import pytest
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.copies import wait_equal

pytestmark = pytest.mark.faults

ROUNDS = int(os.environ.get("WEFT_FAULT_ROUNDS", "8"))
TURN = 4  # rounds of one domain

# Files are written, read, made, renamed and removed at random until the event 'hold' or 'end'. What
# a file has to be is kept here: one process makes all changes, so each read is to see the last one.
LOAD = """#!/usr/bin/python3
import json, mmap, os, random, sys, time
from weftio import *
rng = random.Random(%(seed)d)
UNIT = 256 * KIB
os.chdir("/mnt/nfs")
files, version, made = {}, 0, 0
counts = {"write": 0, "read": 0, "sync": 0, "names": 0}
longest = 0.0
page = mmap.mmap(-1, UNIT)
def event(name):
    return os.path.exists("/run/weft/to_guest/event-" + name)
def new_file():
    global made
    made += 1
    name = "f%%d" %% made
    fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR)
    os.close(fd)
    files[name] = [None] * rng.randrange(4, 25)
def write(name):
    global version
    blocks = files[name]
    fd = os.open(name, os.O_RDWR)
    for _ in range(rng.randrange(1, 9)):
        at = rng.randrange(len(blocks))
        version += 1
        os.pwrite(fd, block(version, UNIT), at * UNIT)
        blocks[at] = version
        counts["write"] += 1
        if rng.randrange(3) == 0:
            os.fsync(fd)
            counts["sync"] += 1
    os.close(fd)
def expected(blocks, at):
    return bytes(UNIT) if blocks[at] is None else block(blocks[at], UNIT)
def wrong(name, at, data):
    raise SystemExit(f"{name} block {at} is not version {files[name][at]}: {data[:16].hex()}")
def read(name, everything=False):
    blocks = files[name]
    end = max((at + 1 for at, v in enumerate(blocks) if v is not None), default=0)
    same("size of " + name, os.stat(name).st_size, end * UNIT)
    direct = rng.randrange(2) == 0
    fd = os.open(name, os.O_RDONLY | (os.O_DIRECT if direct else 0))
    for at in range(end) if everything else [rng.randrange(end) for _ in range(4 if end else 0)]:
        got = os.preadv(fd, [page], at * UNIT)
        counts["read"] += 1
        if got != UNIT or page[:] != expected(blocks, at):
            wrong(name, at, page[:])
    os.close(fd)
def rename(name):
    global made
    made += 1
    os.rename(name, "f%%d" %% made)
    files["f%%d" %% made] = files.pop(name)
def step():
    kind = rng.randrange(20)
    if len(files) < 4 or kind == 0 and len(files) < 12:
        new_file()
        counts["names"] += 1
        return
    name = rng.choice(sorted(files))
    if kind == 1 and len(files) > 6:
        os.unlink(name)
        del files[name]
        counts["names"] += 1
    elif kind == 2:
        rename(name)
        counts["names"] += 1
    elif kind < 12:
        write(name)
    elif kind == 12:
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("3")
    else:
        read(name)
turn = 0
while True:
    if event(f"hold{turn}") or event("end"):
        os.sync()
        drop_caches()
        same("names", sorted(os.listdir(".")), sorted(files))
        for name in sorted(files):
            read(name, everything=True)
        os.system(f"weft-signal held{turn}")
        if event("end"):
            break
        os.system(f"weft-wait go{turn} 600")
        turn += 1
    begin = time.monotonic()
    step()
    longest = max(longest, time.monotonic() - begin)
print(json.dumps({**counts, "longest": round(longest, 1), "files": len(files)}))
"""


def wait_while_load_runs(job, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if job.done():
            job.wait(1)
            raise AssertionError("the load ended")
        time.sleep(0.2)


class Faults:
    """What may happen. Each is over when its function returns, but for what has to be repaired."""

    def __init__(self, cluster, rng, job, may_fill):
        self.cluster, self.rng, self.job, self.may_fill = cluster, rng, job, may_fill

    def _rest(self, longest_s):
        wait_while_load_runs(self.job, self.rng.uniform(0.5, longest_s))

    def kill(self, server):
        server.process.kill()
        self._rest(6)
        server.process.start()

    def stop(self, server):
        """For longer than its supervisor allows, or not."""
        child = server.process.child_pid()
        os.kill(child, signal.SIGSTOP)
        self._rest(8)
        try:
            os.kill(child, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def slow(self, server):
        server.node.limit("20mbit")
        self._rest(6)
        server.node.unlimit()

    def cut(self, server):
        """For a moment: of longer cuts 6.1 notices nothing for minutes (test_failover.py)."""
        server.node.cut()
        self._rest(4)
        server.node.restore()

    def full(self, server):
        server.fill()
        self._rest(5)
        server.unfill()

    def mds_kill(self):
        self.cluster.mds.kill()
        self._rest(3)
        self.cluster.restart_mds()

    def mds_stop(self):
        self.cluster.mds.pause()
        self._rest(8)
        self.cluster.mds.resume()

    def mds_cut(self):
        self.cluster.mds_node.cut()
        self._rest(4)
        self.cluster.mds_node.restore()

    def any(self, servers) -> str:
        kinds = [self.kill, self.stop, self.slow, self.cut]
        if self.may_fill:
            kinds.append(self.full)
        if self.rng.randrange(4) == 0:
            fault = self.rng.choice([self.mds_kill, self.mds_stop, self.mds_cut])
            fault()
            return fault.__name__
        fault, server = self.rng.choice(kinds), self.rng.choice(servers)
        fault(server)
        return f"{fault.__name__} {server.name}"


def hold(cluster, client, job, turn, copies):
    """The load pauses, having verified everything; the copies get equal on the disks."""
    client.signal(f"hold{turn}")
    deadline = time.monotonic() + 240
    while not (client.from_guest / f"event-held{turn}").exists():
        assert time.monotonic() < deadline, "the load does not come to an end"
        wait_while_load_runs(job, 0.5)
    cluster.wait_up()
    wait_equal(cluster, copies)


@pytest.mark.parametrize("copies", [1, 2])
def test_random_faults(run, network, copies):
    seed = int(os.environ.get("WEFT_FAULT_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    rng = random.Random(seed)
    full = copies > 1 and os.path.exists("/dev/loop-control")  # disks of their own, to be filled
    extra = {"Copies": str(copies)} if copies > 1 else {}
    cluster = Cluster(run, network, Options(
        supervise=True, domains=("a", "b"), stripe_unit=1 << 18, extra=extra,
        store_mib=512 if full else 0))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    job = client.start_job(LOAD % {"seed": seed})
    faults = Faults(cluster, rng, job, full)
    turn = 0
    for number in range(1, ROUNDS + 1):
        side = cluster.ds[turn % 2::2]
        wait_while_load_runs(job, rng.uniform(0.5, 3))
        what = faults.any(side)
        print(f"seed {seed} round {number}: {what}", flush=True)
        cluster.wait_up(60)
        if number % TURN == 0 and number < ROUNDS:
            hold(cluster, client, job, turn, copies)
            client.signal(f"go{turn}")
            turn += 1
    client.signal("end")
    result = json.loads(job.wait(300).output.splitlines()[-1])
    wait_equal(cluster, copies)
    print(f"seed {seed}: {result}")
    assert result["write"] > ROUNDS and result["read"] > ROUNDS
