"""Who can reach a data server's port, and has no more than that, does not keep it from its clients.

One data server without a metadata server, and the wire client (harness/standalone.py). Strangers
come from many addresses of its own machine, a thousand connections at a time, and again as soon as
one is closed."""

import selectors
import socket
import struct
import threading
import time

import pytest
from harness.cluster import Options
from harness.config import NFS_PORT, TARGET_PORT
from harness.in_namespace import InNamespace
from harness.standalone import Caller, Standalone
from wire import const, ops
from wire.client import encode_compound
from wire.rpc import auth_sys
from wire.xdr import Packer

pytestmark = pytest.mark.faults

STRANGERS = 1000
ADDRESSES = 8
MIB = 1 << 20
SIZE = MIB // 2
WRITES = 200
LONG_S = 60  # for all of them


def nothing(_session):
    """The mark of a large record, and bytes that are no call."""
    return struct.pack(">I", 0x80000000 | (MIB + 4000)) + bytes(700)


def idle(_session):
    return b""


def half_a_write(session):
    """Of a session that stands: its request is taken, and does not go on."""
    call = (Packer().uint32(7).uint32(0).uint32(2).uint32(100003).uint32(4).uint32(1).bytes()
            + auth_sys()
            + encode_compound((ops.sequence(session, 1, 0, 0, False), ops.putfh(b"x" * 64),
                               ops.write(ops.ANONYMOUS, 0, bytes(MIB))), 1))
    return struct.pack(">I", 0x80000000 | len(call)) + call[:2000]


class Strangers:
    """Keeps STRANGERS connections to the data server, each with FIRST sent on it."""

    def __init__(self, address, first):
        self.address, self.first = address, first
        self.over = threading.Event()
        self.made = 0
        self.selector = selectors.DefaultSelector()

    def connect(self):
        one = socket.socket()
        one.setblocking(False)
        one.bind((f"127.0.0.{2 + self.made % ADDRESSES}", 0))
        one.connect_ex(self.address)
        self.made += 1
        self.selector.register(one, selectors.EVENT_WRITE)

    def run(self):
        for _ in range(STRANGERS):
            self.connect()
        while not self.over.is_set():
            for key, events in self.selector.select(0.2):
                one = key.fileobj
                try:
                    if events & selectors.EVENT_WRITE:
                        if self.first:
                            one.send(self.first)
                        self.selector.modify(one, selectors.EVENT_READ)
                    elif not one.recv(4096):
                        raise ConnectionResetError
                except OSError:
                    self.selector.unregister(one)
                    one.close()
                    self.connect()
                    time.sleep(0.002)  # they have one processor to share with who is tested
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()


def write_rate(caller):
    """MiB a second, of WRITES writes one after the other."""
    begun = time.monotonic()
    for number in range(WRITES):
        caller.write(number % 32 * SIZE, bytes([number]) * SIZE)
    took = time.monotonic() - begun
    assert took < LONG_S, f"{took} s"
    return WRITES * SIZE / MIB / took


@pytest.mark.parametrize("first", [idle, nothing, half_a_write], ids=lambda kind: kind.__name__)
def test_a_copy_goes_on_beside_strangers(run, network, first):
    system = Standalone(run, network, Options(metrics=True))
    caller = Caller(system, 41, patience_s=LONG_S)
    write_rate(caller)
    alone = write_rate(caller)
    own = system.session(b"stranger", 30)
    address = (system.ds[0].node.address, NFS_PORT)
    strangers = Strangers(address, first(own.session))
    InNamespace(system.ds[0].node, strangers.run)
    try:
        time.sleep(3)
        beside = write_rate(caller)
        assert caller.sessions == 1, "its connection was lost"
        newcomer = system.session(b"newcomer", 10)  # who comes now is served, too
        newcomer.close()
        assert system.metrics(system.ds[0])["weft_ds_memory_bytes"] < 400 * MIB
    finally:
        strangers.over.set()
    print(f"beside {STRANGERS} strangers ({first.__name__}, {strangers.made} connections): "
          f"{beside / alone:.2f} of {alone:.0f} MiB/s")
    assert caller.read((WRITES - 1) % 32 * SIZE, 1) == bytes([WRITES - 1])
    caller.commit()
    own.close()
    caller.close()


def test_a_request_that_is_sent_again_under_a_session_that_is_gone_is_told_so(run, network):
    """Over a new connection it is the first that comes, and large."""
    system = Standalone(run, network, Options())
    client = system.session(b"again", 30)
    request = (ops.sequence(client.session, 1, 0, client.slots - 1, False),
               ops.putfh(system.handle(41)),
               ops.write(ops.ANONYMOUS, 0, bytes(SIZE), const.FILE_SYNC4))
    client.connection.close()
    system.ds[0].process.kill()
    system.ds[0].process.start()
    system.wait_up()
    client.connection = InNamespace(system.ds[0].node, lambda: client._connect(30)).result()
    reply = client.send(*request, timeout=10)
    assert reply.status == const.Status.BADSESSION
    client.vanish()


@pytest.mark.parametrize("first", [idle, nothing], ids=lambda kind: kind.__name__)
def test_strangers_do_not_keep_a_data_server_from_its_target(run, network, first):
    system = Standalone(run, network, Options(store="tcp", metrics=True))
    caller = Caller(system, 41, patience_s=LONG_S)
    caller.write(0, b"before", const.FILE_SYNC4)
    target = system.targets[0].process
    address = (target.node.address, TARGET_PORT)
    strangers = Strangers(address, first(None))
    InNamespace(target.node, strangers.run)
    try:
        time.sleep(2)
        system.ds[0].process.kill()
        time.sleep(2)  # they take its place
        system.ds[0].process.start()
        assert caller.read(0, 6) == b"before"
        caller.write(0, b"behind", const.FILE_SYNC4)
        time.sleep(7)  # longer than a stranger may stay
        assert caller.read(0, 6) == b"behind"
        assert system.metrics(system.targets[0])["weft_target_memory_bytes"] < 10 * MIB
    finally:
        strangers.over.set()
    assert strangers.made > STRANGERS + 500, "they were closed"
    caller.close()
