"""Clients in several networks: each is told the addresses of data servers in its own, by IPv4 and
IPv6, and one in none is served through the metadata server, which says why."""

import json

import pytest
from harness import paths
from harness.client import start_clients
from harness.cluster import Cluster, Options
from harness.config import NFS_PORT
from harness.counters import MIB, snapshot, through_data_servers, weft
from harness.run import sh, wait_until

SIX = "fd88:0:0:1"
OTHER = "10.99.0"
NEAR = ["10.77.0.0/24"]


def addresses_of(number: int) -> dict[str, str]:
    """Of a data server, by network."""
    host = 10 + number
    return {"near": f"10.77.0.{host}:{NFS_PORT}", "six": f"[{SIX}::{host}]:{NFS_PORT}",
            "other": f"{OTHER}.{host}:{NFS_PORT}"}


def tables(number: int, clients: dict[str, list[str]], more_addresses: list[str]) -> str:
    at = addresses_of(number)
    return "".join(f'[[network]]\nname = "{name}"\n'
                   f"addresses = {json.dumps([at[one] for one in [name, *more_addresses]])}\n"
                   f"clients = {json.dumps(ranges)}\n" for name, ranges in clients.items())


class InNetworks:
    """Two data servers and three clients: one of IPv4, one of IPv6, and one elsewhere."""

    def __init__(self, run, network, layout: str = "files", more: dict | None = None):
        self.cluster = Cluster(run, network, Options(data_servers=2, layout=layout,
                                                     extra={"Inline": "0", **(more or {})}))
        self._give(self.cluster.mds_node, 1)
        for number, server in enumerate(self.cluster.ds, 1):
            self._give(server.node, 10 + number)
        self.clients = start_clients(run, network, ["uml612"] * 3)
        for number, client in enumerate(self.clients, 1):
            client.run(f"ip addr add {OTHER}.{100 + number}/24 dev {client.device}\n"
                       f"ip addr add {SIX}::{100 + number}/64 dev {client.device} nodad", root=True)

    @staticmethod
    def _give(node, host: int) -> None:
        sh("ip", "-n", node.namespace, "addr", "add", f"{OTHER}.{host}/24", "dev", "e0")
        sh("ip", "-n", node.namespace, "addr", "add", f"{SIX}::{host}/64", "dev", "e0", "nodad")

    def use(self, clients: dict[str, list[str]], more: dict[int, dict] | None = None,
            more_addresses: list[str] | None = None) -> None:
        """The data servers start anew with these networks; some with more. Each network has the
        addresses of these, too."""
        for number, server in enumerate(self.cluster.ds, 1):
            file = server.store.parent / "weft-ds.toml"
            text = file.read_text().split("[[network]]")[0]
            listen = json.dumps(list(addresses_of(number).values()))
            text = "\n".join(f"listen = {listen}" if line.startswith("listen = ") else line
                             for line in text.splitlines()
                             if not line.startswith("advertise = "))
            text = text.replace("\n[store]", f'\nadvertise = ["{addresses_of(number)["near"]}"]\n'
                                             "\n[store]", 1)
            own = {**clients, **(more or {}).get(number, {})}
            file.write_text(text + "\n" + tables(number, own, more_addresses or []))
            server.process.stop()
            server.process.start()
        self.cluster.wait_up()

    def mount(self) -> None:
        four, six, other = self.clients
        path = self.cluster.path
        four.mount(self.cluster.address, path)
        six.mount(f"[{SIX}::1]", path, options="vers=4.2,proto=tcp6")
        other.mount(f"{OTHER}.1", path)

    def connections(self, number: int) -> set[str]:
        """Ends at clients of connections to a data server's NFS port, with the end there."""
        node = self.cluster.ds[number - 1].node
        shown = sh(*node.enter_command(), "ss", "-tnH", "state", "established",
                   f"sport = :{NFS_PORT}")
        return {" ".join(line.split()[2:4]) for line in shown.splitlines()}


def write_and_read(client, name: str) -> None:
    client.python(f"""from weftio import *
import os, subprocess
data = block(7, {4 * MIB})
with open("/mnt/nfs/{name}", "wb") as file:
    file.write(data)
    os.fsync(file.fileno())
subprocess.run(["weft-drop-caches"], check=True)
same("{name}", open("/mnt/nfs/{name}", "rb").read() == data, True)
""", 120)


def keep_connections(client) -> None:
    """To data servers: a client without a layout closes them. It has that of an open file now."""
    client.start_job(f"exec 3>/mnt/nfs/open-{client.name}\n"
                     "dd if=/dev/zero bs=1M count=2 >&3; sync; weft-signal open\n"
                     "exec sleep 60")
    client.wait_event("open")


def verify_says_no(client) -> None:
    """Without the metadata server's socket it knows that layouts are refused, and not why: it says
    where to ask."""
    client.install(paths.weft_command())
    done = client.run("weft verify /mnt/nfs --size 1MiB --output json", check=False)
    assert done.status == 1, done.output
    found = json.loads(done.output[done.output.index("{"):])
    assert found["pnfs"] == "no" and found["layoutget_errors"] > 0, found
    assert "weft clients" in found["reasons"][0] and "network" in found["reasons"][0], found


@pytest.mark.parametrize("layout", ["files", "flexfiles"])
def test_each_client_is_told_its_own_network(run, network, layout):
    there = InNetworks(run, network, layout=layout)
    there.use({"near": NEAR, "six": [f"{SIX}::/64"]})
    there.mount()
    four, six, other = there.clients

    before = snapshot(there.cluster)
    write_and_read(four, "four")
    write_and_read(six, "six")
    counts = snapshot(there.cluster).since(before)
    assert counts.mds_reads + counts.mds_writes == 0, counts
    for client in (four, six):
        keep_connections(client)
    told = there.connections(1) | there.connections(2)
    assert any(f"[{SIX}::1" in line and f"[{SIX}::102]" in line for line in told), told
    assert any("10.77.0.1" in line and "10.77.0.101:" in line for line in told), told
    assert not any(OTHER in line for line in told), told

    before = snapshot(there.cluster)
    write_and_read(other, "other")
    counts = snapshot(there.cluster).since(before)
    assert counts.mds_writes > 0 and counts.mds_reads > 0, counts
    clients = {one["address"]: [server["name"] for server in one["no_way"]]
               for one in weft(there.cluster, "clients")["clients"]}
    clients[f"{OTHER}.103"].sort()
    assert clients == {"10.77.0.101": [], f"{SIX}::102": [], f"{OTHER}.103": ["ds1", "ds2"]}
    verify_says_no(other)
    shown = weft(there.cluster, "layout", "show", "/export/four")["no_way"]
    assert len(shown) == 1 and shown[0]["client"].startswith(f"{OTHER}.103 ("), shown
    listed = weft(there.cluster, "ds", "list")
    assert [network["name"] for network in listed[0]["networks"]] == ["near", "six"]


def test_a_network_that_is_added_is_used(run, network):
    """Layouts are recalled, and clients go by what they are told now: also one under way."""
    there = InNetworks(run, network)
    there.use({"near": NEAR})
    there.mount()
    four, _, other = there.clients
    write_and_read(other, "before")
    job = four.start_job(f"""#!/usr/bin/python3
from weftio import *
import os, subprocess
fd = os.open("/mnt/nfs/under-way", os.O_CREAT | os.O_RDWR)
for number in range({40}):
    os.pwrite(fd, block(number, {MIB}), number * {MIB})
    os.fsync(fd)
    if number == 5:
        subprocess.run(["weft-signal", "writes"], check=True)
subprocess.run(["weft-drop-caches"], check=True)
for number in range({40}):
    same(str(number), os.pread(fd, {MIB}, number * {MIB}) == block(number, {MIB}), True)
""")
    four.wait_event("writes")
    there.use({"near": NEAR, "other": [f"{OTHER}.0/24"]})
    job.wait(180)
    before = snapshot(there.cluster)
    write_and_read(other, "after")
    counts = snapshot(there.cluster).since(before)
    assert counts.mds_reads + counts.mds_writes == 0, counts
    keep_connections(other)
    wait_until(lambda: any(f"{OTHER}.103" in line for line in there.connections(1)), 10,
               "a connection by the network that was added")


def test_the_narrowest_network_counts(run, network):
    there = InNetworks(run, network)
    there.use({"near": ["0.0.0.0/0"], "other": [f"{OTHER}.103"]})
    there.mount()
    four, _, other = there.clients
    write_and_read(four, "four")
    write_and_read(other, "other")
    for client in (four, other):
        keep_connections(client)
    told = there.connections(1)
    assert any(line.startswith(f"{OTHER}.11:") and f"{OTHER}.103" in line for line in told), told
    assert not any("10.77.0.103" in line for line in told), told


def test_two_addresses_in_a_network_are_both_used(run, network):
    """A client connects to each, without an option: they are one server's (session trunking)."""
    there = InNetworks(run, network)
    at = [addresses_of(number) for number in (1, 2)]
    there.use({"near": NEAR}, more_addresses=["other"])
    there.mount()
    four, _, _ = there.clients
    with through_data_servers(there.cluster, written=4 * MIB, read=4 * MIB):
        write_and_read(four, "four")
    keep_connections(four)
    ends = {line.split()[0] for number in (1, 2) for line in there.connections(number)}
    assert any({one["near"], one["other"]} <= ends for one in at), ends


@pytest.mark.parametrize("layout", ["files", "flexfiles"])
def test_the_copy_that_is_in_reach_is_read(run, network, layout):
    """Of a file with two copies, by a client with a way to one of them; it writes here."""
    there = InNetworks(run, network, layout=layout, more={"Copies": "2"})
    there.use({"near": NEAR}, {1: {"other": [f"{OTHER}.0/24"]}})
    there.mount()
    four, _, other = there.clients
    write_and_read(four, "a")
    before = snapshot(there.cluster)
    other.python(f"""from weftio import *
same("a", open("/mnt/nfs/a", "rb").read() == block(7, {4 * MIB}), True)
""", 60)
    counts = snapshot(there.cluster).since(before)
    assert counts.mds_reads == 0, counts
    assert counts.read["ds1"] >= 4 * MIB and counts.read["ds2"] == 0, counts
    write_and_read(other, "b")
    four.python(f"""from weftio import *
same("b", open("/mnt/nfs/b", "rb").read() == block(7, {4 * MIB}), True)
""", 60)
