"""An NFSv4 wire client for tests, in which every byte is the test's choice.

For what a kernel client never sends: misuse, races, hostile peers, reports of errors. Read
client.py first. No part of it knows Ganesha or Weft; it needs Python 3.11 and nothing else.

    client.py       Client: a session, compounds, recalls (NFSv4.1 and 4.2); Posting, which asks
                    for more before it is answered
    client40.py     Client40: NFSv4.0, with locks
    ops.py          operations: names, open files, I/O, sessions
    layout_ops.py   operations of pNFS
    backchannel.py  how callbacks are answered
    rpc.py          a TCP connection with calls in both directions; one without a thread
    xdr.py          encoding
    const.py        the RFCs' numbers
"""

from . import const, layout_ops, ops
from .client import Client, NfsError, Posting, Reply, Result
from .const import Op, Status
from .rpc import Connection, ConnectionClosed, RpcError
from .xdr import Packer, Unpacker, XdrError

__all__ = ["Client", "Connection", "ConnectionClosed", "NfsError", "Op", "Packer", "Posting",
           "Reply", "Result", "RpcError", "Status", "Unpacker", "XdrError", "const", "layout_ops",
           "ops"]
