"""Mistakes of an administrator, on machines with packages: `systemctl start` fails, the journal has
one line that says why, and nothing was begun.

What the programs themselves do is tested without packages: tests/system/test_configuration.py of
the metadata server, test_programs.py of the others. Here it is what units make of it.
"""

import json
from dataclasses import dataclass

import pytest
from harness.network import Network
from roots import Machine
from test_machines import allow_what_there_is, write_example

CONF, KEY, TOML = "/etc/weft/ganesha.conf", "/etc/weft/cluster.key", "/etc/weft/ds-a.toml"
ERROR = 3  # of a line in the journal, and below it what is worse
MDS, DS, TARGET = "weft-mds", "weft-ds@a", "weft-target@a"


@dataclass
class Mistake:
    what: str
    change: str     # a shell command
    line: str       # a part of what the journal has of it
    status: int = 2  # 1: systemd tries again, as it may be over then
    undo: str = "true"


def replaced(file: str, old: str, new: str) -> str:
    """A command that ends with 1 if there is no such thing."""
    return f"grep -q '{old}' {file} && sed -i 's|{old}|{new}|' {file}"


def taken(port: int) -> str:
    """A command that has somebody listen there."""
    return (f"systemd-run --quiet --unit=holder systemd-socket-activate -l {port} cat; "
            f"until ss -ltn | grep -q ':{port} '; do sleep 0.1; done")


FREE = "systemctl stop holder"
OF_MDS = [
    Mistake("an option that there is not", replaced(CONF, "Copies = 2", "Copys = 2"),
            "FSAL WEFT has no option Copys; the nearest there is: Copies"),
    Mistake("a value out of range", replaced(CONF, "Copies = 2", "Copies = 4"),
            "Copies = 4: must be a number from 1 to 3"),
    Mistake("a block of Ganesha's that there is not", replaced(CONF, "^NFSv4 {", "NFSv44 {"),
            "Ganesha has no block NFSv44; the nearest there is: NFSv4"),
    Mistake("an FSAL that there is not", replaced(CONF, "Name = WEFT;", "Name = WEFTT;"),
            "Ganesha has no FSAL WEFTT; the nearest there is: WEFT"),
    Mistake("a store by a relative path", replaced(CONF, "/var/lib/weft/mds", "mds"),
            "Metadata_Path = mds: must be an absolute path"),
    Mistake("no flag for what the unit lacks",
            replaced(CONF, "allow_set_io_flusher_fail = true", "allow_set_io_flusher_fail = false"),
            "the service does not have the capability CAP_SYS_RESOURCE"),
    Mistake("no configuration", f"rm {CONF}", f"{CONF}: No such file or directory"),
    Mistake("a key that others may read", f"chmod 0644 {KEY}",
            "must be readable by its owner only (chmod 600)"),
    Mistake("a key that is not the service's", f"chown root: {KEY}", f"{KEY}: Permission denied"),
    Mistake("no key", f"rm {KEY}", f"{KEY}: No such file or directory"),
    Mistake("half a key", f"echo 0123 >{KEY}", "64 hexadecimal digits"),
    Mistake("NFS's port is taken", taken(2049), "NFS_Port 2049 is taken: ss -ltnp", undo=FREE),
    Mistake("the control port is taken", taken(20480), "Control_Address: ", 1, FREE),
    Mistake("the metrics' port is taken",
            taken(9632) + "; " + replaced(CONF, "Name = WEFT;",
                                          'Name = WEFT; Metrics_Address = "192.0.2.1:9632";'),
            "Metrics_Address: ", 1, FREE),
]
OF_DS = [
    Mistake("a key that there is not", replaced(TOML, "^path =", "max_open_fils = 9\\npath ="),
            "unknown key 'store.max_open_fils'; the nearest there is: 'store.max_open_files'"),
    Mistake("no TOML", f"echo '[storre' >>{TOML}", f"{TOML}:"),
    Mistake("a size that is none",
            replaced(TOML, "^name =", 'memory_limit = "64 MBB"\\nname ='), "server.memory_limit"),
    Mistake("any address", replaced(TOML, "192.0.2.11:2051", "0.0.0.0:2051"),
            "clients cannot reach a wildcard address: set server.advertise"),
    Mistake("a store by a relative path", replaced(TOML, '"/srv/weft/a"', '"weft/a"'),
            "store.path must be an absolute path"),
    Mistake("no configuration", f"rm {TOML}", f"{TOML}: No such file or directory"),
    Mistake("a key that others may read", f"chmod 0644 {KEY}",
            "must be readable by its owner only (chmod 600)"),
    Mistake("no key", f"rm {KEY}", f"{KEY}: No such file or directory"),
    Mistake("half a key", f"echo 0123 >{KEY}", "64 hexadecimal digits"),
    Mistake("no folder", replaced(TOML, "/srv/weft/a", "/srv/none/a"),
            "/srv/none/a: the folder that it is to be made in is not there", 1),
    Mistake("a disk that is not mounted", replaced(TOML, "^path =", "create = false\\npath ="),
            "/srv/weft/a holds no store (is its disk mounted?)", 1),
    Mistake("an address of another machine", replaced(TOML, "192.0.2.11:", "192.0.2.99:"),
            "bind to 192.0.2.99:2051: Cannot assign requested address", 1),
    Mistake("its port is taken", taken(2051),
            "bind to 192.0.2.11:2051: Address already in use", 1, FREE),
]
TARGET_TOML = "/etc/weft/target-a.toml"
OF_TARGET = [
    Mistake("a key that there is not",
            replaced(TARGET_TOML, "^path =", "max_open_fils = 9\\npath ="),
            "unknown key 'store.max_open_fils'"),
    Mistake("no key", f"rm {KEY}", f"{KEY}: No such file or directory"),
    Mistake("a port that is taken", taken(9640), "192.0.2.11:9640: Address already in use", 1,
            FREE),
]


def by_name(mistakes: list[Mistake]):
    return pytest.mark.parametrize("mistake", mistakes, ids=lambda mistake: mistake.what)


def put_key(machine: Machine) -> None:
    machine.run(f"chown weft: {KEY} && chmod 0600 {KEY}")


@pytest.fixture(scope="module")
def network(run):
    return Network(run, "192.0.2")


@pytest.fixture(scope="module")
def mds(installed, network) -> Machine:
    """Nothing was started there yet."""
    machine = Machine(installed, "mistaken-mds", network.mds())
    machine.run(f"weft keygen {KEY}")
    put_key(machine)
    write_example(machine, "ganesha.conf.example", "ganesha.conf", {})
    return machine


@pytest.fixture(scope="module")
def ds(installed, network, mds) -> Machine:
    """The same; its metadata server serves."""
    mds.run(f"systemctl start {MDS}")
    machine = Machine(installed, "mistaken-ds", network.data_server(1))
    machine.write(KEY, (mds.path / KEY.lstrip("/")).read_text())
    put_key(machine)
    machine.run("install -d -o weft -g weft -m 0700 /srv/weft/a /srv/weft/target-a")
    allow_what_there_is(machine)
    write_example(machine, "ds.toml.example", "ds-a.toml", {})
    write_example(machine, "target.toml.example", "target-a.toml", {})
    return machine


def said_since(machine: Machine, cursor: str) -> list[tuple[int, str]]:
    """Priority and text of what programs of ours wrote; systemd says that it starts them, and how
    they ended."""
    rows = machine.run(f"journalctl -q -o json --after-cursor='{cursor}'").splitlines()
    return [(int(row["PRIORITY"]), row["MESSAGE"]) for row in map(json.loads, rows)
            if row.get("SYSLOG_IDENTIFIER", "").startswith(("sh", "weft", "ganesha", "nfs"))]


def try_it(machine: Machine, unit: str, mistake: Mistake) -> None:
    machine.run("rm -rf /var/tmp/weft && cp -a /etc/weft /var/tmp/weft")
    machine.run(mistake.change)
    cursor = machine.run("journalctl -q -n 1 --show-cursor -o cat | sed -n 's/^-- cursor: //p'")
    try:
        done = machine.run(f"systemctl start {unit} || echo FAILED", check=False)
        assert "FAILED" in done, machine.run(f"systemctl status {unit}", check=False)
        status = machine.run(f"systemctl show -P ExecMainStatus {unit}").strip()
        state = machine.run(f"systemctl show -P ActiveState {unit}").strip()
        machine.run(f"systemctl stop {unit}")
        lines = said_since(machine, cursor.strip())
        assert status == str(mistake.status), lines
        assert state == ("failed" if mistake.status == 2 else "activating")
        told = [line for _, line in lines if mistake.line in line]
        assert len(told) == 1 or told and mistake.status == 1, lines  # tried again: told again
        assert {line for priority, line in lines if priority <= ERROR} <= set(told), lines
        assert not [line for _, line in lines if "listening" in line], lines
    finally:
        machine.run(f"{mistake.undo}; rm -rf /etc/weft && cp -a /var/tmp/weft /etc/weft; "
                    f"systemctl reset-failed {unit}", check=False)


@by_name(OF_MDS)
def test_a_metadata_server_that_cannot_be(mds, mistake):
    try_it(mds, MDS, mistake)
    assert not (mds.path / "var/lib/weft/mds").exists()


def servers(mds: Machine) -> list[dict]:
    return json.loads(mds.run("weft -o json ds list"))


@by_name(OF_TARGET)
def test_a_target_that_cannot_be(ds, mistake):
    try_it(ds, TARGET, mistake)
    assert not list((ds.path / "srv/weft/target-a").iterdir())


@by_name(OF_DS)
def test_a_data_server_that_cannot_be(mds, ds, mistake):
    try_it(ds, DS, mistake)
    left = [entry.name for entry in (ds.path / "srv/weft/a").iterdir()]
    ds.run("rm -rf /srv/weft/a/*")
    assert (left, servers(mds)) == ([], [])


WAITS = [
    Mistake("another key", f"weft keygen {KEY}.new && mv {KEY}.new {KEY} && chown weft: {KEY}",
            "authentication failed"),
    Mistake("a port at which nobody is", replaced(TOML, "192.0.2.1:20480", "192.0.2.1:20489"),
            "192.0.2.1:20489: Connection refused"),
    Mistake("the port of NFS", replaced(TOML, "192.0.2.1:20480", "192.0.2.1:2049"),
            "no handshake: is that a metadata server, and of the same version of Weft?"),
]


@by_name(WAITS)
def test_a_data_server_that_finds_no_metadata_server(mds, ds, mistake):
    """It may be there later: the data server waits, is not ready, and says what it waits for."""
    ds.run("rm -rf /var/tmp/weft && cp -a /etc/weft /var/tmp/weft")
    ds.run(mistake.change)
    ds.run(f"systemctl start --no-block {DS}")
    ds.wait(f"systemctl show -P StatusText {DS} | grep -qF '{mistake.line}'", mistake.line)
    assert ds.run(f"systemctl show -P ActiveState {DS}") == "activating\n"
    if mistake.what == "another key":
        mds.wait("weft status | grep -q 192.0.2.11", "a metadata server that tells who was refused")
    ds.run(f"systemctl stop {DS}; rm -rf /etc/weft && cp -a /var/tmp/weft /etc/weft")
    assert servers(mds) == []


def test_two_services_with_one_store(mds, ds):
    ds.run(f"systemctl start {TARGET} {DS}")
    ds.run("sed 's/:2051/:2052/; s/rack1-a/rack1-b/' /etc/weft/ds-a.toml >/etc/weft/ds-b.toml")
    said = ds.run("systemctl start weft-ds@b || journalctl -q -o cat -u weft-ds@b", check=False)
    assert "/srv/weft/a is in use by another process" in said, said
    ds.run("systemctl stop weft-ds@b")
    assert [(one["name"], one["state"]) for one in servers(mds)] == [("rack1-a", "up")]


def test_a_service_that_ends_leaves_what_others_have(mds, ds):
    """Of the folder /run/weft, which services share; and a hang-up is no end."""
    ds.run(f"systemctl stop {DS}")
    assert ds.run("ls /run/weft").split() == ["target.sock"]
    for machine, unit in ((mds, MDS), (ds, TARGET)):
        before = machine.run(f"systemctl show -P MainPID {unit}")
        machine.run(f"kill -HUP {before}")
        assert machine.run(f"systemctl show -P MainPID {unit}") == before
        machine.run(f"systemctl is-active {unit}")
