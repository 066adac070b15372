"""A metadata server and a data server in two machines that have RDMA: what goes through the first
goes on by that, by TCP while it does not get through, and by RDMA again."""

import pytest

from harness.client import start_client
from harness.cluster import Options
from harness.counters import MIB, weft
from harness.machines import need_kind
from harness.network import Network
from harness.rdma import (RDMA_PORT, RdmaDataServer, RdmaMetadataServer, start_machines,
                          write_and_compare)
from harness.run import Run, wait_until

pytestmark = pytest.mark.alone  # RDMA by software takes the processors that its machines wait for

SIZE = 8 * MIB
SLOW_S = 300  # machines are emulated


class System:
    """The client has no RDMA, and no layouts."""

    def __init__(self, run: Run, kind: str):
        network = Network(run)
        self.client = start_client(run, network, "uml61")
        home, far = start_machines(run, network, kind, 2)
        for machine in (home, far):
            machine.add_device()
        self.mds = RdmaMetadataServer(run, home, Options(pnfs=False, extra={"Inline": "0"}))
        self.mds.start()
        self.ds = RdmaDataServer(run, self.mds, far)
        self.ds.start()
        self.ds.wait_told(rdma=True)
        self.client.mount(self.mds.address, self.mds.path, timeout_s=SLOW_S)

    def write(self, name: str, size: int = SIZE) -> tuple[int, int]:
        """A file that comes back as it was. Returns what of it came to and left the data server by
        RDMA."""
        before = self.ds.moved()
        write_and_compare(self.client, name, size)
        after = self.ds.moved()
        return after[0] - before[0], after[1] - before[1]

    def route(self) -> str:
        server, = weft(self.mds, "ds", "list")
        return server["proxy"]


@pytest.mark.faults
def test_what_goes_through_the_metadata_server_goes_by_rdma_while_it_gets_through(run):
    need_kind("uml612")
    system = System(run, "uml612")

    def all_of(name: str) -> bool:
        came, went = system.write(name)
        return came >= SIZE and went >= SIZE
    # The first connection between two machines may take longer than RDMA is waited for; it is tried
    # every 30 s.
    wait_until(lambda: all_of("by-rdma"), SLOW_S, "all bytes by RDMA", 2)
    assert system.route() == "rdma"

    node = system.ds.machine.node
    node.drop_port(RDMA_PORT)
    system.write("by-tcp")
    assert system.write("by-tcp-alone") == (0, 0)
    assert system.route() == "tcp"

    node.unlimit()
    wait_until(lambda: all_of("by-rdma-again"), SLOW_S, "all bytes by RDMA again", 2)
    assert system.route() == "rdma"
