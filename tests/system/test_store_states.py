"""A data server's store comes back as an older state of itself, or twice: nothing old is read by
clients, and nothing old is brought to other data servers."""

import shutil
import subprocess

import pytest
from harness import counters
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.copies import checksums_of
from harness.run import wait_until

MIB = 1 << 20
FILE = "/mnt/nfs/d/f"


def make(run, network, data_servers, copies, **options):
    options = {"store": "folder", **options}
    cluster = Cluster(run, network, Options(data_servers=data_servers, **options))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    cluster.client = client
    client.run("mkdir -m 777 /mnt/nfs/d")
    counters.weft(cluster, "policy", "set", cluster.path + "/d", f"copies={copies}", "stripes=1")
    return cluster


def write(cluster, letter):
    cluster.client.run(f"tr '\\0' {letter} < /dev/zero | head -c {8 * MIB} "
                       f"| dd of={FILE} bs=1M conv=notrunc,fsync iflag=fullblock 2>&1", 60)


def read(cluster):
    """The letters that are in the file, with nothing cached at the client."""
    return cluster.client.run(f"weft-drop-caches; fold -w 4096 {FILE} "
                              "| cut -c 1 | sort -u | tr -d '\\n'", 120).output


def report(cluster, name):
    return next(server for server in counters.weft(cluster, "ds", "list")
                if server["name"] == name)


def copy(store, to):
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(["cp", "-a", str(store), str(to)], check=True)


def wait_not_accepted(cluster, name, words):
    """What is decided of a store waits for the end of its data server's last lease, a minute."""
    return wait_until(lambda: words in report(cluster, name)["not_accepted"], 100,
                      f"{name} to be refused with '{words}'", 0.2)


@pytest.mark.faults
def test_rolled_back_with_another_copy(run, network):
    """Its copies are stale before it serves, and are repaired from the others."""
    cluster = make(run, network, 2, copies=2)
    server = cluster.ds[1]
    old = run.folder / "old"
    write(cluster, "a")
    server.process.stop()
    copy(server.store, old)
    server.process.start()
    cluster.wait_up()
    write(cluster, "b")
    server.process.stop()
    copy(old, server.store)
    server.process.start()
    cluster.wait_up()
    assert read(cluster) == "b"
    wait_until(lambda: counters.weft(cluster, "status")["stale_objects"] == 0, 60,
               "the copy to be repaired", 0.3)
    assert read(cluster) == "b"
    assert checksums_of(cluster.ds[0].store) == checksums_of(server.store)
    assert "rolled back" in server.process.log_tail(200)
    assert counters.weft(cluster, "status")["repair_copied_bytes"] >= 8 * MIB
    # From now on it is a store like any other.
    server.process.kill()
    server.process.start()
    cluster.wait_up()


@pytest.mark.faults
def test_rolled_back_with_the_only_copy(run, network):
    """It is refused, and says what can be done: bring the newer store back, or use the old one."""
    cluster = make(run, network, 1, copies=1)
    server = cluster.ds[0]
    old, newer = run.folder / "old", run.folder / "newer"
    write(cluster, "a")
    server.process.stop()
    copy(server.store, old)
    server.process.start()
    cluster.wait_up()
    write(cluster, "b")
    server.process.kill()
    copy(server.store, newer)
    copy(old, server.store)
    server.process.start()
    wait_not_accepted(cluster, "ds1", "only copy of 1 objects")
    wait_until(lambda: "weft ds accept 1 --rolled-back" in server.process.log_tail(100), 20,
               "its log to say what can be done")
    problems = " ".join(counters.weft(cluster, "status")["problems"])
    assert "is not accepted" in problems and "was rolled back" in problems
    cluster.mds.kill()  # it is remembered
    cluster.restart_mds()
    wait_not_accepted(cluster, "ds1", "only copy of 1 objects")
    server.process.kill()
    copy(newer, server.store)
    server.process.start()
    cluster.wait_up()
    assert read(cluster) == "b"

    server.process.kill()
    copy(old, server.store)
    server.process.start()
    wait_not_accepted(cluster, "ds1", "only copy of 1 objects")
    counters.weft(cluster, "ds", "accept", "ds1", "--rolled-back")
    cluster.wait_up()
    assert read(cluster) == "a"
    write(cluster, "c")
    assert read(cluster) == "c"


@pytest.mark.faults
def test_a_copy_beside_the_living_one(run, network):
    """cp -a of a stopped server's folder, both started at addresses of their own."""
    cluster = make(run, network, 1, copies=1)
    server = cluster.ds[0]
    clone = cluster._make_data_server(2)
    write(cluster, "a")
    server.process.stop()
    copy(server.store, clone.store)
    server.process.start()
    cluster.wait_up()
    clone.process.start()
    wait_not_accepted(cluster, "ds1", f"alive at {server.node.address}")
    write(cluster, "b")
    assert read(cluster) == "b"
    assert "served by one process at a time" in clone.process.log_tail(100)
    # The clone alone: the other has gone on without it.
    server.process.kill()
    wait_not_accepted(cluster, "ds1", "was rolled back")
    server.process.start()
    cluster.wait_up()
    assert read(cluster) == "b"


def on_a_target(run, network, data_servers, copies):
    """The last data server has its objects at a target, and is the only one there."""
    cluster = make(run, network, data_servers, copies, store="shm", on_targets=(data_servers,))
    return cluster, cluster.ds[-1], cluster.targets[0]


def restart(server, target):
    """Until the target has noted another state of its store."""
    def noted():
        return [file.read_bytes() for file in server.store.glob("target-state-*")]
    before = wait_until(noted, 20, "a first state to be noted")
    target.process.start()
    wait_until(lambda: noted() not in ([], before), 20, "another state to be noted")


@pytest.mark.faults
def test_a_target_rolled_back_with_another_copy(run, network):
    """The data server ends, as it serves, and its copies are stale before it serves again."""
    cluster, server, target = on_a_target(run, network, 2, copies=2)
    old = run.folder / "old"
    write(cluster, "a")
    target.process.stop()
    copy(target.store, old)
    restart(server, target)
    write(cluster, "b")
    target.process.stop()
    copy(old, target.store)
    target.process.start()
    wait_until(lambda: not server.process.alive, 30, "the data server to end")
    assert "was rolled back" in server.process.log_tail(50)
    server.process.start()
    cluster.wait_up()
    assert read(cluster) == "b"
    wait_until(lambda: counters.weft(cluster, "status")["stale_objects"] == 0, 60,
               "the copy to be repaired", 0.3)
    assert read(cluster) == "b"
    (space,) = target.store.iterdir()
    assert checksums_of(cluster.ds[0].store) == checksums_of(space)
    assert counters.weft(cluster, "status")["repair_copied_bytes"] >= 8 * MIB


@pytest.mark.faults
def test_a_target_rolled_back_with_the_only_copy(run, network):
    """It is refused until the newer store is back at the target, or the old one is accepted."""
    cluster, server, target = on_a_target(run, network, 1, copies=1)
    old, newer = run.folder / "old", run.folder / "newer"
    write(cluster, "a")
    server.process.stop()
    target.process.stop()
    copy(target.store, old)
    server.process.start()
    restart(server, target)
    cluster.wait_up()
    write(cluster, "b")
    server.process.kill()
    target.process.kill()
    copy(target.store, newer)
    copy(old, target.store)
    target.process.start()
    server.process.start()
    wait_not_accepted(cluster, "ds1", "only copy of 1 objects")
    target.process.stop()
    copy(newer, target.store)
    target.process.start()
    cluster.wait_up()
    assert read(cluster) == "b"

    server.process.kill()
    target.process.kill()
    copy(old, target.store)
    target.process.start()
    server.process.start()
    wait_not_accepted(cluster, "ds1", "only copy of 1 objects")
    counters.weft(cluster, "ds", "accept", "ds1", "--rolled-back")
    cluster.wait_up()
    assert read(cluster) == "a"
    write(cluster, "c")
    assert read(cluster) == "c"
