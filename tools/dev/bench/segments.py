#!/usr/bin/python3
"""Segments on and off over an emulated disk: reads in patterns, by 1 to 256 clients; hit rates.

    ./dev bench segments [--rounds 3] [--clients 1 4 16 64 256] [--strips 512] [--patterns ...]

Two data servers alternate, alike but for segments, each over an emulated disk of 51 MiB/s (3.8 ms
mean seek, 2 ms half a turn), of which objects and segments fill a half. Both have as much memory:
the one for segments, the other as a page cache of the disk. Each has two objects, which are read in
turn, and the memory is that of one: so each pass is one after the cache was cleared. Reads are of
64 KiB, at once by clients with sessions of their own. Of n clients

    noncontig   the object is a matrix of 64 columns, or n; client i reads the i-th part of them,
                column by column
    tile        the object is a picture of two rows of tiles; client i reads its tile, row by row
    ior         client i reads the i-th 256 KiB of each piece of n times 256 KiB
    random      any strip, each time another order: what segments must not make slower

One client reads tile and ior from begin to end, which no order on a disk makes faster: these have
no target. Beside each row is what the disk could give at most: its rate, without any seek, by what
there is without segments.

The server with segments learns in four passes and writes what it has learnt while nobody reads;
then the measured passes begin, which have its hit rate: reads answered from memory, of all.
"""

import random
import statistics
import sys
import threading
import time

import emulated
import loopback
import report
from harness.cluster import Options
from harness.run import Run, sh, wait_until
from harness.standalone import Caller, Standalone
from wire import const

MIB = 1 << 20
STRIP = 64 << 10
DISK_RATE = 51  # MiB a second
LEARNING = 4
OBJECTS = (1, 2)
TARGETS = {"noncontig": 3.4, "tile": 1.6, "ior": 2.4, "random": 0.98}
HIT_RATES = {("noncontig", 4): 0.863, ("noncontig", 256): 0.82}
IDLE_S = 2


def noncontig(client: int, clients: int, strips: int) -> list[int]:
    across = max(64, clients)
    mine = across // clients
    return [row * across + column for column in range(client * mine, (client + 1) * mine)
            for row in range(strips // across)]


def tile(client: int, clients: int, strips: int) -> list[int]:
    across = max(clients // 2, 1)
    down = clients // across
    width = 4  # strips of a tile's row
    rows = strips // (across * width) // down
    column, line = client % across, client // across
    return [(line * rows + row) * across * width + column * width + i
            for row in range(rows) for i in range(width)]


def ior(client: int, clients: int, strips: int) -> list[int]:
    piece = 4
    return [begin + client * piece + i for begin in range(0, strips, clients * piece)
            for i in range(piece) if begin + client * piece + i < strips]


def shuffled(client: int, clients: int, strips: int) -> list[int]:
    mine = list(range(client, strips, clients))
    random.Random(time.monotonic_ns() + client).shuffle(mine)
    return mine


PATTERNS = {"noncontig": noncontig, "tile": tile, "ior": ior, "random": shuffled}


class Reader(Caller):
    """A client of an object: by its number data servers tell it from others."""

    def __init__(self, system: Standalone, fileid: int, number: int):
        super().__init__(system, fileid, f"reader{fileid}-{number}")
        self.handle = system.handle(fileid, number)


class Arm:
    def __init__(self, run: Run, on: bool, clients: int, strips: int):
        memory = strips * STRIP
        disk = emulated.Disk(rate=DISK_RATE * MIB, seek=0.0038, rotation=0.002,
                             capacity=4 * len(OBJECTS) * memory, memory=0 if on else memory)
        table = (f'[segments]\nsize = "1 GiB"\ncache = {memory}\nidle_seconds = {IDLE_S}\n'
                 if on else "")
        with loopback.pinned(loopback.SERVER_CPU):
            self.system = Standalone(run, loopback.Loopback(run), Options(
                store="folder", store_in_memory=True, metrics=True, store_options=disk.toml(1),
                server_options="max_connections_per_peer = 1024\n",
                tables=lambda number: table))
        self.on, self.clients, self.strips = on, clients, strips
        for fileid in OBJECTS:
            writer = Caller(self.system, fileid, "writer")
            for strip in range(strips):
                writer.write(strip * STRIP, strip.to_bytes(4, "big") * (STRIP // 4),
                             const.UNSTABLE4)
            writer.commit()
            writer.close()
        self.readers = {fileid: [Reader(self.system, fileid, 1 + number)
                                 for number in range(clients)] for fileid in OBJECTS}

    def counted(self, name: str) -> int:
        return int(self.system.metrics(self.system.ds[0])[f"weft_ds_segment_{name}"])

    def one_pass(self, fileid: int, pattern) -> float:
        """MiB a second."""
        gate = threading.Barrier(self.clients + 1)
        failed = []

        def work(number: int, reader: Reader) -> None:
            strips = pattern(number, self.clients, self.strips)
            try:
                if reader.sessions == 0:
                    reader.connect()
                gate.wait(120)
                for strip in strips:
                    if reader.read(strip * STRIP, STRIP)[:4] != strip.to_bytes(4, "big"):
                        raise ValueError(f"strip {strip} is wrong")
            except Exception as error:  # noqa: BLE001, told below
                failed.append(error)
                gate.abort()  # before it nobody waits for one that does not come

        threads = [threading.Thread(target=work, args=(number, reader))
                   for number, reader in enumerate(self.readers[fileid])]
        for thread in threads:
            thread.start()
        try:
            gate.wait(120)
        except threading.BrokenBarrierError:
            pass  # some thread says why
        begun = time.monotonic()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - begun
        if failed:
            raise failed[0]
        read = sum(len(pattern(number, self.clients, self.strips))
                   for number in range(self.clients))
        return read * STRIP / MIB / seconds

    def learn(self, pattern) -> None:
        for _ in range(LEARNING):
            for fileid in OBJECTS:
                self.one_pass(fileid, pattern)

    def settle(self) -> None:
        """Until it has written what it has learnt."""
        seen = [-1] * (IDLE_S + 4)

        def done() -> bool:
            seen.append(self.counted("built_total"))
            return len(set(seen[-IDLE_S - 4:])) == 1
        if self.on:
            wait_until(done, 600, "segments to be written", 1)


def measure(name: str, clients: int, given, idle: dict) -> list[dict]:
    """Rows: the rates, and how many reads a segment in memory answers."""
    strips = max(given.strips, 256, 8 * clients)  # segments take 16 MiB of memory at least
    rates: dict = {True: [], False: []}
    hits = reads = waits = 0
    with Run() as on_run, Run() as off_run:
        arms = [Arm(on_run, True, clients, strips), Arm(off_run, False, clients, strips)]
        for arm in arms:
            arm.learn(PATTERNS[name])
        arms[0].settle()
        before = [arms[0].counted(f"{what}_total") for what in ("hits", "waits", "reads")]
        for number in range(given.rounds):
            for fileid in OBJECTS:
                for arm in arms:
                    watch = report.CpuIdle()
                    rates[arm.on].append(arm.one_pass(fileid, PATTERNS[name]))
                    idle["on" if arm.on else "off"].append(watch.stop())
            print(f"{name}, {clients} clients, round {number + 1}: on {rates[True][-1]:6.1f} "
                  f"off {rates[False][-1]:6.1f} MiB/s", flush=True)
        after = [arms[0].counted(f"{what}_total") for what in ("hits", "waits", "reads")]
        hits, waits, reads = (b - a for a, b in zip(before, after))
    rate = hits / max(reads, 1)
    print(f"{name}, {clients} clients: hit rate {rate:.3f}, waited {waits / max(reads, 1):.3f}; "
          f"x{statistics.median(rates[True]) / statistics.median(rates[False]):.2f}", flush=True)
    run_through = clients == 1 and name in ("tile", "ior")  # from its begin to its end
    row = report.row(f"{name}, {clients} clients: on / off", rates[True], rates[False], "MiB/s",
                     None if run_through else TARGETS[name])
    return [row,
            report.row(f"disk's own rate / off: {name}, {clients} clients",
                       [DISK_RATE] * len(rates[False]), rates[False], "MiB/s", None),
            report.row(f"hits: {name}, {clients} clients", [rate], [1.0], "hits",
                       HIT_RATES.get((name, clients)))]


def main() -> int:
    parser = report.parser("segments", __doc__, rounds=3)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64, 256])
    parser.add_argument("--strips", type=int, default=512, help="of an object, at least")
    parser.add_argument("--patterns", nargs="+", choices=PATTERNS, default=list(PATTERNS))
    given = parser.parse_args()
    idle: dict = {"on": [], "off": []}
    rows = [row for name in given.patterns for clients in given.clients
            for row in measure(name, clients, given, idle)]
    return 0 if report.publish("segments", rows, given.results, idle) else 1


if __name__ == "__main__":
    sys.exit(main())
