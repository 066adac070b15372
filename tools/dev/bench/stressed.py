"""Clusters of pairs of data servers, each with a link, a share of the processors and a disk of its
own, and stress of these; for `./dev bench scheduling` and `stress`. Imported before anything of the
harness.
"""

import subprocess
import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager

import links
from harness import counters
from harness.cluster import Cluster, Options
from harness.disks import limit_writes
from harness.network import Network, bits_per_second
from harness.run import Run, wait_until

MACHINES = 4  # of writers
BLOCK = "256KiB"
STRESS_PART = 0.75
CPU_PERCENT = 10
SPINNERS = 32
APPENDERS = {"disk": 24, "both": 8}
MEMORY_LEFT = 16 << 20  # of a group that is stressed

NO_LIMIT = 1 << 40  # bytes a second: who is told so of a resource does not choose by it
# What leaders are chosen by: of a network and a disk, whether a data server is told what it gives.
CHOOSERS = {"by load": (True, True), "disk alone": (False, True), "network alone": (True, False),
            "not by load": (True, True)}

SPIN = "while :; do :; done"
HOG = """
import mmap, sys, time
open("/proc/self/oom_score_adj", "w").write("-1000")
held = mmap.mmap(-1, int(sys.argv[1]), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(0, len(held), 4096):
    held[page] = 1
print("held", flush=True)
time.sleep(1e6)
"""
APPEND = """
import os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_DSYNC | os.O_TRUNC)
while True:
    if os.write(fd, bytes(1 << 20)) and os.fstat(fd).st_size >= 64 << 20:
        os.ftruncate(fd, 0)
        os.lseek(fd, 0, os.SEEK_SET)
"""


@contextmanager
def running(commands: list):
    """Commands as long as the context lasts."""
    started = []
    try:
        for command in commands:
            started.append(subprocess.Popen(command, stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL))
        yield started
    finally:
        for one in started:
            one.kill()
            one.wait()
            one.stdout.close()


@contextmanager
def cpu_stress(server):
    with running([[*server.cgroup.join_command(), "/bin/sh", "-c", SPIN]] * SPINNERS):
        yield


@contextmanager
def appending(server, count: int):
    """So many programs append to the server's disk, a MiB at a time, each of them synced."""
    files = [server.store / f"append{number}" for number in range(count)]
    with running([[links.PYTHON, "-c", APPEND, str(file)] for file in files]):
        yield
    for file in files:
        file.unlink(missing_ok=True)


@contextmanager
def without_memory(server):
    """All but MEMORY_LEFT of its group's memory is held by another program."""
    memory = {row.split()[0]: int(row.split()[1])
              for row in (server.cgroup.folder / "memory.stat").read_text().splitlines()}
    used = int((server.cgroup.folder / "memory.current").read_text())
    held = used - memory["active_file"] - memory["inactive_file"]
    limit = int((server.cgroup.folder / "memory.max").read_text())
    hog = [*server.cgroup.join_command(), links.PYTHON, "-c", HOG,
           str(limit - held - MEMORY_LEFT)]
    with running([hog]) as started:
        started[0].stdout.readline()
        yield


class Arm:
    """A cluster with its writers' machines. `stressed`: the first copy of pair one, its partner,
    and the first copy of pair two, in the files that are written."""

    WRITERS = 16
    PAIRS = 2
    DISK_LINKS = 1.0  # what a disk takes, of what a link brings
    MEMORY = 512 << 20  # of each data server
    STORE = ""  # more lines of [store]

    def __init__(self, run: Run, chooser: str, given):
        self.given = given
        self.by_load = chooser != "not by load"
        self.network = Network(run)
        link = bits_per_second(given.rate) // 8
        disk = int(self.DISK_LINKS * link)
        network, store = (gives if told else NO_LIMIT
                          for gives, told in zip((link, disk), CHOOSERS[chooser]))
        self.cluster = Cluster(run, self.network, Options(
            data_servers=2 * self.PAIRS, by_load=self.by_load, domains=("a", "b"), cgroups=True,
            store_mib=1024, store_options=self.STORE, stripe_unit=256 << 10,
            extra={"Copies": "2", "Duplication": "server-async"},
            tables=lambda _: f"net_max = {network}\ndisk_max = {store}\n\n[mirror]\n"
                             'window = "192MiB"\nwindow_seconds = 60\ntimeout_seconds = 60\n'))
        self.nodes = [self.network.program(number + 1) for number in range(MACHINES)]
        links.serve_tcp(self.cluster, links.STRESS_PORT)
        for server in self.cluster.ds:
            server.node.limit_shared(given.rate, links.STRESS_PORT, STRESS_PART)
            server.cgroup.limit_cpu(CPU_PERCENT)
            server.cgroup.limit_memory(self.MEMORY)
            limit_writes(server.store, disk)
        run.on_close(self._unlimit)
        self.files = self._files()
        self.alone = {} if self.by_load else self._files_alone()

    def _unlimit(self) -> None:
        """So that what ends does so at once."""
        for server in self.cluster.ds:
            limit_writes(server.store, 0)
            server.cgroup.limit_cpu(100)

    def _make(self, name: str) -> list[list[str]]:
        """A file of one block; the names of the data servers of each stripe, first copy first."""
        links.results([links.generate(self.cluster, self.nodes[0], "--op", "write", "--size",
                                      "1MiB", "--block", BLOCK, "--seconds", "0", "--keep",
                                      "--file", name)], 60)
        shown = counters.weft(self.cluster, "layout", "show", f"{self.cluster.path}/{name}")
        return [[copy["ds_name"] for copy in stripe["copies"] or [stripe]]
                for stripe in shown["stripes"]]

    def _files(self) -> list[str]:
        alike = defaultdict(list)
        for number in range(8 * self.WRITERS):
            stripes = sorted(self._make(f"f{number}"), key=sorted)
            alike[tuple(tuple(stripe) for stripe in stripes)].append(f"f{number}")
            chosen, names = max(alike.items(), key=lambda item: len(item[1]))
            if len(names) == self.WRITERS:
                by_name = {server.name: server for server in self.cluster.ds}
                self.stressed = [by_name[chosen[0][0]], by_name[chosen[0][1]],
                                 by_name[chosen[1][0]]]
                return names
        raise RuntimeError("too few files have the same first copies")

    def _files_alone(self) -> dict[str, list[str]]:
        """For the first copies files with one copy, on it alone; one for each writer."""
        links.policy(self.cluster, "", "copies=1", "stripes=1")
        found: dict[str, list[str]] = {server.name: [] for server in self.cluster.ds}
        first, _, other = self.stressed
        for number in range(4 * self.WRITERS * len(self.cluster.ds)):
            name = f"alone{number}"
            found[self._make(name)[0][0]].append(name)
            if all(len(found[server.name]) >= self.WRITERS for server in (first, other)):
                links.policy(self.cluster, "", "stripes=all")
                return found
        raise RuntimeError("files of one copy are not spread over all data servers")

    @contextmanager
    def stress(self, case: str):
        first, partner, other = self.stressed
        with ExitStack() as stack:
            if case in ("cpu", "mixed"):
                stack.enter_context(cpu_stress(first))
            if case in ("disk", "both"):
                stack.enter_context(without_memory(first))
                stack.enter_context(appending(first, APPENDERS[case]))
            flooded = {"network": [first], "mixed": [other], "pair": [first, partner],
                       "both": [partner]}.get(case, [])
            # Waits until data servers have reported their loads, whatever they are. One that has
            # no processor time to spare is late with its heartbeats.
            stack.enter_context(links.Streams(self.network, [server.node for server in flooded],
                                              "write", each=4))
            if case in ("cpu", "mixed"):
                wait_until(lambda: self._said_busy(first), 30, "a report of busy processors", 0.2)
            yield

    def _said_busy(self, server) -> bool:
        said = next(one for one in counters.weft(self.cluster, "ds", "list")
                    if one["name"] == server.name)
        return said["cpu_busy_permille"] >= 990 and said["run_queue_milli"] > 2000

    def write(self, case: str) -> float:
        """MiB/s that are acknowledged. What is owed is brought to its copies without stress."""
        if case != "pair":
            return self._write(case, self.files, "--depth", "2", "--keep")
        links.policy(self.cluster, "", "duplication=server-sync")
        try:
            names = [f"new{time.monotonic_ns()}-{number}" for number in range(self.WRITERS)]
            return self._write(case, names, "--depth", "2")
        finally:
            links.policy(self.cluster, "", "stripes=all")

    def alone_rate(self, server, case: str) -> float:
        """MiB/s of as many writers to files with one copy on this data server. As many of their
        writes are at it as are when files are over two."""
        return self._write(case, self.alone[server.name][:self.WRITERS], "--depth", "1", "--keep")

    def _write(self, case: str, names: list[str], *words: str) -> float:
        with self.stress(case):
            start = time.time() + 2
            jobs = [links.generate(self.cluster, self.nodes[number % MACHINES], "--op", "write",
                                   "--block", BLOCK, "--size", "64MiB", "--no-prepare", "--seconds",
                                   str(self.given.seconds), "--start-at", str(start), "--file",
                                   name, *words) for number, name in enumerate(names)]
            # Stress goes on for a third longer, while what is under way is answered.
            limit = start + self.given.seconds * 4 / 3
            while time.time() < limit and any(job.poll() is None for job in jobs):
                time.sleep(0.05)
        return sum(one["mib_per_s"] for one in links.results(jobs, 180))
