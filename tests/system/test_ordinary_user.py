"""Servers need nothing of what root may: they run as an ordinary user without capabilities, as the
units in dist/ have them (those of data servers leave one, for more memory in pipes). Nor do data
servers and targets need io_uring, which containers forbid."""

import signal
import sys
from pathlib import Path

import pytest
from harness import paths
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import through_data_servers
from harness.run import wait_until

USER = "daemon"

COPY = """set -e
head -c 20000000 /dev/urandom > /tmp/in
cp /tmp/in /mnt/nfs/out && sync /mnt/nfs/out && weft-drop-caches && cmp /tmp/in /mnt/nfs/out
"""


def rights_of(process) -> dict[str, str]:
    """User and capabilities of a running server, as the kernel has them."""
    rows = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return {name: value.split()[0] for name, value in (row.split(":\t") for row in rows
                                                      if row.startswith(("Uid", "Gid", "Cap")))}


@pytest.mark.parametrize("store", ["folder", "shm", "parity3-tcp"])
def test_servers_of_an_ordinary_user(run, network, store):
    cluster = Cluster(run, network, Options(
        user=USER, store=store, squashed=True, shared_memory=("mds", "ds"), metrics=True,
        extra={"Copies": "2"} if store == "folder" else {}))
    servers = [cluster.mds, *(server.process for server in cluster.ds + cluster.targets)]
    for process in servers:
        rights = rights_of(process)
        assert rights["Uid"] != "0" and rights["Gid"] != "0"
        assert int(rights["CapEff"], 16) == int(rights["CapBnd"], 16) == 0
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    with through_data_servers(cluster):
        client.run(COPY, 120)
    # Whose files are is a matter of the namespace, not of who the servers run as.
    client.run("touch /mnt/nfs/mine && chown 7:8 /mnt/nfs/mine && mknod /mnt/nfs/fifo p && "
               "chown 9 /mnt/nfs/fifo && [ $(stat -c %u:%g /mnt/nfs/mine) = 7:8 ]", root=True)
    # They start again over what they have made, and end in order.
    for process in servers:
        process.stop(30)
        assert process.status == 0, process.log_tail()
    cluster.start()
    client.run("weft-drop-caches; cmp /tmp/in /mnt/nfs/out && rm /mnt/nfs/out", 120)


def test_a_store_of_another_user_is_refused_with_its_name(run, network):
    """An installation that used to run as root: the message says which folder."""
    cluster = Cluster(run, network, Options(data_servers=1))
    server = cluster.ds[0]
    assert server.process.stop(30) == 0
    server.process.user = USER
    server.process.start()
    wait_until(lambda: not server.process.alive, 20, "the data server to end")
    assert server.process.status not in (0, -signal.SIGABRT)
    last = server.process.log_tail(3)
    assert str(server.store.parent) in last and "ermission denied" in last


@pytest.mark.parametrize("store", ["folder", "shm"])
def test_without_io_uring(run, network, store):
    cluster = Cluster(run, network, Options(data_servers=2, user=USER, store=store,
                                            store_options='mode = "direct"'))
    forbidden = [server.process for server in cluster.ds + cluster.targets]
    for process in forbidden:
        assert process.stop(30) == 0
        process.command = [sys.executable, str(paths.HARNESS / "without_io_uring.py"),
                           *process.command]
    cluster.mds.stop()
    cluster.start()
    for process in forbidden:
        assert process.log.read_text().count("event=no_io_uring") == 1
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    with through_data_servers(cluster):
        client.run(COPY, 120)
