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


class Place:
    """Where the last data server has its objects: in its folder, or at a target of its own. What is
    stopped, copied and brought back there."""

    def __init__(self, cluster):
        self.server = cluster.ds[-1]
        self.target = cluster.targets[0] if cluster.targets else None
        self.folder = (self.target or self.server).store

    def start(self):
        """Until the target has noted another state of its store."""
        before = self.noted()
        if self.target:
            self.target.process.start()
        self.server.process.start()
        if self.target:
            wait_until(lambda: self.noted() not in ([], before), 60, "another state to be noted")

    def come_back(self, saved):
        """With a store that was saved earlier, after a crash. It need not be taken."""
        self.kill()
        copy(saved, self.folder)
        for one in filter(None, (self.target, self.server)):
            one.process.start()

    def stop(self):
        for one in filter(None, (self.server, self.target)):
            one.process.stop()

    def kill(self):
        for one in filter(None, (self.server, self.target)):
            one.process.kill()

    def noted(self):
        return [file.read_bytes() for file in self.server.store.glob("target-state-*")]

    def objects(self):
        if not self.target:
            return checksums_of(self.folder)
        (space,) = self.folder.iterdir()
        return checksums_of(space)


@pytest.fixture(params=["folder", "target"])
def where(request):
    """Options of a cluster whose last data server has its objects there."""
    def options(data_servers):
        if request.param == "folder":
            return {}
        return {"store": "shm", "on_targets": (data_servers,)}
    return options


def keep_state(cluster, place, old):
    """Of when the file had "a", in the folder `old`. It has "b" since."""
    write(cluster, "a")
    place.stop()
    copy(place.folder, old)
    place.start()
    cluster.wait_up()
    write(cluster, "b")


def mended(cluster, place):
    assert read(cluster) == "b"
    wait_until(lambda: counters.weft(cluster, "status")["stale_objects"] == 0, 60,
               "the copy to be repaired", 0.3)
    assert read(cluster) == "b"
    assert checksums_of(cluster.ds[0].store) == place.objects()
    assert "rolled back" in place.server.process.log_tail(200)
    assert counters.weft(cluster, "status")["repair_copied_bytes"] >= 8 * MIB


@pytest.mark.faults
def test_rolled_back_with_another_copy(run, network, where):
    """Its copies are stale before it serves, and are repaired from the others."""
    cluster = make(run, network, 2, copies=2, **where(2))
    place, old = Place(cluster), run.folder / "old"
    keep_state(cluster, place, old)
    place.stop()
    place.come_back(old)
    cluster.wait_up()
    mended(cluster, place)
    # From now on it is a store like any other.
    place.server.process.kill()
    place.server.process.start()
    cluster.wait_up()


@pytest.mark.faults
def test_a_target_is_rolled_back_beneath_a_data_server_that_serves(run, network):
    """The data server ends, and starts as one whose store was rolled back."""
    cluster = make(run, network, 2, copies=2, store="shm", on_targets=(2,))
    place, old = Place(cluster), run.folder / "old"
    keep_state(cluster, place, old)
    place.target.process.stop()
    copy(old, place.folder)
    place.target.process.start()
    wait_until(lambda: not place.server.process.alive, 30, "the data server to end")
    assert "was rolled back" in place.server.process.log_tail(50)
    place.server.process.start()
    cluster.wait_up()
    mended(cluster, place)


@pytest.mark.faults
def test_rolled_back_with_the_only_copy(run, network, where):
    """It is refused, and says what can be done: bring the newer store back, or use the old one."""
    cluster = make(run, network, 1, copies=1, **where(1))
    place = Place(cluster)
    old, newer = run.folder / "old", run.folder / "newer"
    keep_state(cluster, place, old)
    place.kill()
    copy(place.folder, newer)
    place.come_back(old)
    wait_not_accepted(cluster, "ds1", "only copy of 1 objects")
    wait_until(lambda: "weft ds accept 1 --rolled-back" in place.server.process.log_tail(100), 20,
               "its log to say what can be done")
    problems = " ".join(counters.weft(cluster, "status")["problems"])
    assert "is not accepted" in problems and "was rolled back" in problems
    cluster.mds.kill()  # it is remembered
    cluster.restart_mds()
    wait_not_accepted(cluster, "ds1", "only copy of 1 objects")
    place.come_back(newer)
    cluster.wait_up()
    assert read(cluster) == "b"

    place.come_back(old)
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
