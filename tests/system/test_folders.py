"""Large folders: every name once, under the eyes of a readdir that is slower than the changes."""

import pytest


# Every job prints how long it took.
TIMED = """
import os, subprocess, time
from weftio import *
started = time.monotonic()

def done(what, count):
    seconds = time.monotonic() - started
    print(f"{what} {count} in {seconds:.1f} s, {count / seconds:.0f}/s", flush=True)

os.chdir(%r)
"""


def timed(client, folder, script, timeout_s):
    print(client.python(TIMED % folder + script, timeout_s).output, end="", flush=True)


def fill(client, folder, count, timeout_s):
    timed(client, folder, f"""
for number in range({count}):
    os.close(os.open(f"file-{{number:06}}", os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o644))
done("created", {count})
""", timeout_s)


def check_names(client, folder, expected, timeout_s):
    timed(client, folder, f"""
drop_caches()
started = time.monotonic()
names = os.listdir(".")
done("listed", len(names))
same("entries", len(names), {expected})
same("different names", len(set(names)), {expected})
same("sorted as made", sorted(names)[-1], "file-%06d" % ({expected} - 1))
""", timeout_s)


def check_attributes(client, folder, expected, timeout_s):
    """ls -l, and then a stat of some names with nothing cached."""
    timed(client, folder, f"""
drop_caches()
started = time.monotonic()
lines = subprocess.run(["ls", "-l"], stdout=subprocess.PIPE, text=True, check=True).stdout
lines = lines.splitlines()[1:]
done("ls -l of", len(lines))
same("lines", len(lines), {expected})
wrong = [line for line in lines if not line.startswith("-rw-r--r-- 1 ")]
same("strange lines", wrong[:5], [])
drop_caches()
started = time.monotonic()
some = range(0, {expected}, max(1, {expected} // 1000))
for number in some:
    same("size", os.stat(f"file-{{number:06}}").st_size, 0)
done("stat of", len(some))
same("a name never made", os.path.lexists("file-x"), False)
""", timeout_s)


def remove_all(client, folder, count, timeout_s):
    """Removing while listing: nothing may be missed."""
    timed(client, folder, f"""
seen = 0
for entry in os.scandir("."):
    os.unlink(entry.name)
    seen += 1
done("removed", seen)
same("listed", seen, {count})
same("left over", os.listdir("."), [])
""", timeout_s)
    timed(client, folder, f'os.chdir(".."); os.rmdir({folder!r}); os.mkdir({folder!r})', 60)


def large_folder(client, folder, count, timeout_s):
    fill(client, folder, count, timeout_s)
    check_names(client, folder, count, timeout_s)
    check_attributes(client, folder, count, timeout_s)
    remove_all(client, folder, count, timeout_s)


def test_a_folder_of_5000(client, folder):
    large_folder(client, folder, 5000, 400)


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
