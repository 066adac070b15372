#!/usr/bin/python3
"""The planner (weft plan performance) against real systems of six nodes over emulated disks.

    ./dev bench tiers [--rounds 3] [--seconds 10] [--slow 3]

Six nodes as one tier of six data servers; as three, each over a target; as two, each over a group
of two; as one over a parity group of five. Random reads of 64 KiB from a file that is striped over
all. Every node has a link limited both ways, a disk and a cache: iPVFS's (75 MiB/s; 51 MiB/s,
3.8 ms seek, 2 ms half a turn), --slow times slower, so that two processors do for all of them. What
the caches hold of the file changes from case to case. First data servers over targets have none,
and all six nodes together hold 20, 60 or 80 per cent. Then both tiers have one, and each hits as
often as those of one tier do, which is iPVFS's comparison: it takes more memory. The sizes are the
planner's; what the caches hit while a system is saturated is counted and told beside it.

    saturation   256 requests outstanding; against what the planner says they carry. For long
                 enough that it matters little what is outstanding at the end, .7 s of a link's work
    response     requests that come at random, half as many a second as the planner says they
                 carry; mean, against the planner's
    two tiers    with caches in both, against one tier, at the same rate of hits: in the window in
                 which two tiers should carry more, and outside

The planner is told what the parts are: of a link, what plain TCP moves over it, both ways at once
where the system does; of the disks, how they are set. It is told nothing that was measured of the
systems.
"""

import itertools
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

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
# Hits of each cache, and the least that two tiers must carry then, of what one does. The model says
# 1.25, 1.33 and, outside the window, .70 and .62.
BOTH = ((0.6, "two: 3 x 1", (3, 1), 1.15), (0.5, "two: 2 x 2", (2, 2), 1.2),
        (0.5, "two: 1 x 5", (1, 5), None), (0.2, "two: 3 x 1", (3, 1), None))


@dataclass
class Memory:
    """Bytes of cache of each node; a target's counts where there are targets."""

    node: int  # 0: I/O nodes have none
    target: int

    @staticmethod
    def evenly(cached: float) -> "Memory":
        """What all nodes have together holds that part of the file. Over targets none is used."""
        return Memory(0, int(cached * FILE_BYTES / NODES))

    @staticmethod
    def hitting(tiers: tuple, hits: float, slow: float) -> "Memory":
        """So that each cache hits so often, by the planner."""
        node = int(hits * FILE_BYTES / tiers[0])
        least, most = node // 64, 2 * node
        while most - least > MIB // 16:
            target = (least + most) // 2
            said = plan_for(tiers, Memory(node, target), slow)
            least, most = (target, most) if said["target_hits"] < hits else (least, target)
        return Memory(node, most)


def disk_of(slow: float, capacity: int, memory: int) -> emulated.Disk:
    return emulated.Disk(rate=int(51 * MIB / slow), seek=0.0038 * slow, rotation=0.002 * slow,
                         capacity=capacity, memory=memory)


def plan_for(tiers: tuple, memory: Memory, slow: float, *words: str) -> dict:
    disk = disk_of(slow, 0, 0)
    node = memory.node if tiers[1] > 0 and memory.node else memory.target
    said = emulated.plan(
        "--servers", str(NODES), "--request", str(BLOCK), "--unit", str(BLOCK), "--data",
        str(FILE_BYTES), "--memory", str(node), "--target-memory", str(memory.target),
        *(() if memory.node else ("--no-io-cache",)),
        "--disk", str(disk.rate), "--seek", f"{disk.seek * 1e3:.4f}ms", "--rotation",
        f"{disk.rotation * 1e3:.4f}ms", *words)
    return next(one for one in said["arrangements"]
                if (one["io_nodes"], one["targets"]) == tiers)


class Arm:
    """One system of six nodes, its file written, its links limited."""

    def __init__(self, run: Run, given, tiers: tuple, memory: Memory):
        io_nodes, targets = tiers
        disks = io_nodes * max(targets, 1)
        parity = targets / (targets - 1) if targets > 1 else 1
        self.tiers, self.memory, self.slow = tiers, memory, given.slow
        # Of two groups of two, with units of one stripe, one would have its data in the even
        # stripes only, so at one of its targets.
        self.unit = 2 * BLOCK if targets == 2 else BLOCK
        disk = disk_of(given.slow, int(FILE_BYTES / disks * parity) + MIB // 2, memory.target)
        network = Network(run)
        with loopback.pinned(loopback.SERVER_CPU):
            self.cluster = emulated.EmulatedCluster(
                run, network, Options(
                    data_servers=io_nodes, stripe_unit=self.unit, grace_s=1, metrics=True,
                    cache=f"{memory.node // 1024} KiB" if memory.node else ""),
                disk, targets, "tcp")
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

    def reads_counted(self) -> dict:
        """What each tier's caches found and missed until now: reads of data servers over targets,
        pages of 4 KiB where the disks are."""
        ds = [self.cluster.metrics(server) for server in self.cluster.ds]
        behind = [self.cluster.metrics(target) for target in self.cluster.emulated]
        disks = ("weft_target", behind) if self.relays else ("weft_ds", ds)
        counted = {"disks": self._sums(disks[1], disks[0] + "_emulated_pages_{}_total",
                                       "found", "missed")}
        if self.relays and self.memory.node:
            counted["data servers"] = self._sums(ds, "weft_ds_cache_{}_total", "hits", "misses")
        return counted

    @staticmethod
    def _sums(pages: list, name: str, *parts: str) -> tuple:
        return tuple(sum(page[name.format(part)] for page in pages) for part in parts)

    def hit(self, before: dict) -> dict:
        """The part that each tier's caches hit since then; for the disks that of reads that came
        to them."""
        parts = {}
        for tier, (found, missed) in self.reads_counted().items():
            found, missed = found - before[tier][0], missed - before[tier][1]
            parts[tier] = found / max(found + missed, 1)
        return parts

    def predicted(self, network: float, rate: float = 0) -> dict:
        words = ["--rate", f"{rate:.3f}"] if rate else []
        return plan_for(self.tiers, self.memory, self.slow, "--network", f"{network:.0f}", *words)


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
    counted: dict = {name: [] for name in TIERS}
    response: dict = {name: [] for name in TIERS}
    with Run() as one, Run() as two, Run() as three:
        arms = {name: Arm(run, given, tiers, Memory.evenly(cached))
                for (name, tiers), run in zip(TIERS.items(), (one, two, three))}
        network = {name: link_rate(arm) for name, arm in arms.items()}
        said = {name: arms[name].predicted(network[name]) for name in TIERS}
        half = {name: one["requests_per_second"] / 2 for name, one in said.items()}
        for name, arm in arms.items():
            said[name] = arm.predicted(network[name], half[name])
            arm.load("randread", given.seconds / 2, "--seed", "100")  # fills the caches
        for number, (name, arm) in itertools.product(range(given.rounds), arms.items()):
            seed = ("--seed", str(number + 1))
            watch, before = report.CpuIdle(), arm.reads_counted()
            saturation[name].append(arm.saturate(given.seconds, number + 1))
            idle[name].append(watch.stop())
            counted[name].append(arm.hit(before))
            answered = arm.load("randread", given.seconds / 2, "--rate", str(half[name]), *seed)
            response[name].append(answered["latency_us"]["mean"] / 1e3)
            print(f"{cached:.0%} cached, round {number + 1}, {name}: {saturation[name][-1]:.0f} "
                  f"of {said[name]['requests_per_second']:.0f} requests/s "
                  f"({said[name]['bound_by']}); {response[name][-1]:.1f} of "
                  f"{said[name]['response_ms']:.1f} ms; hits "
                  f"{counted[name][-1]['disks']:.2f}", flush=True)
    extra[f"{cached:.0%}"] = {"link_bytes_per_s": network, "planner": said,
                              "requests_per_s": saturation, "response_ms": response,
                              "hits_counted": counted}
    rows = []
    for name in TIERS:
        peer = [said[name]["requests_per_second"]] * given.rounds
        rows.append(report.row(f"{cached:.0%} cached, {name}: saturation / planner",
                               saturation[name], peer, "req/s", 0.9, 1.1))
    for name in TIERS:
        peer = [said[name]["response_ms"]] * given.rounds
        rows.append(report.row(f"{cached:.0%} cached, {name}: response / planner",
                               response[name], peer, "ms"))
    rows += [report.row(f"{cached:.0%} cached, {name}: hits counted / planner's",
                        [one["disks"] for one in counted[name]],
                        [hits_said(said[name], "disks")] * given.rounds, "hits") for name in TIERS]
    rows.append(order(f"{cached:.0%} cached: pairs in the planner's order", said, saturation))
    return rows


def hits_said(said: dict, tier: str) -> float:
    """By the planner: of the caches at the disks, which may be the only ones, or the others."""
    return said["target_hits" if tier == "disks" and said["targets"] else "io_hits"]


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


def both(hits: float, name: str, tiers: tuple, target, given, idle: dict, extra: dict) -> list:
    """Two tiers with caches in both against one, each cache hitting as often."""
    flat = "one tier of 6"
    saturation: dict = {flat: [], name: []}
    counted: dict = {flat: [], name: []}
    with Run() as one, Run() as two:
        arms = {flat: Arm(one, given, (6, 0), Memory.evenly(hits)),
                name: Arm(two, given, tiers, Memory.hitting(tiers, hits, given.slow))}
        said = {}
        for which, arm in arms.items():
            said[which] = arm.predicted(link_rate(arm))
            arm.load("randread", given.seconds, "--seed", "100")  # fills the caches
        for number, (which, arm) in itertools.product(range(given.rounds), arms.items()):
            watch, before = report.CpuIdle(), arm.reads_counted()
            saturation[which].append(arm.saturate(given.seconds, number + 1))
            idle.setdefault(which, []).append(watch.stop())
            counted[which].append(arm.hit(before))
            print(f"hits {hits}, round {number + 1}, {which}: {saturation[which][-1]:.0f} "
                  f"of {said[which]['requests_per_second']:.0f} requests/s; hits " + ", ".join(
                      f"{part:.2f} at {tier}" for tier, part in counted[which][-1].items()),
                  flush=True)
    extra[f"{hits} in each, {name}"] = {"planner": said, "requests_per_s": saturation,
                                        "hits_counted": counted}
    peer = [said[name]["requests_per_second"]] * given.rounds
    rows = [report.row(f"hits {hits} in each tier, {name} / one tier", saturation[name],
                       saturation[flat], "req/s", target),
            report.row(f"hits {hits} in each tier, {name}: saturation / planner",
                       saturation[name], peer, "req/s", 0.9, 1.1)]
    for which, rounds in counted.items():
        rows += [report.row(f"hits {hits} in each tier, {which}: counted at {tier} / planner's",
                            [one[tier] for one in rounds],
                            [hits_said(said[which], tier)] * given.rounds, "hits")
                 for tier in rounds[0]]
    return rows


def main() -> int:
    parser = report.parser("tiers", __doc__, rounds=3, seconds=10.0)
    parser.add_argument("--slow", type=float, default=3, help="times slower than iPVFS's nodes")
    given = parser.parse_args()
    idle: dict = {name: [] for name in TIERS}
    extra: dict = {}
    rows = [one for cached in CACHED for one in case(cached, given, idle, extra)]
    for which in BOTH:
        rows += both(*which, given, idle, extra)
    return 0 if report.publish("tiers", rows, given.results, idle, {"samples": extra}) else 1


if __name__ == "__main__":
    sys.exit(main())
