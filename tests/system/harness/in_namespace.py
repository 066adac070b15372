"""Python code of a test in a node's network namespace, for the wire client."""

import ctypes
import os
import threading

CLONE_NEWNET = 0x40000000


class InNamespace(threading.Thread):
    """Runs WORK on a thread in a node's network namespace; result() has what it returned."""

    def __init__(self, node, work):
        super().__init__(daemon=True)
        self.node, self.work = node, work
        self.value = self.error = None
        self.start()

    def run(self):
        try:
            with open(f"/run/netns/{self.node.namespace}", "rb") as space:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(space.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            self.value = self.work()
        except BaseException as error:  # whatever it was, the test is to see it
            self.error = error

    def result(self, timeout_s=60):
        self.join(timeout_s)
        assert not self.is_alive(), "no answer"
        if self.error is not None:
            raise self.error
        return self.value
