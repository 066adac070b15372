"""Root folders with Debian, and machines made of them.

A Root is a folder made of layers: what is changed in it goes to a layer of its own, those below
are read only. Commands run in it as in a container; Machine boots it, with systemd, in a network
namespace. Files are seen from outside in Root.path. Everything goes with the run.
"""

import re
import subprocess
import time
from pathlib import Path

from harness import apt, images
from harness.network import Node
from harness.run import Run, sh, wait_until

PACKAGES = ["weft-mds", "weft-ds", "weft-target", "weft-tools", "weft-doc"]
# What a machine has before anything of ours comes: enough to boot and to have an address.
BARE_PACKAGES = ["systemd", "systemd-sysv", "dbus", "iproute2"]
# --keep-unit and --register: the machine that tests may have another init than systemd.
CONTAINER = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit",
             "--system-call-filter=io_uring_setup io_uring_enter io_uring_register",
             "--setenv=DEBIAN_FRONTEND=noninteractive"]

# What it says when the machine's /run is on a disk, and leaves behind.
OF_THE_CONTAINER = "Attempted to remove disk file system"
ITS_FOLDERS = {"/packages"}


def release(packages: Path) -> str:
    """Of Debian, that the packages are for."""
    [changes] = packages.glob("*.changes")
    return re.search(r"^Distribution: (\S+)", changes.read_text(), re.MULTILINE).group(1)


def bare(packages: Path) -> Path:
    """The layer that all others are upon: the release of the packages, cached."""
    suite = release(packages)

    def build(folder: Path, scratch: Path) -> dict:
        apt.bootstrap(suite, BARE_PACKAGES, folder / "root", 'echo bare >"$1/etc/hostname"')
        return {"suite": suite}

    return images.ensure(images.Recipe(f"bare-{suite}", [suite, *BARE_PACKAGES], build)) / "root"


class Root:
    """layers: the lowest last, as overlayfs has them."""

    def __init__(self, run: Run, name: str, layers: list[Path], packages: Path):
        self.name = name
        self.run_of = run
        self.packages = packages
        self.layers = layers
        self.changes = run.make_folder(f"{name}/changes")
        self.path = run.make_folder(f"{name}/root")
        work = run.make_folder(f"{name}/work")
        lower = ":".join(map(str, layers))
        sh("mount", "-t", "overlay", "overlay", "-o",
           f"lowerdir={lower},upperdir={self.changes},workdir={work}", str(self.path))

    def upon(self, name: str) -> "Root":
        """A new root over this one, which is not to be changed any more."""
        return Root(self.run_of, name, [self.changes, *self.layers], self.packages)

    def run(self, command: str, check: bool = True, timeout_s: float = 300,
            alone: bool = False) -> str:
        """A shell command, as root, with the host's network, or alone with a loopback interface.
        Returns what it said."""
        words = [*CONTAINER, "--as-pid2", f"--bind-ro={self.packages}:/packages",
                 *(["--private-network"] if alone else []), "-D", str(self.path),
                 "-M", f"{self.run_of.name}-{self.name}", "/bin/sh", "-ec", command]
        said = sh(*words, check=check, timeout=timeout_s).splitlines(keepends=True)
        return "".join(line for line in said if not line.startswith(OF_THE_CONTAINER))

    def install(self, names: list[str]) -> None:
        """Our packages, with what they depend on."""
        files = " ".join(f"/packages/{name}_*.deb" for name in names)
        self.run(f"apt-get -q update && apt-get -q -y install --no-install-recommends {files}",
                 timeout_s=600)

    def write(self, name: str, text: str) -> None:
        (self.path / name.lstrip("/")).write_text(text)

    def files(self) -> set[str]:
        """Everything that is there but other file systems, by its name."""
        found = sh("find", str(self.path), "-xdev", "-printf", "/%P\n").splitlines()
        return set(found) - ITS_FOLDERS


class Machine(Root):
    """A root that runs, in a node's network namespace. commands are run in it."""

    def __init__(self, below: Root, name: str, node: Node):
        super().__init__(below.run_of, name, [below.changes, *below.layers], below.packages)
        self.node = node
        self.log = self.run_of.folder / f"{name}.log"
        self.write("/etc/hostname", f"{name}\n")
        with open(self.log, "wb") as log:
            self._child = subprocess.Popen(
                [*CONTAINER, "--boot", f"--network-namespace-path=/run/netns/{node.namespace}",
                 f"--bind-ro={self.packages}:/packages", "-D", str(self.path),
                 "-M", f"{self.run_of.name}-{name}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        self.run_of.on_close(self.stop)
        self._leader = wait_until(self._find_leader, 30, f"{name} to start")
        wait_until(lambda: self.run("systemctl is-system-running", check=False).strip() in
                   ("running", "degraded"), 120, f"{name} to boot", 0.3)

    def _find_leader(self) -> str:
        """The machine's first process: the one that systemd-nspawn has begun."""
        if self._child.poll() is not None:
            raise RuntimeError(f"{self.name} ended: {self.log.read_text(errors='replace')}")
        file = Path(f"/proc/{self._child.pid}/task/{self._child.pid}/children")
        children = file.read_text().split()
        inside = [pid for pid in children
                  if Path(f"/proc/{pid}/root/run/systemd/system").is_dir()]
        return inside[0] if inside else ""

    def run(self, command: str, check: bool = True, timeout_s: float = 120) -> str:
        return sh("nsenter", "-t", self._leader, "--all", "/usr/bin/env", "-i",
                  "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive",
                  "/bin/sh", "-ec", command, check=check, timeout=timeout_s)

    def wait(self, command: str, what: str, timeout_s: float = 60) -> None:
        """Until a command ends with 0."""
        until = time.monotonic() + timeout_s
        while subprocess.run(["nsenter", "-t", self._leader, "--all", "/bin/sh", "-c", command],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            if time.monotonic() > until:
                journal = self.run("journalctl -n 40 --no-pager", check=False)
                raise TimeoutError(f"{self.name}: {what}: not within {timeout_s:.0f} s\n{journal}")
            time.sleep(0.3)

    def stop(self) -> None:
        """As when its power fails."""
        if self._child.poll() is None:
            sh("kill", "-KILL", self._leader, check=False)
            self._child.wait(20)
