"""Which system test runs when, and where: the part of pytest-xdist that is ours.

System tests mostly wait, for leases and timeouts, so several workers run them side by side, each a
process with runs (run.py) and a shared system (conftest.py) of its own. The order is the same for
all workers: tests with a system of their own, those that share one, and tests marked `alone`,
each kind with the longest first. So a worker has a shared system only once it needs one, the end
is made of short tests, and the processors are given to the `alone` ones once, not again and again.

Invariants:
 1. A test marked `alone` runs while no other test of the session does; no order is needed for it.
 2. A worker that died takes one test with it, which is reported as failed and not run again.

How long tests take is in durations.tsv, which need not be complete or new: nothing but the order
comes from it. `python3 -m harness.schedule RESULTS.xml` makes it from the results of a run.
"""

import fcntl
import os
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from contextlib import contextmanager
from pathlib import Path

import pytest

SYSTEM = Path(__file__).resolve().parents[1]
DURATIONS = SYSTEM / "durations.tsv"
WORTH_NOTING_S = 8
UNKNOWN_S = 5
WORKERS_PER_PROCESSOR = 2
WORKER_MEMORY = 3 << 30  # two client machines, five servers, and what they keep cached
ALONE_WAIT_S = 1800


def workers() -> int:
    """How many workers this machine is good for: the processors wait for most of the time, so twice
    as many as there are, and no more than fit into memory."""
    page = os.sysconf("SC_PAGE_SIZE")
    fit = os.sysconf("SC_PHYS_PAGES") * page // WORKER_MEMORY
    return max(1, min(WORKERS_PER_PROCESSOR * (os.cpu_count() or 1), fit))


def durations(file: Path = DURATIONS) -> dict[str, float]:
    """Seconds by test; see name_of."""
    rows = (line.split("\t") for line in file.read_text().splitlines() if line[:1] != "#")
    return {name: float(seconds) for seconds, name in rows}


def name_of(item) -> str:
    """file::test[parameters], the file relative to tests/system, wherever pytest was started."""
    try:
        file = item.path.relative_to(SYSTEM)
    except ValueError:
        file = item.path
    return f"{file}::{item.name}"


def order(items: list, known: dict[str, float]) -> None:
    """Sorts the tests of a session, in place."""
    def key(item):
        names = item.fixturenames
        shared = "system" in names and "run" not in names
        alone = item.get_closest_marker("alone") is not None
        return alone, shared, -known.get(name_of(item), UNKNOWN_S)
    items.sort(key=key)


def order_for_workers(config, items: list) -> None:
    """The order of the files stays where there are no workers."""
    if hasattr(config, "workerinput"):
        order(items, durations())


def _scheduler_class():
    from xdist.scheduler import LoadScopeScheduling  # only here: -n 0 does without xdist

    class LongestFirst(LoadScopeScheduling):
        """One test at a time goes to a worker that has at most one waiting. Without one it would
        not begin the one before, since pytest wants to know what comes next."""

        def _split_scope(self, nodeid):
            return nodeid

        def _reschedule(self, node):
            if self.workqueue and self._pending_of(self.assigned_work[node]) > 1:
                return
            super()._reschedule(node)

        def remove_node(self, node):
            """Of a worker that ended. What it had not run goes to the others, but for the test in
            which it died, which is returned."""
            units = self.assigned_work.pop(node)
            left = [nodeid for unit in units.values() for nodeid, done in unit.items() if not done]
            if not left:
                return None
            died = left.pop(0)
            self.workqueue.update({nodeid: {nodeid: False} for nodeid in left})
            for other in self.assigned_work:
                self._reschedule(other)
            return died

    return LongestFirst


def _take(file, kind: int, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError("the tests of other workers do not come to an end") from None
            time.sleep(0.05)


@contextmanager
def quiet(folder: Path, alone: bool):
    """Around a test. Several may be inside, or one that is alone. Whoever waits to be alone holds
    the door, so that those who come later do not go before."""
    deadline = time.monotonic() + ALONE_WAIT_S
    with open(folder / "room", "a") as room:
        with open(folder / "door", "a") as door:
            _take(door, fcntl.LOCK_EX, deadline)
            _take(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH, deadline)
        yield


# -- hooks, which conftest.py imports


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    return workers()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return _scheduler_class()(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """In the session that has the workers, for each of them: the folder with their locks."""
    config = node.config
    if not hasattr(config, "weft_locks"):
        config.weft_locks = tempfile.TemporaryDirectory(prefix="weft-tests-")
    node.workerinput["locks"] = config.weft_locks.name


def pytest_unconfigure(config):
    if hasattr(config, "weft_locks"):
        config.weft_locks.cleanup()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    locks = getattr(item.config, "workerinput", {}).get("locks")
    if locks is None:
        yield
        return
    with quiet(Path(locks), item.get_closest_marker("alone") is not None):
        yield


# -- durations.tsv


def _from_results(file: str) -> list[str]:
    rows = []
    for case in ET.parse(file).getroot().iter("testcase"):
        seconds = float(case.get("time") or 0)
        module = case.get("classname").removeprefix("tests.system.").replace(".", "/")
        if seconds >= WORTH_NOTING_S and case.find("skipped") is None:
            rows.append((seconds, f"{module}.py::{case.get('name')}"))
    return [f"{seconds:.0f}\t{name}" for seconds, name in sorted(rows, reverse=True)]


def main() -> None:
    head = f"# Seconds and test, of tests that take at least {WORTH_NOTING_S} s: see schedule.py"
    print("\n".join([head, *_from_results(sys.argv[1])]))


if __name__ == "__main__":
    main()
