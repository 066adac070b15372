#!/usr/bin/python3
"""Names a second, and Postmark, with 1, 2, 4 and 6 data servers: what more of them cost.

    ./dev bench metadata [--rounds 3] [--servers 1,2,4,6] [--files 3000] [--transactions 3000]
                         [--only names,postmark,clients]

Systems of so many data servers alternate in each round; all files are striped over all of them.
The load generator, 32 requests outstanding, makes, opens, looks at and removes --files files in 32
directories; the servers are on processor 0, it is on 1.

Postmark is Debian's, on a kernel client of each system: --files / 10 files of 500 to 10,000 bytes,
--transactions transactions of reading or appending to one and making or removing one. Its files are
in the metadata store first, as they are when nothing is said, and then at data servers (inline=0).
Rates are transactions, by the time of the whole run. Each system is warmed up first, by a tenth of
the transactions in each folder, which does not count.

What op_test does is measured with 2 and with 4 kernel clients, with the most data servers and with
one: at the same time each creates --files / 10 files, empty ones, in a folder of its own at data
servers, then gives each a MiB of size, and takes half of that away again. Rates are of all clients,
by the time of the one that takes longest.

Every row is against the system with one data server.
"""

import sys
import tempfile
from pathlib import Path

import links
import loopback
import report
from harness import apt, servers
from harness.client import Client, start_client, start_clients
from harness.cluster import Cluster, Options
from harness.network import Network
from harness.run import Run

PHASES = {"create": "creates/s", "open": "opens/s", "stat": "stats/s", "unlink": "unlinks/s",
          "files": "files/s"}
TEXT = {"files": "create, write 4 KiB, close"}
DIRECTORIES = 32
FOLDERS = {"in the metadata store": "inline", "at data servers": "data"}
NAMES_LEAST, POSTMARK_LEAST = 0.95, 0.90
CLIENTS = (2, 4)
CLIENT_MIB = 256  # of memory
OPERATIONS = {"create": 1, "resize": 2}  # of each file
PARTS = ("names", "postmark", "clients")

POSTMARK = """
import subprocess, time
commands = '''set location /mnt/nfs/{folder}
set number {files}
set transactions {transactions}
set size 500 10000
set seed {seed}
set report terse
run
quit
'''
begun = time.monotonic()
done = subprocess.run(["postmark"], input=commands, text=True, capture_output=True, check=True)
took = time.monotonic() - begun
assert "rror" not in done.stdout + done.stderr, done.stdout + done.stderr
print("\\n%.6f" % took)
"""


def postmark_program(scratch: Path) -> Path:
    apt.unpack("postmark", scratch / "root", scratch)
    return servers.require(scratch / "root" / "usr" / "bin" / "postmark")


class MachineArm:
    """A system with machines of its own, and a kernel client with Postmark."""

    def __init__(self, run: Run, data_servers: int, program: Path):
        network = Network(run)
        self.cluster = Cluster(run, network, Options(data_servers=data_servers, grace_s=1))
        self.client = start_client(run, network, uid=0)
        self.client.install(program)
        self.client.mount(self.cluster.address, self.cluster.path)
        self.client.run("mkdir " + " ".join(f"/mnt/nfs/{name}" for name in FOLDERS.values()))
        links.policy(self.cluster, FOLDERS["at data servers"], "inline=0")

    def postmark(self, folder: str, files: int, transactions: int, seed: int) -> float:
        """Transactions a second."""
        script = POSTMARK.format(folder=folder, files=files, transactions=transactions, seed=seed)
        took = float(self.client.python(script, 900).output.splitlines()[-1])
        return transactions / took


# One of several clients: its files, created and then resized, each when all have come so far.
OPERATIONS_OF_ONE = """
import os, subprocess, time
files = ["{folder}/f%d" % number for number in range({files})]
os.mkdir("{folder}")

def create(file):
    os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))

def resize(file):
    os.truncate(file, 1 << 20)
    os.truncate(file, 1 << 19)

for name, operation in (("create", create), ("resize", resize)):
    subprocess.run(["weft-signal", "at-" + name], check=True)
    subprocess.run(["weft-wait", name, "300"], check=True)
    begun = time.monotonic()
    for file in files:
        operation(file)
    print(name, "%.6f" % (time.monotonic() - begun), flush=True)
for file in files:
    assert os.stat(file).st_size == 1 << 19
    os.unlink(file)
os.rmdir("{folder}")
"""


class ClientsArm:
    """A system with several kernel clients."""

    def __init__(self, run: Run, data_servers: int):
        network = Network(run)
        self.cluster = Cluster(run, network, Options(data_servers=data_servers, grace_s=1,
                                                     extra={"Inline": "0"}))
        self.clients: list[Client] = start_clients(run, network, ["uml61"] * max(CLIENTS), uid=0,
                                                   memory_mib=CLIENT_MIB)
        for client in self.clients:
            client.mount(self.cluster.address, self.cluster.path)

    def rates(self, clients: int, files: int) -> dict:
        """Operations a second."""
        using = self.clients[:clients]
        jobs = []
        for number, client in enumerate(using):
            client.forget_events()
            jobs.append(client.start_job("#!/usr/bin/python3\n" + OPERATIONS_OF_ONE.format(
                folder=f"/mnt/nfs/c{number}", files=files)))
        for name in OPERATIONS:
            for client in using:
                client.wait_event(f"at-{name}", 300)
            for client in using:
                client.signal(name)
        took: dict = {name: [] for name in OPERATIONS}
        for job in jobs:
            for line in job.wait(600).output.splitlines():
                name, seconds = line.split()
                took[name].append(float(seconds))
        return {name: clients * files * OPERATIONS[name] / max(seconds)
                for name, seconds in took.items()}


def measure_clients(counts: list, given, idle: dict) -> dict:
    """samples[operation, clients][count]: rates."""
    ends = [counts[0], counts[-1]]
    samples: dict = {(operation, clients): {count: [] for count in ends}
                     for clients in CLIENTS for operation in OPERATIONS}
    runs = {count: Run() for count in ends}
    try:
        arms = {count: ClientsArm(run, count) for count, run in runs.items()}
        for arm in arms.values():
            arm.rates(max(CLIENTS), given.files // 100)
        for _ in range(given.rounds):
            for clients in CLIENTS:
                for count, arm in arms.items():
                    watch = report.CpuIdle()
                    found = arm.rates(clients, given.files // 10)
                    idle[name_of(count)].append(watch.stop())
                    for operation, rate in found.items():
                        samples[operation, clients][count].append(rate)
                    print(f"{clients} clients, {name_of(count)}: " + ", ".join(
                        f"{operation} {rate:.0f}/s" for operation, rate in found.items()),
                        flush=True)
    finally:
        for run in runs.values():
            run.close()
    return samples


def measure_names(counts: list, given, idle: dict) -> dict:
    """samples[phase][count]: rates."""
    samples: dict = {phase: {count: [] for count in counts} for phase in PHASES}
    runs = {count: Run() for count in counts}
    try:
        arms = {count: loopback.WeftArm(run, count) for count, run in runs.items()}
        for number in range(given.rounds):
            for count, arm in arms.items():
                found = loopback.load(arm, "names", "--file", f"r{number}", "--files",
                                      str(given.files), "--directories", str(DIRECTORIES),
                                      timeout_s=600)
                for phase, by_count in samples.items():
                    by_count[count].append(found[phase]["ops_per_s"])
                    idle[name_of(count)].append(found[phase]["idle_percent"])
                print(f"{name_of(count)}: " + ", ".join(
                    f"{phase} {found[phase]['ops_per_s']:.0f}" for phase in PHASES), flush=True)
    finally:
        for run in runs.values():
            run.close()
    return samples


def measure_postmark(counts: list, given, idle: dict) -> dict:
    """samples[where][count]: rates."""
    samples: dict = {where: {count: [] for count in counts} for where in FOLDERS}
    runs = {count: Run() for count in counts}
    try:
        with tempfile.TemporaryDirectory() as scratch:
            program = postmark_program(Path(scratch))
            arms = {count: MachineArm(run, count, program) for count, run in runs.items()}
        for arm in arms.values():
            for folder in FOLDERS.values():
                arm.postmark(folder, given.files // 10, given.transactions // 10,
                             given.rounds + 1)
        for number in range(given.rounds):
            for where, folder in FOLDERS.items():
                for count, arm in arms.items():
                    watch = report.CpuIdle()
                    rate = arm.postmark(folder, given.files // 10, given.transactions, number + 1)
                    idle[name_of(count)].append(watch.stop())
                    samples[where][count].append(rate)
                    print(f"Postmark, {where}, {name_of(count)}: {rate:.0f} transactions/s",
                          flush=True)
    finally:
        for run in runs.values():
            run.close()
    return samples


def name_of(count: int) -> str:
    return f"{count} data server{'' if count == 1 else 's'}"


def rows_of(text: str, by_count: dict, unit: str, least: float) -> list:
    """The target is for most data servers; the others inform."""
    counts = list(by_count)
    return [report.row(f"{text}, {count} / {counts[0]} data server{'s' if counts[0] > 1 else ''}",
                       by_count[count], by_count[counts[0]], unit,
                       least if count == counts[-1] else None) for count in counts[1:]]


def main() -> int:
    parser = report.parser("metadata", __doc__, rounds=3)
    parser.add_argument("--servers", default="1,2,4,6")
    parser.add_argument("--files", type=int, default=3000)
    parser.add_argument("--transactions", type=int, default=3000, help="of Postmark")
    parser.add_argument("--only", default=",".join(PARTS), help="of these parts")
    given = parser.parse_args()
    parts = given.only.split(",")
    if not set(parts) <= set(PARTS):
        parser.error(f"--only: of {', '.join(PARTS)}")
    counts = [int(word) for word in given.servers.split(",")]
    idle: dict = {name_of(count): [] for count in counts}
    names = measure_names(counts, given, idle) if "names" in parts else {}
    marks = measure_postmark(counts, given, idle) if "postmark" in parts else {}
    ops = measure_clients(counts, given, idle) if "clients" in parts else {}
    rows = [row for phase, by_count in names.items()
            for row in rows_of(TEXT.get(phase, phase), by_count, PHASES[phase], NAMES_LEAST)]
    rows += [row for where, by_count in marks.items()
             for row in rows_of(f"Postmark, files {where}", by_count, "trans/s", POSTMARK_LEAST)]
    rows += [row for (operation, clients), by_count in ops.items()
             for row in rows_of(f"{operation}, {clients} clients", by_count, "op/s", NAMES_LEAST)]
    extra = {"rates": {"names": names, "postmark": marks, "clients": {
        f"{operation}, {clients} clients": by_count
        for (operation, clients), by_count in ops.items()}}}
    return 0 if report.publish("metadata", rows, given.results, idle, extra) else 1


if __name__ == "__main__":
    sys.exit(main())
