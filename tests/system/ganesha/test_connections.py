"""Connections and what may come between two clients, or a client and a restart.

One test or more for each of the patches from 0073 on, see docs/ganesha.md.
"""

import os
import signal
import socket
import struct
import threading
import time

import pytest

from test_patches import granted, healthy, put, until
from test_replies import WORKERS, Asking
from wire import Client, Connection, ConnectionClosed, Status, const, ops
from wire.client import NfsError, decode_compound, encode_compound
from wire.client40 import Client40
from wire.rpc import auth_none
from wire.xdr import Packer

MIB = 1 << 20


def test_0073_marks_that_are_not_whole_keep_no_worker(server):
    peers = [socket.create_connection(server.address) for _ in range(WORKERS + 20)]
    for peer in peers:
        peer.send(b"\x80")
    assert server.answers(20)
    call = struct.pack(">10I", 7, 0, 2, const.NFS_PROGRAM, const.NFS_VERSION, 0, 0, 0, 0, 0)
    for peer in peers:
        peer.settimeout(20)
        peer.sendall(struct.pack(">I", 1 << 31 | len(call))[1:] + call)
        assert peer.recv(8)[4:] == struct.pack(">I", 7)
        peer.close()


@pytest.mark.parametrize("size, count", [(MIB, 64), (64, 1 << 20), ((1 << 31) - 1, 1)])
def test_0073_a_record_that_does_not_end_ends_the_connection(server, size, count):
    fragment = struct.pack(">I", size) + bytes(min(size, MIB))
    at_once = max(MIB // len(fragment), 1)
    with Connection(server.address) as connection:
        try:
            for _ in range(count // at_once):
                connection.send_bytes(fragment * at_once)
        except ConnectionClosed:
            pass
        until(lambda: connection.closed, 30)
    healthy(server)


def test_0073_what_is_promised_is_taken(server, client):
    fore = ops.ChannelAttributes(max_request=(1 << 32) - 1)
    back = ops.ChannelAttributes(max_request=4096, max_requests=4)
    promised = client.send(ops.create_session(client.clientid, client.create_sequence + 1, fore,
                                              back)).check().last.fore.max_request
    assert promised == 2 * MIB
    handle, stateid = client.open("/mem", b"file", create=True)

    def in_pieces(data):
        pieces = [data[at:at + 4096] for at in range(0, len(data), 4096)]
        last = 1 << 31
        connection.send_bytes(b"".join(
            struct.pack(">I", len(piece) | (last if piece is pieces[-1] else 0)) + piece
            for piece in pieces))

    connection = client.connection
    size = promised - 4096
    for send in (connection.send_record, in_pieces, in_pieces):
        connection.send_record = send
        assert client.call(put(handle), ops.write(stateid, 0, bytes(size))).count == size
    healthy(server)


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def settled(server):
    """Its descriptors, when those of connections that ended are closed."""
    counts = [descriptors(server)]
    while len(counts) < 10 or len(set(counts[-10:])) > 1:
        time.sleep(0.05)
        counts.append(descriptors(server))
    return counts[-1]


def reads_nothing(server, before, count=1500):
    """Sends requests, so that replies wait for the socket, and more behind them."""
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.connect(server.address)
    call = struct.pack(">6I", 7, 0, 2, const.NFS_PROGRAM, const.NFS_VERSION, 1) + auth_none()
    call += encode_compound([ops.putrootfh()], 0, b"t" * 4000)
    for _ in range(count):
        peer.sendall(struct.pack(">I", 1 << 31 | len(call)) + call)
    until(lambda: descriptors(server) == before + 2, 30)  # one to wait by
    return peer


@pytest.mark.parametrize("end", ["ends", "breaks"])
def test_0074_replies_nobody_reads_go_with_the_connection(server, end):
    held = [server.allocated_bytes()]
    before = settled(server)
    for _ in range(6):
        peer = reads_nothing(server, before)
        if end == "ends":
            peer.shutdown(socket.SHUT_WR)
            time.sleep(0.2)
        else:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        until(lambda: descriptors(server) == before, 30)
        held.append(server.allocated_bytes())
    assert held[-1] - held[1] < 8 * MIB, held
    healthy(server)


def test_0074_a_send_that_fails_stops_no_callback(server):
    """What is sent to who just left fails in one thread or the other, now and then in both."""
    null = struct.pack(">6I20x", 1 << 31 | 40, 7, 0, 2, const.NFS_PROGRAM, const.NFS_VERSION)
    rounds = 700
    for number in range(rounds):
        client = Client(server.address)
        granted(client, b"file%d" % number)
        peer = client.connection._socket
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.connection.send_bytes(null * 200)
        for _ in range(3):
            server.command(f"recall 0 {const.UINT64_MAX} {const.IOMODE_ANY} 0")
        peer.close()
    server.wait_for_call("recall", 3 * rounds, 30)
    healthy(server)


@pytest.fixture
def recalled(new_client):
    """A client whose backchannel is of AUTH_SYS, as Linux has it."""
    client = new_client(backchannel=False)
    channel = ops.ChannelAttributes(max_request=4096, max_response=4096, max_requests=4)
    user = Packer().uint32(1).uint32(0).opaque(b"wire").uint32(0).uint32(0).uint32(0).bytes()
    made = client.send(ops.create_session(client.clientid, client.create_sequence + 1,
                                          ops.ChannelAttributes(), channel, security=user))
    client.session, client._sequence = made.check().last.session, [0] * client.slots
    return client


def test_0075_an_answer_on_the_connection_of_before(server, recalled):
    client = recalled
    asked, answered = threading.Event(), threading.Event()
    client.backchannel.answer = lambda recall: (asked.set(), answered.wait(20), Status.OK)[2]
    granted(client)
    assert server.recall(cookie=1) == 0 and asked.wait(20)
    before = client.connection
    client.connection = client._connect(5)
    for _ in range(3):  # who answers finds nothing where the authentication of before was
        client.send(ops.bind_conn_to_session(client.session)).check()
    client.backchannel.answer = lambda recall: Status.OK
    answered.set()
    client.backchannel.next_recall()
    client.null()
    before.close()
    healthy(server)


def test_0075_answers_before_the_question(server, recalled):
    """Many to each, of which some come while it is being sent. They find out what its number is."""
    client = recalled
    body = Packer().uint32(0).opaque(b"").uint32(0).bytes()
    for number in range(1, 201):
        granted(client, b"file%d" % number)
        answer = struct.pack(">7I", 1 << 31 | 24 + len(body), number, 1, 0, 0, 0, 0) + body
        client.connection.send_bytes(answer * 100)
        server.recall(cookie=number)
        client.null()
    healthy(server)


@pytest.fixture
def graceful(start):
    """A server with grace periods of 8 s."""
    return start(lease_s=2, grace_s=8)


def can_reclaim(server, owner):
    """Once the reaper, which ends the grace period, has looked at it since. The file is a
    directory, of which the server finds out last: no file of FSAL_MEM outlives it."""
    looks = server.log_tail(10000).count("check grace:")
    until(lambda: server.log_tail(10000).count("check grace:") > looks)
    with Client(server.address, owner=owner, reclaim_complete=False) as client:
        packer = Packer().uint32(0).uint32(const.SHARE_BOTH).uint32(0).uint64(client.clientid)
        packer.opaque(b"owner").uint32(0).uint32(1).uint32(0)  # CLAIM_PREVIOUS
        reply = client.compound(*client.at("/layout"), ops.raw(const.Op.OPEN, packer.bytes()))
        return reply.status == Status.ISDIR


def test_0076_the_grace_period_begins_when_clients_can_come(graceful):
    client = Client(graceful.address)
    graceful.restart(LAYOUT_FSAL_EXPORT_MS="4500")  # there are two
    assert can_reclaim(graceful, client.owner)
    healthy(graceful)


def test_0076_a_server_that_is_stopped_is_in_grace_afterwards(graceful):
    client = Client(graceful.address)
    graceful.restart()
    graceful.process.send_signal(signal.SIGSTOP)
    time.sleep(9)
    graceful.process.send_signal(signal.SIGCONT)
    assert can_reclaim(graceful, client.owner)
    healthy(graceful)


MAKES = {"file": lambda client, root: client.open("/layout", b"name", create=True),
         "directory": lambda client, root: client.call(put(root), ops.create_directory(b"name"))}
GOES = {"removed": [ops.remove(b"name")],
        "renamed": [ops.savefh(), ops.rename(b"name", b"other")]}


@pytest.mark.parametrize("what", MAKES)
@pytest.mark.parametrize("how", GOES)
def test_0077_a_name_that_goes_before_it_is_told_is_gone(server, new_client, what, how):
    one, two = new_client(), new_client()
    root = one.handle("/layout")
    server.set(names_held=1)
    asked = Asking(lambda: MAKES[what](one, root))
    server.wait_for_call("made")
    two.call(put(root), *GOES[how])
    server.set(names_held=0)
    asked.join(5)
    for client in (one, two):
        assert client.compound(put(root), ops.lookup(b"name")).status == Status.NOENT
    names = [entry.name for entry in two.call(put(root), ops.readdir()).entries]
    assert names == ([b"other"] if how == "renamed" else [])
    assert two.compound(put(root), ops.lookup(b"other")).status == (
        Status.OK if how == "renamed" else Status.NOENT)
    healthy(server)


def test_0078_a_client_has_so_many_sessions_at_most(server, client, new_client):
    channel = ops.ChannelAttributes(max_request=4096, max_response=4096, max_requests=4)

    def create(sequence):
        return client.send(ops.create_session(client.clientid, sequence, channel, channel))

    sequence, made = client.create_sequence + 1, []
    while (reply := create(sequence)).status == Status.OK and len(made) < 100:
        made.append(reply.last.session)
        sequence += 1
    assert reply.status == Status.NOSPC and len(made) == 63  # and its first
    new_client()
    client.send(ops.destroy_session(made[0])).check()
    create(sequence).check()
    assert create(sequence + 1).status == Status.NOSPC
    healthy(server)


def test_0080_client_ids_that_nobody_confirms_are_bounded(server, client):
    def ask(number):
        call = encode_compound([ops.exchange_id(bytes(8), b"%d" % number)], 1)
        return connection.call(const.NFS_PROGRAM, 4, 1, call, auth_none())[:4]

    with Connection(server.address) as connection:
        before = server.allocated_bytes()
        for number in range(1 << 16):
            assert ask(number) == struct.pack(">I", Status.OK)
        assert server.allocated_bytes() - before < 256 * MIB
        assert ask(1 << 16) == struct.pack(">I", Status.DELAY)
    with pytest.raises(NfsError, match="DELAY"):
        Client40(server.address)
    # Who is there already does what it did.
    granted(client)
    healthy(server)


def comes(server, **options):
    """A client, or None if there is no place for it."""
    try:
        return Client(server.address, backchannel=False, slots=1, **options)
    except NfsError as refused:
        assert refused.status == Status.DELAY, refused
        return None


def until_refused(server, most):
    """Those that come until one is told to wait; not more than MOST."""
    strangers = []
    while len(strangers) <= most and (one := comes(server)):
        strangers.append(one)
    return strangers


def test_0082_clients_are_bounded(start):
    server = start(nfsv4="Max_Client_Ids = 20;")
    client = Client(server.address)
    granted(client)
    strangers = until_refused(server, 20)
    assert len(strangers) == 19
    with pytest.raises(NfsError, match="SETCLIENTID_CONFIRM.*DELAY"):
        Client40(server.address)
    granted(client, b"another")
    again = comes(server, owner=client.owner)  # its machine started anew
    granted(again, b"again")
    assert comes(server) is None
    strangers.pop().close()
    granted(comes(server), b"new")
    assert comes(server) is None
    assert "20 clients (Max_Client_Ids)" in server.log_tail()
    healthy(server)


def test_0082_who_waits_for_a_place_gets_it(start):
    """It asks again with the client id that it has, and the same sequence number."""
    server = start(nfsv4="Max_Client_Ids = 1;")
    client, channel = Client(server.address), ops.ChannelAttributes()
    with Connection(server.address) as connection:
        def send(operation):
            data = connection.call(const.NFS_PROGRAM, 4, 1, encode_compound([operation], 1),
                                   auth_none())
            return decode_compound(data, [operation])

        made = send(ops.exchange_id(bytes(8), b"waits")).check().last
        ask = ops.create_session(made.clientid, made.sequence, channel, channel)
        for _ in range(3):
            assert send(ask).status == Status.DELAY
        client.close()
        send(ask).check()
    healthy(server)


def test_0082_sessions_are_bounded(start):
    server = start(nfsv4="Max_Sessions = 20;")
    channel = ops.ChannelAttributes(max_request=4096, max_response=4096, max_requests=4)

    def create(client):
        client.create_sequence += 1
        reply = client.send(ops.create_session(client.clientid, client.create_sequence, channel,
                                               channel))
        client.create_sequence -= reply.status != Status.OK
        return reply

    stranger, made = Client(server.address), []
    while (reply := create(stranger)).status == Status.OK and len(made) < 30:
        made.append(reply.last.session)
    assert reply.status == Status.DELAY and len(made) == 19
    client = Client(server.address)  # each has its first
    assert create(client).status == Status.DELAY
    granted(client)
    client.send(ops.destroy_session(client.session)).check()
    create(client).check()
    stranger.send(ops.destroy_session(made.pop())).check()
    assert create(stranger).status == Status.DELAY
    stranger.send(ops.destroy_session(made.pop())).check()
    create(stranger).check()
    assert "20 sessions (Max_Sessions)" in server.log_tail()
    healthy(server)


def test_0082_who_was_there_before_a_restart_has_its_place(start):
    server = start(grace_s=8, nfsv4="Max_Client_Ids = 3;")
    owners = [b"one", b"two"]
    for owner in owners:
        comes(server, owner=owner).vanish()
    server.restart()
    assert len(until_refused(server, 3)) == 1
    assert all(comes(server, owner=owner, reclaim_complete=False) for owner in owners)
    assert comes(server) is None
    until(lambda: server.grace_left_ms() == 0, 20)
    assert comes(server) is None
    healthy(server)


def test_0082_what_a_client_takes(server):
    """The figures of docs/sizing.md: 4 KB, and 32 KB for a session of 64 slots."""
    clients = [Client(server.address, slots=64) for _ in range(50)]
    before = server.allocated_bytes()
    clients += [Client(server.address, slots=64) for _ in range(200)]
    assert server.allocated_bytes() - before < 200 * (40 << 10)


def test_0083_an_owner_has_a_name(server):
    def send(operation):
        return decode_compound(connection.call(const.NFS_PROGRAM, 4, 1,
                                               encode_compound([operation], 1), auth_none()),
                               [operation])

    channel = ops.ChannelAttributes()
    with Connection(server.address) as connection:
        reply = send(ops.exchange_id(bytes(8), b""))
        if reply.status == Status.OK:  # to confirm it is what ended the server
            send(ops.create_session(reply.last.clientid, reply.last.sequence, channel, channel))
        assert reply.status == Status.INVAL
    with pytest.raises(NfsError, match="SETCLIENTID.*INVAL"):
        Client40(server.address, owner=b"")
    healthy(server)


def asks_for_much(server, handle, count):
    """A connection over which as many READs of 1 MiB were sent."""
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.connect(server.address)
    call = struct.pack(">6I", 7, 0, 2, const.NFS_PROGRAM, const.NFS_VERSION, 1) + auth_none()
    call += encode_compound([ops.putfh(handle), ops.read(ops.ANONYMOUS, 0, MIB)], 0)
    peer.sendall((struct.pack(">I", 1 << 31 | len(call)) + call) * count)
    return peer


def most_allocated(server):
    """Until that grows no more."""
    samples = [server.allocated_bytes()]
    while len(samples) < 20 or max(samples[-10:]) > max(samples[:-10]):
        time.sleep(0.1)
        samples.append(server.allocated_bytes())
    return max(samples)


def read_replies(peer, count):
    with peer, peer.makefile("rb") as replies:
        for _ in range(count):
            (mark,) = struct.unpack(">I", replies.read(4))
            assert mark & ~(1 << 31) > MIB and len(replies.read(mark & ~(1 << 31))) > MIB


@pytest.mark.parametrize("peers, count, most_mib", [(1, 300, 32), (100, 20, 512)])
def test_0079_replies_that_nobody_reads_are_not_piled_up(server, client, peers, count, most_mib):
    handle, stateid = client.open("/mem", b"file", create=True)
    client.call(put(handle), ops.write(stateid, 0, bytes(MIB), const.FILE_SYNC4))
    before = server.allocated_bytes()
    asking = [asks_for_much(server, handle, count) for _ in range(peers)]
    assert most_allocated(server) - before < most_mib * MIB
    healthy(server)
    for peer in asking:  # all that was asked for comes, when it is read
        peer.settimeout(20)
        read_replies(peer, count)
    healthy(server)
