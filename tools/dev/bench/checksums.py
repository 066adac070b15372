#!/usr/bin/python3
"""What a data server's checksums cost: processor seconds, with and without.

    ./dev bench checksums [--rounds 9] [--seconds 3]

Two systems of one metadata and one data server on the same disk, with store.checksums and without,
take turns; servers are on processor 0, the load generator on processor 1. What is counted are the
processor seconds of weft-ds. 1 MiB at a time is written to a new file, every byte once, from the
first write until everything has its checksum; then the same over the file that is there. 4 KiB are
written and read anywhere in the file for as many seconds, with the checksums that are made of it.
Then it is read, 1 MiB at a time, from the page cache, when all checksums are known.
"""

import os
import sys
import time
from pathlib import Path

import loopback
import report
from harness.run import wait_until

MIB = 1 << 20
FILE_BYTES = 512 * MIB
BLOCK = 4096
SEALED = "weft_ds_checksum_sealed_blocks_total"
TICK = os.sysconf("SC_CLK_TCK")
ARMS = {"with": "checksums = true\n", "without": ""}

LAST = "1 MiB reads"  # then the file goes
# name: operation, block in bytes, operations outstanding, more, what is compared
CASES = {
    "1 MiB writes, new file": ("write", MIB, 8, ["--once", "--no-prepare"], "bytes"),
    "1 MiB writes, over old bytes": ("write", MIB, 8, ["--once", "--no-prepare"], "bytes"),
    "4 KiB writes": ("randwrite", BLOCK, 16, ["--no-prepare"], "operations"),
    "4 KiB reads": ("randread", BLOCK, 16, [], "operations"),
    LAST: ("read", MIB, 8, [], "bytes"),
}


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


class Arm:
    def __init__(self, run, options: str):
        self.checked = bool(options)
        self.weft = loopback.WeftArm(run, store_options=options, metrics=True)
        self.server = self.weft.cluster.ds[0]

    def sealed(self) -> float:
        return self.weft.cluster.metrics(self.server)[SEALED]

    def settle(self) -> None:
        """Until everything that was written has its checksum; as long without."""
        if not self.checked:
            return time.sleep(7)
        before = [-1.0]

        def over() -> bool:
            now = self.sealed()
            known = now == before[0]
            before[0] = now
            return known

        time.sleep(6.5)
        return wait_until(over, 60, "checksums", 1.1)

    def one(self, case: str, file: str, seconds: float) -> dict:
        op, block, depth, more, _ = CASES[case]
        watch = report.CpuIdle()
        before = processor_seconds(self.server.process.pid)
        result = loopback.load(self.weft, "data", "--op", op, "--block", str(block), "--depth",
                               str(depth), "--size", str(FILE_BYTES), "--seconds", str(seconds),
                               "--file", file, *more, *([] if case == LAST else ["--keep"]))
        if "write" in op:
            self.settle()
        result["data_server_cpu_s"] = processor_seconds(self.server.process.pid) - before
        result["idle_percent"] = watch.stop()
        return result


def cost(result: dict, what: str) -> float:
    """Processor seconds of a GiB, or of a million operations."""
    return result["data_server_cpu_s"] / (result["bytes"] / (1 << 30) if what == "bytes" else
                                          result["operations"] / 1e6)


def measure(arms: dict, given) -> tuple:
    samples: dict = {case: [] for case in CASES}
    idle: dict = {name: [] for name in ARMS}
    for number in range(given.rounds):
        for case in CASES:
            pair = []
            for name, arm in arms.items():
                result = arm.one(case, f"bench{number}", given.seconds)
                pair.append(result)
                idle[name].append(result["idle_percent"])
            samples[case].append(pair)
            print(f"round {number + 1} {case:28} with {cost(pair[0], CASES[case][4]):7.3f} without "
                  f"{cost(pair[1], CASES[case][4]):7.3f}", flush=True)
    return samples, idle


def rows(samples: dict) -> list:
    out = []
    for case, (_, _, _, _, what) in CASES.items():
        ours, peer = zip(*[(cost(a, what), cost(b, what)) for a, b in samples[case]])
        out.append(report.row(f"{case}, processor seconds", ours, peer,
                              "s/GiB" if what == "bytes" else "s/million"))
    return out


def main() -> int:
    given = report.parser("checksums", __doc__, rounds=9, seconds=3.0).parse_args()
    with loopback.Run() as first, loopback.Run() as second:
        arms = {name: Arm(run, options)
                for run, (name, options) in zip((first, second), ARMS.items())}
        samples, idle = measure(arms, given)
    made = rows(samples)
    return 0 if report.publish("checksums", made, given.results, idle, {"samples": samples}) else 1


if __name__ == "__main__":
    sys.exit(main())
