"""Data servers are drained, removed for good and emptied under a kernel client that writes: the
application sees no error, and what is left is equal on the disks."""

import os
import time

import pytest
from harness import counters
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.copies import checksums_of, objects_of
from harness.run import wait_until

MIB = 1 << 20
FAR = (1 << 43) - 1  # nearly as far as ext4 of the data servers goes
SOON_S = 30  # in which a disk does not read a hundredth of that
LITTLE = 16 * MIB  # of space

# Rewrites blocks of some files in place until told to stop, and keeps what they are to be.
LOAD = """
import os, random
rng = random.Random(7)
files, size, block = {files}, {size}, 64 << 10
names = ["/mnt/nfs/d/f%d" % i for i in range(files)]
expected = []
for name in names:
    with open(name, "wb") as file:
        file.write(b"a" * size)
        os.fsync(file.fileno())
    expected.append(bytearray(b"a" * size))
fds = [os.open(name, os.O_RDWR) for name in names]
os.system("weft-signal loaded")
while not os.path.exists("/tmp/stop"):
    which = rng.randrange(files)
    at = rng.randrange(size // block) * block
    data = bytes([rng.randrange(1, 255)]) * block
    assert os.pwrite(fds[which], data, at) == block
    os.fsync(fds[which])
    expected[which][at:at + block] = data
for fd in fds:
    os.close(fd)
for which, name in enumerate(names):
    with open(name + ".expected", "wb") as file:
        file.write(expected[which])
"""


@pytest.fixture
def system(run, network):
    """Four data servers in four domains, a folder of files with two copies, one of files with one,
    and a client."""
    cluster = Cluster(run, network, Options(
        data_servers=4, domains=("a", "b", "c", "d"), extra={"Proxy_Timeout": "3"}))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    cluster.client = client
    client.run("mkdir /mnt/nfs/d /mnt/nfs/single")
    counters.weft(cluster, "policy", "set", cluster.path + "/d", "copies=2", "stripes=1")
    counters.weft(cluster, "policy", "set", cluster.path + "/single", "copies=1", "stripes=2")
    return cluster


def ds(cluster, number):
    return next(server for server in counters.weft(cluster, "ds", "list")
                if server["name"] == f"ds{number}")


def check_copies(cluster, paths):
    """Each file is current at two data servers, and what they have is the same."""
    for path in paths:
        shown = counters.weft(cluster, "layout", "show", path)
        copies = shown["stripes"][0]["copies"]
        assert [copy["state"] for copy in copies] == ["current", "current"], shown
        assert "moving" not in shown or shown["moving"]["left"], shown
        held = []
        for copy in copies:
            server = cluster.ds[int(copy["ds_name"].removeprefix("ds")) - 1]
            held.append(checksums_of(server.store)[shown["object"]])
        assert held[0] == held[1], path


def start_load(cluster, files, size):
    job = cluster.client.start_job("rm -f /tmp/stop; python3 - <<'END'\n"
                                   + LOAD.format(files=files, size=size) + "END\n")
    cluster.client.wait_event("loaded")
    return job


def end_load(cluster, job, files):
    cluster.client.run("touch /tmp/stop")
    job.wait(120)
    check = "; ".join(f"cmp /mnt/nfs/d/f{i} /mnt/nfs/d/f{i}.expected" for i in range(files))
    cluster.client.run("sync; weft-drop-caches; set -e; " + check, 120)
    return [f"{cluster.path}/d/f{i}" for i in range(files)]


def wait_empty(cluster, number, timeout_s=90):
    wait_until(lambda: ds(cluster, number)["objects_left"] == 0, timeout_s,
               f"ds{number} to be empty", 0.5)


def scrub(cluster, *words, timeout_s=60):
    """What it tells when it has ended."""
    counters.weft(cluster, "scrub", "start", *words)
    wait_until(lambda: not counters.weft(cluster, "scrub", "status")["running"], timeout_s,
               "the scrub", 0.3)
    return counters.weft(cluster, "scrub", "status")


@pytest.mark.faults
def test_drain_and_remove(system):
    """One is drained and removed while files are written; the others then serve alone."""
    client = system.client
    client.run("cd /mnt/nfs/single; for i in $(seq 12); do "
               "head -c 3000000 /dev/urandom > s$i; done; sync; sha256sum s* > /tmp/sums", 120)
    job = start_load(system, 4, 8 * MIB)
    with pytest.raises(counters.CountersUnavailable):
        counters.weft(system, "ds", "remove", "ds2", "--yes")  # it is here and has objects
    counters.weft(system, "ds", "drain", "ds2")
    wait_empty(system, 2)
    assert ds(system, 2)["duty"] == "drained"
    assert not objects_of(system.ds[1].store)
    time.sleep(2)  # writes go on
    paths = end_load(system, job, 4)
    assert not objects_of(system.ds[1].store)  # nothing was written there late
    check_copies(system, paths)
    client.run("cd /mnt/nfs/single; weft-drop-caches; sha256sum -c /tmp/sums", 120)
    counters.weft(system, "ds", "remove", "ds2", "--yes")
    wait_until(lambda: len(counters.weft(system, "ds", "list")) == 3, 20, "ds2 to be forgotten")
    client.run("dd if=/dev/urandom of=/mnt/nfs/d/new bs=1M count=8 conv=fsync", 60)


@pytest.mark.faults
def test_gone_for_good(system):
    """One is killed and never comes back: its copies are made anew, from several to several."""
    client = system.client
    job = start_load(system, 6, 4 * MIB)
    client.run("cp -r /mnt/nfs/d /mnt/nfs/d/more 2>/dev/null; true", 120)
    system.ds[0].process.kill()
    time.sleep(3)
    counters.weft(system, "ds", "remove", "ds1", "--yes")
    wait_until(lambda: len(counters.weft(system, "ds", "list")) == 3, 120, "ds1 to be replaced",
               0.5)
    paths = end_load(system, job, 6)
    check_copies(system, paths)
    status = counters.weft(system, "status")
    assert status["moved_objects"] > 0
    assert status["stale_objects"] == 0


@pytest.mark.faults
def test_drain_over_restart(system):
    """The metadata server is killed while it drains: it goes on."""
    job = start_load(system, 8, 8 * MIB)
    counters.weft(system, "ds", "drain", "ds3")
    time.sleep(1)
    system.mds.kill()
    time.sleep(1)
    system.restart_mds()
    wait_empty(system, 3, 120)
    paths = end_load(system, job, 8)
    check_copies(system, paths)
    assert not objects_of(system.ds[2].store)


@pytest.mark.faults
def test_scrub(system):
    """A byte is changed in a store behind everybody's back: it is found and told, and nothing is
    changed; then what an administrator believes is made equal."""
    client = system.client
    client.run("head -c 4000000 /dev/urandom > /mnt/nfs/d/f; "
               "head -c 4000000 /dev/urandom > /mnt/nfs/d/g; sync; "
               "sha256sum /mnt/nfs/d/f /mnt/nfs/d/g > /tmp/sums")
    path = f"{system.path}/d/f"
    shown = counters.weft(system, "layout", "show", path)
    second = shown["stripes"][0]["copies"][1]
    store = system.ds[int(second["ds_name"].removeprefix("ds")) - 1].store
    damaged = next(found for found in (store / "objects").rglob(shown["object"]))
    client.unmount()

    wait_until(lambda: scrub(system)["files"] == 2, 60, "files that nobody writes", 1)
    with open(damaged, "r+b") as file:
        file.seek(1_234_567)
        byte = file.read(1)[0]
        file.seek(1_234_567)
        file.write(bytes([byte ^ 4]))
    told = scrub(system, "--check", path)
    assert told["differing"] == 1 and told["mended"] == 0, told
    left = scrub(system)
    assert left["files"] == 2, left
    assert left["differing"] == 1 and left["mended"] == 0, left
    [finding] = left["findings"]
    assert finding["fileid"] == shown["fileid"] and not finding["mended"], finding
    [extent] = finding["extents"]
    assert extent["offset"] <= 1_234_567 < extent["offset"] + extent["length"], finding
    problems = " ".join(counters.weft(system, "status")["problems"])
    assert "weft scrub resolve" in problems, problems
    right = next(copy["ds_id"] for copy in shown["stripes"][0]["copies"]
                 if copy["ds_id"] != second["ds_id"])
    counters.weft(system, "scrub", "resolve", path, "--from", str(right))
    wait_until(lambda: counters.weft(system, "scrub", "status")["resolved"], 60, "the copy", 0.3)
    resolved = counters.weft(system, "scrub", "status")
    assert "1 copies made equal" in resolved["resolved"][0], resolved
    assert resolved["findings"][0]["mended"], resolved
    assert scrub(system)["differing"] == 0
    client.mount(system.address, system.path)
    client.run("sha256sum -c /tmp/sums")
    check_copies(system, [path])


@pytest.mark.faults
def test_one_byte_far_out(system):
    """A drain and a scrub pass over what is a hole in both copies, though no data server has room
    for as many bytes."""
    client, path = system.client, f"{system.path}/d/f"
    client.run(f"printf x | dd of=/mnt/nfs/d/f bs=1 seek={FAR} conv=notrunc,fsync 2>&1")
    client.unmount()
    [stripe] = counters.weft(system, "layout", "show", path)["stripes"]
    left = stripe["copies"][0]["ds_name"]
    counters.weft(system, "ds", "drain", left)
    wait_empty(system, int(left.removeprefix("ds")), SOON_S)
    shown = counters.weft(system, "layout", "show", path)
    copies = shown["stripes"][0]["copies"]
    assert [copy["state"] for copy in copies] == ["current", "current"], shown
    homes = [server for server in system.ds if server.name in [copy["ds_name"] for copy in copies]]
    assert len(homes) == 2 and left not in [server.name for server in homes], shown
    for server in homes:
        there = objects_of(server.store)[shown["object"]]
        assert there.stat().st_blocks * 512 <= LITTLE
        with open(there, "rb") as file:
            file.seek(FAR)
            assert file.read(1) == b"x"
    wait_until(lambda: scrub(system, path, timeout_s=SOON_S)["files"] == 1, 60,
               "a file that nobody writes", 1)
    assert counters.weft(system, "scrub", "status")["differing"] == 0
    client.mount(system.address, system.path)
    client.run(f"""cd /mnt/nfs/d
set -e
test $(stat -c %s f) = {FAR + 1}
test $(du -B1 f | cut -f 1) -le {LITTLE}
test $(dd if=f bs=1 skip={FAR} 2>/dev/null) = x""")


@pytest.mark.faults
def test_rebalance(run, network):
    """Files that are all at one side, being written, are spread over a server that has nothing."""
    if not os.path.exists("/dev/loop-control"):
        pytest.skip("needs loop devices, which this machine or container lacks")
    cluster = Cluster(run, network, Options(
        data_servers=3, store_mib=200, domains=("a", "b", "c"), extra={"Proxy_Timeout": "3"}))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    cluster.client = client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    client.run("mkdir /mnt/nfs/d")
    counters.weft(cluster, "policy", "set", cluster.path + "/d", "copies=2", "stripes=1")
    counters.weft(cluster, "ds", "drain", "ds3")  # gets nothing
    job = start_load(cluster, 24, 4 * MIB)
    counters.weft(cluster, "ds", "undrain", "ds3")
    time.sleep(3)  # heartbeats tell how full they are
    assert counters.weft(cluster, "ds", "rebalance", "--dry-run")["plan"]["moves"]
    counters.weft(cluster, "ds", "rebalance")
    wait_until(lambda: not counters.weft(cluster, "status")["rebalance"]["running"], 60,
               "the rebalance")

    def used():
        return [(server["capacity_bytes"] - server["free_bytes"]) / server["capacity_bytes"]
                for server in counters.weft(cluster, "ds", "list")]
    wait_until(lambda: max(used()) - min(used()) < 0.08, 60, "servers that are as full", 1)
    check_copies(cluster, end_load(cluster, job, 24))
    assert counters.weft(cluster, "status")["moved_objects"] >= 8
