"""An NFSv4.1/4.2 client in the open: one session, and compounds exactly as the test writes them.

    with Client(("127.0.0.1", 2049), minor=2) as client:
        handle, opened = client.open("/export", b"file", create=True)
        layout = client.call(ops.putfh(handle), layout_ops.layoutget(opened))

- call() raises NfsError unless every operation succeeded and returns the last Result; compound()
  returns the Reply, whatever its status. Both put a SEQUENCE in front; send() does not.
- A Result has `op`, `status` and what the operation's decoder names (see ops.py, layout_ops.py).
- Recalls arrive in client.backchannel.recalls and are acknowledged; see backchannel.py.

Any number of threads may use one Client: each compound takes a free slot. Slots are released only
by a reply; a compound that timed out keeps its slot, as its request may still be running.
"""

import os
import queue
from types import SimpleNamespace

from . import const, ops
from .backchannel import Backchannel
from .const import Op, Status
from .rpc import USER, Connection, ConnectionClosed, Line, auth_none, auth_sys
from .xdr import Packer, Unpacker


class NfsError(Exception):
    """A compound failed; `status` is why and `op` in which operation."""

    def __init__(self, op, status):
        super().__init__(f"{op!r}: {status!r}")
        self.op, self.status = op, status


class Result(SimpleNamespace):
    """One operation's result."""


class Reply:
    """A COMPOUND's reply: `status`, `results` (without the SEQUENCE that call and compound add),
    and `sequence`, that SEQUENCE's result or None."""

    def __init__(self, status, results):
        self.status, self.results, self.sequence = status, results, None

    def __getitem__(self, index):
        return self.results[index]

    @property
    def last(self):
        return self.results[-1]

    def check(self):
        if self.status != Status.OK:
            op = self.results[-1].op if self.results else Op.SEQUENCE
            raise NfsError(op, self.status)
        return self


def encode_compound(operations, minor, tag=b""):
    packer = Packer().opaque(tag).uint32(minor)
    return packer.array(operations, lambda p, op: p.uint32(op.number).raw(op.arguments)).bytes()


def decode_compound(data, operations):
    unpacker = Unpacker(data)
    status = Status.of(unpacker.uint32())
    unpacker.opaque()
    results = []
    for index in range(unpacker.uint32()):
        number = unpacker.uint32()
        op_status = Status.of(unpacker.uint32())
        result = Result(op=Op(number), status=op_status)
        if index < len(operations) and number == operations[index].number:
            result.__dict__.update(operations[index].decode(unpacker, op_status))
        results.append(result)
    return Reply(status, results)


class Client:
    """One client id with one session on one connection, made by the constructor.

    address, minor    where, and the minor version (1 or 2)
    owner             co_ownerid; a random one makes a client of its own
    uid, gid          AUTH_SYS identity of fore channel calls; an ordinary user's
    slots             fore channel slots to ask for
    backchannel       False asks for none
    flags             EXCHANGE_ID flags, say const.EXCHGID_USE_PNFS_DS at a data server
    domain            domain(owner, verifier): of the implementation, for EXCHANGE_ID
    max_response      bytes of a reply to ask for
    timeout           seconds a call waits before TimeoutError
    """

    def __init__(self, address, minor=2, owner=None, verifier=None, uid=USER, gid=USER,
                 slots=16, backchannel=True, flags=0, max_response=1 << 20, timeout=10.0,
                 reclaim_complete=True, domain=None):
        self.address, self.minor = address, minor
        self.owner = owner or b"wire-" + os.urandom(8).hex().encode()
        self.verifier = verifier or os.urandom(8)
        self.credential = auth_sys(uid, gid)
        self.backchannel = Backchannel()
        self.connection = self._connect(timeout)
        self.clientid = self.session = None
        try:
            self._exchange_id(flags, domain and domain(self.owner, self.verifier))
            self._create_session(slots, backchannel, max_response)
            if reclaim_complete:
                self.compound(ops.reclaim_complete())
        except BaseException:
            self.connection.close()
            raise

    def _connect(self, timeout):
        return Connection(self.address, timeout, self.backchannel.serve)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _exchange_id(self, flags, domain):
        reply = self.send(ops.exchange_id(self.verifier, self.owner, flags, domain)).check().last
        self.clientid, self.server_flags = reply.clientid, reply.flags
        self.create_sequence, self.server_major_id = reply.sequence, reply.major_id

    def _create_session(self, slots, backchannel, max_response):
        flags = const.CREATE_SESSION_CONN_BACK_CHAN if backchannel else 0
        fore = ops.ChannelAttributes(max_requests=slots, max_response=max_response)
        back = ops.ChannelAttributes(max_request=4096, max_response=4096, max_cached=0,
                                     max_operations=4, max_requests=4)
        made = self.send(ops.create_session(self.clientid, self.create_sequence, fore, back,
                                            flags)).check().last
        self.session, self.attributes = made.session, made.fore
        self.slots = min(slots, made.fore.max_requests)
        self._free = queue.LifoQueue()
        self._sequence = [0] * self.slots
        for slot in reversed(range(self.slots)):
            self._free.put(slot)

    # Compounds.

    def send(self, *operations, minor=None, timeout=None, credential=None):
        """One COMPOUND of exactly these operations."""
        arguments = encode_compound(operations, self.minor if minor is None else minor)
        data = self.connection.call(const.NFS_PROGRAM, const.NFS_VERSION, 1, arguments,
                                    credential or self.credential, timeout)
        return decode_compound(data, operations)

    def compound(self, *operations, cache=False, timeout=None, credential=None):
        """SEQUENCE and these operations; waits for a free slot."""
        slot = self._free.get(timeout=timeout or self.connection.timeout)
        self._sequence[slot] += 1
        first = ops.sequence(self.session, self._sequence[slot], slot, self.slots - 1, cache)
        reply = self.send(first, *operations, timeout=timeout, credential=credential)
        self._free.put(slot)
        reply.sequence = reply.results.pop(0) if reply.results else None
        return reply

    def call(self, *operations, **options):
        """compound(), NfsError unless all succeeded; the last operation's Result."""
        return self.compound(*operations, **options).check().last

    def null(self):
        """The NULL procedure: raises unless the server answers."""
        self.connection.call(const.NFS_PROGRAM, const.NFS_VERSION, 0, b"", auth_none())

    # Shorthands.

    @staticmethod
    def at(path):
        """Operations that make PATH the current file handle."""
        names = [name for name in path.split("/") if name]
        return [ops.putrootfh(), *(ops.lookup(name) for name in names)]

    def handle(self, path):
        return self.call(*self.at(path), ops.getfh()).handle

    def open(self, directory, name, **options):
        """Opens NAME in DIRECTORY (a path). Returns (file handle, open stateid)."""
        reply = self.compound(*self.at(directory), ops.open_file(name, self.clientid, **options),
                              ops.getfh()).check()
        return reply.last.handle, reply[-2].stateid

    # Ends.

    def reconnect(self):
        """A new connection for the same session, bound to both channels."""
        timeout = self.connection.timeout
        self.connection.close()
        self.connection = self._connect(timeout)
        self.send(ops.bind_conn_to_session(self.session)).check()

    def close(self):
        """Destroys the session and the client id if the server lets us, and disconnects."""
        try:
            if self.session is not None:
                self.send(ops.destroy_session(self.session), timeout=2)
                self.send(ops.destroy_clientid(self.clientid), timeout=2)
        except (ConnectionClosed, TimeoutError, OSError):
            pass
        self.connection.close()

    def vanish(self):
        """Disconnects and leaves everything at the server, as a client that dies does."""
        self.connection.close()


class Posting(Client):
    """A Client for one thread, without a backchannel, that need not wait for an answer before it
    asks for more: any slot may have one compound under way.

    source            the address that it has; "": any
    """

    def __init__(self, address, source="", **options):
        self._source = source
        self._posted = {}  # slot -> operations
        super().__init__(address, backchannel=False, **options)

    def _connect(self, timeout):
        return Line(self.address, timeout, self._source)

    def post(self, slot, *operations):
        """SEQUENCE and these operations."""
        self._sequence[slot] += 1
        self._posted[slot] = [ops.sequence(self.session, self._sequence[slot], slot,
                                           self.slots - 1, False), *operations]
        self.connection.post(slot, const.NFS_PROGRAM, const.NFS_VERSION, 1,
                             encode_compound(self._posted[slot], self.minor), self.credential)

    def answer(self):
        """The next one: of which slot, and the Reply, SEQUENCE's result first."""
        slot, data = self.connection.answer()
        return slot, decode_compound(data, self._posted.pop(slot))
