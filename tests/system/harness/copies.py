"""Copies of objects, compared on the data servers' disks.

A test of mirroring is over when what clients read is right and the disks agree: each object has as
many copies as it should, and they are equal byte for byte.
"""

import hashlib
from pathlib import Path

from .cluster import Cluster
from .run import wait_until


def objects_of(store: Path, at_least: int = 0) -> dict[str, Path]:
    """Object id to file, of those that are so many bytes long; not those of checksums."""
    return {name: file for name, file in files_of(store).items()
            if file.stat().st_size >= at_least and not _of_checksums(file)}


def files_of(store: Path) -> dict[str, Path]:
    """Those of checksums, too."""
    return {file.name: file for file in (store / "objects").glob("*/*") if file.is_file()}


def kept_checksums(store: Path) -> int:
    """Bytes of checksums that a folder store has of its objects, holes among them."""
    return sum(file.stat().st_size for file in files_of(store).values() if _of_checksums(file))


def _of_checksums(file: Path) -> bool:
    """The object beside another, of a generation that no file has."""
    return int(file.name.rsplit(".", 1)[1], 16) >> 31 == 1


def checksums_of(store: Path, at_least: int = 0) -> dict[str, str]:
    """Object id to SHA-256, likewise."""
    return {name: hashlib.sha256(file.read_bytes()).hexdigest()
            for name, file in objects_of(store, at_least).items()}


def _without_zeros_at_end(data: bytes) -> int:
    """How long the data is when zeros at its end do not count: a hole there is no byte."""
    end = len(data)
    zeros = bytes(1 << 16)
    while end >= len(zeros) and data[end - len(zeros):end] == zeros:
        end -= len(zeros)
    while end and data[end - 1] == 0:
        end -= 1
    return end


def _content(file: Path) -> bytes:
    data = file.read_bytes()
    return data[:_without_zeros_at_end(data)]


def _agreed_bytes(a: bytes, b: bytes) -> int:
    """How many bytes are equal from the beginning."""
    for at in range(0, min(len(a), len(b)), 4096):
        if a[at:at + 4096] != b[at:at + 4096]:
            pairs = enumerate(zip(a[at:at + 4096], b[at:at + 4096]))
            return at + next((i for i, (x, y) in pairs if x != y), min(len(a), len(b)) - at)
    return min(len(a), len(b))


def differences(cluster: Cluster, copies: int) -> list[str]:
    """What is wrong with the copies on the disks now, a sentence each. An object has the same name
    at every server of its file, with the stripes of that server in it; so each is to find
    copies - 1 others that are equal. Data that is not synced is seen too: the files are read
    through the page cache of the same machine."""
    stores = {server.name: objects_of(server.store) for server in cluster.ds}
    wrong = []
    for name in sorted(set().union(*stores.values())):
        try:
            contents = {home: _content(objects[name]) for home, objects in stores.items()
                        if name in objects}
        except FileNotFoundError:
            wrong.append(f"{name}: goes away")
            continue
        for home, mine in contents.items():
            equal = sum(mine == other for other in contents.values())
            if mine and equal < copies:
                agreed = {other: _agreed_bytes(mine, theirs)
                          for other, theirs in contents.items() if other != home}
                wrong.append(f"{name}: {len(mine)} bytes at {home} have {equal} copies; "
                             f"equal bytes elsewhere: {agreed}")
    return wrong


def wait_equal(cluster: Cluster, copies: int = 2, timeout_s: float = 120) -> None:
    """Waits until all copies are there and equal; says what is wrong with them if that is late."""
    last: list[str] = []

    def equal() -> bool:
        last[:] = differences(cluster, copies)
        return not last
    try:
        wait_until(equal, timeout_s, "copies to be equal", 0.5)
    except TimeoutError as error:
        raise AssertionError(f"{error}\n" + "\n".join(last[:10])) from None
