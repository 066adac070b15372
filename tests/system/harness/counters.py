"""Where the I/O went, by what the servers counted: the only sure sign that pNFS was used.

    with through_data_servers(cluster, written=64 * MIB):
        client.run("cp ...")

All numbers come from 'weft status'. The metadata server's own are exact at once; the data servers'
travel with their heartbeats, so a snapshot waits for the next one of each.
"""

import json
import os
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field

from . import paths, servers
from .run import wait_until

MIB = 1 << 20
HEARTBEAT_WAIT_S = 15


@dataclass
class Counts:
    """Counters since the servers started, or a difference of two of those."""

    mds_reads: int = 0
    mds_writes: int = 0
    layoutgets: int = 0
    read: dict[str, int] = field(default_factory=dict)  # bytes, by data server
    written: dict[str, int] = field(default_factory=dict)

    def since(self, before: "Counts") -> "Counts":
        """A data server that restarted meanwhile counts from 0."""
        def less(now: dict, then: dict) -> dict:
            return {name: value - (then.get(name, 0) if value >= then.get(name, 0) else 0)
                    for name, value in now.items()}
        return Counts(self.mds_reads - before.mds_reads, self.mds_writes - before.mds_writes,
                      self.layoutgets - before.layoutgets, less(self.read, before.read),
                      less(self.written, before.written))

    @property
    def total_read(self) -> int:
        return sum(self.read.values())

    @property
    def total_written(self) -> int:
        return sum(self.written.values())


class CountersUnavailable(RuntimeError):
    """The command line gave no answer; the text is what it said."""


def weft(cluster, *words: str, timeout_s: float = 15) -> dict | list:
    """Runs the command line against the cluster, where that is. Returns its JSON."""
    binary = servers.require(paths.weft_command())
    command = [str(binary), *words, "--output", "json"]
    if hasattr(cluster, "run_there"):
        return json.loads(cluster.run_there(command, timeout_s))
    done = subprocess.run(command, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout_s,
                          env={**os.environ, "WEFT_ADMIN_SOCKET": str(cluster.admin_socket)})
    if done.returncode != 0 and not done.stdout.startswith(("{", "[")):
        raise CountersUnavailable(f"weft {' '.join(words)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def snapshot(cluster) -> Counts:
    """The counters as they are now: every data server that is up has sent a heartbeat since."""
    asked = time.monotonic()

    def fresh() -> dict | None:
        report = weft(cluster, "status")
        age_ms = (time.monotonic() - asked) * 1000
        stale = [server["name"] for server in report["data_servers"]
                 if server["state"] == "up" and server["heartbeat_age_ms"] > age_ms]
        return None if stale else report
    report = wait_until(fresh, HEARTBEAT_WAIT_S, "heartbeats of all data servers", 0.05)
    status = report
    counts = Counts(status["mds_read_calls"], status["mds_write_calls"], status["layoutgets"])
    for server in report["data_servers"]:
        counts.read[server["name"]] = server["read_bytes"]
        counts.written[server["name"]] = server["written_bytes"]
    return counts


@contextmanager
def through_data_servers(cluster, written: int = 0, read: int = 0, mds_calls: int = 0):
    """Asserts that the block's I/O went to the data servers: at least so many bytes there, and at
    most mds_calls READs and WRITEs at the metadata server. Yields a dict that has the difference
    under 'counts' afterwards. Without a Weft (the harness's own tests) it asserts nothing."""
    found: dict[str, Counts] = {}
    if not cluster.counted:
        yield found
        return
    before = snapshot(cluster)
    yield found
    counts = found["counts"] = snapshot(cluster).since(before)
    served = counts.mds_reads + counts.mds_writes
    assert served <= mds_calls, f"the metadata server served I/O itself: {counts}"
    assert counts.total_written >= written, f"expected {written} bytes written: {counts}"
    assert counts.total_read >= read, f"expected {read} bytes read: {counts}"
