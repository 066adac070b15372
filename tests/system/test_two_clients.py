"""Two clients on the same files: close-to-open, truncation under a writer, fcntl locks."""

import pytest
from harness.counters import MIB

pytestmark = pytest.mark.any_store

HEAD = "import fcntl, os, subprocess, time\nfrom weftio import *\n"
SIGNALS = """
def tell(name): subprocess.run(["weft-signal", name], check=True)
def wait(name): subprocess.run(["weft-wait", name], check=True)
"""


def python(client, folder, script):
    return client.start_job(f"#!/usr/bin/python3\n{HEAD}{SIGNALS}os.chdir({folder!r})\n{script}")


def test_close_to_open(through, two_clients, folder):
    """What one client closed, the other sees at its next open: size, data, and nothing stale."""
    first, second = two_clients
    with through():
        for turn in range(8):
            writer, reader = (first, second) if turn % 2 else (second, first)
            size = (turn * 777_777) % (3 * MIB) + 1
            python(writer, folder, f"""
with open("a", "wb") as file:
    file.write(block({turn}, {size}))
""").wait(30)
            python(reader, folder, f"""
with open("a", "rb") as file:
    same("size", os.fstat(file.fileno()).st_size, {size})
check("a", block({turn}, {size}))
""").wait(30)


@pytest.mark.parametrize("flags", ["0", "os.O_SYNC"])
def test_overwrite_of_a_file_whose_mtime_is_ahead(through, two_clients, folder, flags):
    """An application may set times that are to come. Who wrote after that is seen all the same."""
    first, second = two_clients
    with through():
        python(second, folder, f"""
with open("a", "wb") as file:
    file.write(block(1, {MIB}))
os.utime("a", (time.time() + 3600,) * 2)
""").wait(30)
        python(first, folder, f"""
check("a", block(1, {MIB}))
same("cached", open("a", "rb").read() == block(1, {MIB}), True)
""").wait(30)
        python(second, folder, f"""
fd = os.open("a", os.O_WRONLY | {flags})
os.pwrite(fd, block(2, {MIB}), 0)
os.fsync(fd)
os.close(fd)
""").wait(30)
        python(first, folder, f'''
check("a", block(2, {MIB}))
same("mtime is of the write", os.stat("a").st_mtime < time.time() + 1800, True)
''').wait(30)


def test_rewriting_in_place_is_seen_at_each_open(through, two_clients, folder):
    """A log of a database: it is kept open, and each write in it is stable. Who opens it then does
    not go on with what it has read before."""
    first, second = two_clients
    with through():
        python(first, folder, f"""
with open("log", "wb") as file:
    file.write(block(0, {MIB}))
""").wait(30)
        writer = python(first, folder, """
fd = os.open("log", os.O_WRONLY | os.O_DSYNC)
for turn in range(5):
    for number in range(20):
        os.pwrite(fd, block(100 * turn + number, 64 * KIB), 64 * KIB)
    tell(f"written-{turn}")
    wait(f"seen-{turn}")
os.close(fd)
""")
        for turn in range(5):
            first.wait_event(f"written-{turn}")
            python(second, folder, f"""
with open("log", "rb") as file:
    data = file.read()
same("others", data[:64 * KIB] == block(0, {MIB})[:64 * KIB], True)
same("written", data[64 * KIB:128 * KIB] == block({100 * turn + 19}, 64 * KIB), True)
""").wait(30)
            first.signal(f"seen-{turn}")
        writer.wait(60)


def test_reader_that_keeps_the_file_open_sees_growth(through, two_clients, folder):
    first, second = two_clients
    with through():
        reader = python(first, folder, """
open("log", "wb").close()
tell("reader-ready")
wait("grown")
with open("log", "rb") as file:
    check("log", b"".join(block(n, 100000) for n in range(20)))
""")
        first.wait_event("reader-ready")
        python(second, folder, """
with open("log", "ab", buffering=0) as file:
    for number in range(20):
        file.write(block(number, 100000))
        os.fsync(file.fileno())
""").wait(60)
        first.signal("grown")
        reader.wait(60)


def test_truncate_while_the_other_writes(through, two_clients, folder):
    """A writer with a layout goes on while the other client truncates; at the end every byte is
    the writer's or zero, the size is what was last agreed, and nothing hangs."""
    first, second = two_clients
    writer = python(first, folder, """
with open("a", "w+b", buffering=0) as file:
    tell("writing")
    for turn in range(60):
        os.pwrite(file.fileno(), b"w" * 100000, (turn * 50000) % (4 * MIB))
        if turn % 5 == 0:
            os.fsync(file.fileno())
""")
    first.wait_event("writing")
    python(second, folder, """
for turn in range(12):
    os.truncate("a", (turn * 517_001) % (5 * MIB))
    time.sleep(0.1)
""").wait(90)
    writer.wait(90)
    with through():
        python(second, folder, """
with open("a", "r+b") as file:
    file.truncate(6 * MIB)
drop_caches()
data = open("a", "rb").read()
same("size", len(data), 6 * MIB)
same("foreign bytes", set(data) - {0, ord("w")}, set())
os.truncate("a", 1234)
""").wait(60)
        python(first, folder, 'same("size", os.stat("a").st_size, 1234)\n'
                              'same("read", len(open("a", "rb").read()), 1234)').wait(60)


def test_both_write_their_own_half(through, two_clients, folder):
    """O_DIRECT writers of disjoint, interleaved blocks of one file, at once."""
    with through(written=8 * MIB):
        script = """
import mmap
memory = mmap.mmap(-1, 64 * KIB)
fd = os.open("a", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
for number in range({first}, 128, 2):
    memory[:] = block(number, 64 * KIB)
    os.pwrite(fd, memory, number * 64 * KIB)
os.close(fd)
"""
        jobs = [python(client, folder, script.format(first=index))
                for index, client in enumerate(two_clients[:2])]
        for job in jobs:
            job.wait(90)
        for client in two_clients[:2]:
            python(client, folder, """
drop_caches()
check("a", b"".join(block(number, 64 * KIB) for number in range(128)))
""").wait(60)


def test_fcntl_locks_exclude_each_other(through, two_clients, folder):
    """A counter in a file, raised under a lock by both clients: no turn is lost. The lock is
    tried again and again, since a kernel that waits for one asks only every second, or rarer."""
    script = """
def lock(fd):
    while True:
        try:
            return fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(0.01)

fd = os.open("counter", os.O_CREAT | os.O_RDWR)
for turn in range(25):
    lock(fd)
    value = int(os.pread(fd, 100, 0) or b"0")
    os.pwrite(fd, b"%d" % (value + 1), 0)
    fcntl.lockf(fd, fcntl.LOCK_UN)
"""
    with through():
        jobs = [python(client, folder, script) for client in two_clients[:2]]
        for job in jobs:
            job.wait(120)
        assert two_clients[0].run(f"cat {folder}/counter").output == "50"


def test_lock_ranges_conflicts_and_release(two_clients, folder):
    first, second = two_clients
    holder = python(first, folder, """
fd = os.open("a", os.O_CREAT | os.O_RDWR)
fcntl.lockf(fd, fcntl.LOCK_EX, 100, 0)
fcntl.lockf(fd, fcntl.LOCK_SH, 100, 200)
tell("locked")
wait("checked")
os.close(fd)
tell("released")
wait("done")
""")
    first.wait_event("locked")
    python(second, folder, """
fd = os.open("a", os.O_RDWR)
def refused(kind, length, start):
    try:
        fcntl.lockf(fd, kind | fcntl.LOCK_NB, length, start)
        return False
    except OSError:
        return True
same("overlap", refused(fcntl.LOCK_EX, 10, 95), True)
same("shared over exclusive", refused(fcntl.LOCK_SH, 1, 0), True)
same("gap", refused(fcntl.LOCK_EX, 100, 100), False)
same("shared over shared", refused(fcntl.LOCK_SH, 100, 200), False)
same("exclusive over shared", refused(fcntl.LOCK_EX, 1, 250), True)
""").wait(30)
    first.signal("checked")
    first.wait_event("released")
    python(second, folder, """
fd = os.open("a", os.O_RDWR)
fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
""").wait(30)
    first.signal("done")
    holder.wait(30)


KEEP_OPEN = """
fd = os.open("a", os.O_CREAT | os.O_RDWR)
os.write(fd, block(1, 3 * MIB))
os.fsync(fd)
tell("kept-open")
wait("unlinked")
same("links", os.fstat(fd).st_nlink, 0)
same("data", os.pread(fd, 3 * MIB, 0) == block(1, 3 * MIB), True)
same("size", os.fstat(fd).st_size, 3 * MIB)
os.pwrite(fd, block(2, MIB), 3 * MIB)
os.fsync(fd)
drop_caches()
same("both", os.pread(fd, 4 * MIB, 0) == block(1, 3 * MIB) + block(2, MIB), True)
same("size", os.fstat(fd).st_size, 4 * MIB)
os.close(fd)
"""


def test_unlinked_by_the_other(through, two_clients, folder):
    """A file that one client has open and the other removes is all there until it is closed."""
    first, second = two_clients
    with through():
        holder = python(first, folder, KEEP_OPEN)
        first.wait_event("kept-open")
        python(second, folder, 'os.unlink("a"); same("names", os.listdir("."), [])').wait(30)
        first.signal("unlinked")
        holder.wait(60)
