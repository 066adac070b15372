#!/usr/bin/python3
"""The models of 'weft plan' against the figures of the papers that they are from.

    ./dev bench models

Nothing is measured: a row compares what the planner computes with what iPVFS or CEFT-PVFS print, or
with what follows from their formulas where a print is inconsistent (docs/papers.md says where).
models-curves.png draws what 'weft plan performance --paper' and 'weft plan reliability --paper'
print.
"""

import json
import os
import subprocess
import sys

import loopback  # noqa: F401, finds the harness
import matplotlib
import report
from harness import paths, servers

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402, after the choice of what draws

CLOSE = (0.99, 1.01)
SYSTEMS = ("PVFS 18", "6 x 2", "3 x 5", "2 x 8")
# Requests a second at saturation, by hits.
SMALL = {0: (2562, 1708, 2135, 2277), .2: (3203, 2669, 3336, 2400), .5: (5124, 6832, 3600, 2400),
         .6: (6405, 7200, 3600, 2400), .8: (12810, 7200, 3600, 2400)}
LARGE = {0: (256, 147, 183, 228), .5: (512, 586, 360, 240), .6: (641, 720, 360, 240),
         .8: (1281, 720, 360, 240)}
RESPONSE = {100: (4.51, 3.22), 3000: (7.25, 4.58), 4500: (18.18, 6.48)}  # ms: PVFS 18, 6 x 2
WINDOW = {"64 KiB": (.334, .645, 1.37), "640 KiB": (.428, .645, 1.27)}
DYNAMIC = {("PVFS 18", 256, 0): .750, ("6 x 2", 656, 156): .750, ("6 x 2", 656, 196): .778,
           ("6 x 2", 724, 156): .796}
RELIABILITY = {1: 368, .99: 130, .95: 36, 0: 2}


def paper(what: str) -> list:
    """The tables of 'weft plan WHAT --paper'."""
    binary = servers.require(paths.weft_command())
    done = subprocess.run([str(binary), "plan", what, "--paper", "-o", "json"], text=True,
                          capture_output=True, check=True)
    return json.loads(done.stdout)["tables"]


def compare(name: str, computed: float, printed: float, unit: str) -> dict:
    return report.row(name, [computed], [printed], unit, *CLOSE)


def performance_rows(tables: list) -> list:
    small, large, window, response, _, dynamic = tables
    rows = []
    for size, table, expected in (("64 KiB", small, SMALL), ("640 KiB", large, LARGE)):
        for hits, *rates in table["rows"]:
            for system, rate, printed in zip(SYSTEMS, rates, expected.get(hits, ())):
                rows.append(compare(f"iPVFS, {size}, hits {hits}, {system}", rate, printed,
                                    "requests/s"))
    for rate, *times in response["rows"]:
        for system, time, printed in zip(SYSTEMS, times, RESPONSE.get(rate, ())):
            rows.append(compare(f"iPVFS, 64 KiB, {rate:.0f} requests/s, {system}: response", time,
                                printed, "ms"))
    for size, *values in window["rows"]:
        for what, value, printed in zip(("from hits", "to hits", "best"), values, WINDOW[size]):
            rows.append(compare(f"iPVFS, {size}: 6 x 2 pays, {what}", value, printed, ""))
    for system, io_mb, target_mb, hits, _ in dynamic["rows"]:
        if (system, io_mb, target_mb) in DYNAMIC:
            rows.append(compare(f"iPVFS, Figure 8: {system}, {io_mb:.0f} and {target_mb:.0f} MB",
                                hits, DYNAMIC[system, io_mb, target_mb], "hits"))
    return rows


def draw_curves(axis, table: dict) -> None:
    for number, system in enumerate(SYSTEMS):
        axis.plot([row[0] for row in table["rows"]],
                  [row[number + 1] for row in table["rows"]], marker="o", label=system)
    axis.set_xlabel(table["columns"][0])
    axis.legend(fontsize=8)


def draw_caches(axis, table: dict) -> None:
    """A bar for each system with each size of caches, and above it how often both tiers hit."""
    sizes = list(dict.fromkeys((io_mb, target_mb) for _, io_mb, target_mb, *_ in table["rows"]))
    width = 1 / (len(SYSTEMS) + 1)
    for number, system in enumerate(SYSTEMS):
        rows = [row for row in table["rows"] if row[0] == system]
        bars = axis.bar([sizes.index((row[1], row[2])) + number * width for row in rows],
                        [row[4] for row in rows], width, label=system)
        axis.bar_label(bars, [f"{row[3]:.3f}" for row in rows], fontsize=7)
    axis.set_xticks([place + (len(SYSTEMS) - 1) / 2 * width for place in range(len(sizes))],
                    [f"{io_mb:.0f} and {target_mb:.0f} MB" for io_mb, target_mb in sizes],
                    fontsize=8)
    axis.set_xlabel("caches of an I/O node and of a target")
    axis.set_ylabel(table["columns"][4])
    axis.legend(fontsize=8)


def draw_reliability(axis, table: dict) -> None:
    bars = axis.bar([f"{row[0]:.0%}" for row in table["rows"]], [row[2] for row in table["rows"]])
    axis.bar_label(bars, fontsize=8)
    axis.set_yscale("log")
    axis.set_xlabel(f"{table['columns'][0]} of the time")
    axis.set_ylabel(table["columns"][2])


def draw(tables: list, reliability: dict) -> plt.Figure:
    """Saturation by hits and response by rate, small requests and large ones; Figure 8; how much
    longer a mirrored system lasts."""
    figure, axes = plt.subplots(3, 2, figsize=(11, 12))
    small, large, _, response, large_response, dynamic = tables
    for axis, table, drawn in zip(
            axes.flat, (small, large, response, large_response, dynamic, reliability),
            (*[draw_curves] * 4, draw_caches, draw_reliability), strict=True):
        drawn(axis, table)
        axis.set_title(table["title"], fontsize=9)
        axis.grid(alpha=0.3)
    figure.tight_layout()
    return figure


def main() -> int:
    given = report.parser("models", __doc__, rounds=1).parse_args()
    tables = paper("performance")
    rows = performance_rows(tables)
    reliability = paper("reliability")[0]
    for part, _, ratio in reliability["rows"]:
        rows.append(compare(f"CEFT-PVFS, duplicated {part:.0%} of the time: times as long", ratio,
                            RELIABILITY[part], ""))
    os.makedirs(given.results, exist_ok=True)
    draw(tables, reliability).savefig(os.path.join(given.results, "models-curves.png"), dpi=100)
    return 0 if report.publish("models", rows, given.results, {}) else 1


if __name__ == "__main__":
    sys.exit(main())
