"""Objects that no file needs are found while the system runs, and removed."""

import shutil
import time

import pytest
from harness import counters
from harness.client import start_client, start_clients
from harness.cluster import Cluster, Options
from harness.config import NFS_PORT
from harness.copies import files_of, objects_of
from harness.in_namespace import InNamespace
from harness.run import sh, wait_until
from wire import ops
from wire.rpc import ConnectionClosed

LATE = """#!/usr/bin/python3
import mmap, os, subprocess
block = mmap.mmap(-1, 1 << 20)
block.write(b"z" * (1 << 20))
fd = os.open("/mnt/nfs/d/f", os.O_CREAT | os.O_RDWR | os.O_DIRECT, 0o644)
for at in range(4):
    os.pwrite(fd, block, at << 20)
os.fsync(fd)
subprocess.run(["weft-signal", "written"], check=True)
subprocess.run(["weft-wait", "go"], check=True)
os.pwrite(fd, block, 0)
"""


def audit(cluster, *words):
    """Runs an audit to its end. Returns its status."""
    counters.weft(cluster, "audit", "start", *words)

    def ended():
        status = counters.weft(cluster, "audit", "status")["audit"]
        return status if status["rounds"] > 0 and not status["running"] else None
    return wait_until(ended, 60, "the audit to end", 0.2)


@pytest.fixture(name="cluster")
def made(run, network):
    cluster = Cluster(run, network, Options(data_servers=2, store="folder"))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    cluster.client = start_client(run, network)
    cluster.client.mount(cluster.address, cluster.path)
    cluster.client.run("mkdir -m 777 /mnt/nfs/d")
    return cluster


def test_strays_are_found_and_removed(cluster):
    """An object that is brought back after its file was removed is a stray; a file's is none."""
    client = cluster.client
    client.run("for n in $(seq 30); do head -c 100K /dev/urandom > /mnt/nfs/d/f$n; done; sync; "
               "cat /mnt/nfs/d/* | sha256sum > /tmp/before")
    store = cluster.ds[0].store
    kept = set(objects_of(store))
    client.run("head -c 4M /dev/urandom > /mnt/nfs/d/gone; sync")
    name, file = next((name, file) for name, file in objects_of(store).items() if name not in kept)
    aside = store.parent / "aside"
    shutil.copyfile(file, aside)
    client.run("rm /mnt/nfs/d/gone")
    wait_until(lambda: not file.exists(), 60, "the object to go", 0.2)
    status = audit(cluster, "--check")
    assert status["strays"] == 0, status

    aside.rename(file)
    status = audit(cluster, "--check")
    assert (status["strays"], status["removed"]) == (1, 0), status
    found = status["found"]
    assert len(found) == 1 and name in found[0]["object"] and found[0]["is"] == "left", found
    assert file.exists()
    problems = " ".join(counters.weft(cluster, "status")["problems"])
    assert "1 objects that no file needs" in problems, problems

    status = audit(cluster)
    assert (status["strays"], status["removed"]) == (1, 1), status
    wait_until(lambda: not file.exists(), 60, "the stray to go", 0.2)
    assert set(objects_of(store)) == kept
    client.run("weft-drop-caches; cat /mnt/nfs/d/* | sha256sum > /tmp/after; "
               "cmp /tmp/before /tmp/after", 120)
    assert audit(cluster)["strays"] == 0


def test_while_files_come_and_go(cluster):
    """Nothing that is in use, or is being removed, is taken for a stray."""
    client = cluster.client
    job = client.start_job("""
set -e
weft-signal busy
for round in $(seq 40); do
  for n in $(seq 20); do head -c 20K /dev/urandom > /mnt/nfs/d/g$n; done
  sync
  rm /mnt/nfs/d/g*
done
""")
    client.wait_event("busy")
    audits = 0
    while not job.done() and audits < 20:
        status = audit(cluster)
        assert (status["strays"], status["removed"], status["foreign"]) == (0, 0, 0), status
        audits += 1
    job.wait(240)
    assert audits > 0


def test_who_wrote_before_a_restart_does_not_bring_a_file_back(run, network):
    """A client holds a layout, and the metadata server that restarts never hears of it again."""
    cluster = Cluster(run, network, Options(data_servers=2, store="folder", lease_s=5, grace_s=6))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    late, other = start_clients(run, network, ["uml61", "uml61"])
    for client in (late, other):
        client.mount(cluster.address, cluster.path)
    other.run("mkdir -m 777 /mnt/nfs/d")
    job = late.start_job(LATE)
    late.wait_event("written")
    assert all(objects_of(server.store) for server in cluster.ds)
    cluster.mds.kill()
    # It hears the client, and is not heard.
    unheard = ["-n", cluster.mds_node.namespace, "route"], ["blackhole", f"{late.node.address}/32"]
    sh("ip", *unheard[0], "add", *unheard[1])
    cluster.restart_mds()
    other.run("rm -f /mnt/nfs/d/f", 60)
    wait_until(lambda: not any(objects_of(server.store) for server in cluster.ds), 60,
               "the objects to go", 0.2)
    late.signal("go")
    time.sleep(5)
    assert not job.done()
    assert not any(objects_of(server.store) for server in cluster.ds)
    assert sum(one["refused"] for one in counters.weft(cluster, "ds", "list")) > 0
    sh("ip", *unheard[0], "del", *unheard[1])
    job.wait(120, check=False)
    assert not any(objects_of(server.store) for server in cluster.ds)


def test_what_the_metadata_server_sent_before_a_restart_does_not_bring_a_file_back(run, network):
    """A WRITE of its own is on its way to a data server when it is killed, and arrives when the
    file has been removed."""
    cluster = Cluster(run, network, Options(data_servers=1, store="folder", pnfs=False, lease_s=5,
                                            grace_s=6))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    [server] = cluster.ds
    node = cluster.mds_node

    def client(owner):
        return cluster.connect(owner=owner)

    def not_acknowledged():
        """Bytes, of each connection to the data server."""
        found = sh("ss", "-N", node.namespace, "-Htan", f"dst {server.node.address}:{NFS_PORT}")
        return [int(line.split()[2]) for line in found.splitlines()]

    writer = client(b"writer")
    handle, stateid = writer.open("/export", b"file", create=True)
    writer.call(ops.putfh(handle), ops.write(stateid, 0, b"a" * 100_000))
    assert files_of(server.store)
    server.node.drop_port(NFS_PORT)
    late = InNamespace(node, lambda: writer.compound(
        ops.putfh(handle), ops.write(stateid, 0, b"b" * 1000)))
    wait_until(lambda: any(size > 1000 for size in not_acknowledged()), 20, "the WRITE's way", 0.1)
    cluster.mds.kill()
    cluster.restart_mds()
    with pytest.raises(ConnectionClosed):
        late.result()
    other = client(b"other")
    wait_until(lambda: other.compound(*other.at("/export"), ops.remove(b"file")).status == 0, 60,
               "the file's removal", 0.2)
    wait_until(lambda: not files_of(server.store), 60, "the object to go", 0.2)
    assert any(not_acknowledged())
    server.node.unlimit()
    wait_until(lambda: not any(not_acknowledged()), 120, "the WRITE's arrival", 0.2)
    # What it brought is answered in its turn; the connection ends behind it.
    wait_until(lambda: not not_acknowledged(), 120, "the connection's end", 0.2)
    wait_until(lambda: counters.weft(cluster, "ds", "list")[0]["refused"] > 0, 20, "refusal", 0.2)
    assert not files_of(server.store)
    other.close()
    writer.vanish()
