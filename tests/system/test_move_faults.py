"""Moves under fire: data servers are drained, or filled by a rebalance, one after the other, while
a kernel client rewrites files, and the metadata server, the source or a destination is killed at
random points of that. Afterwards every byte is right, the copies are equal on the disks, and no
data server has an object that no file names.

WEFT_FAULT_ROUNDS / 10 drains and as many rebalances, but at least 2 and 1 (./dev test faults: 20);
WEFT_FAULT_SEED (drawn, and printed) chooses."""

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

ROUNDS = int(os.environ.get("WEFT_FAULT_ROUNDS", "0")) // 10
FILES = 6
FILES_TO_BALANCE = 16
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


def objects_named(cluster, files):
    """Of the files there are, which objects are where."""
    named = {server.name: set() for server in cluster.ds}
    for number in range(files):
        shown = counters.weft(cluster, "layout", "show", f"{cluster.path}/d/f{number}")
        for stripe in shown["stripes"]:
            for copy in stripe["copies"]:
                named[copy["ds_name"]].add(shown["object"])
    return named


def objects_there(cluster):
    return {server.name: set(objects_of(server.store))
            for server in cluster.ds}


def differences(cluster, files):
    """By data server: objects that are there and that no file names, and the other way round."""
    there, named = objects_there(cluster), objects_named(cluster, files)
    return {name: {"strays": there[name] - named[name], "missing": named[name] - there[name]}
            for name in there if there[name] != named[name]}


class Moves:
    """A system under load, and what has to be so when nothing moves any more."""

    def __init__(self, run, network, files, **options):
        self.seed = (int(os.environ.get("WEFT_FAULT_SEED", "0"))
                     or random.SystemRandom().randrange(1, 10**6))
        print(f"seed {self.seed}")
        self.rng = random.Random(self.seed)
        self.files = files
        self.cluster = Cluster(run, network, Options(
            data_servers=4, domains=("a", "b", "c", "d"), lease_s=5, grace_s=6,
            extra={"Proxy_Timeout": "3"}, **options))
        if not self.cluster.counted:
            pytest.skip("needs a Weft")
        self.client = start_client(run, network)
        self.client.mount(self.cluster.address, self.cluster.path)
        self.client.run("mkdir /mnt/nfs/d")
        counters.weft(self.cluster, "policy", "set", self.cluster.path + "/d", "copies=2",
                      "stripes=1")
        self.job = self.client.start_job(LOAD.format(seed=self.seed, files=files, size=SIZE))
        self.client.wait_event("loaded", 120)

    def fill_again(self, server):
        """After a drain."""
        wait_until(lambda: left(self.cluster, server) == 0, 120, f"{server.name} to be empty", 0.3)
        assert not self.job.done(), self.job.wait(1)
        tell(self.cluster, "ds", "undrain", server.name)
        self.cluster.wait_up()

    def kill_two(self, server, doing):
        what = []
        for kind in self.rng.sample(["metadata server", "source", "destination"], 2):
            time.sleep(self.rng.uniform(0, 1.5))
            what.append(kill(self.cluster, self.rng, kind, server))
        print(f"seed {self.seed} {doing} {server.name}: {', '.join(what)}", flush=True)

    def check(self):
        cluster = self.cluster
        self.client.signal("end")
        self.job.wait(180)
        wait_until(lambda: counters.weft(cluster, "status")["stale_objects"] == 0, 120, "repairs",
                   0.5)
        wait_equal(cluster)
        try:
            wait_until(lambda: not differences(cluster, self.files), 60,
                       "objects that no file names to go", 0.5)
        except TimeoutError as late:
            raise TimeoutError(f"{late}: {differences(cluster, self.files)}") from late


def test_kills_while_servers_are_drained(run, network):
    moves = Moves(run, network, FILES)
    for number in range(max(2, ROUNDS)):
        server = moves.rng.choice(moves.cluster.ds)
        tell(moves.cluster, "ds", "drain", server.name)
        moves.kill_two(server, f"drain {number + 1} of")
        moves.fill_again(server)
    moves.check()


def used(cluster):
    """The part of each data server's space that is used; None while one has not said."""
    there = known(cluster)
    if len(there) < len(cluster.ds) or any(one["state"] != "up" for one in there.values()):
        return None
    return [1 - one["free_bytes"] / one["capacity_bytes"] for one in there.values()]


def balanced(cluster):
    """Begins again what a restart of the metadata server ended (weft.1)."""
    try:
        rebalance = counters.weft(cluster, "status").get("rebalance")  # forgotten by a restart
        if rebalance is not None and not rebalance["running"]:
            parts = used(cluster)
            return parts is not None and max(parts) - min(parts) < 0.1
        counters.weft(cluster, "ds", "rebalance", "--within", "6")
    except counters.CountersUnavailable:
        pass  # it runs, or there is nobody to ask
    return False


def test_kills_while_servers_are_balanced(run, network):
    if not os.path.exists("/dev/loop-control"):
        pytest.skip("needs loop devices, which this machine or container lacks")
    moves = Moves(run, network, FILES_TO_BALANCE, store_mib=160)
    cluster = moves.cluster
    for number in range(max(1, ROUNDS)):
        server = moves.rng.choice(cluster.ds)  # gets what the others have too much of
        tell(cluster, "ds", "drain", server.name)
        moves.fill_again(server)
        wait_until(lambda: (parts := used(cluster)) and max(parts) - min(parts) > 0.1, 30,
                   "servers that are not as full", 0.3)
        tell(cluster, "ds", "rebalance", "--within", "6")
        moves.kill_two(server, f"rebalance {number + 1} to")
        wait_until(lambda: balanced(cluster), 120, "servers that are as full", 0.5)
        assert not moves.job.done(), moves.job.wait(1)
    moves.check()
