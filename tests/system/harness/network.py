"""The network of a run: a hub with a bridge, and one namespace for each machine.

Every machine, server or client, is a node: its own namespace joined to the hub by a veth pair.
So each has an address of its own, and its link can be limited or cut alone. A client's namespace
also bridges a tap, which is what its virtual machine opens.

    mds 10.77.0.1    data server i 10.77.0.(10+i)    client i 10.77.0.(100+i)
    a program of ours in a client's place 10.77.0.(200+i)

All names live inside the run's namespaces: runs do not see each other.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from . import paths
from .run import Run, sh

# Tells everybody on the link, by ARP, that an address is here.
ANNOUNCE = """
import socket, struct, sys
address, everybody = socket.inet_aton(sys.argv[1]), b"\\xff" * 6
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(("e0", 0x0806))
here = link.getsockname()[4]
for operation in (1, 2):
    head = struct.pack("!HHBBH", 1, 0x800, 6, 4, operation)
    link.send(everybody + here + b"\\x08\\x06" + head + here + address + everybody + address)
"""
SUBNET = "10.77.0"
PREFIX = 24
PACING = {"bbr"}  # congestion controls that send by timer, over loopback too


def congestion_control() -> str:
    """Of all namespaces: the machine's, but reno in place of one that paces by timer.

    With one that paces, a timer is set for each segment sent, which costs more than all the rest of
    sending; on a link that is limited it gives way to its own queue. Our links and loopback are
    short, so reno and cubic, Debian's default, do the same there.
    """
    default = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text(encoding="ascii").strip()
    return os.environ.get("WEFT_BENCH_CONGESTION", "reno" if default in PACING else default)


def enter_command(namespace: str) -> list[str]:
    """Words before a command that is to run in the namespace. Not 'ip netns exec', which makes a
    mount namespace too: a file system that is unmounted would live on in it."""
    return ["nsenter", f"--net=/run/netns/{namespace}"]


def leave_others(own: Path) -> str:
    """A shell's line for a mount namespace that was just made: it leaves the file systems of other
    runs than the one with this folder, which would live on in it once they are unmounted."""
    return (f"grep -o ' {paths.runs_folder()}/[^ ]*' /proc/self/mounts | grep -v '^ {own}/' | "
            "xargs -r umount -l || true")


def with_mounts(own: Path, script: str) -> list[str]:
    """Words before a command that has mounts of its own, which `script` makes."""
    return ["unshare", "--mount", "sh", "-c", f'{leave_others(own)}; {script} && exec "$@"', "sh"]


def add_namespace(name: str) -> None:
    sh("ip", "netns", "add", name)
    sh("ip", "-n", name, "link", "set", "lo", "up")
    sh(*enter_command(name), "sysctl", "-qw",
       f"net.ipv4.tcp_congestion_control={congestion_control()}")


@dataclass
class Node:
    """A machine on the hub. address is without the prefix length."""

    namespace: str
    hub: str
    port: str
    address: str
    tap: str = ""
    more_taps: tuple[str, ...] = ()  # of a machine with more links than one
    prefix: int = PREFIX
    gateway: str = ""

    def enter_command(self) -> list[str]:
        return enter_command(self.namespace)

    def limit(self, rate: str) -> None:
        """Limits the link in both directions, for example '1gbit'."""
        for namespace, device in ((self.hub, self.port), (self.namespace, "e0")):
            sh("tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf",
               "rate", rate, "burst", "256k", "latency", "50ms")

    def limit_shared(self, rate: str, port: int, part: float) -> None:
        """Limits the link as limit() does, and gives traffic of one TCP port, at either end, this
        part of it when there is that much; either may use what the other leaves (htb)."""
        bits = bits_per_second(rate)
        for namespace, device in ((self.hub, self.port), (self.namespace, "e0")):
            def tc(*words, at=namespace, of=device):
                sh("tc", "-n", at, words[0], "add", "dev", of, *words[1:])
            sh("tc", "-n", namespace, "qdisc", "del", "dev", device, "root", check=False)
            tc("qdisc", "root", "handle", "1:", "htb", "default", "10")
            tc("class", "parent", "1:", "classid", "1:1", "htb", "rate", f"{bits}bit",
               "burst", "256k", "cburst", "256k")
            for number, share in (("10", 1 - part), ("20", part)):
                tc("class", "parent", "1:1", "classid", f"1:{number}", "htb",
                   "rate", f"{int(bits * share)}bit", "ceil", f"{bits}bit",
                   "burst", "64k", "cburst", "64k", "quantum", "60000")
                tc("qdisc", "parent", f"1:{number}", "handle", f"{number}:", "bfifo",
                   "limit", str(max(256 << 10, bits // 160)))
            for end in ("sport", "dport"):
                tc("filter", "parent", "1:", "protocol", "ip", "u32", "match", "ip", end,
                   str(port), "0xffff", "flowid", "1:20")

    def limit_towards(self, rate: str, addresses: list[str], slower: str) -> None:
        """Limits the link as limit() does, and what goes from here to these addresses further, all
        of it together (htb)."""
        self.limit(rate)
        def tc(*words):
            sh("tc", "-n", self.namespace, words[0], "add", "dev", "e0", *words[1:])
        sh("tc", "-n", self.namespace, "qdisc", "del", "dev", "e0", "root")
        tc("qdisc", "root", "handle", "1:", "htb", "default", "10")
        tc("class", "parent", "1:", "classid", "1:1", "htb", "rate", rate, "burst", "256k",
           "cburst", "256k")
        for number, of_class in (("10", rate), ("20", slower)):
            tc("class", "parent", "1:1", "classid", f"1:{number}", "htb", "rate", of_class,
               "ceil", of_class, "burst", "64k", "cburst", "64k", "quantum", "60000")
            limit = max(256 << 10, bits_per_second(of_class) // 160)
            tc("qdisc", "parent", f"1:{number}", "handle", f"{number}:", "bfifo", "limit",
               str(limit))
        for address in addresses:
            tc("filter", "parent", "1:", "protocol", "ip", "u32", "match", "ip", "dst",
               f"{address}/32", "flowid", "1:20")

    def drop_port(self, port: int) -> None:
        """What goes to this port, of TCP or UDP, is lost in both directions, and nothing else.
        unlimit() ends it."""
        for namespace, device in ((self.hub, self.port), (self.namespace, "e0")):
            self._drop(namespace, device, "match", "ip", "dport", str(port), "0xffff")

    def drop_port_towards(self, address: str, port: int) -> None:
        """What goes from here to this port of that machine is lost, and nothing else: as behind a
        firewall that drops it. unlimit() ends it."""
        self._drop(self.namespace, "e0", "match", "ip", "dst", f"{address}/32", "match", "ip",
                   "dport", str(port), "0xffff")

    @staticmethod
    def _drop(namespace: str, device: str, *match: str) -> None:
        """Of what leaves by the device, what matches goes to a queue that has room for nothing."""
        def tc(*words):
            sh("tc", "-n", namespace, words[0], "add", "dev", device, *words[1:])
        sh("tc", "-n", namespace, "qdisc", "del", "dev", device, "root", check=False)
        tc("qdisc", "root", "handle", "1:", "htb", "default", "10")
        for number in ("10", "20"):
            tc("class", "parent", "1:", "classid", f"1:{number}", "htb", "rate", "10gbit",
               "burst", "256k", "cburst", "256k", "quantum", "60000")
        tc("qdisc", "parent", "1:20", "handle", "20:", "bfifo", "limit", "1")
        tc("filter", "parent", "1:", "protocol", "ip", "u32", *match, "flowid", "1:20")

    def take_packets_of(self, mtu: int) -> None:
        """What comes here and is larger is lost on the way, and nobody is told: of those who
        send_single_packets()."""
        sh("ip", "-n", self.hub, "link", "set", self.port, "mtu", str(mtu))

    def send_single_packets(self) -> None:
        """As a real link has them. Else a veth pair passes on what is to be cut into packets by
        the device, in one piece, whatever the MTU of links on the way."""
        sh("ip", "-n", self.namespace, "link", "set", "e0", "gso_max_segs", "1")

    def unlimit(self) -> None:
        for namespace, device in ((self.hub, self.port), (self.namespace, "e0")):
            sh("tc", "-n", namespace, "qdisc", "del", "dev", device, "root", check=False)

    def cut(self) -> None:
        """A black hole: nothing passes and nobody is told. Only the hub's end goes down."""
        sh("ip", "-n", self.hub, "link", "set", self.port, "down")

    def restore(self) -> None:
        sh("ip", "-n", self.hub, "link", "set", self.port, "up")

    def drop_to(self, address: str) -> None:
        """Nothing from here reaches that machine any more. All others are reached."""
        sh("ip", "-n", self.namespace, "route", "add", "blackhole", f"{address}/32")

    def reach_again(self, address: str) -> None:
        sh("ip", "-n", self.namespace, "route", "del", "blackhole", f"{address}/32")

    def take_address(self, address: str) -> None:
        """Another machine's address is here from now on, as keepalived does it (VRRP). Nothing
        listens at it: connections to it are reset."""
        sh("ip", "-n", self.namespace, "addr", "add", f"{address}/{PREFIX}", "dev", "e0")
        sh(*self.enter_command(), "/usr/bin/python3", "-c", ANNOUNCE, address)

    def drop_address(self, address: str) -> None:
        sh("ip", "-n", self.namespace, "addr", "del", f"{address}/{PREFIX}", "dev", "e0")


def bits_per_second(rate: str) -> int:
    """Of a rate as tc takes it, such as '150mbit'."""
    for unit, factor in (("kbit", 10**3), ("mbit", 10**6), ("gbit", 10**9)):
        if rate.endswith(unit):
            return int(float(rate.removesuffix(unit)) * factor)
    raise ValueError(f"{rate}: a number and kbit, mbit or gbit")


class Network:
    """Makes nodes. Everything goes when the run closes."""

    def __init__(self, run: Run, subnet: str = SUBNET):
        self.run = run
        self.subnet = subnet
        self.hub = f"{run.name}-hub"
        self._clients = 0
        add_namespace(self.hub)
        sh("ip", "-n", self.hub, "link", "add", "br0", "type", "bridge")
        sh("ip", "-n", self.hub, "addr", "add", f"{subnet}.254/{PREFIX}", "dev", "br0")
        sh("ip", "-n", self.hub, "link", "set", "br0", "up")

    def _join(self, name: str, address: str) -> Node:
        node = Node(f"{self.run.name}-{name}", self.hub, f"p-{name}", address)
        add_namespace(node.namespace)
        sh("ip", "-n", self.hub, "link", "add", node.port, "type", "veth",
           "peer", "name", "e0", "netns", node.namespace)
        sh("ip", "-n", self.hub, "link", "set", node.port, "master", "br0", "up")
        sh("ip", "-n", node.namespace, "link", "set", "e0", "up")
        return node

    def mds(self) -> Node:
        return self._server("mds", 1)

    def data_server(self, number: int) -> Node:
        """number counts from 1."""
        return self._server(f"ds{number}", 10 + number)

    def program(self, number: int) -> Node:
        """Of a program that is a client, without a virtual machine; number counts from 1."""
        return self._server(f"pg{number}", 200 + number)

    def _server(self, name: str, host: int) -> Node:
        node = self._join(name, f"{self.subnet}.{host}")
        sh("ip", "-n", node.namespace, "addr", "add", f"{node.address}/{PREFIX}", "dev", "e0")
        return node

    def client(self, links: int = 1) -> Node:
        """A namespace with a tap for one virtual machine; the machine takes the address. More taps
        are its further links to the same network."""
        self._clients += 1
        name = f"cl{self._clients}"
        node = self._join(name, f"{self.subnet}.{100 + self._clients}")
        _add_tap(node)
        node.more_taps = tuple(f"tap{number}" for number in range(1, links))
        for tap in node.more_taps:
            _join_tap(node, tap)
        return node


class HostNetwork:
    """In place of Network, for clients of servers that run on the host itself (./dev up).

    Each client gets a network of two addresses with the host and reaches every address of the
    host but 127.0.0.0/8. In the host's own namespace there is one interface more a client.
    """

    def __init__(self, run: Run):
        self.run = run
        self._clients = 0

    def client(self) -> Node:
        self._clients += 1
        used = sh("ip", "-4", "-o", "addr", "show")
        third = next(n for n in range(2, 250) if f"10.78.{n}.1/" not in used)
        node = Node(f"{self.run.name}-cl{self._clients}", "", f"{self.run.name}{self._clients}",
                    f"10.78.{third}.2", prefix=30, gateway=f"10.78.{third}.1")
        sh("ip", "netns", "add", node.namespace)
        sh("ip", "link", "add", node.port, "type", "veth", "peer", "name", "e0",
           "netns", node.namespace)
        sh("ip", "addr", "add", f"{node.gateway}/{node.prefix}", "dev", node.port)
        sh("ip", "link", "set", node.port, "up")
        _add_tap(node)
        return node


def _add_tap(node: Node) -> None:
    node.tap = "tap0"
    sh("ip", "-n", node.namespace, "link", "add", "br0", "type", "bridge")
    sh("ip", "-n", node.namespace, "link", "set", "e0", "master", "br0", "up")
    _join_tap(node, node.tap)
    sh("ip", "-n", node.namespace, "link", "set", "br0", "up")


def _join_tap(node: Node, tap: str) -> None:
    sh(*node.enter_command(), "ip", "tuntap", "add", tap, "mode", "tap", "vnet_hdr")
    sh("ip", "-n", node.namespace, "link", "set", tap, "master", "br0", "up")
