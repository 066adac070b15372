"""Files with two copies: both are written, both are read, and one of a pair is lost under way."""

from collections import defaultdict

import pytest
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.copies import checksums_of, objects_of
from harness.counters import MIB, snapshot, through_data_servers

DOMAINS = ("a", "b")  # in turn

# Writes a block at a time, and says how long the longest took.
TIMED_COPY = """#!/usr/bin/python3
import os, subprocess, time
longest = 0.0
source = open("/tmp/in", "rb")
target = os.open("/mnt/nfs/f", os.O_CREAT | os.O_WRONLY)
count = 0
while True:
    block = source.read(1 << 20)
    if not block:
        break
    start = time.monotonic()
    assert os.write(target, block) == len(block)
    count += 1
    if count % 8 == 0:
        os.fsync(target)
    longest = max(longest, time.monotonic() - start)
    if count == 24:
        subprocess.run(["weft-signal", "copying"], check=True)
start = time.monotonic()
os.fsync(target)
os.close(target)
longest = max(longest, time.monotonic() - start)
print(f"longest={longest:.2f}")
"""

TIMED_READ = """#!/usr/bin/python3
import os, subprocess, time
subprocess.run("weft-drop-caches", check=True)
longest = 0.0
source = open("/tmp/in", "rb")
target = os.open("/mnt/nfs/f", os.O_RDONLY)
count = 0
while True:
    expected = source.read(1 << 20)
    start = time.monotonic()
    block = os.read(target, 1 << 20)
    longest = max(longest, time.monotonic() - start)
    assert block == expected, f"block {count} differs"
    if not block:
        break
    count += 1
    if count == 24:
        subprocess.run(["weft-signal", "copying"], check=True)
print(f"longest={longest:.2f}")
"""


@pytest.fixture
def mirrored(run, network):
    """A Weft of this test alone, of four data servers in two failure domains, that keeps two copies
    of each file; and a client that has it mounted."""
    cluster = Cluster(run, network, Options(domains=DOMAINS, extra={"Copies": "2"}))
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    cluster.client = client
    return cluster


def copies_on_disk(cluster):
    """For each content that an object with data has, which data servers have it."""
    found = defaultdict(list)
    for number, server in enumerate(cluster.ds):
        for checksum in checksums_of(server.store, at_least=MIB).values():
            found[checksum].append(number)
    return list(found.values())


def assert_mirrored(cluster):
    """Every object is on two data servers of different domains, byte for byte. There is one for
    each stripe: two, or one when placement found a pair too busy."""
    copies = copies_on_disk(cluster)
    assert len(copies) in (1, 2), copies
    for servers in copies:
        assert len(servers) == 2, copies
        assert servers[0] % len(DOMAINS) != servers[1] % len(DOMAINS), copies
    return copies


def test_both_copies_are_written_and_both_are_read(mirrored):
    client = mirrored.client
    client.run("head -c 256M /dev/urandom > /tmp/in")
    with through_data_servers(mirrored, written=256 * MIB):
        client.run("dd if=/tmp/in of=/mnt/nfs/f bs=1M conv=fsync status=none", 120)
    holders = {mirrored.ds[number].name for pair in assert_mirrored(mirrored) for number in pair}

    # Doubled reads: each data server gives its share, or near it. One that is busy for a moment
    # is left alone.
    def all_gave():
        client.run("weft-drop-caches")
        with through_data_servers(mirrored, read=256 * MIB) as found:
            client.run("cmp /tmp/in /mnt/nfs/f", 120)
        read = found["counts"].read
        return all(read[name] >= 256 * MIB // len(holders) // 2 for name in holders)
    assert any(all_gave() for _ in range(4))


def find(cluster, role):
    """A data server that the client writes to, or one that only gets copies from another."""
    written = snapshot(cluster).written
    holders = [server for server in cluster.ds if objects_of(server.store, MIB)]
    holders.sort(key=lambda server: written[server.name])
    return holders[-1] if role == "leader" else holders[0]


def lose_one(cluster, script, role, timeout_s=150):
    """Kills a data server while the script runs; returns the script's longest pause in seconds."""
    job = cluster.client.start_job(script)
    cluster.client.wait_event("copying")
    find(cluster, role).process.kill()
    job.wait(timeout_s)
    return float(job.output().split("longest=")[1].split()[0])


@pytest.mark.faults
@pytest.mark.parametrize("role", ["leader", "partner"])
def test_a_writer_does_not_notice_that_a_data_server_is_killed(mirrored, role):
    client = mirrored.client
    client.run("head -c 96M /dev/urandom > /tmp/in")
    for server in mirrored.ds:
        server.node.limit("300mbit")
    longest = lose_one(mirrored, TIMED_COPY, role)
    print(f"pause of the writer, {role} killed: {longest} s")
    assert longest < 10
    client.run("weft-drop-caches; cmp /tmp/in /mnt/nfs/f", 120)


@pytest.mark.faults
def test_a_reader_does_not_notice_that_a_data_server_is_killed(mirrored):
    client = mirrored.client
    client.run("head -c 96M /dev/urandom > /tmp/in; cp /tmp/in /mnt/nfs/f; sync")
    for server in mirrored.ds:
        server.node.limit("300mbit")
    longest = lose_one(mirrored, TIMED_READ, "leader")
    print(f"pause of the reader: {longest} s")
    assert longest < 10
