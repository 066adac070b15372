"""Answers wait for the metadata server's disk, and nothing else does: operations in one directory
share its syncs, and nobody is told what a crash would undo."""

import ctypes.util
import subprocess
import threading
from pathlib import Path

import pytest
from harness import paths
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import snapshot, weft
from harness.run import wait_until
from wire import Status, const, ops

pytestmark = pytest.mark.faults

CREATORS = 24
FILES = 40
QUIET_S = 0.5


class SlowDisk:
    """A metadata server whose syncs of the store take longer, or are held."""

    def __init__(self, run, network, sync_ms=0):
        cluster = Cluster(run, network, Options(data_servers=1))
        if not cluster.counted:
            pytest.skip("Ganesha's VFS does not sync")
        self.cluster = cluster
        store = cluster.folder / "metadata"
        preload = run.make_folder("preload") / "slow-sync.so"
        subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", preload,
                        paths.HARNESS / "recipes" / "slow-sync.c"], check=True)
        cluster.mds.kill()
        # Ganesha loads an FSAL so that its libraries find the C library's functions before others:
        # the one that syncs is loaded here already.
        rocksdb = ctypes.util.find_library("rocksdb")
        cluster.mds.env = {"LD_PRELOAD": f"{preload} {rocksdb}", "WEFT_SLOW_SYNC_MS": str(sync_ms),
                           "WEFT_SLOW_SYNC": str(store.resolve())}
        cluster.restart_mds()
        wait_until(lambda: weft(cluster, "status")["grace_left_ms"] == 0, 30, "the end of grace",
                   0.2)
        self.hold_file = Path(store.resolve()).parent / "hold-syncs"

    def client(self, name, slots=CREATORS):
        return self.cluster.connect(owner=name, slots=slots, timeout=60)

    def counts(self):
        store = weft(self.cluster, "status")["store"]
        return store["commits"], store["syncs"]

    def hold(self):
        self.hold_file.touch()

    def let_go(self):
        self.hold_file.unlink()


class Asked(threading.Thread):
    def __init__(self, client, *operations):
        super().__init__(daemon=True)
        self.client, self.operations, self.reply = client, operations, None
        self.start()

    def run(self):
        self.reply = self.client.compound(*self.operations)


def creating(client, folder, name):
    return [ops.putfh(folder), ops.open_file(name, client.clientid, create=True), ops.getfh()]


def test_while_a_sync_lasts_others_get_on_and_nobody_is_told(run, network):
    disk = SlowDisk(run, network)
    client, reader = disk.client(b"creators"), disk.client(b"reader", 8)
    root = client.handle("/export")

    def folder(name):
        return client.call(ops.putfh(root), ops.create_directory(name), ops.getfh()).handle
    hot, cold = folder(b"hot"), folder(b"cold")
    for name in (b"old", b"older"):
        client.call(*creating(client, hot, name))
    reader.call(ops.putfh(hot), ops.readdir(bits=[const.ATTR_TYPE]))  # all of it is cached
    commits, syncs = disk.counts()
    disk.hold()
    try:
        changes = [Asked(client, *creating(client, hot, b"new-%d" % number))
                   for number in range(CREATORS - 3)]
        changes.append(Asked(client, ops.putfh(hot), ops.remove(b"old")))
        changes.append(Asked(client, ops.putfh(hot), ops.savefh(), ops.rename(b"older", b"newer")))
        changes.append(Asked(client, ops.putfh(hot), ops.setattr(mode=0o700)))
        wait_until(lambda: disk.counts()[0] - commits >= len(changes), 20,
                   "all changes to be made beside the sync", 0.05)
        told = [Asked(reader, ops.putfh(hot), operation) for operation in (
            ops.lookup(b"new-0"), ops.lookup(b"old"), ops.lookup(b"newer"),
            ops.readdir(bits=[const.ATTR_TYPE]), ops.getattr([const.ATTR_CHANGE, const.ATTR_MODE]))]
        # What nobody has changed is told at once.
        assert reader.compound(ops.putfh(cold), ops.getattr([const.ATTR_CHANGE])).status == \
            Status.OK
        for asked in changes + told:
            asked.join(QUIET_S / len(changes))
        early = [asked.reply.last for asked in changes + told if asked.reply]
        assert not early, "told what a crash undoes"
    finally:
        disk.let_go()
    for asked in changes + told:
        asked.join(30)
    assert all(asked.reply.status == Status.OK for asked in changes)
    assert [asked.reply.status for asked in told] == [Status.OK, Status.NOENT] + [Status.OK] * 3
    assert told[-1].reply.last.attributes[const.ATTR_MODE] == 0o700
    assert disk.counts()[1] - syncs <= 4
    for one in (client, reader):
        one.close()


def test_creates_in_one_directory_share_syncs(run, network):
    disk = SlowDisk(run, network, sync_ms=20)
    client = disk.client(b"creators")
    root = client.handle("/export")
    hot = client.call(ops.putfh(root), ops.create_directory(b"hot"), ops.getfh()).handle
    commits, syncs = disk.counts()
    rounds = 10

    def create(number):
        for one in range(rounds):
            client.call(*creating(client, hot, b"%d-%d" % (number, one)))
    threads = [threading.Thread(target=create, args=(number,)) for number in range(CREATORS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    commits, syncs = (now - then for now, then in zip(disk.counts(), (commits, syncs)))
    assert commits >= CREATORS * rounds
    assert syncs < CREATORS * rounds / 4, f"{syncs} syncs for {commits} changes"
    client.close()


def test_a_compound_waits_once(run, network):
    disk = SlowDisk(run, network, sync_ms=20)
    client = disk.client(b"client")
    root = client.handle("/export")
    client.call(ops.putfh(root), ops.create_directory(b"before"))
    syncs = disk.counts()[1]
    many = [operation for number in range(5)
            for operation in (ops.putfh(root), ops.create_directory(b"%d" % number))]
    client.call(*many, ops.putfh(root), ops.readdir(bits=[const.ATTR_TYPE]))
    # One more if a tick of the server's own falls in between; an operation a sync would be five.
    assert 1 <= disk.counts()[1] - syncs <= 2
    client.close()


def test_a_small_file_is_made_written_and_closed_with_two_syncs(run, network):
    """The OPEN waits for one and the WRITE for one; the CLOSE changes nothing."""
    disk = SlowDisk(run, network, sync_ms=5)
    client = disk.client(b"client")
    root = client.handle("/export")
    folder = client.call(ops.putfh(root), ops.create_directory(b"folder"), ops.getfh()).handle
    names = [b"%d" % number for number in range(FILES)]
    commits, syncs = disk.counts()
    for number, name in enumerate(names):
        opened = client.compound(*creating(client, folder, name)).check()
        file, stateid = opened.last.handle, opened[-2].stateid
        client.call(ops.putfh(file), ops.write(stateid, 0, b"x" * (4096 - number)))
        client.call(ops.putfh(file), ops.close(stateid))
    commits, syncs = (now - then for now, then in zip(disk.counts(), (commits, syncs)))
    print(f"{commits} commits, {syncs} syncs")
    # A few of the server's own fall in between; a third of each file would be FILES more.
    assert 2 * FILES <= commits <= 2 * FILES + FILES / 2
    assert syncs <= 2 * FILES + FILES / 2
    assert weft(disk.cluster, "status")["inline"]["writes"] == FILES
    client.close()


def test_a_server_whose_disk_is_slow_sends_bytes_to_data_servers(run, network):
    """A stock client writes where it is told to: with a hint of 0, and a layout along with the
    OPEN, nothing comes to the metadata store."""
    disk = SlowDisk(run, network, sync_ms=150)
    client = start_client(run, network)
    client.mount(disk.cluster.address, disk.cluster.path)

    def is_busy():
        client.run("for n in 1 2 3 4 5; do echo x >/mnt/nfs/early-$n; done", 60)
        return weft(disk.cluster, "status")["inline"]["busy"]
    wait_until(is_busy, 60, "the metadata server to be busy", 0.1)
    before = snapshot(disk.cluster)
    kept = weft(disk.cluster, "status")["inline"]["writes"]
    client.run("for n in $(seq 20); do head -c 5000 /dev/urandom >/mnt/nfs/late-$n; done", 120)
    counts = snapshot(disk.cluster).since(before)
    assert weft(disk.cluster, "status")["inline"]["writes"] == kept
    assert counts.total_written == 20 * 5000 and counts.layoutgets >= 20, counts
