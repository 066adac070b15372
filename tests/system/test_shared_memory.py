"""Clients without pNFS, and data servers on the metadata server's machine: what it moves for them
goes through memory that it shares with them."""

import urllib.request

import pytest
from harness import config
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import MIB, snapshot, weft
from harness.in_namespace import InNamespace
from harness.run import wait_until

COPY = """
set -e
head -c {mib}M /dev/urandom > /tmp/in
weft-signal made-{name}
dd if=/tmp/in of=/mnt/nfs/{name} bs=1M conv=fsync status=none
weft-drop-caches
cmp /tmp/in /mnt/nfs/{name}
"""


def routes(cluster) -> dict[str, dict]:
    return {one["name"]: one for one in weft(cluster, "status")["data_servers"]}


def shared_bytes(cluster, server) -> dict[str, float]:
    """What the data server itself counted, by direction."""
    address = f"http://{server.node.address}:{config.METRICS_PORT}/metrics"

    def page() -> str:
        with urllib.request.urlopen(address, timeout=5) as reply:
            return reply.read().decode()
    found = {}
    for line in InNamespace(server.node, page).result().splitlines():
        if line.startswith("weft_ds_shared_memory_bytes_total{"):
            name, value = line.rsplit(" ", 1)
            found[name.split('"')[1]] = float(value)
    return found


def make(run, network, version="4.2", sides=("mds", "ds"), **options):
    cluster = Cluster(run, network, Options(data_servers=2, pnfs=False, shared_memory=sides,
                                            metrics=True, **options))
    if not cluster.counted:
        pytest.skip("Ganesha's VFS has no data servers")
    cluster.client = start_client(run, network)
    cluster.client.mount(cluster.address, cluster.path, f"vers={version}")
    return cluster


@pytest.mark.parametrize("version", ["4.0", "4.2"])
def test_copy(run, network, version):
    cluster = make(run, network, version)
    assert {one["proxy"] for one in routes(cluster).values()} <= {"none", "shared memory"}
    before = snapshot(cluster)
    cluster.client.run(COPY.format(mib=24, name="file"), 90)
    counts = snapshot(cluster).since(before)
    assert counts.mds_writes > 0 and counts.total_written >= 24 * MIB, counts
    known = routes(cluster)
    for server in cluster.ds:
        assert known[server.name]["proxy"] == "shared memory", known
        shared = shared_bytes(cluster, server)
        assert shared["in"] == counts.written[server.name], (shared, counts)
        assert shared["out"] >= counts.written[server.name], (shared, counts)
        assert known[server.name]["proxy_shared_memory_bytes"] == shared["in"] + shared["out"]
    cluster.client.unmount()


def test_two_copies(run, network):
    """The leader of each stripe gets it so, and brings it to the other copy."""
    cluster = make(run, network, extra={"Copies": "2"})
    wait_until(lambda: weft(cluster, "status")["grace_left_ms"] == 0, 30, "the end of grace", 0.2)
    before = snapshot(cluster)
    cluster.client.run(COPY.format(mib=16, name="both"), 90)
    counts = snapshot(cluster).since(before)
    assert counts.total_written >= 2 * 16 * MIB, counts
    shared = [shared_bytes(cluster, server) for server in cluster.ds]
    assert sum(one["in"] for one in shared) >= 16 * MIB, shared
    cluster.client.run("cmp /tmp/in /mnt/nfs/both")


@pytest.mark.parametrize("side", ["mds", "ds"])
def test_one_side_is_not_enough(run, network, side):
    cluster = make(run, network, sides=(side,))
    cluster.client.run(COPY.format(mib=8, name="file"), 60)
    known = routes(cluster)
    for server in cluster.ds:
        assert known[server.name]["proxy"] == "tcp", known
        assert shared_bytes(cluster, server) == {"in": 0, "out": 0}
        assert (server.store / "nfs.sock").exists() == (side == "ds")


@pytest.mark.faults
def test_a_data_server_is_killed_meanwhile(run, network):
    """Again and again while a file is written and read: no error, the bytes are right, and it is
    shared memory again."""
    cluster = make(run, network)
    client = cluster.client
    client.run(COPY.format(mib=4, name="warm"), 60)
    job = client.start_job("""
set -e
head -c 64M /dev/urandom > /tmp/large
weft-signal begun
for round in 1 2 3 4; do
  dd if=/tmp/large of=/mnt/nfs/large bs=1M conv=fsync status=none
  weft-drop-caches
  cmp /tmp/large /mnt/nfs/large
done
""")
    client.wait_event("begun")
    for kill in range(3):
        server = cluster.ds[kill % 2]
        before = routes(cluster)[server.name]["proxy_shared_memory_bytes"]
        wait_until(lambda: routes(cluster)[server.name]["proxy_shared_memory_bytes"]
                   > before + 8 * MIB, 60, "it to be used", 0.05)
        assert not job.done()
        server.process.kill()
        server.process.start()
    job.wait(180)

    def ways() -> set[str]:
        client.run(COPY.format(mib=8, name="after"), 60)
        return {one["proxy"] for one in routes(cluster).values()}
    # Who was not there in time was found by TCP first.
    wait_until(lambda: ways() == {"shared memory"}, 30, "shared memory again", 0.5)


def test_the_socket_is_found_later(run, network):
    """What was begun by TCP, because the socket could not be reached, goes over to shared memory
    under way."""
    cluster = make(run, network)
    server = cluster.ds[0]
    socket = server.store / "nfs.sock"
    elsewhere = server.store / "elsewhere.sock"
    socket.rename(elsewhere)
    cluster.client.run(COPY.format(mib=8, name="file"), 60)
    known = routes(cluster)
    assert known[server.name]["proxy"] == "tcp", known
    assert known[cluster.ds[1].name]["proxy"] == "shared memory", known
    elsewhere.rename(socket)

    def found() -> bool:
        cluster.client.run(COPY.format(mib=8, name="file"), 60)
        return routes(cluster)[server.name]["proxy"] == "shared memory"
    wait_until(found, 60, "shared memory", 0.5)
    cluster.client.run(COPY.format(mib=8, name="file"), 60)
    assert shared_bytes(cluster, server)["in"] > 0
