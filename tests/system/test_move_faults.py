"""Moves under fire: data servers are drained and filled again, one after the other, while a kernel
client rewrites files, and the metadata server, the source or a destination is killed at random
points of that. Afterwards every byte is right, the copies are equal on the disks, and no data
server has an object that no file names.

WEFT_FAULT_ROUNDS / 10 drains, but at least 2 (./dev test faults: 20); WEFT_FAULT_SEED (drawn, and
printed) chooses."""

import os
import random
import time

import pytest
from harness import counters
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.copies import objects_of, wait_equal
from harness.run import wait_until

pytestmark = pytest.mark.faults

ROUNDS = max(2, int(os.environ.get("WEFT_FAULT_ROUNDS", "0")) // 10)
FILES = 6
MIB = 1 << 20
SIZE = 4 * MIB

# Rewrites blocks of some files in place, and now and then makes one anew, until told to stop; reads
# are checked as it goes, and at the end everything is.
LOAD = """#!/usr/bin/python3
import os, random
from weftio import *
rng = random.Random({seed})
files, size, unit = {files}, {size}, 64 * KIB
names = ["/mnt/nfs/d/f%d" % i for i in range(files)]
expected = [None] * files
version = 0
def make(which):
    global version
    version += 1
    if os.path.exists(names[which]):
        os.unlink(names[which])
    data = block(version, size)
    with open(names[which], "wb") as file:
        file.write(data)
        os.fsync(file.fileno())
    expected[which] = bytearray(data)
def rewrite(which):
    global version
    fd = os.open(names[which], os.O_RDWR)
    for _ in range(rng.randrange(1, 9)):
        version += 1
        at = rng.randrange(size // unit) * unit
        assert os.pwrite(fd, block(version, unit), at) == unit
        expected[which][at:at + unit] = block(version, unit)
    os.fsync(fd)
    os.close(fd)
def read(which):
    at = rng.randrange(size // unit) * unit
    with open(names[which], "rb") as file:
        file.seek(at)
        same(names[which], file.read(unit) == bytes(expected[which][at:at + unit]), True)
for which in range(files):
    make(which)
os.system("weft-signal loaded")
while not os.path.exists("/run/weft/to_guest/event-end"):
    which, kind = rng.randrange(files), rng.randrange(40)
    if kind == 0:
        make(which)
    elif kind < 25:
        rewrite(which)
    else:
        if kind < 28:
            drop_caches()
        read(which)
drop_caches()
for which, name in enumerate(names):
    check(name, bytes(expected[which]))
print("versions", version)
"""


def known(cluster):
    """The data servers by name, or nothing while the metadata server is not there."""
    try:
        return {one["name"]: one for one in counters.weft(cluster, "ds", "list")}
    except counters.CountersUnavailable:
        return {}


def tell(cluster, *words):
    """A command, again until the metadata server is there to take it."""
    def told():
        try:
            counters.weft(cluster, *words)
        except counters.CountersUnavailable:
            return False
        return True
    wait_until(told, 60, " ".join(words), 0.3)


def left(cluster, server):
    one = known(cluster).get(server.name)
    return None if one is None else one["objects_left"]


def kill(cluster, rng, what, server):
    """The metadata server, the server that is drained, or one that its objects go to; and starts it
    again a moment later."""
    if what == "metadata server":
        cluster.mds.kill()
        time.sleep(rng.uniform(0, 1.5))
        cluster.restart_mds()
        return what
    others = [one for one in cluster.ds if one is not server]
    victim = server if what == "source" else rng.choice(others)
    victim.process.kill()
    time.sleep(rng.uniform(0, 3))
    victim.process.start()
    return f"{what} {victim.name}"


def objects_named(cluster):
    """Of the files there are, which objects are where."""
    named = {server.name: set() for server in cluster.ds}
    for number in range(FILES):
        shown = counters.weft(cluster, "layout", "show", f"{cluster.path}/d/f{number}")
        for stripe in shown["stripes"]:
            for copy in stripe["copies"]:
                named[copy["ds_name"]].add(shown["object"])
    return named


def objects_there(cluster):
    return {server.name: set(objects_of(server.store))
            for server in cluster.ds}


def test_kills_while_servers_are_drained(run, network):
    seed = int(os.environ.get("WEFT_FAULT_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    print(f"seed {seed}")
    rng = random.Random(seed)
    cluster = Cluster(run, network, Options(
        data_servers=4, domains=("a", "b", "c", "d"), lease_s=5, grace_s=6,
        extra={"Proxy_Timeout": "3"}))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    client.run("mkdir /mnt/nfs/d")
    counters.weft(cluster, "policy", "set", cluster.path + "/d", "copies=2", "stripes=1")
    job = client.start_job(LOAD.format(seed=seed, files=FILES, size=SIZE))
    client.wait_event("loaded", 120)
    kinds = ["metadata server", "source", "destination"]
    for number in range(ROUNDS):
        server = rng.choice(cluster.ds)
        tell(cluster, "ds", "drain", server.name)
        what = []
        for kind in rng.sample(kinds, 2):
            time.sleep(rng.uniform(0, 1.5))
            what.append(kill(cluster, rng, kind, server))
        print(f"seed {seed} drain {number + 1} of {server.name}: {', '.join(what)}", flush=True)
        wait_until(lambda: left(cluster, server) == 0, 120, f"{server.name} to be empty", 0.3)
        assert not job.done(), job.wait(1)
        tell(cluster, "ds", "undrain", server.name)
        cluster.wait_up()
    client.signal("end")
    job.wait(180)
    wait_until(lambda: counters.weft(cluster, "status")["stale_objects"] == 0, 120, "repairs", 0.5)
    wait_equal(cluster)
    wait_until(lambda: objects_there(cluster) == objects_named(cluster), 60,
               "objects that no file names to go", 0.5)
