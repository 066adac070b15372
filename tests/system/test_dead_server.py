"""A data server that is dead or hangs, of files without copies: clients of its stripes wait, and
nobody else does. The metadata server serves everything else meanwhile."""

import threading
import time

import pytest
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import snapshot
from harness.run import wait_until
from wire import const, layout_ops, ops
from wire.const import Status

pytestmark = pytest.mark.faults

UNIT = 64 * 1024
LEASE_S = 10
LOADS = 4  # clients
SLOTS = 64  # of each: together more than Ganesha has workers
LOAD_S = LEASE_S + 6
REST_S = 0.5  # between attempts that are told to come later
USUAL_S = 0.1  # for what needs no data server
SLOWEST_S = 2.0  # on a machine that does other things too
# Those that truncate wait for less than 2 s each, and by turns afterwards.
SLOWEST_AT_S = {"setattr": 1.0}

KERNEL = """
set -e
for i in $(seq 20); do
  head -c 200000 /dev/urandom > /tmp/in
  cp /tmp/in /mnt/nfs/other-$i
  sync -f /mnt/nfs/other-$i
  cmp /tmp/in /mnt/nfs/other-$i
done
"""


class Load:
    """One client that keeps all its slots busy with one operation."""

    def __init__(self, cluster, number, handle, operation):
        self.client = cluster.connect(owner=b"load-%d" % number, slots=SLOTS, timeout=LOAD_S + 60)
        self.handle, self.operation = handle, operation
        self.statuses: dict[Status, int] = {}
        self.over = threading.Event()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run, daemon=True)
                        for _ in range(self.client.slots)]
        for thread in self.threads:
            thread.start()

    def run(self):
        while not self.over.is_set():
            status = self.client.compound(ops.putfh(self.handle), self.operation).status
            with self.lock:
                self.statuses[status] = self.statuses.get(status, 0) + 1
            if status != Status.OK:
                self.over.wait(REST_S)

    def end(self, timeout_s):
        self.over.set()
        deadline = time.monotonic() + timeout_s
        for thread in self.threads:
            thread.join(max(0.1, deadline - time.monotonic()))
        assert not any(thread.is_alive() for thread in self.threads), "calls without an answer"


def unit_of(cluster, client, handle, stateid, server):
    """The offset of a unit of the file that this data server has."""
    for number in range(len(cluster.ds)):
        before = snapshot(cluster)
        client.call(ops.putfh(handle), ops.write(stateid, number * UNIT, b"x" * UNIT))
        if snapshot(cluster).since(before).written[server.name] == UNIT:
            return number * UNIT
    raise AssertionError("the data server has no part of the file")


def latencies(client, handle, seconds):
    """How long GETATTR of the root takes, asked again and again."""
    found = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.monotonic()
        client.call(ops.putfh(handle), ops.getattr([const.ATTR_CHANGE]))
        found.append(time.monotonic() - begun)
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("how, kind", [("killed", "read"), ("killed", "write"), ("stopped", "read"),
                                       ("stopped", "write"), ("stopped", "commit"),
                                       ("stopped", "setattr")])
def test_the_metadata_server_serves_beside_a_dead_data_server(run, network, how, kind):
    cluster = Cluster(run, network, Options(data_servers=3, stripe_unit=UNIT, lease_s=LEASE_S))
    if not cluster.counted:
        pytest.skip("Ganesha's VFS has no data servers")
    kernel = start_client(run, network)
    kernel.mount(cluster.address, cluster.path)
    watch = cluster.connect(owner=b"watch", timeout=60)
    handle, stateid = watch.open("/export", b"striped", create=True)
    root = watch.handle("/export")
    dead = cluster.ds[1]
    offset = unit_of(cluster, watch, handle, stateid, dead)

    if how == "killed":
        dead.process.kill()
    else:
        dead.process.pause()
    operation = {"read": ops.read(ops.ANONYMOUS, offset, 4096),
                 "write": ops.write(ops.ANONYMOUS, offset, b"y" * 4096),
                 "commit": ops.commit(),
                 "setattr": ops.setattr(size=offset)}[kind]
    loads = [Load(cluster, number, handle, operation) for number in range(LOADS)]
    job = kernel.start_job(KERNEL) if how == "killed" else None
    took = latencies(watch, root, LOAD_S)
    assert sorted(took)[len(took) // 2] < USUAL_S, sorted(took)[-10:]
    assert max(took) < SLOWEST_AT_S.get(kind, SLOWEST_S), sorted(took)[-10:]
    for load in loads:
        load.end(40)
        # Its lease is as good as ever: SEQUENCE says nothing else.
        assert load.client.compound(ops.putrootfh()).sequence.flags == 0
        assert set(load.statuses) <= {Status.DELAY, Status.OK}, load.statuses
    if job:
        job.wait(60)

    # When it is back, what was asked for is done.
    if how == "killed":
        dead.process.start()
    else:
        dead.process.resume()
    wait_until(lambda: loads[0].client.compound(ops.putfh(handle), operation).status == Status.OK,
               30, "the data server's return", 0.2)
    for client in (watch, *(load.client for load in loads)):
        client.close()


def test_an_open_that_truncates_keeps_nobody_from_the_file(run, network):
    """Ganesha holds the lock on a file's state while it opens the file."""
    cluster = Cluster(run, network, Options(data_servers=1))
    if not cluster.counted:
        pytest.skip("Ganesha's VFS has no data servers")
    one, other = (cluster.connect(timeout=60) for _ in range(2))
    handle, stateid = one.open("/export", b"long", create=True, mode=0o666)
    one.call(ops.putfh(handle), ops.write(stateid, 0, b"x" * 100_000))
    root = one.handle("/export")

    def opening(client, **options):
        return client.compound(ops.putfh(root), ops.open_file(
            b"long", client.clientid, create=True, **options))

    cluster.ds[0].process.pause()
    begun = time.monotonic()
    assert opening(one, size=0).status == Status.DELAY
    assert opening(other).status == Status.OK
    assert time.monotonic() - begun < SLOWEST_S
    cluster.ds[0].process.resume()
    wait_until(lambda: opening(one, size=0).status == Status.OK, 30, "the cut", 0.2)
    got = other.call(ops.putfh(handle), ops.getattr([const.ATTR_SIZE]))
    assert got.attributes[const.ATTR_SIZE] == 0
    for client in (one, other):
        client.close()


def test_files_that_wait_for_a_data_server_hold_up_no_recall_of_another(run, network):
    """Many files are truncated at a data server that hangs, while layouts of them are out."""
    files = 24
    cluster = Cluster(run, network, Options(data_servers=2, stripe_count=1, lease_s=40))
    if not cluster.counted:
        pytest.skip("Ganesha's VFS has no data servers")
    holder, writer, other = (cluster.connect(timeout=60, slots=SLOTS) for _ in range(3))
    root = holder.handle("/export")
    for number in range(files):
        handle, stateid = holder.open("/export", b"file-%d" % number, create=True)
        holder.call(ops.putfh(handle), ops.write(stateid, 0, b"x" * 100_000))
        holder.call(ops.putfh(handle), layout_ops.layoutget(stateid))
    free, stateid = holder.open("/export", b"free", create=True)
    holder.call(ops.putfh(free), layout_ops.layoutget(stateid))
    over = threading.Event()

    def truncate(number):
        while not over.is_set():
            writer.compound(ops.putfh(root), ops.open_file(
                b"file-%d" % number, writer.clientid, create=True, size=0))
            over.wait(REST_S)

    for server in cluster.ds:
        server.process.pause()
    threads = [threading.Thread(target=truncate, args=(number,)) for number in range(files)]
    for thread in threads:
        thread.start()
    recalled = {holder.backchannel.next_recall(30).handle for _ in range(files // 2)}
    assert free not in recalled
    begun = time.monotonic()
    asked = threading.Thread(target=other.compound, args=(
        ops.putfh(free), ops.setattr(size=0)))
    asked.start()
    while free not in recalled:
        recalled.add(holder.backchannel.next_recall(30).handle)
    took = time.monotonic() - begun
    over.set()
    for server in cluster.ds:
        server.process.resume()
    for thread in (*threads, asked):
        thread.join(60)
    assert took < SLOWEST_S
    for client in (holder, writer, other):
        client.close()
