"""The metadata server killed again and again under a namespace load: nothing acknowledged is lost,
and the metadata store is consistent."""

import os
import random
import subprocess
import time

import pytest
from harness import paths, servers
from harness.client import start_client
from harness.cluster import Cluster, Options

pytestmark = pytest.mark.faults

# Keeps a model of what must be there. An operation whose answer was lost in a crash is done again
# by the kernel, and may then find its own work: that counts as done.
LOAD = """
import os, random, sys, time
from weftio import *

os.chdir("/mnt/nfs")
chance = random.Random({seed})
files, folders, links = {{}}, ["."], {{}}    # file -> how many names; symlink -> target
names = {{}}                                 # name -> file
count = 0

def done_before(action, already):
    try:
        action()
    except (FileExistsError, FileNotFoundError):
        if not already():
            raise

def fresh(kind):
    return os.path.join(chance.choice(folders), f"{{kind}}{{count}}")

def one():
    kind = chance.choice(["create"] * 4 + ["rename"] * 2 + ["mkdir", "symlink", "link", "unlink"])
    if kind == "create":
        name = fresh("f")
        with open(name, "w"):
            pass
        names[name], files[name] = name, 1
    elif kind == "mkdir":
        name = fresh("d")
        done_before(lambda: os.mkdir(name), lambda: os.path.isdir(name))
        folders.append(name)
    elif kind == "symlink":
        name = fresh("s")
        done_before(lambda: os.symlink("to" + name, name), lambda: os.path.islink(name))
        links[name] = "to" + name
    elif names:
        old = chance.choice(list(names))
        new = fresh("n")
        if kind == "rename":
            done_before(lambda: os.rename(old, new), lambda: os.path.exists(new))
            names[new] = names.pop(old)
        elif kind == "link":
            done_before(lambda: os.link(old, new), lambda: os.path.exists(new))
            names[new] = names[old]
            files[names[old]] += 1
        else:
            done_before(lambda: os.unlink(old), lambda: not os.path.exists(old))
            files[names.pop(old)] -= 1

while not os.path.exists("/run/weft/to_guest/event-stop"):
    one()
    count += 1
    print(count, flush=True)

drop_caches()
there = {{}}
for folder, subfolders, plain in os.walk("."):
    for name in subfolders + plain:
        path = os.path.normpath(os.path.join(folder, name))
        there[path] = os.lstat(path)
expected = set(map(os.path.normpath, [*names, *folders[1:], *links]))
same("missing", sorted(expected - set(there)), [])
same("not expected", sorted(set(there) - expected), [])
for name, file in names.items():
    same("links of " + name, there[os.path.normpath(name)].st_nlink, files[file])
for name, target in links.items():
    same("target of " + name, os.readlink(name), target)
print("checked", len(there), "names")
"""


def fsck(cluster) -> None:
    """The store's own check, with the server stopped."""
    cluster.mds.stop()
    command = servers.require(paths.weft_command())
    path = f"{servers.require(paths.fsck_program()).parent}:{os.environ['PATH']}"
    done = subprocess.run([str(command), "fsck", str(cluster.folder / "metadata")], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                          env={**os.environ, "PATH": path})
    assert done.returncode == 0, done.stdout[-3000:]


def kill_under_load(run, network, kills: int, seed: int) -> None:
    cluster = Cluster(run, network, Options(data_servers=2, lease_s=5, grace_s=6))
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    chance = random.Random(seed)
    job = client.start_job("#!/usr/bin/python3\n" + LOAD.format(seed=seed))

    def progress() -> int:
        if job.done():
            job.wait(1)
        lines = job.output().splitlines()
        return int(lines[-1]) if lines else 0

    started = time.monotonic()
    for kill in range(1, kills + 1):
        target = progress() + chance.randrange(5, 120)
        client.wait(lambda: progress() >= target, 90, f"operation {target}")
        print(f"{time.monotonic() - started:6.1f} s: kill {kill} of {kills} after {target}",
              flush=True)
        cluster.mds.kill()
        cluster.restart_mds()
    client.signal("stop")
    output = job.wait(120).output
    assert "checked" in output
    print(output.splitlines()[-1])
    client.unmount()
    if cluster.counted:
        fsck(cluster)


@pytest.mark.parametrize("seed", [1])
def test_three_kills(run, network, seed):
    kill_under_load(run, network, 3, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3])
def test_fifty_kills(run, network, seed):
    kill_under_load(run, network, 50, seed)
