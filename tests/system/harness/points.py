"""A load that knows what it may read: for tests that kill servers in the middle of it.

Several writers write one object through the wire client, each its own range, unstable and stable
writes of any size and alignment, and commits, as an NFS client does: what was answered under
another verifier than COMMIT is written again. At any time a byte may be what was last stable, or
what a later write, which is not, would have made of it (Expected). Everything else is a loss.
"""

import random
import threading
import time

from wire import const, ops

from .run import wait_until
from .standalone import PATIENCE_S, Caller, Standalone

_MAX_WRITE = 200 << 10


def _differs(a: bytes, b: bytes) -> int:
    """A number with a byte for each of a, the first lowest: 1 where b has another, 0 elsewhere."""
    x = int.from_bytes(a, "little") ^ int.from_bytes(b, "little")
    ones = int.from_bytes(b"\1" * len(a), "little")
    for shift in (4, 2, 1):
        x |= (x >> shift) & (ones * ((1 << shift) - 1))
    return x & ones


class Pending:
    """A write that is not known to be stable; verifier None: it was not answered."""

    def __init__(self, at: int, data: bytes, verifier: bytes | None):
        self.at, self.data, self.verifier = at, data, verifier

    @property
    def end(self) -> int:
        return self.at + len(self.data)


class Expected:
    """What a range of an object may hold."""

    def __init__(self, size: int):
        self.stable = bytearray(size)
        self.now = bytearray(size)
        self.pending: list[Pending] = []  # in the order in which they were begun

    def begin(self, at: int, data: bytes) -> Pending:
        write = Pending(at, data, None)
        self.pending.append(write)
        self.now[at:at + len(data)] = data
        return write

    def settle(self, write: Pending) -> None:
        """It is stable, so what was written there before is nothing to be found any more."""
        self.stable[write.at:write.end] = write.data
        kept = []
        for number, one in enumerate(self.pending):
            if one is write:
                self.pending = kept + self.pending[number + 1:]
                return
            kept += self._without(one, write.at, write.end)

    @staticmethod
    def _without(one: Pending, at: int, end: int) -> list[Pending]:
        left = Pending(one.at, one.data[:max(0, at - one.at)], one.verifier)
        after = max(0, end - one.at)
        right = Pending(one.at + after, one.data[after:], one.verifier)
        return [part for part in (left, right) if part.data] if at < one.end and end > one.at \
            else [one]

    def committed(self, verifier: bytes) -> list[tuple[int, int]]:
        """After a COMMIT. Returns the ranges that have to be written again."""
        for write in list(self.pending):
            if write.verifier == verifier and write in self.pending:
                self.settle(write)
        return [(write.at, write.end) for write in self.pending]

    def wrong(self, found: bytes) -> int | None:
        """The first byte that is not one of those it may be."""
        wrong = _differs(found, self.stable)
        for write in self.pending:
            if not wrong:
                return None
            other = _differs(found[write.at:write.end], write.data)
            mask = int.from_bytes(b"\1" * len(write.data), "little")
            wrong &= ~((mask & ~other) << 8 * write.at)
        return (wrong & -wrong).bit_length() // 8 if wrong else None


class Writer(threading.Thread):
    """Writes one range of an object until told to hold or end, and reads it back now and then."""

    def __init__(self, system: Standalone, load: "Load", number: int, base: int, size: int,
                 seed: int):
        super().__init__(daemon=True, name=f"writer-{number}")
        self.load, self.number = load, number
        self.base, self.size = base, size
        self.rng = random.Random(seed)
        self.expected = Expected(size)
        self.caller = Caller(system, load.fileid, f"writer-{number}")
        self.counts = {"writes": 0, "commits": 0, "checks": 0, "lost": 0}

    def _write(self, at: int, data: bytes, stable: int) -> None:
        write = self.expected.begin(at, data)
        answer = self.caller.call(ops.write(ops.ANONYMOUS, self.base + at, data, stable), once=True)
        if answer is None:
            self.counts["lost"] += 1
            return
        if answer.count != len(data):
            raise AssertionError(f"{answer.count} of {len(data)} bytes written")
        self.counts["writes"] += 1
        write.verifier = answer.verifier
        if answer.committed != const.UNSTABLE4:
            self.expected.settle(write)
        elif stable != const.UNSTABLE4:
            raise AssertionError("a stable write was answered as unstable")

    def _read(self) -> bytes:
        data = bytearray()
        while len(data) < self.size:
            answer = self.caller.call(ops.read(ops.ANONYMOUS, self.base + len(data),
                                         min(512 << 10, self.size - len(data))))
            data += answer.data
            if answer.eof or not answer.data:
                break
        return bytes(data.ljust(self.size, b"\0"))

    def check(self, settled: bool = False) -> None:
        found = self._read()
        self.counts["checks"] += 1
        at = self.expected.wrong(found)
        if settled and found != self.expected.now:
            at = next(i for i in range(self.size) if found[i] != self.expected.now[i])
        if at is not None:
            near = slice(at, at + 16)
            raise AssertionError(
                f"writer {self.number}: byte {self.base + at} of the object is of no write it may "
                f"be of: {found[near].hex()}, stable {self.expected.stable[near].hex()}, last "
                f"written {self.expected.now[near].hex()}, pending "
                f"{[(p.at, p.end, p.verifier) for p in self.expected.pending]}")

    def _commit(self) -> None:
        """Until everything that was written is stable under one verifier."""
        while True:
            verifiers = {write.verifier for write in self.expected.pending}
            read = self._read() if self.rng.randrange(4) == 0 else None
            verifier = self.caller.call(ops.commit()).verifier
            self.counts["commits"] += 1
            if read is not None and verifiers <= {verifier} and read != self.expected.now:
                raise AssertionError(f"writer {self.number}: bytes are lost, and the verifier is "
                                     "as it was")
            again = self.expected.committed(verifier)
            if not again:
                return
            for at, end in again:
                data = bytes(self.expected.now[at:end])
                if self.rng.randrange(2) == 0:  # a late write of before must not come after it
                    data = self.rng.randbytes(end - at)
                self._write(at, data, self._stability())

    def _stability(self) -> int:
        return self.rng.choice((const.UNSTABLE4, const.UNSTABLE4, const.UNSTABLE4,
                                const.DATA_SYNC4, const.FILE_SYNC4))

    def _step(self) -> None:
        kind = self.rng.randrange(12)
        if kind == 0:
            return self._commit()
        if kind == 1:
            return self.check()
        size = self.rng.choice((1, 511, 4096, 5000, 65536, self.rng.randrange(1, _MAX_WRITE)))
        at = self.rng.randrange(self.size - min(size, self.size - 1))
        if self.rng.randrange(3) == 0:
            at -= at % 4096
        self._write(at, self.rng.randbytes(min(size, self.size - at)), self._stability())

    def run(self) -> None:
        turn = 0
        try:
            while not self.load.ending.is_set():
                if self.load.holds == turn:
                    self._step()
                    continue
                turn += 1
                self._commit()
                self.check(settled=True)
                self.load.held.wait()
                self.load.go_on.wait()
            self._commit()
            self.check(settled=True)
        except threading.BrokenBarrierError:
            pass
        except BaseException as error:
            self.load.fail(error)
        finally:
            self.caller.close()


class Load:
    """Writers of one object, side by side in ranges that begin and end anywhere in its stripes."""

    def __init__(self, system: Standalone, seed: int, fileid: int = 21, writers: int = 4,
                 bytes_each: int = 333_000):
        self.fileid = fileid
        self.holds = 0  # how often writers were told to hold
        self.held = threading.Barrier(writers + 1)
        self.go_on = threading.Barrier(writers + 1)
        self.ending = threading.Event()
        self.error: BaseException | None = None
        self.writers = [Writer(system, self, number, number * bytes_each, bytes_each, seed + number)
                        for number in range(writers)]
        for writer in self.writers:
            writer.start()

    def fail(self, error: BaseException) -> None:
        self.error = self.error or error
        self.held.abort()
        self.go_on.abort()

    def watch(self, seconds: float) -> None:
        """Lets it run so long. Raises what went wrong with it."""
        end = time.monotonic() + seconds
        while True:
            if self.error is not None:
                raise self.error
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(0.1, left))

    def written(self) -> int:
        return sum(writer.counts["writes"] for writer in self.writers)

    def watch_writes(self, more: int) -> None:
        """Lets it run until so many more writes were answered, however slow the machine is."""
        enough = self.written() + more

        def answered() -> bool:
            self.watch(0)
            return self.written() >= enough
        wait_until(answered, PATIENCE_S, f"{more} more writes to be answered")

    def hold(self, timeout_s: float = 120) -> bytes:
        """All is committed, read back as it was written, and rests; what the object holds."""
        self.holds += 1
        self._meet(self.held, timeout_s)
        return b"".join(bytes(writer.expected.now) for writer in self.writers)

    def release(self) -> None:
        self._meet(self.go_on, 30)

    def _meet(self, barrier: threading.Barrier, timeout_s: float) -> None:
        try:
            barrier.wait(timeout_s)
        except threading.BrokenBarrierError:
            if self.error is not None:
                raise self.error from None
            raise TimeoutError("the writers do not come to rest") from None

    def end(self) -> dict[str, float]:
        """What it did, in all."""
        self.ending.set()
        for writer in self.writers:
            writer.join(2 * PATIENCE_S)
        self.watch(0)
        total = {name: sum(writer.counts[name] for writer in self.writers)
                 for name in self.writers[0].counts}
        longest = max(writer.caller.longest_s for writer in self.writers)
        return {**total, "longest_s": round(longest, 1)}
