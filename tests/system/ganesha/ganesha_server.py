"""A Ganesha of a test's own: private folder, port and configuration, killed at the end.

It exports FSAL_MEM as /mem and the layout FSAL of layout_fsal/ as /layout and /more, all by NFSv4
only.

WEFT_GANESHA_PREFIX   the Ganesha to test (/opt/weft-ganesha)
WEFT_LAYOUT_FSAL      the layout FSAL compiled against it (from the release build)
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from wire import Client, Connection, ConnectionClosed, Status, const, ops
from wire.rpc import auth_none

ROOT = pathlib.Path(__file__).resolve().parents[3]
PREFIX = pathlib.Path(os.environ.get("WEFT_GANESHA_PREFIX", "/opt/weft-ganesha"))
LAYOUT_FSAL = pathlib.Path(os.environ.get(
    "WEFT_LAYOUT_FSAL",
    ROOT / "build/release/tests/system/ganesha/layout_fsal/libfsallayout.so"))

CONFIGURATION = """
NFS_CORE_PARAM {
  Protocols = 4; NFS_Port = %(port)d; Bind_addr = 127.0.0.1; Plugins_Dir = %(plugins)s;
  allow_set_io_flusher_fail = true; Enable_NLM = false; Enable_RQUOTA = false;
}
NFSv4 {
  Graceless = %(graceless)s; Grace_Period = %(grace)d; PNFS_MDS = true;
  Minor_Versions = 0, 1, 2; RecoveryBackend = fs;
  RecoveryRoot = %(folder)s/recovery; Lease_Lifetime = %(lease)d; %(nfsv4)s
}
MEM { Inode_Size = 4096; }
EXPORT_DEFAULTS { Access_Type = RW; Squash = None; SecType = sys, none; }
EXPORT { Export_Id = 1; Path = /mem; Pseudo = /mem; FSAL { Name = MEM; } }
EXPORT { Export_Id = 2; Path = /layout; Pseudo = /layout; FSAL { Name = LAYOUT; } }
EXPORT { Export_Id = 3; Path = /more; Pseudo = /more; FSAL { Name = LAYOUT; } }
EXPORT { Export_Id = 4; Path = /read; Pseudo = /read; Access_Type = RO; FSAL { Name = MEM; } }
%(exports)s
"""


def missing():
    """Why no server can be started here, or None."""
    if not (PREFIX / "bin/ganesha.nfsd").exists():
        return f"no Ganesha in {PREFIX} (tools/dev/ganesha.sh builds it)"
    if not LAYOUT_FSAL.exists():
        return f"{LAYOUT_FSAL} is not built"
    return None


def sanitized():
    """Whether the server is built with AddressSanitizer."""
    header = PREFIX / "include/ganesha/config.h"
    return header.exists() and "#define SANITIZE_ADDRESS" in header.read_text()


class Ganesha:
    """Starts in the constructor; raises with the end of its log if it does not come up in time.
    Without grace_s it is never in grace; with it, it begins with a grace period, which is over
    soon, since there are no clients to wait for. nfsv4 is more of its NFSv4 block, exports are
    blocks of others."""

    def __init__(self, lease_s=60, grace_s=0, start_timeout_s=20, nfsv4="", exports=""):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft-ganesha-"))
        self.address = ("127.0.0.1", _free_port())
        self._write_configuration(lease_s, grace_s, nfsv4, exports)
        self._open_to_users(self._start(start_timeout_s))

    def _start(self, timeout_s, **more):
        environment = dict(os.environ, LAYOUT_FSAL_LOG=str(self.folder / "calls"),
                           LAYOUT_FSAL_SOCKET=str(self.folder / "commands"),
                           MALLOC_PERTURB_="165", **more)  # freed memory does not look alive
        self.process = subprocess.Popen(
            [PREFIX / "bin/ganesha.nfsd", "-F", "-f", self.folder / "ganesha.conf",
             "-L", self.folder / "log", "-p", self.folder / "pid", "-N", "NIV_EVENT"],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, cwd=self.folder)
        deadline = time.monotonic() + timeout_s
        while not self.answers(0.5):
            if self.process.poll() is not None or time.monotonic() > deadline:
                log = self.log_tail()
                self.stop()
                raise RuntimeError(f"Ganesha did not start:\n{log}")
            time.sleep(0.05)
        return deadline

    def restart(self, **environment):
        """Kills it, and starts another with these variables in its place."""
        self.process.kill()
        self.process.wait()
        (self.folder / "commands").unlink()
        self._start(60, **environment)

    def _open_to_users(self, deadline):
        """Users may make files in the exports, as an administrator would let them."""
        with Client(self.address, uid=0, gid=0) as root:
            for path in ("/mem", "/layout"):
                while root.compound(*root.at(path), ops.setattr(mode=0o1777)).status != Status.OK:
                    assert time.monotonic() < deadline, "grace does not end"
                    time.sleep(0.05)

    def _write_configuration(self, lease_s, grace_s, nfsv4, exports):
        plugins = self.folder / "plugins"
        plugins.mkdir()
        (self.folder / "recovery").mkdir()
        for library in (PREFIX / "lib/ganesha").glob("*.so"):
            (plugins / library.name).symlink_to(library)
        (plugins / "libfsallayout.so").symlink_to(LAYOUT_FSAL)
        (self.folder / "ganesha.conf").write_text(CONFIGURATION % {
            "port": self.address[1], "plugins": plugins, "folder": self.folder,
            "lease": lease_s, "grace": grace_s or 60, "graceless": str(grace_s == 0).lower(),
            "nfsv4": nfsv4, "exports": exports})

    def answers(self, timeout_s=2.0):
        """Whether it answers a NULL call."""
        if self.process.poll() is not None:
            return False
        try:
            with Connection(self.address, timeout_s) as connection:
                connection.call(const.NFS_PROGRAM, const.NFS_VERSION, 0, b"", auth_none())
            return True
        except (OSError, ConnectionClosed, TimeoutError):
            return False

    @property
    def ended(self):
        """How it ended: None while it runs, else an exit status, -9 for SIGKILL and so on."""
        return self.process.poll()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log_tail(self, lines=30):
        try:
            return "\n".join((self.folder / "log").read_text().splitlines()[-lines:])
        except OSError:
            return "(no log)"

    def resident_bytes(self):
        pages = int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = text.rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def cpu_hungry(self, interval_s=0.2):
        """Whether a thread spins: nothing is asked of it, and it uses most of a processor."""
        before = self.cpu_seconds()
        time.sleep(interval_s)
        return self.cpu_seconds() - before > interval_s / 2

    # The layout FSAL: what arrived there, and commands to it.

    def calls(self, name=None):
        """What the layout FSAL recorded so far, oldest first: dicts with "call"."""
        try:
            lines = (self.folder / "calls").read_text().splitlines()
        except FileNotFoundError:
            return []
        records = [json.loads(line) for line in lines]
        return [r for r in records if name is None or r["call"] == name]

    def wait_for_call(self, name, count=1, timeout_s=5.0, after=0):
        """Waits until there are COUNT records of NAME beyond the first AFTER; returns those."""
        deadline = time.monotonic() + timeout_s
        while True:
            records = self.calls(name)[after:]
            if len(records) >= count:
                return records
            assert time.monotonic() < deadline, f"{len(records)} of {count} {name}: {records}"
            time.sleep(0.01)

    def command(self, text):
        """A command of layout_fsal.c; AssertionError if it is refused."""
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(5)
            peer.connect(str(self.folder / "commands"))
            peer.sendall(text.encode())
            answer = peer.recv(16)
            assert answer == b"ok\n", (text, answer)

    def set(self, **settings):
        for name, value in settings.items():
            self.command(f"set {name} {value}")

    def recall(self, cookie=0, offset=0, length=const.UINT64_MAX, iomode=const.IOMODE_ANY):
        """Recalls from the file that was last granted a layout; returns the state_status_t of it
        (0: sent)."""
        before = len(self.calls("recall"))
        self.command(f"recall {offset} {length} {iomode} {cookie}")
        return self.wait_for_call("recall", after=before)[0]["status"]

    def recall_any(self, client, keep, mask):
        """Asks the client of this id; returns what it answered."""
        before = len(self.calls("recall_any"))
        self.command(f"recall_any {client} {keep} {mask}")
        return self.wait_for_call("recall_any", after=before)[0]["status"]

    def grace_left_ms(self):
        return self._told("grace_left")["ms"]

    def allocated_bytes(self):
        """What malloc has given out and did not get back, in all arenas."""
        return self._told("allocated")["bytes"]

    def _told(self, what):
        before = len(self.calls(what))
        self.command(what)
        return self.wait_for_call(what, after=before)[0]


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
