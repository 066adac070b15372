#!/usr/bin/python3
"""Files of 256 KiB to 64 MiB over 1, 2 or 4 of four data servers: what stripes bring, and cost.

    ./dev bench stripes [--rounds 5] [--rate 200mbit] [--kib 256 1024 4096 16384 65536]

One kernel client makes files of one size, one after the other, each synced before the next; reads
them with a cold cache; and removes them: in a folder with one stripe, in one with two, and in one
with four, in turn. A unit is 1 MiB, the default. The servers' links are limited and their objects
in memory, so that what a file costs is what the protocol costs and what links take.

Each row holds more stripes against one. The default, as many stripes as there are data servers, is
right if it never costs more than a tenth, and brings something as soon as a file has a few units.
"""

import json
import sys

import links
import report
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import through_data_servers
from harness.network import Network
from harness.run import Run

MIB = links.MIB
STRIPES = (1, 2, 4)
TOTAL = 64 * MIB  # of all files of a size, but for
MOST_FILES = 256
LIMIT_S = 600
WAYS = ("write", "read", "remove")
# Of a file's size in KiB: by how much four stripes are to be faster than one.
LEAST = {"write": {4096: 1.2, 16384: 1.8, 65536: 1.8}, "read": {4096: 1.2, 16384: 1.8, 65536: 1.8}}
LEAST_ELSE = 0.9

# Prints the seconds that making, reading and removing the files took.
SCRIPT = """
import json, os, subprocess, time
folder, size, files = "/mnt/nfs/{folder}", {size}, {files}
data = os.urandom(1 << 20)
names = [f"{{folder}}/f{{number}}" for number in range(files)]
took = {{}}
begun = time.monotonic()
for name in names:
    file = os.open(name, os.O_CREAT | os.O_WRONLY)
    for at in range(0, size, len(data)):
        os.write(file, data[:size - at])
    os.fsync(file)
    os.close(file)
took["write"] = time.monotonic() - begun
subprocess.run(["weft-drop-caches"], check=True)
begun = time.monotonic()
for name in names:
    with open(name, "rb", 0) as file:
        got = 0
        while part := file.read(1 << 20):
            got += len(part)
    assert got == size, (name, got)
took["read"] = time.monotonic() - begun
begun = time.monotonic()
for name in names:
    os.unlink(name)
took["remove"] = time.monotonic() - begun
print(json.dumps(took))
"""


class Stand:
    def __init__(self, run: Run, rate: str):
        network = Network(run)
        self.cluster = Cluster(run, network, Options(data_servers=max(STRIPES),
                                                     store_in_memory=True))
        self.client = start_client(run, network, uid=0)
        self.client.mount(self.cluster.address, self.cluster.path)
        for stripes in STRIPES:
            self.client.run(f"mkdir /mnt/nfs/{stripes}")
            links.policy(self.cluster, str(stripes), f"stripes={stripes}", "inline=0")
        for server in self.cluster.ds:
            server.node.limit(rate)

    def one(self, stripes: int, kib: int) -> dict[str, float]:
        """Files a second, by what is done."""
        files = max(1, min(MOST_FILES, TOTAL // (kib << 10)))
        script = SCRIPT.format(folder=stripes, size=kib << 10, files=files)
        with through_data_servers(self.cluster):
            done = self.client.python(script, LIMIT_S, root=True)
        took = json.loads(done.output.splitlines()[-1])
        return {way: files / took[way] for way in WAYS}


def rows_of(kib: int, samples: dict) -> list[dict]:
    size = f"{kib >> 10} MiB" if kib >= 1024 else f"{kib} KiB"
    most, one = max(STRIPES), min(STRIPES)
    return [report.row(f"{way}, {size}: {stripes} stripes / 1", samples[stripes][way],
                       samples[one][way], "files/s",
                       LEAST.get(way, {}).get(kib, LEAST_ELSE) if stripes == most else None)
            for way in WAYS for stripes in STRIPES[1:]]


def main() -> int:
    parser = report.parser("stripes", __doc__, rounds=5)
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--kib", type=int, nargs="+", default=[256, 1024, 4096, 16384, 65536])
    given = parser.parse_args()
    idle: dict = {f"{stripes} stripes": [] for stripes in STRIPES}
    rows: list[dict] = []
    with Run() as run:
        stand = Stand(run, given.rate)
        for kib in given.kib:
            samples: dict = {stripes: {way: [] for way in WAYS} for stripes in STRIPES}
            for number in range(given.rounds + 1):  # the first one warms up
                for stripes in STRIPES:
                    watch = report.CpuIdle()
                    found = stand.one(stripes, kib)
                    if number == 0:
                        continue
                    idle[f"{stripes} stripes"].append(watch.stop())
                    for way, rate in found.items():
                        samples[stripes][way].append(rate)
            rows += rows_of(kib, samples)
            print(report.table(rows[-len(WAYS) * (len(STRIPES) - 1):]), flush=True)
    return 0 if report.publish("stripes", rows, given.results, idle) else 1


if __name__ == "__main__":
    sys.exit(main())
