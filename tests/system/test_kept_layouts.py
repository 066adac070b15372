"""A client that goes through many small files keeps its sessions with the data servers, and what it
keeps for that is in nobody's way (ganesha-fsal/files/kept_layouts.h)."""

import json
import time

import pytest
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import weft
from harness.run import wait_until

FILES = 200

# Calls of the whole machine, to the metadata server and to data servers: the kernel counts those of
# all NFSv4 clients in one table, which has them in the order of enum nfs4_procedures.
CALLS = """
names = {"exchange_id": 38, "create_session": 39, "getdeviceinfo": 45}
def calls():
    with open("/proc/net/rpc/nfs") as file:
        row = next(line for line in file if line.startswith("proc4")).split()[2:]
    return {name: int(row[at]) for name, at in names.items()}
"""

SMALL_FILES = "#!/usr/bin/python3" + CALLS + """
import json, os, time
from weftio import *
def go_through(what):
    before, begin = calls(), time.monotonic()
    for n in range(%(files)d):
        what("/mnt/nfs/small/%%d" %% n, block(n, 9000))
    spent = time.monotonic() - begin
    after = calls()
    return {**{name: after[name] - before[name] for name in names}, "ms": spent * 1000 / %(files)d}
def write(path, data):
    with open(path, "wb") as file:
        file.write(data)
os.mkdir("/mnt/nfs/small")
write("/mnt/nfs/first", b"the server gets to know the client by it")
time.sleep(2)
written = go_through(write)
drop_caches()
read = go_through(check)
print(json.dumps({"written": written, "read": read}))
"""


def small_files(client, files=FILES, timeout_s=300):
    output = client.run(SMALL_FILES % {"files": files}, timeout_s).output
    print(output)
    return json.loads(output.splitlines()[-1])


def make(run, network, kind="uml61", **options):
    extra = {"Inline": "0", **options.pop("extra", {})}  # what is kept is layouts of small files
    cluster = Cluster(run, network, Options(extra=extra, **options))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    client = start_client(run, network, kind)
    client.mount(cluster.address, cluster.path)
    cluster.client = client
    return cluster


def keep_something(cluster):
    """A file of 9000 bytes that the client has closed, and whose layout it keeps."""
    cluster.client.run("echo 1 > /mnt/nfs/first; sleep 2; mkdir -p /mnt/nfs/d; "
                       "head -c 9000 /dev/urandom > /mnt/nfs/d/kept; "
                       "sha256sum /mnt/nfs/d/kept > /tmp/sum")
    assert layouts_out(cluster) == 1


def layouts_out(cluster):
    return weft(cluster, "status")["layouts_out"]


@pytest.mark.parametrize(("layout", "kind"), [
    ("files", "uml61"), ("flexfiles", "uml61"), ("files", "uml612")])
def test_sessions_outlive_small_files(run, network, layout, kind):
    """Without a kept layout there is a new session, and a GETDEVICEINFO, for each file."""
    found = small_files(make(run, network, kind, layout=layout).client)
    if layout == "flexfiles":
        assert found.pop("written")["create_session"] >= FILES  # those for writing are not kept
    # Some are made once more, which no clock bounds: a session may end just as the next file
    # begins, and what is kept comes back after a minute.
    few = FILES // 4
    for phase in found.values():
        assert phase["create_session"] <= few, found
        assert phase["exchange_id"] <= 2 * few, found
        # A file of the flexfiles type is at one data server, and each is a device of its own.
        assert phase["getdeviceinfo"] <= few, found


def test_nothing_is_kept_if_so_configured(run, network):
    found = small_files(make(run, network, extra={"Kept_Layouts": "0"}).client, files=20)
    assert found["written"]["create_session"] >= 20, found


def test_another_client_changes_a_file_that_is_kept(run, network):
    cluster = make(run, network)
    keep_something(cluster)
    second = start_client(run, network)
    second.mount(cluster.address, cluster.path)
    expected = cluster.client.run("cat /tmp/sum").output
    begin = time.monotonic()
    assert second.run("stat -c %s /mnt/nfs/d/kept; sha256sum /mnt/nfs/d/kept").output == \
        "9000\n" + expected
    second.run("cd /mnt/nfs/d; echo more >> kept; sync kept; truncate -s 9001 kept", 30)
    assert time.monotonic() - begin < 10
    cluster.client.run("cd /mnt/nfs/d; [ $(wc -c < kept) = 9001 ] && head -c 9000 kept > /tmp/old "
                       "&& [ $(sha256sum < /tmp/old | cut -c1-64) = $(cut -c1-64 /tmp/sum) ]", 30)
    cluster.client.run("rm -r /mnt/nfs/d", 10)
    cluster.client.unmount(timeout_s=10)
    second.unmount(timeout_s=10)
    wait_until(lambda: layouts_out(cluster) == 0, 5, "all layouts to be back")


def objects(cluster):
    return sum(server["objects"] for server in weft(cluster, "ds", "list"))


def test_a_file_that_is_kept_and_removed_leaves_nothing(run, network):
    cluster = make(run, network)
    keep_something(cluster)
    second = start_client(run, network)
    second.mount(cluster.address, cluster.path)
    second.run("rm -r /mnt/nfs/d /mnt/nfs/first", 15)
    wait_until(lambda: layouts_out(cluster) == 0, 5, "the layout to be back")
    wait_until(lambda: objects(cluster) == 0, 30, "the objects to go")
    cluster.client.run("echo 2 > /mnt/nfs/second; cat /mnt/nfs/second", 15)


@pytest.mark.faults
@pytest.mark.parametrize("layout", ["files", "flexfiles"])
def test_removing_and_unmounting_beside_a_dead_server(run, network, layout):
    """The client that keeps a layout which names a dead server is asked for it in time."""
    cluster = make(run, network, data_servers=2, layout=layout)
    client = cluster.client
    client.run("echo 1 > /mnt/nfs/first; sleep 2; mkdir /mnt/nfs/d; cd /mnt/nfs/d; "
               "for n in 1 2 3 4 5 6 7 8; do head -c 2000000 /dev/urandom > $n; done; "
               "weft-drop-caches; cat * > /dev/null", 60)
    assert layouts_out(cluster) >= 1
    cluster.ds[0].process.kill()
    others = 1 if layout == "flexfiles" else 0  # each file of these is at one data server
    wait_until(lambda: layouts_out(cluster) <= others, 5, "what names the dead one to be back")
    client.run("rm -r /mnt/nfs/d", 15)
    client.unmount(timeout_s=10)
    client.mount(cluster.address, cluster.path)
    client.unmount(timeout_s=15)


@pytest.mark.faults
def test_draining_while_a_layout_is_kept(run, network):
    cluster = make(run, network, data_servers=3, stripe_count=2)
    keep_something(cluster)
    shown = weft(cluster, "layout", "show", "/export/d/kept")
    name = shown["stripes"][0]["ds_name"]
    weft(cluster, "ds", "drain", name)

    def left():
        return next(server for server in weft(cluster, "ds", "list")
                    if server["name"] == name)["objects_left"]
    wait_until(lambda: left() == 0, 90, f"{name} to be empty", 0.5)
    cluster.client.run("sha256sum -c /tmp/sum; weft-drop-caches; "
                       "sha256sum -c /tmp/sum", 30)
    weft(cluster, "ds", "remove", name, "--yes")


@pytest.mark.faults
def test_the_metadata_server_restarts_while_a_layout_is_kept(run, network):
    cluster = make(run, network)
    keep_something(cluster)
    cluster.mds.kill()
    cluster.restart_mds()
    cluster.client.run("sha256sum -c /tmp/sum; echo x >> /mnt/nfs/d/kept; sync /mnt/nfs/d/kept; "
                       "[ $(wc -c < /mnt/nfs/d/kept) = 9002 ]", 60)
    cluster.client.run("rm -r /mnt/nfs/d", 15)
    cluster.client.unmount(timeout_s=15)


@pytest.mark.long
def test_what_is_kept_for_long_comes_back(run, network):
    cluster = make(run, network)
    keep_something(cluster)
    time.sleep(55)
    assert layouts_out(cluster) == 1
    wait_until(lambda: layouts_out(cluster) == 0, 20, "the layout to be back")
    cluster.client.run("sha256sum -c /tmp/sum", 10)
