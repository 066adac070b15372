"""What becomes of a recall, by how its client takes it.

These are properties of the patched core that our FSAL relies on, see docs/ganesha-patches.md. None
of them needs a patch of its own, but those of patches 0060, 0061, 0066, 0067, 0081,
0093 and 0097.
"""

import threading
import time

import pytest

from test_patches import granted, healthy, leaves_nothing, needs_true_sizes, put
from wire import Client, Status, const, layout_ops, ops

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


def test_a_lease_that_ends_takes_the_layouts_with_it(start):
    server = start(lease_s=2)
    client = Client(server.address)
    handle, opened = client.open("/layout", b"file", create=True)
    client.call(ops.putfh(handle), layout_ops.layoutget(opened))
    client.vanish()
    returned, = server.wait_for_call("layoutreturn", timeout_s=15)
    assert (returned["segment"], returned["circumstance"]) == (1, REVOKE)
    assert returned["client"] == 0  # op_ctx does not say whose: the segment must


def test_0060_who_is_slow_to_answer_many_recalls_keeps_its_layouts(server, client):
    """More than the backchannel has slots."""
    client.backchannel.answer = lambda recall: time.sleep(0.5) or Status.OK
    for number in range(12):
        granted(client, b"file%d" % number)
        assert server.recall(cookie=number) == 0
    recalled = {client.backchannel.next_recall(10).stateid for _ in range(12)}
    assert len(recalled) == 12 and server.calls("layoutreturn") == []
    healthy(server)


@needs_true_sizes
def test_0061_recalls_of_what_comes_back_meanwhile_leave_nothing_behind(server, client):
    handle, opened = client.open("/layout", b"file", create=True)
    client.backchannel.answer = lambda recall: Status.DELAY

    def recalled(count):
        for _ in range(count):
            other = client.call(put(handle), layout_ops.layoutget(opened)).stateid.other
            server.command(f"recall 0 {const.UINT64_MAX} {const.IOMODE_ANY} 0")
            stateid = client.backchannel.next_recall().stateid
            while stateid.other != other:  # the last of the layout before
                stateid = client.backchannel.next_recall().stateid
            client.call(put(handle), layout_ops.layoutreturn(stateid))

    leaves_nothing(server, recalled, 2000)
    healthy(server)


def test_0066_recalls_that_wait_for_a_slot_keep_nobody_waiting(server, client):
    client.backchannel.answer = lambda recall: time.sleep(2) or Status.OK
    took = []
    for number in range(20):
        began = time.monotonic()
        granted(client, b"file%d" % number)
        took.append(time.monotonic() - began)
        server.command(f"recall 0 {const.UINT64_MAX} {const.IOMODE_ANY} {number}")
    assert max(took) < 0.3, took
    healthy(server)


def test_0067_results_that_nobody_asked_for_are_refused(server, client):
    client.backchannel.surplus = 1000
    for number in range(20):
        handle, _, _ = granted(client, b"file%d" % number)
        assert server.recall(cookie=number) == 0
        recalled = client.backchannel.next_recall().stateid
        client.call(put(handle), layout_ops.layoutreturn(recalled))
    healthy(server)


def test_0081_who_is_not_asked_within_a_lease_keeps_its_layouts(start):
    server = start(lease_s=2)
    client = Client(server.address)
    answered = threading.Event()
    client.backchannel.answer = lambda recall: answered.wait(30) and Status.OK
    for number in range(12):  # more than the backchannel has slots
        granted(client, b"file%d" % number)
        assert server.recall(cookie=number) == 0
    ends = time.monotonic() + 3
    while time.monotonic() < ends:
        client.call(ops.putrootfh())  # renews the lease
        time.sleep(0.2)
    waited = server.calls("layoutrecall_waits")
    assert waited and {call["client"] for call in waited} == {client.clientid}
    assert server.calls("layoutreturn") == []
    answered.set()
    recalled = {client.backchannel.next_recall(10).stateid for _ in range(12)}
    assert len(recalled) == 12 and server.calls("layoutreturn") == []
    client.close()


def test_0093_a_layout_recalled_while_it_is_granted_is_given_back(server, client):
    handle, opened, stateid = granted(client)
    client.call(put(handle), layout_ops.layoutreturn(stateid))
    server.set(layoutget_delay_ms=500)
    results = []
    getter = threading.Thread(target=lambda: results.append(
        client.compound(put(handle), layout_ops.layoutget(opened))))
    getter.start()
    time.sleep(0.15)
    assert server.recall(iomode=const.IOMODE_READ) != 0  # not that one
    getter.join()
    assert results.pop().status == Status.OK
    assert server.recall() == 0
    client.call(put(handle), layout_ops.layoutreturn(client.backchannel.next_recall().stateid))
    before = len(server.calls("layoutreturn"))
    getter = threading.Thread(target=lambda: results.append(
        client.compound(put(handle), layout_ops.layoutget(opened))))
    getter.start()
    time.sleep(0.15)
    assert server.recall() != 0  # there is none
    getter.join()
    assert results.pop().status == Status.RECALLCONFLICT
    assert len(server.calls("layoutreturn")) == before + 1
    server.set(layoutget_delay_ms=0)
    assert client.compound(put(handle), layout_ops.layoutget(opened)).status == Status.OK
    healthy(server)


def test_0097_who_waits_for_a_lock_is_told_once_a_slot_is_free(server, client, new_client):
    holder, answered = new_client(), threading.Event()
    handle, opened = holder.open("/layout", b"locked", create=True)
    held = holder.call(put(handle), ops.lock(opened, holder.clientid)).stateid
    _, waiting = client.open("/layout", b"locked")
    lock = [put(handle), ops.lock(waiting, client.clientid, b"waiter", waits=True)]
    assert client.compound(*lock).status == Status.DENIED
    client.backchannel.answer = lambda recall: answered.wait(30) and Status.OK
    for number in range(12):  # more than the backchannel has slots
        granted(client, b"file%d" % number)
        assert server.recall(cookie=number) == 0
    holder.call(put(handle), ops.unlock(held))
    time.sleep(0.5)
    assert client.backchannel.locks.empty()
    answered.set()
    assert client.backchannel.locks.get(timeout=5) == b"waiter"
    assert client.compound(*lock).status == Status.OK
    healthy(server)
