"""A system is upgraded, one server after the other, while a client writes: docs/upgrading.md.

WEFT_OLDER_PACKAGES names a folder with the packages of the release before. Without it the packages
under test are the older ones, too, with a version that is before theirs: dpkg upgrades then, every
program is replaced and restarted, but both are of one version.
"""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from harness.client import start_client
from harness.network import Network
from harness.run import Run, sh
from roots import PACKAGES, Machine, Root, bare
from test_machines import allow_what_there_is

# Small files and large ones, over and over, each read again from the servers. Whatever fails ends
# it. The longest wait of a call is told, since that is what an upgrade costs a client.
LOAD = """#!/usr/bin/python3
import os, subprocess, time
folder = "/mnt/nfs/upgraded"
os.makedirs(folder, exist_ok=True)
written, longest, rounds = {}, 0.0, 0
while not os.path.exists("/tmp/enough"):
    began = time.monotonic()
    name = f"{folder}/f{rounds % 40}"
    data = os.urandom(1000 if rounds % 4 else 3 << 20)
    with open(name, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    written[name] = data
    with open(name, "rb") as file:
        assert file.read() == data, name
    os.rename(name, name + ".moved")
    os.rename(name + ".moved", name)
    longest = max(longest, time.monotonic() - began)
    if rounds == 0:
        subprocess.run(["weft-signal", "writing"], check=True)
    rounds += 1
subprocess.run(["weft-drop-caches"], check=True)
for name, data in written.items():
    with open(name, "rb") as file:
        assert file.read() == data, name
assert sorted(os.listdir(folder)) == sorted(os.path.basename(name) for name in written)
print(rounds, "rounds, the longest", round(longest, 1), "s")
"""
HEALTHY_S = 120


@pytest.fixture
def upgraded_run(packages):
    with Run() as run:  # its network is another than that of other tests
        yield run


def renumbered(packages: Path, folder: Path) -> Path:
    """The same packages, each with a version before its own, in FOLDER."""
    for file in [file for name in PACKAGES for file in packages.glob(f"{name}_*.deb")]:
        tree = folder / "tree"
        sh("dpkg-deb", "-R", str(file), str(tree))
        control = tree / "DEBIAN/control"
        text = control.read_text()
        version = re.search(r"^Version: (.*)$", text, re.MULTILINE)[1]
        # "~" sorts before the end. Packages name each other by their versions.
        control.write_text(text.replace(version, f"{version}~before"))
        sh("dpkg-deb", "-Zgzip", "-z1", "-b", str(tree), str(folder), timeout=300)
        shutil.rmtree(tree)
    for file in packages.glob("*.changes"):
        shutil.copy(file, folder)
    return folder


def older_packages(run: Run, packages: Path) -> Path:
    named = os.environ.get("WEFT_OLDER_PACKAGES")
    return Path(named).resolve() if named else renumbered(packages, run.make_folder("renumbered"))


def versions(mds: Machine) -> dict:
    """0 or 1, and a document, as versions are the same or differ."""
    return json.loads(mds.run("weft -o json version --all", check=False))


def installed_version(machine: Machine, name: str) -> str:
    return machine.run(f"dpkg-query -W -f '${{Version}}' {name}").strip()


def upgrade(machine: Machine, packages: Path, names: list[str]) -> None:
    """Replaces programs; services go on with the old ones."""
    folder = machine.path / "srv/new"
    folder.mkdir(exist_ok=True)
    for name in names:
        for file in packages.glob(f"{name}_*.deb"):
            shutil.copy(file, folder)
    before = {name: installed_version(machine, name) for name in names}
    machine.run("dpkg -i /srv/new/*.deb", timeout_s=240)
    for name in names:
        # Of packages that were built after those of the same release there is no newer number.
        machine.run(f"dpkg --compare-versions {installed_version(machine, name)} "
                    f"{'ge' if os.environ.get('WEFT_OLDER_PACKAGES') else 'gt'} {before[name]}")


def runs_what_was_replaced(machine: Machine, service: str) -> bool:
    program = machine.run(f"readlink /proc/$(systemctl show -P MainPID {service})/exe").strip()
    assert "/weft" in program
    return program.endswith(" (deleted)")


def restart(machine: Machine, service: str, mds: Machine) -> None:
    """After upgrade(): it runs the old program, and then the new one."""
    assert runs_what_was_replaced(machine, service)
    machine.run(f"systemctl restart {service}")
    wait_healthy(mds, f"the restart of {machine.name}")
    assert not runs_what_was_replaced(machine, service)


def wait_healthy(mds: Machine, what: str) -> None:
    mds.wait("weft health -q", f"a healthy system after {what}", HEALTHY_S)


def test_servers_are_upgraded_one_after_the_other_under_a_client(upgraded_run, packages):
    network = Network(upgraded_run)
    older = older_packages(upgraded_run, packages)
    root = Root(upgraded_run, "older", [bare(packages)], older)
    root.install(PACKAGES)
    mds_node = network.mds()
    mds = Machine(root, "mds", mds_node)
    made = json.loads(mds.run(f"weft -o json init --copies 2 --address {mds_node.address} "
                              "--admin 10.77.0.101"))
    servers = []
    for number in (1, 2, 3):
        one = Machine(root, f"ds{number}", network.data_server(number))
        allow_what_there_is(one)
        one.run("mkdir -p /srv/weft/a")
        one.run(f"weft join {made['address']} {made['token']} --disk /srv/weft/a "
                f"--domain rack{number} --name ds{number}")
        servers.append(one)
    wait_healthy(mds, "the installation")
    client = start_client(upgraded_run, network)
    client.mount(mds_node.address, "/weft")
    job = client.start_job(LOAD)
    client.wait_event("writing")

    # One data server is new before the metadata server is.
    upgrade(servers[0], packages, ["weft-ds", "weft-tools"])
    restart(servers[0], "weft-ds@a.service", mds)
    upgrade(mds, packages, ["weft-mds", "weft-tools"])
    for server in servers[1:]:
        upgrade(server, packages, ["weft-ds", "weft-tools"])
    # The new weft asks the old server, and old data servers are told by the new metadata server.
    assert mds.run("weft status")
    restart(mds, "weft-mds.service", mds)
    assert mds.run("weft config show", check=False)
    for server in servers[1:]:
        assert not job.done(), job.output()
        restart(server, "weft-ds@a.service", mds)
    client.run("touch /tmp/enough")
    print(job.wait(240).output)

    after = versions(mds)
    assert after["same"], after
    log = "".join(server.run("journalctl --no-pager -u 'weft-*'", check=False)
                  for server in servers)
    assert "event=stopp" in log and "code=killed" not in log
