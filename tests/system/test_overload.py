"""More is read at a data server over a parity group than it has memory for: clients wait, and its
targets, which are well, are not taken for failed.

A data server without a metadata server, and the wire client (harness/standalone.py)."""

import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.cluster import Options
from harness.config import NFS_PORT
from harness.in_namespace import InNamespace
from harness.run import wait_until
from harness.standalone import Caller, Standalone
from wire import Posting, Status, const, ops

MIB = 1 << 20
LIMIT = 64 * MIB  # of its memory for data in transit
SESSIONS = 12
READS = 64  # of 1 MiB, in each session at once
SIZE = 16 * MIB  # of the object
PIECE = MIB // 2  # that is written at once
OBJECT = 51
PATIENCE_S = 2  # of the group, with a target
HOLD_S = 3  # nobody takes answers: longer than that, and shorter than clients may be slow
LONG_S = 60

# What changes when a target is put out, or the group recovers.
GROUP = ('weft_ds_parity_state{state="whole"}', "weft_ds_parity_member_out",
         "weft_ds_parity_members_put_out_total", "weft_ds_parity_recoveries_total",
         "weft_ds_parity_rebuilds_total")


def group(system):
    now = system.metrics(system.ds[0])
    return {name: now.get(name) for name in GROUP}


def wait_whole(system):
    wait_until(lambda: system.group_state() == "whole", LONG_S, "the group to be whole", 0.1)


def write(system, content):
    caller = Caller(system, OBJECT)
    for at in range(0, SIZE, PIECE):
        caller.write(at, content[at:at + PIECE])
    caller.commit()
    caller.close()


class Reader(Posting):
    """Has a READ in each of its slots at once."""

    def __init__(self, system):
        super().__init__((system.ds[0].node.address, NFS_PORT), slots=READS, timeout=LONG_S,
                         flags=const.EXCHGID_USE_PNFS_DS, max_response=MIB + 4096)
        self.handle = system.handle(OBJECT)

    def ask(self, slot):
        self.post(slot, ops.putfh(self.handle), ops.read(ops.ANONYMOUS, slot * MIB % SIZE, MIB))

    def take(self, content):
        """Its answers, and those to what has to be asked again, of which it returns how many."""
        left, again = READS, 0
        while left:
            slot, reply = self.answer()
            if reply.status == Status.DELAY:
                again += 1
                self.ask(slot)
                continue
            at = slot * MIB % SIZE
            good = reply.check().last.data == content[at:at + MIB]
            assert good, f"other bytes at {at}"
            left -= 1
        return again


def ask_all(system, readers):
    """All READs are there at once, and nobody takes answers for a while."""
    server = system.ds[0]

    def metric(name):
        return system.metrics(server)[name]
    answered = metric("weft_ds_read_bytes_total")
    server.process.pause()
    for reader in readers:
        for slot in range(READS):
            reader.ask(slot)
    server.process.resume()
    # More requests of clients are received only below six eighths.
    wait_until(lambda: metric("weft_ds_memory_bytes") >= LIMIT * 5 // 8, HOLD_S,
               "memory to be short", 0.05)
    time.sleep(HOLD_S)
    answered = metric("weft_ds_read_bytes_total") - answered
    assert answered < SESSIONS * READS * MIB // 2, "nothing had to wait"


@pytest.mark.parametrize("kind, known", [("parity3", True), ("parity3", False),
                                         ("parity3-tcp", True)])
def test_short_memory_is_no_failed_target(run, network, kind, known):
    """`known`: the data server has looked at the object's header, which READs wait for otherwise;
    then all of them go to the targets together."""
    system = Standalone(run, network, Options(
        store=kind, metrics=True, server_options=f"memory_limit = {LIMIT}\n",
        store_options=f"parity_patience_seconds = {PATIENCE_S}\n"))
    wait_whole(system)
    content = random.Random(5).randbytes(SIZE)
    write(system, content)
    if not known:
        system.ds[0].process.kill()
        system.ds[0].process.start()
        wait_whole(system)
    other = Caller(system, OBJECT + 1, "other")
    verifier = other.write(0, b"unstable").verifier
    before = group(system)
    assert before[GROUP[0]] == 1
    readers = InNamespace(system.ds[0].node,
                          lambda: [Reader(system) for _ in range(SESSIONS)]).result(LONG_S)
    ask_all(system, readers)
    with ThreadPoolExecutor(SESSIONS) as threads:
        again = sum(threads.map(lambda reader: reader.take(content), readers))
    print(f"{again} READs were asked again")
    assert group(system) == before
    assert other.commit() == verifier, "what was not committed may be lost"
    for one in [other, *readers]:
        one.close()
