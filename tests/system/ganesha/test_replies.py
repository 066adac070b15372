"""Patches 0046, 0056 and 0058: what a reply waits for, by what clients see of it. The layout FSAL,
as it is set, has replies wait for the names that were made, holds these waits and COMMITs, and lets
the waits fail."""

import threading
import time

import pytest
from test_patches import healthy, put

from wire import ConnectionClosed, Status, const, ops
from wire.client40 import Client40

WORKERS = 200  # RPC_Ioq_ThrdMax


class Asking(threading.Thread):
    """One call. `reply` is None when the connection ended instead."""

    def __init__(self, what):
        super().__init__(daemon=True)
        self.what, self.reply = what, None
        self.start()

    def run(self):
        try:
            self.reply = self.what()
        except ConnectionClosed:
            pass


def test_0046_replies_wait_once_and_hold_nothing_meanwhile(server, new_client):
    one, two, three = (new_client() for _ in range(3))
    root = one.handle("/layout")
    other = two.call(*two.at("/layout"), ops.create_directory(b"other"), ops.getfh()).handle
    server.set(replies_wait=1, replies_held=1)
    asked = [Asking(lambda: one.compound(put(root), ops.create_directory(b"a"), put(root),
                                         ops.create_directory(b"b")))]
    server.wait_for_call("reply_wait", 1)
    # In the same directory: what it needs of it is not locked.
    asked.append(Asking(lambda: two.compound(put(root), ops.create_directory(b"c"))))
    server.wait_for_call("reply_wait", 2)
    # Who is told of them, from the cache, waits as well.
    asks = [ops.lookup(b"a"), ops.readdir(), ops.getattr([const.ATTR_CHANGE])]
    for count, ask in enumerate(asks, 3):
        asked.append(Asking(lambda ask=ask: three.compound(put(root), ask)))
        server.wait_for_call("reply_wait", count)
    # And nobody else does.
    assert three.call(put(other), ops.getattr([const.ATTR_CHANGE])).status == Status.OK
    time.sleep(0.2)
    assert all(one.is_alive() for one in asked)
    server.set(replies_held=0)
    for one in asked:
        one.join(5)
        assert one.reply.status == Status.OK
    assert [one["upto"] for one in server.calls("reply_wait")] == [2, 3, 3, 3, 3]
    assert three.call(put(root), ops.lookup(b"c"), ops.getfh()).status == Status.OK
    assert len(server.calls("reply_wait")) == 5, "all of it is durable"
    healthy(server)


def test_0046_a_retransmission_waits_for_the_same(server, client):
    root = client.handle("/layout")
    server.set(replies_wait=1, replies_held=1)
    request = (ops.sequence(client.session, 1, 3, client.slots - 1, True), put(root),
               ops.create_directory(b"a"))
    first = Asking(lambda: client.send(*request))
    server.wait_for_call("reply_wait")
    client.connection.close()
    first.join(5)
    client.connection = client._connect(5)
    second = Asking(lambda: client.send(*request))
    time.sleep(0.5)
    assert second.is_alive() and first.reply is None
    server.set(replies_held=0)
    second.join(5)
    assert second.reply.status == Status.OK and len(server.calls("reply_wait")) == 1


def test_0046_a_retransmission_of_4_0_waits_for_the_same(server):
    with Client40(server.address) as client:
        client.open("/layout", b"before", create=True)
        server.set(replies_wait=1, replies_held=1)
        request = (ops.putrootfh(), ops.lookup(b"layout"),
                   ops.open_file(b"file", client.clientid, b"opener", create=True,
                                 seqid=client._next(b"opener")), ops.getfh())
        asked = [Asking(lambda: client.compound(*request))]
        server.wait_for_call("reply_wait")
        asked.append(Asking(lambda: client.compound(*request)))
        server.wait_for_call("reply_wait", 2)
        time.sleep(0.2)
        assert all(one.is_alive() for one in asked)
        server.set(replies_held=0)
        for one in asked:
            one.join(5)
        assert [one.reply.status for one in asked] == [Status.OK] * 2


@pytest.mark.parametrize("cache", [True, False])
def test_0046_what_may_be_lost_is_not_told(server, client, cache):
    root = client.handle("/layout")
    request = (ops.sequence(client.session, 1, 3, client.slots - 1, cache), put(root),
               ops.create_directory(b"a"))
    server.set(replies_wait=1, replies_lost=1)
    with pytest.raises(ConnectionClosed):
        client.send(*request)
    client.connection = client._connect(5)
    assert client.send(*request).status == Status.RETRY_UNCACHED_REP
    server.set(replies_lost=0)
    assert client.call(put(root), ops.lookup(b"a"), ops.getfh()).status == Status.OK
    healthy(server)


def test_0056_replies_wait_without_a_worker(server, new_client):
    clients = [new_client() for _ in range(12)]
    root = clients[0].handle("/layout")
    server.set(replies_wait=1, replies_later=1, replies_held=1)
    asked = [Asking(lambda one=one, name=b"%d" % number: one.compound(
        put(root), ops.create_directory(name), ops.getfh()))
        for number, one in enumerate(clients)]
    server.wait_for_call("reply_later", len(clients))
    time.sleep(0.2)
    assert all(one.is_alive() for one in asked) and not server.calls("reply_wait")
    server.set(replies_held=0)
    for one in asked:
        one.join(5)
        assert one.reply.status == Status.OK
    assert len(server.calls("reply_wait")) == len(clients), "each looks whether it is durable"
    assert clients[0].call(put(root), ops.lookup(b"11"), ops.getfh()).status == Status.OK
    healthy(server)


def told_to_come_later(server, client, request, held, call):
    """Sends the request, and again while the FSAL holds its first CALL by the setting HELD."""
    first = Asking(lambda: client.send(*request))
    server.wait_for_call(call)
    client.connection.close()
    first.join(5)
    client.connection = client._connect(5)
    assert client.send(*request).status == Status.DELAY
    server.set(**{held: 0})
    assert client.send(*request).status == Status.OK
    assert len(server.calls(call)) == 1, "it was carried out once"
    healthy(server)


def test_0056_a_retransmission_is_told_to_come_later(server, client):
    root = client.handle("/layout")
    server.set(replies_wait=1, replies_later=1, replies_held=1)
    request = (ops.sequence(client.session, 1, 3, client.slots - 1, True), put(root),
               ops.create_directory(b"a"))
    told_to_come_later(server, client, request, "replies_held", "reply_later")


def test_0056_what_may_be_lost_is_not_told(server, client):
    root = client.handle("/layout")
    server.set(replies_wait=1, replies_later=1, replies_held=1)
    asked = Asking(lambda: client.compound(put(root), ops.create_directory(b"a")))
    server.wait_for_call("reply_later")
    server.set(replies_lost=1, replies_held=0)
    asked.join(5)
    assert asked.reply is None
    server.set(replies_lost=0)
    client.connection = client._connect(5)
    healthy(server)


def test_0058_commits_wait_without_a_worker(server, new_client):
    """More than the server has workers."""
    clients = [new_client(timeout=60) for _ in range(16)]
    handle, stateid = clients[0].open("/layout", b"file", create=True)
    clients[0].call(put(handle), ops.write(stateid, 0, b"some"))
    server.set(commits_held=1)
    asked = [Asking(lambda one=one, start=start: one.compound(
        put(handle), ops.commit(start, 4096), ops.getattr([const.ATTR_CHANGE])))
        for one in clients for start in range(one.slots - 1)]
    held = server.wait_for_call("commit", len(asked), 30)
    assert len(held) > WORKERS and {call["length"] for call in held} == {4096}
    assert {call["offset"] for call in held} == set(range(clients[0].slots - 1))
    assert clients[0].call(put(handle), ops.getattr([const.ATTR_CHANGE])).status == Status.OK
    assert all(one.is_alive() for one in asked)
    server.set(commits_held=0)
    for one in asked:
        one.join(60)
        assert one.reply.status == Status.OK
    written = clients[0].call(put(handle), ops.write(stateid, 0, b"more"))
    assert {one.reply.results[-2].verifier for one in asked} == {written.verifier}
    healthy(server)


def test_0058_a_retransmission_is_told_to_come_later(server, client):
    handle, _ = client.open("/layout", b"file", create=True)
    server.set(commits_held=1)
    request = (ops.sequence(client.session, 1, 3, client.slots - 1, True), put(handle),
               ops.commit())
    told_to_come_later(server, client, request, "commits_held", "commit")


def test_0058_a_range_that_ends_nowhere_is_refused(server, client):
    handle, _ = client.open("/layout", b"file", create=True)
    reply = client.compound(put(handle), ops.commit(2**64 - 1, 4096))
    assert reply.status == Status.INVAL and not server.calls("commit")
    healthy(server)
