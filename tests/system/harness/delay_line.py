"""A long link: a client's machine behind a delay, for kernels without netem.

    line = DelayLine(run, client_node, rtt_ms=300)       # before or after the machine starts
    line.set(rtt_ms=100, loss=0.01, rate=10 << 20)
    line.cut(); line.restore()

The namespace of the client has two bridges then, one for its tap and one for its link to the hub,
and weft-delay-line (tools/delay_line) carries frames between them. Both ways are alike. Frames are
as the wire has them, 1514 bytes at most: nothing is left to an offload.

Ends with the run. Not for several threads.
"""

import json
import subprocess

from . import paths, servers
from .network import Node
from .run import Run, sh

QUEUE_PACKETS = 20000  # of a device: what a process that has to wait for its turn finds then
QUEUE = 16 << 20  # more than connections with the kernel's own buffers have under way


class DelayLine:
    def __init__(self, run: Run, node: Node, seed: int = 1, **settings):
        self.node = node
        far_bridge, near_bridge = "br0", "br1"
        sh("ip", "-n", node.namespace, "link", "add", near_bridge, "type", "bridge")
        for device, bridge in (("near0", near_bridge), ("far0", far_bridge)):
            sh(*node.enter_command(), "ip", "tuntap", "add", device, "mode", "tap")
            sh("ip", "-n", node.namespace, "link", "set", device, "txqueuelen", str(QUEUE_PACKETS))
            sh("ip", "-n", node.namespace, "link", "set", device, "master", bridge, "up")
        sh("ip", "-n", node.namespace, "link", "set", node.tap, "master", near_bridge, "up")
        sh("ip", "-n", node.namespace, "link", "set", near_bridge, "up")
        self._child = subprocess.Popen(
            [*node.enter_command(), str(servers.require(paths.delay_line_program())), "near0",
             "far0", str(seed)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        run.on_close(self.close)
        self.set(**settings)

    def set(self, rtt_ms: float = 0, loss: float = 0, rate: int = 0, queue: int = QUEUE) -> None:
        """There and back; of all frames, a part; bytes a second each way, 0 for no limit; bytes
        that may wait for their turn then."""
        self._ask(f"set {round(rtt_ms * 500)} {round(loss * 1e6)} {rate} {queue}")

    def cut(self) -> None:
        """A black hole: nothing passes and nobody is told."""
        self._ask("cut")

    def restore(self) -> None:
        self._ask("restore")

    def counts(self) -> dict[str, dict[str, int]]:
        """Of frames that the client sent ("near"), and of those for it ("far"): frames, bytes, and
        how many of them were lost, full, cut, passed."""
        return self._ask("counts")

    def _ask(self, command: str) -> dict:
        self._child.stdin.write(command + "\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        answer = json.loads(line) if line else {"error": f"ended with {self._child.wait(5)}"}
        if "error" in answer:
            raise RuntimeError(f"weft-delay-line: {command}: {answer['error']}")
        return answer

    def close(self) -> None:
        self._child.kill()
        self._child.wait(10)
