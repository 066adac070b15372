"""Commands that pages and manuals name are commands that there are, with options they have.

Blocks of commands are typed in full by test_documentation.py; here are those within sentences and
tables, what README.md has of a tree that is built, and the examples of weft(1). They are looked up
in the programs' own help. And each command of weft(1) is typed by some test on a system that runs.
"""

import functools
import os
import re
import shlex
import subprocess
from pathlib import Path

import besides
import pytest
import shown

REPOSITORY = Path(__file__).parents[2]
WEFT = Path(os.environ.get("WEFT_BUILD", REPOSITORY / "build/release")) / "tools/weft/weft"
ABOVE = ["--socket", "--output", "-o", "--help", "-h"]  # good behind every command


def pages() -> list[Path]:
    return [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md",
            *sorted((REPOSITORY / "docs").glob("*.md"))]


def in_sentences() -> list[str]:
    text = "\n".join(page.read_text() for page in pages())
    found = re.findall(r"`(weft(?: [^`]+)?)`", text)
    found += re.findall(r"^build/release/tools/weft/(weft .+?)(?:  .*)?$", text, re.MULTILINE)
    found += re.findall(r"^\t(weft .+)$", (REPOSITORY / "docs/man/weft.1.scd").read_text(),
                        re.MULTILINE)
    return sorted(set(found))


@functools.cache
def help_of(*verbs: str) -> str:
    return subprocess.run([WEFT, *verbs, "--help"], capture_output=True, text=True,
                          check=True).stdout


@functools.cache
def verbs_of(*verbs: str) -> list[str]:
    section = help_of(*verbs).partition("\nSubcommands:\n")[2].partition("\n\n")[0]
    return re.findall(r"^  ([a-z-]+)\b", section, re.MULTILINE)


def wrong(command: str) -> str | None:
    """What is not so; None: it is a command."""
    words = shlex.split(command.partition("|")[0])[1:]
    verbs: list[str] = []
    options: list[str] = []
    operand = False
    for word in words:
        if word.startswith("-"):
            options.append(word.partition("=")[0])
        elif not operand and word in verbs_of(*verbs):
            verbs.append(word)
        else:
            if not verbs and options and options[-1] in ("-o", "--output", "--socket"):
                continue  # its value
            if not operand and not options and verbs_of(*verbs):
                return f"no command {' '.join(['weft', *verbs, word])}"
            operand = True
    for option in options:
        if option not in ABOVE and not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])",
                                                 help_of(*verbs)):
            return f"{' '.join(['weft', *verbs])} has no option {option}"
    return None


@pytest.fixture
def program():
    if not WEFT.exists():
        pytest.skip("the command is not built: ./dev build")


def test_commands_of_the_tree_that_are_named_are_there():
    named = set(re.findall(r"\./dev ([a-z]+)", "\n".join(page.read_text() for page in pages())))
    there = subprocess.run([REPOSITORY / "dev", "help"], capture_output=True, text=True,
                           check=True).stdout
    assert len(named) > 8 and named <= set(re.findall(r"^  ([a-z]+)  ", there, re.MULTILINE))


def test_commands_that_are_named_are_there(program):
    named = in_sentences()
    assert len(named) > 50 and "weft verify /mnt" in named
    assert not [trouble for command in named if (trouble := wrong(command))]


def test_what_is_wrong_with_a_command_is_found(program):
    assert wrong("weft ds lst") == "no command weft ds lst"
    assert wrong("weft ds list --colour") == "weft ds list has no option --colour"
    assert wrong("weft -o json status") is None
    assert wrong("weft layout show FILE") is None


def of_the_manual() -> set[str]:
    text = (REPOSITORY / "docs/man/weft.1.scd").read_text().partition("\n# HEALTH\n")[0]
    return set(re.findall(r"^\*weft ([a-z -]+)\*", text, re.MULTILINE))


def test_each_command_is_typed_by_a_test():
    typed = [command.text for page in shown.PAGES for block in shown.blocks(page)
             if block.kind == "run" for command in block.commands()]
    typed += [command.text for command in besides.TYPED]
    commands = of_the_manual()
    assert len(commands) > 45 and {"doctor", "ds give-up"} <= commands
    assert {command for command in commands if not any(
        re.search(rf"\bweft {command}(?![\w-])", text) for text in typed)} == {*besides.ELSEWHERE}


@pytest.mark.parametrize(("command", "test"), besides.ELSEWHERE.items())
def test_tests_that_type_commands_are_there(command, test):
    file, name = test.split("::")
    text = (REPOSITORY / "tests/system" / file).read_text()
    assert f"\ndef {name}(" in text
    assert f'"{command.split()[-1]}"' in text


def all_verbs(*above: str) -> list[tuple[str, ...]]:
    below = [all_verbs(*above, verb) for verb in verbs_of(*above)]
    return [above, *(verbs for some in below for verbs in some)]


def test_help_fits_a_screen(program):
    verbs = all_verbs()
    assert len(verbs) > 50 and ("ds", "list") in verbs
    wide = {(*verb, line) for verb in verbs for line in help_of(*verb).split("\n")
            if len(line) > 80}
    assert not wide
