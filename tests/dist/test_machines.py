"""Machines with nothing but Debian and our packages, booted with systemd; a Linux client mounts.

What is typed here is what docs/installing.md says.
"""

import json
import re
from pathlib import Path

import pytest
from harness.client import start_client
from harness.network import Network
from harness.run import sh, wait_until
from roots import Machine

CAP_SYS_RESOURCE = 24
SIZE = 20_000_000
COPY = f"""set -e
head -c {SIZE} /dev/urandom >/tmp/in
cp /tmp/in /mnt/nfs/out && sync /mnt/nfs/out && weft-drop-caches && cmp /tmp/in /mnt/nfs/out
"""


@pytest.fixture(scope="module")
def network(run):
    return Network(run)


def write_example(machine, example: str, file: str, changes: dict[str, str]) -> None:
    """The example of /etc/weft, with what an administrator changes in it."""
    text = (machine.path / "etc/weft" / example).read_text()
    for old, new in changes.items():
        assert old in text, f"{example} has no {old}"
        text = text.replace(old, new)
    machine.write(f"/etc/weft/{file}", text)


def allow_what_there_is(machine) -> None:
    """Where this machine itself may not use more memory in pipes, as in most containers, the units
    cannot have it either. `weft join` sees to that by itself, packages do not."""
    able = re.search(r"^CapBnd:\s*(\w+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    if not int(able.group(1), 16) & 1 << CAP_SYS_RESOURCE:
        for unit in ("weft-ds@", "weft-target@"):
            machine.run(f"mkdir -p /etc/systemd/system/{unit}.service.d")
            machine.write(f"/etc/systemd/system/{unit}.service.d/container.conf",
                          "[Service]\nAmbientCapabilities=\nCapabilityBoundingSet=\n")
        machine.run("systemctl daemon-reload")


@pytest.fixture(scope="module")
def machines(installed, network):
    """A metadata server and two data servers: one that joins, one made by hand, with its objects at
    a target."""
    mds_node = network.mds()
    mds = Machine(installed, "mds", mds_node)
    made = json.loads(mds.run(f"weft -o json init --copies 2 --address {mds_node.address} "
                              "--admin 10.77.0.101"))
    joins = Machine(installed, "ds1", network.data_server(1))
    joins.run("mkdir -p /srv/weft/a")
    joins.run(f"weft join {made['address']} {made['token']} --disk /srv/weft/a --domain rack1 "
              "--name ds1")
    by_hand = data_server_by_hand(installed, network.data_server(2), mds)
    mds.wait("[ $(weft -o json ds list | grep -o '\"state\": *\"up\"' | wc -l) = 2 ]",
             "two data servers up")
    return [mds, joins, by_hand]


def data_server_by_hand(installed, node, mds) -> Machine:
    """As docs/installing-by-hand.md has it, with what the examples say."""
    machine = Machine(installed, "ds2", node)
    machine.write("/etc/weft/cluster.key", (mds.path / "etc/weft/cluster.key").read_text())
    machine.run("chown weft: /etc/weft/cluster.key && chmod 0600 /etc/weft/cluster.key")
    machine.run("install -d -o weft -g weft -m 0700 /srv/weft/a /srv/weft/target-a")
    allow_what_there_is(machine)
    write_example(machine, "target.toml.example", "target-a.toml", {"192.0.2.11": node.address})
    machine.run("systemctl enable --now weft-target@a.service")
    write_example(machine, "ds.toml.example", "ds-a.toml", {
        "192.0.2.11": node.address, "192.0.2.1:": f"{mds.node.address}:",
        'name = "rack1-a"': 'name = "ds2"', "rack1": "rack2",
        'path = "/srv/weft/a"\n': ('path = "/srv/weft/a"\n'
                                   'target = "unix:/run/weft/target.sock"\n')})
    machine.run("systemctl enable --now weft-ds@a.service")
    return machine


@pytest.fixture(scope="module")
def client(run, network, machines):
    one = start_client(run, network)
    one.mount(machines[0].node.address, "/weft")
    return one


def services(machine) -> list[str]:
    return machine.run("systemctl list-units --no-legend --plain 'weft-*.service'").split("\n")[:-1]


def test_services_run_confined(machines):
    for machine in machines:
        for row in services(machine):
            unit = row.split()[0]
            assert row.split()[2:4] == ["active", "running"], row
            pid = machine.run(f"systemctl show -P MainPID {unit}").strip()
            status = machine.run(f"cat /proc/{pid}/status")
            assert "\nUid:\t0" not in status and "\nNoNewPrivs:\t1" in status
            assert "\nSeccomp:\t2" in status
    # The metadata server's takes tokens, too.
    assert [len(services(machine)) for machine in machines] == [2, 1, 2]


def test_a_stock_client_writes_and_reads_two_copies(machines, client):
    client.run(COPY, 120)
    counted = json.loads(machines[0].run("weft -o json status"))
    assert counted["mds_write_calls"] == 0 and counted["mds_read_calls"] == 0
    wait_until(lambda: sum(server["written_bytes"] for server in json.loads(
        machines[0].run("weft -o json ds list"))) >= SIZE, 30, "heartbeats that tell of it", 0.5)
    for machine in machines[1:]:  # each has a copy: of two, one at each
        folder = machine.path / "srv/weft"
        assert int(sh("du", "-s", "--block-size=1", str(folder)).split()[0]) >= SIZE
    client.install(Path("/usr/bin/weft"), machines[0].path)
    client.run("weft verify --size 4MiB /mnt/nfs", root=True)


def test_what_joined_is_fit(machines):
    assert machines[0].run("weft health") == "healthy\n"
    for machine in machines:
        assert "BAD   port" not in machine.run("weft doctor", check=False)
    again = machines[1].run(f"weft join {machines[0].node.address} - --disk /srv/weft/a </dev/null")
    assert "no token was needed" in again
    assert "\ncreate = false" in machines[1].run("cat /etc/weft/ds-a.toml")


def test_services_read_their_configuration_again(machines):
    for machine, unit in ((machines[0], "weft-mds"), (machines[1], "weft-ds@a"),
                          (machines[2], "weft-target@a")):
        before = machine.run(f"systemctl show -P MainPID {unit}")
        machine.run(f"systemctl reload {unit}")
        assert machine.run(f"systemctl show -P MainPID {unit}") == before
    machine = machines[1]
    machine.run("sed -i 's/^name/log_level = \"debug\"\\nname/' /etc/weft/ds-a.toml")
    machine.run("systemctl reload weft-ds@a")
    machine.wait("journalctl -u weft-ds@a | grep -q 'event=reloaded key=server.log_level'",
                 "the data server to read its file again", 10)


def test_what_is_wrong_in_a_file_is_not_tried_again(machines):
    for machine, unit, file, line in (
            (machines[0], "weft-mds", "ganesha.conf", "EXPROT { }"),
            (machines[1], "weft-ds@a", "ds-a.toml", "[storre]"),
            (machines[2], "weft-target@a", "target-a.toml", "[storre]")):
        machine.run(f"cp -p /etc/weft/{file} /var/tmp/{file}; echo '{line}' >>/etc/weft/{file}")
        machine.run(f"systemctl restart {unit}", check=False)
        machine.wait(f"[ \"$(systemctl show -P ActiveState {unit})\" = failed ]",
                     "the unit to fail")
        assert machine.run(f"systemctl show -P ExecMainStatus {unit}") == "2\n"
        assert machine.run(f"systemctl show -P NRestarts {unit}") == "0\n"
        machine.run(f"cp -p /var/tmp/{file} /etc/weft/{file}; systemctl start {unit}")
    machines[0].wait("[ $(weft -o json ds list | grep -o '\"state\": *\"up\"' | wc -l) = 2 ]",
                     "two data servers up")


def test_an_upgrade_leaves_services_running(machines, client):
    machine = machines[1]
    before = machine.run("systemctl show -P MainPID weft-ds@a.service")
    machine.run("dpkg -i /packages/weft-ds_*.deb")
    assert machine.run("systemctl show -P MainPID weft-ds@a.service") == before
    machine.run("systemctl restart weft-ds@a.service")
    machines[0].wait("[ $(weft -o json ds list | grep -o '\"state\": *\"up\"' | wc -l) = 2 ]",
                     "two data servers up")
    client.run("weft-drop-caches; cmp /tmp/in /mnt/nfs/out", 120)


def test_the_metadata_server_restarts_under_a_client(machines, client):
    machines[0].run("systemctl restart weft-mds.service")
    client.run("cp /tmp/in /mnt/nfs/again && weft-drop-caches && cmp /tmp/in /mnt/nfs/again", 240)


AUTOPKGTEST = (Path(__file__).parents[2] / "debian/tests/loopback").read_text()


def test_the_autopkgtest_passes_with_systemd(installed, network):
    machine = Machine(installed, "alone", network.program(1))
    allow_what_there_is(machine)
    machine.write("/srv/loopback", AUTOPKGTEST)
    assert "up" in machine.run("bash /srv/loopback", timeout_s=240)
    machine.stop()


def test_the_autopkgtest_passes_without(installed):
    root = installed.upon("without")
    root.write("/srv/loopback", AUTOPKGTEST)
    assert "up" in root.run("bash /srv/loopback", timeout_s=240, alone=True)


def test_removal_stops_services_and_leaves_stores(machines, client):
    client.stop()
    for machine, names in ((machines[2], "weft-ds weft-target"), (machines[0], "weft-mds")):
        machine.run(f"dpkg --remove {names}")
        machine.wait(f"[ -z \"$(systemctl list-units --no-legend --state=active 'weft-*')\" ]",
                     "services to stop", 5)
    ended = machines[2].run("journalctl --no-pager -u 'weft-*'")
    assert "event=stopp" in ended and "code=killed" not in ended
    assert (machines[2].path / "srv/weft/target-a").is_dir()
    assert (machines[0].path / "var/lib/weft/mds/CURRENT").exists()
    assert (machines[0].path / "etc/weft/cluster.key").exists()
