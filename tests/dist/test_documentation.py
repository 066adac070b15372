"""What operators' pages show is typed on bare machines, page after page, and does what they say.

m1 gets a metadata server, d1 to d3 data servers, d4 comes later; c1 is a Linux client. They have
the addresses that the pages have: 192.0.2.1, .11 to .14, .101. None has a package of ours at first.
"""

import os
import re
import shutil
import time
from pathlib import Path

import pytest
import roots
import shown
from harness.client import start_client
from harness.network import Network
from harness.run import Run
from test_machines import allow_what_there_is

REPOSITORY = Path(__file__).parents[2]
TOKEN = re.compile(r"\b[0-9a-f]{32}\b")
# What says how things are: it may take a moment until they are as the page has it.
ASKS = re.compile(r"weft (health|doctor|version|status|ds list|df|verify|\w+ status)")
SCP = re.compile(r"scp -p /(\S+) (\w+):/(\S+)")
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
    pages = set(re.findall(r"- ([a-z-]+)\.md", before)) - {"glossary"}
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
<!-- run -->
Text between.
```
none
```
"""


def test_blocks_are_found():
    run, append, bare = shown.blocks_of("x.md", PAGE)
    assert (run.kind, run.where) == ("run", "x.md:3")
    assert run.commands() == [shown.Command("m1", "one", ["a 17", "..."]),
                              shown.Command("d1", "two")]
    assert (append.machine, append.file, append.lines) == ("c1", "/etc/fstab", ["line"])
    assert bare.kind == ""
    with pytest.raises(ValueError, match="x.md:16: no prompt"):
        bare.commands()


@pytest.mark.parametrize(("lines", "said", "differs"), [
    (["up 3 s", "..."], "up 14.2 s\nx\n", ""),
    (["up 8.3 s"], "up 2 min 46 s\n", ""),
    (["up 8.3 s 1"], "up 1 d 3 h 2\n", ""),
    (["1 2 s"], "1 s\n", "0 0"),
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
        self.network = Network(run, "192.0.2")
        # Of what ours depend on, not of ours: machines of a test reach no mirror.
        root = roots.Root(run, "ready", [roots.bare(packages)], packages)
        root.install(roots.PACKAGES)
        root.run(f"dpkg --purge {' '.join(roots.PACKAGES)}; rm -rf /etc/weft /var/lib/weft")
        nodes = {"m1": self.network.mds()}
        nodes |= {f"d{number}": self.network.data_server(number) for number in range(1, 5)}
        self.machines = {name: roots.Machine(root, name, node) for name, node in nodes.items()}
        for machine in self.machines.values():
            machine.run("ip route add default via 192.0.2.254\nmkdir -p /srv/weft/a /var/backups\n"
                        "mount -t tmpfs -o size=2G tmpfs /srv/weft/a")
            allow_what_there_is(machine)
        self.client = start_client(run, self.network)
        # Its root is read only: what the pages change is in memory.
        self.client.run("cp -a /etc /tmp/etc && mount --bind /tmp/etc /etc\n"
                        "mount -t tmpfs tmpfs /srv && useradd -M alice", root=True)

    def type(self, machine: str, text: str) -> tuple[int, str]:
        """Returns its exit status and what it printed."""
        if words := SCP.fullmatch(text):  # no machine has ssh
            folder, other = self.machines[machine].path, self.machines[words[2]].path
            shutil.copy2(folder / words[1], other / words[3])
            return 0, ""
        if machine == "c1":
            if "weft verify" in text:
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

    def append(self, block: shown.Block) -> None:
        text = "\n".join(block.lines) + "\n"
        if block.machine == "c1":
            self.client.run(f"cat >>{block.file} <<'END'\n{text}END\n", root=True)
        else:
            file = self.machines[block.machine].path / block.file.lstrip("/")
            with file.open("a") as end:
                end.write(text)


def recording() -> str:
    """A file for what commands print, to be put into pages; nothing is compared then."""
    return os.environ.get("WEFT_SHOW", "")


@pytest.fixture(scope="module")
def house(packages):
    with Run() as run:  # its network is another than that of other tests
        yield House(run, packages)


@pytest.mark.parametrize("page", [page for page in shown.PAGES if any(
    block.kind in ("run", "append") for block in shown.blocks(page))])
def test_pages_are_right(house, page):
    began = time.monotonic()
    for block in shown.blocks(page):
        if block.kind == "append":
            house.append(block)
        for command in block.commands() if block.kind == "run" else []:
            said = house.do(command, block.where)
            if recording():
                with open(recording(), "a") as record:
                    record.write(f"### {block.where}\n{command.machine}# {command.text}\n{said}")
    if page == "installing":
        took = time.monotonic() - began
        assert took < INSTALLED_S, f"four machines took {took:.0f} s"
        house.keeps_two_copies()
