"""The delay line that tests of far clients stand on: it is as long as told, and loses what it is
told to, and no more."""

import socket
import time

import pytest
from harness.delay_line import DelayLine
from harness.in_namespace import InNamespace
from harness.network import PREFIX
from harness.run import sh

PORT = 7007
COUNT = 2000
RTT_MS = 120


@pytest.fixture
def ends(run, network):
    """The line, a socket behind it that sends and a socket at a server that has what arrives."""
    node = network.client()
    line = DelayLine(run, node, rtt_ms=RTT_MS)
    # In the place of a machine: the bridge that it would be at.
    sh("ip", "-n", node.namespace, "addr", "add", f"{node.address}/{PREFIX}", "dev", "br1")
    server = network.program(1)
    here = InNamespace(node, udp).result()
    there = InNamespace(server, udp).result()
    here.connect((server.address, PORT))
    there.bind((server.address, PORT))
    there.connect((node.address, here.getsockname()[1]))
    yield line, here, there
    here.close()
    there.close()


def udp() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    made.settimeout(60)
    return made


def numbers(from_, to, count: int) -> list[int]:
    """What of `count` numbered datagrams arrives, as it arrives."""
    for number in range(count):
        from_.send(number.to_bytes(4, "big") + bytes(1000))
        if number % 50 == 49:
            time.sleep(0.002)
    from_.send(b"")  # the last: it may be lost, too
    found = []
    to.settimeout(10)
    try:
        while data := to.recv(2000):
            found.append(int.from_bytes(data[:4], "big"))
    except TimeoutError:
        pass
    return found


def test_delay(ends):
    _, here, there = ends
    for _ in range(5):  # the first has ARP before it
        began = time.monotonic()
        here.send(b"there")
        there.recv(100)
        one_way = time.monotonic() - began
        there.send(b"and back")
        here.recv(100)
        took = time.monotonic() - began
        assert one_way >= RTT_MS / 2000 and took >= RTT_MS / 1000


def test_nothing_is_lost_and_order_is_kept(ends):
    line, here, there = ends
    for from_, to in ((here, there), (there, here)):
        assert numbers(from_, to, COUNT) == list(range(COUNT))
    assert all(way["lost"] == way["full"] == way["cut"] == 0 for way in line.counts().values())


def test_a_share_is_lost(ends):
    line, here, there = ends
    here.send(b"ARP")
    there.recv(100)
    line.set(rtt_ms=10, loss=0.05)
    before = line.counts()["near"]
    found = numbers(here, there, COUNT)
    now = line.counts()["near"]
    lost, came = now["lost"] - before["lost"], now["frames"] - before["frames"]
    assert 0.03 * came < lost < 0.07 * came, (lost, came)
    assert found == sorted(found) and COUNT - lost <= len(found) < COUNT, (lost, len(found))


def test_cut(ends):
    line, here, there = ends
    assert numbers(here, there, 10) == list(range(10))
    line.cut()
    assert numbers(here, there, 10) == []
    assert line.counts()["near"]["cut"] > 0
    line.restore()
    assert numbers(here, there, 10) == list(range(10))
