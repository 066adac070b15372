"""An NFSv4.0 client (RFC 7530): no session, a sequence number in each owner's operations, and a
port of its own for callbacks.

    with Client40(("127.0.0.1", 2049)) as client:
        handle, opened = client.open("/export", b"file", create=True)
        status, locked = client.lock(handle, opened, b"locker")

Not for several threads. Callbacks are answered NFS4_OK and kept in `callbacks`, the operations'
numbers of each.
"""

import os
import socket
import threading

from . import const, ops
from .client import decode_compound, encode_compound
from .const import Op, Status
from .ops import Operation, _on_success, pack_stateid, unpack_stateid
from .rpc import USER, Connection, auth_sys
from .xdr import Packer, Unpacker

CALLBACK_PROGRAM = 0x40000000
OPEN_RESULT_CONFIRM = 2
WRITEW_LT = 4


def operation(number, arguments, decode=lambda _unpacker: {}):
    return Operation(number, arguments.bytes(), _on_success(decode))


class Callbacks:
    """A server of the client's own port, for one connection after the other."""

    def __init__(self, host):
        self.calls = []
        self.listener = socket.create_server((host, 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with peer:
                try:
                    while self._answer(peer):
                        pass
                except OSError:
                    pass

    def _answer(self, peer):
        head = self._receive(peer, 4)
        if not head:
            return False
        call = Unpacker(self._receive(peer, int.from_bytes(head, "big") & 0x7FFFFFFF))
        xid = call.uint32()
        for _ in range(4):  # a call, the version of RPC, program and version
            call.uint32()
        procedure = call.uint32()
        for _ in range(2):  # credential and verifier
            call.uint32(), call.opaque()
        result = b""
        if procedure == 1:
            call.opaque(), call.uint32(), call.uint32()
            call.uint32()  # of operations; one is enough to tell
            number = call.uint32()
            self.calls.append(number)
            result = (Packer().uint32(0).opaque(b"").uint32(1).uint32(number).uint32(0)).bytes()
        reply = Packer().uint32(xid).uint32(1).uint32(0).uint32(0).opaque(b"").uint32(0).bytes()
        peer.sendall((0x80000000 | len(reply + result)).to_bytes(4, "big") + reply + result)
        return True

    @staticmethod
    def _receive(peer, size):
        data = b""
        while len(data) < size:
            piece = peer.recv(size - len(data))
            if not piece:
                return b""
            data += piece
        return data

    def close(self):
        self.listener.close()


class Client40:
    """A confirmed client id on one connection, made by the constructor."""

    def __init__(self, address, uid=USER, gid=USER, timeout=10.0, owner=None):
        self.connection = Connection(address, timeout)
        self.credential = auth_sys(uid, gid)
        self.server = Callbacks("127.0.0.1")
        self.seqids = {}
        self._set_client_id(b"wire40-" + os.urandom(8).hex().encode() if owner is None else owner)

    @property
    def callbacks(self):
        return self.server.calls

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.connection.close()
        self.server.close()

    def compound(self, *operations):
        data = self.connection.call(const.NFS_PROGRAM, const.NFS_VERSION, 1,
                                    encode_compound(operations, 0), self.credential)
        return decode_compound(data, operations)

    def call(self, *operations):
        return self.compound(*operations).check().last

    def _set_client_id(self, owner):
        port = self.server.port
        packer = Packer().fixed(os.urandom(8), 8).opaque(owner)
        packer.uint32(CALLBACK_PROGRAM).opaque(b"tcp")
        packer.opaque(f"127.0.0.1.{port >> 8}.{port & 255}".encode()).uint32(1)
        made = self.call(operation(Op.SETCLIENTID, packer, lambda u: {
            "clientid": u.uint64(), "verifier": u.fixed(8)}))
        self.clientid = made.clientid
        self.call(operation(Op.SETCLIENTID_CONFIRM,
                            Packer().uint64(made.clientid).fixed(made.verifier, 8)))

    def _next(self, owner):
        self.seqids[owner] = self.seqids.get(owner, 0) + 1
        return self.seqids[owner]

    def open(self, directory, name, owner=b"opener", create=False):
        """Opens NAME in DIRECTORY (a path) for reading and writing: (file handle, open stateid)."""
        names = [part for part in directory.split("/") if part]
        opening = ops.open_file(name, self.clientid, owner, create=create, seqid=self._next(owner))
        reply = self.compound(ops.putrootfh(), *(ops.lookup(part) for part in names), opening,
                              ops.getfh()).check()
        handle, stateid = reply.last.handle, reply[-2].stateid
        if reply[-2].flags & OPEN_RESULT_CONFIRM:
            packer = pack_stateid(Packer(), stateid).uint32(self._next(owner))
            stateid = self.call(ops.putfh(handle), operation(
                Op.OPEN_CONFIRM, packer, lambda u: {"stateid": unpack_stateid(u)})).stateid
        return handle, stateid

    def lock(self, handle, opened, owner, open_owner=b"opener", kind=WRITEW_LT):
        """Asks for a lock of the whole file, by default as one that waits does: (status,
        stateid or None). For an OWNER that has none yet."""
        packer = Packer().uint32(kind).boolean(False).uint64(0).uint64(const.UINT64_MAX)
        pack_stateid(packer.boolean(True).uint32(self._next(open_owner)), opened)
        packer.uint32(self._next(owner)).uint64(self.clientid).opaque(owner)
        asked = Operation(Op.LOCK, packer.bytes(), ops._unpack_lock)
        result = self.compound(ops.putfh(handle), asked).last
        if result.status != Status.OK:
            self.seqids[owner] -= 1  # the owner did not come to be
        return result.status, getattr(result, "stateid", None)

    def unlock(self, handle, locked, owner):
        packer = pack_stateid(Packer().uint32(WRITEW_LT).uint32(self._next(owner)), locked)
        packer.uint64(0).uint64(const.UINT64_MAX)
        return self.call(ops.putfh(handle), Operation(
            Op.LOCKU, packer.bytes(), _on_success(lambda u: {"stateid": unpack_stateid(u)})))
