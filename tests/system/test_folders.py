"""Large folders: every name once, under the eyes of a readdir that is slower than the changes."""

import pytest


def fill(client, folder, count, timeout_s):
    client.python(f"""
import os
os.chdir({folder!r})
for number in range({count}):
    os.close(os.open(f"file-{{number:06}}", os.O_CREAT | os.O_WRONLY | os.O_EXCL))
""", timeout_s)


def check_names(client, folder, expected, timeout_s):
    client.python(f"""
import os
from weftio import *
drop_caches()
names = os.listdir({folder!r})
same("entries", len(names), {expected})
same("different names", len(set(names)), {expected})
same("sorted as made", sorted(names)[-1], "file-%06d" % ({expected} - 1))
""", timeout_s)


def large_folder(client, folder, count, timeout_s):
    fill(client, folder, count, timeout_s)
    check_names(client, folder, count, timeout_s)
    client.python(f"""
import os
from weftio import *
os.chdir({folder!r})
seen = 0
for entry in os.scandir("."):  # removing while listing: nothing may be missed
    os.unlink(entry.name)
    seen += 1
left = os.listdir(".")
same("left over", len(left), 0) if seen == {count} else same("listed", seen, {count})
""", timeout_s)


def test_a_folder_of_5000(client, folder):
    large_folder(client, folder, 5000, 120)


@pytest.mark.long
def test_a_folder_of_100000(client, folder):
    large_folder(client, folder, 100_000, 1800)


def test_a_deep_path_and_long_names(client, folder):
    client.python(f"""
import os
from weftio import *
os.chdir({folder!r})
name = "n" * 255
for depth in range(20):
    os.mkdir(name)
    os.chdir(name)
with open("end", "w") as file:
    file.write("here")
os.chdir({folder!r})
same("too long", os.path.lexists("x" * 255), False)
try:
    os.mkdir("x" * 256)
except OSError as error:
    same("error", error.strerror, "File name too long")
""")
