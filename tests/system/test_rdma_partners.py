"""Two data servers that have RDMA, two copies: what one writes at the other goes by RDMA, by TCP
while that does not get through, and by RDMA again."""

import pytest

from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import MIB, weft
from harness.machines import need_kind
from harness.network import Network
from harness.rdma import RDMA_PORT, RdmaDataServer, start_machines, write_and_compare
from harness.run import Run, wait_until

pytestmark = pytest.mark.alone  # RDMA by software takes the processors that its machines wait for

SIZE = 8 * MIB
SLOW_S = 300  # machines are emulated


class Pair:
    """The client has no RDMA: all there is by RDMA is between the data servers."""

    def __init__(self, run: Run, kind: str):
        network = Network(run)
        self.cluster = Cluster(run, network,
                               Options(data_servers=0, extra={"Copies": "2", "Inline": "0"}))
        self.client = start_client(run, network, "uml61")
        self.servers = []
        for number, machine in enumerate(start_machines(run, network, kind, 2), 1):
            machine.add_device()
            self.servers.append(RdmaDataServer(run, self.cluster, machine, number))
            self.servers[-1].start()
        for server in self.servers:
            server.wait_told(rdma=True)
        self.client.mount(self.cluster.address, self.cluster.path, timeout_s=SLOW_S)

    def write(self, name: str, size: int = SIZE) -> int:
        """A file that comes back as it was, with both copies current. Returns what of it went
        between the servers by RDMA."""
        before = self.to_partners()[1]
        write_and_compare(self.client, name, size)
        wait_until(lambda: self.current(name), SLOW_S, f"both copies of {name}", 0.5)
        return self.to_partners()[1] - before

    def stale_objects(self) -> int:
        return weft(self.cluster, "status")["stale_objects"]

    def current(self, name: str) -> bool:
        layout = weft(self.cluster, "layout", "show", f"{self.cluster.path}/{name}")
        return all(copy["state"] == "current"
                   for stripe in layout["stripes"] for copy in stripe["copies"])

    def to_partners(self) -> tuple[int, int]:
        both = [server.to_partners() for server in self.servers]
        return sum(one[0] for one in both), sum(one[1] for one in both)

    def wait_said(self, transport: str) -> None:
        """Until `weft ds list` says that whoever is connected to the other is so by that."""
        def said() -> bool:
            partners = [one["transport"] for server in weft(self.cluster, "ds", "list")
                        for one in server["partners"]]
            return bool(partners) and set(partners) == {transport}
        wait_until(said, SLOW_S, f"partners reached by {transport}", 0.5)


@pytest.mark.faults
def test_copies_go_by_rdma_while_it_gets_through(run):
    need_kind("uml612")
    pair = Pair(run, "uml612")
    # The first connection between two machines may take longer than RDMA is waited for; it is tried
    # every 30 s.
    wait_until(lambda: pair.write("by-rdma") >= SIZE, SLOW_S, "all bytes by RDMA", 2)
    assert pair.to_partners()[0] > 0
    pair.wait_said("rdma")

    node = pair.servers[1].machine.node
    node.drop_port(RDMA_PORT)
    pair.write("by-tcp")
    wait_until(lambda: pair.to_partners()[0] == 0, SLOW_S, "no connection by RDMA")
    assert pair.write("by-tcp-alone") == 0
    pair.wait_said("tcp")

    node.unlimit()
    # Each server tries it every 30 s, by itself; either may be the one that writes at the other.
    wait_until(lambda: pair.write("by-rdma-again") >= SIZE, SLOW_S, "all bytes by RDMA again", 2)
    pair.wait_said("rdma")


@pytest.mark.faults
@pytest.mark.long
def test_what_a_server_missed_comes_by_rdma(run):
    need_kind("uml612")
    pair = Pair(run, "uml612")
    away, stays = pair.servers
    pair.write("missed")

    def came_by_rdma() -> bool:
        """It reads at its partner what it missed: by TCP if the first connection takes longer than
        RDMA is waited for."""
        away.stop("KILL")
        pair.client.run(f"head -c {SIZE} /dev/urandom > /tmp/missed\n"
                        "dd if=/tmp/missed of=/mnt/nfs/missed bs=1M conv=notrunc,fsync",
                        timeout_s=SLOW_S)
        assert pair.stale_objects() > 0
        away.start()
        away.wait_told(rdma=True)
        wait_until(lambda: pair.stale_objects() == 0, SLOW_S, "the copies to be current", 0.5)
        assert away.checksums() == stays.checksums() != {}
        return away.from_partners() >= SIZE
    wait_until(came_by_rdma, SLOW_S, "all that was missed to come by RDMA", 1)
    pair.client.run("weft-drop-caches && cmp /tmp/missed /mnt/nfs/missed", timeout_s=SLOW_S)
