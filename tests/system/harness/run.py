"""One test run: a unique name, a folder, and everything that must not outlive it.

Names start with 'weft-'. The run's folder holds a lock for as long as the owning process lives.
Whoever starts a run first sweeps away what dead runs left: processes in their namespaces, the
namespaces, mounts under their folders, the folders.
"""

import atexit
import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import time
from pathlib import Path

from . import cgroups, paths


LIVE_RUNS: list["Run"] = []


def sh(*command: str, check: bool = True, timeout: float = 30) -> str:
    """Runs a short host command. Returns its output; raises with that output when it fails."""
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, timeout=timeout)
    if check and done.returncode != 0:
        raise RuntimeError(f"'{' '.join(command)}' ended with {done.returncode}: "
                           f"{done.stdout.strip()}")
    return done.stdout


def wait_until(condition, timeout_s: float, what: str, interval_s: float = 0.02):
    """Polls until condition() is true and returns its value. TimeoutError names what it was."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:.0f} s")
        time.sleep(interval_s)


def _namespaces(prefix: str) -> list[str]:
    rows = sh("ip", "netns", "list", check=False).splitlines()
    return [row.split()[0] for row in rows if row.startswith(prefix)]


def _kill_all_in(namespace: str) -> None:
    for _ in range(100):
        pids = sh("ip", "netns", "pids", namespace, check=False).split()
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(int(pid), signal.SIGKILL)
            except (ProcessLookupError, ValueError):
                pass
        time.sleep(0.02)


def _dismantle(folder: Path) -> None:
    for inner in folder.glob("*/weft-*"):  # those that have their folders on a disk of this one
        _dismantle(inner)
    for namespace in _namespaces(folder.name + "-"):
        _kill_all_in(namespace)
        sh("ip", "netns", "delete", namespace, check=False)
    for row in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        if row.split()[1].startswith(f"{folder}/"):
            sh("umount", "-l", row.split()[1], check=False)
    cgroups.sweep(folder.name)
    shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Removes what runs of dead processes left behind. Live runs are untouched."""
    for folder in paths.runs_folder().glob("weft-*"):
        try:
            with open(folder / "lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _dismantle(folder)
        except (BlockingIOError, FileNotFoundError):
            continue


class Run:
    """Owns a name, a folder and namespaces. Not for several threads. close() is idempotent."""

    def __init__(self):
        if os.geteuid() != 0:
            raise PermissionError("network namespaces need root: run the system tests as root")
        paths.runs_folder().mkdir(parents=True, exist_ok=True)
        sweep()
        self.name = f"weft-{secrets.token_hex(3)}"
        self.folder = paths.runs_folder() / self.name
        self.folder.mkdir()
        self._lock = self._take_lock()
        self._closers: list = []
        self._closed = False
        LIVE_RUNS.append(self)
        atexit.register(self.close)

    def _take_lock(self):
        """Locked before it has its name, so that no sweep gets hold of it first."""
        lock = open(self.folder / "lock.new", "w")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(self.folder / "lock.new", self.folder / "lock")
        return lock

    def on_close(self, action) -> None:
        """Actions run in reverse order before namespaces go; their errors do not stop the rest."""
        self._closers.append(action)

    def make_folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        LIVE_RUNS.remove(self)
        for action in reversed(self._closers):
            try:
                action()
            except Exception as error:  # the rest must still be torn down
                print(f"harness: closing {self.name}: {error}")
        if os.environ.get("WEFT_KEEP"):
            kept = paths.runs_folder() / f"kept-{self.name}"
            shutil.copytree(self.folder, kept, symlinks=True, ignore=_only_logs)
            print(f"harness: logs kept in {kept}")
        _dismantle(self.folder)
        self._lock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _only_logs(folder: str, names: list[str]) -> set[str]:
    kept = (".log", ".out", ".status", ".run", ".conf", ".toml")
    return {name for name in names
            if not os.path.isdir(f"{folder}/{name}") and not name.endswith(kept)}
