#!/usr/bin/python3
"""A stock client by RDMA and by TCP: the data server's own processor time for what it moves.

    ./dev bench rdma [--rounds 5] [--mib 192]

A data server runs in a Linux 6.12 machine that has RDMA by software (Soft-RoCE), with its objects
in memory. Two more such machines are its clients, one with a device, which comes by RDMA, and one
without, which comes by TCP. They read and write a file in turn, 1 MiB at a time with O_DIRECT,
over and over.

The figures are GiB per second of weft-ds in user mode, as the host counts it, and KiB per system
call of it, counted by strace in a run of their own, which is slower. What the kernel does for
Soft-RoCE is the work of a card, and is not in it. Bandwidth stands beside it without a target: here
it says how fast Soft-RoCE is between machines that share two processors, and nothing about a card.
"""

import sys

import links
import report
from harness.cluster import Cluster, Options
from harness.images import KINDS, ensure
from harness.network import Network
from harness.rdma import RdmaDataServer, start_machines
from harness.run import Run, wait_until

MIB = links.MIB
GIB = 1 << 30
LIMIT_S = 600
LEAST_S = 0.1  # of ticks of 10 ms
TRACED_MIB = 64
JOB = ("set -e\ncd /mnt/nfs\nfio --name=b --filename={name} --rw={way} --bs=1M --size={mib}M "
       "--direct=1 --ioengine=libaio --iodepth=4 --fallocate=none --overwrite=1 --loops={loops} "
       "--minimal "
       "> /tmp/fio.log || {{ cat /tmp/fio.log; exit 1; }}\n"
       "cut -d';' -f{field} /tmp/fio.log")
FIELDS = {"read": 7, "write": 48}  # of fio's terse output: KiB/s
RDMA, TCP = "RDMA", "TCP"
LOOPS = {RDMA: 6, TCP: 40}  # over a file: so that the clock resolves what either costs


class Arms:
    def __init__(self, run: Run, mib: int):
        self.mib = mib
        network = Network(run)
        self.cluster = Cluster(run, network, Options(data_servers=0, extra={"Inline": "0"}))
        self.home, by_rdma, by_tcp = start_machines(run, network, "uml612", 3)
        self.home.add_device()
        by_rdma.add_device()
        self.ds = RdmaDataServer(run, self.cluster, self.home)
        self.ds.start()
        self.ds.wait_told(rdma=True)
        self.clients = {RDMA: by_rdma, TCP: by_tcp}
        for client in self.clients.values():
            client.mount(self.cluster.address, self.cluster.path)

    def one(self, arm: str, way: str) -> tuple[float, float]:
        """GiB for a second of the data server in user mode, and MiB a second."""
        moved, before = sum(self.ds.moved()), self.home.user_seconds()
        done = self.clients[arm].run(
            JOB.format(name=arm, way=way, mib=self.mib, loops=LOOPS[arm], field=FIELDS[way]),
            LIMIT_S)
        # No other process of the machine does as much.
        used = max(spent - before.get(pid, 0) for pid, spent in self.home.user_seconds().items())
        moved = sum(self.ds.moved()) - moved
        if (moved >= LOOPS[arm] * self.mib * MIB) != (arm == RDMA):
            raise RuntimeError(f"{arm}: {moved} bytes went by RDMA")
        if used < LEAST_S:
            raise RuntimeError(f"{arm}: {used:.2f} s is too short for the clock: a greater --mib")
        return LOOPS[arm] * self.mib * MIB / GIB / used, int(done.output.split()[-1]) / 1024

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
        total = self.home.run("tail -n 1 /tmp/calls", root=True).output.split()
        return TRACED_MIB * MIB / 1024 / int(total[3])


def main() -> int:
    parser = report.parser("rdma", __doc__, rounds=5)
    parser.add_argument("--mib", type=int, default=192)
    given = parser.parse_args()
    ensure(KINDS["uml612"])
    ways = ("write", "read")
    samples: dict = {(way, what): ([], []) for way in ways for what in ("cpu", "rate", "calls")}
    idle: dict = {RDMA: [], TCP: []}
    with Run() as run:
        arms = Arms(run, given.mib)
        for arm in idle:
            arms.one(arm, "write")  # makes the files
        for way in ways:
            for _ in range(2):
                for side, arm in enumerate(idle):
                    samples[way, "calls"][side].append(arms.per_call(arm, way))
                    print(f"{way:5} {arm:4} {samples[way, 'calls'][side][-1]:.0f} KiB/system call",
                          flush=True)
        for number in range(given.rounds):
            for way in ways:
                for side, arm in enumerate(idle):
                    watch = report.CpuIdle()
                    cpu, rate = arms.one(arm, way)
                    idle[arm].append(watch.stop())
                    samples[way, "cpu"][side].append(cpu)
                    samples[way, "rate"][side].append(rate)
                    print(f"{way:5} {arm:4} {cpu:6.2f} GiB/CPU s {rate:6.0f} MiB/s", flush=True)
            print(f"round {number + 1} of {given.rounds} done", flush=True)
    rows = [report.row(f"1 MiB {way}s, user time", *samples[way, "cpu"], "GiB/CPU s", 1.0)
            for way in ways]
    rows += [report.row(f"1 MiB {way}s, system calls", *samples[way, "calls"], "KiB/call", 1.0)
             for way in ways]
    rows += [report.row(f"1 MiB {way}s, bandwidth", *samples[way, "rate"], "MiB/s") for way in ways]
    return 0 if report.publish("rdma", rows, given.results, idle) else 1


if __name__ == "__main__":
    sys.exit(main())
