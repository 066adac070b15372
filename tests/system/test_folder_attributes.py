"""A folder's attributes come with each change of it: the server's cache is not asked for them
again, and is not left with those of before."""

import random
import re
import struct
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.cluster import Cluster, Options
from harness.in_namespace import InNamespace
from wire import Op, const, ops

pytestmark = pytest.mark.faults

PORT = 9590
ASKED = [const.ATTR_CHANGE, const.ATTR_SIZE, const.ATTR_NUMLINKS, const.ATTR_TIME_METADATA,
         const.ATTR_TIME_MODIFY]


@pytest.fixture
def system(run, network):
    cluster = Cluster(run, network, Options(
        data_servers=1, extra={"Metrics_Address": f'"10.77.0.1:{PORT}"'}))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    return cluster


def asked_of_the_store(cluster):
    """How often Ganesha has asked the namespace for attributes."""
    def ask():
        url = f"http://{cluster.mds_node.address}:{PORT}/metrics"
        with urllib.request.urlopen(url, timeout=5) as page:
            return page.read().decode()
    page = InNamespace(cluster.mds_node, ask).result(10)
    return int(re.search(r'^weft_mds_operation_seconds_count{op="getattr"} (\d+)$', page,
                         re.MULTILINE)[1])


def folder(client, name):
    return client.call(ops.putfh(client.handle("/export")), ops.create_directory(name),
                       ops.getfh()).handle


def attributes(client, handle):
    return client.call(ops.putfh(handle), ops.getattr(ASKED)).attributes


def creating(client, handle, name):
    return [ops.putfh(handle), ops.open_file(name, client.clientid, create=True)]


def test_each_change_brings_the_attributes(system):
    client = system.connect(owner=b"changes")
    here, there = folder(client, b"here"), folder(client, b"there")
    file, _ = client.open("/export/here", b"file", create=True)
    before = attributes(client, here), attributes(client, there)
    asked = asked_of_the_store(system)

    def changed(handle, *operations):
        """By the last operation of a compound, which tells of a change, atomically."""
        reply = client.compound(ops.putfh(handle), *operations).check()
        told = attributes(client, handle)
        change = reply.last.changes[-20:] if reply.last.op == Op.RENAME else reply.last.change
        atomic, _, after = struct.unpack(">IQQ", change)
        assert atomic and after == told[const.ATTR_CHANGE]
        return told

    links = before[0][const.ATTR_NUMLINKS]
    entries = before[0][const.ATTR_SIZE]
    told = changed(here, ops.create_directory(b"folder"))
    assert (told[const.ATTR_NUMLINKS], told[const.ATTR_SIZE]) == (links + 1, entries + 1)
    told = changed(here, ops.create(const.NF4LNK, b"symlink", b"to"))
    told = changed(here, ops.create(const.NF4FIFO, b"pipe"))
    assert told[const.ATTR_SIZE] == entries + 3
    told = changed(here, ops.putfh(file), ops.savefh(), ops.putfh(here), ops.link(b"link"))
    told = changed(here, ops.savefh(), ops.rename(b"link", b"renamed"))
    assert told[const.ATTR_SIZE] == entries + 4
    told = changed(there, ops.putfh(here), ops.savefh(), ops.putfh(there),
                   ops.rename(b"folder", b"moved"))
    assert told[const.ATTR_NUMLINKS] == before[1][const.ATTR_NUMLINKS] + 1
    assert attributes(client, here)[const.ATTR_NUMLINKS] == links
    told = changed(here, ops.remove(b"renamed"))
    client.compound(*creating(client, here, b"new")).check()
    told = attributes(client, here)
    assert told[const.ATTR_SIZE] == entries + 3
    assert told[const.ATTR_TIME_MODIFY] > before[0][const.ATTR_TIME_MODIFY]
    # Of the folders nothing was asked, only of what lost or got a name.
    assert asked_of_the_store(system) - asked <= 3
    client.close()


def test_many_change_a_folder_at_once(system):
    client = system.connect(owner=b"changes", slots=16, timeout=60)
    folders = [folder(client, b"one"), folder(client, b"two")]

    def change(number):
        choose = random.Random(number)
        for step in range(60):
            name = b"%d-%d" % (number, step % 4)
            here, there = choose.sample(folders, 2)
            client.compound(*choose.choice([
                creating(client, here, name),
                [ops.putfh(here), ops.create(const.NF4DIR, name)],
                [ops.putfh(here), ops.remove(name)],
                [ops.putfh(here), ops.savefh(), ops.putfh(there), ops.rename(name, name)],
                [ops.putfh(here), ops.savefh(), ops.rename(name, name + b"-")]]))
            attributes(client, here)

    with ThreadPoolExecutor(12) as threads:
        list(threads.map(change, range(12)))
    cached = [attributes(client, handle) for handle in folders]
    for handle, told in zip(folders, cached):
        assert told[const.ATTR_SIZE] == listed(client, handle)
    client.close()
    system.mds.kill()
    system.restart_mds()
    again = system.connect(owner=b"after")
    assert [attributes(again, handle) for handle in folders] == cached
    again.close()


def listed(client, handle):
    """How many entries a folder has."""
    entries = []
    cookie, verifier = 0, bytes(8)
    while True:
        reply = client.compound(ops.putfh(handle), ops.readdir(cookie, verifier)).check().last
        entries += reply.entries
        if reply.eof or not reply.entries:
            return len(entries)
        cookie, verifier = reply.entries[-1].cookie, reply.verifier
