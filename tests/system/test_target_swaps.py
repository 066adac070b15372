"""Targets that are not those they were, or lost while their data server dies too.

A data server without a metadata server, and the wire client (harness/standalone.py)."""

import random
import re
import shutil
import threading
import time
from pathlib import Path

import pytest
from harness import parity
from harness.cluster import Options
from harness.handles import object_name
from harness.run import wait_until
from harness.standalone import Caller, Standalone
from wire import NfsError, Status, const

pytestmark = pytest.mark.faults

SIZE = 512 << 10  # of what is written at once
OBJECT = 33


def data(of: int, size: int = SIZE) -> bytes:
    """Known bytes, others for each number."""
    return bytes(of * 7 + at % 251 & 255 for at in range(size // 256)) * 256


def start(run, network, kind: str, options: str = "") -> tuple[Standalone, Caller]:
    patience = "parity_patience_seconds" if kind.startswith("parity") else "target_patience_seconds"
    system = Standalone(run, network, Options(store=kind, metrics=True,
                                              store_options=f"{patience} = 1\n{options}"))
    if kind.startswith("parity"):
        # A target that is slow to make its store is out at first.
        wait_group(system, "whole")
    return system, Caller(system, OBJECT)


def wait_group(system: Standalone, state: str, timeout_s: float = 60) -> None:
    wait_until(lambda: system.group_state() == state, timeout_s, f"the group to be {state}", 0.1)


def wait_log(system: Standalone, pattern: str, timeout_s: float = 30) -> str:
    """A line in the data server's log; returns it."""
    def line():
        found = re.search(f".*(?:{pattern}).*", system.ds[0].process.log.read_text())
        return found and found.group(0)
    return wait_until(line, timeout_s, f"'{pattern}' in the log", 0.1)


def swap(target, folder=None) -> Path:
    """The target is started again with what is in this folder, or nothing. Returns where what it
    had is now."""
    target.process.kill()
    kept = target.store.with_name(f"kept{target.store.stat().st_ino}")
    target.store.rename(kept)
    if folder:
        shutil.copytree(folder, target.store)
    else:
        target.store.mkdir()
    target.process.start()
    return kept


def put_back(target, kept: Path) -> None:
    target.process.kill()
    shutil.rmtree(target.store)
    kept.rename(target.store)
    target.process.start()


@pytest.mark.parametrize("kind", ("shm", "tcp"))
def test_an_empty_target_is_refused(run, network, kind):
    """What the target had must not read as holes. The right one is served again."""
    system, caller = start(run, network, kind)
    caller.write(0, data(1), const.FILE_SYNC4)
    kept = swap(system.targets[0])
    wait_log(system, "event=target_away.*which has the data of this data server")
    hasty = Caller(system, OBJECT, "hasty", patience_s=4)
    with pytest.raises(TimeoutError):
        hasty.read(0, 4096)
    put_back(system.targets[0], kept)
    assert caller.read(0, SIZE) == data(1)


def test_the_store_of_another_member_is_refused(run, network):
    """The group goes on without it, and has it back when the right one is there again."""
    system, caller = start(run, network, "parity3")
    caller.write(0, data(1), const.FILE_SYNC4)
    first, second = system.targets[:2]
    kept = swap(first, second.store)
    wait_log(system, "event=target_away.*at the address of target 0 of the parity group is that "
                     "of target 1")
    assert caller.read(0, SIZE) == data(1)
    caller.write(SIZE // 2, data(2), const.FILE_SYNC4)
    assert system.group_state() == "degraded"
    put_back(first, kept)
    wait_group(system, "whole")
    parity.wait_consistent(system)
    content = data(1)[:SIZE // 2] + data(2)
    assert parity.content(system, object_name(OBJECT)) == content


def test_an_old_store_of_a_member_that_was_replaced_is_refused(run, network):
    """It has objects, but those of long ago."""
    system, caller = start(run, network, "parity3")
    caller.write(0, data(1), const.FILE_SYNC4)
    target = system.targets[2]
    kept = swap(target)
    wait_log(system, "event=parity_member_replaced member=2")
    wait_group(system, "whole")
    caller.write(0, data(2), const.FILE_SYNC4)
    new = swap(target, kept)
    wait_log(system, "event=target_away.*cannot take its place: it has [23] objects of its own")
    assert caller.read(0, SIZE) == data(2)
    assert system.group_state() == "degraded"
    put_back(target, new)
    wait_group(system, "whole")
    parity.wait_consistent(system)
    assert parity.content(system, object_name(OBJECT)) == data(2)


def write_many(system: Standalone, objects: int) -> list[Caller]:
    callers = [Caller(system, OBJECT + number, f"of-{number}") for number in range(objects)]
    for number, caller in enumerate(callers):
        caller.write(0, data(number))
        caller.commit()  # nothing of it is dirty
        caller.close()
    return callers


def test_a_replacement_goes_on_after_the_data_server_died(run, network):
    """Not from the beginning: what the record says is at the new target is not written again."""
    system, caller = start(run, network, "parity3", "parity_rebuild_rate = 1048576\n")
    objects = 80  # a quarter of a MiB each at the new target, so 20 s
    callers = write_many(system, objects)
    system.targets[1].lose()
    system.targets[1].process.start()
    wait_log(system, "event=parity_member_replaced member=1")
    server = system.ds[0]
    wait_until(lambda: parity.objects_rebuilt(server.store) > objects // 4, 40,
               "a note of how far it is", 0.1)
    server.process.kill()
    system.configure("parity_patience_seconds = 1\n")
    server.process.start()
    wait_group(system, "whole")
    rebuilt = system.metrics(server)["weft_ds_parity_rebuilt_bytes"]
    assert 0 < rebuilt < 0.8 * objects * SIZE / 2, "begun anew"
    parity.wait_consistent(system)
    for number, caller in enumerate(callers):
        assert caller.read(0, SIZE) == data(number)
        assert parity.content(system, object_name(OBJECT + number)) == data(number)


def lose_both(system: Standalone, number: int, committed: bool) -> bytes:
    """What was committed is on the disks; then data server and target die, with unstable writes
    under way unless all is committed. Only the data server is back."""
    caller = Caller(system, OBJECT, "before")
    caller.write(0, data(1))
    caller.commit()
    target, server = system.targets[number], system.ds[0]
    if committed:
        wait_until(lambda: parity.nothing_dirty(server.store), 10, "the log to say so", 0.02)
    else:
        caller.write(SIZE, data(2))
    server.process.kill()
    target.process.kill()
    caller.close()
    server.process.start()
    return data(1)


def test_a_target_lost_with_the_data_server_is_waited_for(run, network):
    """Stripes may be half written, and only that target knows. Nothing is guessed, an empty store
    does not take its place, and when it is back all that was committed is there."""
    system, caller = start(run, network, "parity3")
    committed = lose_both(system, 1, committed=False)
    wait_log(system, 'event=parity_waits targets=1 why="stripes of 1 objects may be half written, '
                     'which cannot be told without that target"')
    hasty = Caller(system, OBJECT, "hasty", patience_s=4)
    with pytest.raises(TimeoutError):
        hasty.read(0, 4096)
    kept = swap(system.targets[1])
    wait_log(system, "event=target_away.*it is new and empty")
    with pytest.raises(TimeoutError):
        hasty.read(0, 4096)
    put_back(system.targets[1], kept)
    assert caller.read(0, SIZE) == committed
    assert caller.read(SIZE, SIZE) in (b"", data(2))
    wait_group(system, "whole")
    parity.wait_consistent(system)


def test_a_target_lost_with_the_data_server_at_rest_is_done_without(run, network):
    """Nothing was being written, so nothing is in doubt; and it may be lost for ever."""
    system, caller = start(run, network, "parity3")
    committed = lose_both(system, 1, committed=True)
    assert caller.read(0, SIZE) == committed
    caller.write(0, data(3), const.FILE_SYNC4)
    assert system.group_state() == "degraded"
    swap(system.targets[1])
    wait_group(system, "whole")
    parity.wait_consistent(system)
    assert parity.content(system, object_name(OBJECT)) == data(3)


REGION = 8 << 20  # of an object, for one entry of the log
BLOCK = 4096


def hammer(caller: Caller, new: bytes, seed: int) -> None:
    """Parts of stripes within the object's second region, until the data server dies."""
    rng = random.Random(seed)
    while True:
        at = rng.randrange(REGION, 2 * REGION - 20_000)
        size = rng.randrange(1, 20_000)
        if caller.write(at, new[at:at + size], once=True) is None:
            return


def give_up(system: Standalone, number: int) -> None:
    server = system.ds[0]
    server.process.kill()
    server.process.command += ["--give-up", str(number)]
    server.process.start()
    wait_group(system, "degraded")


def lost_blocks(caller: Caller, old: bytes, new: bytes) -> set[int]:
    """Those of the object that give an error. All others are as they were, or, in the region that
    was being written, new in part."""
    lost = set()
    for at in range(0, len(old), BLOCK):
        if not REGION <= at < 2 * REGION:
            if at % SIZE == 0:
                assert caller.read(at, SIZE) == old[at:at + SIZE]
            continue
        try:
            found = caller.read(at, BLOCK)
        except NfsError as error:
            assert error.status == Status.IO
            lost.add(at)
            continue
        if found != old[at:at + BLOCK]:
            assert all(byte in pair for byte, pair in
                       zip(found, zip(old[at:at + BLOCK], new[at:at + BLOCK]))), at
    return lost


@pytest.mark.parametrize("number", (0, 2))
def test_a_target_lost_with_the_data_server_is_given_up(run, network, number):
    """Killed in the middle of writes to parts of stripes, and a target is gone with its disk: the
    group says what it waits for, and goes on when it is told to. What only that target had is an
    error until it is written anew; nothing else is lost."""
    system, caller = start(run, network, "parity3", "parity_scrub_every_seconds = 0\n")
    others = write_many(system, 9)[1:]
    old, new = data(1, 3 * REGION), data(2, 3 * REGION)
    for at in range(0, len(old), SIZE):
        caller.write(at, old[at:at + SIZE])
    caller.commit()
    server, target = system.ds[0], system.targets[number]
    writers = [threading.Thread(target=hammer, args=(Caller(system, OBJECT, f"w{n}"), new, n))
               for n in range(3)]
    for writer in writers:
        writer.start()
    time.sleep(1)
    server.process.kill()
    target.lose()
    for writer in writers:
        writer.join()
    server.process.start()
    wait_log(system, f'event=parity_waits targets={number} .* next="start it, or, if it is lost '
                     'for ever, weft ds give-up"')
    assert system.metrics(server)["weft_ds_parity_member_awaited"] == number
    give_up(system, number)
    wait_log(system, f"event=parity_given_up object={object_name(OBJECT)} between=")
    lost = lost_blocks(caller, old, new)
    assert lost and system.metrics(server)["weft_ds_parity_given_up_blocks"] == len(lost)
    target.process.start()
    wait_group(system, "whole")
    assert lost_blocks(caller, old, new) == lost
    for number_of, other in enumerate(others, 1):
        assert other.read(0, SIZE) == data(number_of)
    for at in lost:
        caller.write(at, new[at:at + BLOCK])
    assert not lost_blocks(caller, old, new)
    caller.commit()
    parity.wait_consistent(system)


def test_the_data_server_lost_while_a_target_is_gone(run, network):
    """What is written without it is in the log with its contents, and redone from there."""
    system, caller = start(run, network, "parity3")
    caller.write(0, data(1))
    caller.commit()
    server, target = system.ds[0], system.targets[0]
    target.process.kill()
    for number in range(2, 6):
        caller.write(number * 10_000, data(number, 5120), const.FILE_SYNC4)
        caller.write(number * 10_000 + 5120, data(number, 256))
        server.process.kill()
        server.process.start()
    caller.commit()
    wait_group(system, "degraded")
    found = bytearray(caller.read(0, SIZE))
    for number in range(2, 6):
        at = number * 10_000
        assert found[at:at + 5120] == data(number, 5120)
        unstable = slice(at + 5120, at + 5120 + 256)
        assert found[unstable] in (data(number, 256), data(1)[unstable])
        found[at:at + 5120], found[unstable] = data(1)[at:at + 5120], data(1)[unstable]
    assert found == data(1)
    target.process.start()
    wait_group(system, "whole")
    parity.wait_consistent(system)
