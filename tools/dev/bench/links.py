"""Servers with machines and limited links of their own, for benchmarks; what plain TCP moves over
such a link; streams that compete for one. Imported before anything of the harness.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import report

sys.path.insert(0, str(report.ROOT / "tests" / "system"))
os.environ.setdefault("WEFT_BUILD", str(report.ROOT / "build" / "release"))

from harness import counters, servers  # noqa: E402
from harness.network import congestion_control  # noqa: E402
from harness.process import Process  # noqa: E402

report.CONTEXT["congestion_control"] = congestion_control()

MIB = 1 << 20
TCP_PORT = 5001
STRESS_PORT = 5002
HEARTBEATS_S = 3  # loads that were measured before are forgotten by then, or new ones known
PYTHON = "/usr/bin/python3"

# A connection that sends 'r' is sent zeros until it closes; one that sends 'w' is read until then,
# and told how much arrived.
TCP_SERVER = """
import socket, sys, threading
def serve(peer):
    zeros = bytes(1 << 20)
    if peer.recv(1) == b"r":
        try:
            while True:
                peer.sendall(zeros)
        except OSError:
            return
    got = 0
    try:
        while data := peer.recv(1 << 20):
            got += len(data)
        peer.sendall(str(got).encode())
    except OSError:
        pass
    peer.close()
listener = socket.create_server(("", int(sys.argv[1])))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""

TCP_CLIENT = """
import socket, time
peer = socket.create_connection(("{address}", {port}))
peer.sendall(b"{way}")
buffer = bytearray(1 << 20)
started = time.monotonic()
moved = 0
if "{way}" == "r":
    while time.monotonic() - started < {seconds}:
        moved += peer.recv_into(buffer)
else:
    while time.monotonic() - started < {seconds}:
        peer.sendall(buffer)
    peer.shutdown(socket.SHUT_WR)
    moved = int(peer.recv(100))
print(moved / (time.monotonic() - started))
"""


def serve_tcp(cluster, port: int = TCP_PORT) -> None:
    """A plain TCP server at every data server's machine, until the run ends."""
    for server in cluster.ds:
        process = Process(cluster.run, f"tcp-{port}-{server.name}",
                          [PYTHON, "-c", TCP_SERVER, str(port)], server.node)
        process.start()
        process.wait_port(port)


def tcp_script(address: str, way: str, seconds: float, port: int = TCP_PORT) -> str:
    """Python for a client's machine: prints the bytes a second of one connection."""
    return TCP_CLIENT.format(address=address, port=port, way=way[0], seconds=seconds)


def plain_tcp(node, address: str, way: str, seconds: float) -> float:
    """MiB/s from a program's machine; `way` is "read" or "write"."""
    done = subprocess.run(["ip", "netns", "exec", node.namespace, PYTHON, "-c",
                           tcp_script(address, way, seconds)],
                          text=True, capture_output=True, timeout=seconds + 60, check=True)
    return float(done.stdout) / MIB


class Streams:
    """Plain TCP streams between the hub and data servers' machines, which compete for their links.

    serve_tcp(cluster, STRESS_PORT) first. A context: the streams run inside it, and the loads that
    data servers report have them when it is entered.
    """

    def __init__(self, network, nodes, way: str, each: int = 2):
        self._commands = [["ip", "netns", "exec", network.hub, PYTHON, "-c",
                           tcp_script(node.address, way, 1e6, STRESS_PORT)]
                          for node in nodes for _ in range(each)]
        self._running: list = []

    def __enter__(self):
        self._running = [subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                          stderr=subprocess.DEVNULL)
                         for command in self._commands]
        time.sleep(HEARTBEATS_S)
        return self

    def __exit__(self, *_):
        for stream in self._running:
            stream.kill()
            stream.wait()


def policy(cluster, folder: str, *keys: str) -> None:
    """Of a folder of the export, or with "" of the export's root; what was said before is gone."""
    counters.weft(cluster, "policy", "replace", f"{cluster.path}/{folder}".rstrip("/"), *keys)


def generate(cluster, node, *words: str) -> subprocess.Popen:
    """A load generator on a program's machine. Its output is for results()."""
    binary = servers.require(Path(os.environ["WEFT_BUILD"]) / "tools" / "load" / "weft-load")
    return subprocess.Popen(
        ["ip", "netns", "exec", node.namespace, str(binary), "data", "--address", cluster.address,
         "--export", cluster.path, *words], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE)


def results(running: list, timeout_s: float) -> list[dict]:
    """What generators print, one after the other; an error of any ends all."""
    found = []
    try:
        for one in running:
            out, error = one.communicate(timeout=timeout_s)
            if one.returncode != 0:
                raise RuntimeError(f"{' '.join(one.args)}\n{error.strip()}")
            found.append(json.loads(out))
    finally:
        for one in running:
            if one.poll() is None:
                one.kill()
                one.wait()
    return found


def writers(cluster, nodes: list, seconds: float, *words: str) -> list[dict]:
    """A new file written from each of `nodes`, beginning together, and committed."""
    return results(_write_together(cluster, nodes, "--size", "1GiB", "--seconds", str(seconds),
                                   *words), seconds + 120)


def burst(cluster, nodes: list, size: int, *words: str) -> list[dict]:
    """The same, of `size` bytes each."""
    return results(start_burst(cluster, nodes, size, *words), 300)


def start_burst(cluster, nodes: list, size: int, *words: str) -> list:
    """The generators of a burst, for results()."""
    return _write_together(cluster, nodes, "--once", "--size", str(size), *words)


def wait_written(running: list) -> None:
    """Until all of what generators with --say-written write is answered, or one has failed."""
    for one in running:
        one.stderr.readline()


def _write_together(cluster, nodes: list, *words: str) -> list:
    start = time.time() + 1 + 0.1 * len(nodes)
    name = f"w{time.monotonic_ns()}"
    return [generate(cluster, node, "--op", "write", "--no-prepare", "--start-at", str(start),
                     "--file", f"{name}.{number}", *words)
            for number, node in enumerate(nodes)]
