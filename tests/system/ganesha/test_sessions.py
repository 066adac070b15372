"""What a client does in the name of another, or in a session beside its other requests.

One test or more for each of the patches from 0087 on, see docs/ganesha.md.
"""

import signal

import pytest

from test_patches import healthy, put, until
from wire import Client, Op, Status, const, ops
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
