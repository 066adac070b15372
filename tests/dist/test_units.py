"""The units in dist/: systemd understands them, and they leave services what they need, no more."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

DIST = Path(__file__).parents[2] / "dist"
UNITS = sorted(DIST.glob("*.service"))
SERVERS = [unit for unit in UNITS if unit.name != "weft-join.service"]
EXPOSED_AT_MOST = 25  # tenths, as systemd-analyze counts: a service that says nothing has 96


def settings(unit: Path) -> dict[str, str]:
    """The [Service] section; of a name that occurs several times the last."""
    section = unit.read_text().split("[Service]")[1].split("\n[")[0]
    return dict(re.findall(r"^(\w+)=(.*)$", section, re.MULTILINE))


def test_there_are_units():
    assert [unit.name for unit in UNITS] == ["weft-ds@.service", "weft-join.service",
                                             "weft-mds.service", "weft-target@.service"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_services_are_an_ordinary_users(unit):
    found = settings(unit)
    assert found["User"] == found["Group"] == "weft"
    assert found["CapabilityBoundingSet"] in ("", "CAP_SYS_RESOURCE")
    assert found.get("AmbientCapabilities", "") == found["CapabilityBoundingSet"]
    assert re.search(r"^u weft ", (DIST / "weft.sysusers").read_text(), re.MULTILINE)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_services_that_share_a_folder_leave_it(unit):
    found = settings(unit)
    if "RuntimeDirectory" in found:  # one that stops does not take the others' sockets with it
        assert found["RuntimeDirectoryPreserve"] == "yes"


@pytest.mark.parametrize("unit", SERVERS, ids=lambda unit: unit.name)
def test_services_are_checked_before_they_start_and_say_when_they_serve(unit):
    found = settings(unit)
    assert found["Type"] == "notify"
    # Each server checks first, and of its own exit status only systemd asks whether to restart it.
    assert "ExecStartPre" not in found
    assert (found["Restart"], found["RestartPreventExitStatus"]) == ("always", "2")
    assert found["ExecReload"] == "/bin/sh -c 'kill -HUP $MAINPID'"
    # An address that is not there yet, a store that is still in use: it is tried until that passes.
    assert "\nStartLimitIntervalSec=0\n" in unit.read_text()


@pytest.mark.parametrize(("file", "name"), [
    ("dataserver/process/program.h", "kExitUsage"),
    ("ganesha-fsal/glue/start_check.h", "kExitConfiguration"),
    ("tools/weft/commands.h", "kExitFailed")])
def test_programs_end_as_units_have_it_when_the_configuration_is_wrong(file, name):
    """The metadata server's unit asks weft first."""
    text = (DIST.parent / file).read_text()
    assert f"constexpr int {name} = 2;" in text


@pytest.mark.parametrize(("unit", "example", "key"), [
    ("weft-ds@.service", "ds.toml", "path"), ("weft-target@.service", "target.toml", "path"),
    ("weft-mds.service", "ganesha.conf", "Metadata_Path"),
    ("weft-mds.service", "ganesha.conf", "RecoveryRoot")])
def test_services_wait_for_the_disk_of_the_examples_store(unit, example, key):
    [waits_for] = re.findall(r"^RequiresMountsFor=(.+)$", (DIST / unit).read_text(), re.MULTILINE)
    [store] = re.findall(rf'^ *{key} = "(.+)"', (DIST / "examples" / example).read_text(),
                         re.MULTILINE)
    disk = Path(waits_for.replace("%i", "a"))
    # An instance's store is a disk; the metadata server has two folders of one.
    assert disk == Path(store) if "%i" in waits_for else disk in Path(store).parents


@pytest.mark.parametrize("unit", SERVERS, ids=lambda unit: unit.name)
def test_services_get_at_rdma_devices(unit):
    text = unit.read_text()
    assert settings(unit)["DevicePolicy"] == "closed"
    assert "\nDeviceAllow=char-infiniband_verbs rw\n" in text
    assert "\nDeviceAllow=/dev/infiniband/rdma_cm rw\n" in text
    assert re.search(r"^After=.*\brdma-hw\.target\b", text, re.MULTILINE)


@pytest.mark.parametrize("unit", SERVERS, ids=lambda unit: unit.name)
def test_services_that_hang_are_ended(unit):
    assert int(settings(unit)["WatchdogSec"]) >= 10


def test_the_metadata_servers_status_is_that_of_the_check():
    """As systemd runs it, with programs in place of weft and ganesha.nfsd."""
    command = settings(DIST / "weft-mds.service")["ExecStart"]
    shell, check, serve = re.fullmatch(r"(/bin/sh -c) '(.*) && exec (.*)'", command).groups()
    assert check == ("/usr/bin/weft check-config /etc/weft/ganesha.conf "
                     "&& rm -f /run/weft/ganesha.pid")
    assert serve.startswith("/opt/weft-ganesha/bin/ganesha.nfsd ")
    for checked, status in (("false", 1), ("sh -c \"exit 2\"", 2), ("true", 7)):
        line = f"{checked} && exec sh -c \"exit 7\""
        assert subprocess.run([*shell.split(), line]).returncode == status


def test_who_takes_tokens_writes_nothing_and_does_not_last():
    found = settings(DIST / "weft-join.service")
    assert found["ProtectSystem"] == "strict" and "ReadWritePaths" not in found
    assert "Restart" not in found and found["RuntimeMaxSec"]
    assert "[Install]" not in (DIST / "weft-join.service").read_text()


def test_ganesha_takes_no_option_that_it_does_not_know_and_logs_with_priorities():
    command = settings(DIST / "weft-mds.service")["ExecStart"].split()
    assert "-x" in command
    assert command[command.index("-L") + 1] == "SYSLOG"  # STDERR has none


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_them_for_confined(unit):
    done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager",
                           f"--threshold={EXPOSED_AT_MOST}", str(unit)],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Unknown" not in done.stdout and "Failed to parse" not in done.stdout
