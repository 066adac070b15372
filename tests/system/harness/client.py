"""A Linux machine with a stock NFS client: start it, run jobs in it, stop it.

    client = start_client(run, network, "uml61")
    client.mount("10.77.0.1", "/export")
    result = client.run("cp /mnt/nfs/a /mnt/nfs/b && sha256sum /mnt/nfs/b", timeout_s=60)
    client.run("chown 5 /mnt/nfs/a", root=True)                         # not as client.uid
    job = client.start_job("cp big /mnt/nfs/; weft-signal copied")      # runs beside the test
    client.wait_event("copied"); job.wait(60)

A machine boots once and runs many jobs, several at a time if asked. Jobs are scripts, bash unless
their first line says otherwise. Job and host signal each other by named events (weft-signal and
weft-wait in the job). Every wait has a limit. Host and machine speak through two folders, see
guest/agent.py; kinds of machine differ only in how they start and how the folders are shared.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from wire.rpc import USER

from . import images, paths
from .network import HostNetwork, Network, Node
from .process import tail
from .run import Run, sh, wait_until

MOUNT_POINT = "/mnt/nfs"
GUEST_FILES = {"init.sh": "init.sh", "agent.py": "agent.py", "weft-signal": "bin/weft-signal",
               "weft-wait": "bin/weft-wait", "weft-drop-caches": "bin/weft-drop-caches",
               "weftio.py": "weftio.py",
               "rights.py": "rights.py"}


class ClientDied(RuntimeError):
    """The machine ended although nobody stopped it; the text has the console's end."""


class JobFailed(AssertionError):
    """A job ended with a status other than 0, or took too long; the text has its output."""


@dataclass(frozen=True)
class Result:
    status: int
    output: str


class Job:
    """A script running in a client. Made by Client.start_job."""

    def __init__(self, client: "Client", name: str, script: str):
        self.client = client
        self.name = name
        self.script = script

    def output(self) -> str:
        """What the job has printed so far."""
        file = self.client.from_guest / f"{self.name}.out"
        return file.read_text(errors="replace") if file.exists() else ""

    def done(self) -> bool:
        return (self.client.from_guest / f"{self.name}.status").exists()

    def kill(self) -> None:
        """SIGKILL for every process of the job; it then ends with a negative status."""
        self.client.send(f"{self.name}.kill", "")

    def wait(self, timeout_s: float, check: bool = True) -> Result:
        try:
            self.client.wait(self.done, timeout_s, f"job {self.name}")
        except TimeoutError as error:
            self.kill()
            raise JobFailed(f"{error}\n{self._report()}") from None
        status = int((self.client.from_guest / f"{self.name}.status").read_text())
        if check and status != 0:
            raise JobFailed(f"status {status}\n{self._report()}")
        return Result(status, self.output())

    def _report(self) -> str:
        return (f"--- script\n{self.script[-1500:]}\n--- output\n{self.output()[-3000:]}\n"
                f"--- console of {self.client.name}\n{tail(self.client.console, 15)}")


class Client:
    """Base of the kinds. Not for several threads; the share's files are the only shared state."""

    kind = ""
    device = ""
    modules = ""
    pinned = True

    def __init__(self, run: Run, node: Node, cpus: str = "", memory_mib: int = 1024,
                 terminal: bool = False, uid: int = USER):
        self.run_of = run
        self.node = node
        self.name = f"{self.kind}-{node.port}"
        self.cpus = cpus
        self.memory_mib = memory_mib
        self.terminal = terminal
        self.uid = uid  # jobs are its, unless a job is to be root's
        self.shell_first = ""  # a command for the terminal's shell to begin with
        self.folder = run.make_folder(self.name)
        self.share = run.make_folder(f"{self.name}/share")
        self.to_guest = run.make_folder(f"{self.name}/share/to_guest")
        self.from_guest = run.make_folder(f"{self.name}/share/from_guest")
        self.from_guest.chmod(0o1777)
        self.console = self.folder / "console.log"
        self._jobs = 0
        self._child: subprocess.Popen | None = None
        run.on_close(self.kill)

    # -- the machine

    def _command(self, image: Path, root: Path) -> list[str]:
        raise NotImplementedError

    def _started(self) -> None:
        """Called once the process runs."""

    def start(self) -> None:
        """Starts the machine and returns at once; wait_ready() says when it takes jobs."""
        image = images.ensure(images.KINDS[self.kind])
        self._write_boot_files(image)
        command = self.node.enter_command()
        if self.cpus:
            command += ["taskset", "-c", self.cpus]
        command += self._command(image, images.ROOT.folder() / "root")
        console = None if self.terminal else open(self.console, "wb")
        self._child = subprocess.Popen(
            command, stdin=None if self.terminal else subprocess.DEVNULL, stdout=console,
            stderr=console if console else None, start_new_session=not self.terminal,
            env={**os.environ, "TMPDIR": "/dev/shm"})
        if console:
            console.close()
        self._started()

    def _write_boot_files(self, image: Path) -> None:
        boot = self.run_of.make_folder(f"{self.name}/share/boot/bin").parent
        for source, name in GUEST_FILES.items():
            shutil.copy(paths.HARNESS / "guest" / source, boot / name)
            (boot / name).chmod(0o755)
        settings = {"ADDRESS": f"{self.node.address}/{self.node.prefix}", "DEVICE": self.device,
                    "GATEWAY": self.node.gateway,
                    "MODULES": f"{image}/modules" if self.modules else "",
                    "HOST_NAME": f"{self.run_of.name}-{self.name}",
                    "PORT": self._port(), "SHELL_ON": self._terminal() if self.terminal else "",
                    "SHELL_FIRST": self.shell_first}
        text = "".join(f'{key}="{value}"\n' for key, value in settings.items())
        (boot / "settings").write_text(text)

    def _port(self) -> str:
        return ""

    def _terminal(self) -> str:
        raise NotImplementedError

    def wait_end(self) -> int:
        """Waits, without limit, for a machine with a terminal to be left by its user."""
        return self._child.wait()

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def wait(self, condition, timeout_s: float, what: str):
        """wait_until, but a machine that died ends the wait at once."""
        def check():
            value = condition()
            if not value and not self.alive:
                raise ClientDied(f"{self.name} ended with {self._child and self._child.poll()} "
                                 f"while waiting for {what}\n{tail(self.console, 30)}")
            return value
        return wait_until(check, timeout_s, what)

    def wait_ready(self, timeout_s: float = 240) -> str:
        """Waits for the machine to take jobs. Returns its kernel's release."""
        self.wait((self.from_guest / "ready").exists, timeout_s, f"{self.name} to boot")
        return (self.from_guest / "ready").read_text().strip()

    def stop(self, timeout_s: float = 20) -> None:
        """Unmounts what it can and halts; kills the machine if that takes too long."""
        if self.alive:
            self.send("halt", "")
            try:
                self._child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                pass
        self.kill()

    def kill(self) -> None:
        """The machine is gone, as if its power had failed. Servers are told nothing."""
        if not self._child:
            return
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._child.wait(10)

    def pids(self) -> list[int]:
        """The machine's processes: all there is in its namespace."""
        shown = subprocess.run(["ip", "netns", "pids", self.node.namespace], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return [int(pid) for pid in shown.stdout.split()]

    # -- jobs and events

    def send(self, name: str, text: str) -> None:
        """Makes a file in the guest's to_guest folder, whole or not at all."""
        (self.folder / "sending").write_text(text)
        os.rename(self.folder / "sending", self.to_guest / name)

    def start_job(self, script: str, root: bool = False) -> Job:
        """As the user client.uid, or as root."""
        self._jobs += 1
        job = Job(self, f"job-{self._jobs}", script)
        self.send(f"{job.name}.run" + ("" if root or self.uid == 0 else f"-{self.uid}"), script)
        return job

    def run(self, script: str, timeout_s: float = 60, check: bool = True,
            root: bool = False) -> Result:
        return self.start_job(script, root).wait(timeout_s, check)

    def python(self, script: str, timeout_s: float = 60, check: bool = True,
               root: bool = False) -> Result:
        return self.run("#!/usr/bin/python3\n" + script, timeout_s, check, root)

    def signal(self, name: str) -> None:
        """Lets 'weft-wait name' in a job go on."""
        self.send(f"event-{name}", "")

    def wait_event(self, name: str, timeout_s: float = 60) -> None:
        """Waits for 'weft-signal name' of a job."""
        self.wait((self.from_guest / f"event-{name}").exists, timeout_s, f"event {name}")

    def forget_events(self) -> None:
        """What jobs and tests have told each other so far: the same names may be used again."""
        for folder in (self.from_guest, self.to_guest):
            for event in folder.glob("event-*"):
                event.unlink()

    def install(self, program: Path, root: Path = Path("/")) -> None:
        """Puts a program of the host, or of a root folder of any release, with its libraries into
        the machine, found through PATH. At any time where the share is a folder of the host
        (User-mode Linux)."""
        libraries = self.run_of.make_folder(f"{self.name}/share/boot/lib")
        shown = sh("chroot", str(root), "ldd", str(program))
        [loader] = re.findall(r"^\s+(/\S+/(ld-\S+))", shown, re.MULTILINE)
        for library in [loader[0], *re.findall(r"=> (/\S+)", shown), str(program)]:
            shutil.copy(root / library.lstrip("/"), libraries)
        wrapper = self.share / "boot" / "bin" / program.name
        here = "/run/weft/boot/lib"
        wrapper.write_text(f'#!/bin/sh\nexec {here}/{loader[1]} --library-path {here} '
                           f'{here}/{program.name} "$@"\n')
        wrapper.chmod(0o755)

    # -- NFS

    def mount(self, server: str, path: str = "/", options: str = "vers=4.2",
              at: str = MOUNT_POINT, timeout_s: float = 120) -> None:
        """Mounts, retrying while the server is not up yet. Users may make files in what is mounted,
        as an administrator would let them (docs/clients.md)."""
        users = f"chmod 1777 {at}" if self.uid else "true"
        self.run(f"mkdir -p {at}\n"
                 f"for try in 1 2 3 4 5; do\n"
                 f"  mount -t nfs -o {options} {server}:{path} {at} && {users} && exit 0; sleep 1\n"
                 f"done\nexit 1", timeout_s, root=True)

    def unmount(self, at: str = MOUNT_POINT, timeout_s: float = 60) -> None:
        self.run(f"umount {at}", timeout_s, root=True)

    def drop_caches(self) -> None:
        self.run("sync; weft-drop-caches")

    def pnfs_driver(self, at: str = MOUNT_POINT) -> str:
        """What the client says: LAYOUT_NFSV4_1_FILES, LAYOUT_FLEX_FILES or 'not configured'.

        Only the choice of driver at mount time; counters.py says where the I/O really went.
        """
        shown = self.run("cat /proc/self/mountstats").output
        section = shown.split(f"mounted on {at} ", 1)[-1]
        found = re.search(r"pnfs=([^,\n]+)", section)
        return found.group(1) if found else "none"

    def compounds(self, at: str = MOUNT_POINT) -> dict[str, int]:
        """How many the mount has asked the metadata server, by the operation that each is for."""
        shown = self.run("cat /proc/self/mountstats").output
        section = shown.split(f"mounted on {at} ", 1)[-1].split("\ndevice ", 1)[0]
        calls = section.split("per-op statistics", 1)[-1]
        return {name: int(count)
                for name, count in re.findall(r"^\s+([A-Z0-9_]+): (\d+) ", calls, re.MULTILINE)}


def default_cpus(index: int) -> str:
    """Clients from the last CPU downwards; servers are left the rest. Where several workers (gw0,
    gw1 ...) run tests there is no rest, and their clients are spread over all CPUs."""
    count = os.cpu_count() or 1
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker:
        return str(count - 1 - (index + int(worker.removeprefix("gw"))) % count)
    return str(count - 1 - index % max(1, count // 2)) if count > 1 else ""


def start_clients(run: Run, network: Network | HostNetwork, kinds: list[str], first: int = 0,
                  links: int = 1, **options) -> list[Client]:
    """Starts machines side by side and waits until all take jobs. first says how many the run has
    already, so that they get other processors. More links than one: only on a Network."""
    from .machines import MACHINES  # the kinds derive from Client, so not at the top
    clients = []
    for index, kind in enumerate(kinds):
        images.ensure(images.KINDS[kind])
        pinned = MACHINES[kind].pinned
        cpus = options.get("cpus", default_cpus(first + index) if pinned else "")
        node = network.client(links) if links > 1 else network.client()
        clients.append(MACHINES[kind](run, node, **{**options, "cpus": cpus}))
    for client in clients:
        client.start()
    for client in clients:
        client.wait_ready()
    return clients


def start_client(run: Run, network: Network | HostNetwork, kind: str = "uml61",
                 **options) -> Client:
    started = time.monotonic()
    client = start_clients(run, network, [kind], **options)[0]
    client.boot_s = time.monotonic() - started
    return client
