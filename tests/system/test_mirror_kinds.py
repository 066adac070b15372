"""A data server is killed while a kernel client writes: with three copies, with asynchronous
duplication, and with two clients that write the same file. Nobody sees an error, every byte is
right, and the copies are equal on the disks after the repair."""

import json
import time

import pytest
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.copies import objects_of, wait_equal
from harness.counters import weft
from harness.run import wait_until

pytestmark = pytest.mark.faults

# Writes every second unit of a file, from its own one on, over and over for a while, and syncs
# often. What it wrote last of each is in the versions that it prints.
LOAD = """#!/usr/bin/python3
import json, os, time
from weftio import *
me, seconds, unit, units = {me}, {seconds}, 256 * KIB, 64
fd = os.open("/mnt/nfs/a", os.O_CREAT | os.O_RDWR)
versions, count = {{}}, 0
end = time.monotonic() + seconds
os.system("weft-signal writing")
while time.monotonic() < end or len(versions) < units // {of}:
    at = (count * {of} + me) % units
    version = count * {of} + me
    assert os.pwrite(fd, block(version, unit), at * unit) == unit
    versions[at] = version
    count += 1
    if count % 8 == 0:
        os.fsync(fd)
os.fsync(fd)
os.close(fd)
print(json.dumps(versions))
"""

CHECK = """
from weftio import *
drop_caches()
unit = 256 * KIB
versions = {versions}
check("/mnt/nfs/a", b"".join(block(versions[str(at)], unit) for at in range(len(versions))))
"""


def kill_under_load(run, network, domains, options, writers=1, seconds=10):
    cluster = Cluster(run, network, Options(
        data_servers=len(domains), supervise=True, domains=domains, **options))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    clients = [start_client(run, network) for _ in range(writers)]
    jobs = []
    for me, client in enumerate(clients):
        client.mount(cluster.address, cluster.path)
        jobs.append(client.start_job(LOAD.format(me=me, of=writers, seconds=seconds)))
    for client in clients:
        client.wait_event("writing")
    wait_until(lambda: sum(1 for server in cluster.ds if objects_of(server.store, 1 << 20)) > 1, 30,
               "data at the data servers", 0.1)
    [stripe] = weft(cluster, "layout", "show", f"{cluster.path}/a")["stripes"]
    leaders = [copy["ds_name"] for copy in stripe["copies"] if copy["leads"]]
    lost = next(server for server in cluster.ds
                if server.name == (leaders or [stripe["copies"][0]["ds_name"]])[0])
    time.sleep(1)
    assert not any(job.done() for job in jobs)
    lost.process.kill()
    time.sleep(4)
    lost.process.start()
    versions = {}
    for job in jobs:
        versions |= json.loads(job.wait(seconds * 4 + 60).output.splitlines()[-1])
    assert len(versions) == 64
    cluster.wait_up()
    wait_until(lambda: weft(cluster, "status")["stale_objects"] == 0, 120, "the repair", 0.5)
    wait_equal(cluster, int(options["extra"]["Copies"]))
    for client in clients:
        client.python(CHECK.format(versions=versions))


LAYOUTS = ("files", pytest.param("flexfiles", marks=pytest.mark.long))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_three_copies(run, network, layout):
    kill_under_load(run, network, ("a", "b", "c"),
                    {"layout": layout, "stripe_count": 1, "extra": {"Copies": "3"}})


def test_asynchronous_duplication(run, network):
    kill_under_load(run, network, ("a", "b"), {
        "stripe_count": 1, "extra": {"Copies": "2", "Duplication": "server-async"}})


@pytest.mark.long
def test_three_copies_asynchronous(run, network):
    kill_under_load(run, network, ("a", "b", "c"), {
        "stripe_count": 1, "extra": {"Copies": "3", "Duplication": "server-async"}})


@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_writers(run, network, layout):
    kill_under_load(run, network, ("a", "b"),
                    {"layout": layout, "stripe_count": 1, "extra": {"Copies": "2"}}, writers=2)


@pytest.mark.long
def test_two_writers_asynchronous(run, network):
    kill_under_load(run, network, ("a", "b"), {
        "stripe_count": 1, "extra": {"Copies": "2", "Duplication": "server-async"}}, writers=2)
