"""Tests of papers.py: pytest tools/dev/bench."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import papers  # noqa: E402
import report  # noqa: E402


def printed(folder: Path, paper: str) -> str:
    return re.sub(" +", " ", papers.table(paper, papers.Results(folder)))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "commit", lambda: "0123456789ab")
    monkeypatch.setattr(report, "plot", lambda *_: None)
    rows = [report.row("P2 / P1, bursts, 2 clients", [8.0], [10.0], "MiB/s", 0.79),
            report.row("P2 / P1, acknowledged, 2 clients", [7.0], [10.0], "MiB/s", 0.79)]
    report.publish("protocols", rows, str(tmp_path), {})
    return tmp_path


def test_the_papers_figures_stand_beside_ours(folder):
    text = printed(folder, "ceft")
    assert ("protocols: P2 / P1, bursts, 2 clients (8, 16, 32 servers a group) .79 .83 .80 "
            "0.80 (8 / 10 MiB/s) pass\n") in text
    assert "acknowledged" not in text


def test_of_what_commit_and_machine_results_are(folder):
    assert re.search(r"^protocols: 20\d\d-.*, commit 0123456789ab, \d+ processors .*, Linux ",
                     printed(folder, "ceft"), re.MULTILINE)


def test_what_is_not_there_is_said(folder):
    text = printed(folder, "ceft")
    assert "reads: reads of both copies / of one up to 2 not measured\n" in text
    assert "\nreads: not measured\n" in text


def test_a_row_may_have_the_papers_figure_as_its_peer(folder):
    rows = [report.row("CEFT-PVFS, duplicated 99% of the time: times as long", [129.5], [130], "")]
    report.publish("models", rows, str(folder), {})
    assert "times as long (MTTDL) 130 130\n" in printed(folder, "ceft")


def test_hit_rates_are_rows(folder):
    rows = [report.row("hits: noncontig, 4 clients", [0.9321], [1.0], "hits", 0.863)]
    report.publish("segments", rows, str(folder), {})
    assert "hits: noncontig, 4 clients (4 processes) .862 0.93 pass\n" in printed(folder, "sogp")


@pytest.mark.parametrize("paper", papers.PAPERS)
def test_every_bench_that_is_named_exists(paper):
    for figure in papers.PAPERS[paper][1]:
        assert re.compile(figure.rows)
        if figure.bench:
            assert (Path(papers.__file__).parent / f"{figure.bench}.py").exists()
