"""Stores with checksums, data servers' own or a target's: a bit that changed on a disk is not read,
and not spread."""

import pytest
from harness import counters
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.copies import objects_of, wait_equal
from harness.run import wait_until

SIZE = 4_000_000
BLOCK = 4096
AT = 1_234_567


def start(run, network, store, **options):
    kept = {"store_options": "checksums = true\n"} if store == "folder" else \
        {"target_checksums": True, "shared_memory": ("ds",)}
    cluster = Cluster(run, network, Options(data_servers=2, store=store, metrics=True,
                                            extra={"Scrub_Every": "0"}, **kept, **options))
    if not cluster.counted:
        pytest.skip("Ganesha's VFS has no data servers")
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    cluster.client = client
    return cluster


def metric(cluster, name):
    """Of each that keeps checksums: the data servers, or their target."""
    servers, prefix = (cluster.targets, "target") if cluster.targets else (cluster.ds, "ds")
    return [cluster.metrics(server)[f"weft_{prefix}_checksum_{name}_blocks_total"]
            for server in servers]


def make_file(cluster, copies):
    """A file of one stripe of which all checksums are known; its object's files."""
    client = cluster.client
    client.run("mkdir /mnt/nfs/d")
    counters.weft(cluster, "policy", "set", cluster.path + "/d", f"copies={copies}", "stripes=1")
    client.run(f"head -c {SIZE} /dev/urandom > /tmp/f; cp /tmp/f /mnt/nfs/d/f; sync")
    stores = cluster.targets[0].spaces().values() if cluster.targets else \
        [server.store for server in cluster.ds]
    files = [file for store in stores for file in objects_of(store, SIZE).values()]
    assert len(files) == copies
    wanted = copies * ((SIZE + BLOCK - 1) // BLOCK)
    wait_until(lambda: sum(metric(cluster, "sealed")) >= wanted, 60, "checksums", 0.3)
    client.unmount()
    return files


def flip(file):
    with open(file, "r+b") as opened:
        opened.seek(AT)
        byte = opened.read(1)[0]
        opened.seek(AT)
        opened.write(bytes([byte ^ 4]))


@pytest.mark.faults
@pytest.mark.parametrize("store, damaged", [("folder", 0), ("folder", 1), ("tcp", 1)])
def test_the_right_copy_of_two_is_known(run, network, store, damaged):
    """A scrub finds a bit that changed, and makes the copy equal to the other without being told
    which is right."""
    cluster = start(run, network, store, domains=("a", "b"))
    files = make_file(cluster, 2)
    flip(files[damaged])

    def found():
        if not counters.weft(cluster, "scrub", "status")["running"]:
            counters.weft(cluster, "scrub", "start")
        return sum(metric(cluster, "bad")) > 0

    wait_until(found, 60, "the block to be found", 1)
    wait_until(lambda: counters.weft(cluster, "status")["stale_objects"] == 0 and
               files[0].read_bytes() == files[1].read_bytes(), 60, "the copy", 0.3)
    cluster.client.mount(cluster.address, cluster.path)
    cluster.client.run("cmp /tmp/f /mnt/nfs/d/f", 60)
    assert not [finding for finding in counters.weft(cluster, "scrub", "status")["findings"]
                if not finding["mended"]]
    if store == "folder":
        wait_equal(cluster, 2)
        assert 0 in metric(cluster, "bad")


@pytest.mark.faults
@pytest.mark.parametrize("store", ["folder", "shm"])
def test_the_only_copy_is_not_read_where_it_is_bad(run, network, store):
    """EIO for that block, the rest as it was; what is written over it is good."""
    cluster = start(run, network, store)
    [file] = make_file(cluster, 1)
    flip(file)
    client = cluster.client
    client.mount(cluster.address, cluster.path)
    block = AT // BLOCK
    client.run(f"""cd /tmp
! dd if=/mnt/nfs/d/f of=/tmp/bad bs={BLOCK} skip={block} count=1 iflag=direct 2>/dev/null
test ! -s /tmp/bad
dd if=/mnt/nfs/d/f bs={BLOCK} count={block} iflag=direct 2>/dev/null | cmp -n {block * BLOCK} - f
dd if=f of=/mnt/nfs/d/f bs={BLOCK} skip={block} seek={block} count=1 oflag=direct conv=notrunc
cmp f /mnt/nfs/d/f""", 60)
