"""Who can reach a data server's port, and has no more than that, does not keep it from its clients;
and it has thousands of clients. Nor does he keep the metadata server from those that it has.

One data server without a metadata server, and the wire client (harness/standalone.py). Strangers
come from many addresses of its own machine, a thousand connections at a time, and again as soon as
one is closed."""

import multiprocessing
import os
import re
import selectors
import socket
import statistics
import struct
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness.client import start_clients
from harness.cluster import Cluster, Options
from harness.config import NFS_PORT, TARGET_PORT
from harness.counters import weft
from harness.in_namespace import InNamespace
from harness.run import wait_until
from harness.standalone import Caller, Standalone
from wire import NfsError, Packer, Posting, const, ops
from wire.client import encode_compound
from wire.rpc import auth_sys

pytestmark = pytest.mark.faults

FORK = multiprocessing.get_context("fork")
STRANGERS = 1000
ADDRESSES = 8
MIB = 1 << 20
SIZE = MIB // 2
LONG_S = 60  # for an answer
THOUSANDS_S = 240  # for what thousands of clients do
ROUNDS = 3
CYCLE_S = 4  # of strangers that are closed after 3 s
BESIDE = 0.8  # of the rate without strangers; the median of the rounds


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
    """Keeps STRANGERS connections to the data server, each with FIRST sent on it. run() is for a
    process of its own, which takes nothing of the interpreter that the clients have."""

    def __init__(self, address, first):
        self.address, self.first = address, first
        self.over = FORK.Event()
        self.all_made = FORK.Value("i", 0)
        self.owner = os.getpid()

    @property
    def made(self):
        return self.all_made.value

    def connect(self):
        one = socket.socket()
        one.setblocking(False)
        one.bind((f"127.0.0.{2 + self.made % ADDRESSES}", 0))
        one.connect_ex(self.address)
        self.all_made.value += 1
        self.selector.register(one, selectors.EVENT_WRITE)

    def run(self):
        os.nice(10)
        self.selector = selectors.DefaultSelector()
        for _ in range(STRANGERS):
            self.connect()
        while not self.over.is_set() and os.getppid() == self.owner:
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
                    time.sleep(0.002)  # they share processors with who is tested


@contextmanager
def strangers_at(node, port, first):
    strangers = Strangers((node.address, port), first)
    process = FORK.Process(target=lambda: InNamespace(node, strangers.run).join(), daemon=True)
    process.start()
    try:
        yield strangers
    finally:
        strangers.over.set()
        process.join()


def write_rate(caller, seconds):
    """MiB a second, of writes one after the other."""
    begun, number = time.monotonic(), 0
    while time.monotonic() - begun < seconds:
        caller.write(number % 32 * SIZE, bytes([number % 32]) * SIZE)
        number += 1
    return number * SIZE / MIB / (time.monotonic() - begun)


@pytest.mark.alone
@pytest.mark.parametrize("first", [idle, nothing, half_a_write], ids=lambda kind: kind.__name__)
def test_a_copy_goes_on_beside_strangers(run, network, first):
    system = Standalone(run, network, Options(metrics=True))
    caller = Caller(system, 41, patience_s=LONG_S)
    write_rate(caller, 1)
    own = system.session(b"stranger", 30)
    ratios = []
    for _ in range(ROUNDS):
        alone = write_rate(caller, 2)
        with strangers_at(system.ds[0].node, NFS_PORT, first(own.session)) as strangers:
            time.sleep(1)
            ratios.append(write_rate(caller, CYCLE_S) / alone)
            newcomer = system.session(b"newcomer", 10)  # who comes now is served, too
            newcomer.close()
            assert system.metrics(system.ds[0])["weft_ds_memory_bytes"] < 400 * MIB
        assert strangers.made >= STRANGERS
        print(f"beside {STRANGERS} strangers ({first.__name__}, {strangers.made} connections): "
              f"{ratios[-1]:.2f} of {alone:.0f} MiB/s")
    assert caller.sessions == 1, "its connection was lost"
    assert statistics.median(ratios) >= BESIDE, ratios
    assert caller.read(31 * SIZE, 1) == bytes([31])
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
    with strangers_at(target.node, TARGET_PORT, first(None)) as strangers:
        time.sleep(2)
        system.ds[0].process.kill()
        time.sleep(2)  # they take its place
        system.ds[0].process.start()
        assert caller.read(0, 6) == b"before"
        caller.write(0, b"behind", const.FILE_SYNC4)
        time.sleep(7)  # longer than a stranger may stay
        assert caller.read(0, 6) == b"behind"
        assert system.metrics(system.targets[0])["weft_target_memory_bytes"] < 10 * MIB
    assert strangers.made > STRANGERS + 500, "they were closed"
    caller.close()


CLIENTS = 4000
SOURCES = 20  # of the clients: 256 connections are the most from one address
PIECE = 64 << 10
LIMIT = 128 * MIB
SESSION = 256 * 64  # bytes that weft-ds.toml(5) allows for one


class OneOfMany(Posting):
    """Its number says its address, and which piece of the object is its own."""

    def __init__(self, system, number):
        self.number = number
        self.handle = system.handle(41)
        super().__init__((system.ds[0].node.address, NFS_PORT), f"127.0.1.{1 + number % SOURCES}",
                         slots=4, owner=b"one of many %d" % number, timeout=LONG_S,
                         flags=const.EXCHGID_USE_PNFS_DS)

    def data(self):
        return struct.pack(">I", self.number) * (PIECE // 4)

    def ask(self, operation):
        """One after the other, in slot 0."""
        self.post(0, ops.putfh(self.handle), operation)

    def result(self):
        return self.answer()[1].check().last


def most_memory(process):
    """MiB that it has had."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)[1]) / 1024


def all_write_and_read(clients):
    """Each at the same time as all others."""
    for one in clients:
        one.ask(ops.write(ops.ANONYMOUS, one.number * PIECE, one.data()))
    assert {one.result().count for one in clients} == {PIECE}
    for one in clients:
        one.ask(ops.read(ops.ANONYMOUS, one.number * PIECE, PIECE))
    assert [one.number for one in clients if one.result().data != one.data()] == []


def test_thousands_of_clients_hold_sessions(run, network):
    """They read and write all at once, more than the data server has memory for data in transit."""
    system = Standalone(run, network, Options(metrics=True, server_options=f"""
memory_limit = {LIMIT}
max_clients = {CLIENTS}
"""))
    process = system.ds[0].process
    clients = []

    def work():
        before = most_memory(process)
        clients.extend(OneOfMany(system, number) for number in range(CLIENTS))
        held = most_memory(process)
        all_write_and_read(clients)
        return before, held, most_memory(process)
    before, held, after = InNamespace(system.ds[0].node, work).result(THOUSANDS_S)
    metrics = system.metrics(system.ds[0])
    print(f"MiB: {before:.0f}, with sessions {held:.0f}, at most {after:.0f}")
    assert metrics["weft_ds_sessions"] == CLIENTS
    assert held - before < CLIENTS * SESSION / MIB
    assert after - held < LIMIT / MIB
    for one in clients:
        one.vanish()


PLACES = 40
APPENDS = """#!/usr/bin/python3
import os, subprocess
number = 0
while not os.path.exists("/mnt/nfs/enough"):
    with open("/mnt/nfs/file%d" % (number % 10), "ab") as file:
        file.write(b"x" * 100000)
    number += 1
    subprocess.run(["weft-signal", "wrote-%d" % number], check=True)
"""


def strangers_until_refused(cluster):
    strangers = []
    with pytest.raises(NfsError, match="CREATE_SESSION.*DELAY"):
        while len(strangers) <= PLACES:
            strangers.append(cluster.connect(backchannel=False, slots=1))
    return strangers


def test_strangers_at_the_metadata_server_leave_a_client_its_place(run, network):
    """A client of Linux works before, while and after they take all others, and the server
    restarts; another waits in its mount."""
    cluster = Cluster(run, network, Options(data_servers=1, nfs4=f"Max_Client_Ids = {PLACES};"))
    client, waiting = start_clients(run, network, ["uml61", "uml61"])
    client.mount(cluster.address, cluster.path)
    job = client.start_job(APPENDS)
    client.wait_event("wrote-1", 60)
    strangers = strangers_until_refused(cluster)
    assert len(strangers) == PLACES - 1
    codes = [one["code"] for one in weft(cluster, "health")["problems"]]
    assert "CLIENTS_WAIT" in codes
    client.run("echo more > /mnt/nfs/more")
    mount = waiting.start_job(f"""#!/bin/sh
set -e
mkdir -p /mnt/nfs
weft-signal mounts
mount -t nfs -o vers=4.2 {cluster.address}:{cluster.path} /mnt/nfs
cat /mnt/nfs/more
umount /mnt/nfs
""", root=True)
    waiting.wait_event("mounts")
    time.sleep(3)  # it asks each second
    assert not mount.done(), mount.output()
    strangers.pop().close()
    assert mount.wait(60).output == "more\n"
    cluster.mds.kill()
    for one in strangers:
        one.vanish()
    cluster.restart_mds()
    strangers = strangers_until_refused(cluster)
    client.run("echo still > /mnt/nfs/still; touch /mnt/nfs/enough")
    job.wait(120)
    assert client.run("cat /mnt/nfs/more /mnt/nfs/still").output == "more\nstill\n"
    for one in strangers:
        one.close()
    wait_until(lambda: "CLIENTS_WAIT" not in str(weft(cluster, "health")), 30, "places")
