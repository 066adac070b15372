#!/usr/bin/python3
"""How much of a long link one kernel client uses, beside plain TCP with the same buffers.

    ./dev bench wan [--rounds 5] [--seconds 4] [--delays 1,30,100,300] [--rate 12MiB] [--loss 0]
                    [--lossy 100:1]

A client (User-mode Linux 6.12) is behind a delay line (tools/delay_line): so many milliseconds
there and back, a rate each way, and a queue that holds more than connections have under way, so
that nothing is lost unless --loss or a shorter --queue says so; and then behind links that lose
frames (--lossy: milliseconds and percent). It is mounted, and read-ahead is
set, as `weft plan wan` says for that link. It reads, or writes, one file or eight at a time,
through the page cache, from one data server whose objects are in memory. The peer is plain TCP
between the same two ends, with the same buffers (the kernel's own) and as many connections as the
mount has. A second row says how much of the link's rate that is, where nothing is lost. The rate is
of frames, so their headers are in it and 1 is not reached.

What is counted is what arrives: reads and their peer by the client, writes at the data server and
at the peer's receiver. Counting begins when slow start is over, after one second and fifteen round
trips; before, TCP and not NFS decides. It goes on for --seconds, or twenty round trips if that is
longer: what is read comes in as pieces as large as the read-ahead.
"""

import socket
import sys
import time

import links
import report
from harness import counters
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import through_data_servers
from harness.delay_line import QUEUE, DelayLine
from harness.images import KINDS, ensure
from harness.in_namespace import InNamespace
from harness.network import Network
from harness.process import Process
from harness.run import Run

MIB = links.MIB
PORT = 5003
TARGET = 0.9
FILES = (1, 8)
BUFFER, SLOTS = 4 * MIB, 64  # up to which the kernel's own and weft-ds' do
ROUND_TRIPS = 15  # before counting
COUNTED_ROUND_TRIPS = 20
TAIL_S = 0.5  # a job goes on so long after the counting
LIMIT_S = 900
# So little gets through where frames are lost that a request of 1 MiB takes seconds, and what was
# asked for ahead of eight readers minutes.
LOSSY_S = 60  # counted
LOSSY_FILES = (1,)
# What is written while nobody counts any more has to be brought away, too. It is twice what all
# slots of a session have under way.
DIRTY = "sysctl -qw vm.dirty_background_bytes=33554432 vm.dirty_bytes=134217728"

# As links.TCP_SERVER; and 'c' is told how much has arrived since the start.
SERVER = """
import socket, sys, threading
arrived = [0]
def serve(peer):
    kind = peer.recv(1)
    buffer = bytearray(1 << 20)
    try:
        if kind == b"c":
            peer.sendall(str(arrived[0]).encode())
        while kind == b"r":
            peer.sendall(buffer)
        while kind == b"w" and (got := peer.recv_into(buffer)):
            arrived[0] += got
    except OSError:
        pass
    peer.close()
listener = socket.create_server(("", int(sys.argv[1])))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""

# The threads of a job move() until the end; the window is told by its beginning and its end.
JOB = """#!/usr/bin/python3
import os, socket, threading, time
MIB, SIZE, ways = 1 << 20, {size}, {streams}
moved, failed = [0] * ways, []
ready = threading.Barrier(ways + 1)
ended = threading.Event()
def stream(number):
    try:
        move = opened(number)
        ready.wait({limit})
        while not ended.is_set():
            moved[number] += move()
        closed(number)
    except BaseException as error:
        failed.append(error)
        ready.abort()
{body}
threads = [threading.Thread(target=stream, args=(number,)) for number in range(ways)]
for one in threads:
    one.start()
ready.wait({limit})
os.system("weft-signal started")
time.sleep({before})
began, first = time.monotonic(), sum(moved)
time.sleep({seconds})
rate = (sum(moved) - first) / (time.monotonic() - began)
time.sleep({tail})
ended.set()
for one in threads:
    one.join()
if failed:
    raise failed[0]
print(rate)
"""

# A file that were read to its end would go on from the cache.
READ_FILES = """
def opened(number):
    fd = os.open(f"/mnt/nfs/f{ways}.{number}", os.O_RDONLY)
    def move():
        got = len(os.read(fd, MIB))
        if got == 0:
            raise SystemExit("the file is too short")
        return got
    return move
def closed(number): ...
"""
WRITE_FILES = """
files = {}
def opened(number):
    fd = files[number] = os.open(f"/mnt/nfs/f{ways}.{number}", os.O_WRONLY)
    data, at = os.urandom(MIB), 0
    def move():
        nonlocal at
        done = os.pwrite(fd, data, at)
        at = (at + done) % SIZE
        return done
    return move
def closed(number):
    os.fsync(files[number])
    os.close(files[number])
"""
CONNECTION = """
def opened(number):
    peer = socket.create_connection(("%s", %d))
    peer.sendall(b"%s")
    buffer = bytearray(MIB)
    return lambda: %s
def closed(number): ...
"""
MOVES = {"read": "peer.recv_into(buffer)", "write": "peer.send(buffer)"}
MAKE_FILES = """set -e
for n in {names}; do dd if=/dev/zero of=/mnt/nfs/$n bs=1M count={mib} status=none; done
sync; weft-drop-caches"""


class Bench:
    def __init__(self, run: Run, given):
        self.given = given
        self.rate = given.rate
        network = Network(run)
        self.cluster = Cluster(run, network, Options(
            data_servers=1, store_in_memory=True, metrics=True, extra={"Inline": "0"}))
        self.client = start_client(run, network, "uml612", uid=0)
        self.line = DelayLine(run, self.client.node)
        self.server = self.cluster.ds[0]
        self.peer = Process(run, "plain-tcp", [links.PYTHON, "-c", SERVER, str(PORT)],
                            self.server.node)
        self.peer.start()
        self.peer.wait_port(PORT)
        self.client.run(DIRTY, root=True)
        self.mounted = False
        self.plan: dict = {}
        self.delay_s = self.loss = 0.0
        self.links = [(delay, given.loss) for delay in given.delays] + given.lossy

    def file_mib(self, files: int) -> int:
        """Longer than any arm reads of one."""
        longest = max(delay for delay, _ in self.links) / 1000
        longest_s = self._before(longest) + self._lossless(longest) + 10
        return int(longest_s * self.rate / files / MIB) + 16

    def make_files(self) -> None:
        self.client.mount(self.cluster.address, self.cluster.path)
        for files in FILES:
            names = " ".join(f"f{files}.{number}" for number in range(files))
            self.client.run(MAKE_FILES.format(names=names, mib=self.file_mib(files)), LIMIT_S)
        self.client.unmount()

    def at_distance(self, delay_ms: float, loss_percent: float) -> None:
        """The link, and all that is set for it."""
        if self.mounted:
            self.client.unmount(timeout_s=LIMIT_S)
        self.delay_s, self.loss = delay_ms / 1000, loss_percent / 100
        self.plan = plan = counters.weft(self.cluster, "plan", "wan", "--bandwidth",
                                         str(self.rate), "--delay", f"{delay_ms}ms")
        self.line.set(delay_ms, self.loss, self.rate, self.given.queue)
        if plan["tcp_buffer_bytes"] > BUFFER or plan["slots"] > SLOTS:
            raise SystemExit(f"{delay_ms:g} ms at this rate needs more than a mount: less --rate")
        self.client.mount(self.cluster.address, self.cluster.path, plan["mount_options"],
                          timeout_s=LIMIT_S)
        self.client.run(f"echo {plan['read_ahead_bytes'] >> 10} > "
                        f"/sys/class/bdi/$(mountpoint -d /mnt/nfs)/read_ahead_kb", root=True)
        self.mounted = True

    def ours(self, way: str, files: int) -> float:
        """MiB/s."""
        self.client.run("weft-drop-caches")
        body = READ_FILES if way == "read" else WRITE_FILES
        with through_data_servers(self.cluster):
            return self._measure(way, files, body, self._written)

    def plain_tcp(self, way: str) -> float:
        body = CONNECTION % (self.server.node.address, PORT, way[0], MOVES[way])
        return self._measure(way, self.plan["nconnect"], body, self._arrived)

    def _measure(self, way: str, streams: int, body: str, counted) -> float:
        before, seconds = self._before(self.delay_s), self._counted()
        self.client.forget_events()
        job = self.client.start_job(JOB.format(
            size=self.file_mib(streams) * MIB, streams=streams, body=body, before=before,
            seconds=seconds, tail=TAIL_S, limit=LIMIT_S))
        rate = 0.0
        if way == "write":  # the client has only given it to its kernel
            self.client.wait_event("started", LIMIT_S)
            time.sleep(before)
            began, first = time.monotonic(), counted()
            time.sleep(seconds)
            rate = (counted() - first) / (time.monotonic() - began)
        output = job.wait(LIMIT_S).output
        return (rate if way == "write" else float(output)) / MIB

    def _before(self, delay_s: float) -> float:
        return 1 + ROUND_TRIPS * delay_s

    def _counted(self) -> float:
        return LOSSY_S if self.loss else self._lossless(self.delay_s)

    def _lossless(self, delay_s: float) -> float:
        return max(self.given.seconds, COUNTED_ROUND_TRIPS * delay_s)

    def _written(self) -> float:
        return self.cluster.metrics(self.server)["weft_ds_write_bytes_total"]

    def _arrived(self) -> float:
        def ask() -> int:
            with socket.create_connection(("127.0.0.1", PORT), 10) as peer:
                peer.sendall(b"c")
                return int(peer.recv(100))
        return InNamespace(self.server.node, ask).result(20)


def measure(bench: Bench, given, idle: dict) -> list:
    samples: dict = {}
    for number in range(given.rounds):
        for link in bench.links:
            bench.at_distance(*link)
            for way in ("read", "write"):
                for files in LOSSY_FILES if link[1] else FILES:
                    watch = report.CpuIdle()
                    peer = bench.plain_tcp(way)
                    idle["plain TCP"].append(watch.stop())
                    watch = report.CpuIdle()
                    ours = bench.ours(way, files)
                    idle["Weft"].append(watch.stop())
                    row = samples.setdefault((link, way, files), ([], []))
                    row[0].append(ours)
                    row[1].append(peer)
                    print(f"{name_of(*link)}, {way}, {files} files: {ours:.2f} MiB/s, plain TCP "
                          f"{peer:.2f} MiB/s", flush=True)
        print(f"round {number + 1} of {given.rounds} done", flush=True)
    return rows_of(samples, given.rate)


def rows_of(samples: dict, rate: int) -> list:
    """Beside plain TCP; and how much of the link it is, where nothing is lost."""
    rows = []
    for (link, way, files), (ours, peer) in sorted(samples.items()):
        name = f"{name_of(*link)}, {way} {files} file{'s' if files > 1 else ''}"
        rows.append(report.row(name, ours, peer, "MiB/s", target=TARGET))
        if link[1] == 0:
            rows.append(report.row(f"{name}, of the link", [one * MIB / rate for one in ours],
                                   [1.0] * len(ours), "links", target=TARGET))
    return rows


def name_of(delay_ms: float, loss_percent: float) -> str:
    return f"{delay_ms:g} ms" + (f", {loss_percent:g} % loss" if loss_percent else "")


def mebibytes(text: str) -> int:
    return int(float(text.removesuffix("MiB")) * MIB)


def main() -> int:
    parser = report.parser("wan", __doc__, rounds=5, seconds=4)
    parser.add_argument("--delays", default="1,30,100,300",
                        type=lambda text: [float(word) for word in text.split(",") if word])
    parser.add_argument("--rate", default="12MiB", type=mebibytes)
    parser.add_argument("--loss", default=0.0, type=float, help="of frames, each way, in percent")
    parser.add_argument("--lossy", default="100:1", help="as 100:1,300:0.1; '' for none",
                        type=lambda text: [tuple(map(float, link.split(":")))
                                           for link in text.split(",") if link])
    parser.add_argument("--queue", default=QUEUE, help="that may wait for the link, as 16MiB",
                        type=mebibytes)
    given = parser.parse_args()
    ensure(KINDS["uml612"])
    idle: dict = {"plain TCP": [], "Weft": []}
    with Run() as run:
        bench = Bench(run, given)
        bench.make_files()
        rows = measure(bench, given, idle)
        lost = bench.line.counts()
    extra = {"rate_bytes": given.rate, "queue_bytes": given.queue, "loss_percent": given.loss,
             "delay_line": lost}
    return 0 if report.publish("wan", rows, given.results, idle, extra) else 1


if __name__ == "__main__":
    sys.exit(main())
