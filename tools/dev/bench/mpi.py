#!/usr/bin/python3
"""MPI-Tile-IO and BT-IO: what their four processes do to a file over three servers, by fio.

    ./dev bench mpi [--rounds 3] [--rate 200mbit] [--dumps 10]

Three data servers, each with a link limited both ways to --rate; the peer is Ganesha's VFS export
with one link of three times that, and plain TCP over one server's link times three. The client of
each is a stock Linux machine, on which four processes write one file at once, and then read it:

    tile          2 x 2 tiles of 1024 x 768 elements of 32 bytes, a process each; rows of 32 KiB
                  that are 64 KiB apart, 16 of them under way
    BT-IO full    class A, collective: dumps of 10 MiB, of which each process has a quarter in one
                  piece, four of them under way
    BT-IO simple  as many bytes in pieces of 1280, as far apart, two processes in each half of the
                  file, through the client's page cache

Writing ends with fsync in all processes. Stores and the exported folder are in memory, the client's
page cache is emptied before reading, and O_DIRECT does not use it. Rates are of all bytes, by the
time of the process that takes longest. BT-IO simple has VFS alone for its target: single pieces
through the page cache do not fill links, whoever serves them. It is measured without pNFS as well,
with a mount of NFSv4.0, which informs.
"""

import json
import sys
from dataclasses import dataclass

import links
import report
from harness import servers
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import through_data_servers
from harness.network import Network
from harness.run import Run

MIB = links.MIB
SERVERS = 3
PROCESSES = 4
LEAST = 0.9  # of both peers
MDS_CALLS = 256  # a new file's first bytes, which may be for the metadata store
MOVED = {"write": "written", "read": "read"}
WEFT, VFS, WITHOUT = "Weft", "VFS", "vers=4.0"


@dataclass
class Pattern:
    """Process i begins at firsts[i]; then pieces of `piece` bytes, `skip` bytes apart."""

    firsts: tuple
    piece: int
    skip: int
    each: int  # bytes of a process
    direct: bool
    depth: int = 1

    def job(self, way: str) -> str:
        lines = ["[global]", "filename=/mnt/nfs/{name}", f"rw={way}:{self.skip}",
                 f"bs={self.piece}", f"direct={int(self.direct)}", f"iodepth={self.depth}",
                 f"ioengine={'libaio' if self.depth > 1 else 'psync'}", f"io_size={self.each}",
                 f"filesize={self.whole}", "fallocate=none", "overwrite=0", "create_on_open=1",
                 f"end_fsync={int(way == 'write')}", "invalidate=0"]
        for number, first in enumerate(self.firsts):
            lines += [f"[p{number}]", f"offset={first}", f"size={self.whole - first}"]
        return "\n".join(lines) + "\n"

    @property
    def whole(self) -> int:
        return PROCESSES * self.each


def patterns(dumps: int) -> dict:
    row, height = 1024 * 32, 768
    tile = row * height
    cells = 64 ** 3 * 5 * 8  # bytes of a dump
    run = 32 * 5 * 8
    half = dumps * cells // 2
    return {
        "tile": Pattern((0, row, 2 * tile, 2 * tile + row), row, row, tile, True, 16),
        "BT-IO full": Pattern(tuple(i * cells // 4 for i in range(4)), cells // 4, 3 * cells // 4,
                              dumps * cells // 4, True, 4),
        "BT-IO simple": Pattern((0, run, half, half + run), run, run, dumps * cells // 4, False),
    }


class Arm:
    def __init__(self, name: str, run: Run, rate: int):
        """rate: of one data server's link, in Mbit/s."""
        network = Network(run)
        self.cluster = None
        if name == VFS:
            node = network.mds()
            servers.start_vfs(run, node, in_memory=True)
            self.mounted = node.address, "/export"
            node.limit(f"{SERVERS * rate}mbit")
        else:
            self.cluster = Cluster(run, network, Options(data_servers=SERVERS,
                                                         store_in_memory=True))
            self.mounted = self.cluster.address, self.cluster.path
            for server in self.cluster.ds:
                server.node.limit(f"{rate}mbit")
            links.serve_tcp(self.cluster)
        self.client = start_client(run, network, uid=0)
        self.client.mount(*self.mounted)

    def without_pnfs(self, name: str, pattern: Pattern, way: str) -> float:
        self.client.unmount()
        self.client.mount(*self.mounted, options=WITHOUT)
        rate = self.rate(name, pattern, way, pnfs=False)
        self.client.unmount()
        self.client.mount(*self.mounted)
        return rate

    def rate(self, name: str, pattern: Pattern, way: str, pnfs: bool = True) -> float:
        """MiB/s."""
        file = name.replace(" ", "-")
        if way == "write":
            self.client.run(f"rm -f /mnt/nfs/{file}; sync")
        script = (f"weft-drop-caches\ncat >/tmp/job <<'END'\n{pattern.job(way)}END\n"
                  "fio --output-format=json --output=/tmp/fio.json /tmp/job >/dev/null || exit 1\n"
                  "cat /tmp/fio.json").replace("{name}", file)
        if self.cluster is None or not pnfs:
            output = self.client.run(script, 300).output
        else:
            with through_data_servers(self.cluster, **{MOVED[way]: pattern.whole * 9 // 10},
                                      mds_calls=MDS_CALLS):
                output = self.client.run(script, 300).output
        jobs = json.loads(output[output.index("{"):])["jobs"]
        moved = sum(job[way]["io_bytes"] for job in jobs)
        if moved != pattern.whole:
            raise RuntimeError(f"{name}, {way}: {moved} bytes of {pattern.whole}")
        return moved / MIB / max(max(job["job_runtime"], job[way]["runtime"])
                                 for job in jobs) * 1000

    def plain_tcp(self, way: str) -> float:
        """MiB/s over the links of all data servers."""
        script = links.tcp_script(self.cluster.ds[0].node.address, way, 2)
        return SERVERS * float(self.client.python(script, 60).output) / MIB


def main() -> int:
    parser = report.parser("mpi", __doc__, rounds=3)
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--dumps", type=int, default=10, help="of BT-IO; the program makes 40")
    given = parser.parse_args()
    rate = int(given.rate.removesuffix("mbit"))
    cases = {(name, way): pattern for name, pattern in patterns(given.dumps).items()
             for way in ("write", "read")}
    samples: dict = {case: {WEFT: [], VFS: [], "links": []} for case in cases}
    for case, pattern in cases.items():
        if not pattern.direct:
            samples[case][WITHOUT] = []
    idle: dict = {WEFT: [], VFS: []}
    with Run() as weft_run, Run() as vfs_run:
        arms = {WEFT: Arm(WEFT, weft_run, rate), VFS: Arm(VFS, vfs_run, rate)}
        for _ in range(given.rounds):
            limit = {way: arms[WEFT].plain_tcp(way) for way in ("write", "read")}
            for (name, way), pattern in cases.items():
                sample = samples[name, way]
                sample["links"].append(limit[way])
                for arm_name, arm in arms.items():
                    watch = report.CpuIdle()
                    sample[arm_name].append(arm.rate(name, pattern, way))
                    idle[arm_name].append(watch.stop())
                if WITHOUT in sample:
                    sample[WITHOUT].append(arms[WEFT].without_pnfs(name, pattern, way))
                print(f"{name}, {way}: " + ", ".join(f"{which} {values[-1]:.1f} MiB/s"
                                                     for which, values in sample.items()),
                      flush=True)
    rows = []
    for (name, way), sample in samples.items():
        rows.append(report.row(f"{name}, {way}s / VFS, one link", sample[WEFT], sample[VFS],
                               "MiB/s", LEAST))
        rows.append(report.row(f"{name}, {way}s / the links", sample[WEFT], sample["links"],
                               "MiB/s", LEAST if cases[name, way].direct else None))
        if WITHOUT in sample:
            rows.append(report.row(f"{name}, {way}s, {WITHOUT} / VFS, one link", sample[WITHOUT],
                                   sample[VFS], "MiB/s"))
    extra = {"mib_per_s": {f"{name}, {way}s": sample for (name, way), sample in samples.items()}}
    return 0 if report.publish("mpi", rows, given.results, idle, extra) else 1


if __name__ == "__main__":
    sys.exit(main())
