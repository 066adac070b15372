"""Servers asked to end do so, in time and with status 0, and lose nothing."""

from harness.client import start_client
from harness.cluster import Cluster, Options


def test_clean_shutdown_and_start(run, network):
    cluster = Cluster(run, network, Options(data_servers=2))
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    client.run("head -c 20M /dev/urandom > /tmp/in; cp /tmp/in /mnt/nfs/a; sync /mnt/nfs/a", 60)
    for server in cluster.ds:
        assert server.process.stop(grace_s=15) == 0, server.process.log_tail()
    cluster.mds.stop(grace_s=30)
    assert cluster.mds.status == 0, cluster.mds.log_tail()
    cluster.start()
    client.run("weft-drop-caches; cmp /tmp/in /mnt/nfs/a", 120)
