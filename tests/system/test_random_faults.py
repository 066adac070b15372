"""Random faults under a verified load: nothing acknowledged is lost, nothing stale is read, and the
namespace is what the client made of it.

Each round something happens to one server: it is killed, stopped, cut off, slowed down or full,
for some seconds; data servers of one failure domain only, so never two copies of a stripe at once.
After some rounds the load pauses, copies are compared on the disks once they were repaired, and it
is the other domain's turn.

WEFT_FAULT_ROUNDS (8; ./dev test faults: 200) and WEFT_FAULT_SEED (drawn, and printed) choose."""

import os
import random
import signal

import pytest
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.copies import wait_equal
from harness.verified_load import VerifiedLoad

pytestmark = pytest.mark.faults

ROUNDS = int(os.environ.get("WEFT_FAULT_ROUNDS", "8"))
TURN = 4  # rounds of one domain


class Faults:
    """What may happen. Each is over when its function returns, but for what has to be repaired."""

    def __init__(self, cluster, rng, load, may_fill):
        self.cluster, self.rng, self.load, self.may_fill = cluster, rng, load, may_fill

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
        self._rest(8)
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

    def mds_kill(self):
        self.cluster.mds.kill()
        self._rest(3)
        self.cluster.restart_mds()

    def mds_stop(self):
        self.cluster.mds.pause()
        self._rest(8)
        self.cluster.mds.resume()

    def mds_cut(self):
        self.cluster.mds_node.cut()
        self._rest(4)
        self.cluster.mds_node.restore()

    def any(self, servers) -> str:
        kinds = [self.kill, self.stop, self.slow, self.cut]
        if self.may_fill:
            kinds.append(self.full)
        if self.rng.randrange(4) == 0:
            fault = self.rng.choice([self.mds_kill, self.mds_stop, self.mds_cut])
            fault()
            return fault.__name__
        fault, server = self.rng.choice(kinds), self.rng.choice(servers)
        fault(server)
        return f"{fault.__name__} {server.name}"


@pytest.mark.parametrize("copies", [1, 2])
def test_random_faults(run, network, copies):
    seed = int(os.environ.get("WEFT_FAULT_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    rng = random.Random(seed)
    full = copies > 1 and os.path.exists("/dev/loop-control")  # disks of their own, to be filled
    extra = {"Copies": str(copies)} if copies > 1 else {}
    cluster = Cluster(run, network, Options(
        supervise=True, domains=("a", "b"), stripe_unit=1 << 18, extra=extra,
        store_mib=512 if full else 0))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    load = VerifiedLoad(client, seed)
    faults = Faults(cluster, rng, load, full)
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
    result = load.end()
    wait_equal(cluster, copies)
    print(f"seed {seed}: {result}")
    assert result["write"] > ROUNDS and result["read"] > ROUNDS
