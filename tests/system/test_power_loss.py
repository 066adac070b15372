"""Power loss: what is not stable on a server's file system is gone, at one moment, and its
processes with it. Nothing acknowledged is lost, no name and no byte, and every server starts again
by itself.

Every store, the metadata server's folder and that with what it keeps of clients (RecoveryRoot) are
on an ext4 of their own, which is shut down without its log. Loop devices neither tear nor reorder.

WEFT_FAULT_ROUNDS (4, with segments 2; ./dev test faults: 200) and WEFT_FAULT_SEED (drawn, and
printed) choose."""

import os
import random
import shutil

import pytest
from harness.client import start_client, start_clients
from harness.cluster import Cluster, Options
from harness.disks import LAZY, Disk, lose_power
from harness.copies import kept_checksums, wait_equal
from harness.counters import weft
from harness.run import sh, wait_until
from harness.verified_load import VerifiedLoad

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not os.path.exists("/dev/loop-control"),
                       reason="this host has no loop devices, so no disk of a server's own")]

ROUNDS = int(os.environ.get("WEFT_FAULT_ROUNDS", "4"))
SEGMENT_ROUNDS = int(os.environ.get("WEFT_FAULT_ROUNDS", "2"))
TURN = 2  # rounds between the times at which all is verified
AWAY_S = 5  # what a server takes until it is back
# Of a step of the load, by docs/troubleshooting.md and docs/fail-over.md: a client has its layouts
# when the grace period ends, which another loss of the same turn begins anew, and goes on up to
# 15 s later than it could; then 10 s for data servers.
LONGEST_S = TURN * (AWAY_S + Options.grace_s) + 15 + 10

KINDS = {"one copy": {}, "two copies": {"extra": {"Copies": "2"}, "domains": ("a", "b")},
         "flexfiles": {"extra": {"Copies": "2"}, "domains": ("a", "b"), "layout": "flexfiles"},
         "checksums": {"extra": {"Copies": "2"}, "domains": ("a", "b"), "store": "folder",
                       "store_options": "checksums = true\n"},
         "parity": {"store": "parity3"}}


def start(run, network, kind):
    seed = int(os.environ.get("WEFT_FAULT_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    options = KINDS.get(kind, {"store": kind})
    cluster = Cluster(run, network, Options(power=True, stripe_unit=1 << 18, **options,
                                            data_servers=2 if kind == "parity" else 4))
    cluster.recovery = recovery_disk(run, cluster)
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    return cluster, client, random.Random(seed), seed


def recovery_disk(run, cluster):
    """RecoveryRoot gets one. It is not within the metadata server's, which could not be unmounted
    without it."""
    cluster.mds.stop()
    disk = Disk(run, run.make_folder("recovery"), 64, LAZY)
    shutil.rmtree(cluster.folder / "recovery")
    (cluster.folder / "recovery").symlink_to(disk.folder)
    sh("sync", "-f", str(cluster.folder))
    cluster.restart_mds()
    cluster.wait_up()
    return disk


def found_bad(cluster):
    """Blocks that were called bad: no disk here has any."""
    return [server.name for server in cluster.ds if "event=bad_block" in
            server.process.log.read_text(errors="replace")]


def read_all(cluster, client):
    """All is read from the disks, by a client that has none of it."""
    client.unmount()
    client.mount(cluster.address, cluster.path)
    client.run("cat /mnt/nfs/* > /dev/null", 120)


def stores(cluster):
    return [(server.disk, server.process) for server in cluster.ds + cluster.targets]


def metadata_server(cluster):
    return [(cluster.mds_disk, cluster.mds), (cluster.recovery, cluster.mds)]


def take_power(cluster, machines):
    """What is stable on these disks is there when their servers run again."""
    lose_power(machines)
    for process in {process.name: process for _, process in machines}.values():
        process.start()
    cluster.wait_up(90)


def some_machines(cluster, rng):
    """What loses power this time, and how that is called."""
    mds = metadata_server(cluster)
    one = rng.choice(stores(cluster))
    return rng.choice([
        ("one store", [one]), ("all stores", stores(cluster)), ("the metadata server", mds),
        ("what is kept of clients", mds[1:]), ("the metadata server and a store", [*mds, one]),
        ("everything", [*mds, *stores(cluster)])])


@pytest.mark.parametrize("kind", KINDS)
def test_power_loss_under_load(run, network, kind):
    """The client lives on, and writes again what it was not told to be stable."""
    cluster, client, rng, seed = start(run, network, kind)
    copies = 0 if cluster.targets else int(KINDS[kind].get("extra", {}).get("Copies", "1"))
    load = VerifiedLoad(client, seed)
    for number in range(1, ROUNDS + 1):
        load.run_on(rng.uniform(1, 6))
        what, machines = some_machines(cluster, rng)
        print(f"seed {seed} round {number}: {what}", flush=True)
        take_power(cluster, machines)
        if number % TURN == 0 and number < ROUNDS:
            load.hold(cluster, copies)
            load.go_on()
    load.wait_enough()
    result = load.end()
    if copies:
        wait_equal(cluster, copies)
    print(f"seed {seed}: {result}")
    if kind == "checksums":
        # A server that nobody has written to since it lost power may have none.
        client.run("for i in 1 2 3 4 5 6 7 8; do "
                   "dd if=/dev/urandom of=/mnt/nfs/last$i bs=1M count=4 conv=fsync; done")
        wait_until(lambda: all(kept_checksums(server.store) for server in cluster.ds), 60,
                   "checksums", 0.5)
        read_all(cluster, client)
    assert not found_bad(cluster)
    assert result["write"] > ROUNDS and result["read"] > ROUNDS
    assert all(result[what] > 0 for what in ("grow", "cut", "punch")), result
    assert result["longest"] < LONGEST_S


def segments(cluster):
    counts = [server["counts"] for server in weft(cluster, "ds", "segments")["data_servers"]]
    return sum(one["segments"] for one in counts)


def large_files(client):
    """Those of more than a strip at each data server. Some may be renamed or removed meanwhile."""
    found = client.run("find /mnt/nfs -name 'f*' -size +3M", check=False)
    return len(found.output.splitlines())


def read_until_segments(cluster, client):
    """Over and over, with pauses in which a data server is idle for long enough."""
    def read_again():
        for _ in range(3):
            client.run("weft-drop-caches; cat /mnt/nfs/* > /dev/null", 120)
        return segments(cluster)
    return wait_until(read_again, 180, "segments", 3)


def test_power_loss_with_segments(run, network):
    """Files are read over and over until there are segments. The power goes while more are written,
    or while files are changed, which ends segments."""
    cluster, client, rng, seed = start(run, network, "segments")
    load = VerifiedLoad(client, seed)
    for number in range(1, SEGMENT_ROUNDS + 1):
        wait_until(lambda: load.run_on(0.5) or large_files(client) > 2, 120, "large files")
        load.hold(cluster, 0)
        most = read_until_segments(cluster, client)
        changes = rng.randrange(2) == 0
        if changes:
            load.go_on()
        load.run_on(rng.uniform(0, 3))
        what, machines = some_machines(cluster, rng)
        print(f"seed {seed} round {number}: {what}, {'changes' if changes else 'idle'}, "
              f"of {most} segments {segments(cluster)} left", flush=True)
        take_power(cluster, machines)
        if not changes:
            load.go_on()
    result = load.end()
    print(f"seed {seed}: {result}")
    assert not found_bad(cluster) and result["grow"] > 0
    assert result["longest"] < LONGEST_S


# Every third file is inline.
SIZE = """
def size(number):
    return 100 * KIB + number if number % 3 else 1000 + number
"""

# Says each file that is stable, and each that was renamed to where it is.
WRITER = """#!/usr/bin/python3
import os
from weftio import *
""" + SIZE + """
os.chdir("/mnt/nfs")
number = 0
while True:
    number += 1
    fd = os.open(f"made{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    os.write(fd, block(number, size(number)))
    os.fsync(fd)
    os.close(fd)
    if number % 2:
        os.rename(f"made{number}", f"f{number}")
        print(f"f{number}", flush=True)
    else:
        print(f"made{number}", flush=True)
"""

CHECK = """#!/usr/bin/python3
import os
from weftio import *
""" + SIZE.replace("%", "%%") + """
os.chdir("/mnt/nfs")
names = %r
same("missing", sorted(set(names) - set(os.listdir("."))), [])
for name in names:
    number = int(name.lstrip("fmade"))
    same("size of " + name, os.stat(name).st_size, size(number))
    check(name, block(number, size(number)))
for name in os.listdir("."):
    if name.startswith(("f", "made")):
        os.unlink(name)
"""


@pytest.mark.parametrize("kind", ["one copy", "two copies", "flexfiles", "parity"])
def test_everything_and_the_client(run, network, kind):
    """Nobody is left who could write anything again: what was synced is there."""
    cluster, client, rng, seed = start(run, network, kind)
    for number in range(1, max(1, ROUNDS // 10) + 1):
        job = client.start_job(WRITER)
        client.wait(lambda: len(job.output().splitlines()) > rng.randrange(5, 60), 120, "files")
        client.kill()
        names = job.output().rpartition("\n")[0].splitlines()
        print(f"seed {seed} round {number}: {len(names)} files", flush=True)
        take_power(cluster, [*metadata_server(cluster), *stores(cluster)])
        client = start_client(run, network)
        client.mount(cluster.address, cluster.path)
        client.run(CHECK % names, 240)


LOCK = """#!/usr/bin/python3
import fcntl, os
file = open("/mnt/nfs/f", "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
os.system("weft-signal locked; weft-wait end 300")
"""


def test_a_client_of_the_last_second_is_known_after_power_loss(run, network):
    """Its record is on a disk of its own, so that no other sync makes it stable: it was told that
    it is a client, so it may reclaim its lock, and nobody else gets that."""
    cluster = Cluster(run, network, Options(data_servers=1))
    cluster.mds.stop()
    recovery = Disk(run, cluster.folder / "recovery", 64, LAZY)
    cluster.restart_mds()
    cluster.wait_up()
    first, second = start_clients(run, network, ["uml61", "uml61"])
    second.mount(cluster.address, cluster.path)
    second.run("touch /mnt/nfs/f && chmod 666 /mnt/nfs/f && sync")
    first.mount(cluster.address, cluster.path)
    job = first.start_job(LOCK)
    first.wait_event("locked")
    lose_power([(recovery, cluster.mds)])
    cluster.restart_mds()
    refused = second.python("import fcntl\nfile = open('/mnt/nfs/f', 'r+')\n"
                            "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)", 120, check=False)
    assert refused.status == 1 and "BlockingIOError" in refused.output, refused.output
    first.signal("end")
    job.wait(30)
