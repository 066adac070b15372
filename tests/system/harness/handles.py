"""Data-server handles made by a test, for data servers without a metadata server.

docs/protocol.md, "Handles" and "Trust"; layout/handle.h."""

import hashlib
import hmac
import struct
import subprocess

READ_WRITE = 3
CONTROL = 7  # the metadata server's own
KEY_ID = 1


def _derived(cluster_key: str, label: bytes) -> bytes:
    """Of the 64 hexadecimal digits that are in the key file."""
    key = bytes.fromhex(cluster_key.strip())
    return hmac.digest(key, b"weft " + label + b"\0", hashlib.sha256)


def _handle_key(cluster_key: str) -> bytes:
    return _derived(cluster_key, b"handle")[:16]


def server_domain(cluster_key: str, owner: bytes, verifier: bytes) -> bytes:
    """What EXCHANGE_ID says for the domain to show that it is a server that asks."""
    proof = hmac.digest(_derived(cluster_key, b"session"), verifier + owner, hashlib.sha256)
    return b"server.weft." + proof.hex().encode()


def seal(cluster_key: str, ds_id: int, fileid: int, access: int = READ_WRITE,
         client: int = 1) -> bytes:
    """A handle for the object of generation 1, fsid 1 and this fileid at data server ds_id."""
    claim = struct.pack(">BBHIQIIQII8x", 2, access, KEY_ID, ds_id, fileid, 1, 1, client, 0, 0)
    mac = subprocess.run(
        ["openssl", "mac", "-macopt", f"hexkey:{_handle_key(cluster_key).hex()}", "-macopt",
         "size:16", "SIPHASH"], input=claim, stdout=subprocess.PIPE, check=True, timeout=20)
    return claim + bytes.fromhex(mac.stdout.decode().strip())


def object_name(fileid: int) -> str:
    """What its file in a store is called."""
    return f"1.{fileid:016x}.1"
