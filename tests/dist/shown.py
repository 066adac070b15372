"""What pages of docs/ show to be typed, and what they say comes of it.

Before each block of code an operator's page has a comment, which readers do not see:

    <!-- run -->                          commands, which a test runs in the order of the page
    <!-- run on a new m1 -->              the same; before it a bare machine takes the place of m1
    <!-- run on new machines -->          the same, of all machines
    <!-- append m1:/etc/weft/x.conf -->   a part of a file: the test puts it at the file's end
    <!-- part of d1:/etc/weft/x.toml -->  tables of a file: the test checks the file with these keys
    <!-- not run: REASON -->              what no test can run

A command has a prompt that names its machine: "m1# weft health". The lines below it are what it
prints: all of them, but where a line "..." stands for any number of others.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
# In the order in which somebody does what they say, with one system.
PAGES = ["overview", "installing", "sizing", "networks", "clients", "operating", "small-files",
         "data-servers", "targets", "keys", "upgrading", "backup", "troubleshooting", "fail-over",
         "security", "installing-by-hand"]
MACHINES = ["m1", "d1", "d2", "d3", "d4", "c1"]

_MARK = re.compile(r"<!-- (run|run on a new (\w+)|run on new (machines)|"
                   r"(?:append|part of) (\w+):(/\S+)|not run: .+) -->")
_FENCE = re.compile(r"^( *)```(.*)$")
_PROMPT = re.compile(rf"^({'|'.join(MACHINES)})# (.+)$")


@dataclass
class Command:
    machine: str
    text: str
    prints: list[str] = field(default_factory=list)


@dataclass
class Block:
    where: str          # page and line
    kind: str           # run, append, part, not; "": it has no mark
    lines: list[str]
    machine: str = ""   # of append and part
    file: str = ""
    new: str = ""       # a machine, or "machines"

    def commands(self) -> list[Command]:
        found: list[Command] = []
        for line in self.lines:
            if prompt := _PROMPT.match(line):
                found.append(Command(prompt[1], prompt[2]))
            elif found:
                found[-1].prints.append(line)
            else:
                raise ValueError(f"{self.where}: no prompt in front of {line!r}")
        return found


def blocks_of(name: str, text: str) -> list[Block]:
    found: list[Block] = []
    open_block: Block | None = None
    mark, indent = None, ""
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if open_block is not None:
            if fence:
                open_block = None
            else:
                open_block.lines.append(line.removeprefix(indent))
        elif fence:
            indent = fence[1]
            open_block = Block(f"{name}:{number}", mark[1].split(" ")[0] if mark else "", [])
            if mark:
                open_block.new = mark[2] or mark[3] or ""
                open_block.machine, open_block.file = mark[4] or "", mark[5] or ""
            found.append(open_block)
            mark = None
        else:
            mark = _MARK.fullmatch(line.strip())
    return found


def blocks(page: str) -> list[Block]:
    return blocks_of(f"{page}.md", (DOCS / f"{page}.md").read_text())


def even(line: str) -> str:
    """Without what differs from one system and moment to another: numbers and how many there are in
    a list of them, their units and signs, tokens, and the width of columns."""
    line = re.sub(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UUID", line)
    line = re.sub(r"\b[0-9a-f]{16,64}\b", "HEX", line)
    line = re.sub(r"\b\d+ (?:d|h|min) \d+ (?:h|min|s)\b", "0", line)  # a duration in two units
    line = re.sub(r"\d+(?:\.\d+)?(?: ?(?:[KMGTP]i?B(?:/s)?|B/s|B|ms|us|s|min|h|d|%)\b)?", "0", line)
    line = re.sub(r"\b0(?:, 0)+\b", "0", line)
    return " ".join(line.split())


def prints_as_shown(shown: list[str], said: str) -> str:
    """Empty if it does; otherwise the first line that is not there."""
    left = [even(line) for line in said.splitlines() if line.strip()]
    skipping = False
    for line in (even(line) for line in shown if line.strip()):
        if line == "...":
            skipping = True
            continue
        if skipping and line in left:
            left = left[left.index(line):]
        if not left or left[0] != line:
            return line
        left = left[1:]
        skipping = False
    return "" if skipping or not left or not shown else f"and more: {left[0]}"
