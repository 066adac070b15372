"""The packages of ./dev package: what they hold; installed into a bare root folder, and removed."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import roots
from harness import apt
from harness.run import sh

REPOSITORY = Path(__file__).parents[2]
PREFIX = "/usr/lib/weft/ganesha"
SERVICES = ["weft-mds.service", "weft-join.service", "weft-ds@.service", "weft-target@.service"]
PROGRAMS = {"weft": "weft-tools", "weft-ds": "weft-ds", "weft-target": "weft-target",
            "weft-fsck": "weft-mds", "weft-restore": "weft-mds"}


def version() -> str:
    text = (REPOSITORY / "CMakeLists.txt").read_text()
    return re.search(r"project\(weft VERSION (\S+)", text).group(1)


def contents(packages: Path, name: str) -> set[str]:
    """The files of a package, without folders."""
    [file] = packages.glob(f"{name}_*.deb")
    listed = sh("dpkg-deb", "-c", str(file)).splitlines()
    return {row.split(None, 5)[5].lstrip(".").split(" -> ")[0] for row in listed
            if not row.startswith("d")}


def test_all_packages_are_there_with_the_version_of_the_programs(packages):
    found = {file.name.split("_")[0]: file.name.split("_")[1] for file in packages.glob("*.deb")}
    debugging = {f"{name}-dbgsym" for name in roots.PACKAGES if name != "weft-doc"}
    assert set(found) == set(roots.PACKAGES) | debugging
    [of_all] = set(found.values())
    assert re.fullmatch(rf"{re.escape(version())}\+deb\d+", of_all)


def test_files_are_where_they_belong(packages):
    files = {name: contents(packages, name) for name in roots.PACKAGES}
    everything = [file for listed in files.values() for file in listed]
    assert len(everything) == len(set(everything))
    allowed = ("/usr/bin/", "/usr/lib/weft/", "/usr/lib/sysusers.d/weft-", "/usr/share/man/",
               "/usr/share/doc/weft-", "/usr/share/bash-completion/completions/weft", "/etc/weft/",
               "/lib/systemd/system/weft-", "/usr/lib/systemd/system/weft-",
               "/usr/share/lintian/overrides/weft-", "/usr/share/weft/monitoring/")
    assert [file for file in everything if not file.startswith(allowed)] == []
    programs = {file.removeprefix("/usr/bin/"): name for name, listed in files.items()
                for file in listed if file.startswith("/usr/bin/")}
    assert programs == PROGRAMS
    for program, name in programs.items():
        assert any(re.fullmatch(rf"/usr/share/man/man[18]/{program}\.[18]\.gz", file)
                   for file in files[name]), f"{program} has no manual page"
    for source in (REPOSITORY / "docs" / "man").glob("*.scd"):
        page = source.name.removesuffix(".scd")
        assert any(file.endswith(f"/{page}.gz") for file in everything), page
    assert f"{PREFIX}/lib/ganesha/libfsalweft.so" in files["weft-mds"]
    assert all(len([file for file in everything if file.endswith(f"/{unit}")]) == 1
               for unit in SERVICES)
    assert any(file.endswith("/operating.md.gz") or file.endswith("/operating.md")
               for file in files["weft-doc"])


def test_every_program_starts_and_finds_its_libraries(installed):
    assert installed.run("weft --version").strip() == f"weft {version()}"
    for program in PROGRAMS:
        assert version() in installed.run(f"{program} --version"), program
        assert len(installed.run(f"{program} --help")) > 100, program
    assert "6.5" in installed.run(f"{PREFIX}/bin/ganesha.nfsd -v")
    binaries = [f"/usr/bin/{program}" for program in PROGRAMS]
    binaries += installed.run(f"find {PREFIX} -type f -name '*.so*'").split()
    linked = installed.run(f"for file in {' '.join(binaries)} {PREFIX}/bin/ganesha.nfsd; do "
                           f"LD_LIBRARY_PATH={PREFIX}/lib ldd $file; done")
    assert "not found" not in linked
    assert len(binaries) >= 7
    # The server finds its own without being told where they are.
    assert "not found" not in installed.run(f"ldd {PREFIX}/bin/ganesha.nfsd")


def test_services_wait_for_their_configuration(installed):
    for unit in SERVICES:
        [file] = [path for folder in ("lib", "usr/lib")
                  for path in (installed.path / folder / "systemd/system").glob(unit)][:1]
        text = file.read_text()
        assert "/opt/" not in text
        for program in re.findall(r"^ExecStart(?:Pre)?=[-+!@:]*(\S+)", text, re.MULTILINE):
            assert (installed.path / program.lstrip("/")).exists(), program
        installed.run(f"systemd-analyze security --offline=yes --threshold=25 {file.name}")
    instances = "weft-mds.service weft-join.service weft-ds@a.service weft-target@a.service"
    said = installed.run(f"systemd-analyze verify --man=no {instances}")
    assert "weft" not in said, said
    assert not list((installed.path / "etc/systemd/system").glob("*.wants/weft*"))
    assert installed.run("id -un weft; getent passwd weft").count("weft") >= 2


def test_examples_are_good(installed):
    root = installed.upon("examples")
    root.run("weft keygen /etc/weft/cluster.key")
    for program, name in (("weft-ds", "ds"), ("weft-target", "target")):
        root.run(f"cp /etc/weft/{name}.toml.example /etc/weft/{name}-a.toml && "
                 f"{program} --check-config --config /etc/weft/{name}-a.toml")


def complete(installed, *words: str) -> list[str]:
    """What bash is told when one presses TAB behind the last word."""
    quoted = " ".join(f"'{word}'" for word in words)
    script = ("compopt() { :; }; . /usr/share/bash-completion/completions/weft; "
              f"COMP_WORDS=({quoted}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _weft; "
              'echo "${COMPREPLY[@]}"')
    return installed.run(f"bash -c {shlex.quote(script)}").split()


def test_completion_knows_what_there_is(installed):
    assert {"status", "ds", "policy", "verify", "fsck"} <= set(complete(installed, "weft", ""))
    assert complete(installed, "weft", "ds", "dr") == ["drain"]
    assert "--yes" in complete(installed, "weft", "ds", "remove", "--")
    assert complete(installed, "weft", "-o", "j") == ["json"]
    assert complete(installed, "weft", "-o", "json", "pol") == ["policy"]
    assert complete(installed, "weft", "layout", "show", "/") == []


def test_a_distributions_ganesha_stays_as_it_is(installed):
    root = installed.upon("beside")
    root.run("apt-get -q -y install --no-install-recommends nfs-ganesha", timeout_s=600)
    theirs = root.run("ldd $(command -v ganesha.nfsd)")
    assert "/usr/lib/weft" not in theirs and "not found" not in theirs
    assert "/usr/lib/weft" in root.run(f"ldd {PREFIX}/bin/ganesha.nfsd")


@pytest.mark.parametrize("again", ["configure", "reinstall"])
def test_installing_again_changes_nothing(installed, again):
    root = installed.upon(f"again-{again}")
    root.run("echo '# mine' >>/etc/weft/ds.toml.example")
    before = root.files()
    if again == "configure":
        for name in roots.PACKAGES:
            script = f"/var/lib/dpkg/info/{name}.postinst"
            root.run(f"[ ! -e {script} ] || DPKG_MAINTSCRIPT_PACKAGE={name} "
                     f"DPKG_MAINTSCRIPT_NAME=postinst {script} configure {version()}")
    else:
        root.run("dpkg -i " + " ".join(f"/packages/{name}_*.deb" for name in roots.PACKAGES))
    assert root.files() == before
    assert "# mine" in (root.path / "etc/weft/ds.toml.example").read_text()


OF_ADMINISTRATORS = ["/etc/weft/cluster.key", "/etc/weft/ds-a.toml", "/etc/weft/ganesha.conf",
                     "/srv/weft/a/store", "/var/lib/weft/mds/CURRENT"]


def test_what_is_removed_and_purged_is_gone_and_nothing_else(installed):
    root = installed.upon("removed")
    for file in OF_ADMINISTRATORS:
        root.run(f"mkdir -p $(dirname {file}) && touch {file} && chown weft: {file}")
    root.run("systemctl enable weft-mds.service weft-ds@a.service weft-target@a.service && "
             "cd /etc/systemd/system && mkdir weft-ds@a.service.d && cd weft-ds@a.service.d && "
             "touch store.conf capabilities.conf")
    names = " ".join(roots.PACKAGES)
    root.run(f"apt-get -q -y remove {names}")
    assert not list((root.path / "usr/bin").glob("weft*"))
    assert (root.path / "etc/weft/ds.toml.example").exists()
    root.run(f"apt-get -q -y purge {names}")
    for file in OF_ADMINISTRATORS:
        assert (root.path / file.lstrip("/")).exists(), f"{file} is gone"
    mine = {str(part) for file in OF_ADMINISTRATORS for part in [Path(file), *Path(file).parents]}
    dpkgs = re.compile(r"/var/(lib/(dpkg|apt|systemd/deb-systemd-helper-enabled|misc)|log|cache)/")
    bare = roots.Root(root.run_of, "bare", [roots.bare(root.packages)], root.packages)
    left = [file for file in root.files() - installed_by_others(root) - bare.files()
            if file not in mine and not dpkgs.match(file + "/")]
    assert sorted(left) == []
    assert root.run("dpkg-query -W -f '${Package} ${db:Status-Status}\\n' 'weft*'",
                    check=False).find("installed") == -1


@pytest.mark.skipif(not shutil.which("piuparts"), reason="piuparts is not installed")
def test_piuparts_finds_nothing(run, packages):
    base = run.folder / "base.tar.gz"
    sh("tar", "-C", str(roots.bare(packages)), "--use-compress-program=gzip -1", "-cf", str(base),
       ".", timeout=300)
    release = roots.release(packages)
    [mirror] = [words[-3] for words in map(str.split, apt.source_lines(release))
                if words[-2] == release][:1]
    done = subprocess.run(
        ["piuparts", "-b", str(base), "-d", release, "-m", f"{mirror} main", "--no-eatmydata",
         "-I", "^/var/cache/debconf/tmp.ci/?$",  # debconf's
         "-t", str(run.make_folder("piuparts")), *map(str, packages.glob("weft-*_*.deb"))],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900)
    assert done.returncode == 0, done.stdout[-4000:]


def installed_by_others(root) -> set[str]:
    """What belongs to packages that are not ours, and what those have made: of both what lies in
    folders or has a name in which ours have no business."""
    owned = root.run("cat /var/lib/dpkg/info/*.list").splitlines()
    made = [file for file in root.files()
            if "weft" not in file and file.startswith(("/etc/", "/usr/", "/var/", "/run/"))]
    return {f"/usr{file}" for file in owned} | set(owned) | set(made)
