#!/usr/bin/python3
"""The planner (weft plan performance) against real systems of six nodes over emulated disks.

    ./dev bench tiers [--rounds 3] [--seconds 10] [--slow 3]

Six nodes as one tier of six data servers; as three, each over a target; as one over a parity group
of five (two targets make no group). Random reads of 64 KiB from a file that is striped over all.
Every node has a link limited both ways, a disk and a cache: iPVFS's (75 MiB/s; 51 MiB/s, 3.8 ms
seek, 2 ms half a turn), --slow times slower, so that two processors do for all of them. What the
caches hold of the file changes from case to case: all six together 20, 60 or 80 per cent.

    saturation   256 requests outstanding; against what the planner says they carry. For long
                 enough that it matters little what is outstanding at the end, .7 s of a link's work
    response     requests that come at random, half as many a second as the planner says they
                 carry; mean, against the planner's

The planner is told what the parts are: of a link, what plain TCP moves over it, both ways at once
where the system does; of the disks, how they are set. It is told nothing that was measured of the
systems.
"""

import itertools
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import emulated
import links
import loopback
import report
from harness.cluster import Options
from harness.network import Network
from harness.run import Run

MIB = 1 << 20
NODES = 6
BLOCK = 64 << 10
FILE_BYTES = 96 * MIB
TIERS = {"one tier of 6": (6, 0), "two: 3 x 1": (3, 1), "two: 1 x 5": (1, 5)}
# Of the file, by the caches of all nodes together. At a half, disks and the one I/O node's link of
# 1 x 5 are equally busy, and no window of requests saturates both.
CACHED = (0.2, 0.6, 0.8)
LINK_MBIT = 630  # 75 MiB/s
# A closed network of N equally busy stations carries n / (n + N - 1) of its saturation with n
# requests in it: .96 with 128 and six disks, .98 with 256.
DEPTH = 256
SLOTS = 64  # of a session
APART = 1.1  # predictions that differ less have no order


class Arm:
    """One system of six nodes, its file written, its links limited."""

    def __init__(self, run: Run, given, tiers: tuple, cached: float):
        io_nodes, targets = tiers
        disks = io_nodes * max(targets, 1)
        parity = targets / (targets - 1) if targets > 1 else 1
        self.disk = emulated.Disk(
            rate=int(51 * MIB / given.slow), seek=0.0038 * given.slow, rotation=0.002 * given.slow,
            capacity=int(FILE_BYTES / disks * parity) + MIB // 2,
            memory=int(cached * FILE_BYTES / NODES))
        network = Network(run)
        with loopback.pinned(loopback.SERVER_CPU):
            self.cluster = emulated.EmulatedCluster(
                run, network, Options(data_servers=io_nodes, stripe_unit=BLOCK, grace_s=1),
                self.disk, targets, "tcp")
        self.relays = targets > 0
        self.client = network.program(1)
        self.generators = -(-DEPTH // (SLOTS * io_nodes))  # of saturate()
        self.load("read", 0.1)  # makes the file
        rate = f"{LINK_MBIT / given.slow:.0f}mbit"
        behind = [target.process for target in self.cluster.emulated]
        for machine in [*self.cluster.ds, *behind]:
            machine.node.limit(rate)

    def load(self, op: str, seconds: float, *words: str) -> dict:
        return loopback.run_json(
            self.client.namespace, "data", "--address", self.cluster.address, "--export",
            self.cluster.path, "--op", op, "--block", str(BLOCK), "--size", str(FILE_BYTES),
            "--depth", str(DEPTH), "--seconds", str(seconds), "--keep",
            "--file", "bench", *words)

    def saturate(self, seconds: float, seed: int) -> float:
        """Requests a second with DEPTH outstanding, of as many generators as sessions need."""
        count = self.generators
        start = time.time() + 1 + 0.2 * count
        with loopback.pinned(loopback.CLIENT_CPU):
            running = [links.generate(
                self.cluster, self.client, "--op", "randread", "--block", str(BLOCK), "--size",
                str(FILE_BYTES), "--depth", str(DEPTH // count), "--seconds", str(seconds),
                "--keep", "--file", "bench", "--start-at", str(start), "--seed",
                str(seed * 10 + number)) for number in range(count)]
        return sum(one["ops_per_s"] for one in links.results(running, seconds + 120))

    def predicted(self, tiers: tuple, network: float, rate: float = 0) -> dict:
        words = ["--rate", f"{rate:.3f}"] if rate else []
        said = emulated.plan(
            "--servers", str(NODES), "--request", str(BLOCK), "--unit", str(BLOCK), "--data",
            str(FILE_BYTES), "--memory", str(self.disk.memory), "--no-io-cache", "--network",
            f"{network:.0f}", "--disk", str(self.disk.rate), "--seek",
            f"{self.disk.seek * 1e3:.4f}ms", "--rotation", f"{self.disk.rotation * 1e3:.4f}ms",
            *words)
        return next(one for one in said["arrangements"]
                    if (one["io_nodes"], one["targets"]) == tiers)


def link_rate(arm: Arm) -> float:
    """Bytes a second that plain TCP moves from a node to the client, by as many connections as the
    system is read through. With targets as many bytes come in as go out, so their acknowledgements
    share the link: the same is moved the other way meanwhile, and the slower counts."""
    links.serve_tcp(arm.cluster)
    address = arm.cluster.ds[0].node.address
    ways = ("read", "write") if arm.relays else ("read",)
    with ThreadPoolExecutor(len(ways) * arm.generators) as pool:
        def slower(_):
            streams = {way: [pool.submit(links.plain_tcp, arm.client, address, way, 2)
                             for _ in range(arm.generators)] for way in ways}
            return min(sum(one.result() for one in each) for each in streams.values())
        return statistics.median(map(slower, range(3))) * MIB


def case(cached: float, given, idle: dict, extra: dict) -> list:
    saturation: dict = {name: [] for name in TIERS}
    response: dict = {name: [] for name in TIERS}
    with Run() as one, Run() as two, Run() as three:
        arms = {name: Arm(run, given, tiers, cached)
                for (name, tiers), run in zip(TIERS.items(), (one, two, three))}
        network = {name: link_rate(arm) for name, arm in arms.items()}
        said = {name: arms[name].predicted(tiers, network[name]) for name, tiers in TIERS.items()}
        half = {name: one["requests_per_second"] / 2 for name, one in said.items()}
        for name, arm in arms.items():
            said[name] = arm.predicted(TIERS[name], network[name], half[name])
            arm.load("randread", given.seconds / 2, "--seed", "100")  # fills the caches
        for number, (name, arm) in itertools.product(range(given.rounds), arms.items()):
            seed = ("--seed", str(number + 1))
            watch = report.CpuIdle()
            saturation[name].append(arm.saturate(given.seconds, number + 1))
            idle[name].append(watch.stop())
            answered = arm.load("randread", given.seconds / 2, "--rate", str(half[name]), *seed)
            response[name].append(answered["latency_us"]["mean"] / 1e3)
            print(f"{cached:.0%} cached, round {number + 1}, {name}: {saturation[name][-1]:.0f} "
                  f"of {said[name]['requests_per_second']:.0f} requests/s "
                  f"({said[name]['bound_by']}); {response[name][-1]:.1f} of "
                  f"{said[name]['response_ms']:.1f} ms", flush=True)
    extra[f"{cached:.0%}"] = {"link_bytes_per_s": network, "planner": said,
                              "requests_per_s": saturation, "response_ms": response}
    rows = []
    for name in TIERS:
        peer = [said[name]["requests_per_second"]] * given.rounds
        rows.append(report.row(f"{cached:.0%} cached, {name}: saturation / planner",
                               saturation[name], peer, "req/s", 0.9, 1.1))
    for name in TIERS:
        peer = [said[name]["response_ms"]] * given.rounds
        rows.append(report.row(f"{cached:.0%} cached, {name}: response / planner",
                               response[name], peer, "ms"))
    rows.append(order(f"{cached:.0%} cached: pairs in the planner's order", said, saturation))
    return rows


def order(name: str, said: dict, measured: dict) -> dict:
    """Of pairs of systems that the planner tells apart, how many are in its order."""
    told, right = 0, 0
    for a, b in itertools.combinations(TIERS, 2):
        ratio = said[a]["requests_per_second"] / said[b]["requests_per_second"]
        if 1 / APART < ratio < APART:
            continue
        told += 1
        right += (statistics.median(measured[a]) > statistics.median(measured[b])) == (ratio > 1)
    return report.row(name, [right], [max(told, 1)], "pairs", 1.0 if told else None)


def main() -> int:
    parser = report.parser("tiers", __doc__, rounds=3, seconds=10.0)
    parser.add_argument("--slow", type=float, default=3, help="times slower than iPVFS's nodes")
    given = parser.parse_args()
    idle: dict = {name: [] for name in TIERS}
    extra: dict = {}
    rows = [one for cached in CACHED for one in case(cached, given, idle, extra)]
    return 0 if report.publish("tiers", rows, given.results, idle, {"samples": extra}) else 1


if __name__ == "__main__":
    sys.exit(main())
