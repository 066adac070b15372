"""For Python jobs in a client machine: known data, checks that say where they failed."""

import hashlib
import os
import subprocess

KIB = 1 << 10
MIB = 1 << 20
DIRECTORY = "/mnt/nfs"


def block(seed, size=MIB):
    """size bytes that repeat a digest of the seed: fast, and a wrong block shows."""
    unit = hashlib.sha256(str(seed).encode()).digest()
    return (unit * (size // len(unit) + 1))[:size]


def drop_caches():
    os.sync()
    subprocess.run(["weft-drop-caches"], check=True)


def check(path, expected, offset=0):
    """The file has exactly the expected bytes from offset to its end."""
    with open(path, "rb") as file:
        file.seek(offset)
        same_bytes(path, file.read(), expected, offset)


def same_bytes(path, data, expected, offset=0):
    """The data that was read at the offset is what is expected there."""
    if data == expected:
        return
    where = next((i for i, (a, b) in enumerate(zip(data, expected)) if a != b),
                 min(len(data), len(expected)))
    raise SystemExit(f"{path}: {len(data)} bytes, expected {len(expected)}; they differ from byte "
                     f"{offset + where} on: {data[where:where + 16].hex()} is not "
                     f"{expected[where:where + 16].hex()}")


def same(what, is_, expected):
    if is_ != expected:
        raise SystemExit(f"{what} is {is_!r}, expected {expected!r}")
