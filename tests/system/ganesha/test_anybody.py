"""What anybody who reaches the server's port may send.

Tests of the patches from 0068 on, see docs/ganesha.md, and of what is left out of the build.
"""

import struct
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from test_patches import granted, healthy, leaves_nothing, needs_true_sizes, put
from wire import Connection, ConnectionClosed, Op, RpcError, Status, const, layout_ops, ops
from wire.client import encode_compound
from wire.client40 import Client40, operation
from wire.ops import ChannelAttributes, Operation, pack_stateid
from wire.rpc import auth_none
from wire.xdr import Packer

PROXY_LOCAL = b"\r\n\r\n\0\r\nQUIT\n" + b"\x20\x11\0\x0c" + bytes(12)
NFSACL_PROGRAM = 100227
BACK = ChannelAttributes(max_request=4096, max_response=4096, max_cached=0, max_operations=4,
                         max_requests=4)


@pytest.mark.parametrize("first, second", [
    (b"", b"x"), (struct.pack(">I", 100) + bytes(100), b"A" * 100000)], ids=["first", "later"])
def test_0068_nobody_speaks_for_a_proxy(server, first, second):
    for _ in range(5):
        with Connection(server.address) as connection:
            connection.send_bytes(first + PROXY_LOCAL)
            time.sleep(0.1)
            try:
                connection.send_bytes(second)
            except ConnectionClosed:
                pass
            time.sleep(0.1)
        healthy(server)


def test_acls_of_version_3_are_not_served(server):
    entries = Packer().uint32(4096).raw(bytes(12 * 4096)).bytes()
    for procedure in range(3):
        arguments = Packer().opaque(b"handle").uint32(0).uint32(0).raw(entries).bytes()
        with Connection(server.address) as connection:
            with pytest.raises(RpcError, match="PROG_UNAVAIL"):
                connection.call(NFSACL_PROGRAM, 3, procedure, arguments, auth_none())
    healthy(server)


def create_session(clientid, sequence, **fore):
    return ops.create_session(clientid, sequence, ChannelAttributes(**fore), BACK)


def test_0070_client_ids_of_version_4_0_have_no_sessions(server, client):
    with Client40(server.address) as other:
        for sequence in (0, const.UINT32_MAX, 1):
            reply = client.send(create_session(other.clientid, sequence))
            assert reply.status == Status.STALE_CLIENTID
            healthy(server)
        assert client.send(ops.destroy_clientid(other.clientid)).status == Status.STALE_CLIENTID
        other.open("/mem", b"file", create=True)
    healthy(server)


def test_0070_version_4_0_knows_no_client_ids_of_others(server, client):
    handle, opened = client.open("/mem", b"file", create=True)
    clientid = client.clientid
    exchanged = client.send(ops.exchange_id(bytes(8), b"unconfirmed")).check().last
    owner = Packer().uint64(clientid).opaque(b"owner")
    lockt = Packer().uint32(1).uint64(0).uint64(1).raw(owner.bytes())
    with Client40(server.address) as other:
        for operations in (
                [operation(Op.RENEW, Packer().uint64(clientid))],
                [operation(Op.SETCLIENTID_CONFIRM, Packer().uint64(clientid).fixed(bytes(8), 8))],
                [operation(Op.SETCLIENTID_CONFIRM,
                           Packer().uint64(exchanged.clientid).fixed(bytes(8), 8))],
                [ops.putrootfh(), ops.lookup(b"mem"), ops.open_file(b"file", clientid, seqid=1)],
                [put(handle), operation(Op.LOCKT, lockt)],
                [operation(Op.RELEASE_LOCKOWNER, owner)]):
            assert other.compound(*operations).status == Status.STALE_CLIENTID, operations
        for one in (ops.read(opened, 0, 1), ops.close(opened),
                    ops.close(opened.with_seqid(7)), ops.open_downgrade(opened, const.SHARE_READ)):
            assert other.compound(put(handle), one).status == Status.BAD_STATEID, one
    # The client that was named is as it was.
    client.call(put(handle), ops.close(opened))
    made = client.send(create_session(exchanged.clientid, exchanged.sequence)).check().last
    client.send(ops.destroy_session(made.session)).check()
    healthy(server)


def gss(handle, length):
    """A credential of RPCSEC_GSS (RFC 2203) for data, in the context of this handle."""
    body = Packer().uint32(1).uint32(0).uint32(1).uint32(1).uint32(length)
    body.fixed(handle, len(handle))
    return Packer().uint32(6).opaque(body.bytes()).uint32(0).opaque(b"").bytes()


@pytest.mark.parametrize("handle, length", [
    (b"", 0), (b"h", 1), (bytes(8), 8), (bytes(15), 15), (bytes(16), 16), (bytes(17), 17),
    (bytes(100), 401), (bytes(100), const.UINT32_MAX)],
    ids=["none", "1", "8", "15", "16", "17", "401 of 100", "4 GB"])
def test_0071_contexts_that_nobody_made_are_refused(server, handle, length):
    credential = gss(handle, length)
    for procedure in range(2):
        with Connection(server.address) as connection:
            with pytest.raises(RpcError, match="DENIED"):
                connection.call(const.NFS_PROGRAM, const.NFS_VERSION, procedure,
                                encode_compound([ops.putrootfh()], 0), credential)
        healthy(server)


def uncached(client, number=1):
    """A session in which no answer may be kept: the client's next, or the one after, ..."""
    made = client.send(create_session(client.clientid, client.create_sequence + number,
                                      max_cached=0))
    return made.check().last.session


def test_0072_what_is_too_big_to_keep_leaves_its_slot_alone(server, client):
    session = uncached(client)
    for number in range(1, 4):
        for _ in range(2):
            reply = client.send(ops.sequence(session, number, 0, 0, cache=True))
            assert reply.status == Status.REP_TOO_BIG_TO_CACHE
        client.send(ops.sequence(session, number, 0, 0)).check()
    healthy(server)


@pytest.fixture
def unmaps(monkeypatch):
    """What a server frees it cannot touch again, if it is as large as a page."""
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=4096:glibc.malloc.top_pad=0")


def test_0072_what_is_too_big_to_keep_outlives_its_session(unmaps, server, client):
    handle, _, layout = granted(client)
    for number in range(1, 4):
        session = uncached(client, number)
        server.set(getattrs_delay_ms=0)
        client.call(put(handle), layout_ops.layoutcommit(layout))  # what is cached is not trusted
        server.set(getattrs_delay_ms=500)
        asked = len(server.calls("getattrs"))
        with ThreadPoolExecutor() as threads:
            first = threads.submit(client.send, ops.sequence(session, 1, 0, 0), put(handle),
                                   ops.getattr([const.ATTR_SIZE]))
            server.wait_for_call("getattrs", after=asked)
            second = threads.submit(client.send, ops.sequence(session, 2, 0, 0, cache=True))
            time.sleep(0.1)
            client.send(ops.destroy_session(session)).check()
            first.result().check()
            assert second.result().status == Status.REP_TOO_BIG_TO_CACHE
        healthy(server)


@pytest.mark.parametrize("what", ["READ", "READDIR"])
def test_0084_what_goes_with_a_reply_is_not_kept(unmaps, server, client, what):
    handle, opened = client.open("/mem", b"file", create=True)
    client.call(put(handle), ops.write(opened, 0, bytes(65536)))
    session = client.send(create_session(client.clientid, client.create_sequence + 1,
                                         max_cached=1 << 20)).check().last.session
    asked = ([put(handle), ops.read(opened, 0, 65536)] if what == "READ" else
             [*client.at("/mem"), ops.readdir()])

    def sent_twice(number, cache):
        return [client.send(ops.sequence(session, number, 0, 0, cache), *asked).status
                for _ in range(2)]

    for number in range(1, 7, 2):
        assert sent_twice(number, cache=True) == [Status.REP_TOO_BIG_TO_CACHE] * 2
        assert sent_twice(number + 1, cache=False) == [Status.OK, Status.RETRY_UNCACHED_REP]
        healthy(server)


def locked_before(stateid, seqid):
    """A LOCK of version 4.0 by an owner that has this stateid of a lock."""
    packer = Packer().uint32(2).boolean(False).uint64(0).uint64(const.UINT64_MAX).boolean(False)
    return Operation(Op.LOCK, pack_stateid(packer, stateid).uint32(seqid).bytes(),
                     ops._unpack_lock)


def test_0085_what_seems_to_be_a_lock_sent_again(server):
    with Client40(server.address) as client:
        handle, opened = client.open("/mem", b"file", create=True)
        reply = client.compound(put(handle), locked_before(opened, client.seqids[b"opener"]))
        assert reply.status == Status.BAD_STATEID
        status, locked = client.lock(handle, opened, b"locker")
        assert status == Status.OK
        # One that was sent again.
        again = client.call(put(handle), locked_before(locked, client.seqids[b"locker"]))
        assert again.stateid == locked
        # The stateid of a lock in the place of an open's.
        packer = Packer().uint32(2).boolean(False).uint64(0).uint64(const.UINT64_MAX)
        pack_stateid(packer.boolean(True).uint32(client.seqids[b"locker"]), locked)
        packer.uint32(1).uint64(client.clientid).opaque(b"other")
        reply = client.compound(put(handle), operation(Op.LOCK, packer))
        assert reply.status == Status.BAD_STATEID
        client.unlock(handle, locked, b"locker")
    healthy(server)


@needs_true_sizes
@pytest.mark.parametrize("share, io, status", [
    (const.SHARE_BOTH, lambda opened: ops.read(opened, 0, 0), Status.OK),
    (const.SHARE_BOTH, lambda opened: ops.write(opened, 0, b""), Status.OK),
    (const.SHARE_READ, lambda opened: ops.write(opened, 0, b"x"), Status.OPENMODE),
    (const.SHARE_BOTH, lambda opened: ops.read(opened, 0, 1 << 20), Status.REP_TOO_BIG),
    (const.SHARE_BOTH, lambda opened: ops.read(opened, 0, 1), Status.OK),
    (const.SHARE_BOTH, lambda opened: ops.write(opened, 0, b"x"), Status.OK)],
    ids=["read nothing", "write nothing", "not open so", "no room", "read", "write"])
def test_0086_reads_and_writes_leave_no_states(server, client, share, io, status):
    handle, opened = client.open("/mem", b"file", create=True)
    client.call(put(handle), ops.close(opened))

    def opened_and_closed(count):
        for _ in range(count):
            _, opened = client.open("/mem", b"file", share=share)
            assert client.compound(put(handle), io(opened)).status == status
            client.call(put(handle), ops.close(opened))

    leaves_nothing(server, opened_and_closed, 500)
    healthy(server)


def test_0091_a_session_that_is_asked_for_again(server, client):
    made = [client.send(create_session(client.clientid, client.create_sequence + 1,
                                       rdma_reads=(4711,))).check().last for _ in range(2)]
    assert made[0] == made[1] and made[0].fore.rdma_reads == ()
    healthy(server)
