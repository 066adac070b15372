#!/usr/bin/python3
"""Resync: a data server of a pair is away for 30 s under writes; how fast, how much, at whose cost.

    ./dev bench resync [--rounds 3] [--away 30] [--rate 300mbit]

Two data servers with a copy each of eight files, links limited both ways; a kernel client
(User-mode Linux, its link unlimited) writes random blocks of 1 MiB, O_DIRECT, four at a time. The
one that does not lead is killed, started again after 30 s, and gets what it missed while writing
goes on. Two arms alternate:

    quick    no Resync_Rate; the application writes a tenth of what the link takes. How much of the
             link does the resync use, and what does the application keep?
    gentle   Resync_Rate at a fifth of the link; the application writes as fast as it can. What
             does it keep?

What changed is the distinct bytes that were written while the copy was stale; what was moved is
what one data server fetched from the other, and the checksums that were compared. The link is what
plain TCP moves over it.
"""

import json
import sys
import time
from pathlib import Path

import links
import report
from harness import counters
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.network import Network, bits_per_second
from harness.run import Run, wait_until

FILES = 8
SUM_BYTES = 16 / 4096  # of a byte that is compared
PHASES = ("with both", "away", "resync")
LOAD = """#!/usr/bin/python3
import json, mmap, os, random, threading, time
MIB, WIDTH, LIMIT, FILES = 1 << 20, {width} << 20, {limit}, {files}
lock = threading.Lock()
counted = dict()
stop = False
serial = 0
due = time.monotonic()

def phase():
    try:
        return open("/tmp/phase").read()
    except OSError:
        return ""

def take(pick):
    global due, serial
    with lock:
        serial += 1
        wait = 0
        if LIMIT:
            due = max(due, time.monotonic() - 1) + MIB / LIMIT
            wait = due - time.monotonic()
        number = serial
    if wait > 0:
        time.sleep(wait)
    return pick.randrange(FILES), pick.randrange(WIDTH // MIB), number

def work(seed):
    pick = random.Random(seed)
    buffer = mmap.mmap(-1, MIB)
    opened = [os.open(f"/mnt/nfs/f{{n}}", os.O_RDWR | os.O_DIRECT) for n in range(FILES)]
    while not stop:
        file, block, number = take(pick)
        buffer[:] = number.to_bytes(8, "little") * (MIB // 8)
        os.pwrite(opened[file], buffer, block * MIB)
        now, name = time.monotonic(), phase()
        with lock:
            row = counted.setdefault(name, dict(begun=now, bytes=0, blocks=set()))
            row["ended"] = now
            row["bytes"] += MIB
            row["blocks"].add((file, block))
    for fd in opened:
        os.close(fd)

threads = [threading.Thread(target=work, args=({seed} * 100 + n,)) for n in range(4)]
for one in threads:
    one.start()
os.system("weft-signal writing")
while phase() != "stop":
    time.sleep(0.1)
stop = True
for one in threads:
    one.join()
print(json.dumps(dict((name, dict(bytes=row["bytes"], seconds=row["ended"] - row["begun"],
                                  distinct=len(row["blocks"]) * MIB))
                      for name, row in counted.items())))
"""


class Arm:
    """A cluster and a client. width: MiB of each file; limit: bytes a second, 0 for none."""

    def __init__(self, run: Run, given, resync_mib: int, width: int, limit: int):
        self.given, self.width, self.limit = given, width, limit
        network = Network(run)
        self.cluster = Cluster(run, network, Options(
            data_servers=2, by_load=True, domains=("a", "b"), cgroups=True, store_in_memory=True,
            stripe_count=1, extra={"Copies": "2", "Resync_Rate": str(resync_mib)},
            tables=lambda _: f"net_max = {bits_per_second(given.rate) // 8}\n"))
        for server in self.cluster.ds:
            server.node.limit(given.rate)
        links.serve_tcp(self.cluster)
        self.client = start_client(run, network, uid=0)
        self.client.mount(self.cluster.address, self.cluster.path)
        self.client.run(f"for n in $(seq 0 {FILES - 1}); do dd if=/dev/zero of=/mnt/nfs/f$n bs=1M "
                        f"count={width} oflag=direct status=none || exit 1; done", 180)

    def status(self) -> dict:
        return counters.weft(self.cluster, "status")

    def phase(self, name: str) -> None:
        self.client.run(f"printf '{name}' > /tmp/phase.new; mv /tmp/phase.new /tmp/phase")

    def follower(self):
        """The data server that leads no file."""
        shown = counters.weft(self.cluster, "layout", "show", f"{self.cluster.path}/f0")
        leader = next(copy["ds_name"] for copy in shown["stripes"][0]["copies"] if copy["leads"])
        return next(server for server in self.cluster.ds if server.name != leader)

    def repairing(self) -> bool:
        return any(server["repairs"] for server in counters.weft(self.cluster, "ds", "list"))

    def round(self, number: int) -> dict:
        before = self.status()
        self.phase("start")
        job = self.client.start_job(LOAD.format(width=self.width, limit=self.limit, files=FILES,
                                                seed=number + 1))
        self.client.wait_event("writing")
        time.sleep(links.HEARTBEATS_S)
        self.phase("with both")
        time.sleep(self.given.away / 3)
        lost = self.follower()
        self.phase("away")
        lost.process.kill()
        time.sleep(self.given.away)
        lost.process.start()
        wait_until(self.repairing, 60, "the resync to begin", 0.02)
        self.phase("resync")
        begun, received = time.monotonic(), bytes_received(lost)
        wait_until(lambda: self.status()["stale_objects"] == 0, 180, "the copies to be equal", 0.1)
        took, received = time.monotonic() - begun, bytes_received(lost) - received
        self.phase("stop")
        counted = json.loads(job.wait(120).output.strip().splitlines()[-1])
        after = self.status()
        copied = after["repair_copied_bytes"] - before["repair_copied_bytes"]
        compared = after["repair_compared_bytes"] - before["repair_compared_bytes"]
        rate = {name: counted[name]["bytes"] / counted[name]["seconds"] / links.MIB
                for name in PHASES}
        return {"changed": counted["away"]["distinct"], "copied": copied, "compared": compared,
                "moved": copied + compared * SUM_BYTES, "seconds": took,
                "resync_mib_per_s": copied / took / links.MIB,
                "wire_mib_per_s": received / took / links.MIB, "application_mib_per_s": rate}


def bytes_received(server) -> int:
    rows = Path(f"/proc/{server.process.pid}/net/dev").read_text().splitlines()
    return next(int(row.split(":")[1].split()[0]) for row in rows if row.strip().startswith("e0:"))


def measure(arms: dict, given, idle: dict) -> tuple:
    found: dict = {name: [] for name in arms}
    tcp: list = []
    for number in range(given.rounds):
        quick = arms["quick"]
        tcp.append(float(quick.client.python(links.tcp_script(
            quick.cluster.ds[0].node.address, "write", 3), 60).output) / links.MIB)
        for name, arm in arms.items():
            watch = report.CpuIdle()
            found[name].append(arm.round(number))
            idle[name].append(watch.stop())
            print(f"round {number + 1}, {name}: {json.dumps(found[name][-1])}", flush=True)
    return found, tcp


def rows(found: dict, tcp: list) -> list:
    out = []
    for name, rounds in found.items():
        out.append(report.row(f"{name}: bytes changed / bytes moved",
                              [one["changed"] / links.MIB for one in rounds],
                              [one["moved"] / links.MIB for one in rounds], "MiB", 1 / 1.5))
    quick = found["quick"]
    out.append(report.row("quick: resync / plain TCP over the link",
                          [one["resync_mib_per_s"] for one in quick], tcp, "MiB/s", 0.8))
    for name, rounds in found.items():
        kept = [one["application_mib_per_s"] for one in rounds]
        out.append(report.row(f"{name}: application, during resync / before",
                              [one["resync"] for one in kept], [one["with both"] for one in kept],
                              "MiB/s", 0.7))
    return out


def main() -> int:
    parser = report.parser("resync", __doc__, rounds=3)
    parser.add_argument("--away", type=float, default=30)
    parser.add_argument("--rate", default="300mbit")
    given = parser.parse_args()
    link = bits_per_second(given.rate) // 8
    idle: dict = {"quick": [], "gentle": []}
    with Run() as quick_run, Run() as gentle_run:
        arms = {"quick": Arm(quick_run, given, 0, width=64, limit=link // 10),
                "gentle": Arm(gentle_run, given, link // 5 // links.MIB, width=16, limit=0)}
        found, tcp = measure(arms, given, idle)
    made = rows(found, tcp)
    extra = {"samples": found, "plain_tcp_mib_per_s": tcp}
    return 0 if report.publish("resync", made, given.results, idle, extra) else 1


if __name__ == "__main__":
    sys.exit(main())
