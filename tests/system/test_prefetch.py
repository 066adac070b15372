"""Prefetch by the order of opens: what a client is expected to read is read before it comes."""

import pytest

from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.network import Network

FILES = 60
MAKE = f"""
import os, random
os.chdir("/mnt/nfs")
names = list(range({FILES}))
random.Random(1).shuffle(names)
for name in names:
    with open(f"f{{name}}", "wb") as file:
        file.write(b"%04d" % name * 8192)
"""
READ = """
import os
os.chdir("/mnt/nfs")
for name in sorted(os.listdir("."), {key}):
    with open(name, "rb") as file:
        assert file.read() == b"%04d" % int(name[1:]) * 8192, name
"""


def expected(cluster: Cluster) -> int:
    return sum(int(cluster.metrics(server).get("weft_ds_prefetch_reads_total", 0))
               for server in cluster.ds)


@pytest.mark.parametrize("layout", ["files", "flexfiles"])
@pytest.mark.parametrize("order", ["names", "numbers"])
def test_files_that_are_opened_in_an_order_are_read_ahead(run, layout, order):
    network = Network(run)
    cluster = Cluster(run, network, Options(
        data_servers=2, metrics=True, layout=layout, extra={"Inline": "0", "Copies": "2"},
        store_options='prefetch = "on"\n'))
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    client.python(MAKE)
    assert expected(cluster) == 0
    client.run("weft-drop-caches")
    client.python(READ.format(key="key=lambda name: int(name[1:])" if order == "numbers"
                              else "key=str"))
    # All but those that are opened before an order is seen in them.
    assert expected(cluster) >= FILES // 2


def test_nothing_is_read_ahead_if_it_is_off(run):
    network = Network(run)
    cluster = Cluster(run, network, Options(
        data_servers=2, metrics=True, extra={"Inline": "0"}, store_options='prefetch = "off"\n'))
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    client.python(MAKE)
    client.run("weft-drop-caches")
    client.python(READ.format(key="key=str"))
    for server in cluster.ds:
        assert "weft_ds_prefetch_reads_total" not in cluster.metrics(server)
