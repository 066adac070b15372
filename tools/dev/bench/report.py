"""What every benchmark ends with: rows as JSON, a table, and a plot.

A row compares ours with a peer that ran in the same process of measuring, arms alternating:

    name     what was measured
    ours     the median of our arm, in `unit`
    peer     the median of the other arm, in `unit`
    ratio    the median of the pairwise ratios (ours/peer)
    target   the least ratio that passes, or None for a row that only informs
    most     the greatest that passes; None nearly always
    pass     target <= ratio <= most, or None
    unit     of `ours` and `peer`
    spread   the least and the greatest pairwise ratio, [low, high]

Beside the rows the file .context.json holds what the reader needs to judge them: the machine, the
commit, the time, and CPU idle in per cent while each arm ran.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

# What .context.json says of every bench; modules that set up arms fill it.
CONTEXT: dict = {}


def parser(name, about, rounds, seconds=None):
    """For what every bench is told; the first line of `about` says what it is. A bench whose rounds
    are of a number of seconds takes it as the type that it is."""
    made = argparse.ArgumentParser(prog=f"./dev bench {name}", description=about.split("\n")[0])
    made.add_argument("--rounds", type=int, default=rounds)
    if seconds is not None:
        made.add_argument("--seconds", type=type(seconds), default=seconds)
    made.add_argument("--results", default=str(ROOT / "results"))
    return made


def row(name, ours, peer, unit, target=None, most=None):
    """Builds a row from two equally long lists of samples; sample i of both ran side by side."""
    if not ours or len(ours) != len(peer):
        raise ValueError(f"{name}: {len(ours)} samples of ours, {len(peer)} of the peer")
    ratios = [a / b for a, b in zip(ours, peer)]
    ratio = statistics.median(ratios)
    return {
        "name": name,
        "ours": statistics.median(ours),
        "peer": statistics.median(peer),
        "ratio": ratio,
        "target": target,
        "most": most,
        "pass": None if target is None else ratio >= target and (most is None or ratio <= most),
        "unit": unit,
        "spread": [min(ratios), max(ratios)],
        "runs": len(ratios),
    }


class CpuIdle:
    """Machine-wide idle time in per cent between construction and stop(), from /proc/stat."""

    def __init__(self):
        self._start = self._read()

    @staticmethod
    def _read():
        with open("/proc/stat", encoding="ascii") as stat:
            fields = [int(word) for word in stat.readline().split()[1:9]]
        return sum(fields), fields[3] + fields[4]

    def stop(self):
        total, idle = (b - a for a, b in zip(self._start, self._read()))
        return 100.0 * idle / total if total else 0.0


def machine():
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"cpu": model, "cores": os.cpu_count(), "kernel": platform.release()}


def commit():
    """Of the tree that measures, "-dirty" if more than results is changed; None outside of git."""
    def git(*words):
        done = subprocess.run(["git", *words], cwd=ROOT, text=True, capture_output=True,
                              check=False)
        return done.stdout.strip()
    head = git("rev-parse", "--short=12", "HEAD")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!results")
    return head + ("-dirty" if changed else "") if head else None


def number(value):
    """Short, for tables."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _target(r):
    if r["target"] is None:
        return ""
    return f">= {r['target']:g}" if r["most"] is None else f"{r['target']:g}..{r['most']:g}"


def table(rows):
    """The rows as aligned text, one line each."""
    head = ("measure", "ours", "peer", "unit", "ratio", "spread", "target", "")
    lines = [head]
    for r in rows:
        lines.append((
            r["name"], number(r["ours"]), number(r["peer"]), r["unit"], f"{r['ratio']:.2f}",
            f"{r['spread'][0]:.2f}..{r['spread'][1]:.2f}",
            _target(r),
            {True: "pass", False: "MISSED", None: ""}[r["pass"]],
        ))
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip()
                     for line in lines)


def plot(name, rows, path):
    """A bar for each row's ratio with its spread, and a mark at its target."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.5 * len(rows)))
    places = range(len(rows))
    low = [r["ratio"] - r["spread"][0] for r in rows]
    high = [r["spread"][1] - r["ratio"] for r in rows]
    colours = ["#b03030" if r["pass"] is False else "#30688e" for r in rows]
    axes.barh(places, [r["ratio"] for r in rows], xerr=[low, high], color=colours, capsize=3,
              error_kw={"elinewidth": 1})
    for place, r in zip(places, rows):
        for bound in (r["target"], r["most"]):
            if bound is not None:
                axes.plot([bound] * 2, [place - 0.45, place + 0.45], color="black", lw=2)
    axes.axvline(1.0, color="grey", lw=0.8, ls=":")
    axes.set_yticks(list(places), [r["name"] for r in rows])
    axes.invert_yaxis()
    axes.set_xlabel("ratio, ours / peer (bar: median; line: least to greatest; black: target)")
    axes.set_title(f"./dev bench {name}")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def publish(name, rows, folder, idle, extra=None):
    """Writes NAME.json, NAME.txt and NAME.png into `folder`, prints the table.

    idle: CPU idle in per cent, for each arm a list of one number a run.
    Returns True when no row missed its target.
    """
    os.makedirs(folder, exist_ok=True)
    notes = {"bench": name, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
             "commit": commit(), "machine": machine(), "cpu_idle_percent": idle, **CONTEXT}
    notes.update(extra or {})
    base = os.path.join(folder, name)
    with open(base + ".json", "w", encoding="utf-8") as out:
        json.dump(rows, out, indent=1)
        out.write("\n")
    with open(base + ".context.json", "w", encoding="utf-8") as out:
        json.dump(notes, out, indent=1)
        out.write("\n")
    text = table(rows)
    with open(base + ".txt", "w", encoding="utf-8") as out:
        out.write(text + "\n")
    plot(name, rows, base + ".png")
    print(text)
    for arm, values in idle.items():
        print(f"CPU idle while {arm} ran: median {statistics.median(values):.0f}%")
    print(f"written: {base}.json, .txt, .png, .context.json")
    return all(r["pass"] is not False for r in rows)
