"""Copying files in and out, on every client kernel, and where the bytes go."""

import pytest
from harness.client import start_client
from harness.cluster import Cluster
from harness.counters import MIB, through_data_servers
from harness.machines import need_kind

pytestmark = pytest.mark.any_store

COPY = """
set -e
head -c {mib}M /dev/urandom > /tmp/in
cp /tmp/in {folder}/file
weft-drop-caches
cp {folder}/file /tmp/out
cmp /tmp/in /tmp/out
rm /tmp/in /tmp/out
"""


def test_copy_in_and_out_is_spread_evenly(cluster, client, folder):
    with through_data_servers(cluster, written=64 * MIB, read=64 * MIB) as found:
        client.run(COPY.format(mib=64, folder=folder))
    if cluster.counted:
        counts = found["counts"]
        for name in counts.written:
            assert counts.written[name] == 16 * MIB, counts
            assert counts.read[name] == 16 * MIB, counts


@pytest.mark.parametrize("size", [0, 1, 4095, 4097, MIB - 1, MIB, MIB + 1, 4 * MIB + 3])
def test_sizes_at_the_edges_of_stripes(through, client, folder, size):
    with through(written=size, read=size):
        client.python(f"""
import os
from weftio import *
data = os.urandom({size})
with open("{folder}/a", "wb") as file:
    file.write(data)
drop_caches()
same("size", os.stat("{folder}/a").st_size, {size})
check("{folder}/a", data)
""")


@pytest.mark.parametrize("kind", ["qemu61", "uml612"])
def test_other_kernels(run, network, kind):
    """A second and a third kernel: copy, random verification by fio, truncate, append, locks. QEMU
    emulates a processor, which takes its time when others want the real ones."""
    need_kind(kind)
    cluster = Cluster(run, network)
    client = start_client(run, network, kind)
    client.mount(cluster.address, cluster.path)
    with through_data_servers(cluster, written=16 * MIB, read=16 * MIB):
        client.run(COPY.format(mib=16, folder="/mnt/nfs"), timeout_s=400)
    with through_data_servers(cluster, written=8 * MIB, read=8 * MIB):
        client.run("cd /mnt/nfs && fio --name=a --filename=f --rw=randwrite --bs=64k --size=8M "
                   "--verify=crc32c --verify_fatal=1 --verify_state_save=0 --end_fsync=1 --minimal "
                   "> /tmp/log",
                   timeout_s=400)
    client.python("""
import fcntl, os
from weftio import *
path = DIRECTORY + "/small"
with open(path, "wb") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    file.write(block(1))
    file.truncate(1000)
    fcntl.lockf(file, fcntl.LOCK_UN)
with open(path, "ab") as file:
    file.write(b"end")
drop_caches()
check(path, block(1)[:1000] + b"end")
os.rename(path, path + "2")
same("names", sorted(os.listdir(DIRECTORY)), ["f", "file", "small2"])
""", timeout_s=200)
    client.unmount()
