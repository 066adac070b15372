"""A server process of a run: started in a namespace, watched, stopped, crashed, frozen."""

import os
import signal
import subprocess
from pathlib import Path

from .cgroups import Cgroup
from .network import Node, with_mounts
from .run import Run, sh, wait_until


def pause(pid: int) -> None:
    """SIGSTOP to a process of several threads, and on return none goes on. The signal is one
    thread's to take, and until that one has run, which may take long on a busy machine, the others
    do as before. A thread in the midst of a call to a disk (D) stops at its end: not waited for."""
    def stopped(thread):
        try:
            return (thread / "stat").read_text().rpartition(")")[2].split()[0] in "TtDZX"
        except (FileNotFoundError, ProcessLookupError):
            return True
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: all(map(stopped, Path(f"/proc/{pid}/task").iterdir())), 10,
               f"the threads of {pid} to stop", 0.01)


class Process:
    """Starts the same command any number of times; each start appends to one log.

    Ends with the run. Not for several threads.
    """

    def __init__(self, run: Run, name: str, command: list[str], node: Node | None = None,
                 env: dict[str, str] | None = None, cpus: str = "", cgroup: Cgroup | None = None,
                 user: str = ""):
        self.folder = run.folder
        self.name = name
        self.command = [str(word) for word in command]
        self.node = node
        self.env = env or {}
        self.cpus = cpus
        self.cgroup = cgroup
        self.user = user  # who runs it, without any capability; nobody said: root
        self.shown: dict[str, Path] = {}  # files that it sees in the place of the machine's
        self.log = run.folder / f"{name}.log"
        self._child: subprocess.Popen | None = None
        run.on_close(self.kill)

    @property
    def pid(self) -> int:
        if self._child is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._child.pid

    def child_pid(self) -> int:
        """The process that a supervisor runs; 0 while there is none."""
        file = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        children = file.read_text().split() if self.alive else []
        return int(children[0]) if children else 0

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def status(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._child.poll() if self._child else None

    def start(self) -> None:
        if self.alive:
            raise RuntimeError(f"{self.name} already runs")
        prefix = self.cgroup.join_command() if self.cgroup else []
        prefix += self.node.enter_command() if self.node else []
        if self.shown:
            mounts = [f"mount --bind {file} {place}" for place, file in self.shown.items()]
            prefix += with_mounts(self.folder, " && ".join(mounts))
        if self.cpus:
            prefix += ["taskset", "-c", self.cpus]
        if self.user:
            prefix += ["setpriv", "--reuid", self.user, "--regid", self.user, "--clear-groups",
                       "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]
        with open(self.log, "ab") as log:
            self._child = subprocess.Popen(
                [*prefix, *self.command], stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True, env={**os.environ, **self.env})

    def signal(self, number: int) -> None:
        if self.alive:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL, and reaped: its sockets are gone on return, and those of a supervisor's
        child."""
        child = self.child_pid() if self.alive else 0
        self.signal(signal.SIGKILL)
        if self._child:
            self._child.wait(10)
        if child:
            gone = Path(f"/proc/{child}")
            wait_until(lambda: not gone.exists(), 10, f"{self.name}'s child to go")

    def pause(self) -> None:
        """SIGSTOP, and on return no thread goes on."""
        if self.alive:
            pause(self.pid)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def stop(self, grace_s: float = 10) -> int | None:
        """SIGTERM, then SIGKILL after grace_s. Returns the exit status."""
        if not self.alive:
            return self.status
        self.resume()
        self.signal(signal.SIGTERM)
        try:
            self._child.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
        return self.status

    def wait_port(self, port: int, timeout_s: float = 30) -> None:
        """Waits until something listens on a TCP port in the process's namespace."""
        def listening() -> bool:
            if not self.alive:
                raise RuntimeError(f"{self.name} ended with {self.status}:\n{self.log_tail()}")
            options = ["-N", self.node.namespace] if self.node else []
            return bool(sh("ss", *options, "-Hltn", f"sport = :{port}", check=False).strip())
        try:
            wait_until(listening, timeout_s, f"{self.name} on port {port}", 0.05)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.log_tail()}") from None

    def log_tail(self, lines: int = 30) -> str:
        return tail(self.log, lines)


def tail(file: Path, lines: int = 30) -> str:
    """The last lines of a text file, empty when there is none."""
    if not file.exists():
        return ""
    with open(file, "rb") as opened:
        opened.seek(0, os.SEEK_END)
        opened.seek(max(0, opened.tell() - 200 * lines))
        return "\n".join(opened.read().decode(errors="replace").splitlines()[-lines:])
