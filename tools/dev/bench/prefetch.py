#!/usr/bin/python3
"""Small files read cold, one after the other, with and without prefetch by the order of opens.

    ./dev bench prefetch [--rounds 3] [--files 1200]

A kernel client (User-mode Linux) reads files of 32 KiB in folders of 100: one program, a file at a
time. Four data servers, each over an emulated disk of 51 MiB/s (3.8 ms mean seek, 2 ms half a turn)
with a page cache for half of what is read at once, so that each pass over all files is cold; and,
apart, four over the machine's own disk, whose pages are dropped before each pass. On each disk two
arms alternate, alike but for `store.prefetch`: data servers that read what is expected, and that do
not. The client's own cache is dropped before each pass.

    listed    in the order of the directory, as tar and cp -r go
    names     in the order of the names, which is another
    shuffled  each time another order: what guesses must not make slower
    learnt    an order that is none of the directory's, the same each time, of files that are read
              in no other; four passes before
"""

import sys

import emulated
import report
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.network import Network
from harness.run import Run

MIB = 1 << 20
SIZE = 32 << 10
PER_FOLDER = 100
SERVERS = 4
ON, OFF = "on", "off"
# Of an emulated disk, and of the machine's own, which is expected to gain nothing.
TARGETS = {"listed": (1.5, 0.95), "names": (1.5, 0.95), "shuffled": (0.95, 0.95),
           "learnt": (1.3, 0.95)}
LEARNING = 4

MAKE = """
import os, random
os.chdir("/mnt/nfs")
data = random.Random(1).randbytes({size})
for folder in range({first}, {first} + {folders}):
    os.mkdir(f"d{{folder}}")
    names = list(range({per_folder}))
    random.Random(folder).shuffle(names)
    for name in names:
        with open(f"d{{folder}}/f{{name:03d}}", "wb") as file:
            file.write(data)
os.sync()
"""

# Says how long it took.
READ = """
import os, random, time
os.chdir("/mnt/nfs")
begun, total = time.monotonic(), 0
for folder in range({first}, {first} + {folders}):
    names = os.listdir(f"d{{folder}}")
    if "{order}" == "names":
        names.sort()
    elif "{order}" != "listed":
        names.sort()
        random.Random({seed}).shuffle(names)
    for name in names:
        with open(f"d{{folder}}/{{name}}", "rb", buffering=0) as file:
            while data := file.read(1 << 20):
                total += len(data)
assert total == {total}, total
print("%.6f" % (time.monotonic() - begun))
"""


class Arm:
    def __init__(self, run: Run, word: str, turns: bool, files: int):
        self.files, self.turns = files, turns
        network = Network(run)
        options = Options(data_servers=SERVERS, metrics=True, extra={"Inline": "0"},
                          store_options=f'prefetch = "{word}"\n')
        if turns:
            held = files * SIZE // SERVERS
            self.cluster = emulated.EmulatedCluster(run, network, options, emulated.Disk(
                rate=51 * MIB, seek=0.0038, rotation=0.002, capacity=16 * held, memory=held // 2))
        else:
            self.cluster = Cluster(run, network, options)
        self.client = start_client(run, network, uid=0)
        self.client.mount(self.cluster.address, self.cluster.path)
        self.client.python(MAKE.format(size=SIZE, first=0, folders=2 * files // PER_FOLDER,
                                       per_folder=PER_FOLDER), 900)

    def rate(self, order: str, seed: int) -> float:
        """Files a second."""
        self.client.run("weft-drop-caches")
        if not self.turns:
            with open("/proc/sys/vm/drop_caches", "w", encoding="utf-8") as drop:
                drop.write("1\n")
        folders = self.files // PER_FOLDER
        output = self.client.python(READ.format(
            first=folders if order == "learnt" else 0, folders=folders, order=order, seed=seed,
            total=self.files * SIZE), 900).output
        return self.files / float(output.splitlines()[-1])

    def read_ahead(self) -> int:
        return sum(int(self.cluster.metrics(server).get("weft_ds_prefetch_reads_total", 0))
                   for server in self.cluster.ds)


def seed_of(order: str, number: int) -> int:
    return 7 if order == "learnt" else 100 + number


def measure(turns: bool, given, rates: dict, idle: dict, ahead: dict) -> None:
    with Run() as with_it, Run() as without:
        arms = {word: Arm(run, word, turns, given.files)
                for word, run in ((ON, with_it), (OFF, without))}
        for arm in arms.values():
            for _ in range(LEARNING):
                arm.rate("learnt", seed_of("learnt", 0))
        for number in range(given.rounds):
            for order in TARGETS:
                for word, arm in arms.items():
                    before, watch = arm.read_ahead(), report.CpuIdle()
                    rates[turns][order][word].append(arm.rate(order, seed_of(order, number)))
                    idle[word].append(watch.stop())
                    ahead[turns][order][word].append(arm.read_ahead() - before)
                on, off = (rates[turns][order][word][-1] for word in (ON, OFF))
                print(f"{'emulated' if turns else 'own'} disk, {order}: {on:.0f}/s with, "
                      f"{off:.0f}/s without", flush=True)


def main() -> int:
    parser = report.parser("prefetch", __doc__, rounds=3)
    parser.add_argument("--files", type=int, default=1200)
    given = parser.parse_args()
    given.files -= given.files % PER_FOLDER
    rates: dict = {turns: {order: {ON: [], OFF: []} for order in TARGETS}
                   for turns in (True, False)}
    ahead: dict = {turns: {order: {ON: [], OFF: []} for order in TARGETS}
                   for turns in (True, False)}
    idle: dict = {ON: [], OFF: []}
    for turns in (True, False):
        measure(turns, given, rates, idle, ahead)
    rows = [report.row(f"{'disk that turns' if turns else 'own disk'}, {order}",
                       rates[turns][order][ON], rates[turns][order][OFF], "files/s",
                       targets[0 if turns else 1])
            for turns in (True, False) for order, targets in TARGETS.items()]
    extra = {"files": given.files, "rates": rates, "read_ahead": ahead}
    return 0 if report.publish("prefetch", rows, given.results, idle, extra) else 1


if __name__ == "__main__":
    sys.exit(main())
