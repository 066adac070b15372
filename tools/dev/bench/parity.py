#!/usr/bin/python3
"""A parity group of 3 and of 4 targets: full-stripe writes, and reads without one of them.

    ./dev bench parity [--rounds 4] [--seconds 5] [--rate 16]

Every target has an emulated disk of --rate MiB/s (3.8 ms mean seek, 2 ms half a turn) and 16 MiB
of cache. Two systems alternate:

    raw      as many data servers as targets, each over a target of its own, a file striped over
             all: what the targets' disks take and give together
    parity   one data server over the group; writes of whole stripes; reads with all targets, and
             with one of them stopped

Writes count until the commit is answered, so that they are on the disks. These are slow, so that
neither the processors nor shared memory decide: .context.json says how idle the processors were.
"""

import sys
import time

import emulated
import loopback
import report
from harness import stores
from harness.cluster import Options
from harness.run import Run

MIB = 1 << 20
CHUNK = 64 << 10
FILE_STRIPES = 1024
GROUPS = (3, 4)
WRITE_TARGET = 0.85  # of (N - 1) / N of the raw sum
DEGRADED_TARGET = 0.60


class Arm:
    """One system; what loopback.load() wants of it."""

    def __init__(self, run: Run, given, members: int, parity: bool):
        disk = emulated.Disk(rate=int(given.rate * MIB), seek=0.0038, rotation=0.002,
                             capacity=2 << 30, memory=16 * MIB)
        network = loopback.Loopback(run)
        with loopback.pinned(loopback.SERVER_CPU):
            self.cluster = emulated.EmulatedCluster(
                run, network, Options(data_servers=1 if parity else members, grace_s=1,
                                      mds_port=loopback.MDS_PORT),
                disk, targets=members if parity else 1, transport="shm")
        self.namespace = network.namespace
        self.arguments = ["--address", self.cluster.address, "--port", str(loopback.MDS_PORT),
                          "--export", loopback.EXPORT]
        self.pids = []
        width = (members - 1) * CHUNK
        self.block = width * 4 if parity else MIB
        self.size = FILE_STRIPES * width if parity else FILE_STRIPES * CHUNK * members

    def load(self, op: str, seconds: float) -> dict:
        return loopback.load(self, "data", "--op", op, "--block", str(self.block), "--depth", "16",
                             "--size", str(self.size), "--seconds", str(seconds), "--keep",
                             "--file", "bench")

    def write(self, seconds: float) -> float:
        return self.load("write", seconds)["committed_mib_per_s"]

    def read(self, seconds: float) -> float:
        return self.load("read", seconds)["mib_per_s"]

    def degraded(self, seconds: float) -> float:
        """Reads with one target stopped. It goes on afterwards, and is part of the group again."""
        stopped = self.cluster.emulated[0].process
        stopped.pause()
        try:
            self.load("read", 1)  # somebody has to notice
            stores.wait_store(self.cluster, "parity, degraded")
            return self.read(seconds)
        finally:
            stopped.resume()
            stores.wait_store(self.cluster, "parity")


def measure(members: int, given, idle: dict) -> list:
    raw_writes, writes, raw_reads, reads, degraded = [], [], [], [], []
    with Run() as raw_run, Run() as parity_run:
        raw = Arm(raw_run, given, members, parity=False)
        group = Arm(parity_run, given, members, parity=True)
        for arm in (raw, group):
            arm.load("read", 0.5)  # makes the file
        for number in range(given.rounds):
            for name, values, of, how in (("raw", raw_writes, raw, "write"),
                                          ("parity", writes, group, "write"),
                                          ("raw", raw_reads, raw, "read"),
                                          ("parity", reads, group, "read"),
                                          ("degraded", degraded, group, "degraded")):
                watch = report.CpuIdle()
                values.append(getattr(of, how)(given.seconds))
                idle[name].append(watch.stop())
                print(f"{members} targets, round {number + 1}: {name:8} {how:8} "
                      f"{values[-1]:7.1f} MiB/s", flush=True)
                time.sleep(0.5)
    part = (members - 1) / members
    return [
        report.row(f"{members} targets: full-stripe writes / {members - 1}/{members} of raw",
                   writes, [part * rate for rate in raw_writes], "MiB/s", WRITE_TARGET),
        report.row(f"{members} targets: reads / raw", reads, raw_reads, "MiB/s"),
        report.row(f"{members} targets: reads without one / with all", degraded, reads, "MiB/s",
                   DEGRADED_TARGET),
    ]


def main() -> int:
    parser = report.parser("parity", __doc__, rounds=4, seconds=5.0)
    parser.add_argument("--rate", type=float, default=16, help="MiB/s of a disk")
    given = parser.parse_args()
    idle: dict = {"raw": [], "parity": [], "degraded": []}
    rows = [one for members in GROUPS for one in measure(members, given, idle)]
    return 0 if report.publish("parity", rows, given.results, idle) else 1


if __name__ == "__main__":
    sys.exit(main())
