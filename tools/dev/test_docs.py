"""Tests of docs.py, and of what pages say of each other and of the sources."""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import docs  # noqa: E402

ROOT = docs.ROOT
PAGES = sorted((ROOT / "docs").glob("*.md"))
_FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def headings(page):
    return re.findall(r"^#+ (.*)$", _FENCED.sub("", page.read_text()), re.MULTILINE)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"],
                         ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in _LINK.findall(_FENCED.sub("", page.read_text())):
        if link.startswith("http"):
            continue
        name, _, place = link.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), link
        if place:
            assert place in map(docs.anchor, headings(file)), link


def test_pages_that_are_named_elsewhere_are_there():
    """In sources, units, manual pages: docs/NAME.md, and docs/NAME.md ("Heading")."""
    listed = subprocess.run(["git", "grep", "-hE", r"docs/[a-z-]+\.md", "--", ":!results"],
                            cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    named = re.findall(r"docs/([a-z-]+\.md)(?:,? \(?\"([^\"\n]+)\"|)", listed)
    assert len(named) > 40
    for name, place in named:
        page = ROOT / "docs" / name
        assert page.exists(), name
        if place:
            assert place in page.read_text(), (name, place)


def test_options_have_the_ranges_of_the_manual():
    options = {name: rest for name, *rest in docs.manual_keys("fsal-weft.8", "OPTIONS")}
    assert options["Copies"] == ["number, 1 to 3", "1"]
    assert options["Layout_Type"] == ["files, flexfiles", "files"]
    assert options["Scrub_Every"] == ["duration, 0 to 366 d", "7 d"]
    assert options["Key_File"] == ["file", "required"]
    keys = {key: rest for key, *rest in docs.manual_keys("weft-ds.toml.5")}
    assert keys["server.listen"] == ["[address, ...]", "required"]
    assert keys["server.max_clients_per_peer"] == ["number, 0 to 1,000,000", "0"]
    assert keys["cache.size"] == ["size, 0 or 1 MiB to 16 TiB", "0"]
    assert keys["mirror.window_seconds"] == ["duration, 0 to 1 min", "2 s"]
    assert keys["server.log_level"] == ["trace, debug, info, warn, error, off", "info"]


def test_upgrades_and_the_newest_changes_have_the_versions_of_the_sources():
    said = docs.read("docs/upgrading.md")
    newest = " ".join(docs.read("debian/changelog").split("\n -- ")[0].split())
    assert newest.startswith(
        "weft (" + re.search(r"project\(weft VERSION (\S+) ", docs.read("CMakeLists.txt"))[1] + ")")
    for protocol, file, *names in [
            ("control", "rpc/peer/secure_channel.h", r"kVersions\{\.least", "kVersion"),
            ("target", "dataserver/targets/messages.h", "least", "most"),
            ("admin", "ganesha-fsal/admin/protocol.h", "kLeastVersion", "kVersion")]:
        least, most = (int(re.search(rf"\b{name} = (\d+)", docs.read(file))[1])
                       for name in names)
        versions = [str(version) for version in range(most - 1, least - 1, -1)]
        older = " and ".join(versions)
        assert re.search(rf"{protocol} protocol (?:of this version is )?number {most}, "
                         rf"and it speaks {older}\b", said), protocol
        if protocol != "admin":
            assert (f"{protocol} protocol is number {most}, and speaks "
                    f"{', '.join(versions[:-1])} and {versions[-1]}") in newest, protocol


def test_every_code_of_health_is_in_the_manual_page_and_has_something_to_do():
    source = docs.read("ganesha-fsal/admin/health.cc")
    codes = re.findall(r'^    \{"([A-Z_]+)", "', source, re.MULTILINE)
    assert len(codes) > 25
    assert codes == re.findall(r"^\*([A-Z]+(?:_[A-Z]+)*)\*$", docs.read("docs/man/weft.1.scd"),
                               re.MULTILINE)
    rows = re.findall(r"^\| (`[A-Z_]+`(?:, `[A-Z_]+`)*) \|", docs.read("docs/troubleshooting.md"),
                      re.MULTILINE)
    assert sorted(codes) == sorted(re.findall("[A-Z_]+", " ".join(rows)))


def test_every_metric_that_rules_and_dashboard_ask_for_is_on_the_page():
    of_all = {name for name, _ in docs.metrics_of_all()}
    assert len(of_all) == 6 and {"weft_build_info", "process_open_fds"} <= of_all
    there = {name for prefix in docs.METRIC_PROGRAMS for name, _ in docs.metrics(prefix)}
    assert len(there) > 100 and all(help for prefix in docs.METRIC_PROGRAMS
                                    for _, help in docs.metrics(prefix))
    for file in (ROOT / "dist/monitoring").iterdir():
        asked = set(re.findall(
            r"\b(?:weft_(?:build|mds|ds|target)|process)_\w+?(?=(?:_bucket)?\b)",
            file.read_text()))
        assert asked and asked <= there | of_all, (file.name, asked - there - of_all)


def test_the_page_on_metrics_says_what_kind_each_is():
    kinds = {kind: set() for kind in ("counter", "gauge", "histogram")}
    for path in {path for files in docs.METRIC_FILES.values() for path in files}:
        for kind, name in re.findall(r'\.(counter|gauge|histogram)\(\s*"(weft_\w+)"',
                                     docs.read(path)):
            kinds[kind].add(name)
    assert all(len(names) > 2 for names in kinds.values())
    assert all(name.endswith("_total") for name in kinds["counter"])
    assert not [name for name in kinds["gauge"] | kinds["histogram"] if name.endswith("_total")]
    said = docs.metrics_page().split(" are counters; ")[1].split(" are histograms")[0]
    assert set(re.findall(r"`(\w+)`", said)) == kinds["histogram"]


def test_files_of_walks_are_there_and_their_numbers_are_right():
    text, architecture = docs.read("docs/walks.md"), docs.read("docs/architecture.md")
    assert len(docs.walks(text)) == 5
    assert docs.walk_faults(text, architecture) == []


@pytest.mark.parametrize(("walk", "count", "fault"), [
    (["layout/handle", "layout/no"], 2, "w: there is no layout/no.h or layout/no.cc"),
    (["layout/handle", "layout/load"], 3, "w: 2 files, and 3 in architecture.md"),
    (["layout/handle", "layout/handle"], 2, "w: layout/handle twice"),
    (["rpc/base/error"], 1, "w: rpc/base/error is left out"),
    ([], 0, "w: 0 files, and 0 in architecture.md"),
    (["layout/handle"], None, "w: 1 files, and None in architecture.md")])
def test_what_is_wrong_with_a_walk_is_told(walk, count, fault):
    text = "# W\n\nLeft out: `rpc/base/error`.\n\n## W\n\n" + "".join(
        f"- `{file}`: something\n" for file in walk)
    assert docs.walk_faults(text, f"| [w](walks.md#w) | {count} | 1 |\n") == [fault]


def test_a_walk_that_only_architecture_knows_is_told():
    text = "Left out: `rpc/base/error`.\n\n## W\n\n- `layout/load`: its load\n"
    numbers = "| [w](walks.md#w) | 1 | 1 |\n| [v](walks.md#v) | 1 | 1 |\n"
    assert docs.walk_faults(text, numbers) == ["v: 0 files, and 1 in architecture.md"]


def test_links_have_the_titles_of_pages():
    assert docs.titled("[keys.md](keys.md), [it](keys.md)") == (
        "[Changing the key](keys.md), [it](keys.md)")


def test_manual_pages_are_linked_but_in_code():
    assert docs.linked("see weft-ds(8), weft(1).\n") == (
        "see [weft-ds(8)](man/weft-ds.8.md), [weft(1)](man/weft.1.md).\n")
    for text in ("`weft(1)`\n", "```\nweft(1)\n```\n", "[weft(1)](x.md)\n", "weft(3)\n"):
        assert docs.linked(text) == text


@pytest.mark.skipif(not (shutil.which("mkdocs") and shutil.which("mandoc")
                         and shutil.which("scdoc")), reason="./dev docs installs what this needs")
def test_the_site_builds_without_a_warning_and_takes_nothing_from_elsewhere(tmp_path):
    pages, site = tmp_path / "pages", tmp_path / "site"
    docs.stage(pages)
    config = (ROOT / "mkdocs.yml").read_text()
    for page in pages.rglob("*.md"):
        assert f" {page.relative_to(pages)}\n" in config, f"{page.name} is not in nav"
    config = config.replace("build/docs-pages", str(pages)).replace("build/docs\n", f"{site}\n")
    (tmp_path / "mkdocs.yml").write_text(config)
    done = subprocess.run(["mkdocs", "build", "--strict", "-f", str(tmp_path / "mkdocs.yml")],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    assert "WARNING" not in done.stdout
    built = sorted(site.rglob("*.html"))
    assert len(built) > 25
    for file in built:
        text = file.read_text()
        fetched = re.findall(r"<(?:script|img|iframe)[^>]*src=\"([^\"]*)\"", text)
        fetched += re.findall(r"<link[^>]*href=\"([^\"]*)\"", text)
        assert [name for name in fetched if "//" in name] == [], file.name
        assert "](" not in re.sub(r"<(pre|code)\b.*?</\1>", "", text, flags=re.DOTALL), file.name
