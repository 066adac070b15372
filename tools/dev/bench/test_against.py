"""Tests of against.py: pytest tools/dev/bench."""

import against
import pytest


def runs(unit, *values):
    return [{"x": {"name": "x", "ours": value, "peer": 1.0, "unit": unit}} for value in values]


def test_the_same_figure_passes():
    assert against.compared(runs("MiB/s", 10, 11), runs("MiB/s", 10, 11))[0]["pass"] is True


def test_slower_in_every_round_is_missed():
    made = against.compared(runs("MiB/s", 9, 9.2, 9.1), runs("MiB/s", 10, 10, 10))[0]
    assert made["pass"] is False
    assert made["ratio"] == pytest.approx(0.91)


def test_slower_in_most_rounds_and_faster_in_one_is_noise():
    made = against.compared(runs("MiB/s", 9, 10.5, 9.1), runs("MiB/s", 10, 10, 10))[0]
    assert made["pass"] is True


def test_more_milliseconds_are_worse():
    made = against.compared(runs("ms", 12, 12), runs("ms", 10, 10))[0]
    assert made["pass"] is False
    assert against.compared(runs("ms", 8, 8), runs("ms", 10, 10))[0]["pass"] is True


def test_a_figure_that_only_one_tree_has_is_left_out():
    here = [{**run, "new": run["x"]} for run in runs("MiB/s", 10)]
    assert [row["name"] for row in against.compared(here, runs("MiB/s", 10))] == ["x"]
