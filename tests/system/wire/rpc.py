"""ONC RPC (RFC 5531) over one TCP connection, both directions.

A Connection has one thread that reads records. Replies wake the caller that waits for their xid,
so any number of threads may call at once; calls from the other side go to `serve`. Nothing is
retransmitted.
"""

import itertools
import os
import socket
import struct
import threading

from .xdr import Packer, Unpacker, XdrError

MSG_ACCEPTED, MSG_DENIED = 0, 1
ACCEPT_NAMES = ["SUCCESS", "PROG_UNAVAIL", "PROG_MISMATCH", "PROC_UNAVAIL", "GARBAGE_ARGS",
                "SYSTEM_ERR"]
MAX_RECORD = 1 << 26
USER = 1000  # an ordinary one, and its group: who a client is that says nothing


class ConnectionClosed(Exception):
    """The peer closed the connection, or reset it, while something waited for it."""


class RpcError(Exception):
    """The RPC layer refused a call; `name` is the accept_stat, or DENIED."""

    def __init__(self, name):
        super().__init__(name)
        self.name = name


def auth_sys(uid=USER, gid=USER, gids=(), machine="wire"):
    """An AUTH_SYS credential with a null verifier, encoded."""
    body = (Packer().uint32(0).opaque(machine).uint32(uid).uint32(gid)
            .array(list(gids), Packer.uint32).bytes())
    return Packer().uint32(1).opaque(body).uint32(0).opaque(b"").bytes()


def auth_none():
    return Packer().uint32(0).opaque(b"").uint32(0).opaque(b"").bytes()


def _call(xid, program, version, procedure, credential, arguments):
    return (Packer().uint32(xid).uint32(0).uint32(2).uint32(program).uint32(version)
            .uint32(procedure).bytes() + credential + arguments)


class Connection:
    """One TCP connection to a server.

    serve(program, version, procedure, arguments: bytes) -> bytes answers calls of the peer (a
    backchannel); without it they are refused with PROG_UNAVAIL.
    """

    def __init__(self, address, timeout=10.0, serve=None, source=None):
        self.timeout = timeout
        self._serve = serve
        self._socket = socket.create_connection(address, timeout=timeout, source_address=source)
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._xids = itertools.count(struct.unpack(">I", os.urandom(4))[0])
        self._lock = threading.Lock()
        self._send_lock = threading.Lock()
        self._waiting = {}  # xid -> [event, reply]
        self._closed = False
        self._thread = threading.Thread(target=self._read, name="wire-reader", daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def closed(self):
        return self._closed

    def close(self):
        """Shuts the connection down; callers that wait get ConnectionClosed."""
        self._fail_all()
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._thread.join(timeout=5)
        self._socket.close()

    def call(self, program, version, procedure, arguments, credential, timeout=None):
        """Sends one call and returns the bytes of its result. Raises RpcError, ConnectionClosed,
        TimeoutError."""
        xid = next(self._xids) & 0xFFFFFFFF
        slot = [threading.Event(), None]
        with self._lock:
            if self._closed:
                raise ConnectionClosed()
            self._waiting[xid] = slot
        try:
            self.send_record(_call(xid, program, version, procedure, credential, arguments))
            if not slot[0].wait(self.timeout if timeout is None else timeout):
                raise TimeoutError(f"no reply to xid {xid:#x}")
        finally:
            with self._lock:
                self._waiting.pop(xid, None)
        if slot[1] is None:
            raise ConnectionClosed()
        return self._result(slot[1])

    def send_record(self, data):
        """One record in one fragment."""
        self.send_bytes(struct.pack(">I", 0x80000000 | len(data)) + data)

    def send_bytes(self, data):
        """Raw bytes, for tests that break framing."""
        try:
            with self._send_lock:
                self._socket.sendall(data)
        except OSError as error:
            raise ConnectionClosed() from error

    @staticmethod
    def _result(unpacker):
        if unpacker.uint32() == MSG_DENIED:
            raise RpcError("DENIED")
        unpacker.uint32()
        unpacker.opaque()
        status = unpacker.uint32()
        if status != 0:
            raise RpcError(ACCEPT_NAMES[status] if status < len(ACCEPT_NAMES) else str(status))
        return unpacker.rest()

    def _receive(self, size):
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(min(size - len(data), 1 << 20))
            if not part:
                raise ConnectionClosed()
            data += part
        return bytes(data)

    def _receive_record(self):
        record = b""
        while True:
            mark = struct.unpack(">I", self._receive(4))[0]
            size = mark & 0x7FFFFFFF
            if size + len(record) > MAX_RECORD:
                raise XdrError(f"record of {size} bytes")
            record += self._receive(size)
            if mark & 0x80000000:
                return record

    def _read(self):
        try:
            while True:
                self._dispatch(Unpacker(self._receive_record()))
        except (OSError, ConnectionClosed, XdrError):
            self._fail_all()

    def _dispatch(self, unpacker):
        xid = unpacker.uint32()
        if unpacker.uint32() == 0:
            # A backchannel call may wait for what the test does next, so it gets its own thread.
            threading.Thread(target=self._answer, args=(xid, unpacker), daemon=True).start()
            return
        with self._lock:
            slot = self._waiting.get(xid)
        if slot is not None:
            slot[1] = unpacker
            slot[0].set()

    def _answer(self, xid, unpacker):
        unpacker.uint32()  # RPC version
        program, version, procedure = unpacker.uint32(), unpacker.uint32(), unpacker.uint32()
        for _ in range(2):
            unpacker.uint32()
            unpacker.opaque()
        reply = Packer().uint32(xid).uint32(1).uint32(MSG_ACCEPTED).uint32(0).opaque(b"")
        result = None
        if self._serve is not None:
            result = self._serve(program, version, procedure, unpacker.rest())
        if result is None:
            reply.uint32(1)
        else:
            reply.uint32(0).raw(result)
        try:
            self.send_record(reply.bytes())
        except ConnectionClosed:
            pass

    def _fail_all(self):
        with self._lock:
            self._closed = True
            slots = list(self._waiting.values())
        for slot in slots:
            slot[0].set()


class Line(Connection):
    """A Connection without a thread of its own, for one caller, who may take answers later. The
    other side makes no calls. A wait for it that is longer than `timeout` is a TimeoutError."""

    def __init__(self, address, timeout=10.0, source=""):
        self.timeout = timeout
        self._socket = socket.create_connection(address, timeout, (source, 0))
        self._send_lock = threading.Lock()

    def close(self):
        self._socket.close()

    def post(self, xid, program, version, procedure, arguments, credential):
        self.send_record(_call(xid, program, version, procedure, credential, arguments))

    def answer(self):
        """The next one: of which xid, and its result."""
        unpacker = Unpacker(self._receive_record())
        xid = unpacker.uint32()
        unpacker.uint32()
        return xid, self._result(unpacker)

    def call(self, program, version, procedure, arguments, credential, timeout=None):
        self.post(0, program, version, procedure, arguments, credential)
        return self.answer()[1]
