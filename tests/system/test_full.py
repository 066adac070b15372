"""Full data servers, and full parity groups: the application gets ENOSPC, and nothing is silently
short."""

import json
import os

import pytest
from harness import parity
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.stores import wait_store


@pytest.mark.faults
@pytest.mark.parametrize("direct, layout, copies", [
    (0, "files", 1), (1, "files", 1), (0, "files", 2), (0, "flexfiles", 2),
    *(pytest.param(1, layout, 2, marks=pytest.mark.long) for layout in ("files", "flexfiles"))])
def test_full_data_servers(run, network, direct, layout, copies):
    if not os.path.exists("/dev/loop-control"):
        pytest.skip("needs loop devices, which this machine or container lacks")
    extra = {"Copies": str(copies)} if copies > 1 else {}
    cluster = Cluster(run, network, Options(
        data_servers=2, store_mib=160, domains=("a", "b"), layout=layout, extra=extra))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    client.python(f"""
import errno, mmap, os
from weftio import *
os.chdir(DIRECTORY)
with open("before", "wb") as file:
    file.write(block("before", 2 * MIB))
memory = mmap.mmap(-1, MIB)
fd = os.open("big", os.O_CREAT | os.O_RDWR | ({direct} and os.O_DIRECT))
acknowledged, failure = 0, 0
try:
    for number in range(400):
        memory[:] = block(number)
        written = os.write(fd, memory)
        if written != MIB:
            failure = errno.ENOSPC  # short: the next write says why
            break
        if {direct} or number % 8 == 7:
            os.fsync(fd)
            acknowledged = number + 1
except OSError as error:
    failure = error.errno
try:
    os.close(fd)
except OSError as error:
    failure = failure or error.errno
same("error", errno.errorcode.get(failure), "ENOSPC")
same("room for something", acknowledged >= 40, True)
drop_caches()
with open("big", "rb") as file:
    for number in range(acknowledged):
        same(f"MiB {{number}}", file.read(MIB) == block(number), True)
check("before", block("before", 2 * MIB))
os.unlink("big")
""", 240)
    client.run("""
for try in $(seq 60); do
  dd if=/dev/zero of=/mnt/nfs/again bs=1M count=30 conv=fsync status=none && exit 0
  rm -f /mnt/nfs/again; sleep 1
done
exit 1""", 240)


# Files of 8 MiB, of which each 2 MiB are synced, until there is an error.
FILL = """
import errno, json, mmap, os
from weftio import *
os.chdir(DIRECTORY)
memory = mmap.mmap(-1, MIB)
synced, failure = {}, 0

def fill(name):
    fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | (DIRECT and os.O_DIRECT))
    synced[name] = 0
    try:
        for number in range(8):
            memory[:] = block((name, number))
            left = memoryview(memory)
            while left:
                left = left[os.write(fd, left):]
            if number % 2:
                os.fsync(fd)
                synced[name] = number + 1
    finally:
        os.close(fd)

while not failure and len(synced) < 100:
    try:
        fill(f"f{len(synced)}")
    except OSError as error:
        failure = error.errno
same("error", errno.errorcode.get(failure), "ENOSPC")
same("room for something", sum(synced.values()) >= 40, True)
print(json.dumps(synced))
"""

SYNCED = """
from weftio import *
drop_caches()
for name, mib in SYNCED.items():
    with open(f"{DIRECTORY}/{name}", "rb") as file:
        for number in range(mib):
            same(f"{name}, MiB {number}", file.read(MIB) == block((name, number)), True)
"""

# What is removed leaves the disks a moment later.
AGAIN = """
import os, time
from weftio import *
for attempt in range(60):
    try:
        with open(f"{DIRECTORY}/again", "wb", buffering=0) as file:
            for number in range(4):
                file.write(block(("again", number)))
            os.fsync(file.fileno())
        break
    except OSError:
        time.sleep(1)
else:
    raise SystemExit("no room")
"""


@pytest.mark.faults
@pytest.mark.parametrize("direct", [0, 1])
def test_full_parity_groups(run, network, direct):
    """No target is put out for being full, no row is half written, and what was synced is there. A
    file that is removed makes room."""
    if not os.path.exists("/dev/loop-control"):
        pytest.skip("needs loop devices, which this machine or container lacks")
    cluster = Cluster(run, network, Options(
        data_servers=2, store="parity3", target_mib=64, extra={"Inline": "0"}))
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    said = client.python(f"DIRECT = {direct}\n" + FILL, 480).output
    synced = json.loads(said.splitlines()[-1])
    client.run("rm /mnt/nfs/f0")
    del synced["f0"]
    client.python(AGAIN, 240)
    client.python(f"SYNCED = {synced | {'again': 4}}\n" + SYNCED, 240)
    client.unmount()
    wait_store(cluster, "parity")
    parity.wait_consistent(cluster)
    logs = [server.process.log.read_text(errors="replace") for server in cluster.ds]
    assert not [log for log in logs if "event=parity_member_failed" in log], logs
