#!/usr/bin/python3
"""Bandwidth of one kernel client over 1, 2 and 4 data servers, each link limited to 1 Gbit/s.

    ./dev bench scale [--rounds 5] [--seconds 6] [--rate 1gbit] [--servers 1,2,4]

The client is User-mode Linux pinned to one processor; each data server has a network namespace of
its own, whose link is limited both ways. The peer of each row is what plain TCP moves between the
client machine and one data server's namespace over that very link, times the number of servers.
Arms alternate within each round. I/O is O_DIRECT, 8 jobs in 4 MiB blocks, each in its own file of
64 MiB that is in the servers' memory; writes end with fsync.
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
TARGETS = {"read": 0.97, "write": 0.95}

FIO = """cd /mnt/nfs && fio --name=s --rw={way} --bs=4M --size=64M --numjobs=8 --direct=1 \\
  --ioengine=psync --time_based --runtime={seconds} --end_fsync={fsync} --group_reporting \\
  --output-format=json --output=/tmp/fio.json >/dev/null || exit 1
cat /tmp/fio.json"""


def plain_tcp(client, address: str, way: str, seconds: int) -> float:
    script = links.tcp_script(address, way, seconds)
    return float(client.python(script, seconds + 60).output) / MIB


def through_weft(client, cluster, way: str, seconds: int) -> float:
    """MiB/s; for writes until the last fsync is answered."""
    script = FIO.format(way=way, seconds=seconds, fsync=int(way == "write"))
    with through_data_servers(cluster):
        output = client.run(script, seconds + 120).output
    job = json.loads(output[output.index("{"):])["jobs"][0]
    took_s = max(job["job_runtime"] / 8, job[way]["runtime"]) / 1000
    return job[way]["io_bytes"] / took_s / MIB


def measure(servers: int, given, idle: dict) -> list:
    with Run() as run:
        network = Network(run)
        cluster = Cluster(run, network, Options(data_servers=servers))
        client = start_client(run, network, uid=0)
        client.mount(cluster.address, cluster.path)
        for server in cluster.ds:
            server.node.limit(given.rate)
        links.serve_tcp(cluster)
        through_weft(client, cluster, "write", 3)  # makes the files
        samples: dict = {way: ([], []) for way in TARGETS}
        for _ in range(given.rounds):
            for way, (ours, peer) in samples.items():
                watch = report.CpuIdle()
                peer.append(servers * plain_tcp(client, cluster.ds[0].node.address, way,
                                                max(2, given.seconds // 2)))
                idle["plain TCP"].append(watch.stop())
                watch = report.CpuIdle()
                ours.append(through_weft(client, cluster, way, given.seconds))
                idle[f"{servers} data servers"].append(watch.stop())
                print(f"{servers} servers, {way}: {ours[-1]:.1f} MiB/s, {servers} x plain TCP "
                      f"{peer[-1]:.1f} MiB/s", flush=True)
        return [report.row(f"{way}, {servers} x {given.rate}", *samples[way], "MiB/s",
                           target=TARGETS[way]) for way in TARGETS]


def main() -> int:
    parser = report.parser("scale", __doc__, rounds=5, seconds=6)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--servers", default="1,2,4")
    given = parser.parse_args()
    counts = [int(word) for word in given.servers.split(",")]
    idle: dict = {"plain TCP": [], **{f"{count} data servers": [] for count in counts}}
    rows = [row for count in counts for row in measure(count, given, idle)]
    return 0 if report.publish("scale", rows, given.results, idle) else 1


if __name__ == "__main__":
    sys.exit(main())
