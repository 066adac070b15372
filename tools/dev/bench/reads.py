#!/usr/bin/python3
"""Doubled reads: one kernel client reads a file of two copies from both at once, and from one.

    ./dev bench reads [--rounds 7] [--seconds 6] [--rate 200mbit] [--pairs 2]

The client is User-mode Linux pinned to one processor, its own link unlimited; each data server's
link is limited both ways. Two folders have policies of their own: in one, layouts for reading name
all copies (reads=all), in the other one copy (reads=one). The rows compare the two, and each with
plain TCP over as many links as it can use. I/O is O_DIRECT, 8 jobs in 4 MiB blocks, each in its own
part of 64 MiB of one file that is in the servers' memory. With a file for each job there would be
nothing to see: those with one copy are spread over all servers too.

Then streams take three quarters of the links of all data servers of one failure domain, which is
one copy of every file, and both copies are read again, beside reads without them. At last they come
while both copies are being read, by jobs that have the file open all the while: what is read 10 s
later is compared with what the copies without streams can give, which is what reads=one reads.
"""

import json
import sys
import time

import links
import report
from harness import counters
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import through_data_servers
from harness.network import Network, bits_per_second
from harness.run import Run

FIO = """cd /mnt/nfs/{folder} && fio --name=s --filename=s --rw={way} --bs=4M --size=64M \\
  --numjobs={jobs} --offset_increment=64M --direct=1 --ioengine=psync {how} --group_reporting \\
  --output-format=json --output=/tmp/fio.json >/dev/null || exit 1
cat /tmp/fio.json"""
JOBS = 8
STRESS_PART = 0.75
BEFORE_S = 2  # that long readers read before there are streams
MOVED_S = 10  # after which they have to have moved
ARMS = ("all", "one")


class Bench:
    def __init__(self, run, given):
        self.given = given
        self.network = Network(run)
        self.cluster = Cluster(run, self.network, Options(
            data_servers=2 * given.pairs, by_load=True, domains=("a", "b"),
            extra={"Copies": "2"}, cgroups=True,
            tables=lambda _: f"net_max = {bits_per_second(given.rate) // 8}\n"))
        self.client = start_client(run, self.network, uid=0)
        self.client.mount(self.cluster.address, self.cluster.path)
        links.serve_tcp(self.cluster)
        links.serve_tcp(self.cluster, links.STRESS_PORT)
        for server in self.cluster.ds:
            server.node.limit_shared(given.rate, links.STRESS_PORT, STRESS_PART)
        for arm in ARMS:
            self.client.run(f"mkdir /mnt/nfs/{arm}")
            links.policy(self.cluster, arm, f"reads={arm}")
            time.sleep(links.HEARTBEATS_S)
            self.fio(arm, "write", "--end_fsync=1")
            self.check_placed(arm)

    def check_placed(self, arm: str) -> None:
        """The file is over all pairs: placement leaves a pair out while the arm that was written
        before is in the loads, and then the arms do not have the same links."""
        shown = counters.weft(self.cluster, "layout", "show", f"{self.cluster.path}/{arm}/s")
        servers = {copy["ds_name"] for stripe in shown["stripes"] for copy in stripe["copies"]}
        if len(servers) != len(self.cluster.ds):
            raise RuntimeError(f"{arm}/s is at {sorted(servers)} only, the group left out: "
                               f"{shown['skipped'] or 'none'}")

    def fio(self, folder: str, way: str, how: str) -> dict:
        job = self.client.start_job(FIO.format(folder=folder, way=way, jobs=JOBS, how=how))
        return self.result_of(job)

    @staticmethod
    def result_of(job) -> dict:
        output = job.wait(180).output
        return json.loads(output[output.index("{"):])["jobs"][0]

    def read(self, folder: str) -> float:
        """MiB/s. Whatever was read before is out of the loads that data servers report."""
        time.sleep(links.HEARTBEATS_S)
        with through_data_servers(self.cluster):
            job = self.fio(folder, "read", f"--time_based --runtime={self.given.seconds}")
        return self.rate_of(job)

    @staticmethod
    def rate_of(job: dict) -> float:
        return job["read"]["io_bytes"] / (job["job_runtime"] / JOBS / 1000) / links.MIB

    def read_on(self, streams: links.Streams) -> float:
        """MiB/s of jobs that read before the streams come, from MOVED_S after that on."""
        time.sleep(links.HEARTBEATS_S)
        with through_data_servers(self.cluster):
            job = self.client.start_job(FIO.format(
                folder="all", way="read", jobs=JOBS, how="--time_based "
                f"--ramp_time={BEFORE_S + MOVED_S} --runtime={self.given.seconds}"))
            time.sleep(BEFORE_S)
            with streams:
                return self.rate_of(self.result_of(job))

    def tcp(self) -> float:
        script = links.tcp_script(self.cluster.ds[0].node.address, "read",
                                  max(2, self.given.seconds // 2))
        return float(self.client.python(script, 60).output) / links.MIB


def measure(bench: Bench, given, idle: dict) -> list:
    rates: dict = {arm: [] for arm in ARMS}
    tcp: list = []
    for number in range(given.rounds):
        tcp.append(bench.tcp())
        for arm in ARMS:
            watch = report.CpuIdle()
            rates[arm].append(bench.read(arm))
            idle[f"reads={arm}"].append(watch.stop())
        print(f"round {number + 1}: both copies {rates['all'][-1]:.1f} MiB/s, one "
              f"{rates['one'][-1]:.1f}, plain TCP over a link {tcp[-1]:.1f}", flush=True)
    calm, stressed = [], []
    domain_b = [server.node for server in bench.cluster.ds[1::2]]
    for number in range(max(2, given.rounds // 2)):
        calm.append(bench.read("all"))
        watch = report.CpuIdle()
        with links.Streams(bench.network, domain_b, "read"):
            stressed.append(bench.read("all"))
        idle["one copy's links stressed"].append(watch.stop())
        print(f"stress {number + 1}: {stressed[-1]:.1f} MiB/s, without {calm[-1]:.1f}", flush=True)
    moved, idle_copies = [], []
    for number in range(max(2, given.rounds // 2)):
        idle_copies.append(bench.read("one"))
        watch = report.CpuIdle()
        moved.append(bench.read_on(links.Streams(bench.network, domain_b, "read")))
        idle["streams come in the middle"].append(watch.stop())
        print(f"middle {number + 1}: {moved[-1]:.1f} MiB/s, the idle copies alone "
              f"{idle_copies[-1]:.1f}", flush=True)
    return [
        report.row("reads of both copies / of one", rates["all"], rates["one"], "MiB/s", 1.9),
        report.row(f"both copies / plain TCP, {2 * given.pairs} links", rates["all"],
                   [2 * given.pairs * rate for rate in tcp], "MiB/s"),
        report.row(f"one copy / plain TCP, {given.pairs} links", rates["one"],
                   [given.pairs * rate for rate in tcp], "MiB/s"),
        report.row("one copy's links stressed / not", stressed, calm, "MiB/s", 0.5),
        report.row("long readers when one copy's links become busy / the idle copies", moved,
                   idle_copies, "MiB/s", 0.85),
    ]


def main() -> int:
    parser = report.parser("reads", __doc__, rounds=7, seconds=6)
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--pairs", type=int, default=2)
    given = parser.parse_args()
    idle: dict = {f"reads={arm}": [] for arm in ARMS}
    idle |= {"one copy's links stressed": [], "streams come in the middle": []}
    with Run() as run:
        rows = measure(Bench(run, given), given, idle)
    return 0 if report.publish("reads", rows, given.results, idle) else 1


if __name__ == "__main__":
    sys.exit(main())
