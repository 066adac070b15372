"""What operators' pages show is typed on bare machines, page after page, and does what they say.
So are commands that they only name (besides.py).

m1 gets a metadata server, d1 to d3 data servers, d4 comes later; c1 is a Linux client. They have
the addresses that the pages have: 192.0.2.1, .11 to .14, .101. None has a package of ours at first.
"""

import json
import os
import re
import shutil
import time
import tomllib
from pathlib import Path

import besides
import pytest
import roots
import shown
from harness.client import start_client
from harness.network import Network, Node
from harness.run import Run
from test_machines import allow_what_there_is

REPOSITORY = Path(__file__).parents[2]
TOKEN = re.compile(r"\b[0-9a-f]{32}\b")
# What says how things are: it may take a moment until they are as the page has it.
ASKS = re.compile(r"weft (health|doctor|version|status|ds list|df|verify|\w+ status)")
SCP = re.compile(r"scp -r?p (\w+:)?/(\S+) (\w+:)?/(\S+)")
PATIENCE_S = 90
INSTALLED_S = 300  # from bare machines to a client whose I/O all went to data servers


@pytest.mark.parametrize("page", [*shown.PAGES, "../README", "../CONTRIBUTING"])
def test_every_block_says_what_becomes_of_it(page):
    for block in shown.blocks(page):
        assert block.kind, f"{block.where}: is it run, and if not, why?"
        if block.kind == "run":
            assert block.commands(), block.where


def test_all_operators_pages_are_looked_at():
    index = (REPOSITORY / "mkdocs.yml").read_text()
    before = index.split("  - Reference:")[0]
    pages = set(re.findall(r"- ([a-z-]+)\.md", before)) - {"concepts", "glossary"}
    assert pages == set(shown.PAGES)


PAGE = """Text
<!-- run -->
```
m1# one
a 17
...
d1# two
```
- in a list
  <!-- append c1:/etc/fstab -->
  ```
  line
  ```
<!-- run on a new m1 -->
```
m1# one
```
<!-- part of d1:/etc/x.toml -->
```
[server]
```
<!-- run -->
Text between.
```
none
```
"""


def test_blocks_are_found():
    run, append, new, part, bare = shown.blocks_of("x.md", PAGE)
    assert (run.kind, run.where) == ("run", "x.md:3")
    assert run.commands() == [shown.Command("m1", "one", ["a 17", "..."]),
                              shown.Command("d1", "two")]
    assert (append.machine, append.file, append.lines) == ("c1", "/etc/fstab", ["line"])
    assert (new.kind, new.new, run.new) == ("run", "m1", "")
    assert (part.kind, part.machine, part.file) == ("part", "d1", "/etc/x.toml")
    assert bare.kind == ""
    with pytest.raises(ValueError, match="x.md:24: no prompt"):
        bare.commands()


@pytest.mark.parametrize(("lines", "said", "differs"), [
    (["up 3 s", "..."], "up 14.2 s\nx\n", ""),
    (["up 8.3 s"], "up 2 min 46 s\n", ""),
    (["up 8.3 s 1"], "up 1 d 3 h 2\n", ""),
    (["1 2 s"], "1 s\n", "0 0"),
    (["tcp from 2"], "tcp from 1, 3\n", ""),
    (["a", "...", "b"], "a\nx\ny\nb\n", ""),
    (["a", "b"], "a\nx\nb\n", "b"),
    (["a"], "a\nb\n", "and more: b"),
    (["a", "...", "c"], "a\nb\n", "c"),
    ([], "anything\n", "")])
def test_what_is_printed_is_compared(lines, said, differs):
    assert shown.prints_as_shown(lines, said) == differs


class House:
    """The machines, by the names of the pages, and what was typed so far."""

    def __init__(self, run: Run, packages: Path):
        self.token = ""
        self.made_new = 0
        self.network = Network(run, "192.0.2")
        # Of what ours depend on, not of ours: machines of a test reach no mirror.
        root = roots.Root(run, "ready", [roots.bare(packages)], packages)
        root.install(roots.PACKAGES)
        root.run(f"dpkg --purge {' '.join(roots.PACKAGES)}; rm -rf /etc/weft /var/lib/weft")
        self.bare = root
        nodes = {"m1": self.network.mds()}
        nodes |= {f"d{number}": self.network.data_server(number) for number in range(1, 5)}
        self.machines = {name: self.boot(name, node) for name, node in nodes.items()}
        self.client = start_client(run, self.network)
        # Its root is read only: what the pages change is in memory.
        self.client.run("cp -a /etc /tmp/etc && mount --bind /tmp/etc /etc\n"
                        "mount -t tmpfs tmpfs /srv && useradd -M alice", root=True)

    def boot(self, name: str, node: Node) -> roots.Machine:
        machine = roots.Machine(self.bare, name, node)
        machine.run("ip route replace default via 192.0.2.254\nmkdir -p /srv/weft/a /var/backups\n"
                    "mount -t tmpfs -o size=2G tmpfs /srv/weft/a")
        allow_what_there_is(machine)
        return machine

    def make_new(self, what: str) -> None:
        """A machine is lost, or all are. A bare one with its address takes its place."""
        names = [what] if what in self.machines else list(self.machines)
        if what == "m1":  # what was removed is so at data servers, too
            self.machines[what].wait("weft -o json status | grep -q '\"removals_queued\": 0,'",
                                     "objects of removed files to go")
        for name in names:
            self.machines[name].stop()
        for name in names:
            self.made_new += 1
            self.machines[name] = self.boot(f"{name}-{self.made_new}", self.machines[name].node)

    def type(self, machine: str, text: str) -> tuple[int, str]:
        """Returns its exit status and what it printed."""
        if words := SCP.fullmatch(text):  # no machine has ssh
            source, to = (self.machines[(there or machine).rstrip(":")].path / path
                          for there, path in (words.group(1, 2), words.group(3, 4)))
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, to)
            return 0, ""
        if machine == "c1":
            if text.startswith("weft "):
                self.client.install(Path("/usr/bin/weft"), self.machines["m1"].path)
            done = self.client.run(text, 240, check=False, root=True)
            return done.status, done.output
        # What a terminal shows. The status is told apart from it.
        said = self.machines[machine].run(f"cd /packages; ({text}) 2>&1 || echo STATUS=$?",
                                          check=False, timeout_s=300)
        failed = re.search(r"^STATUS=(\d+)\n\Z", said, re.MULTILINE)
        return (int(failed[1]), said[:failed.start()]) if failed else (0, said)

    def do(self, command: shown.Command, where: str) -> str:
        text = TOKEN.sub(self.token, command.text) if self.token else command.text
        until = time.monotonic() + PATIENCE_S
        while True:
            status, said = self.type(command.machine, text)
            differs = shown.prints_as_shown(command.prints, said)
            if status == 0 and (recording() or not differs):
                break
            if time.monotonic() > until or not ASKS.match(text):
                assert status == 0, f"{where}: {text}: {status}\n{said}"
                assert not differs, f"{where}: {text}: not as shown: {differs}\n{said}"
            time.sleep(1)
        if text.startswith(("weft init", "weft token")):
            self.token = TOKEN.search(said).group()
        return said

    def do_besides(self, command: besides.Typed) -> None:
        until = time.monotonic() + PATIENCE_S
        while True:
            status, said = self.type(command.machine, command.text)
            lacks = [part for part in command.says if not re.search(part, said, re.MULTILINE)]
            if status in command.statuses and not lacks:
                return
            assert ASKS.match(command.text) and time.monotonic() < until, (
                f"{command.machine}# {command.text}: {status}, without {lacks}\n{said}")
            time.sleep(1)

    def keeps_two_copies(self) -> None:
        """A user's file is at two data servers, whole, when its client has closed it."""
        def stored() -> int:  # KiB
            return sum(int(machine.run("du -sk /srv/weft/a").split()[0])
                       for name, machine in self.machines.items() if name in ("d1", "d2", "d3"))
        before = stored()
        self.client.run("head -c 16M /dev/urandom >/tmp/new && cp /tmp/new /mnt/scratch && "
                        "cmp /tmp/new /mnt/scratch/new")
        assert stored() - before >= 2 * (16 << 10)
        self.client.run("rm /tmp/new /mnt/scratch/new")

    def part_is_right(self, block: shown.Block) -> None:
        """The file is one that its program takes, with what the block has."""
        machine = self.machines[block.machine]
        file = tomllib.loads((machine.path / block.file.lstrip("/")).read_text())
        for name, value in tomllib.loads("\n".join(block.lines)).items():
            file[name] = {**file.get(name, {}), **value} if isinstance(value, dict) else value
        machine.write("/etc/weft/with-part.toml", toml(file))
        said = machine.run("weft check-config /etc/weft/with-part.toml 2>&1", check=False)
        assert "good" in said, f"{block.where}: {said}"
        machine.run("rm /etc/weft/with-part.toml")

    def append(self, block: shown.Block) -> None:
        text = "\n".join(block.lines) + "\n"
        if block.machine == "c1":
            self.client.run(f"cat >>{block.file} <<'END'\n{text}END\n", root=True)
        else:
            file = self.machines[block.machine].path / block.file.lstrip("/")
            with file.open("a") as end:
                end.write(text)


def toml(tables: dict) -> str:
    """Of a file that has tables, and lists of tables, of plain values, which TOML has as JSON."""
    found = []
    for name, content in tables.items():
        for table in content if isinstance(content, list) else [content]:
            head = f"[[{name}]]" if isinstance(content, list) else f"[{name}]"
            found += [head, *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    return "\n".join(found) + "\n"


def recording() -> str:
    """A file for what commands print, to be put into pages; nothing is compared then."""
    return os.environ.get("WEFT_SHOW", "")


@pytest.fixture(scope="module")
def house(packages):
    with Run() as run:  # its network is another than that of other tests
        yield House(run, packages)


@pytest.mark.parametrize("page", [page for page in shown.PAGES if any(
    block.kind in ("run", "append", "part") for block in shown.blocks(page))])
def test_pages_are_right(house, page):
    began = time.monotonic()
    for block in shown.blocks(page):
        if block.new:
            house.make_new(block.new)
        if block.kind == "append":
            house.append(block)
        if block.kind == "part":
            house.part_is_right(block)
        for command in block.commands() if block.kind == "run" else []:
            said = house.do(command, block.where)
            if recording():
                with open(recording(), "a") as record:
                    record.write(f"### {block.where}\n{command.machine}# {command.text}\n{said}")
    if page == "installing":
        took = time.monotonic() - began
        assert took < INSTALLED_S, f"four machines took {took:.0f} s"
        house.keeps_two_copies()
    if page == besides.AFTER:
        for command in besides.TYPED:
            house.do_besides(command)
