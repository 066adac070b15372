"""Caches of data servers and of targets, by what each of them counted."""

import pytest
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import MIB, through_data_servers
from harness.run import wait_until
from harness.stores import wait_store

SIZE_MIB = 16
MAKE = f"""
set -e
head -c {SIZE_MIB}M /dev/urandom > /tmp/in
cp /tmp/in /mnt/nfs/hot
"""
READ = """
set -e
weft-drop-caches
cmp /tmp/in /mnt/nfs/hot
"""
# At both data servers: stripe units are of 1 MiB.
CHANGED = 200000
CHANGE = """
set -e
for at in 7 17; do
  head -c 100000 /dev/urandom | dd of=/tmp/in bs=100000 seek=$at conv=notrunc status=none
  dd if=/tmp/in of=/mnt/nfs/hot bs=100000 skip=$at seek=$at count=1 conv=notrunc status=none
done
"""


def target_reads(cluster) -> int:
    return int(sum(cluster.metrics(target)['weft_target_operations_total{op="read"}']
                   for target in cluster.targets if target.process.alive))


def counted(cluster, name: str) -> int:
    return int(sum(cluster.metrics(server)[f"weft_ds_cache_{name}"] for server in cluster.ds))


def start(run, network, kind: str, **options):
    patience = "parity_patience_seconds = 1\n" if kind.startswith("parity") else ""
    cluster = Cluster(run, network, Options(data_servers=2, store=kind, metrics=True,
                                            store_options=patience, **options))
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    return cluster, client


@pytest.mark.parametrize("kind", ["shm", "tcp", "parity3"])
def test_hot_data_comes_from_the_data_servers(run, network, kind):
    """What was read once is read again without a READ at a target, through a target's death too,
    and is as it was written, before and after."""
    cluster, client = start(run, network, kind, cache="64 MiB")
    client.run(MAKE, timeout_s=120)
    client.run(READ, timeout_s=120)
    reads = target_reads(cluster)
    assert reads > 0
    with through_data_servers(cluster, read=SIZE_MIB * MIB):
        client.run(READ, timeout_s=120)
    assert target_reads(cluster) == reads, "a READ of what the data servers have"
    assert counted(cluster, "hit_bytes_total") >= SIZE_MIB * MIB
    with through_data_servers(cluster, written=CHANGED, read=SIZE_MIB * MIB):
        client.run(CHANGE, timeout_s=60)
        client.run(READ, timeout_s=120)

    cluster.targets[0].process.kill()
    client.run(READ, timeout_s=120)
    if kind == "parity3":
        client.run(CHANGE, timeout_s=60)  # the group notices
        wait_store(cluster, "parity, degraded")
        client.run(READ, timeout_s=120)
    cluster.targets[0].process.start()
    if kind == "parity3":
        wait_store(cluster, "parity")
    else:
        def known() -> bool:
            client.run(READ, timeout_s=120)
            return counted(cluster, "lost_total") == 2
        wait_until(known, 30, "data servers to learn that unstable data may be lost", 0.2)
    with through_data_servers(cluster, written=CHANGED, read=2 * SIZE_MIB * MIB):
        client.run(READ, timeout_s=120)
        client.run(CHANGE, timeout_s=60)
        client.run(READ, timeout_s=120)
    client.unmount()


def test_both_tiers_have_caches(run, network):
    """A data server's is too small for the file; the target's, past the page cache, is not."""
    cluster, client = start(run, network, "shm", cache="2 MiB", target_cache="64 MiB")
    target = cluster.targets[0]
    client.run(MAKE, timeout_s=120)
    client.run(READ, timeout_s=120)
    before = cluster.metrics(target)
    with through_data_servers(cluster, read=SIZE_MIB * MIB):
        client.run(READ, timeout_s=120)
    after = cluster.metrics(target)
    assert after["weft_target_cache_misses_total"] == before["weft_target_cache_misses_total"]
    assert after["weft_target_cache_hits_total"] > before["weft_target_cache_hits_total"]
    for server in cluster.ds:
        now = cluster.metrics(server)
        assert now["weft_ds_cache_bytes"] <= now["weft_ds_cache_size_bytes"] < 2 * MIB
        assert now["weft_ds_cache_evicted_bytes_total"] > 0
    client.unmount()
