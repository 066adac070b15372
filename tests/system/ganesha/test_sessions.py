"""What a client does in the name of another, or in a session beside its other requests.

One test or more for each of the patches 0087 to 0090, see docs/ganesha.md.
"""

import signal
import struct
import threading

import pytest

from test_connections import MIB
from test_patches import DEVICE, granted, healthy, needs_true_sizes, put, until
from wire import Client, Op, Status, const, layout_ops, ops
from wire.client40 import Client40
from wire.ops import Operation, Stateid, _on_success, pack_stateid
from wire.rpc import auth_none
from wire.xdr import Packer

RESTOREFH, LOOKUPP = ops.raw(Op.RESTOREFH), ops.raw(Op.LOOKUPP)
SECINFO_OF_PARENT = ops.raw(Op.SECINFO_NO_NAME, Packer().uint32(1).bytes())
SQUASHED = """EXPORT { Export_Id = 5; Path = /squashed; Pseudo = /squashed; Squash = Root_Squash;
  FSAL { Name = MEM; } }"""
LARGEST = (1 << 32) - 1
SLOTS = 64


@pytest.fixture
def exports(start):
    """A server, root's client of it, and the roots of two exports: in the second root is nobody.
    Both directories are root's."""
    server = start(exports=SQUASHED)
    with Client(server.address, uid=0, gid=0) as root:
        yield server, root, root.handle("/read"), root.handle("/squashed"), root.handle("/mem")


def test_0087_a_restored_file_handle_is_of_its_export(exports):
    server, root, read, squashed, _ = exports
    change = ops.setattr(mode=0o1777)
    for other in (read, root.handle("/mem")):
        for way in ([change], [put(squashed), change]):
            reply = root.compound(put(squashed), ops.savefh(), put(other), RESTOREFH, *way)
            assert reply.status == Status.PERM, (way, reply.status)
    healthy(server)


def test_0087_root_is_root_where_it_saved_a_file_handle(exports):
    server, root, _, squashed, mem = exports
    root.call(put(mem), ops.savefh(), put(squashed), RESTOREFH, ops.setattr(mode=0o1777))
    root.call(put(mem), ops.savefh(), put(squashed), put(mem), RESTOREFH, ops.setattr(mode=0o1777))
    healthy(server)


OUTER = """EXPORT { Export_Id = 5; Path = /outer; Pseudo = /outer; SecType = %s;
  FSAL { Name = MEM; } }"""
INNER = """EXPORT { Export_Id = 6; Path = /inner; Pseudo = /outer/inner; FSAL { Name = MEM; } }"""


def test_0087_the_way_up_asks_how_one_may_come(start):
    server = start(exports=OUTER % "sys, none")
    with Client(server.address, uid=0, gid=0) as root:
        root.call(*root.at("/outer"), ops.create_directory(b"inner"))
        conf = server.folder / "ganesha.conf"
        conf.write_text(conf.read_text().replace(OUTER % "sys, none", OUTER % "none" + INNER))
        server.process.send_signal(signal.SIGHUP)
        until(lambda: root.compound(*root.at("/outer")).status == Status.WRONGSEC)
        nobody = {"credential": auth_none()}
        outer = root.call(*root.at("/outer"), ops.getfh(), **nobody).handle

        def inner():
            found = root.compound(*root.at("/outer/inner"), ops.getfh(), **nobody)
            return found.last.handle if found.status == Status.OK else outer

        # A handle begins with the export it is of.
        until(lambda: inner()[:6] != outer[:6])
        up = [put(inner()), LOOKUPP]
        kind = ops.getattr([const.ATTR_TYPE])
        root.call(*up, kind, **nobody)
        assert root.compound(*up, kind).status == Status.WRONGSEC
        root.call(put(inner()), SECINFO_OF_PARENT)
    healthy(server)


def never_given(client, number=0):
    """A stateid that begins as those do that the client was given."""
    return Stateid(1, struct.pack("<QI", client.clientid, 0x7FFFFF00 + number))


def test_0090_nobody_keeps_what_another_has(start):
    server = start(lease_s=2)
    gone, client = Client(server.address), Client(server.address)
    handle, _, _ = granted(gone)
    gone.vanish()

    def closes():
        reply = client.compound(put(handle), ops.close(never_given(gone)))
        assert reply.status in (Status.OK, Status.BAD_STATEID, Status.EXPIRED,
                                Status.STALE_CLIENTID)
        return server.calls("layoutreturn")

    until(closes, 12)
    assert client.compound(put(handle), ops.close(never_given(client))).status == Status.OK
    healthy(server)


def test_0090_a_close_of_another_client_fails(server, client, new_client):
    other = new_client()
    handle, _ = client.open("/mem", b"file", create=True)
    reply = other.compound(put(handle), ops.close(never_given(client)))
    assert reply.status == Status.BAD_STATEID
    with Client40(server.address) as old:
        close = Operation(Op.CLOSE, pack_stateid(Packer().uint32(1), never_given(client)).bytes())
        assert old.compound(put(handle), close).status == Status.STALE_CLIENTID
    healthy(server)


@needs_true_sizes
def test_0090_a_close_that_is_sent_again_keeps_no_client(start):
    server = start(lease_s=2)  # owners are kept for that long

    def come_and_go(count):
        for _ in range(count):
            with Client(server.address, backchannel=False, slots=1) as client:
                handle, opened = client.open("/mem", b"file", create=True)
                for _ in range(3):
                    client.call(put(handle), ops.close(opened))

    come_and_go(10)
    before = server.allocated_bytes()
    come_and_go(300)
    until(lambda: server.allocated_bytes() - before < 300 * 1536, 15)
    healthy(server)


class Session:
    """Another session of the client's, in which all is asked for."""

    def __init__(self, client, response=LARGEST):
        fore = ops.ChannelAttributes(LARGEST, response, LARGEST, 100, SLOTS)
        back = ops.ChannelAttributes(max_request=4096, max_response=4096, max_requests=4)
        client.create_sequence += 1
        made = client.send(ops.create_session(client.clientid, client.create_sequence, fore, back))
        self.fore, self.session = made.check().last.fore, made.last.session
        self.client, self.numbers = client, [0] * SLOTS

    def compound(self, *operations, slot=0, cache=True):
        self.numbers[slot] += 1
        first = ops.sequence(self.session, self.numbers[slot], slot, SLOTS - 1, cache)
        return self.client.send(first, *operations)


@pytest.fixture
def session(client):
    return Session(client)


def test_0089_what_is_granted_is_bounded(server, client, session):
    fore = session.fore
    assert (fore.max_request, fore.max_response, fore.max_cached) == (2 * MIB, 2 * MIB, 8192)
    handle, opened = client.open("/mem", b"file", create=True)
    client.call(put(handle), ops.write(opened, 0, bytes(MIB)))
    read = ops.read(opened, 0, MIB)
    reply = session.compound(put(handle), read, cache=False)
    assert reply.status == Status.OK and len(reply.last.data) == MIB
    reply = session.compound(put(handle), *[read] * 9, cache=False)
    assert reply.status == Status.REP_TOO_BIG and len(reply.results) == 4
    healthy(server)


# Whose answer has 4 KiB and more.
LARGE = {"getxattr": lambda opened: ops.getxattr(b"name"),
         "layoutget": lambda opened: layout_ops.layoutget(opened, const.IOMODE_RW),
         "test_stateid": lambda opened: Operation(
             Op.TEST_STATEID, Packer().array([opened] * 1024, pack_stateid).bytes(),
             _on_success(lambda u: {"codes": [u.uint32() for _ in range(u.uint32())]}))}


@pytest.mark.parametrize("what", LARGE)
def test_0089_what_a_slot_keeps_is_counted(server, client, session, what):
    handle, opened = client.open("/layout", b"file", create=True)
    server.set(xattr_size=6000, body_size=6000)
    large = LARGE[what](opened)
    one = session.compound(put(handle), large)
    assert one.status == Status.OK, one.status
    two = session.compound(put(handle), large, large)
    assert two.status == Status.REP_TOO_BIG_TO_CACHE and len(two.results) == 4
    again = session.compound(put(handle), large, large, cache=False)
    assert again.status == Status.OK
    healthy(server)


# Whose answer is small, but not the buffer that it is made in.
SMALL = {"getxattr": ops.getxattr(b"name"), "getdeviceinfo": layout_ops.getdeviceinfo(DEVICE),
         "getattr": ops.getattr([const.ATTR_TYPE])}


@needs_true_sizes
@pytest.mark.parametrize("what", SMALL)
def test_0089_a_slot_keeps_no_buffers(server, client, session, what):
    granted(client)
    directory = client.handle("/layout")
    server.set(xattr_size=10)
    before = server.allocated_bytes()
    for slot in range(SLOTS):
        reply = session.compound(put(directory), *[SMALL[what]] * 60, slot=slot)
        assert reply.status == Status.OK, (reply.status, len(reply.results))
    assert server.allocated_bytes() - before < SLOTS * 40_000
    healthy(server)


def test_0089_a_directory_is_read_as_far_as_it_fits(server, client, session):
    directory = client.handle("/mem")
    for number in range(300):
        client.call(put(directory), ops.create_directory(b"%050d" % number))
    small = Session(client, response=8192)
    reply = small.compound(put(directory), ops.readdir(), cache=False)
    assert reply.status == Status.OK and 50 < len(reply.last.entries) < 110
    assert len(session.compound(put(directory), ops.readdir(), cache=False).last.entries) > 200
    healthy(server)


@pytest.fixture
def unmaps(monkeypatch):
    """What a server frees it cannot touch again, if it is as large as a page."""
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=256:glibc.malloc.top_pad=0")


def sessions_of(client, connections):
    """Seven on each of the connections, which destroy theirs."""
    channel = ops.ChannelAttributes(max_request=4096, max_response=4096, max_requests=1)
    for connection in connections:
        made, client.connection = [], connection
        for _ in range(7):
            client.create_sequence += 1
            made.append(client.send(ops.create_session(
                client.clientid, client.create_sequence, channel, channel)).check().last.session)
        yield connection, made


class ComesAgain(Client):
    """A client that waits for others before its CREATE_SESSION."""

    def __init__(self, begin, *arguments, **options):
        self.begin = begin
        super().__init__(*arguments, **options)

    def _create_session(self, *arguments):
        self.begin.wait()
        super()._create_session(*arguments)


def test_0088_sessions_end_while_their_client_comes_again(unmaps, server):
    """Some are destroyed by who has them, beside the walk that destroys them all."""
    for number in range(200):
        client = Client(server.address, owner=b"owner%d" % number)
        first = client.connection
        own = list(sessions_of(client, [client._connect(5) for _ in range(8)]))
        client.connection = first
        begin = threading.Barrier(len(own) + 1)

        def destroy(connection, sessions):
            begin.wait()
            one = Client.__new__(Client)
            one.connection, one.minor, one.credential = connection, 2, client.credential
            for session in sessions:
                one.send(ops.destroy_session(session))

        threads = [threading.Thread(target=destroy, args=each) for each in own]
        for thread in threads:
            thread.start()
        again = ComesAgain(begin, server.address, owner=client.owner)
        for thread in threads:
            thread.join()
        for connection, _ in own:
            connection.close()
        again.close()
        first.close()
        healthy(server)
