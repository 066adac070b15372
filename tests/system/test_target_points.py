"""A target or a data server killed or stopped at random points of a verified write load: nothing
acknowledged is lost, parity and checksums are right on the disks, and no page of memory stays lent.

No kernel client, no metadata server, so a point costs about a second. WEFT_FAULT_POINTS (20; ./dev
test faults: 500) is how many there are, over all kinds of store together; WEFT_FAULT_SEED (drawn,
and printed) chooses them."""

import os
import random
import signal

import pytest
from harness import parity
from harness.cluster import Options
from harness.copies import objects_of
from harness.handles import object_name
from harness.points import Load
from harness.run import wait_until
from harness.standalone import Standalone

pytestmark = pytest.mark.faults

POINTS = int(os.environ.get("WEFT_FAULT_POINTS", "20"))
KINDS = ("shm", "tcp", "parity2", "parity3", "parity4")
WRITES_BETWEEN = 3  # faults, at least: a busy machine makes few
LOOK_EVERY = 12  # points, between two looks at the disks; then a target of a group is lost


class Points:
    """One fault after the other. A process that was killed is back when a fault is over."""

    def __init__(self, system: Standalone, load: Load, rng: random.Random):
        self.system, self.load, self.rng = system, load, rng

    def _rest(self, longest_s: float) -> None:
        self.load.watch(self.rng.uniform(0, longest_s))

    def _kill(self, *victims) -> None:
        for victim in victims:
            victim.process.signal(signal.SIGKILL)
        for victim in victims:
            victim.process.kill()
        if self.rng.randrange(2) == 0:
            self._rest(1.5)
        for victim in self.rng.sample(victims, len(victims)):
            victim.process.start()

    def _stop(self, victim) -> None:
        """Now and then for longer than a group waits for a target."""
        victim.process.pause()
        self._rest(3 if self.rng.randrange(5) == 0 else 0.3)
        victim.process.resume()

    def next(self) -> str:
        """A fault between some writes and the next ones."""
        self.load.watch_writes(WRITES_BETWEEN)
        self._rest(0.6)
        targets = self.system.targets
        target = self.rng.choice(targets)
        server = self.system.ds[0]
        kind = self.rng.randrange(12)
        if kind < 3:
            self._kill(target)
            return f"{target.name} killed"
        if kind < 5:
            self._kill(server)
            return "data server killed"
        if kind < 7:
            self._stop(target)
            return f"{target.name} stopped"
        if kind < 8:
            self._stop(server)
            return "data server stopped"
        if kind < 10:  # all writers wait for it, and the other targets have done their part
            target.process.pause()
            self._rest(0.3)
            then = self.rng.choice(("resumed", "killed"))
            if then == "killed":
                target.process.kill()
            self._kill(server)
            target.process.resume() if then == "resumed" else target.process.start()
            return f"{target.name} stopped, data server killed, {target.name} {then}"
        some = self.rng.sample(targets, self.rng.randrange(1, len(targets) + 1))
        victims = self.rng.sample([server, *some], len(some) + 1)
        self._kill(*victims)
        return f"{' and '.join(one.name for one in victims)} killed"

    def lose(self) -> str:
        """A target of a group is lost for ever: a new one is there when the group knows. To be
        called when the group is whole; the next faults meet the rebuild."""
        target = self.rng.choice(self.system.targets)
        target.lose()
        wait_until(lambda: self.system.group_state() in ("degraded", "rebuilding"), 60,
                   f"the group to be without {target.name}", 0.1)
        target.process.start()
        return f"{target.name} lost for ever"


def on_disks(system: Standalone, name: str) -> bytes:
    if system.store.startswith("parity"):
        parity.wait_consistent(system)
        return parity.content(system, name)
    (space,) = system.targets[0].spaces().values()
    return objects_of(space)[name].read_bytes()


def look(system: Standalone, load: Load) -> None:
    """Everything is read back, the disks are right, and nobody has memory in use."""
    content = load.hold()
    if system.store.startswith("parity"):
        wait_until(lambda: system.group_state() == "whole", 60, "the group to be whole", 0.1)
    found = on_disks(system, object_name(load.fileid))
    assert found == content[:len(found)] and not any(content[len(found):])
    last = {}

    def nothing_in_use() -> bool:
        last.update(system.memory())
        return not any(last.values())
    try:
        wait_until(nothing_in_use, 30, "memory in use to be 0", 0.2)
    except TimeoutError as error:
        raise AssertionError(f"{error}: {last}") from None
    load.release()


@pytest.mark.parametrize("kind", KINDS)
def test_faults_at_random_points(run, network, kind):
    seed = int(os.environ.get("WEFT_FAULT_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    print(f"seed {seed}", flush=True)
    rng = random.Random(f"{seed} {kind}")
    system = Standalone(run, network, Options(
        store=kind, metrics=True, store_options="parity_patience_seconds = 1\n"
        if kind.startswith("parity") else ""))
    load = Load(system, seed)
    points = Points(system, load, rng)
    for number in range(1, max(1, POINTS // len(KINDS)) + 1):
        what = points.next()
        print(f"{kind} seed {seed} point {number}: {what}", flush=True)
        for server in (*system.ds, *system.targets):
            assert server.process.alive, f"{server.name} ended with {server.process.status}"
        if number % LOOK_EVERY == 0:
            look(system, load)
            if kind.startswith("parity"):
                print(f"{kind} seed {seed}: {points.lose()}", flush=True)
    look(system, load)
    result = load.end()
    print(f"{kind} seed {seed}: {result}", flush=True)
    assert result["writes"] >= WRITES_BETWEEN * number and result["checks"] > 0
