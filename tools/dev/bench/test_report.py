"""Tests of report.py: pytest tools/dev/bench."""

import json

import pytest
import report


def test_ratio_is_the_median_of_pairs_not_the_ratio_of_medians():
    # The machine slowed down for the last two pairs; the ratio of each pair stays 2.
    made = report.row("x", [20, 2, 4], [10, 1, 2], "MiB/s", target=2.0)
    assert made["ratio"] == 2.0
    assert made["pass"] is True
    assert made["spread"] == [2.0, 2.0]


def test_a_missed_target_is_said():
    made = report.row("x", [1.0], [1.0], "MiB/s", target=1.01)
    assert made["pass"] is False
    assert "MISSED" in report.table([made])


def test_unpaired_samples_are_refused():
    with pytest.raises(ValueError):
        report.row("x", [1, 2], [1], "s")


def test_publish_writes_rows_table_and_plot(tmp_path):
    rows = [report.row("reads", [3.0, 3.2], [1.0, 1.1], "GiB/CPU s", target=2.0)]
    assert report.publish("demo", rows, str(tmp_path), {"ours": [50.0], "peer": [49.0]})
    loaded = json.loads((tmp_path / "demo.json").read_text())
    assert loaded[0]["name"] == "reads" and set(loaded[0]) >= {
        "name", "ours", "peer", "ratio", "target", "pass", "unit", "spread"}
    assert (tmp_path / "demo.png").stat().st_size > 1000


def test_a_ratio_may_be_too_great():
    made = report.row("x", [1.2], [1.0], "MiB/s", target=0.9, most=1.1)
    assert made["pass"] is False
    assert "0.9..1.1" in report.table([made])
    assert report.row("x", [1.1], [1.0], "MiB/s", target=0.9, most=1.1)["pass"] is True
