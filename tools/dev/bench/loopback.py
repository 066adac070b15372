"""Servers side by side on loopback, for benchmarks: each arm in a network namespace of its own.

An arm has a Run to itself: the harness names folders after what is in them. Servers are pinned to
processor 0, the load generator to processor 1, and each namespace has its own loopback interface
with as many addresses as the arm has servers, so that both arms use the same ports and neither sees
the other. Imported before anything of the harness.
"""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import report

sys.path.insert(0, str(report.ROOT / "tests" / "system"))
os.environ.setdefault("WEFT_BUILD", str(report.ROOT / "build" / "release"))

from harness import servers  # noqa: E402
from harness.cluster import Cluster, Options  # noqa: E402
from harness.network import Node, add_namespace, congestion_control  # noqa: E402
from harness.run import Run, sh  # noqa: E402

report.CONTEXT["congestion_control"] = congestion_control()

SERVER_CPU = 0
CLIENT_CPU = 1
EXPORT = "/export"
MDS_PORT = 2050  # Ganesha takes its port at every address of the namespace


class Loopback:
    """Stands in for harness.network.Network: every node is an address of one loopback."""

    def __init__(self, run: Run):
        self.namespace = f"{run.name}-lo"
        add_namespace(self.namespace)

    def _node(self, host: int) -> Node:
        address = f"10.77.0.{host}"
        sh("ip", "-n", self.namespace, "addr", "add", f"{address}/32", "dev", "lo")
        return Node(self.namespace, "", "", address)

    def mds(self) -> Node:
        return self._node(1)

    def data_server(self, number: int) -> Node:
        return self._node(10 + number)


@contextmanager
def pinned(cpu: int):
    """What is started meanwhile runs on this processor only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class WeftArm:
    """A metadata server and its data servers."""

    def __init__(self, run: Run, data_servers: int = 1, target: str = "", copies: int = 1,
                 extra: dict | None = None, **options):
        network = Loopback(run)
        with pinned(SERVER_CPU):
            self.cluster = Cluster(run, network, Options(data_servers=data_servers, grace_s=1,
                                                         mds_port=MDS_PORT,
                                                         store=target or "folder",
                                                         extra={"Copies": str(copies),
                                                                **(extra or {})},
                                                         **options))
        self.namespace = network.namespace
        self.arguments = ["--address", self.cluster.address, "--port", str(MDS_PORT), "--export",
                          EXPORT]
        self.pids = [self.cluster.mds.pid, *(server.process.pid for server in self.cluster.ds)]
        self.pids += [target.process.pid for target in self.cluster.targets]


class VfsArm:
    """Ganesha over its own VFS, on the same disk."""

    def __init__(self, run: Run):
        network = Loopback(run)
        node = network.mds()
        with pinned(SERVER_CPU):
            self.process = servers.start_vfs(run, node)
        self.namespace = network.namespace
        self.arguments = ["--address", node.address, "--export", EXPORT, "--no-pnfs"]
        self.pids = [self.process.pid]


def load(arm, subcommand: str, *arguments: str, timeout_s: float = 300) -> dict:
    """Runs the load generator against an arm and returns what it printed."""
    given = [word for word in arm.arguments if subcommand == "data" or word != "--no-pnfs"]
    pids = [word for pid in arm.pids for word in ("--server-pid", str(pid))]
    return run_json(arm.namespace, subcommand, *given, *arguments, *pids, timeout_s=timeout_s)


def generator() -> str:
    return str(servers.require(Path(os.environ["WEFT_BUILD"]) / "tools" / "load" / "weft-load"))


def run_json(namespace: str, *arguments: str, timeout_s: float = 300) -> dict:
    return _run(["ip", "netns", "exec", namespace, "taskset", "-c", str(CLIENT_CPU), generator(),
                 *arguments], timeout_s)


def run_plain(*arguments: str, timeout_s: float = 300) -> dict:
    """The generator here, neither in a namespace nor pinned."""
    return _run([generator(), *arguments], timeout_s)


def _run(command: list, timeout_s: float) -> dict:
    done = subprocess.run(command, text=True, capture_output=True, timeout=timeout_s, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr.strip()}")
    return json.loads(done.stdout)
