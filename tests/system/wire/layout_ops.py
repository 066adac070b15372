"""The pNFS operations of NFSv4.1 and 4.2, in the style of ops.py, and CB_LAYOUTRECALL."""

from types import SimpleNamespace

from . import const
from .const import Op
from .ops import Operation, Stateid, _on_success, pack_stateid, unpack_bitmap, unpack_stateid
from .xdr import Packer, Unpacker


def _unpack_layoutget(unpacker):
    def layout():
        return SimpleNamespace(offset=unpacker.uint64(), length=unpacker.uint64(),
                               iomode=unpacker.uint32(), type=unpacker.uint32(),
                               body=unpacker.opaque())

    return {"return_on_close": unpacker.boolean(), "stateid": unpack_stateid(unpacker),
            "layouts": unpacker.array(layout)}


def layoutget(stateid, iomode=const.IOMODE_RW, offset=0, length=const.UINT64_MAX, minlength=0,
              layout_type=const.LAYOUT4_NFSV4_1_FILES, maxcount=65536):
    """return_on_close, stateid, layouts (offset, length, iomode, type, body)"""
    packer = (Packer().boolean(False).uint32(layout_type).uint32(iomode).uint64(offset)
              .uint64(length).uint64(minlength))
    return Operation(Op.LAYOUTGET, pack_stateid(packer, stateid).uint32(maxcount).bytes(),
                     _on_success(_unpack_layoutget))


def layoutreturn(stateid=None, iomode=const.IOMODE_ANY, offset=0, length=const.UINT64_MAX,
                 layout_type=const.LAYOUT4_NFSV4_1_FILES, body=b"", scope=const.SCOPE_FILE,
                 reclaim=False):
    """stateid, None if nothing is left. The stateid, range and body are of SCOPE_FILE only."""
    packer = Packer().boolean(reclaim).uint32(layout_type).uint32(iomode).uint32(scope)
    if scope == const.SCOPE_FILE:
        pack_stateid(packer.uint64(offset).uint64(length), stateid).opaque(body)
    return Operation(Op.LAYOUTRETURN, packer.bytes(), _on_success(
        lambda u: {"stateid": unpack_stateid(u) if u.boolean() else None}))


def layoutcommit(stateid, offset=0, length=const.UINT64_MAX, last_write=None,
                 layout_type=const.LAYOUT4_NFSV4_1_FILES, body=b"", reclaim=False):
    """size, None if the server gives none. last_write is the offset of the last byte written."""
    packer = pack_stateid(Packer().uint64(offset).uint64(length).boolean(reclaim), stateid)
    packer.boolean(last_write is not None)
    if last_write is not None:
        packer.uint64(last_write)
    packer.boolean(False).uint32(layout_type).opaque(body)
    return Operation(Op.LAYOUTCOMMIT, packer.bytes(), _on_success(
        lambda u: {"size": u.uint64() if u.boolean() else None}))


def layouterror(stateid, errors, offset=0, length=const.UINT64_MAX):
    """errors: (device id, status, operation number) each."""
    packer = pack_stateid(Packer().uint64(offset).uint64(length), stateid)
    packer.array(errors, lambda p, e: p.fixed(e[0], 16).uint32(e[1]).uint32(e[2]))
    return Operation(Op.LAYOUTERROR, packer.bytes())


def layoutstats(stateid, device, read, write, offset=0, length=const.UINT64_MAX,
                layout_type=const.LAYOUT4_NFSV4_1_FILES, body=b""):
    """read, write: (operations, bytes) each."""
    packer = pack_stateid(Packer().uint64(offset).uint64(length), stateid)
    for count, size in (read, write):
        packer.uint64(count).uint64(size)
    packer.fixed(device, 16).uint32(layout_type).opaque(body)
    return Operation(Op.LAYOUTSTATS, packer.bytes())


def _unpack_device(unpacker, status):
    if status == const.Status.TOOSMALL:
        return {"mincount": unpacker.uint32()}
    if status != 0:
        return {}
    return {"type": unpacker.uint32(), "address": unpacker.opaque(),
            "notification": unpack_bitmap(unpacker)}


def getdeviceinfo(device, layout_type=const.LAYOUT4_NFSV4_1_FILES, maxcount=65536):
    """type, address (the encoded da_addr_body), notification; mincount with TOOSMALL"""
    packer = Packer().fixed(device, 16).uint32(layout_type).uint32(maxcount).uint32(0)
    return Operation(Op.GETDEVICEINFO, packer.bytes(), _unpack_device)


def unpack_files_layout(body):
    """nfsv4_1_file_layout4 (RFC 8881, 13.3): device, util, first_stripe, pattern_offset, handles"""
    unpacker = Unpacker(body)
    value = SimpleNamespace(device=unpacker.fixed(16), util=unpacker.uint32(),
                            first_stripe=unpacker.uint32(), pattern_offset=unpacker.uint64(),
                            handles=unpacker.array(unpacker.opaque))
    unpacker.done()
    return value


def unpack_files_address(address):
    """nfsv4_1_file_layout_ds_addr4: stripe_indices, servers (a list of (netid, uaddr) each)"""
    unpacker = Unpacker(address)
    value = SimpleNamespace(
        stripe_indices=unpacker.array(unpacker.uint32),
        servers=unpacker.array(
            lambda: unpacker.array(lambda: (unpacker.string(), unpacker.string()))))
    unpacker.done()
    return value


def unpack_layoutrecall(unpacker):
    """A CB_LAYOUTRECALL: type, iomode, changed, scope and, of SCOPE_FILE, handle, offset, length,
    stateid."""
    value = SimpleNamespace(type=unpacker.uint32(), iomode=unpacker.uint32(),
                            changed=unpacker.boolean(), scope=unpacker.uint32())
    if value.scope == const.SCOPE_FILE:
        value.handle = unpacker.opaque()
        value.offset, value.length = unpacker.uint64(), unpacker.uint64()
        value.stateid = unpack_stateid(unpacker)
    elif value.scope == const.SCOPE_FSID:
        value.fsid = (unpacker.uint64(), unpacker.uint64())
    return value


__all__ = ["Stateid", "getdeviceinfo", "layoutcommit", "layouterror", "layoutget", "layoutreturn",
           "layoutstats", "unpack_files_address", "unpack_files_layout", "unpack_layoutrecall"]
