#!/usr/bin/python3
"""Another benchmark, by this tree and by the tree of another commit in turn.

    ./dev bench against COMMIT NAME [--rounds 3] [-- ARGUMENTS OF NAME]

Says whether a change made something slower. The commit is checked out and built below
build/against/, then ./dev bench NAME runs in both trees, one after the other, as often as there are
rounds; the tree that begins changes with each. `ours` of every row here is compared with `ours`
there. A figure passes when the median of the ratios is at least 0.97, or when 1 lies within its
spread: then the machine's noise is greater than the difference. For milliseconds it is the other
way round.

A commit with other patches of Ganesha gets a Ganesha of its own, below build/against/ too.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import report

LEAST = 0.97
# Its Ganesha may need what this tree's does not.
PACKAGES = ". tools/dev/common.sh && . tools/dev/deps.sh && deps"
LESS_IS_BETTER = {"ms", "us", "s", "CPU s/GiB"}


def surroundings(tree: Path) -> dict[str, str]:
    """The environment for commands in this tree: which Ganesha it is built and run with."""
    ganesha = tree.with_name(f"{tree.name}.ganesha")
    if tree == report.ROOT or not ganesha.exists():
        return dict(os.environ)
    return {**os.environ, "WEFT_GANESHA_PREFIX": str(ganesha),
            "WEFT_GANESHA_WORK": f"{ganesha}.work"}


def run(tree: Path, *command: str) -> str:
    return subprocess.run(command, cwd=tree, check=True, stdout=subprocess.PIPE,
                          text=True).stdout.strip()


def checked_out(commit: str) -> Path:
    """The tree of the commit, built. Raises SystemExit with a line that says what is wrong."""
    try:
        full = run(report.ROOT, "git", "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    except subprocess.CalledProcessError:
        raise SystemExit(f"against: no commit '{commit}'") from None
    tree = report.ROOT / "build" / "against" / full[:12]
    if not tree.exists():
        run(report.ROOT, "git", "worktree", "prune")
        run(report.ROOT, "git", "worktree", "add", "--quiet", "--detach", str(tree), full)
    stamps = {run(where, "bash", "tools/dev/ganesha.sh", "--stamp")
              for where in (report.ROOT, tree)}
    if len(stamps) != 1:
        tree.with_name(f"{tree.name}.ganesha").mkdir(exist_ok=True)
    environment = surroundings(tree)
    if "WEFT_GANESHA_WORK" in environment:  # the tree need not know the variable when it configures
        subprocess.run(["bash", "-c", f"WEFT_ROOT=$PWD; {PACKAGES}"], cwd=tree, check=True,
                       env=environment)
        subprocess.run(["bash", "tools/dev/ganesha.sh"], cwd=tree, check=True, env=environment)
        subprocess.run(["cmake", "--preset", "release",
                        f"-DWEFT_GANESHA_PREFIX={environment['WEFT_GANESHA_PREFIX']}"],
                       cwd=tree, check=True, env=environment, stdout=subprocess.DEVNULL)
    subprocess.run(["./dev", "build"], cwd=tree, check=True, env=environment)
    return tree


def one(tree: Path, results: Path, name: str, arguments: list[str]) -> tuple[dict, dict]:
    """The rows by name, and the context, of one run in this tree."""
    results.mkdir(parents=True, exist_ok=True)
    for old in results.glob(f"{name}*.json"):
        old.unlink()
    # A target that is missed in one short run is no failure here.
    subprocess.run(["./dev", "bench", name, *arguments, "--results", str(results)], cwd=tree,
                   check=False, stdout=subprocess.DEVNULL, env=surroundings(tree))
    try:
        rows = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))
        context = json.loads((results / f"{name}.context.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SystemExit(f"against: ./dev bench {name} in {tree} ended without results") from None
    return {r["name"]: r for r in rows}, context


def compared(here: list[dict], there: list[dict]) -> list[dict]:
    """Rows from the rounds of both trees; a figure that one of them has not is left out."""
    rows = []
    for name, first in here[0].items():
        if not all(name in run_of for run_of in here + there):
            continue
        ours, peer = ([run_of[name]["ours"] for run_of in tree] for tree in (here, there))
        if first["unit"] in LESS_IS_BETTER:
            made = report.row(name, ours, peer, first["unit"], target=0.0, most=1 / LEAST)
        else:
            made = report.row(name, ours, peer, first["unit"], target=LEAST)
        low, high = made["spread"]
        made["pass"] = made["pass"] or low <= 1 <= high
        rows.append(made)
    return rows


def main() -> int:
    given = sys.argv[1:]
    rest = given[given.index("--") + 1:] if "--" in given else []
    parser = argparse.ArgumentParser(prog="./dev bench against", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("name", help="of the benchmark")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", default=str(report.ROOT / "results"))
    asked = parser.parse_args(given[:given.index("--")] if "--" in given else given)
    other = checked_out(asked.commit)
    arguments = rest or ["--rounds", "1"]
    trees = {"this tree": report.ROOT, asked.commit: other}
    runs: dict = {name: [] for name in trees}
    idle: dict = {name: [] for name in trees}
    for number in range(asked.rounds):
        order = list(trees) if number % 2 == 0 else list(reversed(trees))
        for name in order:
            print(f"round {number + 1} of {asked.rounds}: {asked.name}, {name}", flush=True)
            rows, context = one(trees[name], trees[name] / "build" / "against-results", asked.name,
                                arguments)
            runs[name].append(rows)
            idle[name] += [v for arm in context["cpu_idle_percent"].values() for v in arm]
    rows = compared(runs["this tree"], runs[asked.commit])
    passed = report.publish(f"against-{asked.name}", rows, asked.results, idle,
                            {"here": run(report.ROOT, "git", "rev-parse", "HEAD"),
                             "there": run(other, "git", "rev-parse", "HEAD")})
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
