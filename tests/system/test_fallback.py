"""Clients that cannot or may not use pNFS: the metadata server moves their data itself."""

import time

import pytest
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import MIB, snapshot, weft

COPY = """
set -e
head -c {mib}M /dev/urandom > /tmp/in
cp /tmp/in {at}/{name}
weft-drop-caches
cmp /tmp/in {at}/{name}
"""


def copy_through_mds(cluster, client, at, name):
    """Everything passes the metadata server, and still ends up striped over the data servers."""
    before = snapshot(cluster)
    client.run(COPY.format(mib=12, at=at, name=name), 90)
    counts = snapshot(cluster).since(before)
    assert counts.mds_writes > 0 and counts.mds_reads > 0, counts
    assert counts.total_written >= 12 * MIB and counts.total_read >= 12 * MIB, counts
    assert all(count > 0 for count in counts.written.values()), counts


def client_with(cluster, minor_version):
    """What the metadata server counted for the client of this version that wrote most."""
    return max((one for one in weft(cluster, "clients")["clients"]
                if one["minor_version"] == minor_version),
               key=lambda one: one["mds_written_bytes"])


def test_v40_mount(cluster, client):
    """Version 4.0 knows no pNFS. The same file then reads through the data servers with 4.2."""
    client.mount(cluster.address, cluster.path, "vers=4.0", at="/mnt/v40")
    try:
        if cluster.counted:
            copy_through_mds(cluster, client, "/mnt/v40", "by-v40")
            served = client_with(cluster, 0)
            assert served["mds_written_bytes"] >= 12 * MIB <= served["mds_read_bytes"], served
        else:
            client.run(COPY.format(mib=12, at="/mnt/v40", name="by-v40"))
        client.run("cmp /tmp/in /mnt/nfs/by-v40 && echo more >> /mnt/nfs/by-v40")
        client.run("tail -c 5 /mnt/v40/by-v40 | grep -x more && rm /mnt/v40/by-v40")
    finally:
        client.unmount("/mnt/v40")


@pytest.mark.parametrize("version", ["4.1", "4.2"])
def test_export_without_pnfs(run, network, version):
    cluster = Cluster(run, network, Options(data_servers=2, pnfs=False))
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path, f"vers={version}")
    if cluster.counted:
        copy_through_mds(cluster, client, "/mnt/nfs", "file")
        assert client.pnfs_driver() == "not configured"
        served = client_with(cluster, int(version[-1]))
        assert served["mds_written_bytes"] >= 12 * MIB <= served["mds_read_bytes"], served
        assert served["mds_write_calls"] > 0 < served["mds_read_calls"], served
        # It renews its lease in time, however idle it is.
        time.sleep(2)
        assert client_with(cluster, int(version[-1]))["renewed_ms"] <= 10_000


def test_v41_mount_uses_pnfs(run, network):
    cluster = Cluster(run, network, Options(data_servers=2))
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path, "vers=4.1")
    if cluster.counted:
        before = snapshot(cluster)
        client.run(COPY.format(mib=8, at="/mnt/nfs", name="file"))
        counts = snapshot(cluster).since(before)
        assert counts.mds_writes + counts.mds_reads == 0, counts
        assert counts.total_written >= 8 * MIB, counts
