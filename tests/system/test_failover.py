"""How long an application waits when a data server dies, hangs or is cut off."""

import json
import os
import signal
import time

import pytest
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.run import wait_until

pytestmark = pytest.mark.faults

# Direct I/O over all data servers, one call at a time, for %(seconds)d s. Prints the longest call
# of reads and writes; ends with an error at the first call that fails or reads what is not there.
LOAD = """#!/usr/bin/python3
import json, mmap, os, time
from weftio import *
blocks = 16
fd = os.open("/mnt/nfs/%(name)s", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
page = mmap.mmap(-1, MIB)
seen = [0] * blocks
def put(at, version):
    page[:] = block(version, MIB)
    os.pwrite(fd, page, at * MIB)
    seen[at] = version
for at in range(blocks):
    put(at, at + 1)
os.system("weft-signal running-%(name)s")
longest = {"read": 0.0, "write": 0.0}
end = time.monotonic() + %(seconds)d
version = blocks
calls = 0
while time.monotonic() < end:
    at = calls %% blocks
    calls += 1
    begin = time.monotonic()
    os.preadv(fd, [page], at * MIB)
    longest["read"] = max(longest["read"], time.monotonic() - begin)
    same("block", page[:] == block(seen[at], MIB), True)
    version += 1
    begin = time.monotonic()
    put(at, version)
    longest["write"] = max(longest["write"], time.monotonic() - begin)
os.fsync(fd)
print(json.dumps({**longest, "calls": calls}))
"""


def longest_wait(client, seconds, fault, name="load") -> float:
    """Runs the load, calls fault() in its middle. The longest time one call took."""
    job = client.start_job(LOAD % {"name": name, "seconds": seconds})
    client.wait_event(f"running-{name}", 120)
    time.sleep(1)
    fault()
    output = job.wait(seconds + 400).output
    found = json.loads(output.splitlines()[-1])
    print(found)
    return max(found["read"], found["write"])


@pytest.fixture
def supervised(run, network):
    cluster = Cluster(run, network, Options(data_servers=2, supervise=True))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    return cluster


def test_a_data_server_that_hangs_is_started_again(supervised, run, network):
    """SIGSTOP behind a live connection: without the supervisor the client waits until SIGCONT."""
    client = start_client(run, network)
    client.mount(supervised.address, supervised.path)
    server = supervised.ds[1].process
    first = server.child_pid()

    def fault():
        os.kill(first, signal.SIGSTOP)

    waited = longest_wait(client, 20, fault)
    assert 4 < waited < 10, waited
    assert server.child_pid() not in (0, first) and server.alive
    supervised.wait_up()


def test_a_supervised_data_server_stops_clean(supervised):
    server = supervised.ds[0].process
    child = server.child_pid()
    assert server.stop() == 0
    assert not os.path.exists(f"/proc/{child}")
    server.start()
    wait_until(lambda: server.child_pid() != 0, 10, "the supervisor to start its child")
    supervised.wait_up()
    assert "clean=true" in server.log_tail(8)


@pytest.mark.parametrize("layout", ["files", "flexfiles"])
def test_unmount_beside_a_dead_server(run, network, layout):
    """A client that kept its devices, and with them its sessions, would wait for minutes here."""
    cluster = Cluster(run, network, Options(domains=("a", "b"), layout=layout,
                                            extra={"Copies": "2"}))
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    client.run("for n in 1 2 3 4; do dd if=/dev/zero of=/mnt/nfs/f$n bs=1M count=8 status=none; "
               "done; sync", 60)
    cluster.ds[0].process.kill()
    client.run("cat /mnt/nfs/f? > /dev/null", 60)
    client.unmount(timeout_s=30)
