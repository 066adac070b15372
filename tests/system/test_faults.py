"""Servers that are killed, frozen, dead or cut off while a client copies."""

import time

import pytest
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import snapshot, weft
from harness.run import wait_until

pytestmark = pytest.mark.faults

COPY = """
set -e
head -c {mib}M /dev/urandom > /tmp/in
weft-signal made-{name}
dd if=/tmp/in of=/mnt/nfs/{name} bs=1M conv=fsync status=none
weft-signal written-{name}
weft-drop-caches
sha256sum < /tmp/in > /tmp/sum
weft-signal reading-{name}
sha256sum < /mnt/nfs/{name} | cmp - /tmp/sum
"""


@pytest.fixture
def faulty(run, network):
    """A Weft of this test alone and a client that has it mounted. The link to each data server is
    slow enough that a copy is still under way when something breaks."""
    cluster = Cluster(run, network)
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    cluster.client = client
    for server in cluster.ds:
        server.node.limit("200mbit")
    return cluster


def broken_copy(cluster, name, when, fault, mib=160, timeout_s=180):
    """Copies, calls fault() a little after the event 'when', and expects the copy to end well."""
    job = cluster.client.start_job(COPY.format(mib=mib, name=name))
    cluster.client.wait_event(f"{when}-{name}")
    time.sleep(0.6)
    assert not job.done()
    fault()
    job.wait(timeout_s)


@pytest.mark.parametrize("when", ["made", pytest.param("reading", marks=pytest.mark.long)])
def test_metadata_server_killed(faulty, when):
    def fault():
        faulty.mds.kill()
        time.sleep(1)
        faulty.restart_mds()
    broken_copy(faulty, "mds", when, fault)
    client = faulty.client
    client.run("echo after > /mnt/nfs/after && grep -x after /mnt/nfs/after", 60)


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_unlinked_file_that_is_open_survives_the_metadata_server(faulty, end):
    """The server promises it at OPEN (RFC 8881 section 18.16.3, PRESERVE_UNLINKED), and the client
    leaves no .nfs file. After the last close nothing is left of it, at the data servers either."""
    client = faulty.client
    job = client.start_job("""#!/usr/bin/python3
import os, subprocess
from weftio import *
os.mkdir("/mnt/nfs/dir")
os.chdir("/mnt/nfs/dir")
fd = os.open("a", os.O_CREAT | os.O_RDWR)
os.pwrite(fd, block(1, 3 * MIB), 0)
os.fsync(fd)
os.unlink("a")
same("names", os.listdir("."), [])
subprocess.run(["weft-signal", "unlinked"], check=True)
subprocess.run(["weft-wait", "restarted"], check=True)
same("links", os.fstat(fd).st_nlink, 0)
os.pwrite(fd, block(2, MIB), 3 * MIB)
os.fsync(fd)
drop_caches()
same("data", os.pread(fd, 5 * MIB, 0) == block(1, 3 * MIB) + block(2, MIB), True)
subprocess.run(["weft-signal", "used"], check=True)
subprocess.run(["weft-wait", "close"], check=True)
os.close(fd)
os.rmdir("/mnt/nfs/dir")
""")

    def objects():
        return sum(server["objects"] for server in weft(faulty, "ds", "list"))

    client.wait_event("unlinked")
    getattr(faulty.mds, end)()
    faulty.restart_mds()
    client.signal("restarted")
    client.wait_event("used", 120)
    time.sleep(faulty.options.grace_s + faulty.options.lease_s)  # orphans nobody has open go then
    assert objects() == 4
    client.signal("close")
    job.wait(60)
    wait_until(lambda: objects() == 0, 30, "the objects of a closed, unlinked file to go")


def test_metrics_of_the_metadata_server(run, network):
    cluster = Cluster(run, network, Options(
        data_servers=2, extra={"Metrics_Address": '"10.77.0.1:9632"'}))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    client.run("head -c 4M /dev/zero > /mnt/nfs/a; sync")

    def scrape():
        text = client.run("""python3 -c 'import urllib.request as r
print(r.urlopen("http://10.77.0.1:9632/metrics").read().decode())'""").output
        return dict(line.rsplit(" ", 1) for line in text.splitlines() if line[:1] == "w")

    found = scrape()
    assert found['weft_mds_data_servers{state="up"}'] == "2", found
    assert found["weft_mds_clients"] == "1" and found["weft_mds_store_failed"] == "0", found
    assert int(found["weft_mds_layouts_granted_total"]) >= 1, found
    assert found['weft_mds_operations_total{op="write"}'] == "0", found
    cluster.ds[0].process.kill()
    wait_until(lambda: scrape()['weft_mds_data_servers{state="suspect"}'] == "1", 20,
               "a data server suspect", 0.5)


def test_status_tells_grace_clients_and_who_holds_layouts(faulty):
    client = faulty.client
    job = client.start_job("exec 3<> /mnt/nfs/held; head -c 4M /dev/zero >&3; sync /mnt/nfs/held\n"
                           "weft-signal holding; weft-wait enough")
    client.wait_event("holding")
    status = weft(faulty, "status")
    assert (status["clients"], status["grace_left_ms"]) == (1, 0)
    file = weft(faulty, "layout", "show", "/export/held")
    assert len(bytes.fromhex(file["device_id"])) == 16
    (holder,) = file["grants"]
    assert holder["write"] and 0 <= holder["age_ms"] < 60_000
    assert client.node.address in holder["client"] and "Linux NFS" in holder["client"]
    faulty.mds.kill()
    faulty.restart_mds()
    assert 0 < weft(faulty, "status")["grace_left_ms"] <= 12_000
    wait_until(lambda: weft(faulty, "status")["grace_left_ms"] == 0, 30, "the end of grace", 0.2)
    assert weft(faulty, "status")["clients"] == 1
    assert weft(faulty, "layout", "show", "/export/held")["device_id"] == file["device_id"]
    client.signal("enough")
    job.wait(60)


@pytest.mark.parametrize("when", ["made", pytest.param("reading", marks=pytest.mark.long)])
def test_data_server_killed(faulty, when):
    def fault():
        faulty.ds[1].process.kill()
        time.sleep(1)
        faulty.ds[1].process.start()
    broken_copy(faulty, "ds", when, fault)


def test_data_server_stopped_for_20_s(faulty):
    def fault():
        faulty.ds[2].process.pause()
        time.sleep(20)
        faulty.ds[2].process.resume()
    broken_copy(faulty, "frozen", "made", fault, timeout_s=240)


def test_data_server_cut_off_for_5_s(faulty):
    def fault():
        faulty.ds[0].node.cut()
        time.sleep(5)
        faulty.ds[0].node.restore()
    broken_copy(faulty, "cut", "made", fault, timeout_s=240)


def test_everything_killed_after_fsync_loses_nothing(faulty):
    """What fsync acknowledged is there after every server was killed."""
    client = faulty.client
    client.run("head -c 48M /dev/urandom > /tmp/in; sha256sum < /tmp/in > /tmp/sum\n"
               "dd if=/tmp/in of=/mnt/nfs/a bs=1M conv=fsync status=none", 60)
    for process in (faulty.mds, *(server.process for server in faulty.ds)):
        process.kill()
    for server in faulty.ds:
        server.process.start()
    faulty.restart_mds()
    client.run("weft-drop-caches; sha256sum < /mnt/nfs/a | cmp - /tmp/sum", 120)


def test_data_server_that_stays_dead(run, network):
    """Files that need it fail or wait, and 'weft status' names it; files that don't, go on."""
    cluster = Cluster(run, network, Options(data_servers=4, stripe_count=1))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    client.run("for i in 1 2 3 4 5 6 7 8; do head -c 300000 /dev/urandom > /mnt/nfs/f$i; done\n"
               "cd /mnt/nfs && sha256sum f? > /tmp/sums")
    homes = {f"f{n}": weft(cluster, "layout", "show", f"/export/f{n}")["stripes"][0]["ds_name"]
             for n in range(1, 9)}
    dead = cluster.ds[0]
    lost = [name for name, home in homes.items() if home == dead.name]
    assert lost and len(lost) < 8, homes
    dead.process.kill()
    client.drop_caches()
    alive = " ".join(name for name in homes if name not in lost)
    bad = client.start_job(f"cat /mnt/nfs/{lost[0]} > /tmp/bad")
    client.run(f"cd /mnt/nfs; for f in {alive}; do grep \" $f$\" /tmp/sums | sha256sum -c; done",
               60)
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        servers = {server["name"]: server for server in weft(cluster, "ds", "list")}
        if servers[dead.name]["state"] != "up":
            break
        time.sleep(0.5)
    assert servers[dead.name]["state"] != "up", servers
    assert dead.name in str(weft(cluster, "status"))
    if bad.done():
        assert bad.wait(1, check=False).status != 0, "a lost stripe was read as if it were there"
    dead.process.start()
    client.run("cd /mnt/nfs && sha256sum -c /tmp/sums", 200)


def test_client_that_vanishes_leaves_no_layout_behind(run, network):
    """A client dies with a layout; after its lease another one reads and writes the file."""
    cluster = Cluster(run, network)
    first, second = start_client(run, network), start_client(run, network)
    for client in (first, second):
        client.mount(cluster.address, cluster.path)
    job = first.start_job("exec 3> /mnt/nfs/a; head -c 4M /dev/zero >&3; sync /mnt/nfs/a\n"
                          "weft-signal synced; sleep 1000")
    first.wait_event("synced")
    assert not job.done()
    first.kill()
    second.run("truncate -s 1M /mnt/nfs/a && [ $(stat -c %s /mnt/nfs/a) = 1048576 ]", 90)
    second.run("echo x >> /mnt/nfs/a && sync /mnt/nfs/a", 60)
    if cluster.counted:
        assert snapshot(cluster).mds_writes == 0
