"""Two data servers that have RDMA, two copies, and a client that comes by it: one server dies, the
other hangs, and they come back, under a load that knows what has to be there."""

import time

import pytest
from harness import paths
from harness.cluster import Cluster, Options
from harness.counters import weft
from harness.machines import need_kind
from harness.network import Network
from harness.rdma import RdmaDataServer, start_machines
from harness.run import Run, wait_until
from harness.verified_load import VerifiedLoad

pytestmark = [pytest.mark.alone,  # RDMA by software takes the processors that its machines wait for
              pytest.mark.faults]

SLOW_S = 300  # machines are emulated
UNDER_WAY_S = 4  # of load, around each thing that happens to a server
HANGS_S = 2 * UNDER_WAY_S
CALL_S = 10  # what no call takes longer than with two copies (docs/fail-over.md), beside that time


class Pair:
    """Each server in a machine of its own, and the client in a third; all three have devices."""

    def __init__(self, run: Run, layout: str):
        network = Network(run)
        self.cluster = Cluster(run, network, Options(
            data_servers=0, layout=layout, extra={"Copies": "2", "Inline": "0"}))
        *homes, self.client = start_machines(run, network, "uml612", 3)
        self.servers = []
        for number, machine in enumerate(homes, 1):
            machine.add_device()
            self.servers.append(RdmaDataServer(run, self.cluster, machine, number))
            self.servers[-1].start()
        self.wait_told()
        self.client.add_device()
        self.client.mount(self.cluster.address, self.cluster.path, timeout_s=SLOW_S)

    def wait_told(self) -> None:
        for server in self.servers:
            server.wait_told(rdma=True)

    def moved(self) -> tuple[int, int]:
        came, went = zip(*(server.moved() for server in self.servers))
        return sum(came), sum(went)

    def wait_used(self, server: RdmaDataServer, load: VerifiedLoad) -> None:
        """Until the load's bytes come to this server by RDMA from now on."""
        before = server.moved()[0]
        wait_until(lambda: load.run_on(0.5) or server.moved()[0] > before, SLOW_S,
                   f"bytes by RDMA to {server.name}")

    def wait_equal(self) -> None:
        """Until no copy is stale, and the objects at the two servers are the same."""
        wait_until(lambda: weft(self.cluster, "status")["stale_objects"] == 0, SLOW_S,
                   "all copies to be current", 0.5)

        def equal() -> bool:
            one, other = (server.checksums() for server in self.servers)
            return bool(one) and one == other
        wait_until(equal, SLOW_S, "the copies to be equal", 2)


@pytest.mark.parametrize("layout", ["files", "flexfiles"])
def test_a_server_dies_and_hangs_while_the_client_writes_and_reads(run, layout):
    need_kind("uml612")
    pair = Pair(run, layout)
    load = VerifiedLoad(pair.client, 17)
    # It writes more than it reads, and reads what its kernel keeps.
    wait_until(lambda: min(pair.moved()) > 0, SLOW_S, "the load to go by RDMA both ways", 1)

    victim, other = pair.servers
    killed = time.monotonic()
    victim.stop("KILL")
    if layout == "files":  # of flexible files a close may wait for the server (docs/fail-over.md)
        load.wait_steps(load.steps() + 2, CALL_S)
    load.run_on(UNDER_WAY_S)
    victim.start()
    pair.wait_told()
    killed_s = time.monotonic() - killed
    load.wait_steps(load.steps() + 2, CALL_S)
    pair.wait_used(victim, load)

    other.signal("STOP")
    load.run_on(HANGS_S)
    other.signal("CONT")
    load.wait_steps(load.steps() + 2, CALL_S)
    pair.wait_told()
    pair.wait_used(other, load)
    load.run_on(UNDER_WAY_S)
    result = load.end()
    print(f"killed for {killed_s:.0f} s: {result}")
    assert result["longest"] < max(killed_s, HANGS_S) + CALL_S
    pair.wait_equal()
    pair.client.install(paths.weft_command())
    wait_until(lambda: pair.client.run("weft verify /mnt/nfs", SLOW_S, check=False).status == 0,
               SLOW_S, "the client to go by data servers alone", 2)
