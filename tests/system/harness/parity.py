"""Parity groups, looked at on the targets' disks (docs/on-disk-formats.md).

A test of parity is over when what clients read is right and the disks agree: in every object the
bytes of all members at one place have the exclusive or 0, each block has the checksum that is kept
of it, and what the members hold is the file.
"""

import ctypes
import ctypes.util
import functools
import struct
from pathlib import Path

from .copies import files_of
from .run import wait_until

CHUNK = 64 << 10
BLOCK = 4096
_SUMS_AT = 4096  # in an object of checksums, behind its header
_MEMBERS_MOST = 32
_LOG_AT, _LOG_MAGIC, _LOG_CLEAN = 16, 0x5750464D, 2
_SUMS = 1 << 31  # in the generation of an object of checksums
_RESERVE = "0.0000000000000000.1"  # of no file


def groups(cluster) -> list[list[dict[str, Path]]]:
    """A group for each data server that has one: each member's objects, name to file."""
    spaces = [target.spaces() for target in cluster.targets]
    uuids = sorted(set().union(*spaces))
    return [[_members(space[uuid]) if uuid in space else {} for space in spaces]
            for uuid in uuids]


def _members(store: Path) -> dict[str, Path]:
    found = files_of(store)
    found.pop(_RESERVE, None)
    return found


def nothing_dirty(store: Path) -> bool:
    """Whether the last entry in the log of the data server that keeps its own files here says that
    an object has no dirty regions any more. It comes a moment after COMMIT is answered."""
    log = (store / "parity-log").read_bytes()
    at, kind = _LOG_AT, 0
    while at + 16 <= len(log):
        magic, kind_there, body, _ = struct.unpack_from(">4I", log, at)
        if magic != _LOG_MAGIC:
            break
        at, kind = at + 16 + (body + 7) // 8 * 8 + 8, kind_there
    return kind == _LOG_CLEAN


def _sums_name(name: str) -> str:
    fsid, fileid, generation = name.split(".")
    return f"{fsid}.{fileid}.{int(generation, 16) | _SUMS:x}"


def _is_sums(name: str) -> bool:
    return int(name.split(".")[2], 16) & _SUMS != 0


@functools.cache
def _xxh3():
    """XXH3-64 with a seed."""
    function = ctypes.CDLL(ctypes.util.find_library("xxhash")).XXH3_64bits_withSeed
    function.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    function.restype = ctypes.c_uint64
    return function


def _u64(value: int) -> int:
    return value & (1 << 64) - 1


def _block_sum(block: bytes, name: str, member: int, index: int) -> int:
    """As dataserver/parity/blocks.h has it: seeded with where the block belongs."""
    if not any(block):
        return 0
    fsid, fileid, generation = (int(part, 16) for part in name.split("."))
    seed = _u64(fileid * 0x9E3779B97F4A7C15) ^ _u64((generation << 32 | fsid) * 0xC2B2AE3D27D4EB4F)
    seed ^= seed >> 29
    seed ^= _u64((index * _MEMBERS_MOST + member) * 0x9E3779B97F4A7C15)
    return max(1, _xxh3()(block, BLOCK, seed))


def _wrong_sums(name: str, members: list[bytes], sums: list[bytes]) -> list[str]:
    wrong = []
    for member, (data, kept) in enumerate(zip(members, sums)):
        count = max(-(-len(data) // BLOCK), (len(kept) - _SUMS_AT) // 8)
        for index in range(count):
            block = data[index * BLOCK:(index + 1) * BLOCK].ljust(BLOCK, b"\0")
            at = _SUMS_AT + 8 * index
            if _block_sum(block, name, member, index) != int.from_bytes(kept[at:at + 8], "big"):
                wrong.append(f"{name}: block {index} of member {member} has another checksum")
    return wrong


def _member_bytes(files: list[Path | None]) -> list[bytes]:
    found = [file.read_bytes() if file else b"" for file in files]
    size = max(len(data) for data in found)
    return [data.ljust(size, b"\0") for data in found]


def _xor(pieces: list[bytes]) -> bytes:
    total = 0
    for piece in pieces:
        total ^= int.from_bytes(piece, "little")
    return total.to_bytes(len(pieces[0]), "little")


def wrong_on_disks(cluster) -> list[str]:
    """What is inconsistent on the disks now, a sentence each."""
    wrong = []
    for group in groups(cluster):
        names = set().union(*group)
        for name in sorted(name for name in names if not _is_sums(name)):
            try:
                data = _member_bytes([member.get(name) for member in group])
                sums = [member[_sums_name(name)].read_bytes() for member in group]
            except FileNotFoundError:
                wrong.append(f"{name}: goes away")
                continue
            except KeyError:
                wrong.append(f"{name}: a member has no checksums of it")
                continue
            total = _xor(data)
            if any(total):
                at = len(total) - len(total.lstrip(b"\0"))
                wrong.append(f"{name}: the row at byte {at} of {len(total)} is not consistent")
            wrong += _wrong_sums(name, data, sums)
            if len({one[:32] for one in sums}) != 1:
                wrong.append(f"{name}: members disagree on its size")
    return wrong


def wait_consistent(cluster, timeout_s: float = 60) -> None:
    last: list[str] = []

    def consistent() -> bool:
        last[:] = wrong_on_disks(cluster)
        return not last
    try:
        wait_until(consistent, timeout_s, "parity to be consistent", 0.5)
    except TimeoutError as error:
        raise AssertionError(f"{error}\n" + "\n".join(last[:10])) from None


def _object(files: list[Path | None], size: int) -> bytes:
    members = _member_bytes(files)
    count = len(members)
    out = bytearray()
    for stripe in range(-(-size // ((count - 1) * CHUNK))):
        parity = count - 1 - stripe % count
        for k in range(count - 1):
            member = members[(parity + 1 + k) % count]
            out += member[stripe * CHUNK:(stripe + 1) * CHUNK].ljust(CHUNK, b"\0")
    return bytes(out[:size])


def content(cluster, name: str) -> bytes:
    """The file whose objects have this name, put together from the members' disks: each byte is at
    one data server, and at the others is a hole."""
    parts = []
    for group in groups(cluster):
        if not any(name in member for member in group):
            continue
        header = next(member[_sums_name(name)] for member in group if _sums_name(name) in member)
        size = struct.unpack(">IIQQ", header.read_bytes()[:24])[3]
        parts.append(_object([member.get(name) for member in group], size))
    longest = max(len(part) for part in parts)
    return _xor([part.ljust(longest, b"\0") for part in parts])


def objects_rebuilt(store: Path) -> int:
    """How many of all objects a new member has, as the record in the data server's folder says."""
    return struct.unpack_from(">Q", (store / "parity").read_bytes(), 32)[0]


def names(cluster) -> list[str]:
    """Of all objects, without those of checksums."""
    return sorted({name for group in groups(cluster) for member in group for name in member
                   if not _is_sums(name)})


def flip_bits(cluster, name: str, sums: bool, places: list[int]) -> int:
    """Damages an object behind everybody's back: at its n-th member, if that is so long, the byte
    at the n-th place. No row has two of them if the places are 4096 or more apart. How many."""
    count = 0
    for group in groups(cluster):
        for member, place in zip(group, places):
            file = member.get(_sums_name(name) if sums else name)
            if file is None or file.stat().st_size <= place:
                continue
            with open(file, "r+b") as out:
                out.seek(place)
                byte = out.read(1)[0]
                out.seek(place)
                out.write(bytes([byte ^ 16]))
            count += 1
    return count
