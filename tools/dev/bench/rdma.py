#!/usr/bin/python3
"""A stock client by RDMA and by TCP: the data server's own processor time for what it moves.

    ./dev bench rdma [--rounds 5] [--mib 128]

A data server runs in a Linux 6.12 machine that has RDMA by software (Soft-RoCE), with its objects
in memory, which it reads and writes past the page cache (mode "direct"): so by RDMA no byte is
copied but by the device. Two more such machines are its clients, one with a device, which comes by
RDMA, and one without, which comes by TCP. They read and write a file in turn, 1 MiB at a time with
O_DIRECT, over and over.

The figures are GiB per second of processor time in user mode and in system calls, sampled by perf
on the host (uml_time.py), less what the machine takes for nothing in the same time; and KiB per
system call, counted by strace in a run of their own, which is slower, without those that read the
clock, which are none outside of such a machine. What the kernel does for Soft-RoCE is the work of a
card, and is in none of it, nor are soft interrupts, which do TCP's receiving too. Bandwidth stands
beside it without a target: here it says how fast Soft-RoCE is between machines that share two
processors, and nothing about a card.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path

import links
import report
import uml_time
from harness.cluster import Cluster, Options
from harness.images import KINDS, ensure
from harness.network import Network
from harness.rdma import RdmaDataServer, start_machines
from harness.run import Run, wait_until

MIB = links.MIB
GIB = 1 << 30
LIMIT_S = 600
LEAST_S = 0.1  # some 200 samples
IDLE_S = 15
TRACED_MIB = 64
JOB = ("set -e\ncd /mnt/nfs\nfio --name=b --filename={name} --rw={way} --bs=1M --size={mib}M "
       "--direct=1 --ioengine=libaio --iodepth=4 --fallocate=none --overwrite=1 --loops={loops} "
       "--minimal "
       "> /tmp/fio.log || {{ cat /tmp/fio.log; exit 1; }}\n"
       "cut -d';' -f{field} /tmp/fio.log")
FIELDS = {"read": 7, "write": 48}  # of fio's terse output: KiB/s
RDMA, TCP = "RDMA", "TCP"
LOOPS = {RDMA: 6, TCP: 30}  # over a file: so that there are samples enough of either


class Arms:
    def __init__(self, run: Run, mib: int, folder: Path):
        self.mib, self.folder, self.for_nothing = mib, folder, 0.0
        network = Network(run)
        self.cluster = Cluster(run, network, Options(data_servers=0, extra={"Inline": "0"}))
        self.home, by_rdma, by_tcp = start_machines(run, network, "uml612", 3)
        self.home.add_device()
        by_rdma.add_device()
        self.ds = RdmaDataServer(run, self.cluster, self.home,
                                 store_lines='mode = "direct"\n')
        self.ds.start()
        self.ds.wait_told(rdma=True)
        self.clients = {RDMA: by_rdma, TCP: by_tcp}
        for client in self.clients.values():
            client.mount(self.cluster.address, self.cluster.path)

    def _own_seconds(self, work) -> tuple[float, float]:
        """Of the machine's processor, in user mode and in system calls, while work() runs; and of
        the clock."""
        profile = uml_time.Profile(self.home.pids(), self.folder)
        with profile:
            begun = time.monotonic()
            work()
            took = time.monotonic() - begun
        spent = profile.seconds()
        return spent.get(uml_time.USER, 0) + spent.get(uml_time.OWN, 0), took

    def idle(self) -> None:
        used, took = self._own_seconds(lambda: time.sleep(IDLE_S))
        self.for_nothing = used / took
        print(f"for nothing: {self.for_nothing:.4f} s a second", flush=True)

    def one(self, arm: str, way: str) -> tuple[float, float]:
        """GiB for a second of the data server's own, and MiB a second."""
        rates: list[int] = []

        def work() -> None:
            done = self.clients[arm].run(
                JOB.format(name=arm, way=way, mib=self.mib, loops=LOOPS[arm], field=FIELDS[way]),
                LIMIT_S)
            rates.append(int(done.output.split()[-1]))

        moved = sum(self.ds.moved())
        used, took = self._own_seconds(work)
        used -= self.for_nothing * took
        moved = sum(self.ds.moved()) - moved
        if (moved >= LOOPS[arm] * self.mib * MIB) != (arm == RDMA):
            raise RuntimeError(f"{arm}: {moved} bytes went by RDMA")
        if used < LEAST_S:
            raise RuntimeError(f"{arm}: {used:.2f} s is too short to be sampled: a greater --mib")
        return LOOPS[arm] * self.mib * MIB / GIB / used, rates[0] / 1024

    def per_call(self, arm: str, way: str) -> float:
        """KiB for a system call of the data server."""
        tracer = self.home.start_job(
            f"exec strace -f -c -o /tmp/calls -p $(pgrep -o -f '^{self.ds.program} --config')",
            root=True)
        wait_until(lambda: "attached" in tracer.output(), LIMIT_S, "strace to attach")
        self.clients[arm].run(
            JOB.format(name=arm, way=way, mib=TRACED_MIB, loops=1, field=FIELDS[way]), LIMIT_S)
        self.home.run("pkill -INT strace", root=True)
        tracer.wait(LIMIT_S, check=False)
        return TRACED_MIB * MIB / 1024 / count_calls(
            self.home.run("cat /tmp/calls", root=True).output)


def count_calls(table: str) -> int:
    """Of what strace -c says, without reading the clock."""
    total = 0
    for line in table.splitlines():
        words = line.split()
        if len(words) >= 5 and words[3].isdigit() and words[-1] not in ("clock_gettime", "total"):
            total += int(words[3])
    return total


def main() -> int:
    parser = report.parser("rdma", __doc__, rounds=5)
    parser.add_argument("--mib", type=int, default=128)
    given = parser.parse_args()
    if shutil.which("perf") is None:
        print("there is no perf: apt-get install linux-perf", file=sys.stderr)
        return 2
    ensure(KINDS["uml612"])
    ways = ("write", "read")
    samples: dict = {(way, what): ([], []) for way in ways for what in ("cpu", "rate", "calls")}
    idle: dict = {RDMA: [], TCP: []}
    with Run() as run, tempfile.TemporaryDirectory() as folder:
        arms = Arms(run, given.mib, Path(folder))
        for arm in idle:
            arms.one(arm, "write")  # makes the files
        for way in ways:
            for _ in range(2):
                for side, arm in enumerate(idle):
                    samples[way, "calls"][side].append(arms.per_call(arm, way))
                    print(f"{way:5} {arm:4} {samples[way, 'calls'][side][-1]:.0f} KiB/system call",
                          flush=True)
        for number in range(given.rounds):
            arms.idle()
            for way in ways:
                for side, arm in enumerate(idle):
                    watch = report.CpuIdle()
                    cpu, rate = arms.one(arm, way)
                    idle[arm].append(watch.stop())
                    samples[way, "cpu"][side].append(cpu)
                    samples[way, "rate"][side].append(rate)
                    print(f"{way:5} {arm:4} {cpu:6.2f} GiB/CPU s {rate:6.0f} MiB/s", flush=True)
            print(f"round {number + 1} of {given.rounds} done", flush=True)
    rows = [report.row(f"1 MiB {way}s, own time", *samples[way, "cpu"], "GiB/CPU s", 1.0)
            for way in ways]
    rows += [report.row(f"1 MiB {way}s, system calls", *samples[way, "calls"], "KiB/call", 1.0)
             for way in ways]
    rows += [report.row(f"1 MiB {way}s, bandwidth", *samples[way, "rate"], "MiB/s") for way in ways]
    return 0 if report.publish("rdma", rows, given.results, idle) else 1


if __name__ == "__main__":
    sys.exit(main())
