#!/usr/bin/python3
"""Names a second, without a kernel: made, looked at, listed, renamed, removed, beside VFS.

    ./dev bench names [--rounds 5] [--files 4000] [--depth 32]

The load generator is an NFSv4.1 client with --depth requests outstanding. Four arms alternate in
each round: Weft with one copy and with two, Ganesha's VFS on the same disk (own_disk.py), which
never syncs a directory, and the same over a folder whose changes ext4 syncs (chattr +D does what
mount -o dirsync does). What Weft has answered is stable. Each arm does all phases in one directory,
then in 32; the files that are written have 4 KiB, which Weft has in its metadata store. A fifth
arm, whose files are at data servers, removes five times as many: how fast their objects go, beside
their names.
"""

import sys
import time
from contextlib import ExitStack

import loopback
import report
from harness import counters
from harness.run import sh
from own_disk import add_option, own_disk

PHASES = {"mkdir": ("mkdir", "directories/s"), "create": ("create", "creates/s"),
          "stat": ("stat", "stats/s"), "readdir": ("readdir with attributes", "entries/s"),
          "rename": ("rename", "renames/s"), "unlink": ("unlink", "unlinks/s"),
          "files": ("create, write 4 KiB, close", "files/s")}
# Of VFS without a sync, and with one.
TARGETS = {"create": (2.0, 3.0), "stat": (1.5, None), "readdir": (1.5, None),
           "rename": (1.5, None), "unlink": (1.5, None), "files": (2.0, 3.0)}
CREATES = 3000  # a second, at least
WEFT, COPIES, VFS, DIRSYNC = "Weft", "Weft, 2 copies", "VFS", "VFS, dirsync"
OBJECTS = "Weft, inline off"
MANY = 32
REMOVED = 5  # times --files
AS_FAST = 0.9  # objects that are gone, of the names


def start(name: str, run):
    if name in (WEFT, COPIES):
        return loopback.WeftArm(run, data_servers=2, copies=2 if name == COPIES else 1)
    if name == OBJECTS:
        return loopback.WeftArm(run, data_servers=2, extra={"Inline": "0"})
    arm = loopback.VfsArm(run)
    if name == DIRSYNC:
        sh("chattr", "+D", str(run.folder / "vfs"))
    return arm


def removals(arm, files: int, depth: int, prefix: str) -> tuple:
    """Names removed a second, and objects: from the first REMOVE until the last object is gone."""
    given = ("--file", prefix, "--depth", str(depth), "--files", str(files), "--directories",
             str(MANY))
    loopback.load(arm, "names", *given, "--phase", "files", "--keep", timeout_s=1800)
    found = loopback.load(arm, "names", *given, "--there", str(files), "--phase", "rename",
                          "--phase", "unlink", timeout_s=1800)["unlink"]
    begun = time.monotonic()
    while counters.weft(arm.cluster, "status")["removals_queued"] > 0:
        time.sleep(0.05)
    return found["ops_per_s"], files / (found["seconds"] + time.monotonic() - begun)


def rows_of(samples: dict, depth: int) -> list:
    """samples[directories][arm][phase]: a list of rates."""
    rows = []
    for directories, by_arm in samples.items():
        where = f"{directories} director{'y' if directories == 1 else 'ies'}"
        for phase, (text, unit) in PHASES.items():
            plain, synced = TARGETS.get(phase, (None, None))
            ours = by_arm[WEFT][phase]
            rows.append(report.row(f"{text}, {where} / VFS", ours, by_arm[VFS][phase], unit, plain))
            rows.append(report.row(f"{text}, {where} / VFS, dirsync", ours,
                                   by_arm[DIRSYNC][phase], unit, synced))
            rows.append(report.row(f"{text}, {where}, 2 copies / 1", by_arm[COPIES][phase], ours,
                                   unit))
        rates = by_arm[WEFT]["create"]
        rows.append(report.row(f"create, {where}, {depth} outstanding / {CREATES} a second", rates,
                               [CREATES] * len(rates), "creates/s", 1.0))
    one, many = samples[1][WEFT]["create"], samples[MANY][WEFT]["create"]
    rows.append(report.row(f"create, 1 directory / {MANY}", one, many, "creates/s", 0.8))
    return rows


def main() -> int:
    parser = report.parser("names", __doc__, rounds=5)
    parser.add_argument("--files", type=int, default=4000, help="of each phase")
    parser.add_argument("--depth", type=int, default=32, help="requests outstanding")
    add_option(parser)
    given = parser.parse_args()
    names = (WEFT, COPIES, VFS, DIRSYNC)
    samples: dict = {directories: {name: {phase: [] for phase in PHASES} for name in names}
                     for directories in (1, MANY)}
    gone: dict = {"names": [], "objects": []}
    idle: dict = {name: [] for name in names}
    cpu: dict = {name: {phase: [] for phase in PHASES} for name in names}
    with own_disk(given), ExitStack() as closes:
        arms = {name: start(name, closes.enter_context(loopback.Run())) for name in names}
        removing = start(OBJECTS, closes.enter_context(loopback.Run()))
        for number in range(given.rounds):
            for directories, by_arm in samples.items():
                for name, arm in arms.items():
                    found = loopback.load(arm, "names", "--file", f"r{number}-{directories}",
                                          "--depth", str(given.depth), "--files", str(given.files),
                                          "--directories", str(directories), timeout_s=1800)
                    for phase in PHASES:
                        by_arm[name][phase].append(found[phase]["ops_per_s"])
                        cpu[name][phase].append(found[phase]["server_cpu_s"])
                        idle[name].append(found[phase]["idle_percent"])
                    print(f"{name}, {directories}: " + ", ".join(
                        f"{phase} {found[phase]['ops_per_s']:.0f}" for phase in PHASES), flush=True)
            rates = removals(removing, REMOVED * given.files, given.depth, f"r{number}")
            for what, rate in zip(gone, rates, strict=True):
                gone[what].append(rate)
            print(f"{OBJECTS}: names removed {rates[0]:.0f}, objects {rates[1]:.0f}", flush=True)
    rows = rows_of(samples, given.depth)
    rows.append(report.row("objects removed / names removed", gone["objects"], gone["names"],
                           "objects/s", AS_FAST))
    extra = {"rates": samples, "removed": gone, "server_cpu_s": cpu}
    return 0 if report.publish("names", rows, given.results, idle, extra) else 1


if __name__ == "__main__":
    sys.exit(main())
