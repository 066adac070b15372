"""NFSv4.1 and 4.2 operations: one function each, which returns an Operation for a compound.

Arguments follow the RFC's order and have defaults where tests seldom care. What a successful result
carries is named in the function's comment; it is an attribute of the Result that Client.compound()
returns. A stateid is a Stateid, a file handle and a device id are bytes.
"""

import dataclasses
from types import SimpleNamespace
from typing import Callable

from . import const
from .const import Op
from .xdr import Packer, Unpacker


@dataclasses.dataclass(frozen=True)
class Stateid:
    seqid: int
    other: bytes

    def with_seqid(self, seqid):
        return Stateid(seqid, self.other)


ANONYMOUS = Stateid(0, b"\0" * 12)
CURRENT = Stateid(1, b"\0" * 12)


@dataclasses.dataclass
class Operation:
    number: int
    arguments: bytes
    decode: Callable = lambda unpacker, status: {}


def _nothing(_unpacker, _status):
    return {}


def _on_success(decode):
    """A decoder for results that carry something only with NFS4_OK."""
    return lambda unpacker, status: decode(unpacker) if status == 0 else {}


def pack_stateid(packer, stateid):
    return packer.uint32(stateid.seqid).fixed(stateid.other, 12)


def unpack_stateid(unpacker):
    return Stateid(unpacker.uint32(), unpacker.fixed(12))


def pack_bitmap(packer, bits):
    words = []
    for bit in bits:
        while len(words) <= bit // 32:
            words.append(0)
        words[bit // 32] |= 1 << (bit % 32)
    return packer.array(words, Packer.uint32)


def unpack_bitmap(unpacker):
    words = unpacker.array(unpacker.uint32)
    return [32 * i + bit for i, word in enumerate(words) for bit in range(32) if word >> bit & 1]


def _unpack_threshold(unpacker):
    """(layout type, {hint: bytes}): RFC 8881 section 5.12.4, threshold_item4."""
    layout_type = unpacker.uint32()
    hints = unpack_bitmap(unpacker)
    values = Unpacker(unpacker.opaque())
    return layout_type, {hint: values.uint64() for hint in hints}


_ATTRIBUTES = {
    const.ATTR_TYPE: Unpacker.uint32,
    const.ATTR_CHANGE: Unpacker.uint64,
    const.ATTR_SIZE: Unpacker.uint64,
    const.ATTR_FSID: lambda u: (u.uint64(), u.uint64()),
    const.ATTR_LEASE_TIME: Unpacker.uint32,
    const.ATTR_RDATTR_ERROR: Unpacker.uint32,
    const.ATTR_FILEID: Unpacker.uint64,
    const.ATTR_MODE: Unpacker.uint32,
    const.ATTR_NUMLINKS: Unpacker.uint32,
    const.ATTR_OWNER: Unpacker.opaque,
    const.ATTR_OWNER_GROUP: Unpacker.opaque,
    const.ATTR_TIME_METADATA: lambda u: (u.uint64(), u.uint32()),
    const.ATTR_TIME_MODIFY: lambda u: (u.uint64(), u.uint32()),
    const.ATTR_FS_LAYOUT_TYPES: lambda u: u.array(u.uint32),
    const.ATTR_LAYOUT_BLKSIZE: Unpacker.uint32,
    const.ATTR_MDSTHRESHOLD: lambda u: u.array(lambda: _unpack_threshold(u)),
}


def unpack_attributes(unpacker):
    """{attribute number: value}, for the attributes const.py names; raises KeyError for others."""
    bits = unpack_bitmap(unpacker)
    values = Unpacker(unpacker.opaque())
    return {bit: _ATTRIBUTES[bit](values) for bit in bits}


NOW = "now"  # a time of the server's


def _pack_time(packer, seconds):
    return packer.uint32(0) if seconds == NOW else packer.uint32(1).uint64(seconds).uint32(0)


def _pack_attributes(packer, size=None, mode=None, owner=None, group=None, atime=None, mtime=None):
    """Owner and group are numbers, which go out as text; times are seconds, or NOW."""
    values = Packer()
    bits = []
    if size is not None:
        bits.append(const.ATTR_SIZE)
        values.uint64(size)
    if mode is not None:
        bits.append(const.ATTR_MODE)
        values.uint32(mode)
    for bit, number in ((const.ATTR_OWNER, owner), (const.ATTR_OWNER_GROUP, group)):
        if number is not None:
            bits.append(bit)
            values.opaque(str(number).encode())
    for bit, time in ((const.ATTR_TIME_ACCESS_SET, atime), (const.ATTR_TIME_MODIFY_SET, mtime)):
        if time is not None:
            bits.append(bit)
            _pack_time(values, time)
    return pack_bitmap(packer, bits).opaque(values.bytes())


# File handles and names.


def putrootfh():
    return Operation(Op.PUTROOTFH, b"")


def putfh(handle):
    return Operation(Op.PUTFH, Packer().opaque(handle).bytes())


def getfh():
    """handle"""
    return Operation(Op.GETFH, b"", _on_success(lambda u: {"handle": u.opaque()}))


def savefh():
    return Operation(Op.SAVEFH, b"")


def lookup(name):
    return Operation(Op.LOOKUP, Packer().opaque(name).bytes())


def remove(name):
    """change: the encoded change_info4"""
    return Operation(Op.REMOVE, Packer().opaque(name).bytes(),
                     _on_success(lambda u: {"change": u.fixed(20)}))


def access(mask=0x3F):
    """supported, granted"""
    return Operation(Op.ACCESS, Packer().uint32(mask).bytes(), _on_success(
        lambda u: {"supported": u.uint32(), "granted": u.uint32()}))


def rename(name, new_name):
    """From the saved directory into the current one."""
    return Operation(Op.RENAME, Packer().opaque(name).opaque(new_name).bytes(),
                     _on_success(lambda u: {"changes": u.fixed(40)}))


def link(name):
    """The saved file gets a name in the current directory."""
    return Operation(Op.LINK, Packer().opaque(name).bytes(),
                     _on_success(lambda u: {"change": u.fixed(20)}))


def create(kind, name, target=b"", device=(0, 0), **attributes):
    """Anything but a regular file; const.NF4DIR and so on."""
    packer = Packer().uint32(kind)
    if kind == const.NF4LNK:
        packer.opaque(target)
    if kind in (const.NF4BLK, const.NF4CHR):
        packer.uint32(device[0]).uint32(device[1])
    return Operation(Op.CREATE, _pack_attributes(packer.opaque(name), **attributes).bytes(),
                     _on_success(lambda u: {"change": u.fixed(20),
                                            "attributes": unpack_bitmap(u)}))


def create_directory(name, mode=0o755):
    return create(const.NF4DIR, name, mode=mode)


def getattr(bits):
    """attributes: {number: value}"""
    return Operation(Op.GETATTR, pack_bitmap(Packer(), bits).bytes(), _on_success(
        lambda u: {"attributes": unpack_attributes(u)}))


def setattr(stateid=ANONYMOUS, size=None, mode=None, **attributes):
    packer = pack_stateid(Packer(), stateid)
    return Operation(Op.SETATTR, _pack_attributes(packer, size, mode, **attributes).bytes(),
                     lambda u, _status: {"attributes": unpack_bitmap(u)})


def getxattr(name):
    """value. This and the next two: RFC 8276 section 8.4."""
    return Operation(Op.GETXATTR, Packer().opaque(name).bytes(),
                     _on_success(lambda unpacker: {"value": unpacker.opaque()}))


def setxattr(name, value, option=const.SETXATTR4_EITHER):
    return Operation(Op.SETXATTR, Packer().uint32(option).opaque(name).opaque(value).bytes(),
                     _on_success(lambda unpacker: {"change": unpacker.fixed(20)}))


def listxattrs(cookie=0, maxcount=8192):
    """cookie, names, eof. RFC 8276 section 8.4.3."""
    return Operation(Op.LISTXATTRS, Packer().uint64(cookie).uint32(maxcount).bytes(), _on_success(
        lambda u: {"cookie": u.uint64(), "names": [u.opaque() for _ in range(u.uint32())],
                   "eof": u.boolean()}))


def removexattr(name):
    return Operation(Op.REMOVEXATTR, Packer().opaque(name).bytes(),
                     _on_success(lambda unpacker: {"change": unpacker.fixed(20)}))


def _unpack_directory(unpacker):
    verifier = unpacker.fixed(8)
    entries = []
    while unpacker.boolean():
        entries.append(SimpleNamespace(cookie=unpacker.uint64(), name=unpacker.opaque(),
                                       attributes=unpack_attributes(unpacker)))
    return {"verifier": verifier, "entries": entries, "eof": unpacker.boolean()}


def readdir(cookie=0, verifier=b"\0" * 8, dircount=4096, maxcount=32768, bits=()):
    """verifier, entries (cookie, name, attributes), eof"""
    packer = Packer().uint64(cookie).fixed(verifier, 8).uint32(dircount).uint32(maxcount)
    return Operation(Op.READDIR, pack_bitmap(packer, bits).bytes(), _on_success(_unpack_directory))


# Open files and I/O.


def _unpack_open(unpacker):
    value = {"stateid": unpack_stateid(unpacker), "change": unpacker.fixed(20),
             "flags": unpacker.uint32(), "set": unpack_bitmap(unpacker)}
    value["delegation"] = unpacker.uint32()
    if value["delegation"] == 3:
        why = unpacker.uint32()
        if why in (1, 2):  # contention, resource: say whether the server will signal
            unpacker.boolean()
    elif value["delegation"] != 0:
        raise NotImplementedError("a delegation")
    return value


def open_file(name, clientid, owner=b"owner", share=const.SHARE_BOTH, deny=0, create=False,
              guarded=False, exclusive=b"", mode=0o644, seqid=None, file_owner=None, **attributes):
    """Opens NAME of the current directory. stateid, flags, set, delegation (0 or 3: none).
    Owner is the open's, file_owner an attribute of the file that is made. Exclusive is a verifier
    of 8 bytes (EXCLUSIVE4_1). NFSv4.0 wants a seqid, and knows no wish for
    a delegation."""
    wish = 0x0400 if seqid is None else 0
    packer = Packer().uint32(seqid or 0).uint32(share | wish).uint32(deny)
    packer.uint64(clientid).opaque(owner)
    packer.uint32(1 if create else 0)
    if create:
        packer.uint32(3 if exclusive else 1 if guarded else 0)
        if exclusive:
            packer.fixed(exclusive, 8)
        _pack_attributes(packer, mode=mode, owner=file_owner, **attributes)
    return Operation(Op.OPEN, packer.uint32(0).opaque(name).bytes(), _on_success(_unpack_open))


def close(stateid):
    """stateid"""
    return Operation(Op.CLOSE, pack_stateid(Packer().uint32(0), stateid).bytes(),
                     _on_success(lambda u: {"stateid": unpack_stateid(u)}))


def open_downgrade(stateid, share, deny=0):
    """stateid"""
    packer = pack_stateid(Packer(), stateid).uint32(0).uint32(share).uint32(deny)
    return Operation(Op.OPEN_DOWNGRADE, packer.bytes(),
                     _on_success(lambda u: {"stateid": unpack_stateid(u)}))


def delegreturn(stateid):
    return Operation(Op.DELEGRETURN, pack_stateid(Packer(), stateid).bytes())


def _unpack_lock(unpacker, status):
    if status == const.Status.DENIED:
        return {"offset": unpacker.uint64(), "length": unpacker.uint64(),
                "type": unpacker.uint32(), "clientid": unpacker.uint64(),
                "owner": unpacker.opaque()}
    return {"stateid": unpack_stateid(unpacker)} if status == 0 else {}


def lock(opened, clientid, owner=b"locker", offset=0, length=const.UINT64_MAX, exclusive=True,
         waits=False):
    """The first lock of a lock owner, from an open. stateid; with DENIED who holds what"""
    kind = (2 if exclusive else 1) + (2 if waits else 0)
    packer = Packer().uint32(kind).boolean(False).uint64(offset).uint64(length)
    pack_stateid(packer.boolean(True).uint32(0), opened).uint32(0).uint64(clientid).opaque(owner)
    return Operation(Op.LOCK, packer.bytes(), _unpack_lock)


def unlock(locked, offset=0, length=const.UINT64_MAX):
    """stateid"""
    packer = pack_stateid(Packer().uint32(2).uint32(0), locked).uint64(offset).uint64(length)
    return Operation(Op.LOCKU, packer.bytes(),
                     _on_success(lambda u: {"stateid": unpack_stateid(u)}))


def read(stateid, offset, count):
    """eof, data"""
    packer = pack_stateid(Packer(), stateid).uint64(offset).uint32(count)
    return Operation(Op.READ, packer.bytes(),
                     _on_success(lambda u: {"eof": u.boolean(), "data": u.opaque()}))


def seek(stateid, offset, what):
    """eof, offset"""
    packer = pack_stateid(Packer(), stateid).uint64(offset).uint32(what)
    return Operation(Op.SEEK, packer.bytes(),
                     _on_success(lambda u: {"eof": u.boolean(), "offset": u.uint64()}))


def write(stateid, offset, data, stable=const.FILE_SYNC4):
    """count, committed, verifier"""
    packer = pack_stateid(Packer(), stateid).uint64(offset).uint32(stable).opaque(data)
    return Operation(Op.WRITE, packer.bytes(), _on_success(
        lambda u: {"count": u.uint32(), "committed": u.uint32(), "verifier": u.fixed(8)}))


def allocate(stateid, offset, length):
    packer = pack_stateid(Packer(), stateid).uint64(offset).uint64(length)
    return Operation(Op.ALLOCATE, packer.bytes())


def deallocate(stateid, offset, length):
    packer = pack_stateid(Packer(), stateid).uint64(offset).uint64(length)
    return Operation(Op.DEALLOCATE, packer.bytes())


def commit(offset=0, count=0):
    """verifier"""
    return Operation(Op.COMMIT, Packer().uint64(offset).uint32(count).bytes(),
                     _on_success(lambda u: {"verifier": u.fixed(8)}))


def _unpack_read_plus(unpacker):
    def content():
        if unpacker.uint32() == 0:
            return SimpleNamespace(offset=unpacker.uint64(), data=unpacker.opaque(), hole=0)
        return SimpleNamespace(offset=unpacker.uint64(), data=b"", hole=unpacker.uint64())

    return {"eof": unpacker.boolean(), "contents": unpacker.array(content)}


def read_plus(stateid, offset, count):
    """eof, contents (offset, data, hole: bytes of a hole)"""
    packer = pack_stateid(Packer(), stateid).uint64(offset).uint32(count)
    return Operation(Op.READ_PLUS, packer.bytes(), _on_success(_unpack_read_plus))


# Client ids and sessions. Client does these by itself; they are here for tests of them.


@dataclasses.dataclass
class ChannelAttributes:
    """channel_attrs4, in bytes and counts"""
    max_request: int = 1 << 20
    max_response: int = 1 << 20
    max_cached: int = 8192
    max_operations: int = 32
    max_requests: int = 16
    rdma_reads: tuple = ()  # ca_rdma_ird: none, or one number

    def pack(self, packer):
        for value in (0, self.max_request, self.max_response, self.max_cached,
                      self.max_operations, self.max_requests):
            packer.uint32(value)
        return packer.array(self.rdma_reads, Packer.uint32)

    @classmethod
    def unpack(cls, unpacker):
        unpacker.uint32()
        return cls(*(unpacker.uint32() for _ in range(5)), tuple(unpacker.array(unpacker.uint32)))


def exchange_id(verifier, owner, flags=0, domain=None):
    """clientid, sequence, flags, major_id, scope, implementation (names); `domain` is that of the
    client's implementation, if it names one"""
    packer = Packer().fixed(verifier, 8).opaque(owner).uint32(flags).uint32(0)
    if domain is None:
        packer.uint32(0)
    else:
        packer.uint32(1).opaque(domain).opaque(b"wire").fixed(b"\0" * 12, 12)

    def decode(unpacker):
        value = {"clientid": unpacker.uint64(), "sequence": unpacker.uint32(),
                 "flags": unpacker.uint32()}
        if unpacker.uint32() != 0:
            raise NotImplementedError("state protection")
        value["minor_id"] = unpacker.uint64()
        value["major_id"] = unpacker.opaque()
        value["scope"] = unpacker.opaque()
        value["implementation"] = unpacker.array(
            lambda: (unpacker.opaque(), unpacker.opaque(), unpacker.fixed(12))[1])
        return value

    return Operation(Op.EXCHANGE_ID, packer.bytes(), _on_success(decode))


def create_session(clientid, sequence, fore, back, flags=const.CREATE_SESSION_CONN_BACK_CHAN,
                   program=const.CALLBACK_PROGRAM, security=b"\0" * 4):
    """session, sequence, flags, fore, back. SECURITY is one callback_sec_parms4, of AUTH_NONE."""
    packer = Packer().uint64(clientid).uint32(sequence).uint32(flags)
    back.pack(fore.pack(packer)).uint32(program).uint32(1).raw(security)
    return Operation(Op.CREATE_SESSION, packer.bytes(), _on_success(lambda u: {
        "session": u.fixed(16), "sequence": u.uint32(), "flags": u.uint32(),
        "fore": ChannelAttributes.unpack(u), "back": ChannelAttributes.unpack(u)}))


def sequence(session, sequence_id, slot, highest_slot, cache=False):
    """session, sequence, slot, highest_slot, target_highest_slot, flags"""
    packer = (Packer().fixed(session, 16).uint32(sequence_id).uint32(slot).uint32(highest_slot)
              .boolean(cache))
    return Operation(Op.SEQUENCE, packer.bytes(), _on_success(lambda u: {
        "session": u.fixed(16), "sequence": u.uint32(), "slot": u.uint32(),
        "highest_slot": u.uint32(), "target_highest_slot": u.uint32(), "flags": u.uint32()}))


def bind_conn_to_session(session, direction=3):
    """session, direction, rdma"""
    packer = Packer().fixed(session, 16).uint32(direction).boolean(False)
    return Operation(Op.BIND_CONN_TO_SESSION, packer.bytes(), _on_success(
        lambda u: {"session": u.fixed(16), "direction": u.uint32(), "rdma": u.boolean()}))


def destroy_session(session):
    return Operation(Op.DESTROY_SESSION, Packer().fixed(session, 16).bytes())


def destroy_clientid(clientid):
    return Operation(Op.DESTROY_CLIENTID, Packer().uint64(clientid).bytes())


def reclaim_complete(one_fs=False):
    return Operation(Op.RECLAIM_COMPLETE, Packer().boolean(one_fs).bytes())


def get_dir_delegation():
    """Decoded only as far as its status."""
    packer = Packer().boolean(False)
    pack_bitmap(packer, [])
    packer.uint64(0).uint32(0).uint64(0).uint32(0)
    pack_bitmap(pack_bitmap(packer, []), [])
    return Operation(Op.GET_DIR_DELEGATION, packer.bytes(),
                     _on_success(lambda u: {"rest": u.rest()}))


def raw(number, arguments=b""):
    """Any operation, with arguments encoded by the test; a successful result is taken as empty."""
    return Operation(number, arguments, _nothing)
