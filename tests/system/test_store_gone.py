"""Two copies, and the store of one data server goes while its process lives: clients go on with the
other copy, and what was missed is made good when the store is back."""

import time
from contextlib import ExitStack

import pytest
from harness import counters, disks
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.run import sh, wait_until

pytestmark = pytest.mark.faults

# Four files at once, written and read; says how long the longest call of each kind took.
LOAD = """#!/usr/bin/python3
import mmap, os, subprocess, threading, time
longest = {"write": 0.0, "read": 0.0}
lock = threading.Lock()
until = time.monotonic() + 75
def timed(kind, call):
    start = time.monotonic()
    result = call()
    with lock:
        longest[kind] = max(longest[kind], time.monotonic() - start)
    return result
def write(number):
    block = bytes([65 + number]) * (256 << 10)
    file = os.open(f"/mnt/nfs/w{number}", os.O_CREAT | os.O_WRONLY)
    at = 0
    while time.monotonic() < until:
        timed("write", lambda: os.pwrite(file, block, at))
        timed("write", lambda: os.fsync(file))
        at = (at + len(block)) % (8 << 20)
        time.sleep(0.05)
    os.close(file)
def read():
    memory = mmap.mmap(-1, 1 << 20)
    while time.monotonic() < until:
        file = os.open("/mnt/nfs/r", os.O_RDONLY | os.O_DIRECT)
        for at in range(0, 4 << 20, 1 << 20):
            data = timed("read", lambda: os.preadv(file, [memory], at))
            assert data == 1 << 20 and memory[:] == b"r" * (1 << 20)
        os.close(file)
        time.sleep(0.05)
threads = [threading.Thread(target=write, args=[number]) for number in range(3)]
threads.append(threading.Thread(target=read))
for thread in threads:
    thread.start()
subprocess.run(["weft-signal", "copying"], check=True)
for thread in threads:
    thread.join()
print("longest write=%.1f read=%.1f" % (longest["write"], longest["read"]))
"""


def start(run, network, options):
    cluster = Cluster(run, network, options)
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    cluster.client = client
    client.run("tr '\\0' r < /dev/zero | head -c 4M > /mnt/nfs/r; sync")
    return cluster


def report_of(cluster, name):
    return next(server for server in counters.weft(cluster, "ds", "list")
                if server["name"] == name)


def check_goes_on(cluster, breaks, mends, limit_s=35, reader=None):
    """The store of ds1 breaks under load. The other copy is never the one that counts as stale.
    `reader` makes the client that reads in the end: one that met refused connections for a minute
    tries the next after another."""
    client = cluster.client
    job = client.start_job(LOAD)
    client.wait_event("copying")
    time.sleep(3)
    breaks()
    wait_until(lambda: report_of(cluster, "ds1")["store"].startswith("not there"), 30,
               "ds1 to say that its store is gone", 0.2)
    assert report_of(cluster, "ds1")["state"] == "down"
    problems = " ".join(counters.weft(cluster, "status")["problems"])
    assert "has stopped serving" in problems, problems
    job.wait(240)
    assert report_of(cluster, "ds2")["stale_objects"] == 0
    print(job.output())
    words = job.output().split("longest ")[1].split()
    for pause in (float(word.split("=")[1]) for word in words[:2]):
        assert pause < limit_s, job.output()
    mends()
    wait_until(lambda: report_of(cluster, "ds1")["state"] == "up", 40, "ds1 to serve again", 0.5)
    wait_until(lambda: counters.weft(cluster, "status")["stale_objects"] == 0, 120,
               "what it missed", 0.5)
    assert report_of(cluster, "ds2")["stale_objects"] == 0
    # What is at ds1 is right: it is all there is.
    if reader is not None:
        client = reader()
    cluster.ds[1].process.kill()
    client.run("weft-drop-caches && "
               "test $(tr -d r < /mnt/nfs/r | wc -c) = 0 && "
               "test $(tr -d A < /mnt/nfs/w0 | wc -c) = 0 && "
               "test $(tr -d B < /mnt/nfs/w1 | wc -c) = 0 && "
               "test $(stat -c %s /mnt/nfs/w1) -gt 0", 120)


def test_target_killed(run, network):
    cluster = start(run, network, Options(data_servers=2, store="shm", on_targets=(1,),
                                          domains=("a", "b"), extra={"Copies": "2"}))
    target = cluster.targets[0].process
    check_goes_on(cluster, target.kill, target.start)


def test_disk_dead(run, network):
    """The folder's file system takes nothing any more: no write, and no fence either."""
    cluster = start(run, network, Options(data_servers=2, store_mib=256, domains=("a", "b"),
                                          extra={"Copies": "2"}))
    broken = cluster.ds[0]
    check_goes_on(cluster, lambda: disks.shut_down(broken.store), broken.new_disk_cable)


def test_disk_read_only(run, network):
    """As ext4 makes it when it finds that something is wrong."""
    cluster = start(run, network, Options(data_servers=2, store_mib=256, domains=("a", "b"),
                                          extra={"Copies": "2"}))
    broken = cluster.ds[0]
    sh("mount", "-o", "remount,errors=remount-ro", str(broken.store))
    check_goes_on(cluster, lambda: disks.find_error(broken.store), broken.new_disk_cable,
                  limit_s=10)


@pytest.mark.parametrize("supervise", [True, False])
def test_disk_hangs(run, network, supervise):
    """What is asked of it does not come back, and threads wait for it in the kernel."""
    cluster = start(run, network, Options(data_servers=2, store_mib=256, domains=("a", "b"),
                                          supervise=supervise, extra={"Copies": "2"}))
    hanging = ExitStack()

    def another():
        client = start_client(run, network)
        client.mount(cluster.address, cluster.path)
        return client

    with hanging:
        check_goes_on(cluster, lambda: hanging.enter_context(disks.frozen(cluster.ds[0].store)),
                      hanging.close, limit_s=25, reader=another)
    log = (run.folder / "ds1.log").read_text()
    assert "event=disk_hangs" in log and "event=disk_answers" in log
