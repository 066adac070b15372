#!/usr/bin/python3
"""The four duplication protocols, and one copy, as 1, 2 and 4 clients write to two pairs.

    ./dev bench protocols [--rounds 3] [--seconds 10] [--rate 150mbit] [--clients 1,2,4]

Each data server and each client has a machine of its own, whose link is limited both ways. Clients
are our load generator: of the files layout servers duplicate (P1 afterwards, P2 before they answer,
none with one copy); of the flexible files layout the client does (P3 is done with the first answer,
P4 with all; P4 is what a Linux client does, P3 is our own client only). Each client writes two
files in 1 MiB blocks, 8 outstanding each, and commits them. Stores are in memory: the disk is one
for all here. Arms alternate within each round.

Two rates are measured: of writes until they are acknowledged, and until the commit is answered,
when all copies have all of it. Arithmetic is compared with the second: with c clients and two pairs
on links of B, min(cB, 2B) is what servers' duplication can give, min(cB/2, 2B) clients', and
min(cB, 4B) one copy on the four servers. B is what plain TCP moves over such a link.

Then bursts: each client writes 16 MiB, and what a data server sends to others of them goes by a
third of its link. There asynchronous duplication is to pay, and synchronous is to use what these
thirds carry. The paper's half-size system, two servers without copies, stands beside it.
"""

import statistics
import sys
import time

import links
import report
from harness.cluster import Cluster, Options
from harness.network import Network, bits_per_second
from harness.run import Run

PAIRS = 2
FILES = 2  # of each client
BURST = 16 * links.MIB  # of each client
# Name: what is to be told the load generator, the folder's policy (files layout).
ARMS = {
    "P1": ([], "duplication=server-async"),
    "P2": ([], "duplication=server-sync"),
    "P3": (["--mirrors", "async"], ""),
    "P4": (["--mirrors", "sync"], ""),
    "one copy": ([], "copies=1"),
}


HALF = "half as many, one copy"
PARTNER_LINK = 1 / 3  # of a link, from data server to data server, in bursts
# The paper's spans are .79 to .83 for P2 / P1, .81 to .93 for P4 / P3, .86 to .94 for P1 / half as
# many: their lower ends, and P1 / P2 at the upper one.
P2_LEAST, P4_LEAST, HALF_LEAST, PAYS = 0.79, 0.81, 0.86, 1.2


def by_clients(arm: str) -> bool:
    return arm in ("P3", "P4")


def arithmetic(arm: str, clients: int) -> float:
    """In links."""
    if arm == "one copy":
        return min(clients, 2 * PAIRS)
    return min(clients / 2 if by_clients(arm) else clients, PAIRS)


class Side:
    """A cluster of one layout type, and the clients' machines."""

    def __init__(self, run: Run, layout: str, given, copies: int = 2):
        network = Network(run)
        self.cluster = Cluster(run, network, Options(
            data_servers=copies * PAIRS, layout=layout, by_load=True, domains=("a", "b"),
            extra={"Copies": str(copies)}, cgroups=True,
            store_in_memory=True,
            tables=lambda _: f"net_max = {bits_per_second(given.rate) // 8}\n"))
        self.clients = [network.program(i + 1) for i in range(max(given.clients))]
        for node in (*self.clients, *(server.node for server in self.cluster.ds)):
            node.limit(given.rate)
        links.serve_tcp(self.cluster)

    def write(self, arm: str, count: int, seconds: float) -> list[dict]:
        words, keys = ARMS[arm]
        links.policy(self.cluster, "", "stripes=1", *keys.split())
        return links.writers(self.cluster, self.clients[:count] * FILES, seconds, *words)

    def slow_partners(self, rate: str) -> None:
        """What goes from data server to data server has a third of the link."""
        nodes = [server.node for server in self.cluster.ds]
        for node in nodes:
            others = [one.address for one in nodes if one is not node]
            node.limit_towards(rate, others,
                               f"{int(bits_per_second(rate) * PARTNER_LINK) // 1000}kbit")

    def burst(self, arm: str, count: int) -> float:
        """MiB a second that were acknowledged. What was written before is out of the loads that
        data servers report: leaders are taken in turn."""
        words, keys = ARMS[arm]
        time.sleep(links.HEARTBEATS_S)
        links.policy(self.cluster, "", "stripes=1", *keys.split())
        done = links.burst(self.cluster, self.clients[:count] * FILES, BURST // FILES, *words)
        return (sum(one["bytes"] for one in done) / links.MIB
                / max(one["seconds"] for one in done))


def measure(sides: dict, given, idle: dict) -> tuple:
    rates: dict = {(arm, count): ([], []) for arm in ARMS for count in given.clients}
    tcp: list = []
    for number in range(given.rounds):
        files = sides["files"]
        tcp.append(links.plain_tcp(files.clients[0], files.cluster.ds[0].node.address, "write",
                                   max(2, given.seconds / 2)))
        for count in given.clients:
            for arm in ARMS:
                side = sides["flexfiles" if by_clients(arm) else "files"]
                watch = report.CpuIdle()
                results = side.write(arm, count, given.seconds)
                idle[arm].append(watch.stop())
                acknowledged, committed = rates[arm, count]
                acknowledged.append(sum(one["mib_per_s"] for one in results))
                committed.append(sum(one["bytes"] for one in results) / links.MIB
                                 / max(one["committed_s"] for one in results))
                print(f"{count} clients, {arm}: {acknowledged[-1]:.1f} MiB/s acknowledged, "
                      f"{committed[-1]:.1f} committed", flush=True)
        print(f"round {number + 1}: plain TCP {tcp[-1]:.1f} MiB/s", flush=True)
    return rates, tcp


def measure_bursts(sides: dict, half: Side, given) -> dict:
    arms = {arm: sides["flexfiles" if by_clients(arm) else "files"] for arm in ARMS
            if arm != "one copy"}
    for side in sides.values():
        side.slow_partners(given.rate)
    rates: dict = {(arm, count): [] for arm in (*arms, HALF) for count in given.clients}
    for number in range(given.rounds):
        for count in given.clients:
            for arm, side in arms.items():
                rates[arm, count].append(side.burst(arm, count))
            rates[HALF, count].append(half.burst("one copy", count))
            print(f"bursts, {count} clients: " + ", ".join(
                f"{arm} {rates[arm, count][-1]:.1f}" for arm in (*arms, HALF)), flush=True)
        print(f"bursts, round {number + 1} of {given.rounds}", flush=True)
    return rates


def carried(clients: int) -> float:
    """In links: what P2 can bring to partners in a burst. Each file has a leader, and the files of
    all clients take the servers in turn."""
    return min(clients, PAIRS, min(FILES * clients, 2 * PAIRS) * PARTNER_LINK)


def burst_rows(rates: dict, tcp: list, given) -> list:
    """Acknowledged. What synchrony costs is the paper's span, at most, once what partners' links
    do not carry is left out; with that it is more, by which asynchrony pays."""
    out = []
    link = statistics.median(tcp)
    for count in given.clients:
        def row(one: str, other: str, target: float | None, at=count):
            out.append(report.row(f"{one} / {other}, bursts, {at} clients", rates[one, at],
                                  rates[other, at], "MiB/s", target))
        row("P2", "P1", None)
        row("P1", "P2", PAYS)
        out.append(report.row(f"P2 / what partners' links carry, bursts, {count} clients",
                              rates["P2", count], [carried(count) * link] * given.rounds,
                              "MiB/s", P2_LEAST))
        row("P4", "P3", P4_LEAST)
        row("P1", HALF, HALF_LEAST)
    return out


def rows(rates: dict, tcp: list, given) -> list:
    out = []
    for count in given.clients:
        out.append(report.row(f"P2 / P1, acknowledged, {count} clients", rates["P2", count][0],
                              rates["P1", count][0], "MiB/s", 0.84))
        out.append(report.row(f"P4 / P3, acknowledged, {count} clients", rates["P4", count][0],
                              rates["P3", count][0], "MiB/s"))
    for count in given.clients:
        target = 0.67 if count <= PAIRS else None
        out.append(report.row(f"P2 / one copy, same servers, {count} clients",
                              rates["P2", count][1], rates["one copy", count][1], "MiB/s",
                              target))
    for (arm, count), (_, committed) in rates.items():
        expected = [arithmetic(arm, count) * rate for rate in tcp]
        out.append(report.row(f"{arm} / arithmetic, {count} clients", committed, expected,
                              "MiB/s", 0.9, 1.1))
    return out


def main() -> int:
    parser = report.parser("protocols", __doc__, rounds=3, seconds=10.0)
    parser.add_argument("--rate", default="150mbit")
    parser.add_argument("--clients", default="1,2,4")
    given = parser.parse_args()
    given.clients = [int(word) for word in given.clients.split(",")]
    idle: dict = {arm: [] for arm in ARMS}
    with Run() as files_run, Run() as flex_run, Run() as half_run:
        sides = {"files": Side(files_run, "files", given),
                 "flexfiles": Side(flex_run, "flexfiles", given)}
        half = Side(half_run, "files", given, copies=1)
        rates, tcp = measure(sides, given, idle)
        bursts = measure_bursts(sides, half, given)
    samples = {f"{arm}, {count} clients": {"acknowledged": pair[0], "committed": pair[1]}
               for (arm, count), pair in rates.items()}
    extra = {"samples": samples, "plain_tcp_mib_per_s": tcp,
             "bursts": {f"{arm}, {count} clients": found for (arm, count), found in bursts.items()}}
    made = rows(rates, tcp, given) + burst_rows(bursts, tcp, given)
    return 0 if report.publish("protocols", made, given.results, idle, extra) else 1


if __name__ == "__main__":
    sys.exit(main())
