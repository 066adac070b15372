"""The client's side of a session's backchannel.

Every CB_LAYOUTRECALL is answered by what `answer` returns, NFS4_OK at first, and put on `recalls`,
so a test can wait for it and then act as a client would, or would not. CB_RECALL_ANY is answered by
`any_status`. Other callbacks get NFS4ERR_NOTSUPP.
"""

import queue

from . import const
from .const import CbOp, Status
from .layout_ops import unpack_layoutrecall
from .xdr import Packer, Unpacker, XdrError


class Backchannel:
    """Thread-safe; calls arrive on threads of the connection's.

    recalls   a queue.Queue of what unpack_layoutrecall returns, each with `referring`: a list of
              (session id, [(sequence, slot), ...]) from its CB_SEQUENCE
    answer    answer(recall) -> status, called before the recall is put on the queue
    asked     what CB_RECALL_ANY asked for: (how many to keep, the words of the mask)
    locks     a queue.Queue of the owners whose locks CB_NOTIFY_LOCK says may be had
    surplus   results that nobody asked for, appended to each answer: the last one so many times
    """

    def __init__(self):
        self.recalls = queue.Queue()
        self.answer = lambda recall: Status.OK
        self.asked = []
        self.locks = queue.Queue()
        self.any_status = Status.OK
        self.surplus = 0

    def next_recall(self, timeout=5.0):
        """The next recall; raises queue.Empty if none comes."""
        return self.recalls.get(timeout=timeout)

    def serve(self, program, _version, procedure, arguments):
        if program != const.CALLBACK_PROGRAM:
            return None
        if procedure == 0:
            return b""
        try:
            return self._compound(Unpacker(arguments))
        except XdrError:
            return Packer().uint32(Status.BADXDR).opaque(b"").uint32(0).bytes()

    def _compound(self, unpacker):
        tag = unpacker.opaque()
        unpacker.uint32()  # minor version
        unpacker.uint32()  # callback_ident
        count = unpacker.uint32()
        results = []
        referring = []
        status = Status.OK
        for _ in range(count):
            number = unpacker.uint32()
            status, result = self._one(number, unpacker, referring)
            results.append(Packer().uint32(number).uint32(status).raw(result).bytes())
            if status != Status.OK:
                break
        results += results[-1:] * self.surplus
        reply = Packer().uint32(status).opaque(tag).uint32(len(results))
        return reply.raw(b"".join(results)).bytes()

    def _one(self, number, unpacker, referring):
        if number == CbOp.SEQUENCE:
            session = unpacker.fixed(16)
            sequence, slot, highest = (unpacker.uint32() for _ in range(3))
            unpacker.boolean()
            referring += unpacker.array(lambda: (unpacker.fixed(16), unpacker.array(
                lambda: (unpacker.uint32(), unpacker.uint32()))))
            result = Packer().fixed(session, 16).uint32(sequence).uint32(slot).uint32(highest)
            return Status.OK, result.uint32(highest).bytes()
        if number == CbOp.LAYOUTRECALL:
            recall = unpack_layoutrecall(unpacker)
            recall.referring = referring
            status = self.answer(recall)
            self.recalls.put(recall)
            return status, b""
        if number == CbOp.RECALL_ANY:
            self.asked.append((unpacker.uint32(), unpacker.array(unpacker.uint32)))
            return self.any_status, b""
        if number == CbOp.NOTIFY_LOCK:
            _handle, _client = unpacker.opaque(), unpacker.uint64()
            self.locks.put(unpacker.opaque())
            return Status.OK, b""
        return Status.NOTSUPP, b""
