#!/usr/bin/python3
"""Small files from a kernel client: unpacked, read cold, listed, removed, beside Ganesha's VFS.

    ./dev bench smallfiles [--rounds 3] [--files 10000]

Files of 1 to 64 KiB, as many of 1 to 2 as of 32 to 64, in folders of 100. Five phases: `tar x`;
each file read in the order of its directory; `ls -lR`; 600 files changed, made and removed 600
times (as postmark does); `rm -rf`. The client, User-mode Linux, mounts anew before it reads, lists
and mixes, so that its cache is empty; the servers' are not. Four arms alternate in each round: Weft
as it is, without inline files, with two copies, and Ganesha's VFS on the same disk (own_disk.py),
which never syncs a directory.
"""

import json
import sys
from contextlib import ExitStack

import links  # noqa: F401  where the harness is
import report
from harness import servers
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import snapshot
from harness.network import Network
from harness.run import Run
from own_disk import add_option, own_disk

LIMIT = 16384
WEFT, OFF, COPIES, VFS = "Weft", "inline off", "2 copies", "VFS"
PHASES = {"unpack": "tar x", "read": "cold read", "list": "cold ls -lR", "mix": "postmark mix",
          "remove": "rm -rf"}
# Of Weft to VFS, without inline to VFS, two copies to one.
TARGETS = {phase: (1.0, 0.6, 0.8) for phase in PHASES}

MAKE = """
import io, random, tarfile
rng = random.Random(1)
with tarfile.open("/tmp/files.tar", "w") as tar:
    sizes = []
    for n in range({files}):
        if n % 100 == 0:
            folder = tarfile.TarInfo("t/%03d" % (n // 100))
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)
        one = tarfile.TarInfo("t/%03d/%05d" % (n // 100, n))
        one.size = int(1024 * 2 ** rng.uniform(0, 6))
        sizes.append(one.size)
        tar.addfile(one, io.BytesIO(rng.randbytes(one.size)))
print(sum(sizes), sum(size > {limit} for size in sizes))
"""

# Says how long it took, after a line of its own.
TIMED = """
import os, random, subprocess, time
os.chdir("/mnt/nfs")
begun = time.monotonic()
{body}
print("\\n%.6f" % (time.monotonic() - begun))
"""
BODIES = {
    "unpack": "subprocess.run(['tar', 'xf', '/tmp/files.tar'], check=True)",
    "read": """
total = 0
for folder in os.scandir("t"):
    for one in os.scandir(folder.path):
        with open(one.path, "rb", buffering=0) as file:
            while data := file.read(1 << 20):
                total += len(data)
assert total == {total}, total
""",
    "list": "subprocess.run(['ls', '-lR', 't'], check=True, stdout=subprocess.DEVNULL)",
    "mix": """
rng = random.Random(2)
data = rng.randbytes(10000)
os.mkdir("m")
made, alive = 0, []
def make():
    global made
    made += 1
    with open(f"m/{{made}}", "wb") as file:
        file.write(data[:rng.randrange(500, 10000)])
    alive.append(made)
for _ in range({mix}):
    make()
for _ in range({mix}):
    name = f"m/{{rng.choice(alive)}}"
    if rng.randrange(2):
        with open(name, "rb") as file:
            file.read()
    else:
        with open(name, "ab") as file:
            file.write(data[:rng.randrange(500, 10000)])
    if rng.randrange(2):
        make()
    else:
        os.unlink(f"m/{{alive.pop(rng.randrange(len(alive)))}}")
for number in alive:
    os.unlink(f"m/{{number}}")
os.rmdir("m")
""",
    "remove": "subprocess.run(['rm', '-rf', 't'], check=True)",
}


class Arm:
    """A server with a client of its own; all clients are on the same processor."""

    def __init__(self, name: str, run: Run):
        network = Network(run)
        self.cluster = None
        if name == VFS:
            node = network.mds()
            servers.start_vfs(run, node)
            self.address, self.path = node.address, "/export"
        else:
            extra = {OFF: {"Inline": "0"}, COPIES: {"Copies": "2"}}.get(name, {})
            self.cluster = Cluster(run, network, Options(extra=extra))
            self.address, self.path = self.cluster.address, self.cluster.path
        self.client = start_client(run, network, uid=0)
        self.client.mount(self.address, self.path)

    def make(self, files: int) -> tuple[int, int]:
        """Bytes of all files, and how many are longer than the limit."""
        output = self.client.python(MAKE.format(files=files, limit=LIMIT), 600).output
        total, long = output.split()
        return int(total), int(long)

    def seconds(self, phase: str, total: int, mix: int) -> float:
        if phase in ("read", "list", "mix"):
            self.client.unmount()
            self.client.mount(self.address, self.path)
        body = BODIES[phase].format(total=total, mix=mix)
        return float(self.client.python(TIMED.format(body=body), 3600).output.splitlines()[-1])

    def counted(self):
        return snapshot(self.cluster) if self.cluster and self.cluster.counted else None


def rows_of(rates: dict) -> list:
    rows = []
    for phase, text in PHASES.items():
        to_vfs, off, copies = TARGETS[phase]
        for name, ours, peer, target in (
                (f"{text} / VFS", WEFT, VFS, to_vfs), (f"{text}, inline off / VFS", OFF, VFS, off),
                (f"{text}, 2 copies / 1", COPIES, WEFT, copies)):
            rows.append(report.row(name, rates[ours][phase], rates[peer][phase], "files/s", target))
    return rows


def main() -> int:
    parser = report.parser("smallfiles", __doc__, rounds=3)
    parser.add_argument("--files", type=int, default=10000)
    parser.add_argument("--mix", type=int, default=600, help="files, and changes, of the mix")
    add_option(parser)
    given = parser.parse_args()
    names = (WEFT, OFF, COPIES, VFS)
    rates: dict = {name: {phase: [] for phase in PHASES} for name in names}
    idle: dict = {name: [] for name in names}
    layoutgets: dict = {name: [] for name in names if name != VFS}
    with own_disk(given), ExitStack() as closes:
        arms = {name: Arm(name, closes.enter_context(Run())) for name in names}
        made = {arm.make(given.files) for arm in arms.values()}
        (total, long), = made
        for number in range(given.rounds):
            for name, arm in arms.items():
                before, watch = arm.counted(), report.CpuIdle()
                for phase in PHASES:
                    count = 2 * given.mix if phase == "mix" else given.files
                    rates[name][phase].append(count / arm.seconds(phase, total, given.mix))
                idle[name].append(watch.stop())
                if before:
                    layoutgets[name].append(arm.counted().since(before).layoutgets)
                print(f"{name}: " + ", ".join(f"{text} {rates[name][phase][-1]:.0f}/s"
                                              for phase, text in PHASES.items()), flush=True)
    extra = {"rates": rates, "files": given.files, "bytes": total, "longer_than_the_limit": long,
             "layoutgets": layoutgets}
    return 0 if report.publish("smallfiles", rows_of(rates), given.results, idle, extra) else 1


if __name__ == "__main__":
    sys.exit(main())
