"""Copies chosen by load, with the Linux client: streams of others take most of the link of a data
server, and readers and writers turn to the other copy (layout/read_choice.h, layout/copy_choice.h).
"""

import subprocess
import time
from contextlib import contextmanager

import pytest
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import MIB, snapshot
from harness.network import bits_per_second
from harness.process import Process
from harness.run import wait_until

RATE = "200mbit"
PORT = 5002
PART = 0.75  # of a link, for the streams
SIZE = 64 * MIB

SERVE = """
import socket, sys, threading
def serve(peer):
    block = bytes(1 << 18)
    try:
        while True:
            peer.sendall(block)
    except OSError:
        pass
listener = socket.create_server(("", int(sys.argv[1])))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""
TAKE = """
import socket, sys
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])))
while peer.recv(1 << 18):
    pass
"""
# Reads the file again and again, past its own cache.
READER = f"""#!/usr/bin/python3
import mmap, os, threading
def read(half):
    fd = os.open("/mnt/nfs/f", os.O_RDONLY | os.O_DIRECT)
    block = mmap.mmap(-1, 4 << 20)
    while not os.path.exists("/tmp/end"):
        for at in range(half * {SIZE // 2}, (half + 1) * {SIZE // 2}, 4 << 20):
            assert os.preadv(fd, [block], at) == 4 << 20
readers = [threading.Thread(target=read, args=(half,)) for half in (0, 1)]
for one in readers:
    one.start()
os.system("weft-signal reading")
for one in readers:
    one.join()
"""


def weft_of(run, network, layout, **extra):
    cluster = Cluster(run, network, Options(
        data_servers=2, by_load=True, domains=("a", "b"), cgroups=True, layout=layout,
        extra={"Copies": "2", "Kept_Layouts": "0", **extra},
        tables=lambda _: f"net_max = {bits_per_second(RATE) // 8}\n"))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    for server in cluster.ds:
        server.node.limit_shared(RATE, PORT, PART)
        process = Process(run, f"streams-{server.name}",
                          ["/usr/bin/python3", "-c", SERVE, str(PORT)], server.node)
        process.start()
        process.wait_port(PORT)
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    return cluster, client


@contextmanager
def others_use(network, server):
    """Streams that are no clients of Weft take their part of the data server's link."""
    running = [subprocess.Popen(["ip", "netns", "exec", network.hub, "/usr/bin/python3", "-c", TAKE,
                                 server.node.address, str(PORT)]) for _ in range(4)]
    try:
        yield
    finally:
        for stream in running:
            stream.kill()
            stream.wait()


def parts_of(cluster, seconds):
    """What each data server gives, of all that is read in so many seconds or until 16 MiB are."""
    before = snapshot(cluster)
    def read():
        time.sleep(seconds)
        found = snapshot(cluster).since(before)
        return found if found.total_read >= 16 * MIB else None
    found = wait_until(read, 60, "reads")
    return {server.name: found.read[server.name] / found.total_read for server in cluster.ds}


def sent(server):
    """Bytes, over its machine's link."""
    devices = subprocess.run(["ip", "netns", "exec", server.node.namespace, "cat", "/proc/net/dev"],
                             text=True, capture_output=True, check=True).stdout
    [link] = [row.split() for row in devices.splitlines() if row.strip().startswith("e0:")]
    return int(link[9])


@pytest.mark.parametrize("layout", ["files", "flexfiles"])
def test_long_readers_leave_a_server_that_others_come_to_use(run, network, layout):
    cluster, client = weft_of(run, network, layout)
    client.run(f"head -c {SIZE} /dev/urandom > /mnt/nfs/f && sync", 120)
    job = client.start_job(READER)
    client.wait_event("reading")
    if layout == "files":
        wait_until(lambda: min(parts_of(cluster, 2).values()) > 0.4, 60, "both copies to be read")
    parts = parts_of(cluster, 2)
    busy = max(cluster.ds, key=lambda server: parts[server.name])

    def part(seconds):
        return parts_of(cluster, seconds)[busy.name]
    with others_use(network, busy):
        wait_until(lambda: part(1) < 0.35 and part(3) < 0.35, 60, "readers to turn away and stay")
    if layout == "files":
        wait_until(lambda: part(1) > 0.4, 60, "readers to come back")
    client.run("touch /tmp/end")
    job.wait(30)


def test_who_writes_next_writes_through_the_server_with_more_to_spare(run, network):
    cluster, client = weft_of(run, network, "files")

    def brought(server):
        """How many bytes the data server sends while the client writes 8 MiB: who leads brings the
        other what is written."""
        before = sent(server)
        client.run("dd if=/dev/zero of=/mnt/nfs/f bs=1M count=8 conv=notrunc,fsync status=none", 60)
        return sent(server) - before
    # Whoever led before, it is not the one that others use.
    for busy, other in (cluster.ds, cluster.ds[::-1]):
        with others_use(network, busy):
            wait_until(lambda server=other: brought(server) >= 8 * MIB, 60,
                       f"the writer to turn to {other.name}", 1)
