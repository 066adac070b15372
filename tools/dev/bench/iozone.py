#!/usr/bin/python3
"""The lpNFS paper's table: IOzone's threads and IOR's processes over 2 and 4 data servers.

    ./dev bench iozone [--rounds 3] [--rate 200mbit] [--disk 12MiB] [--threads 1,4,16] [--mib 768]

A kernel client (User-mode Linux), its own link unlimited, writes and reads files in records of
16 MiB through its page cache, a file for each thread; all files together are longer than its
memory. It does so with IOzone, if this machine has it in its PATH, and otherwise with fio, which
is told to do what IOzone does: so many processes, each with a file of its own from the start to
the end, fsync and close counted, the rate by the one that takes longest.

    reads     links of --rate, objects in memory; beside plain TCP over one link, times the servers
    writes    every data server's disk takes --disk a second (emulated, without seeks); beside what
              the disks take, which is less than the links do
    IOR       4 servers with such disks: four processes write 16 MiB records, each a file of its
              own, or one file together, each its own quarter
"""

import json
import re
import shutil
import sys
from pathlib import Path

import emulated
import links
import report
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import through_data_servers
from harness.network import Network, bits_per_second
from harness.run import Run

MIB = links.MIB
SERVERS = (2, 4)
RECORD_MIB = 16
PROCESSES = 4  # of IOR
CLIENT_MIB = 512
READ_AHEAD_MIB = 2  # for each data server
READ_AHEAD_PART = 32  # of the client's memory, for all threads together
LIMIT_S = 600
READS, WRITES, IOR = 0.97, 0.95, 0.85  # least ratios

# Of all threads, by the longest time; without a thread that ends stopping the others (-x).
IOZONE = ("iozone -x -w -c -e -+n -t {threads} -s {mib}m -r {record}m -i {test} -F {files}")
PARENT = re.compile(r"Parent sees throughput for +\d+ (?:initial writers|readers)\s+=\s*([\d.]+)")
FIO = """fio --output-format=json --output=/tmp/fio.json --rw={way} --bs={record}M --size={mib}M \\
  --numjobs={threads} {where} --ioengine=psync --fallocate=none --end_fsync={fsync} \\
  --invalidate=0 --group_reporting --name=z >/dev/null || exit 1
cat /tmp/fio.json"""
OWN_FILES = "--filename_format='z.$jobnum'"


class Arm:
    """A system with so many data servers. With a disk its objects are on disks, not in memory."""

    def __init__(self, run: Run, servers: int, rate: str, disk: int = 0):
        network = Network(run)
        options = Options(data_servers=servers, extra={"Inline": "0"})
        if disk:
            slow = emulated.Disk(rate=disk, seek=0, rotation=0, capacity=1 << 40, memory=64 * MIB)
            self.cluster = emulated.EmulatedCluster(run, network, options, slow)
        else:
            options.store_in_memory = True
            self.cluster = Cluster(run, network, options)
        for server in self.cluster.ds:
            server.node.limit(rate)
        links.serve_tcp(self.cluster)
        self.client = start_client(run, network, uid=0, memory_mib=CLIENT_MIB)
        self.client.mount(self.cluster.address, self.cluster.path)
        self.iozone = shutil.which("iozone")
        if self.iozone:
            self.client.install(Path(self.iozone))

    def plain_tcp(self, way: str) -> float:
        """MiB/s over the links of all data servers."""
        script = links.tcp_script(self.cluster.ds[0].node.address, way, 2)
        return len(self.cluster.ds) * float(self.client.python(script, 60).output) / MIB

    def threads(self, way: str, threads: int, mib: int) -> float:
        """MiB/s of so many threads, with a file each, of `mib` in all."""
        self._read_ahead(threads)
        each = mib // threads // RECORD_MIB * RECORD_MIB
        if not self.iozone:
            return self._fio(way, threads, each, OWN_FILES)
        files = " ".join(f"z.{number}" for number in range(threads))
        script = IOZONE.format(threads=threads, mib=each, record=RECORD_MIB, files=files,
                               test=0 if way == "write" else 1)
        output = self._run(way, script, threads * each)
        return float(PARENT.search(output).group(1)) / 1024

    def _read_ahead(self, threads: int) -> None:
        """As docs/clients.md says: enough for one thread to keep all servers busy, and no more than
        the client can keep until it is read."""
        mib = min(READ_AHEAD_MIB * len(self.cluster.ds), CLIENT_MIB / READ_AHEAD_PART / threads)
        self.client.run(f"echo {int(mib * 1024)} > "
                        "/sys/class/bdi/$(mountpoint -d /mnt/nfs)/read_ahead_kb", root=True)

    def shared(self, mib: int) -> float:
        each = mib // PROCESSES // RECORD_MIB * RECORD_MIB
        return self._fio("write", PROCESSES, each, f"--filename=z.all --offset_increment={each}M")

    def separate(self, mib: int) -> float:
        return self._fio("write", PROCESSES, mib // PROCESSES // RECORD_MIB * RECORD_MIB, OWN_FILES)

    def _fio(self, way: str, threads: int, each: int, where: str) -> float:
        output = self._run(way, FIO.format(way=way, record=RECORD_MIB, mib=each, threads=threads,
                                           where=where, fsync=int(way == "write")),
                           threads * each)
        job = json.loads(output[output.index("{"):])["jobs"][0]
        # The runtime of one that writes does not hold its fsync; that of the job does.
        milliseconds = max(job["job_runtime"] / threads, job[way]["runtime"])
        return job[way]["io_bytes"] / MIB / milliseconds * 1000

    def _run(self, way: str, script: str, mib: int) -> str:
        clean = "rm -f z.*; sync" if way == "write" else "weft-drop-caches"
        with through_data_servers(self.cluster, **{"read" if way == "read" else "written":
                                                   mib * MIB * 9 // 10}):
            return self.client.run(f"cd /mnt/nfs || exit 1\n{clean}\n{script}", LIMIT_S).output


def measure(servers: int, given, idle: dict) -> list:
    rows = []
    with Run() as run:
        arm = Arm(run, servers, given.rate)
        for threads in given.threads:
            ours, peer = [], []
            for _ in range(given.rounds):
                arm.threads("write", threads, given.mib)
                peer.append(arm.plain_tcp("read"))
                watch = report.CpuIdle()
                ours.append(arm.threads("read", threads, given.mib))
                idle["reads"].append(watch.stop())
                print(f"{servers} servers, {threads} threads read {ours[-1]:.1f} MiB/s, plain TCP "
                      f"{peer[-1]:.1f}", flush=True)
            rows.append(report.row(f"{servers} servers, {threads} threads, reads / the links", ours,
                                   peer, "MiB/s", READS))
    with Run() as run:
        arm = Arm(run, servers, given.rate, given.disk)
        disks = servers * given.disk / MIB
        cases = {f"{threads} threads": (lambda threads=threads:
                                        arm.threads("write", threads, given.mib), WRITES)
                 for threads in given.threads}
        if servers == max(SERVERS):
            cases |= {"IOR, a file each": (lambda: arm.separate(given.mib), IOR),
                      "IOR, one file": (lambda: arm.shared(given.mib), IOR)}
        for name, (write, least) in cases.items():
            ours = []
            for _ in range(given.rounds):
                watch = report.CpuIdle()
                ours.append(write())
                idle["writes"].append(watch.stop())
                print(f"{servers} servers, {name} write {ours[-1]:.1f} MiB/s, the disks "
                      f"{disks:.1f}", flush=True)
            rows.append(report.row(f"{servers} servers, {name}, writes / the disks", ours,
                                   [disks] * given.rounds, "MiB/s", least))
    return rows


def main() -> int:
    parser = report.parser("iozone", __doc__, rounds=3)
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--disk", default="12MiB", type=lambda text:
                        int(float(text.removesuffix("MiB")) * MIB))
    parser.add_argument("--threads", default="1,4,16", type=lambda text:
                        [int(word) for word in text.split(",")])
    parser.add_argument("--mib", type=int, default=768, help="of all files together")
    given = parser.parse_args()
    if given.mib // max(given.threads) < RECORD_MIB:
        parser.error(f"--mib is less than {RECORD_MIB} for each thread")
    if given.disk >= bits_per_second(given.rate) // 8:
        parser.error("--disk is no less than a link takes")
    idle: dict = {"reads": [], "writes": []}
    rows = [row for servers in SERVERS for row in measure(servers, given, idle)]
    engine = "IOzone" if shutil.which("iozone") else "fio"
    print(f"by {engine}")
    return 0 if report.publish("iozone", rows, given.results, idle, {"by": engine}) else 1


if __name__ == "__main__":
    sys.exit(main())
