#!/usr/bin/python3
"""Choice by load: writers to four pairs of data servers, one or two of the eight stressed.

    ./dev bench scheduling [--rounds 2] [--seconds 3] [--rate 200mbit] [--cases cpu,disk,...]
                           [--sizes 1,4,16,64,256]

Each data server has a link, a share of the processors (a cgroup with a limit) and a disk (a loop
device, throttled) of its own. The writers are load generators, which write in blocks of 256 KiB.

First two Wefts, one with By_Load and one without, alternate. 16 writers each rewrite a file striped
over all pairs. All files were made before, and have the same first copies, which lead when nothing
is measured: CEFT-PVFS's primary group. Duplication is server-asynchronous with a window that holds
what a run writes, so what is measured is how fast primaries take it.

    cpu      spinners in the group of one first copy
    disk     a process in its group takes its memory, others append to its disk synchronously
    network  streams take three quarters of its link
    mixed    cpu at the first copy of one pair, network at that of the other
    pair     streams at both servers of one pair; new files, synchronous duplication
    calm     nothing

f is what the stress leaves: as many writers to files with one copy on that data server, stressed
and not.

Then four Wefts, with all disks slower than the links: the stress is that of disk at one server of a
pair and that of network at the other. Four clients write a new file each, of --sizes MiB. Leaders
are chosen by load, by disks alone, by networks alone, or by turn. A chooser of one resource is told
by all data servers that the other one gives a TiB/s. By load the pair is left out of new files;
with skip=never it is not, which says what leaving it out gains.
"""

import sys
from contextlib import ExitStack

import links
import report
from harness.run import Run
from stressed import BLOCK, Arm

CASES = ("calm", "cpu", "disk", "network", "mixed", "pair")
BY_LOAD, PLAIN, DISK, NETWORK = "by load", "not by load", "disk alone", "network alone"
NEVER = "by load, skip=never"
CALM = "by load, no stress"
LEAST = 0.85
LONG = 64  # MiB a client: from there on a choice is judged; what is longer is in every other round
SHORT = 16  # what is shorter several times, and no part of what the links give is asked of it


class CaseArm(Arm):
    PAIRS = 4


class SizesArm(Arm):
    """Up to 64 MiB a client each server's part fits in its memory; beyond that disks decide."""

    WRITERS = 4
    PAIRS = 4
    DISK_LINKS = 0.4
    MEMORY = 160 << 20

    def _files_alone(self) -> dict:
        return {}

    def burst(self, size: int, case: str, skip: str) -> float:
        """MiB/s that are acknowledged of new files of `size` MiB, one of each client."""
        links.policy(self.cluster, "", f"skip={skip}")
        moved, seconds = 0, 0.0
        for _ in range(max(1, min(3, SHORT // size))):
            with self.stress(case):
                running = links.start_burst(self.cluster, self.nodes, size * links.MIB, "--block",
                                            BLOCK, "--depth", "4", "--say-written")
                links.wait_written(running)
            done = links.results(running, 300)
            moved += sum(one["bytes"] for one in done)
            seconds += max(one["seconds"] for one in done)
        return moved / links.MIB / seconds


# Of each way the arm, the stress, and the policy.
WAYS = {CALM: (BY_LOAD, "calm", "new"), BY_LOAD: (BY_LOAD, "both", "new"),
        NEVER: (BY_LOAD, "both", "never"), DISK: (DISK, "both", "new"),
        NETWORK: (NETWORK, "both", "new"), PLAIN: (PLAIN, "both", "new")}


def measure(arms: dict, given, idle: dict) -> dict:
    """For each case and round: rates by arm, and f."""
    found: dict = {case: [] for case in given.cases}
    for number in range(given.rounds):
        plain = arms[PLAIN]
        first, _, other = plain.stressed
        calm = {server.name: plain.alone_rate(server, "calm") for server in {first.name: first,
                other.name: other}.values()}
        for case in given.cases:
            fractions = []
            if case != "calm":
                fractions.append(plain.alone_rate(first, case) / calm[first.name])
            if case == "mixed":
                fractions.append(plain.alone_rate(other, case) / calm[other.name])
            one = {"f": min(fractions, default=1.0)}
            for name, arm in arms.items():
                watch = report.CpuIdle()
                one[name] = arm.write(case)
                idle[name].append(watch.stop())
            found[case].append(one)
            print(f"round {number + 1}, {case}: by load {one[BY_LOAD]:.1f} MiB/s, not "
                  f"{one[PLAIN]:.1f}, f {one['f']:.2f}", flush=True)
    return found


def measure_sizes(arms: dict, given, idle: dict) -> dict:
    """For each size and way the rates; of a size as many of each way."""
    found: dict = {size: {way: [] for way in WAYS} for size in given.sizes}
    for number in range(given.rounds):
        for size, rates in found.items():
            if size > LONG and number % 2 == 1:
                continue
            for way, (arm, case, skip) in WAYS.items():
                watch = report.CpuIdle()
                rates[way].append(arms[arm].burst(size, case, skip))
                idle[arm].append(watch.stop())
            print(f"round {number + 1}, {size} MiB a client: " + ", ".join(
                f"{way} {values[-1]:.1f}" for way, values in rates.items()) + " MiB/s", flush=True)
    return found


def rows(found: dict) -> list:
    out = []
    left = (CaseArm.PAIRS - 1) / CaseArm.PAIRS
    for case, rounds in found.items():
        if not rounds:
            continue
        ours = [one[BY_LOAD] for one in rounds]
        plain = [one[PLAIN] for one in rounds]
        if case != "calm":
            out.append(report.row(f"{case}: by load / not", ours, plain, "MiB/s"))
        expected = left if case == "pair" else 1
        reach = 0.98 if case == "calm" else LEAST
        part = " x 3/4" if case == "pair" else ""  # three of four pairs are left
        said = "by load / not" if case == "calm" else f"by load / (not / f{part})"
        out.append(report.row(f"{case}: {said}", ours,
                              [rate * expected / one["f"] for rate, one in zip(plain, rounds)],
                              "MiB/s", reach))
    return out


def size_rows(found: dict) -> list:
    """Figure 17's order is that a choice by all resources is before the others."""
    out = []
    left = (SizesArm.PAIRS - 1) / SizesArm.PAIRS
    gains = {}
    for size, rates in found.items():
        name = f"{size} MiB a client"
        for other in (DISK, NETWORK, PLAIN):
            out.append(report.row(f"{name}: by load / {other}", rates[BY_LOAD], rates[other],
                                  "MiB/s", 1.0 if size >= LONG else None))
        out.append(report.row(f"{name}: by load / (no stress x 3/4)", rates[BY_LOAD],
                              [rate * left for rate in rates[CALM]], "MiB/s",
                              LEAST if SHORT <= size <= LONG else None))
        gains[size] = report.row(f"{name}: a pair left out / none", rates[BY_LOAD], rates[NEVER],
                                 "MiB/s")
    out += gains.values()
    most = max(gains, default=0)
    if LONG in gains and most > LONG:
        out.append(report.row(f"what leaving out gains, {most} / {LONG} MiB",
                              [gains[most]["ratio"]], [gains[LONG]["ratio"]], "times", 0.0, 1.0))
    return out


def main() -> int:
    parser = report.parser("scheduling", __doc__, rounds=2, seconds=3.0)
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--sizes", default="1,4,16,64,256", help="MiB a client")
    given = parser.parse_args()
    given.cases = [case for case in given.cases.split(",") if case]
    given.sizes = [int(size) for size in given.sizes.split(",") if size]
    idle: dict = {name: [] for name in (BY_LOAD, PLAIN, DISK, NETWORK)}
    found: dict = {}
    sizes: dict = {}
    if given.cases:
        with Run() as one, Run() as two:
            found = measure({BY_LOAD: CaseArm(one, BY_LOAD, given),
                             PLAIN: CaseArm(two, PLAIN, given)}, given, idle)
    if given.sizes:
        with ExitStack() as stack:
            sizes = measure_sizes({name: SizesArm(stack.enter_context(Run()), name, given)
                                   for name in idle}, given, idle)
    made = rows(found) + size_rows(sizes)
    extra = {"samples": found, "mib_per_s_by_size": sizes}
    idle = {name: values for name, values in idle.items() if values}
    return 0 if report.publish("scheduling", made, given.results, idle, extra) else 1


if __name__ == "__main__":
    sys.exit(main())
