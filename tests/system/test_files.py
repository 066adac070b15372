"""What POSIX promises about one file, from one client, with its data on the data servers."""

import pytest
from harness.counters import MIB

pytestmark = pytest.mark.any_store


def job(client, folder, script, timeout_s=60):
    """Runs a Python job in the folder, with weftio at hand."""
    return client.python(f"import os\nfrom weftio import *\nos.chdir({folder!r})\n{script}",
                         timeout_s)


def test_append_in_odd_pieces(through, client, folder):
    with through(written=3 * MIB):
        job(client, folder, """
whole = b""
for number, size in enumerate([1, 4096, 70001, MIB, 12345, 2 * MIB + 7]):
    piece = block(number, size)
    whole += piece
    with open("a", "ab") as file:
        file.write(piece)
    same("size", os.stat("a").st_size, len(whole))
drop_caches()
check("a", whole)
""")


def test_append_by_two_writers_on_one_client(through, client, folder):
    """O_APPEND from two descriptors that take turns: nothing is lost or overwritten."""
    with through():
        job(client, folder, """
flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
first, second = os.open("a", flags), os.open("a", flags)
for turn in range(200):
    os.write(first if turn % 2 else second, block(turn, 5000))
os.close(first); os.close(second)
drop_caches()
check("a", b"".join(block(turn, 5000) for turn in range(200)))
""")


def test_truncate_down_and_up_while_open(through, client, folder):
    """The cut-off bytes never come back: they read as zeros after growing again."""
    with through(written=5 * MIB, read=2 * MIB):
        job(client, folder, """
data = block(1, 5 * MIB)
with open("a", "w+b", buffering=0) as file:
    file.write(data)
    os.fsync(file.fileno())
    file.truncate(2 * MIB + 100)
    same("size", os.fstat(file.fileno()).st_size, 2 * MIB + 100)
    file.truncate(4 * MIB)
    file.seek(0, os.SEEK_END)
    file.write(b"tail")
drop_caches()
check("a", data[:2 * MIB + 100] + bytes(2 * MIB - 100) + b"tail")
os.truncate("a", 0)
same("size", os.stat("a").st_size, 0)
os.truncate("a", 3 * MIB + 1)
drop_caches()
check("a", bytes(3 * MIB + 1))
""")


def test_truncate_with_dirty_pages(through, client, folder):
    """Truncating while written data is still in the client's cache."""
    with through():
        job(client, folder, """
for round in range(10):
    cut = round * 300000 + 17
    with open("a", "w+b", buffering=0) as file:
        file.write(block(round, 3 * MIB))
        file.truncate(cut)
        file.seek(cut)
        file.write(b"x" * 1000)
    drop_caches()
    check("a", block(round, 3 * MIB)[:cut] + b"x" * 1000)
""")


def test_mmap_written_and_read(through, client, folder):
    with through(written=3 * MIB, read=3 * MIB):
        job(client, folder, """
import mmap
size = 3 * MIB + 4096
with open("a", "w+b") as file:
    file.truncate(size)
    with mmap.mmap(file.fileno(), size) as memory:
        memory[:] = block(5, size)
        memory.flush()
        memory[MIB - 2:MIB + 2] = b"edge"
drop_caches()
expected = bytearray(block(5, size))
expected[MIB - 2:MIB + 2] = b"edge"
check("a", bytes(expected))
with open("a", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
    same("mapped", bytes(memory[MIB - 4:MIB + 4]), bytes(expected[MIB - 4:MIB + 4]))
""")


def test_holes_read_as_zeros(through, client, folder):
    """Written at scattered places only, with the end in the middle of nowhere."""
    with through(read=2 * MIB):
        job(client, folder, """
places = [3, 700000, 3 * MIB - 5, 9 * MIB + 1, 17 * MIB]
expected = bytearray(17 * MIB + 100)
with open("a", "wb") as file:
    for place in places:
        file.seek(place)
        file.write(block(place, 100))
        expected[place:place + 100] = block(place, 100)
drop_caches()
same("size", os.stat("a").st_size, len(expected))
check("a", bytes(expected))
os.truncate("a", 40 * MIB)
drop_caches()
check("a", bytes(40 * MIB - len(expected)), len(expected))
""")


def test_reads_at_and_past_the_end(through, client, folder):
    """A file whose last stripes lie on servers that have no object for it."""
    with through():
        job(client, folder, """
with open("a", "wb") as file:
    file.write(b"short")
    file.truncate(6 * MIB + 10)
drop_caches()
fd = os.open("a", os.O_RDONLY)
same("across the end", os.pread(fd, 100, 6 * MIB + 5), bytes(5))
same("at the end", os.pread(fd, 100, 6 * MIB + 10), b"")
same("far past it", os.pread(fd, 100, 99 * MIB), b"")
same("in a hole", os.pread(fd, 8, 2 * MIB - 4), bytes(8))
""")


def test_fsync_and_o_sync(through, client, folder):
    with through(written=2 * MIB):
        job(client, folder, """
fd = os.open("a", os.O_CREAT | os.O_RDWR | os.O_SYNC)
for number in range(32):
    os.write(fd, block(number, 10000))
os.close(fd)
with open("b", "wb", buffering=0) as file:
    for number in range(2):
        file.write(block(number))
        os.fsync(file.fileno())
drop_caches()
check("a", b"".join(block(number, 10000) for number in range(32)))
check("b", block(0) + block(1))
""")


def test_unlink_of_an_open_file(through, client, folder):
    """Its data can be read and written until the last close, then the name is gone for good."""
    with through():
        job(client, folder, """
with open("a", "w+b", buffering=0) as file:
    file.write(block(1, 2 * MIB))
    os.fsync(file.fileno())
    os.unlink("a")
    same("exists", os.path.exists("a"), False)
    file.seek(2 * MIB)
    file.write(b"more")
    drop_caches()
    file.seek(0)
    same("data", file.read() == block(1, 2 * MIB) + b"more", True)
same("names", os.listdir("."), [])
""")


def test_rename_of_an_open_file_and_over_one(through, client, folder):
    with through():
        job(client, folder, """
os.mkdir("d")
with open("a", "w+b", buffering=0) as file, open("old", "w+b", buffering=0) as old:
    file.write(block(1))
    old.write(block(2))
    os.rename("a", "d/b")
    file.write(block(3))
    os.rename("d/b", "old")
    file.write(block(4))
    os.fsync(file.fileno())
    drop_caches()
    old.seek(0)
    same("replaced file", old.read() == block(2), True)
check("old", block(1) + block(3) + block(4))
same("names", sorted(os.listdir(".")), ["d", "old"])
""")


def test_times_and_blocks_follow_writes(cluster, client, folder):
    job(client, folder, """
import time
with open("a", "wb") as file:
    file.write(block(1))
before = os.stat("a")
time.sleep(1.1)
with open("a", "r+b") as file:
    file.write(b"new")
drop_caches()
after = os.stat("a")
same("mtime moved", after.st_mtime > before.st_mtime + 0.5, True)
same("size", after.st_size, MIB)
os.utime("a", (1000, 2000))
same("mtime set", os.stat("a").st_mtime, 2000)
""")


@pytest.mark.parametrize("asked, kept", [("3000-01-01", "2262-04-11"), ("1066-10-14", "1677-09-21"),
                                         ("1969-07-20", "1969-07-20")])
def test_times_of_any_year(cluster, client, folder, asked, kept):
    """What is beyond the years that are kept is their end."""
    shown = client.run(f"""
set -e
touch -d "{asked} 00:00:00 UTC" {folder}/f
weft-drop-caches
TZ=UTC stat -c %y {folder}/f
""").output
    assert shown.startswith(kept), shown


@pytest.mark.parametrize("count", [1000])
def test_many_files_open_at_once(through, client, folder, count):
    with through(written=count * 1000):
        job(client, folder, f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
files = [open(f"f{{n}}", "w+b", buffering=0) for n in range({count})]
for number, file in enumerate(files):
    file.write(block(number, 1000))
for file in files:
    os.fsync(file.fileno())
drop_caches()
for number, file in enumerate(files):
    file.seek(0)
    same(f"file {{number}}", file.read(), block(number, 1000))
    file.close()
same("names", len(os.listdir(".")), {count})
""", 300)


def test_seek_hole_and_data_do_not_lie(through, client, folder):
    """A file counts as data up to its end, where its hole is: also while it is being written, when
    the metadata server has not been told the size."""
    with through():
        job(client, folder, """
import errno, subprocess
def seek(fd, offset, whence):
    try:
        return os.lseek(fd, offset, whence)
    except OSError as error:
        return errno.errorcode[error.errno]

with open("a", "w+b", buffering=0) as file:
    fd = file.fileno()
    same("data in an empty file", seek(fd, 0, os.SEEK_DATA), "ENXIO")
    end = 0
    for size in (1, 5 * MIB, 3 * MIB):  # a single page is written stable, which tells the size
        os.pwrite(fd, bytes(size), end)
        end += size
        same("data", seek(fd, 0, os.SEEK_DATA), 0)
        same("data at the end", seek(fd, end - 1, os.SEEK_DATA), end - 1)
        same("hole", seek(fd, 0, os.SEEK_HOLE), end)
        same("hole at the end", seek(fd, end - 1, os.SEEK_HOLE), end)
        same("data behind", seek(fd, end, os.SEEK_DATA), "ENXIO")
        same("hole behind", seek(fd, end, os.SEEK_HOLE), "ENXIO")
with open("a", "rb") as file:
    same("hole", seek(file.fileno(), 0, os.SEEK_HOLE), end)
subprocess.run(["cp", "--sparse=always", "a", "b"], check=True)
check("b", bytes(end))
""")
