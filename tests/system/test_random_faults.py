"""Random faults under a verified load: nothing acknowledged is lost, nothing stale is read, and the
namespace is what the client made of it.

Each round something happens to one server: it is killed, stopped, cut off or slowed down, or loses
power; its disk is full, takes itself for broken and read only, or hangs; for some seconds. Data
servers of one failure domain only, so never two copies of a stripe at once.
After some rounds the load pauses, copies are compared on the disks once they were repaired, and it
is the other domain's turn.

WEFT_FAULT_ROUNDS (6; ./dev test faults: 200) and WEFT_FAULT_SEED (drawn, and printed) choose."""

import os
import random
import signal

import pytest
from harness import disks
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.copies import wait_equal
from harness.run import sh
from harness.verified_load import VerifiedLoad

pytestmark = pytest.mark.faults

ROUNDS = int(os.environ.get("WEFT_FAULT_ROUNDS", "6"))
TURN = 3  # rounds of one domain
# With a disk for each server, where there are loop devices.
TWO = {"extra": {"Copies": "2"}, "store": "folder",
       "power": os.path.exists("/dev/loop-control"), "store_mib": 512}
KINDS = {"1": {}, "2": TWO, "flexfiles": {**TWO, "layout": "flexfiles"}}
FAULT_S = 8  # what happens takes no longer
# Of a step of the load, by docs/troubleshooting.md and docs/fail-over.md: a client has its layouts
# when the grace period ends, which another fault of the same turn begins anew, and goes on up to
# 15 s later than it could; then 10 s for data servers.
LONGEST_S = TURN * (FAULT_S + Options.grace_s) + 15 + 10


class Faults:
    """What may happen. Each is over when its function returns, but for what has to be repaired."""

    def __init__(self, cluster, rng, load):
        self.cluster, self.rng, self.load = cluster, rng, load
        self.kinds = [self.kill, self.stop, self.slow, self.cut]
        self.mds_kinds = [self.mds_kill, self.mds_stop, self.mds_cut]
        if cluster.options.power:
            self.kinds += [self.full, self.read_only, self.hang, self.power]
            self.mds_kinds.append(self.mds_power)

    def _rest(self, longest_s):
        self.load.run_on(self.rng.uniform(0.5, longest_s))

    def kill(self, server):
        server.process.kill()
        self._rest(6)
        server.process.start()

    def stop(self, server):
        """For longer than its supervisor allows, or not."""
        child = server.process.child_pid()
        os.kill(child, signal.SIGSTOP)
        self._rest(FAULT_S)
        try:
            os.kill(child, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def slow(self, server):
        server.node.limit("20mbit")
        self._rest(6)
        server.node.unlimit()

    def cut(self, server):
        """For a moment: of longer cuts 6.1 notices nothing for minutes (test_failover.py)."""
        server.node.cut()
        self._rest(4)
        server.node.restore()

    def full(self, server):
        server.fill()
        self._rest(5)
        server.unfill()

    def read_only(self, server):
        """As ext4 makes it when it finds that something is wrong."""
        disks.find_error(server.store)
        self._rest(6)
        server.new_disk_cable()

    def hang(self, server):
        with disks.frozen(server.store):
            self._rest(FAULT_S)

    def power(self, server):
        os.kill(server.process.child_pid(), signal.SIGSTOP)  # at the same moment as its supervisor
        self.cluster.lose_power([server])

    def mds_kill(self):
        self.cluster.mds.kill()
        self._rest(3)
        self.cluster.restart_mds()

    def mds_stop(self):
        self.cluster.mds.pause()
        self._rest(FAULT_S)
        self.cluster.mds.resume()

    def mds_cut(self):
        self.cluster.mds_node.cut()
        self._rest(4)
        self.cluster.mds_node.restore()

    def mds_power(self):
        self.cluster.lose_power([self.cluster])

    def any(self, servers) -> str:
        if self.rng.randrange(4) == 0:
            fault = self.rng.choice(self.mds_kinds)
            fault()
            return fault.__name__
        fault, server = self.rng.choice(self.kinds), self.rng.choice(servers)
        fault(server)
        return f"{fault.__name__} {server.name}"


def start(run, network, kind):
    cluster = Cluster(run, network, Options(
        supervise=True, domains=("a", "b"), stripe_unit=1 << 18, **KINDS[kind]))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    for server in cluster.ds if cluster.options.power else []:
        server.disk.options += ",errors=remount-ro"
        sh("mount", "-o", "remount,errors=remount-ro", str(server.store))
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    return cluster, client


@pytest.mark.parametrize("kind", KINDS)
def test_random_faults(run, network, kind):
    seed = int(os.environ.get("WEFT_FAULT_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    rng = random.Random(seed)
    cluster, client = start(run, network, kind)
    copies = int(cluster.options.extra.get("Copies", "1"))
    load = VerifiedLoad(client, seed)
    faults = Faults(cluster, rng, load)
    turn = 0
    for number in range(1, ROUNDS + 1):
        side = cluster.ds[turn % 2::2]
        load.run_on(rng.uniform(0.5, 3))
        what = faults.any(side)
        print(f"seed {seed} round {number}: {what}", flush=True)
        cluster.wait_up(60)
        if number % TURN == 0 and number < ROUNDS:
            load.hold(cluster, copies)
            load.go_on()
            turn += 1
    load.wait_enough()
    result = load.end()
    wait_equal(cluster, copies)
    print(f"seed {seed}: {result}")
    assert result["write"] > ROUNDS and result["read"] > ROUNDS
    assert result["cut"] > 0 and result["punch"] > 0, result
    assert result["longest"] < LONGEST_S
