"""What clients may do to a server by how they use their connections.

One test or more for each of the patches 0073 to 0077, see docs/ganesha.md.
"""

import socket
import struct

import pytest
from test_patches import healthy, put, until
from test_replies import WORKERS

from wire import Connection, ConnectionClosed, const, ops

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
