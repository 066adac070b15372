"""What becomes of a recall, by how its client takes it.

These are properties of the patched core that our FSAL relies on, see docs/ganesha-patches.md; none
of them needs a patch of its own.
"""

import time

import pytest

import ganesha_server
from wire import Client, Status, layout_ops, ops

CLIENT, REVOKE = 0, 3  # enum fsal_layoutreturn_circumstance


@pytest.fixture
def holder(client):
    """A client with a layout: (client, handle)."""
    handle, opened = client.open("/layout", b"file", create=True)
    client.call(ops.putfh(handle), layout_ops.layoutget(opened))
    return client, handle


def test_a_client_that_asks_for_delay_is_asked_again(server, holder):
    client, handle = holder
    answers = [Status.DELAY] * 7
    client.backchannel.answer = lambda recall: answers.pop() if answers else Status.OK
    assert server.recall(cookie=1) == 0
    recalls = [client.backchannel.next_recall() for _ in range(8)]
    assert len({recall.stateid for recall in recalls}) == 1
    client.call(ops.putfh(handle), layout_ops.layoutreturn(recalls[-1].stateid))
    returned, = server.calls("layoutreturn")
    assert (returned["cookies"], returned["circumstance"]) == ([1], CLIENT)


@pytest.mark.parametrize("status", [Status.BADHANDLE, Status.BAD_STATEID, Status.SERVERFAULT])
def test_a_client_that_refuses_is_revoked(server, holder, status):
    client, handle = holder
    client.backchannel.answer = lambda recall: status
    assert server.recall(cookie=2) == 0
    returned, = server.wait_for_call("layoutreturn")
    assert (returned["cookies"], returned["circumstance"]) == ([2], REVOKE)
    stateid = client.backchannel.next_recall().stateid
    reply = client.compound(ops.putfh(handle), layout_ops.layoutreturn(stateid))
    assert reply.status == Status.BAD_STATEID


def test_a_client_without_a_connection_is_revoked(server, holder):
    client, _ = holder
    client.vanish()
    time.sleep(0.2)
    assert server.recall(cookie=3) == 0
    returned, = server.wait_for_call("layoutreturn")
    assert (returned["cookies"], returned["circumstance"]) == ([3], REVOKE)


def test_a_client_that_is_silent_keeps_its_layout(server, holder):
    """The timer is the FSAL's business."""
    client, handle = holder
    assert server.recall(cookie=4) == 0
    stateid = client.backchannel.next_recall().stateid
    time.sleep(1)
    assert server.calls("layoutreturn") == []
    client.call(ops.putfh(handle), layout_ops.layoutcommit(stateid))
    assert len(server.calls("layoutcommit")) == 1


def test_return_on_close(server, client):
    server.set(return_on_close=1)
    handle, opened = client.open("/layout", b"file", create=True)
    layout = client.call(ops.putfh(handle), layout_ops.layoutget(opened))
    assert layout.return_on_close
    client.call(ops.putfh(handle), ops.close(opened))
    returned, = server.calls("layoutreturn")
    assert returned["dispose"] and returned["last"]


def test_a_lease_that_ends_takes_the_layouts_with_it():
    reason = ganesha_server.missing()
    if reason:
        pytest.skip(reason)
    server = ganesha_server.Ganesha(lease_s=2)
    try:
        client = Client(server.address)
        handle, opened = client.open("/layout", b"file", create=True)
        client.call(ops.putfh(handle), layout_ops.layoutget(opened))
        client.vanish()
        returned, = server.wait_for_call("layoutreturn", timeout_s=15)
        assert (returned["segment"], returned["circumstance"]) == (1, REVOKE)
        assert returned["client"] == 0  # op_ctx does not say whose: the segment must
    finally:
        server.stop()
