"""Data servers that the metadata server cannot reach: they stop serving by themselves."""

import re
import time

import pytest
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import snapshot, weft
from harness.run import wait_until

pytestmark = pytest.mark.faults

LEASE_S = 8
CLIENT_LEASE_S = 6  # a Linux client renews every 5 s at most, so it can't do with less

WRITE = """#!/usr/bin/python3
import os
from weftio import *
fd = os.open("/mnt/nfs/a", os.O_CREAT | os.O_RDWR)
os.write(fd, block(1, 4 * MIB))
os.fsync(fd)
os.system("weft-signal written; weft-wait go")
os.pwrite(fd, block(2, 4 * MIB), 0)
os.fsync(fd)
os.system("weft-signal again")
os.close(fd)
drop_caches()
check("/mnt/nfs/a", block(2, 4 * MIB))
"""


def part(cluster, server) -> None:
    server.node.drop_to(cluster.address)


def join(cluster, server) -> None:
    server.node.reach_again(cluster.address)


@pytest.fixture
def cluster(run, network):
    made = Cluster(run, network, Options(data_servers=2, lease_s=10, grace_s=10,
                                         extra={"Data_Server_Lease": str(LEASE_S)}))
    if not made.counted:
        pytest.skip("needs a Weft")
    return made


def test_a_data_server_out_of_touch_refuses_until_it_is_back(cluster, run, network):
    """The client waits for it, and does not go to the metadata server instead."""
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    job = client.start_job(WRITE)
    client.wait_event("written")
    part(cluster, cluster.ds[0])
    time.sleep(LEASE_S + 4)
    client.signal("go")
    time.sleep(6)
    assert not (client.from_guest / "event-again").exists(), "it served a client after its lease"
    assert not job.done()
    join(cluster, cluster.ds[0])
    job.wait(120)
    assert snapshot(cluster).mds_writes == 0


def test_the_metadata_server_may_be_away_for_less_than_a_lease(cluster, run, network):
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    job = client.start_job(WRITE)
    client.wait_event("written")
    cluster.mds.pause()
    time.sleep(LEASE_S / 2)
    before = time.monotonic()
    client.signal("go")
    time.sleep(1)
    cluster.mds.resume()
    client.wait_event("again")
    assert time.monotonic() - before < 10, "a data server refused within its lease"
    job.wait(120)


def test_a_data_server_says_why_it_has_no_metadata_server_when_that_changes(cluster, run):
    """It tries every second, and says each reason once, until it is accepted again."""
    def away() -> list[str]:
        return re.findall(r'event=mds_away error="(.*)"', (run.folder / "ds1.log").read_text())
    cluster.mds.kill()
    wait_until(lambda: "refused" in " ".join(away()), 20, "a refused connection", 0.2)
    refused = away()
    time.sleep(4)
    assert away() == refused
    part(cluster, cluster.ds[0])
    wait_until(lambda: len(away()) > len(refused), 20, "another reason", 0.2)
    assert away()[-1] != refused[-1]
    join(cluster, cluster.ds[0])
    cluster.restart_mds()
    cluster.wait_up()
    before = len(away())
    cluster.mds.kill()
    wait_until(lambda: len(away()) > before, 20, "the reason after it was accepted", 0.2)
    print(away())


def test_a_fenced_data_server_that_stays_away_does_not_block_the_file(cluster, run, network):
    writer, other = start_client(run, network), start_client(run, network)
    for client in (writer, other):
        client.mount(cluster.address, cluster.path)
    job = writer.start_job(WRITE)
    writer.wait_event("written")
    assert not job.done()
    part(cluster, cluster.ds[0])
    writer.kill()
    time.sleep(11)  # its lease ends, and it is to be fenced
    begin = time.monotonic()
    other.run("exec 3<> /mnt/nfs/a; stat -c %s /mnt/nfs/a | grep -x 4194304", 60)
    print(f"open again after {time.monotonic() - begin:.1f} s")
    log = (run.folder / "ganesha.log").read_text()
    assert "fenced_by_lease" in log
    join(cluster, cluster.ds[0])
    other.run("#!/usr/bin/python3\nfrom weftio import *\ncheck('/mnt/nfs/a', block(1, 4 * MIB))",
              90)
    states = [server["state"] for server in weft(cluster, "ds", "list")]
    assert states == ["up", "up"], states


def test_a_lease_that_ended_for_a_moment_costs_what_it_lasts(cluster, run, network):
    """The data servers let requests wait: Linux would sleep for 15 s if it was told to."""
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    took = rewrite_without(cluster, client, cluster.mds.pause, cluster.mds.resume, LEASE_S + 4)
    print(f"waited {took:.1f} s, of which the metadata server was away for 1 s")
    assert 1 <= took < 6, took


@pytest.fixture
def short(run, network):
    """Clients' leases are short, those of data servers are not."""
    made = Cluster(run, network, Options(data_servers=2, lease_s=CLIENT_LEASE_S, grace_s=10))
    if not made.counted:
        pytest.skip("needs a Weft")
    return made


def rewrite_without(cluster, client, begin, end, seconds) -> float:
    """Rewrites a file while the metadata server is away. Returns how long that took."""
    job = client.start_job(WRITE)
    client.wait_event("written")
    begin()
    time.sleep(seconds - 1)
    before = time.monotonic()
    client.signal("go")  # its LAYOUTCOMMIT finds nobody
    time.sleep(1)
    end()
    client.wait_event("again")
    took = time.monotonic() - before
    job.wait(120)
    assert snapshot(cluster).mds_writes == 0
    return took


def test_clients_keep_their_leases_while_the_metadata_server_is_stopped(short, run, network):
    client = start_client(run, network)
    client.mount(short.address, short.path)
    took = rewrite_without(short, client, short.mds.pause, short.mds.resume, CLIENT_LEASE_S + 3)
    assert took < 5, took
    assert "revoked" not in (run.folder / "ganesha.log").read_text()


def test_a_lease_lost_in_the_middle_of_fsync_is_no_error(short, run, network):
    """What is on its way when the lease ends is sent again in a new session. Layouts and the open
    of before are gone."""
    client = start_client(run, network)
    client.mount(short.address, short.path)
    node = short.mds_node
    took = rewrite_without(short, client, node.cut, node.restore, CLIENT_LEASE_S + 6)
    print(f"fsync took {took:.1f} s")
    assert "revoked" in (run.folder / "ganesha.log").read_text()


# A hundred files with two copies, all open for writing, and written again later.
WRITE_MANY = """#!/usr/bin/python3
import os
from weftio import *
files = [os.open(f"/mnt/nfs/{n}", os.O_CREAT | os.O_RDWR) for n in range(100)]
for n, fd in enumerate(files):
    os.pwrite(fd, block(n, 65536), 0)
    os.fsync(fd)
os.system("weft-signal written; weft-wait go")
for n, fd in enumerate(files):
    os.pwrite(fd, block(n + 1, 65536), 0)
    os.fsync(fd)
"""


@pytest.mark.parametrize("stopped_s", [
    7,  # data servers count as gone after 5 s of silence
    15])  # they close their connections after 10
def test_no_copy_is_left_out_because_the_metadata_server_was_stopped(run, network, stopped_s):
    cluster = Cluster(run, network, Options(data_servers=4, domains=("a", "b"),
                                            extra={"Copies": "2", "Recall_Timeout": "5"}))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    job = client.start_job(WRITE_MANY)
    client.wait_event("written")
    cluster.mds.pause()
    time.sleep(stopped_s)
    cluster.mds.resume()
    cluster.wait_up()
    client.signal("go")
    job.wait(120)
    log = (run.folder / "ganesha.log").read_text()
    for event in ("data_server_gone", "copy_left_out", "copy_stale", "layout_revoked"):
        assert f"event={event} " not in log, event
    assert weft(cluster, "status")["stale_objects"] == 0
