"""What apt makes of debian/control on a machine that has all packages and gets some in another
version. It is asked about packages with nothing in them, for a machine that is a file."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

CONTROL = Path(__file__).parents[2] / "debian/control"
VERSIONS = {"before": "1.0", "after": "2.0"}

pytestmark = pytest.mark.skipif(not shutil.which("apt-get"), reason="needs apt")


def depends() -> dict[str, str]:
    """By package what it needs of ours."""
    found = {}
    for part in CONTROL.read_text().split("\nPackage: ")[1:]:
        words = re.search(r"^Depends: (.*)$", part, re.MULTILINE)[1].split(", ")
        found[part.split("\n")[0]] = ", ".join(word for word in words if word.startswith("weft-"))
    return found


def fields(name: str, version: str) -> str:
    needs = depends()[name].replace("${binary:Version}", version)
    return (f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nDescription: a test's\n"
            "Maintainer: a test <a@test.example>\n" + (f"Depends: {needs}\n" if needs else ""))


def deb(folder: Path, name: str, version: str) -> Path:
    tree = folder / name
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(fields(name, version))
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, folder / f"{name}.deb"],
                   check=True, stdout=subprocess.DEVNULL)
    return folder / f"{name}.deb"


def apt_takes(tmp_path, names: list[str], has: str, gets: str) -> bool:
    """Whether it installs NAMES and removes nothing."""
    (tmp_path / "lists").mkdir()
    (tmp_path / "status").write_text("\n".join(
        fields(name, VERSIONS[has]) + "Status: install ok installed\n" for name in depends()))
    options = {"Dir::State": tmp_path, "Dir::State::lists": tmp_path / "lists",
               "Dir::State::status": tmp_path / "status", "Dir::Cache": tmp_path,
               "Dir::Etc::sourcelist": "/dev/null", "Dir::Etc::sourceparts": "/dev/null",
               "APT::Architecture": "amd64", "Debug::NoLocking": "1"}
    done = subprocess.run(
        ["apt-get", *(f"-o{key}={value}" for key, value in options.items()), "-s", "-y",
         "--no-remove", "--allow-downgrades", "install",
         *(deb(tmp_path, name, VERSIONS[gets]) for name in names)],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert "Remv" not in done.stdout
    installed = set(re.findall(r"^Inst (\S+)", done.stdout, re.MULTILINE))
    assert done.returncode != 0 or installed == set(names), done.stdout
    return done.returncode == 0


@pytest.mark.parametrize(("names", "has", "gets"), [
    (["weft-mds", "weft-tools"], "before", "after"), (["weft-ds", "weft-tools"], "before", "after"),
    (["weft-target"], "before", "after"), (["weft-mds", "weft-tools"], "after", "before")])
def test_a_server_is_replaced_without_those_beside_it(tmp_path, names, has, gets):
    assert apt_takes(tmp_path, names, has, gets)


def test_a_metadata_server_has_a_command_that_knows_its_options(tmp_path):
    assert not apt_takes(tmp_path, ["weft-mds"], "before", "after")
