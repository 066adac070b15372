"""Requests that a client sends again over a new connection while the first is still running.

A data server without a metadata server, and the wire client (harness/standalone.py). A Linux client
sends a request once over each connection and waits for the answer as long as that lives."""

import threading
import time

import pytest
from harness.cluster import Options
from harness.in_namespace import InNamespace
from harness.standalone import Caller, Standalone
from wire import ConnectionClosed, Status, const, ops

pytestmark = pytest.mark.faults

OBJECT = 41
SLOT = 2  # one that the session has not used yet


class Sending(threading.Thread):
    """One compound; `reply` is None when the connection ended before the answer."""

    def __init__(self, client, *operations, timeout_s=30):
        super().__init__(daemon=True)
        self.client, self.operations, self.timeout_s = client, operations, timeout_s
        self.reply = None
        self.start()

    def run(self):
        try:
            self.reply = self.client.send(*self.operations, timeout=self.timeout_s)
        except (ConnectionClosed, TimeoutError):
            pass


def test_a_request_that_runs_is_answered_where_it_came_last(run, network):
    system = Standalone(run, network, Options(store="tcp", metrics=True,
                                              store_options="target_patience_seconds = 30"))
    caller = Caller(system, OBJECT)
    caller.write(0, b"before", const.FILE_SYNC4)
    client = system.session(b"again", 30)
    request = (ops.sequence(client.session, 1, SLOT, client.slots - 1, False),
               ops.putfh(system.handle(OBJECT)),
               ops.write(ops.ANONYMOUS, 0, b"behind", const.FILE_SYNC4))
    target = system.targets[0].process
    target.pause()
    try:
        first = Sending(client, *request)
        time.sleep(0.5)
        client.connection.close()
        first.join(5)
        client.connection = InNamespace(system.ds[0].node, lambda: client._connect(30)).result()
        second = Sending(client, *request)
        time.sleep(1)
        assert second.is_alive(), "it runs, and waits for the target"
    finally:
        target.resume()
    second.join(10)
    assert first.reply is None
    assert second.reply is not None, "nobody answered over the new connection"
    assert second.reply.status == Status.OK
    assert client.send(*request).status == Status.OK, "and the answer is kept"
    assert system.metrics(system.ds[0])["weft_ds_replays_total"] == 2
    assert caller.read(0, 6) == b"behind"
    client.close()
    caller.close()
