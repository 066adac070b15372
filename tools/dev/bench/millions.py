#!/usr/bin/python3
"""Ten million files: rates, memory and start with 1,000, 1 M and 10 M; a drain of 1 M objects.

    ./dev bench millions [--files 10000000] [--objects 1000000] [--rounds 3]

Takes an hour or so, and --files * 1 KiB of disk. Two systems alternate, one with 1,000 files, the
other with 1 M and then with --files. They are made by weft-meta-fill in the metadata store, by the
operation that an OPEN comes to, while nobody serves it. Rates are those of our NFSv4.1 client with
--depth requests outstanding: new files; files looked at that are in the servers' caches; files all
over, after a start with none of the store in the page cache.

Then a system with two data servers and no inline files gets --objects files of 4 KiB, written by
that client, all at the one data server. It is stopped, started with cold caches, and drained.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import loopback
import report
from harness import servers
from harness.cluster import Cluster, Options
from harness.counters import CountersUnavailable, weft
from harness.run import Run, wait_until

FEW = 1000
STEP = 1_000_000
MIB = 1 << 20
FILES_A_DIRECTORY = 1000
LEAST = 0.8         # of the rates with few files
START_S = 10        # at most, cold
MEMORY_MIB = 2048   # what docs/sizing.md says of a metadata server
DS_MEMORY_MIB = 1024
DRAIN = 1000        # objects a second
PREFIX = "fill"
BUILD = Path(os.environ["WEFT_BUILD"])
FILL = BUILD / "ganesha-fsal" / "meta" / "weft-meta-fill"


def build_filler() -> None:
    subprocess.run(["ninja", "-C", str(BUILD), "weft-meta-fill"], check=True,
                   stdout=subprocess.DEVNULL)
    servers.require(FILL)


def drop(folder: Path) -> None:
    """What is in the folder is on the disk, and not in the page cache."""
    for file in folder.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def drop_all() -> None:
    """The whole machine's caches, those of folders too."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="ascii")


def used_mib(folder: Path) -> float:
    return sum(file.stat().st_blocks for file in folder.rglob("*") if file.is_file()) * 512 / MIB


def memory_mib(pid: int, which: str = "VmRSS") -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(which + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no {which} of process {pid}")


def disk_reads(pid: int) -> int:
    """Bytes that the process had read from the disk."""
    for line in Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines():
        if line.startswith("read_bytes:"):
            return int(line.split()[1])
    raise RuntimeError(f"no read_bytes of process {pid}")


class Arm(loopback.WeftArm):
    """A metadata server with so many files, and one data server that has nothing."""

    def __init__(self, run: Run, most: int):
        super().__init__(run)
        self.directories = max(1, most // FILES_A_DIRECTORY)
        self.files = 0
        self.store = self.cluster.folder / "metadata"

    @property
    def mds(self):
        return self.cluster.mds

    def fill(self, files: int) -> None:
        """Until there are so many. The server is stopped after it."""
        self.mds.stop(60)
        begun = time.monotonic()
        subprocess.run([str(FILL), str(self.store), PREFIX, str(self.directories),
                        str(self.files), str(files)], check=True)
        print(f"{files:,} files: made in {time.monotonic() - begun:.0f} s", flush=True)
        self.files = files

    def start(self) -> float:
        """With nothing of the store in the page cache. Seconds until a client has an answer."""
        drop(self.store)
        begun = time.monotonic()
        with loopback.pinned(loopback.SERVER_CPU):
            self.mds.start()
        self.pids = [self.mds.pid, *(server.process.pid for server in self.cluster.ds)]
        wait_until(self.answers, 300, "the metadata server to answer", 0.05)
        took = time.monotonic() - begun
        self.cluster.wait_up()
        return took

    def answers(self) -> bool:
        if not self.mds.alive:
            raise RuntimeError(self.mds.log_tail())
        try:
            loopback.load(self, "names", "--file", PREFIX, "--phase", "stat", "--there", "1",
                          "--directories", "1", "--files", "1")
        except RuntimeError:
            return False
        return True

    def creates(self, number: int, given) -> dict:
        return loopback.load(self, "names", "--file", f"c{number}", "--phase", "create",
                             "--files", str(given.operations), "--directories", "32",
                             "--depth", str(given.depth), timeout_s=1800)["create"]

    def stats(self, given, *more: str) -> dict:
        return loopback.load(self, "names", "--file", PREFIX, "--phase", "stat", "--there",
                             str(self.files), "--directories", str(self.directories),
                             "--depth", str(given.depth), *more, timeout_s=1800)["stat"]

    def cached_stats(self, given) -> dict:
        """The same files over and over, once before it is timed."""
        same = ("--picked", str(FEW), "--files")
        self.stats(given, *same, str(FEW))
        return self.stats(given, *same, str(given.operations))

    def cold_stats(self, given, number: int) -> dict:
        """Of files all over, each of them once; with the KiB read from the disk for one."""
        self.mds.stop(60)
        took = self.start()
        before = disk_reads(self.mds.pid)
        found = self.stats(given, "--files", str(given.operations), "--seed", str(number))
        found["read_kib"] = (disk_reads(self.mds.pid) - before) / 1024 / given.operations
        found["start_s"] = took
        return found


KINDS = {"create": "creates/s", "stat, in the caches": "stats/s", "stat, all over, cold": "stats/s"}


class Names:
    """Rates with many files and with few, in the same rounds."""

    def __init__(self):
        self.rates: dict = {}
        self.found: dict = {}
        self.starts: dict = {}
        self.rows: list = []
        self.idle: dict = {}

    def measure(self, few: Arm, many: Arm, given) -> None:
        size = many.files
        took = many.start()
        arms = {"few": few, "many": many}
        samples = {kind: {name: [] for name in arms} for kind in KINDS}
        colds: dict = {name: [] for name in arms}
        for number in range(given.rounds):
            for name, arm in arms.items():
                rates = [arm.creates(number, given), arm.cached_stats(given),
                         arm.cold_stats(given, number)]
                for kind, one in zip(KINDS, rates):
                    samples[kind][name].append(one["ops_per_s"])
                    self.idle.setdefault(f"{arm.files:,} files", []).append(one["idle_percent"])
                colds[name].append(rates[2])
                print(f"{arm.files:,} files: " + ", ".join(
                    f"{kind} {one['ops_per_s']:.0f}" for kind, one in zip(KINDS, rates)) +
                    f", {rates[2]['read_kib']:.1f} KiB read a cold stat", flush=True)
        for kind, unit in KINDS.items():
            least = None if kind.endswith("cold") else LEAST
            self.rows.append(report.row(f"{kind}, {size:,} files / {FEW:,}", samples[kind]["many"],
                                        samples[kind]["few"], unit, least))
        starts = [took, *(one["start_s"] for one in colds["many"])]
        self.rows.append(report.row(f"start, {size:,} files / {START_S} s", starts,
                                    [START_S] * len(starts), "s", 0, 1))
        memory = memory_mib(many.mds.pid, "VmHWM")
        self.rows.append(report.row(f"metadata server's memory, {size:,} files / {MEMORY_MIB} MiB",
                                    [memory], [MEMORY_MIB], "MiB", 0, 1))
        disk = used_mib(many.store)
        self.found[size] = {"rates": samples, "cold": colds, "starts_s": starts,
                            "memory_mib": memory, "memory_mib_with_few": memory_mib(few.mds.pid),
                            "store_mib": disk, "bytes_a_file": disk * MIB / size}
        print(f"{size:,} files: {memory:.0f} MiB of memory, {disk:.0f} MiB of disk: "
              f"{disk * MIB / size:.0f} bytes a file", flush=True)


def measure_names(given) -> Names:
    names = Names()
    with Run() as few_run, Run() as many_run:
        few, many = Arm(few_run, FEW), Arm(many_run, given.files)
        few.fill(FEW)
        few.start()
        for size in sorted({min(STEP, given.files), given.files}):
            many.fill(size)
            names.measure(few, many, given)
    return names


class Objects:
    """Two data servers, all objects at the first."""

    def __init__(self, run: Run):
        network = loopback.Loopback(run)
        self.cluster = Cluster(run, network, Options(
            data_servers=2, grace_s=1, mds_port=loopback.MDS_PORT, stripe_count=1, store="folder",
            extra={"Inline": "0"}))
        self.namespace = network.namespace
        self.arguments = ["--address", self.cluster.address, "--port", str(loopback.MDS_PORT),
                          "--export", loopback.EXPORT]
        self.pids = [self.cluster.mds.pid]
        self.first = self.cluster.ds[0]

    def server(self) -> dict:
        """The first, as `weft ds list` has it; nothing while that does not answer."""
        try:
            listed = weft(self.cluster, "ds", "list", timeout_s=60)
        except CountersUnavailable:
            return {}
        return next(one for one in listed if one["name"] == self.first.name)

    def fill(self, objects: int, depth: int) -> dict:
        weft(self.cluster, "ds", "drain", self.cluster.ds[1].name)
        made = 0
        begun = time.monotonic()
        while made < objects:
            some = min(100_000, objects - made)
            loopback.load(self, "names", "--file", f"o{made}", "--phase", "files", "--keep",
                          "--files", str(some), "--directories",
                          str(max(1, some // FILES_A_DIRECTORY)), "--depth", str(depth),
                          timeout_s=3600)
            made += some
            print(f"{made:,} of {objects:,} objects, "
                  f"{made / (time.monotonic() - begun):.0f}/s", flush=True)
        weft(self.cluster, "ds", "undrain", self.cluster.ds[1].name)
        return {"files_per_s": objects / (time.monotonic() - begun)}

    def start(self) -> float:
        """Of the first data server, with cold caches: seconds until it serves again."""
        self.first.process.stop(120)
        wait_until(lambda: self.server().get("state") != "up", 60, "it to be gone", 0.2)
        drop_all()
        begun = time.monotonic()
        self.first.process.start()
        wait_until(lambda: self.server().get("state") == "up", 600, "it to be up", 0.1)
        return time.monotonic() - begun

    def drain(self, objects: int) -> dict:
        begun = time.monotonic()
        weft(self.cluster, "ds", "drain", self.first.name)
        seconds, told = 0.0, begun
        while True:
            now, at = time.monotonic(), self.server()
            moved, left = at.get("objects_moved", 0), at.get("objects_left", 1)
            if moved >= objects and not seconds:
                seconds = now - begun
            if seconds and left == 0:
                return {"moved_s": seconds, "empty_s": now - begun}
            if now - told > 10:
                told = now
                print(f"{moved:,} of {objects:,} moved, {moved / (now - begun):.0f}/s", flush=True)
            if now - begun > 600 + objects / 20:
                raise TimeoutError(f"{moved} of {objects} objects moved")
            time.sleep(0.25)


def measure_objects(given) -> tuple[list, dict, dict]:
    with Run() as run:
        arm = Objects(run)
        found = arm.fill(given.objects, given.depth)
        found["start_s"] = arm.start()
        pid = arm.first.process.pid
        found["memory_mib"] = memory_mib(pid, "VmHWM")
        watch = report.CpuIdle()
        found.update(arm.drain(given.objects))
        idle = {"drain": [watch.stop()]}
        found["memory_mib_drained"] = memory_mib(pid, "VmHWM")
        found["metadata_server_memory_mib"] = memory_mib(arm.cluster.mds.pid, "VmHWM")
    count = f"{given.objects:,} objects"
    rows = [report.row(f"start of a data server, {count} / {START_S} s", [found["start_s"]],
                       [START_S], "s", 0, 1),
            report.row(f"data server's memory, {count} / {DS_MEMORY_MIB} MiB",
                       [found["memory_mib_drained"]], [DS_MEMORY_MIB], "MiB", 0, 1),
            report.row(f"metadata server's memory, drain of {count} / {MEMORY_MIB} MiB",
                       [found["metadata_server_memory_mib"]], [MEMORY_MIB], "MiB", 0, 1),
            report.row(f"drain, {count} / {DRAIN} a second",
                       [given.objects / found["moved_s"]], [DRAIN], "objects/s", 1.0)]
    return rows, found, idle


def main() -> int:
    parser = report.parser("millions", __doc__, rounds=3)
    parser.add_argument("--files", type=int, default=10 * STEP)
    parser.add_argument("--objects", type=int, default=STEP)
    parser.add_argument("--operations", type=int, default=20_000, help="of each rate")
    parser.add_argument("--depth", type=int, default=32, help="requests outstanding")
    parser.add_argument("--only", choices=("names", "objects"), help="half of it")
    given = parser.parse_args()
    build_filler()
    rows, idle, extra = [], {}, {}
    if given.only != "objects":
        names = measure_names(given)
        rows, idle, extra = names.rows, names.idle, {"files": names.found}
    if given.only != "names":
        more, found, of_drain = measure_objects(given)
        rows, idle = rows + more, {**idle, **of_drain}
        extra["objects"] = found
    return 0 if report.publish("millions", rows, given.results, idle, extra) else 1


if __name__ == "__main__":
    sys.exit(main())
