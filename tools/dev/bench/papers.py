#!/usr/bin/python3
"""The papers' figures beside ours: what results/ holds of benches that measure the like of them.

    ./dev bench papers [ceft|ipvfs|lpnfs|lustre|sogp ...] [--results FOLDER]

Nothing is run. For each paper a table: what is compared, the paper's figure, ours as the row of the
bench has it, and whether it passed its target; then of what commit and machine each bench's results
are. What no bench has measured, or none can on one machine, says so. docs/papers.md has the
mechanisms, and where we depart.
"""

import argparse
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import report

NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Figure:
    """`paper`: its figure, empty if it is the peer of ours. `rows`: an expression for the names of
    all rows that are ours. A bench of "" is none; `rows` then says why."""

    paper: str
    bench: str
    rows: str
    what: str = ""  # beside the row's name


BOTH = "by load / (disk alone|network alone|not by load)"
PAPERS = {
    "ceft": ("CEFT-PVFS", [
        Figure(".79 .83 .80", "protocols", "P2 / P1, bursts, .*", "8, 16, 32 servers a group"),
        Figure(".87 .93 .81", "protocols", "P4 / P3, bursts, .*", "8, 16, 32 servers a group"),
        Figure(".87 .86 .94", "protocols", "P1 / half as many.*", "half-size system, unmirrored"),
        *(Figure(left, "stress", f"disk load {load}: not by load / without stress",
                 "what a loaded disk leaves")
          for load, left in ((1, ".69"), (2, ".40"), (3, ".30"), (4, ".27"))),
        Figure(".36", "stress", ".* and no memory: not by load / without stress", "and memory"),
        Figure("-", "stress", "disk load .*: by load / (not|without stress)"),
        Figure("> 1", "scheduling", "(cpu|disk|network|mixed|pair): by load / not",
               "Figures 13, 14, 16"),
        Figure("> 1", "scheduling", rf"\d+ MiB a client: {BOTH}", "Figure 17"),
        Figure("falls", "scheduling", r"\d+ MiB a client: a pair left out / none", "skip"),
        Figure("< 1", "scheduling", "what leaving out gains, .*", "skip, beyond 64 MB"),
        Figure("up to 2", "reads", "reads of both copies / of one"),
        Figure(">= .5", "reads", "one copy's links stressed / not"),
        Figure("-", "reads", "long readers when .*"),
        Figure("", "models", "CEFT-PVFS, .*", "MTTDL"),
    ]),
    "ipvfs": ("iPVFS", [
        Figure("", "models", "iPVFS, .*", "planner"),
        Figure("1.25 (model)", "tiers", "hits 0.6 in each tier, two: 3 x 1 / one tier"),
        Figure("1.33 (model)", "tiers", "hits 0.5 in each tier, two: 2 x 2 / one tier"),
        Figure(".70 (model)", "tiers", "hits 0.5 in each tier, two: 1 x 5 / one tier"),
        Figure(".62 (model)", "tiers", "hits 0.2 in each tier, two: 3 x 1 / one tier"),
        Figure("1 (model)", "tiers", ".*saturation / planner"),
    ]),
    "lpnfs": ("lpNFS", [
        Figure("the links", "iozone", ".*reads / the links", "IOzone"),
        Figure(".88 to .98", "iozone", ".*threads, writes / the disks", "IOzone"),
        Figure(".70 to .79", "iozone", ".*IOR.*writes / the disks", "IOR"),
        Figure(".96", "scale", "read, .*", "450 MB/s of 4 x 1 Gb/s"),
        Figure("none", "shm", ".*", "messages and pages"),
        Figure("none", "paths", ".*best way on one machine.*", "the whole way"),
    ]),
    "lustre": ("Lustre over fast interconnects", [
        *(Figure(figures, "metadata", f"Postmark, .*, {servers} / 1 data server",
                 "three transports")
          for servers, figures in ((2, ".50 .69 .60"), (4, ".37 .55 .47"), (6, ".30 .48 .40"))),
        Figure("falls", "metadata", "(create|stat), . / 1 data server", "fileop"),
        Figure("falls", "metadata", "(create|resize), . clients, .*", "op_test"),
        Figure("none", "mpi", "tile, .*", "the paper compares transports: 1.13, 1.14"),
        Figure("none", "mpi", "BT-IO .*", "the paper compares transports: 12.3 to 7.7 s"),
        Figure("2.9", "rdma", "1 MiB reads, bandwidth", "8 servers; ours is Soft-RoCE"),
        Figure("2.5", "rdma", "1 MiB writes, bandwidth", "8 servers; ours is Soft-RoCE"),
        Figure("native against IP", "", "no such network on one machine"),
    ]),
    "sogp": ("SOGP", [
        Figure("1.92 to 3.30", "segments", "noncontig, .*"),
        Figure("1.5", "segments", "tile, .*", "mpi-tile-io"),
        Figure("up to 2.32", "segments", "ior, .*"),
        Figure(".862", "segments", "hits: noncontig, 4 clients", "4 processes"),
        Figure(".816", "segments", "hits: noncontig, 256 clients", "256 processes"),
    ]),
}


class Results:
    """Of a folder; each bench's is read once."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._read: dict = {}

    def _load(self, name: str):
        file = self.folder / name
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None

    def of(self, bench: str) -> tuple[list, dict]:
        """Its rows and its context; none of either where it was not run."""
        if bench not in self._read:
            self._read[bench] = (self._load(f"{bench}.json") or [],
                                 self._load(f"{bench}.context.json") or {})
        return self._read[bench]


def value(row: dict) -> str:
    text = f"{row['ratio']:.2f}"
    if row.get("unit") and row["unit"] not in ("times", "hits", "pairs"):
        text += f"  ({report.number(row['ours'])} / {report.number(row['peer'])} {row['unit']})"
    return text


def lines_of(figure: Figure, results: Results) -> list[tuple]:
    if not figure.bench:
        return [("", figure.paper, f"{NOT_MEASURED}: {figure.rows}", "")]
    note = f" ({figure.what})" if figure.what else ""
    found = [row for row in results.of(figure.bench)[0]
             if re.fullmatch(figure.rows, row["name"])]
    if not found:
        asked = figure.rows.replace("\\d+", "N").replace(".*", "...")
        return [(f"{figure.bench}: {asked}{note}", figure.paper or "-", NOT_MEASURED, "")]
    return [(f"{figure.bench}: {row['name']}{note}",
             figure.paper or report.number(row["peer"]),
             value(row) if figure.paper else report.number(row["ours"]),
             {True: "pass", False: "MISSED", None: ""}[row["pass"]]) for row in found]


def table(paper: str, results: Results) -> str:
    title, figures = PAPERS[paper]
    lines = [("measure", "paper", "ours", ""),
             *(line for figure in figures for line in lines_of(figure, results))]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = [title, ""]
    text += ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
             for line in lines]
    text.append("")
    for bench in dict.fromkeys(figure.bench for figure in figures if figure.bench):
        text.append(f"{bench}: {origin(results.of(bench)[1])}")
    return "\n".join(text)


def origin(context: dict) -> str:
    if not context:
        return NOT_MEASURED
    machine = context.get("machine", {})
    return (f"{context.get('time', 'no time noted')}, "
            f"commit {context.get('commit', 'not noted')}, {machine.get('cores', '?')} processors "
            f"{machine.get('cpu', '?')}, Linux {machine.get('kernel', '?')}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench papers",
                                     description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("papers", nargs="*", metavar="PAPER", help=f"of {', '.join(PAPERS)}; all")
    parser.add_argument("--results", default=str(report.ROOT / "results"))
    given = parser.parse_args()
    if unknown := set(given.papers) - set(PAPERS):
        parser.error(f"no paper {', '.join(sorted(unknown))}: there are {', '.join(PAPERS)}")
    results = Results(Path(given.results))
    print("\n\n\n".join(table(paper, results) for paper in given.papers or PAPERS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
