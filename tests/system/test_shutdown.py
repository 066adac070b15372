"""Servers asked to end do so, in time and with status 0, and lose nothing."""

import time

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


RENAMES = """#!/usr/bin/python3
import os, threading
folder = "/mnt/nfs/renamed"
os.makedirs(folder)
wrong = []

def rename(number):
    names = [f"{folder}/{number}-{name}" for name in "ab"]
    open(names[0], "w").close()
    try:
        while not os.path.exists("/tmp/enough"):
            os.rename(*names)
            names.reverse()
    except OSError as error:
        wrong.append(str(error))

threads = [threading.Thread(target=rename, args=(number,)) for number in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong, wrong
"""


def test_a_restart_in_order_is_no_error_at_clients(run, network):
    """What is carried out is answered: or a client asks again of the next server for a rename that
    was made, and hears that there is no such name."""
    cluster = Cluster(run, network, Options(data_servers=1))
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    job = client.start_job(RENAMES)
    for _ in range(4):
        time.sleep(2)
        assert not job.done(), job.output()
        cluster.mds.stop(grace_s=30)
        assert cluster.mds.status == 0, cluster.mds.log_tail()
        cluster.restart_mds()
    client.run("touch /tmp/enough")
    job.wait(120)
