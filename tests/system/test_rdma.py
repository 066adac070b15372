"""Stock clients and RDMA, Linux 6.12 and 6.1: whoever has it comes to data servers by RDMA, whoever
has not by TCP, by itself. The mount is by TCP for all."""

import json

import pytest

from harness import paths
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.config import NFS_PORT
from harness.counters import MIB, through_data_servers
from harness.machines import need_kind
from harness.network import Network
from harness.rdma import RdmaDataServer, start_machines, write_and_compare
from harness.run import Run, wait_until
from test_fio import fio

pytestmark = pytest.mark.alone  # RDMA by software takes the processors that its machines wait for

SIX = "fd88::101"
SIZE = 8 * MIB
SLOW_S = 300  # machines are emulated


class System:
    """One metadata server, one data server that has RDMA, and a client that can have it."""

    def __init__(self, run: Run, kind: str):
        self.run = run
        self.network = Network(run)
        self.cluster = Cluster(run, self.network,
                               Options(data_servers=0, extra={"Inline": "0"}))
        self.home, self.client = start_machines(run, self.network, kind, 2)
        self.plain = start_client(run, self.network, "uml61")  # its kernel has no RDMA
        self.ds = RdmaDataServer(run, self.cluster, self.home)
        self.ds.start()

    def by_rdma(self) -> "System":
        """With devices, and mounted."""
        self.home.add_device()
        self.ds.wait_told(rdma=True)
        self.client.add_device()
        for client in (self.client, self.plain):
            self.mount(client)
        return self

    def mount(self, client) -> None:
        client.mount(self.cluster.address, self.cluster.path, timeout_s=SLOW_S)

    def write_and_read(self, client, name: str, by: str) -> None:
        """A file that comes back as it was, through the data server alone, by "rdma" or "tcp"."""
        with through_data_servers(self.cluster, written=SIZE, read=SIZE), self.ds.all_by(by, SIZE):
            write_and_compare(client, name, SIZE)


def test_clients_choose_by_themselves(run):
    need_kind("uml612")
    system = System(run, "uml612")
    home, client, plain = system.home, system.client, system.plain
    system.ds.wait_told(rdma=False)
    system.mount(plain)
    system.write_and_read(plain, "before", by="tcp")

    home.add_device()
    system.ds.wait_told(rdma=True)
    system.write_and_read(plain, "after", by="tcp")  # its kernel has no RDMA

    system.mount(client)
    system.write_and_read(client, "without-device", by="tcp")
    client.unmount()

    client.add_device()
    system.mount(client)
    system.write_and_read(client, "by-rdma", by="rdma")
    assert "proto=tcp" in client.run("grep ' /mnt/nfs ' /proc/mounts").output


def test_a_distributions_kernel_goes_by_rdma():
    need_kind("rdma")
    with Run() as run:
        system = System(run, "rdma").by_rdma()
        system.write_and_read(system.client, "by-rdma", by="rdma")
        system.write_and_read(system.plain, "by-tcp", by="tcp")


def network_of(name: str, addresses: list[str], client) -> str:
    return (f'[[network]]\nname = "{name}"\naddresses = {json.dumps(addresses)}\n'
            f'clients = ["{client.node.address}"]\n')


def test_a_network_says_which_transport_comes_first(run):
    """Both clients have a device. Each is in a network of its own, which has both addresses."""
    need_kind("uml612")
    network = Network(run)
    cluster = Cluster(run, network, Options(data_servers=0, extra={"Inline": "0"}))
    home, first, second = start_machines(run, network, "uml612", 3)
    for machine in (home, first, second):
        machine.add_device()
    by_tcp, by_rdma = f"{home.node.address}:{NFS_PORT}", f"rdma://{home.node.address}"
    server = RdmaDataServer(run, cluster, home, store_lines=(
        network_of("rdma-first", [by_rdma, by_tcp], first) +
        network_of("tcp-first", [by_tcp, by_rdma], second)))
    server.start()
    server.wait_told(rdma=True)
    for client, transport in ((first, "rdma"), (second, "tcp")):
        client.mount(cluster.address, cluster.path, timeout_s=SLOW_S)
        with through_data_servers(cluster, written=SIZE, read=SIZE), server.all_by(transport, SIZE):
            write_and_compare(client, f"{transport}-first", SIZE)


@pytest.fixture(scope="module")
def system():
    need_kind("uml612")
    with Run() as run:
        yield System(run, "uml612").by_rdma()


@pytest.mark.parametrize(("how", "block", "direct", "engine"), [
    ("randwrite", "4k", 0, "psync"), ("write", "4k", 0, "psync"), ("randwrite", "4k", 1, "psync"),
    ("write", "4k", 1, "psync"), ("write", "64k", 1, "psync"), ("randwrite", "1M", 1, "psync"),
    ("write", "4M", 0, "psync"), ("randwrite", "4M", 0, "psync"), ("write", "4M", 1, "psync"),
    ("randwrite", "4M", 1, "psync"), ("randwrite", "4k", 0, "mmap"), ("write", "64k", 0, "mmap")])
def test_verified_by_rdma(system, how, block, direct, engine):
    """All of it goes to the data server, by RDMA, and comes back so."""
    size = (1 if block == "4k" else 8) * MIB
    with (through_data_servers(system.cluster, written=size, read=size),
          system.ds.all_by("rdma", size)):
        system.client.run(fio("/mnt/nfs", how, block, direct, size // MIB, engine),
                          timeout_s=SLOW_S)


def test_what_one_writes_by_rdma_the_other_reads_by_tcp(system):
    system.client.run("dd if=/dev/urandom of=/tmp/both bs=64k count=32 && "
                      "cp /tmp/both /mnt/nfs/both")
    sums = [machine.run("sha256sum < /mnt/nfs/both", timeout_s=SLOW_S).output
            for machine in (system.client, system.plain)]
    assert sums[0] == sums[1] == system.client.run("sha256sum < /tmp/both").output


@pytest.mark.faults
def test_a_data_server_that_is_killed_is_used_by_rdma_again(system):
    job = system.client.start_job("set -e\ncd /mnt/nfs\n"
                                  "dd if=/dev/urandom of=/tmp/long bs=1M count=24\n"
                                  "weft-signal begun\n"
                                  "dd if=/tmp/long of=long bs=1M oflag=direct\n"
                                  "weft-drop-caches\ncmp /tmp/long long\nrm /tmp/long")
    system.client.wait_event("begun")
    wait_until(lambda: system.ds.moved()[0] > 0, SLOW_S, "bytes by RDMA")
    system.ds.stop("KILL")
    system.ds.start()
    system.ds.wait_told(rdma=True)
    job.wait(SLOW_S)
    system.write_and_read(system.client, "again", by="rdma")


def test_calls_over_a_device(run):
    """The unit tests that need one, in a machine that has it, by IPv4 and by IPv6."""
    need_kind("uml612")
    machine, = start_machines(run, Network(run), "uml612", 1)
    machine.run(f"ip addr add {SIX}/64 dev {machine.device} nodad", root=True)
    machine.add_device()
    for address in (machine.node.address, SIX):
        command = f"env WEFT_RDMA_ADDRESS={address} {paths.rdma_verbs_test()}"
        machine.run(machine.enter_host(command), SLOW_S, root=True)


@pytest.mark.faults
def test_a_client_whose_device_goes_and_comes(system):
    """Its mount goes on meanwhile, by whatever way Linux takes."""
    system.write_and_read(system.client, "before-it-goes", by="rdma")
    system.client.remove_device()
    system.client.run("set -e\ncd /mnt/nfs\ndd if=/dev/urandom of=/tmp/gone bs=1M count=4\n"
                      "time cp /tmp/gone gone\nsync gone\nweft-drop-caches\ncmp /tmp/gone gone",
                      timeout_s=SLOW_S)
    system.client.add_device()

    def by_rdma() -> bool:
        before = system.ds.moved()
        system.client.run("cd /mnt/nfs && dd if=/dev/urandom of=back bs=1M count=1 conv=fsync",
                          timeout_s=SLOW_S)
        return system.ds.moved()[0] - before[0] >= MIB
    wait_until(by_rdma, SLOW_S, "the client to use its device again", 2)
