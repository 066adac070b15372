#!/usr/bin/python3
"""A stock client by RDMA and by TCP: the data server's own processor time for what it moves.

    ./dev bench rdma [--rounds 5] [--mib 128]

A data server runs in a Linux 6.12 machine that has RDMA by software (Soft-RoCE), with its objects
in memory, which it reads and writes past the page cache (mode "direct"): so by RDMA no byte is
copied but by the device. Two more such machines are its clients, one with a device, which comes by
RDMA, and one without, which comes by TCP. They read and write a file in turn, 1 MiB at a time with
O_DIRECT, over and over.

The figures are GiB per second of processor time in user mode and in system calls, sampled by perf
on the host (uml_time.py), less what the machine takes for nothing in the same time. What the kernel
does for Soft-RoCE, that in the calls to the device's file included, is the work of a card, and is
in none of it, nor are soft interrupts, which do TCP's receiving too. Bandwidth stands beside it
without a target: here it says how fast Soft-RoCE is between machines that share two processors, and
nothing about a card.

Two more figures are counted in a run of their own, which is slower (traced.py), of one read or
write at a time, so that no arm gains by what comes together: KiB per system call, and bytes that
the processor copied, by memcpy or between kernel and process, for each that was moved. The bytes
that are copied are counted once more with a data server that goes through the page cache, as it
does unless it is told otherwise: there it is one copy, between page cache and registered memory,
and TCP, whose bytes may stay in the kernel, is not compared. A card's
library posts work and asks for completions by writing to the card; the one of Soft-RoCE makes a
system call of each. So there are two rows of system calls: without those to the device's file, as
it is with a card, and with them. Reading the clock is a system call in such a machine only, and in
neither.
"""

import sys
import tempfile
import time
from pathlib import Path

import links
import report
import traced
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
       "--direct=1 --ioengine=libaio --iodepth={depth} --fallocate=none --overwrite=1 "
       "--loops={loops} --minimal "
       "> /tmp/fio.log || {{ cat /tmp/fio.log; exit 1; }}\n"
       "cut -d';' -f{field} /tmp/fio.log")
FIELDS = {"read": 7, "write": 48}  # of fio's terse output: KiB/s
RDMA, TCP = "RDMA", "TCP"
BUFFERED = "buffered"
FIGURES = ("cpu", "rate", "calls", "all calls", "copied", BUFFERED)
LOOPS = {RDMA: 6, TCP: 30}  # over a file: so that there are samples enough of either


class Arms:
    def __init__(self, run: Run, mib: int, folder: Path):
        self.mib, self.folder, self.for_nothing = mib, folder, 0.0
        network = Network(run)
        self.cluster = Cluster(run, network, Options(data_servers=0, extra={"Inline": "0"}))
        self.home, by_rdma, by_tcp = start_machines(run, network, "uml612", 3)
        self.home.add_device()
        by_rdma.add_device()
        self.run = run
        self.serve("direct")
        self.clients = {RDMA: by_rdma, TCP: by_tcp}
        for client in self.clients.values():
            client.mount(self.cluster.address, self.cluster.path)

    def serve(self, mode: str) -> None:
        """The next start is of a data server of this store.mode, at the same objects."""
        self.ds = RdmaDataServer(self.run, self.cluster, self.home,
                                 store_lines=f'mode = "{mode}"\n')

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
                JOB.format(name=arm, way=way, mib=self.mib, loops=LOOPS[arm], depth=4,
                           field=FIELDS[way]),
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

    def traced(self, arm: str, way: str) -> traced.Counts:
        tracer = self.home.start_job(
            traced.command(f"$(pgrep -o -f '^{self.ds.program} --config')"), root=True)
        wait_until(lambda: "attached" in tracer.output(), LIMIT_S, "strace to attach")
        before = self._copied()
        self.clients[arm].run(
            JOB.format(name=arm, way=way, mib=TRACED_MIB, loops=1, depth=1, field=FIELDS[way]),
            LIMIT_S)
        copied = self._copied() - before
        self.home.run("pkill -INT strace", root=True)
        tracer.wait(LIMIT_S, check=False)
        counts = traced.read(self.home.run(f"cat {traced.LOG}", root=True).output)
        counts.copied += copied
        return counts

    def _copied(self) -> int:
        return int(self.home.run(f"od -A n -t u8 -N 8 {traced.COPIED}", root=True).output)


def count_traced(arms: Arms, ways: tuple[str, ...], samples: dict) -> None:
    """With servers of their own, which count what they copy: of either mode of the store."""
    for mode in (BUFFERED, "direct"):
        arms.serve(mode)
        arms.ds.start(traced.environment(arms.folder))
        arms.ds.wait_told(rdma=True)
        compared = (RDMA,) if mode == BUFFERED else (RDMA, TCP)
        for arm in compared:
            arms.one(arm, "write")  # makes the files
        for way in ways:
            for _ in range(2):
                for side, arm in enumerate(compared):
                    count(arms.traced(arm, way), samples, mode, way, side)
        arms.ds.stop()


def count(counts: traced.Counts, samples: dict, mode: str, way: str, side: int) -> None:
    moved = TRACED_MIB * MIB
    copied = counts.copied / moved
    of_card = moved / 1024 / (counts.calls - counts.doorbells)
    in_all = moved / 1024 / counts.calls
    print(f"{way:5} {(RDMA, TCP)[side]:4} {mode}: {of_card:.0f} KiB/system call, {in_all:.0f} with "
          f"the device's, {copied:.2f} bytes copied per byte", flush=True)
    if mode == BUFFERED:
        samples[way, BUFFERED][0].append(copied)
        samples[way, BUFFERED][1].append(1.0)
        return
    samples[way, "calls"][side].append(of_card)
    samples[way, "all calls"][side].append(in_all)
    samples[way, "copied"][side].append(copied)


def main() -> int:
    parser = report.parser("rdma", __doc__, rounds=5)
    parser.add_argument("--mib", type=int, default=128)
    given = parser.parse_args()
    ensure(KINDS["uml612"])
    ways = ("write", "read")
    samples: dict = {(way, what): ([], []) for way in ways for what in FIGURES}
    idle: dict = {RDMA: [], TCP: []}
    with Run() as run, tempfile.TemporaryDirectory() as folder:
        arms = Arms(run, given.mib, Path(folder))
        count_traced(arms, ways, samples)
        arms.ds.start()
        arms.ds.wait_told(rdma=True)
        for arm in idle:
            arms.one(arm, "write")  # who has connected has done so
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
    rows += [report.row(f"1 MiB {way}s, copied", *samples[way, "copied"], "bytes/byte", 0, .05)
             for way in ways]
    rows += [report.row(f"1 MiB {way}s, copied, page cache / one copy", *samples[way, BUFFERED],
                        "bytes/byte", 0, 1.05) for way in ways]
    rows += [report.row(f"1 MiB {way}s, system calls, the device's too", *samples[way, "all calls"],
                        "KiB/call") for way in ways]
    rows += [report.row(f"1 MiB {way}s, bandwidth", *samples[way, "rate"], "MiB/s") for way in ways]
    return 0 if report.publish("rdma", rows, given.results, idle) else 1


if __name__ == "__main__":
    sys.exit(main())
