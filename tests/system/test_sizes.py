"""Sizes that the metadata server cannot know by itself: truncates under a client's own layout."""

import pytest

pytestmark = pytest.mark.any_store

HEAD = "#!/usr/bin/python3\nimport os\nfrom weftio import *\n"


def test_truncate_before_the_size_was_ever_reported(through, two_clients, folder):
    """The client writes 3 MB under a layout and sets a size before any LAYOUTCOMMIT: what it wrote
    below that size stays, what it wrote above is gone, and both clients agree."""
    first, second = two_clients
    with through():
        first.run(HEAD + f"""
os.chdir({folder!r})
for name, size in (("cut", 1000000), ("grown", 9000000)):
    fd = os.open(name, os.O_CREAT | os.O_RDWR)
    os.write(fd, block(1, 3000000))
    os.ftruncate(fd, size)
    os.close(fd)
fd = os.open("cut", os.O_RDWR)
os.pwrite(fd, b"END", 2000000)
os.close(fd)
""", timeout_s=60)
        for client in (first, second):
            client.run(HEAD + f"""
os.chdir({folder!r})
check("cut", block(1, 3000000)[:1000000] + bytes(1000000) + b"END")
check("grown", block(1, 3000000) + bytes(6000000))
""", timeout_s=60)


def test_a_commit_after_a_truncate_does_not_bring_the_old_size_back(cluster, two_clients, folder):
    """A client's LAYOUTCOMMIT may name a last byte that its own truncate cut off since."""
    first, second = two_clients
    first.run(HEAD + f"""
os.chdir({folder!r})
fd = os.open("a", os.O_CREAT | os.O_RDWR)
os.write(fd, block(2, 3000000))
os.ftruncate(fd, 0)
os.write(fd, b"")
os.pwrite(fd, block(2, 100), 0)
os.fsync(fd)
os.close(fd)
""", timeout_s=60)
    second.run(HEAD + f"""
os.chdir({folder!r})
check("a", block(2, 100))
""", timeout_s=60)


def test_a_layout_for_reading_does_not_stand_in_the_way_of_a_commit(through, two_clients, folder):
    """A client that reads a file first and appends to it later holds two layouts of it; its
    LAYOUTCOMMIT counts although the older one is for reading."""
    first, second = two_clients
    with through():
        first.run(HEAD + f"""
os.chdir({folder!r})
fd = os.open("both", os.O_CREAT | os.O_WRONLY)
os.write(fd, block(3, 3000000))
os.close(fd)
""", timeout_s=60)
        second.run(HEAD + f"""
os.chdir({folder!r})
reader = os.open("both", os.O_RDONLY)
assert os.pread(reader, 1000, 0) == block(3, 3000000)[:1000]
writer = os.open("both", os.O_WRONLY)
os.pwrite(writer, block(4, 5000000), 3000000)
os.fsync(writer)
os.close(writer)
os.close(reader)
""", timeout_s=60)
        first.run(HEAD + f"""
os.chdir({folder!r})
check("both", block(3, 3000000) + block(4, 5000000))
""", timeout_s=60)
