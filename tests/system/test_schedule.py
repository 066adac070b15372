"""How system tests run side by side: their order, who is alone, and what a dead worker leaves."""

import os
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import pytest
from harness import schedule
from harness.run import wait_until

pytest.importorskip("xdist")

CONFTEST = """
from harness.schedule import (order_for_workers, pytest_configure_node, pytest_runtest_protocol,
                              pytest_unconfigure, pytest_xdist_auto_num_workers,
                              pytest_xdist_make_scheduler)

def pytest_configure(config):
    config.addinivalue_line("markers", "alone: no other test runs meanwhile")

def pytest_collection_modifyitems(config, items):
    order_for_workers(config, items)
"""

TESTS = """
import os, time
import pytest

def note(kind, name):
    with open("%s", "a") as file:
        file.write(f"{kind} {name} {time.monotonic()}\\n")

def rest(name):
    note("begin", name)
    time.sleep(0.2)
    note("end", name)

@pytest.mark.alone
@pytest.mark.parametrize("n", range(3))
def test_alone(n):
    rest(f"alone{n}")

@pytest.mark.parametrize("n", range(8))
def test_with_others(n):
    rest(f"other{n}")
"""


def session(folder: Path, tests: str) -> list[tuple[str, str]]:
    """Runs tests with three workers in a session of their own. Returns names and outcomes."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_them.py").write_text(tests)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "3", "--junitxml=out.xml"],
        cwd=folder, env={**env, "PYTHONPATH": str(schedule.SYSTEM)}, timeout=60, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout)
    return [(case.get("name"), case[0].tag if len(case) else "passed")
            for case in ET.parse(folder / "out.xml").getroot().iter("testcase")]


def test_a_test_that_is_alone_has_no_company(tmp_path):
    log = tmp_path / "log"
    outcomes = session(tmp_path, TESTS % log)
    assert [said for _, said in outcomes] == ["passed"] * 11, outcomes
    running, most, order = set(), 0, []
    rows = [line.split() for line in log.read_text().splitlines()]
    for kind, name, _ in sorted(rows, key=lambda row: float(row[2])):
        if kind == "end":
            running.remove(name)
            continue
        running.add(name)
        order.append(name[:5])
        most = max(most, len(running))
        assert len(running) == 1 or not any(one.startswith("alone") for one in running), running
    assert order[:5] == ["other"] * 5  # a worker may have one of them waiting
    assert most == 3


def test_a_worker_that_dies_costs_one_test(tmp_path):
    outcomes = session(tmp_path, """
import os, pytest, time

@pytest.mark.parametrize("n", range(20))
def test_one(n):
    time.sleep(0.05)
    if n == 7:
        os._exit(3)
""")
    assert len(outcomes) == 20, outcomes
    assert [one for one in outcomes if one[1] != "passed"] == [("test_one[7]", "error")]


def item(name, fixtures=(), alone=False):
    return SimpleNamespace(path=schedule.SYSTEM / "test_x.py", name=name, fixturenames=fixtures,
                           get_closest_marker=lambda marker: alone or None)


def test_the_longest_are_first_and_those_alone_are_last():
    items = [item("alone", ("run",), True), item("shared", ("cluster", "system")),
             item("short", ("run",)), item("own", ("system", "run")), item("long")]
    schedule.order(items, {"test_x.py::long": 70, "test_x.py::own": 20})
    assert [each.name for each in items] == ["long", "own", "short", "shared", "alone"]


def test_the_table_of_durations_names_tests_that_there_are():
    for name in schedule.durations():
        file, _, test = name.partition("::")
        text = (schedule.SYSTEM / file).read_text()
        assert f"def {test.partition('[')[0]}(" in text, f"{name} in {schedule.DURATIONS}"


def test_whoever_waits_to_be_alone_is_next(tmp_path):
    came, leave = [], threading.Event()

    def test(name, alone):
        with schedule.quiet(tmp_path, alone):
            came.append(name)
            leave.wait(20)

    threads = []
    for name, alone in (("first", False), ("second", False), ("alone", True), ("late", False)):
        threads.append(threading.Thread(target=test, args=(name, alone), daemon=True))
        threads[-1].start()
        if alone:
            time.sleep(0.3)
        elif name != "late":
            wait_until(lambda count=len(threads): len(came) == count, 10, name)
    time.sleep(0.3)
    assert came == ["first", "second"]
    leave.set()
    for thread in threads:
        thread.join(20)
    assert came == ["first", "second", "alone", "late"]
