"""What anybody who reaches the server's port may send.

Tests of the patches from 0068 on, see docs/ganesha.md, and of what is left out of the build.
"""

import struct
import time

import pytest

from test_patches import healthy
from wire import Connection, ConnectionClosed, RpcError
from wire.rpc import auth_none
from wire.xdr import Packer

PROXY_LOCAL = b"\r\n\r\n\0\r\nQUIT\n" + b"\x20\x11\0\x0c" + bytes(12)
NFSACL_PROGRAM = 100227


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
