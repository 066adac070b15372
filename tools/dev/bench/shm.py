#!/usr/bin/python3
"""Shared memory against loopback TCP, and a data server over a target against its own folder.

    ./dev bench shm [--rounds 7] [--seconds 2]

The first rows are of the channels themselves: the same program sends the same messages to the same
answering process over one transport and the other, alternating. Small messages are of 64 bytes and
answered by the same, one at a time: with both processes on one processor; on two, sleeping while
there is nothing; and on two, polling. Bulk is messages of 1 MiB, four outstanding, each answered
by 8 bytes: copied once into the buffer that is lent, as TCP copies it out of the sender's; or there
already. The figure for that one is GiB per CPU second, of both processes together.

The last rows are of whole systems: our load generator on processor 1 reads and writes 1 MiB at a
time through a data server whose objects are at a weft-target, by shared memory, and through one
with objects of its own; all servers are on processor 0.
"""

import sys

import loopback
import report

MIB = 1 << 20
GIB = 1 << 30
FILE_BYTES = 256 * MIB

SMALL = ["--bytes", "64"]
BULK = ["--bytes", str(MIB), "--bulk", "--outstanding", "4"]
APART = ["--client-cpu", "1", "--server-cpu", "0"]
POLL = ["--poll-us", "200"]

# name: arguments of both, of shared memory alone, figure, least ratio
CASES = {
    "64 B, same processor": (SMALL, [], "rate", 3.0),
    "64 B, two processors, sleeping": (SMALL + APART, [], "rate", 1.1),
    "64 B, two processors, polling": (SMALL + APART, POLL, "rate", 10.0),
    "1 MiB, one copy": (BULK + APART, [], "bandwidth", 4.0),
    "1 MiB, no copy, per CPU second": (BULK + APART, ["--no-copy"], "cpu", 3.0),
}
UNITS = {"rate": "msg/s", "bandwidth": "MiB/s", "cpu": "GiB/CPU s"}


def figure(result: dict, what: str) -> float:
    if what == "rate":
        return result["messages"] / result["seconds"]
    if what == "bandwidth":
        return result["bytes"] / MIB / result["seconds"]
    return result["bytes"] / GIB / max(result["cpu_s"], 0.001)


def channel(transport: str, arguments: list, seconds: float) -> dict:
    return loopback.run_plain("channel", "--transport", transport, "--seconds", str(seconds),
                              *arguments)


def one(arm, op: str, seconds: float) -> float:
    return loopback.load(arm, "data", "--op", op, "--block", str(MIB), "--depth", "8", "--size",
                         str(FILE_BYTES), "--seconds", str(seconds), "--keep", "--file",
                         "bench")["mib_per_s"]


def channels(given, idle: dict) -> list:
    samples: dict = {case: ([], []) for case in CASES}
    for number in range(given.rounds):
        for case, (both, ours, what, _) in CASES.items():
            for side, (transport, extra) in enumerate((("shm", ours), ("tcp", []))):
                watch = report.CpuIdle()
                value = figure(channel(transport, both + extra, given.seconds), what)
                idle[transport].append(watch.stop())
                samples[case][side].append(value)
                print(f"{case:32} {transport} {value:12.1f} {UNITS[what]}", flush=True)
        print(f"round {number + 1} of {given.rounds} done", flush=True)
    return [report.row(case, *samples[case], UNITS[what], target)
            for case, (_, _, what, target) in CASES.items()]


def systems(given, idle: dict) -> list:
    samples: dict = {op: ([], []) for op in ("read", "write")}
    with loopback.Run() as target_run, loopback.Run() as own_run:
        arms = (loopback.WeftArm(target_run, target="shm"), loopback.WeftArm(own_run))
        for arm in arms:
            one(arm, "read", 1)  # makes the file, and warms the cache
        for _ in range(given.rounds):
            for op, sides in samples.items():
                for arm, values, name in zip(arms, sides, ("target", "own folder")):
                    watch = report.CpuIdle()
                    values.append(one(arm, op, given.seconds))
                    idle[name].append(watch.stop())
                    print(f"{op:5} {name:10} {values[-1]:8.0f} MiB/s", flush=True)
    return [report.row(f"1 MiB {op}s over a target", *samples[op], "MiB/s", 0.98)
            for op in samples]


def main() -> int:
    parser = report.parser("shm", __doc__, rounds=7, seconds=2.0)
    given = parser.parse_args()
    idle: dict = {"shm": [], "tcp": [], "target": [], "own folder": []}
    rows = channels(given, idle) + systems(given, idle)
    return 0 if report.publish("shm", rows, given.results, idle) else 1


if __name__ == "__main__":
    sys.exit(main())
