"""What a client does in the name of another, or in a session beside its other requests.

One test or more for each of the patches from 0087 on, see docs/ganesha.md.
"""

import signal
import struct

import pytest

from test_patches import granted, healthy, put, until
from wire import Client, Op, Status, const, ops
from wire.client40 import Client40
from wire.ops import Operation, Stateid, pack_stateid
from wire.rpc import auth_none
from wire.xdr import Packer

RESTOREFH, LOOKUPP = ops.raw(Op.RESTOREFH), ops.raw(Op.LOOKUPP)
SECINFO_OF_PARENT = ops.raw(Op.SECINFO_NO_NAME, Packer().uint32(1).bytes())
SQUASHED = """EXPORT { Export_Id = 5; Path = /squashed; Pseudo = /squashed; Squash = Root_Squash;
  FSAL { Name = MEM; } }"""


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
