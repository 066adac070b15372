#!/usr/bin/python3
"""One data server with its objects in each of the ways there are: descriptors, lent pages, TCP.

    ./dev bench paths [--rounds 5] [--seconds 3]

Four systems alternate, alike but for where the one data server's objects are: in its own folder;
at a target of its machine that hands descriptors of its files over; at one that is asked for every
byte, in lent pages; at one that is reached by TCP. All have the same disk. Our load generator on
processor 1 reads and writes blocks of 64 B to 1 MiB, eight at a time, servers are on processor 0:

    warm       what is read is in the page cache
    cold       none of it is: a file once from its begin, dropped before, again and again
    unstable   writes that a commit follows, which is not counted
    stable     writes that are each on the disk when they are answered

A data server over a target that hands descriptors over goes on to lent pages where it has to. The
better of the two ways that a target of the same machine has is judged, and named. Processor seconds
for each GiB, of all server processes together, are in a table of their own, paths-cpu.txt.

Then the metadata server's own reads and writes, for clients without pNFS, in the same cases: two
systems whose data server is on its machine, with shared memory between the two and without.
"""

import os
import statistics
import sys
from pathlib import Path

import loopback
import report

MIB = 1 << 20
GIB = 1 << 30
OWN, PASSED, LENT, TCP = "own folder", "descriptor", "lent pages", "TCP"
ARMS = {OWN: {}, PASSED: {"target": "shm"},
        LENT: {"target": "shm", "store_options": "target_descriptors = false\n"},
        TCP: {"target": "tcp"}}
SHARED, PROXY_TCP = "shared memory", "TCP, for the metadata server"
PROXY_ARMS = {SHARED: {"shared_memory": ("mds", "ds")}, PROXY_TCP: {}}
SIZES = {"64 B": 64, "4 KiB": 4096, "64 KiB": 65536, "1 MiB": MIB}
FILE_BYTES = 64 * MIB
STABLE_BYTES = 16 * MIB
COLD_BYTES = {"64 B": 2 * MIB, "4 KiB": 64 * MIB}  # that are read once, and again
COLD_FILE_BYTES = 256 * MIB
COLD_PASSES = 20  # at most

def cases(warm: float | None, cold: float | None, *words: str) -> dict:
    """name: operation, block, what else the generator is told, least ratio."""
    stable = ("--stable", "--size", str(STABLE_BYTES))
    return {
        **{f"{name} reads, warm": ("read", block, words, warm) for name, block in SIZES.items()},
        **{f"{name} reads, cold": ("read", block, (
            "--once", "--size", str(COLD_BYTES.get(name, COLD_FILE_BYTES)), *words), cold)
           for name, block in SIZES.items()},
        **{f"{name} writes, unstable": ("write", block, words, warm)
           for name, block in SIZES.items()},
        **{f"{name} writes, stable": ("write", block, (*stable, *words), cold)
           for name, block in SIZES.items()},
    }


CASES = cases(0.98, 0.95)
PROXY_CASES = cases(None, None, "--no-pnfs")


def drop(run) -> None:
    """The objects of an arm are on the disk, and not in the page cache."""
    for file in Path(run.folder).glob("*/store/**/objects/**/*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def one(arm, case: tuple, seconds: float, file: str = "bench") -> dict:
    op, block, more, _ = case
    size = () if "--size" in more else ("--size", str(FILE_BYTES))
    return loopback.load(arm, "data", "--op", op, "--block", str(block), "--depth", "8",
                         "--seconds", str(seconds), "--keep", "--file", file, *size, *more)


def cold(run, arm, case: tuple, seconds: float) -> dict:
    """Passes through a file until they have taken so long, as one result."""
    passes: list = []
    while len(passes) < COLD_PASSES and sum(each["seconds"] for each in passes) < seconds:
        drop(run)
        passes.append(one(arm, case, seconds, "cold"))
    one(arm, ("read", MIB, ("--once",), None), seconds)  # what else was dropped is back
    took = sum(each["seconds"] for each in passes)
    moved = sum(each["bytes"] for each in passes)
    return {"seconds": took, "bytes": moved, "mib_per_s": moved / MIB / took,
            "ops_per_s": moved / case[1] / took,
            "server_cpu_s": sum(each["server_cpu_s"] for each in passes),
            "idle_percent": statistics.mean(each["idle_percent"] for each in passes)}


def rotated(arms: dict, by: int) -> list:
    """Each is first in some rounds: what one wrote goes to the disk beside the next."""
    items = list(arms.items())
    by %= len(items)
    return items[by:] + items[:by]


def measure(ways: dict, of: dict, given, idle: dict) -> dict:
    """Of each case and way the results, in the order of the rounds."""
    samples: dict = {case: {way: [] for way in ways} for case in of}
    runs = {way: loopback.Run() for way in ways}
    try:
        arms = {way: loopback.WeftArm(runs[way], **options) for way, options in ways.items()}
        for arm in arms.values():  # makes the files, and warms the cache
            one(arm, next(iter(of.values())), 0.2)
            one(arm, ("read", MIB, ("--once", "--size", str(COLD_FILE_BYTES)), None), 1, "cold")
        for number in range(given.rounds):
            for case, how in of.items():
                for way, arm in rotated(arms, number):
                    found = (cold(runs[way], arm, how, given.seconds) if "--once" in how[2]
                             else one(arm, how, given.seconds))
                    samples[case][way].append(found)
                    idle.setdefault(way, []).append(found["idle_percent"])
            print(f"round {number + 1} of {given.rounds} done", flush=True)
    finally:
        for run in runs.values():
            run.close()
    return samples


def rates(results: list, block: int) -> tuple[list, str]:
    """Of small blocks operations, of large ones bytes."""
    if block < SIZES["64 KiB"]:
        return [one["ops_per_s"] for one in results], "op/s"
    return [one["mib_per_s"] for one in results], "MiB/s"


def cpu_per_gib(result: dict) -> float:
    return result["server_cpu_s"] * GIB / max(result["bytes"], 1)


def rows_of(samples: dict) -> list:
    rows = []
    for case, by_way in samples.items():
        _, block, _, least = CASES[case]
        own, unit = rates(by_way[OWN], block)
        made = {way: report.row(f"{case}: {way} / {OWN}", rates(by_way[way], block)[0], own, unit)
                for way in (PASSED, LENT, TCP)}
        best = max((PASSED, LENT), key=lambda way: made[way]["ratio"])
        rows += [*made.values(),
                 report.row(f"{case}: best way on one machine, {best} / {OWN}",
                            rates(by_way[best], block)[0], own, unit, least)]
    return rows


def proxy_rows(samples: dict) -> list:
    rows = []
    for case, by_way in samples.items():
        shared, unit = rates(by_way[SHARED], PROXY_CASES[case][1])
        tcp, _ = rates(by_way[PROXY_TCP], PROXY_CASES[case][1])
        name = f"{case}, by the metadata server: {SHARED} / TCP"
        rows.append(report.row(name, shared, tcp, unit))
    return rows


def cpu_table(samples: dict, ways) -> list[str]:
    width = max(len(way) for way in ways) + 4
    lines = [f"{'processor seconds per GiB':34}" + "".join(f"{way:>{width}}" for way in ways)]
    for case, by_way in samples.items():
        spent = (statistics.median(cpu_per_gib(one) for one in by_way[way]) for way in ways)
        lines.append(f"{case:34}" + "".join(f"{value:{width}.3g}" for value in spent))
    return lines


def main() -> int:
    parser = report.parser("paths", __doc__, rounds=5, seconds=3.0)
    given = parser.parse_args()
    idle: dict = {}
    samples = measure(ARMS, CASES, given, idle)
    proxied = measure(PROXY_ARMS, PROXY_CASES, given, idle)
    spent = cpu_table(samples, ARMS) + [""] + cpu_table(proxied, PROXY_ARMS)
    print("\n".join(spent))
    os.makedirs(given.results, exist_ok=True)
    with open(os.path.join(given.results, "paths-cpu.txt"), "w", encoding="utf-8") as out:
        out.write("\n".join(spent) + "\n")
    extra = {"cpu_s_per_gib": {case: {way: [cpu_per_gib(one) for one in results]
                                      for way, results in by_way.items()}
                               for case, by_way in {**samples, **proxied}.items()}}
    rows = rows_of(samples) + proxy_rows(proxied)
    return 0 if report.publish("paths", rows, given.results, idle, extra) else 1


if __name__ == "__main__":
    sys.exit(main())
