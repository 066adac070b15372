"""A load that knows what has to be there, for tests in which servers fail under it.

    load = VerifiedLoad(client, seed)
    load.run_on(3)                     # while something happens to a server
    load.wait_steps(load.steps() + 2, 10)  # what it begins from now on is done within 10 s
    load.hold(cluster, copies)         # everything is verified, and the copies get equal
    load.go_on()
    counts = load.end()
"""

import json
import time

from .copies import wait_equal

# Files are written, read, made, renamed and removed at random until the event 'hold' or 'end', and
# small ones grow, from the metadata store to data servers. Both are cut, made longer and punched.
# What a file has to be is kept here: one process makes all changes, so each read is to see the last
# one. Each step that is done is a point in the job's output.
LOAD = """#!/usr/bin/python3
import json, mmap, os, random, subprocess, sys, time
from weftio import *
rng = random.Random(%(seed)d)
UNIT = 256 * KIB
PIECE = 3000
SMALL = 15 * PIECE
os.chdir("/mnt/nfs")
files, most = {}, {}  # by name what is in it, and how many bytes may be
small = {}  # by name what is in those that grow
version = made = 0
counts = {"write": 0, "read": 0, "sync": 0, "names": 0, "grow": 0, "cut": 0, "punch": 0, "again": 0}
longest = 0.0
page = mmap.mmap(-1, UNIT)
def event(name):
    return os.path.exists("/run/weft/to_guest/event-" + name)
# What a server has carried out when it dies, and not answered, the client sends again; the next
# server finds it done, and says so by an error (docs/troubleshooting.md).
def once(call, error, carried_out):
    try:
        call()
    except error:
        if not carried_out():
            raise
        counts["again"] += 1
def unlink(name):
    once(lambda: os.unlink(name), FileNotFoundError, lambda: not os.path.exists(name))
def new_file():
    global made
    made += 1
    name = "f%%d" %% made
    once(lambda: os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR)), FileExistsError,
         lambda: os.stat(name).st_size == 0)
    files[name] = bytearray()
    most[name] = UNIT * rng.randrange(4, 25)
def write(name):
    global version
    data = files[name]
    fd = os.open(name, os.O_RDWR)
    for _ in range(rng.randrange(1, 9)):
        at = rng.randrange(0, most[name], UNIT)
        version += 1
        os.pwrite(fd, block(version, UNIT), at)
        data.extend(bytes(max(0, at - len(data))))
        data[at:at + UNIT] = block(version, UNIT)
        counts["write"] += 1
        if rng.randrange(3) == 0:
            os.fsync(fd)
            counts["sync"] += 1
    os.close(fd)
def read(name, everything=False):
    data = files[name]
    same("size of " + name, os.stat(name).st_size, len(data))
    places = range(0, len(data), UNIT)
    if places and not everything:
        places = rng.choices(places, k=4)
    direct = rng.randrange(2) == 0
    fd = os.open(name, os.O_RDONLY | (os.O_DIRECT if direct else 0))
    for at in places:
        got = os.preadv(fd, [page], at)
        counts["read"] += 1
        same_bytes(name, page[:got], data[at:at + UNIT], at)
    os.close(fd)
def rename(name):
    global made
    made += 1
    to = "f%%d" %% made
    once(lambda: os.rename(name, to), FileNotFoundError,
         lambda: os.path.exists(to) and not os.path.exists(name))
    files[to], most[to] = files.pop(name), most.pop(name)
# What is cut off or punched out is zeros, also when the file is longer again.
def cut(name, data, limit):
    size = rng.choice((rng.randrange(len(data) + 1), rng.randrange(len(data), limit + 1)))
    size -= size %% rng.choice((1, 4 * KIB, UNIT))
    os.truncate(name, size)
    del data[size:]
    data.extend(bytes(size - len(data)))
    counts["cut"] += 1
def punch(name, data):
    at = rng.randrange(len(data))
    at -= at %% rng.choice((1, 4 * KIB, UNIT))
    size = min(rng.choice((1, 1000, 70000, 2 * UNIT)), len(data) - at)
    subprocess.run(["fallocate", "-p", "-o", str(at), "-l", str(size), name], check=True)
    data[at:at + size] = bytes(size)
    counts["punch"] += 1
def change():
    each = {**files, **small}
    written = sorted(name for name in each if each[name])
    if written and counts["punch"] <= counts["cut"]:
        name = rng.choice(written)
        punch(name, each[name])
    else:
        name = rng.choice(sorted(each))
        cut(name, each[name], most.get(name, SMALL))
def grow():
    global version, made
    if len(small) < 3 or len(small) < 8 and rng.randrange(4) == 0:
        made += 1
        name = "g%%d" %% made
    else:
        name = rng.choice(sorted(small))
    data = small.setdefault(name, bytearray())
    fd = os.open(name, os.O_CREAT | os.O_WRONLY)
    for _ in range(rng.randrange(1, 4)):
        version += 1
        os.pwrite(fd, block(version, PIECE), len(data))
        data += block(version, PIECE)
        counts["grow"] += 1
        if rng.randrange(2) == 0:
            os.fsync(fd)
    os.close(fd)
    if len(data) > SMALL:
        unlink(name)
        del small[name]
def step():
    kind = rng.randrange(21)
    if len(files) < 4 or kind == 0 and len(files) < 12:
        new_file()
        counts["names"] += 1
        return
    name = rng.choice(sorted(files))
    if kind == 1 and len(files) > 6:
        unlink(name)
        del files[name], most[name]
        counts["names"] += 1
    elif kind == 2:
        rename(name)
        counts["names"] += 1
    elif kind < 12:
        write(name)
    elif kind == 12:
        os.system("weft-drop-caches")
    elif kind == 13 and small:
        name = rng.choice(sorted(small))
        check(name, small[name])
    else:
        read(name)
turn = steps = 0
while True:
    if event(f"hold{turn}") or event("end"):
        os.sync()
        drop_caches()
        same("names", sorted(os.listdir(".")), sorted([*files, *small]))
        for name in sorted(files):
            read(name, everything=True)
        for name in sorted(small):
            check(name, small[name])
        os.system(f"weft-signal held{turn}")
        if event("end"):
            break
        os.system(f"weft-wait go{turn} 600")
        turn += 1
    begin = time.monotonic()
    steps += 1
    if steps %% 5 == 0:
        grow()
    elif steps %% 6 == 3:
        change()
    else:
        step()
    longest = max(longest, time.monotonic() - begin)
    print(".", end="", flush=True)
print()
print(json.dumps({**counts, "longest": round(longest, 1), "files": len(files)}))
"""


class VerifiedLoad:
    """Runs in a client that has the system mounted, until end()."""

    def __init__(self, client, seed: int):
        self.client = client
        self._job = client.start_job(LOAD % {"seed": seed})
        self._turn = 0

    def run_on(self, seconds: float) -> None:
        """Waits. The load's own error is the test's, if it has ended."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._job.done():
                self._job.wait(1)
                raise AssertionError("the load ended")
            time.sleep(0.2)

    def steps(self) -> int:
        """How many are done."""
        return self._job.output().partition("\n")[0].count(".")

    def wait_steps(self, count: int, seconds: float) -> None:
        """Until so many are done in all. Of two more one has begun after now."""
        deadline = time.monotonic() + seconds
        while self.steps() < count:
            assert time.monotonic() < deadline, f"{self.steps()} of {count} steps in {seconds} s"
            self.run_on(0.2)

    def wait_enough(self) -> None:
        """Until it has done some of everything, while nothing happens to a server any more."""
        self.wait_steps(60, 180)

    def hold(self, cluster, copies: int) -> None:
        """The load pauses, having verified everything; the copies get equal on the disks (of data
        servers' own folders; 0: they are elsewhere)."""
        self.client.signal(f"hold{self._turn}")
        deadline = time.monotonic() + 240
        while not (self.client.from_guest / f"event-held{self._turn}").exists():
            assert time.monotonic() < deadline, "the load does not come to an end"
            self.run_on(0.5)
        cluster.wait_up()
        if copies:
            wait_equal(cluster, copies)

    def go_on(self) -> None:
        """After hold()."""
        self.client.signal(f"go{self._turn}")
        self._turn += 1

    def end(self) -> dict:
        """Once more it verifies everything. Returns what it did: counts, and the longest step in
        seconds."""
        self.client.signal("end")
        return json.loads(self._job.wait(300).output.splitlines()[-1])
