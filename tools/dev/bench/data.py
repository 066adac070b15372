#!/usr/bin/python3
"""The data path against Ganesha's VFS export on the same disk, and against plain loopback TCP.

    ./dev bench data [--rounds 7] [--seconds 4]

Our own load generator drives both arms, alternating within each round: a Weft of one metadata and
one data server, and Ganesha serving a folder of the same disk through its VFS. Both servers run on
processor 0, the generator on processor 1. Figures per CPU second count all server processes of the
arm, the metadata server included. Reads are of data that is in the page cache. The plain TCP sender
sends as many bytes of memory, in turn, as the file has, since a server's bytes are not in its
processor's cache either; the figure of one hot block, sent again and again, is printed beside it.
"""

import subprocess
import sys

import loopback
import report

MIB = 1 << 20
FILE_BYTES = 256 * MIB
TCP_PORT = 5009

# name: operation, block in bytes, operations outstanding, what is compared, least ratio
CASES = {
    "1 MiB reads": ("read", MIB, 8, "bytes", 2.0),
    "1 MiB writes": ("write", MIB, 8, "bytes", 1.5),
    "4 KiB reads": ("randread", 4096, 16, "operations", 2.0),
}


def per_cpu_second(result: dict, what: str) -> float:
    amount = result[what] / (MIB if what == "bytes" else 1)
    return amount / max(result["server_cpu_s"], 0.01)


def plain_tcp(arm, seconds: float, memory: int) -> float:
    """MiB/s from a plain sender on the servers' processor to the generator's, in 1 MiB blocks.

    The sender goes round in so many bytes of memory; the receiver has one block.
    """
    with loopback.pinned(loopback.SERVER_CPU):
        sender = subprocess.Popen(
            ["ip", "netns", "exec", arm.namespace, loopback.generator(), "tcp-serve", "--port",
             str(TCP_PORT), "--block", str(MIB), "--size", str(memory)],
            stdout=subprocess.PIPE, text=True)
    try:
        sender.stdout.readline()
        return loopback.run_json(arm.namespace, "tcp-read", "--port", str(TCP_PORT), "--block",
                                 str(MIB), "--seconds", str(seconds))["mib_per_s"]
    finally:
        sender.kill()
        sender.wait()
        sender.stdout.close()


def one(arm, case: str, seconds: float) -> dict:
    op, block, depth, _, _ = CASES[case]
    return loopback.load(arm, "data", "--op", op, "--block", str(block), "--depth", str(depth),
                         "--size", str(FILE_BYTES), "--seconds", str(seconds), "--keep",
                         "--file", "bench")


def describe(name: str, arm: str, result: dict) -> str:
    gib = result["bytes"] / (1 << 30)
    latency = result["latency_us"]
    return (f"{name:13} {arm:5} {result['mib_per_s']:8.0f} MiB/s {result['ops_per_s']:9.0f} op/s "
            f"{result['server_cpu_s'] / gib:6.2f} CPU s/GiB  latency us p50 {latency['p50']:.0f} "
            f"p99 {latency['p99']:.0f} p99.9 {latency['p999']:.0f}")


def measure(weft, vfs, given) -> tuple:
    idle: dict = {"Weft": [], "Ganesha VFS": [], "plain TCP": []}
    samples: dict = {case: [] for case in CASES}
    tcp: dict = {FILE_BYTES: [], MIB: []}
    for arm in (weft, vfs):  # makes the files, and warms the cache
        one(arm, "1 MiB reads", 1)
    for number in range(given.rounds):
        for case in CASES:
            pair = (one(weft, case, given.seconds), one(vfs, case, given.seconds))
            samples[case].append(pair)
            for arm, result in zip(("Weft", "Ganesha VFS"), pair):
                idle[arm].append(result["idle_percent"])
                print(describe(case, "ours" if arm == "Weft" else "VFS", result), flush=True)
            if case == "1 MiB reads":
                for memory, rates in tcp.items():
                    watch = report.CpuIdle()
                    rates.append(plain_tcp(weft, given.seconds, memory))
                    idle["plain TCP"].append(watch.stop())
                    print(f"plain TCP, {memory // MIB:3} MiB  {rates[-1]:8.0f} MiB/s", flush=True)
        print(f"round {number + 1} of {given.rounds} done", flush=True)
    return samples, tcp, idle


def rows(samples: dict, tcp: dict) -> list:
    out = []
    for case, (_, _, _, what, target) in CASES.items():
        unit = "MiB/CPU s" if what == "bytes" else "op/CPU s"
        ours, peer = zip(*[(per_cpu_second(a, what), per_cpu_second(b, what))
                           for a, b in samples[case]])
        out.append(report.row(f"{case}, per server CPU second", ours, peer, unit, target))
    reads = [ours["mib_per_s"] for ours, _ in samples["1 MiB reads"]]
    out.append(report.row("1 MiB reads, against plain loopback TCP", reads, tcp[FILE_BYTES],
                          "MiB/s", 0.8))
    out.append(report.row("1 MiB reads, against TCP from one hot block", reads, tcp[MIB], "MiB/s"))
    for case in CASES:
        ours, peer = zip(*[(a["ops_per_s"], b["ops_per_s"]) for a, b in samples[case]])
        out.append(report.row(f"{case}, rate", ours, peer, "op/s"))
    return out


def main() -> int:
    parser = report.parser("data", __doc__, rounds=7, seconds=4.0)
    given = parser.parse_args()
    with loopback.Run() as weft_run, loopback.Run() as vfs_run:
        weft = loopback.WeftArm(weft_run)
        vfs = loopback.VfsArm(vfs_run)
        samples, tcp, idle = measure(weft, vfs, given)
    extra = {"samples": samples, "plain_tcp_mib_per_s": tcp}
    made = rows(samples, tcp)
    return 0 if report.publish("data", made, given.results, idle, extra) else 1


if __name__ == "__main__":
    sys.exit(main())
