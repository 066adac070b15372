#!/usr/bin/env python3
"""Makes the pages of the site that ./dev docs builds, as Markdown, in a folder.

They are the pages of docs/ and CONTRIBUTING.md; the manual pages, which mandoc renders; and two
reference pages: of all options, which is read from the manual pages, and of all metrics, which is
read from the sources. What cannot be read is an error, not a gap. So is a file that docs/walks.md
names and that is not there, and a number of files that is wrong.

usage: docs.py FOLDER
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^ *```")


class Unreadable(Exception):
    """A source has something that this program does not understand."""


# What the sources say.

_STRINGS = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
# A call that counts, or two constants that are given to several such calls.
_SHARED = r"_(?:cache|checksum)_\w+"  # of several programs: their prefix goes before it
_METRIC = re.compile(rf'"(weft_\w+|{_SHARED})"(?:,\s*|;\s*constexpr char \w+\[\] =\s*)' + _STRINGS)
METRIC_FILES = {
    "weft_mds": ["ganesha-fsal/server/metrics.cc"],
    "weft_ds": ["dataserver/main/metrics.cc", "dataserver/segments/segment_metrics.h",
                "dataserver/store/cache_metrics.h", "dataserver/sums/sum_metrics.h"],
    "weft_target": ["dataserver/targets/target.cc", "dataserver/store/cache_metrics.h",
                    "dataserver/sums/sum_metrics.h"],
}
METRIC_OF_ALL = "rpc/base/process_metrics.cc"
METRIC_PROGRAMS = {"weft_mds": "The metadata server", "weft_ds": "A data server",
                   "weft_target": "A target"}


def read(path: str) -> str:
    return (ROOT / path).read_text()


def joined(literals: str) -> str:
    """The text of adjacent string literals."""
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals)).replace('\\"', '"')


def metrics(prefix: str) -> list[tuple[str, str]]:
    """(name, help) of all that servers of a kind print, in the order of the sources."""
    found: dict[str, str] = {}
    for path in METRIC_FILES[prefix]:
        text = read(path)
        here = {}
        for name, help_text in _METRIC.findall(text):
            name = name if name.startswith("weft_") else prefix + name
            here.setdefault(name, joined(help_text))
        named = {name if name.startswith("weft_") else prefix + name
                 for name in re.findall(rf'"(weft_(?:mds|ds|target)_\w+|{_SHARED})"', text)}
        if here.keys() != named:
            raise Unreadable(f"{path}: metrics {sorted(named ^ here.keys())}")
        found |= here
    return list(found.items())


def metrics_of_all() -> list[tuple[str, str]]:
    """(name, help) of what every server prints."""
    return [(name, joined(help_text)) for name, help_text in re.findall(
        r'(?:gauge|counter)\("(\w+)",\s*' + _STRINGS, read(METRIC_OF_ALL))]


def histograms() -> list[str]:
    """Names of all that are such."""
    text = "\n".join(read(path) for files in METRIC_FILES.values() for path in files)
    return sorted(set(re.findall(r'\.histogram\(\s*"(weft_\w+)"', text)))


# What the manual says. Tests beside the programs' own tables compare it with them.

_RANGE = r"(?:, ((?:0 or )?\d[\d,]*(?: ?[A-Za-z]+)? to \d[\d,]*(?: ?[A-Za-z]+)?))?"
_KEY = re.compile(rf"\*([\w.]+)\* = (.*?){_RANGE}(?: \(([^()]*)\))?(?=$|, \*[\w.]+\* = )")


def manual_keys(name: str, section: str = "") -> list[tuple[str, str, str]]:
    """(key, values, default) of each key below "# SECTION", or below all headings "# [table]"."""
    rows, prefix, inside = [], "", False
    for line in read(f"docs/man/{name}.scd").splitlines():
        if line.startswith("# "):
            table_name = re.fullmatch(r"# \[+(\w+)\]+", line)
            prefix = f"{table_name[1]}." if table_name else ""
            inside = line == f"# {section}" if section else bool(table_name)
        elif inside and re.match(r"\*[\w.]+\* = ", line):
            for key, form, limits, default in _KEY.findall(line):
                values = re.sub(r'[_"*\\]', "", form).replace(" | ", ", ")
                rows.append((prefix + key, f"{values}, {limits}" if limits else values,
                             default.strip('"')))
    return rows


# What pages say of the sources.

_FILE = r"`((?:[\w-]+/)+[\w-]+)`"
_WALK_COUNT = re.compile(r"^\| \[[^]]*\]\(walks\.md#([\w-]+)\) \| (\d+) \|", re.MULTILINE)


def anchor(heading: str) -> str:
    """As a link to the heading has it."""
    kept = re.sub(r"[^\w\s-]", "", heading.lower())
    return re.sub(r"[-\s]+", "-", kept.strip())


def walks(text: str) -> dict[str, list[str]]:
    """By a walk's anchor its files, in the order of walks.md."""
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    return {anchor(section.split("\n", 1)[0]): re.findall(rf"^- {_FILE}:", section, re.MULTILINE)
            for section in sections}


def walk_faults(text: str, architecture: str) -> list[str]:
    """What is wrong with the walks of walks.md, and with their numbers in architecture.md."""
    found = walks(text)
    out = re.search(r"^Left out.*?\n\n", text, re.MULTILINE | re.DOTALL)
    left_out = re.findall(_FILE, out.group()) if out else []
    faults = [] if left_out else ["walks.md leaves nothing out"]
    for walk, files in {"left out": left_out, **found}.items():
        faults += [f"{walk}: there is no {file}.h or {file}.cc" for file in files
                   if not any((ROOT / f"{file}{ending}").exists() for ending in (".h", ".cc"))]
        faults += [f"{walk}: {file} twice" for file in sorted(set(files)) if files.count(file) > 1]
    for walk, files in found.items():
        faults += [f"{walk}: {file} is left out" for file in files if file in left_out]
    said = {walk: int(count) for walk, count in _WALK_COUNT.findall(architecture)}
    for walk in sorted(found.keys() | said.keys()):
        there = len(found.get(walk, []))
        if there == 0 or said.get(walk) != there:
            faults.append(f"{walk}: {there} files, and {said.get(walk)} in architecture.md")
    return faults


# Pages.

def table(header: list[str], rows: list[tuple]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


OPTIONS_INTRODUCTION = """# Options

All that can be configured. This page is made from the manual pages, which say what each is for.

## FSAL block of the metadata server

fsal-weft(8).

"""
METRICS_INTRODUCTION = """# Metrics

What servers print for Prometheus where they have an address for it; this page is made from the
sources. Names ending in `_total` are counters; {histograms} are histograms; all others are gauges.

"""


def options_table(header: str, rows: list[tuple[str, str, str]]) -> str:
    return table([header, "values", "default"],
                 [(f"`{name}`", values, default) for name, values, default in rows])


def options_page() -> str:
    text = OPTIONS_INTRODUCTION + options_table("option", manual_keys("fsal-weft.8",
                                                                              "OPTIONS"))
    for name in ("weft-ds.toml", "weft-target.toml"):
        text += f"\n## {name}\n\n{name}(5).\n\n" + options_table("key",
                                                                  manual_keys(f"{name}.5"))
    return text


def metrics_page() -> str:
    names = ", ".join(f"`{name}`" for name in histograms())
    text = METRICS_INTRODUCTION.format(histograms=names)
    rows = [(f"`{name}`", said) for name, said in metrics_of_all()]
    text += f"## Every server\n\n{table(['metric', 'means'], rows)}"
    for prefix, program in METRIC_PROGRAMS.items():
        rows = [(f"`{name}`", said) for name, said in metrics(prefix)]
        text += f"\n## {program}\n\n{table(['metric', 'means'], rows)}"
    return text


def manuals() -> dict[str, Path]:
    """By name and section: "weft-ds(8)"."""
    return {re.sub(r"(.*)\.(\d)", r"\1(\2)", file.stem): file
            for file in sorted((ROOT / "docs/man").glob("*.scd"))}


_MANUAL = re.compile(r"(?<![\w`\[-])((?:fsal-)?weft(?:-ds|-target|-fsck|-restore)?(?:\.toml)?)"
                     r"\((\d)\)(?!\])")


def manual_page(name: str, file: Path) -> str:
    man = subprocess.run(["scdoc"], stdin=file.open("rb"), stdout=subprocess.PIPE, check=True)
    html = subprocess.run(["mandoc", "-T", "html", "-O", "fragment"], input=man.stdout,
                          stdout=subprocess.PIPE, check=True).stdout.decode()
    html = html.split('<div class="manual-text">')[1].rsplit("</div>", 1)[0]
    html = re.sub(r"</?section[^>]*>\n?", "", html)
    html = re.sub(r"<h1[^>]*><a[^>]*>(.*?)</a></h1>", r"\n## \1\n", html, flags=re.S)
    html = re.sub(r"<b>((?:fsal-)?weft[\w.-]*)</b>\((\d)\)", lambda found: (
        f'<a href="{found[1]}.{found[2]}.html">{found[0]}</a>'
        if f"{found[1]}({found[2]})" in manuals() else found[0]), html)
    html = re.sub(r"\bdocs/([\w-]+)\.md\b", r'<a href="../\1.html">\1</a>', html)
    return f"# {name}\n\n{html}"


def titled(text: str) -> str:
    """With the titles of pages where the text of a link is a file's name."""
    def title(found: re.Match) -> str:
        heading = read(f"docs/{found[1]}").splitlines()[0].removeprefix("# ")
        return f"[{heading}]({found[1]})"

    return re.sub(r"\[([\w-]+\.md)\]\(\1\)", title, text)


def linked(text: str) -> str:
    """With links to manual pages where they are named, but in code."""
    def link(found: re.Match) -> str:
        name = f"{found[1]}({found[2]})"
        return f"[{name}](man/{found[1]}.{found[2]}.md)" if name in manuals() else name

    lines, in_code = [], False
    for line in text.splitlines(keepends=True):
        if FENCE.match(line):
            in_code = not in_code
        if not in_code and not line.startswith(("    ", "#")):
            parts = re.split(r"(`[^`]*`|\[[^\]]*\]\([^)]*\))", line)
            line = "".join(part if index % 2 else _MANUAL.sub(link, part)
                           for index, part in enumerate(parts))
        lines.append(line)
    return "".join(lines)


CSS = """/* Manual pages as mandoc makes them, and wide tables. */
.Bd-indent { margin-left: 2em; }
.md-typeset .permalink { color: inherit; }
.md-typeset table:not([class]) { font-size: 0.7rem; }
.md-grid { max-width: 72rem; }
"""


def stage(out: Path) -> None:
    """Everything that the site is made of, in an empty folder."""
    if faults := walk_faults(read("docs/walks.md"), read("docs/architecture.md")):
        raise Unreadable("; ".join(faults))
    if out.exists():
        shutil.rmtree(out)
    (out / "man").mkdir(parents=True)
    for picture in (ROOT / "docs").glob("*.png"):
        shutil.copy(picture, out)
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text().replace("(../CONTRIBUTING.md)", "(contributing.md)")
        text = text.replace("(man/)", "(man/weft.1.md)")
        # Sources are not part of the site.
        text = re.sub(r"\[([^]]*)\]\(\.\./[^)]*\)", r"\1", text)
        (out / page.name).write_text(linked(titled(text)))
    contributing = re.sub(r"\]\(docs/([\w./-]+)\)", r"](\1)", read("CONTRIBUTING.md"))
    (out / "contributing.md").write_text(contributing.replace("[LICENSE](LICENSE)", "LICENSE"))
    for name, file in manuals().items():
        (out / "man" / f"{file.stem}.md").write_text(manual_page(name, file))
    (out / "reference-options.md").write_text(linked(options_page()))
    (out / "reference-metrics.md").write_text(metrics_page())
    (out / "site.css").write_text(CSS)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    stage(Path(sys.argv[1]))
