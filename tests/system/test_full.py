"""A full data server: the application gets ENOSPC, and nothing is silently short."""

import os

import pytest
from harness.client import start_client
from harness.cluster import Cluster, Options


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
