"""A data server whose machine has two links, with a device each: clients go by both, and by what is
left when a link goes down, TCP at the end. Addresses are of IPv4 and IPv6."""

import time

import pytest
from harness.cluster import Cluster, Options
from harness.counters import MIB, snapshot, through_data_servers
from harness.machines import need_kind
from harness.network import Network
from harness.rdma import RDMA_PORT, RdmaDataServer, start_machines, write_and_compare
from harness.run import Run, wait_until

pytestmark = pytest.mark.alone  # RDMA by software takes the processors that its machines wait for

SIZE = 8 * MIB
SLOW_S = 300  # machines are emulated
FIRST = "10.77.0.101"
SECOND = "10.79.0"
SIX = "fd88:0:0:2"
PACKET = 1024  # bytes of a packet, of links whose frames have 1500
# What the client waits for a data server's answer; its own default is 60 s.
ANSWER_S = 10
ANSWER = "/sys/module/nfs_layout_nfsv41_files/parameters/dataserver_timeo"

# Writes a file of 8 MiB over and over until the event "enough", and reads it back.
LOAD = """#!/usr/bin/python3
import os
from weftio import *
fd = os.open("/mnt/nfs/long", os.O_CREAT | os.O_RDWR)
turn = 0
while turn == 0 or not os.path.exists("/run/weft/to_guest/event-enough"):
    for at in range(8):
        os.pwrite(fd, block(turn * 8 + at), at * MIB)
        os.fsync(fd)
    turn += 1
    os.system("weft-signal begun")
os.close(fd)
drop_caches()
check("/mnt/nfs/long", b"".join(block((turn - 1) * 8 + at) for at in range(8)))
"""


class System:
    """The data server's first link has rxe0, and its second rxe1; the client has one of each."""

    def __init__(self, run: Run, by_rdma: list[str]):
        self.run = run
        network = Network(run)
        self.cluster = Cluster(run, network,
                               Options(data_servers=0, extra={"Inline": "0"}))
        self.home, = start_machines(run, network, "uml612", 1, links=2)
        self.client, = start_machines(run, network, "uml612", 1)
        # An address is that of its link alone: Soft-RoCE listens to no other.
        self.home.run("sysctl -qw net.ipv4.conf.all.arp_ignore=1\nip link set vec1 up\n"
                      f"ip addr add {SECOND}.101/24 dev vec1\n"
                      f"ip addr add {SIX}::101/64 dev vec1 nodad", root=True)
        self.client.run(f"ip addr add {SECOND}.102/24 dev vec0\n"
                        f"ip addr add {SIX}::102/64 dev vec0 nodad\n"
                        f"echo {ANSWER_S * 10} > {ANSWER}", root=True)
        self.home.add_device()
        self.home.add_device("rxe1", "vec1")
        self.client.add_device()
        self.serve(by_rdma)

    def serve(self, by_rdma: list[str]) -> None:
        """By RDMA at these addresses, and the client has it mounted."""
        self.ds = RdmaDataServer(self.run, self.cluster, self.home, by_rdma=by_rdma)
        self.ds.start()
        self.ds.wait_told(rdma=True)
        self.client.mount(self.cluster.address, self.cluster.path, timeout_s=SLOW_S)

    def write_and_read(self, name: str) -> tuple[int, int]:
        """A file that comes back as it was, through the data server alone. Returns what of that
        came and went by RDMA."""
        before = self.ds.moved()
        with through_data_servers(self.cluster, written=SIZE, read=SIZE):
            write_and_compare(self.client, name, SIZE)
        return tuple(now - then for now, then in zip(self.ds.moved(), before))

    def all_by_rdma(self, name: str) -> None:
        came, went = self.write_and_read(name)
        assert came >= SIZE
        assert went >= SIZE

    def devices(self) -> tuple[int, int]:
        """Packets that came and went by the server's first and second link."""
        return tuple(sum(self.home.device_has_moved(name)) for name in ("rxe0", "rxe1"))

    def wait_quiet(self) -> None:
        """Until the server has sent what it sends of its own, a second after the last answer."""
        def quiet() -> bool:
            before = self.devices()
            time.sleep(2)
            return self.devices() == before
        wait_until(quiet, SLOW_S, "no packets")

    def set_link(self, link: str, state: str) -> None:
        self.home.run(f"ip link set {link} {state}", root=True)

    def mend_device(self) -> None:
        """The farewell that Soft-RoCE cannot send while its link is down may leave its queue pair
        for connection management in error, and no connection comes about by it then. A device
        that is made anew has another. It cannot be deleted while the server has it open."""
        pairs = self.home.run("rdma res show qp", root=True).output
        if not any("type GSI" in line and "state ERR" in line for line in pairs.splitlines()):
            return
        print("rxe1 is made anew")
        self.ds.stop()
        self.home.run("rdma link delete rxe1", root=True)
        self.home.add_device("rxe1", "vec1")
        self.ds.start()
        self.ds.wait_told(rdma=True)


@pytest.fixture
def start(run):
    need_kind("uml612")
    return lambda *by_rdma: System(run, list(by_rdma))


@pytest.mark.faults
def test_a_link_that_goes_down_and_comes(start):
    """Between two files: what comes after goes to the data server by TCP, and by RDMA again."""
    system = start(f"{SECOND}.101")
    system.all_by_rdma("before")
    system.wait_quiet()
    system.set_link("vec1", "down")
    system.ds.wait_told(rdma=False)
    assert system.write_and_read("by-tcp") == (0, 0)

    system.set_link("vec1", "up")
    # A client that does not find it at once stays with TCP.
    system.client.run(f"until ping -c 1 -W 1 {SECOND}.101; do sleep 1; done",
                      timeout_s=SLOW_S, root=True)
    system.ds.wait_told(rdma=True)
    system.all_by_rdma("again")


@pytest.mark.faults
def test_a_link_that_goes_down_in_the_middle(start):
    """What is under way goes through the metadata server once the client has waited for its
    answer, and what comes after to the data server by TCP. When the link is up again, it goes by
    RDMA again."""
    system = start(f"{SECOND}.101")
    system.all_by_rdma("before")
    job = system.client.start_job(LOAD)
    system.client.wait_event("begun")
    system.set_link("vec1", "down")
    system.ds.wait_told(rdma=False)
    system.client.signal("enough")
    job.wait(SLOW_S)
    assert system.write_and_read("by-tcp") == (0, 0)

    system.set_link("vec1", "up")
    system.ds.wait_told(rdma=True)
    system.mend_device()
    system.client.run(f"until ping -c 1 -W 1 {SECOND}.101; do sleep 1; done",
                      timeout_s=SLOW_S, root=True)
    system.all_by_rdma("again")


@pytest.mark.faults
@pytest.mark.long
def test_rdma_that_is_lost_on_its_way(start):
    """Neither end sees its link go down, so addresses stay as they are. Linux keeps its client of
    the data server, with the transport that it has: it goes through the metadata server, once it
    has waited for an answer of the data server."""
    system = start(f"{SECOND}.101")
    system.all_by_rdma("before")
    system.home.node.drop_port(RDMA_PORT)
    before = snapshot(system.cluster)
    moved = system.ds.moved()
    write_and_compare(system.client, "without", SIZE)
    assert system.ds.moved() == moved
    counts = snapshot(system.cluster).since(before)
    assert counts.mds_writes > 0 and counts.mds_reads > 0, counts

    system.home.node.unlimit()

    def by_rdma() -> bool:
        before = system.ds.moved()
        system.client.run("cd /mnt/nfs && dd if=/dev/urandom of=back bs=1M count=1 conv=fsync",
                          timeout_s=SLOW_S)
        return system.ds.moved()[0] - before[0] >= MIB
    wait_until(by_rdma, SLOW_S, "the client to use RDMA again", 2)


@pytest.mark.long
def test_both_links_are_used_and_ipv6(start):
    """One server at two addresses of one family: Linux connects to both, and sends in turn, without
    an option. Then by IPv6 alone."""
    system = start(f"{SECOND}.101", FIRST)
    before = system.devices()
    system.all_by_rdma("both")
    for now, then in zip(system.devices(), before):
        assert now - then > SIZE / 2 // PACKET, (before, system.devices())

    system.client.unmount()
    system.ds.stop()
    system.serve([f"[{SIX}::101]"])
    assert system.ds.told()[1:] == [f"rdma://[{SIX}::101]:20049"]
    before = system.devices()
    system.all_by_rdma("six")
    first, second = (now - then for now, then in zip(system.devices(), before))
    assert first == 0
    assert second > SIZE // PACKET
