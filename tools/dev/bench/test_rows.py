"""Tests of what benches make of their samples: pytest tools/dev/bench."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import iozone  # noqa: E402
import paths  # noqa: E402
import protocols  # noqa: E402
import scheduling  # noqa: E402
import tiers  # noqa: E402
import wan  # noqa: E402


def by_name(rows: list) -> dict:
    return {row["name"]: row for row in rows}


@pytest.mark.parametrize("passed, lent, best", [(0.9, 1.0, "lent pages"), (1.0, 0.9, "descriptor")])
def test_the_better_way_on_one_machine_is_judged(passed, lent, best):
    of = dict(zip(paths.ARMS, (1.0, passed, lent, 2.0)))
    rows = by_name(paths.rows_of({"64 KiB reads, warm": {way: [{"mib_per_s": 100 * part}]
                                                         for way, part in of.items()}}))
    row = rows.pop(f"64 KiB reads, warm: best way on one machine, {best} / own folder")
    assert row["pass"] and row["ratio"] == 1.0
    assert all(other["pass"] is None for other in rows.values())


def test_paths_are_measured_in_all_sizes_and_kinds():
    assert len(paths.CASES) == 16 and list(paths.CASES) == list(paths.PROXY_CASES)
    assert all("--no-pnfs" in case[2] for case in paths.PROXY_CASES.values())


@pytest.mark.parametrize("kind, again", [("initial writers", "rewriters"),
                                         ("readers", "re-readers")])
def test_iozones_rate_is_what_the_parent_sees_of_the_first_time(kind, again):
    lines = [f"\t{who} throughput for  4 {what} \t=  {rate} kB/sec"
             for what, rates in ((kind, (901113.5, 44523.25)), (again, (581653.2, 1721.79)))
             for who, rate in zip(("Children see", "Parent sees"), rates)]
    assert iozone.PARENT.search("\n".join(lines)).group(1) == "44523.25"


def burst_rows(rates: dict) -> dict:
    samples = {(arm, 2): [rate] for arm, rate in rates.items()}
    given = SimpleNamespace(clients=[2], rounds=1)
    return by_name(protocols.burst_rows(samples, [18.0], given))


def test_synchrony_below_the_papers_span_is_held_against_partners_links():
    found = {"P1": 36.0, "P2": 20.0, "P3": 18.0, "P4": 17.0, protocols.HALF: 36.0}
    rows = burst_rows(found)
    assert rows["P2 / P1, bursts, 2 clients"]["pass"] is None
    assert all(row["pass"] is not False for row in rows.values())
    # Four leaders on a third of 18 MiB/s each carry 24.
    assert rows["P2 / what partners' links carry, bursts, 2 clients"]["peer"] == pytest.approx(24)
    rows = burst_rows(found | {"P2": 18.0})
    assert rows["P2 / what partners' links carry, bursts, 2 clients"]["pass"] is False


def test_asynchrony_has_to_pay():
    rows = burst_rows({"P1": 20.0, "P2": 20.0, "P3": 18.0, "P4": 14.0, protocols.HALF: 36.0})
    missed = {name for name, row in rows.items() if row["pass"] is False}
    assert missed == {"P1 / P2, bursts, 2 clients", "P4 / P3, bursts, 2 clients",
                      f"P1 / {protocols.HALF}, bursts, 2 clients"}


def sizes(by_load: float, never: float, one: float, calm: float = 90.0) -> dict:
    rates = (calm, by_load, never, one, one, one)
    return dict(zip(scheduling.WAYS, ([rate] for rate in rates)))


def test_a_choice_by_one_resource_is_to_be_worse():
    rows = by_name(scheduling.size_rows({4: sizes(60, 20, 80), 64: sizes(60, 20, 80)}))
    assert {name for name, row in rows.items() if row["pass"] is False} == {
        f"64 MiB a client: by load / {other}"
        for other in ("disk alone", "network alone", "not by load")}


@pytest.mark.parametrize("long, passes", [(50, True), (70, False)])
def test_what_leaving_out_gains_is_to_fall(long, passes):
    rows = by_name(scheduling.size_rows({64: sizes(60, 20, 20), 256: sizes(long, 20, 20)}))
    assert rows["what leaving out gains, 256 / 64 MiB"]["pass"] is passes


def test_hits_are_told_by_tier():
    arm = SimpleNamespace(reads_counted=lambda: {"disks": (30, 70), "data servers": (5, 5)})
    assert tiers.Arm.hit(arm, {"disks": (0, 40), "data servers": (5, 5)}) == {
        "disks": 0.5, "data servers": 0}


def test_links_without_loss_say_how_much_of_them_is_used():
    samples = {((100.0, 0.0), "read", 1): ([11.0], [11.0]),
               ((100.0, 1.0), "read", 1): ([1.0], [2.0])}
    rows = by_name(wan.rows_of(samples, 12 * wan.MIB))
    assert {name: row["pass"] for name, row in rows.items()} == {
        "100 ms, read 1 file": True, "100 ms, read 1 file, of the link": True,
        "100 ms, 1 % loss, read 1 file": False}
    of_link = rows["100 ms, read 1 file, of the link"]
    assert of_link["ratio"] == pytest.approx(11 / 12)
