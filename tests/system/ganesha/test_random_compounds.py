"""Random compounds of layout operations, half of them damaged, and recalls in between.

The server must go on serving, without a thread that spins. It finds most with a server that has
AddressSanitizer (docs/ganesha.md) and more time: WEFT_RANDOM_SECONDS says how long each seed runs.
"""

import os
import random
import time

import pytest

from wire import Client, ConnectionClosed, RpcError, XdrError, const, layout_ops, ops

SECONDS = float(os.environ.get("WEFT_RANDOM_SECONDS", "3"))
DEVICE = bytes([1]) + bytes(15)
WORDS = (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\1", b"\x7f\xff\xff\xff", b"\0\0\4\0")


def damaged(rng, data):
    """DATA with up to four changes: bytes, words, a cut, an insertion."""
    data = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        if not data:
            break
        at = rng.randrange(len(data))
        word = at & ~3
        kind = rng.choice(("byte", "byte", "word", "cut", "insert"))
        if kind == "byte":
            data[at] = rng.choice((0, 1, 2, 127, 128, 255, rng.randrange(256)))
        elif kind == "word":
            data[word:word + 4] = rng.choice(WORDS)
        elif kind == "cut":
            del data[word:]
        else:
            data[word:word] = rng.randbytes(4)
    return bytes(data)


def operation(rng, stateid, handle, clientid):
    iomode = rng.choice((1, 2, 3))
    offset = rng.choice((0, 0, 4096, const.UINT64_MAX))
    length = rng.choice((const.UINT64_MAX, const.UINT64_MAX, 0, 4096))
    made = rng.choice((
        lambda: layout_ops.layoutget(stateid, iomode, offset, length),
        lambda: layout_ops.layoutreturn(stateid, iomode, offset, length,
                                        body=bytes(rng.choice((0, 8)))),
        lambda: layout_ops.layoutreturn(scope=rng.choice((2, 3)), iomode=iomode),
        lambda: layout_ops.layoutcommit(stateid, last_write=rng.choice((None, 5))),
        lambda: layout_ops.layouterror(stateid, [(DEVICE, 5, 25)] * rng.randrange(4)),
        lambda: layout_ops.layoutstats(stateid, DEVICE, (1, 2), (3, 4), body=bytes(8)),
        lambda: layout_ops.getdeviceinfo(DEVICE, maxcount=rng.choice((0, 1, 12, 76, 4096))),
        lambda: ops.open_file(b"c", clientid, create=True),
        lambda: ops.close(stateid),
        lambda: ops.lock(stateid, clientid),
        lambda: ops.unlock(stateid),
        lambda: ops.setattr(size=rng.randrange(100)),
        lambda: ops.remove(b"a"),
        lambda: ops.putfh(handle)))()
    if rng.random() < 0.5:
        made.arguments = damaged(rng, made.arguments)
    return made


def one_client(rng, server, deadline):
    """Sends compounds until the server drops the connection or time is up."""
    client = Client(server.address, timeout=2.0)
    try:
        handle, opened = client.open("/layout", rng.choice((b"a", b"b")), create=True)
        stateids = [opened]
        client.call(ops.putfh(handle), layout_ops.layoutget(opened))  # something to recall
        while time.monotonic() < deadline:
            chosen = [operation(rng, rng.choice(stateids), handle, client.clientid)
                      for _ in range(rng.choice((1, 1, 2, 3)))]
            if rng.random() < 0.95:
                chosen.insert(0, ops.putfh(handle))
            for result in client.compound(*chosen).results:
                if getattr(result, "stateid", None) is not None:
                    stateids = [*stateids[-5:], result.stateid]
            if rng.random() < 0.02:
                server.command(f"recall 0 {const.UINT64_MAX} 3 {rng.randrange(3)}")
    except (RpcError, ConnectionClosed, TimeoutError, XdrError, ValueError):
        pass  # what comes back for damaged arguments need not make sense
    finally:
        client.vanish() if rng.random() < 0.5 else client.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_random_compounds(server, seed):
    rng = random.Random(seed)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        one_client(rng, server, deadline)
        assert server.ended is None, f"the server ended: {server.ended}"
    assert not server.cpu_hungry()
    assert server.answers()
