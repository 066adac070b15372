"""A data server and its target in two machines that have RDMA: they go by that, by TCP while it
does not get through, and by RDMA again. A data server and its parity group go by it, too."""

import json

import pytest

from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import MIB, weft
from harness.machines import need_kind
from harness.network import Network
from harness.rdma import RDMA_PORT, RdmaDataServer, RdmaTarget, start_machines, write_and_compare
from harness.run import Run, wait_until
from harness.stores import wait_store

pytestmark = pytest.mark.alone  # RDMA by software takes the processors that its machines wait for

SIZE = 8 * MIB
SLOW_S = 300  # machines are emulated
WRITTEN = 'weft_target_rdma_bytes_total{direction="in"}'  # at a target


class System:
    """The client has no RDMA: it comes to the data server by TCP. Several targets are a group."""

    def __init__(self, run: Run, kind: str, targets: int = 1):
        network = Network(run)
        self.cluster = Cluster(run, network, Options(data_servers=0, extra={"Inline": "0"}))
        self.client = start_client(run, network, "uml61")
        home, *far = start_machines(run, network, kind, 1 + targets)
        for machine in (home, *far):
            machine.add_device()
        self.targets = [RdmaTarget(run, self.cluster, machine) for machine in far]
        for target in self.targets:
            target.start()
        where = json.dumps([target.where for target in self.targets])
        self.ds = RdmaDataServer(run, self.cluster, home, store_lines=(
            f"parity = {where}\nparity_patience_seconds = 30\n" if targets > 1 else
            f"target = {where[1:-1]}\n"))
        self.ds.start()
        self.client.mount(self.cluster.address, self.cluster.path, timeout_s=SLOW_S)

    def write(self, name: str, size: int = SIZE) -> tuple[int, int]:
        """A file that comes back as it was. Returns what of it the data server read and wrote at
        its targets by RDMA."""
        before = self.ds.to_target()
        write_and_compare(self.client, name, size)
        after = self.ds.to_target()
        return after[1] - before[1], after[2] - before[2]

    def wait_said(self, transport: str) -> None:
        """Until `weft ds list` says that all targets are reached so."""
        def said() -> bool:
            server, = weft(self.cluster, "ds", "list")
            return server["targets"] == [{"address": target.where, "transport": transport}
                                         for target in self.targets]
        wait_until(said, SLOW_S, f"targets reached by {transport}", 0.5)
        wait_store(self.cluster, "parity" if len(self.targets) > 1 else transport, SLOW_S)


@pytest.mark.faults
def test_a_target_is_reached_by_rdma_while_it_gets_through(run):
    need_kind("uml612")
    system = System(run, "uml612")
    [target] = system.targets
    system.wait_said("rdma")
    came, went = system.write("by-rdma")
    assert came >= SIZE
    assert went >= SIZE
    assert target.metrics()[WRITTEN] >= SIZE

    node = target.machine.node
    node.drop_port(RDMA_PORT)
    system.write("by-tcp")
    system.wait_said("tcp")
    assert system.ds.to_target()[0] == 0
    assert system.write("by-tcp-alone") == (0, 0)

    node.unlimit()
    system.wait_said("rdma")  # it is tried every 30 s
    came, went = system.write("by-rdma-again")
    assert came >= SIZE
    assert went >= SIZE


def test_a_parity_group_is_reached_by_rdma(run):
    """Of two: what one has of a file's bytes, the other has as their parity."""
    need_kind("uml612")
    system = System(run, "uml612", targets=2)
    system.wait_said("rdma")
    came, went = system.write("by-rdma")
    assert came >= SIZE
    assert went >= 2 * SIZE
    for target in system.targets:
        assert target.metrics()[WRITTEN] >= SIZE
