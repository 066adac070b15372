"""Files with holes: SEEK_DATA, SEEK_HOLE and du tell what the data servers have, and space is
reserved where it belongs."""

import pytest
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import MIB, weft

SEEK = """
import errno, os, random, subprocess, time
from weftio import *

def seek(fd, offset, whence):
    try:
        return os.lseek(fd, offset, whence)
    except OSError as error:
        return errno.errorcode[error.errno]

def runs(fd):
    "What SEEK_DATA and SEEK_HOLE say of a whole file."
    found, at = [], 0
    while (begin := seek(fd, at, os.SEEK_DATA)) != "ENXIO":
        at = seek(fd, begin, os.SEEK_HOLE)
        found.append((begin, at))
    return found
"""


@pytest.mark.any_store
def test_one_byte_far_out(through, client, folder):
    with through():
        client.python(f"""{SEEK}
os.chdir({folder!r})
END = 1 << 43  # as far as ext4 of the data servers goes, nearly
with open("a", "w+b", buffering=0) as file:
    fd = file.fileno()
    os.pwrite(fd, b"x", END - 1)
    begun = time.monotonic()
    place = seek(fd, 0, os.SEEK_DATA)
    assert END - MIB <= place < END, place
    same("hole", seek(fd, 0, os.SEEK_HOLE), 0)
    same("hole at the end", seek(fd, END - 1, os.SEEK_HOLE), END)
    same("data behind", seek(fd, END, os.SEEK_DATA), "ENXIO")
    assert time.monotonic() - begun < 5
begun = time.monotonic()
used = int(subprocess.run(["du", "-B1", "a"], capture_output=True, check=True).stdout.split()[0])
assert 1 <= used <= 16 * MIB, used
assert time.monotonic() - begun < 2
with open("b", "w") as file:
    file.truncate(END)
    same("no data", seek(file.fileno(), 0, os.SEEK_DATA), "ENXIO")
same("size", os.stat("b").st_size, END)
assert os.stat("b").st_blocks <= 16 * MIB // 512, os.stat("b").st_blocks
""", 60)


@pytest.mark.any_store
def test_no_data_is_in_a_hole(through, client, folder):
    with through():
        client.python(f"""{SEEK}
os.chdir({folder!r})
chance, size = random.Random(11), 64 * MIB
expected = bytearray(size)
with open("a", "w+b", buffering=0) as file:
    fd = file.fileno()
    file.truncate(size)
    for turn in range(40):
        offset = chance.randrange(size - 3 * MIB)
        length = chance.choice((1, 5000, 70000, MIB, 3 * MIB))
        if turn % 4 == 3:
            subprocess.run(["fallocate", "-p", "-o", str(offset), "-l", str(length), "a"],
                           check=True)
            expected[offset:offset + length] = bytes(length)
        else:
            os.pwrite(fd, block(turn, length), offset)
            expected[offset:offset + length] = block(turn, length)
        if turn % 10 == 0:
            os.fsync(fd)
    found = runs(fd)
    shown = bytearray(size)
    for begin, end in found:
        shown[begin:end] = expected[begin:end]
    assert shown == expected, found
    assert sum(end - begin for begin, end in found) < size * 3 // 4, found
""", 120)


def test_a_file_that_was_never_written_uses_nothing(cluster, client, folder):
    if not cluster.counted:
        pytest.skip("needs a Weft")
    path = cluster.path + folder.removeprefix("/mnt/nfs")
    weft(cluster, "policy", "set", path, "inline=16KiB")
    client.python(f"""{SEEK}
os.chdir({folder!r})
with open("a", "wb", buffering=0) as file:
    file.truncate(10 * MIB)
    same("never written", os.fstat(file.fileno()).st_blocks, 0)
    os.pwrite(file.fileno(), b"x", 0)
    os.fsync(file.fileno())
    assert os.fstat(file.fileno()).st_blocks > 0
same("listed", [os.stat(name).st_size for name in os.listdir()], [10 * MIB])
""", 60)


def test_many_stripe_units_are_reserved(run, network):
    """More than 65,536, and each at its own data server only."""
    cluster = Cluster(run, network, Options(data_servers=3, stripe_unit=4096))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    client = start_client(run, network, uid=1000)
    client.mount(cluster.address, cluster.path)
    client.run("fallocate -o 1000 -l 300M /mnt/nfs/a", 90)
    client.run(f"test $(stat -c %s /mnt/nfs/a) = {1000 + 300 * MIB}")
    used = [sum(path.stat().st_blocks * 512 for path in server.store.rglob("*") if path.is_file())
            for server in cluster.ds]
    assert all(99 * MIB <= one <= 120 * MIB for one in used), used
    assert weft(cluster, "status")
    refused = client.run("fallocate -l 5G /mnt/nfs/b", check=False)  # more than 1,048,576
    assert "File too large" in refused.output
    client.run("fallocate -l 1M /mnt/nfs/c")  # by the same mount
