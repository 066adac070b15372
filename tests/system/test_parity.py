"""Data servers over parity groups: copies and verified writes while targets die, and what the disks
hold afterwards."""

import time

import pytest
from harness import parity
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import MIB, CountersUnavailable, through_data_servers, weft
from harness.guest import weftio
from harness.run import wait_until
from harness.stores import wait_store

pytestmark = pytest.mark.faults

# Verified writes for some seconds, beside copies of a file into ever new ones.
LOAD = """#!/bin/sh
set -e
cd /mnt/nfs
fio --name=v --filename=f --size=8M --bsrange=4k-512k --rw=randwrite --direct=1 --ioengine=psync \\
  --verify=crc32c --verify_fatal=1 --verify_state_save=0 --verify_backlog=16 --time_based \\
  --runtime={seconds} --minimal > /tmp/fio.log 2>&1 &
fio=$!
weft-signal running
n=0
while kill -0 $fio 2> /dev/null; do
  n=$((n + 1))
  cp known copy$((n % 3))
  cmp known copy$((n % 3))
done
wait $fio || {{ cat /tmp/fio.log; exit 1; }}
sync
"""
KNOWN = """
from weftio import *
with open("/mnt/nfs/known", "wb") as file:
    file.write(block("known", 4 * MIB))
"""


def start(run, network, kind: str, scrub: bool = False, **options):
    cluster = Cluster(run, network, Options(
        data_servers=2, store=kind, **options,
        store_options="parity_patience_seconds = 1\n" + (SCRUBBING if scrub else "")))
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    client.python(KNOWN)
    wait_store(cluster, "parity")
    return cluster, client


def check_disks(cluster, client) -> None:
    """Parity is right, and the file that is known is on the disks as it was written."""
    parity.wait_consistent(cluster)
    known = weftio.block("known", 4 * MIB)
    assert any(parity.content(cluster, name) == known for name in parity.names(cluster))
    client.run("weft-drop-caches; cd /mnt/nfs; for c in copy?; do cmp known $c; "
               "done", timeout_s=60)


def lose_one_under_load(run, network, kind: str, seconds: int) -> None:
    cluster, client = start(run, network, kind)
    with through_data_servers(cluster, written=8 * MIB):
        job = client.start_job(LOAD.format(seconds=seconds))
        client.wait_event("running", 30)
        time.sleep(2)
        cluster.targets[1].process.kill()
        wait_store(cluster, "parity, degraded")
        time.sleep(2)
        cluster.targets[1].process.start()
        wait_store(cluster, "parity")
        job.wait(seconds + 60)
    check_disks(cluster, client)
    client.unmount()


def test_a_target_killed_under_load(run, network):
    """No error at the client, and after the rebuild the disks are consistent."""
    lose_one_under_load(run, network, "parity3", 8)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["parity4", "parity3-tcp"])
def test_a_target_killed_under_load_elsewhere(run, network, kind):
    lose_one_under_load(run, network, kind, 30)


def replace_one_under_load(run, network, kind: str, seconds: int) -> None:
    """A target and its disk are gone; it comes back new and empty, and gets everything."""
    cluster, client = start(run, network, kind)
    job = client.start_job(LOAD.format(seconds=seconds))
    client.wait_event("running", 30)
    cluster.targets[0].lose()
    wait_store(cluster, "parity, degraded")
    cluster.targets[0].process.start()
    wait_store(cluster, "parity")
    job.wait(seconds + 60)
    check_disks(cluster, client)
    client.unmount()


@pytest.mark.parametrize("kind", ["parity2", "parity3"])
def test_a_target_lost_for_ever(run, network, kind):
    replace_one_under_load(run, network, kind, 5)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["parity4", "parity3-tcp"])
def test_a_target_lost_for_ever_elsewhere(run, network, kind):
    replace_one_under_load(run, network, kind, 30)


SCRUBBING = "parity_scrub_every_seconds = 1\n"


def known_objects(cluster) -> list[str]:
    known = weftio.block("known", 4 * MIB)
    return [name for name in parity.names(cluster) if parity.content(cluster, name) == known]


def damage(cluster, name: str) -> None:
    """Of data and parity at each member, and of checksums and a header at others."""
    count = parity.flip_bits(cluster, name, False, [70_000, 5_000, 140_000, 200_000])
    count += parity.flip_bits(cluster, name, True,
                              [4096 + 8 * 40, 12, 4096 + 8 * 3, 4096 + 8 * 50])
    assert count >= 6


CHECK_KNOWN = """
from weftio import *
with open("/mnt/nfs/known", "rb") as file:
    assert file.read() == block("known", 4 * MIB)
"""


def scrub_damage(run, network, kind: str) -> None:
    cluster, client = start(run, network, kind, scrub=True)
    client.unmount()
    parity.wait_consistent(cluster)
    name, = known_objects(cluster)
    damage(cluster, name)
    parity.wait_consistent(cluster)
    assert known_objects(cluster) == [name]
    client.mount(cluster.address, cluster.path)
    client.python(CHECK_KNOWN)
    client.unmount()


def test_scrub(run, network):
    """Bits flipped on the targets' disks are found without a client that reads, and mended."""
    scrub_damage(run, network, "parity3")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["parity4", "parity3-tcp"])
def test_scrub_elsewhere(run, network, kind):
    scrub_damage(run, network, kind)


def test_a_scrub_under_load(run, network):
    """Beside writes it mends what is wrong and nothing else, also when a target dies meanwhile."""
    cluster, client = start(run, network, "parity3", scrub=True)
    client.run("sync -f /mnt/nfs")
    parity.wait_consistent(cluster)
    name, = known_objects(cluster)
    job = client.start_job(LOAD.format(seconds=14))
    client.wait_event("running", 30)
    damage(cluster, name)
    time.sleep(4)
    cluster.targets[1].process.kill()
    wait_store(cluster, "parity, degraded")
    cluster.targets[1].process.start()
    job.wait(90)
    check_disks(cluster, client)
    client.unmount()


def scrub(cluster, *words) -> list[dict]:
    """What the groups' scrubs tell when they have ended."""
    def told() -> list[dict]:
        return weft(cluster, "scrub", "status")["groups"]
    weft(cluster, "scrub", "start", *words)
    # What is known of them is as old as a heartbeat.
    wait_until(lambda: all(not group["running"] and group["rounds"] and group["ended_s_ago"] <= 1
                           for group in told()), 60, "the scrub", 0.2)
    return told()


def test_a_scrub_when_told_to(run, network):
    """With --check it only tells; without, it mends; the next one finds nothing."""
    cluster, client = start(run, network, "parity3")
    client.unmount()
    parity.wait_consistent(cluster)
    name, = known_objects(cluster)
    damage(cluster, name)
    told = scrub(cluster, "--check")
    assert len(told) == 2 and any(group["wrong"] for group in told), told
    assert parity.wrong_on_disks(cluster)
    time.sleep(3)
    told = scrub(cluster)
    assert all(group["lost"] == 0 for group in told), told
    assert any(group["wrong"] for group in told), told
    assert not parity.wrong_on_disks(cluster)
    assert known_objects(cluster) == [name]
    time.sleep(3)
    assert all(group["wrong"] == 0 for group in scrub(cluster))
    asked = weft(cluster, "scrub", "stop")["groups"]
    assert [one["error"] for one in asked] == ["", ""], asked


# The same bytes again and again, so that what the file holds is known at any time.
AGAIN = """#!/bin/sh
cd /mnt/nfs
cp known /tmp/known
weft-signal writing
while [ ! -e /tmp/enough ]; do
  dd if=/tmp/known of=known bs=20k conv=notrunc oflag=direct 2> /dev/null || exit 1
done
"""


def test_a_target_is_given_up(run, network):
    """A data server dies together with a target, in the middle of writes, and its group is told to
    go on. What only that target had is made good from the other copy; the client sees nothing."""
    cluster, client = start(run, network, "parity3", stripe_count=1, domains=("a", "b"),
                            extra={"Copies": "2"})
    job = client.start_job(AGAIN)
    client.wait_event("writing", 30)
    time.sleep(2)
    server = cluster.ds[0]
    server.process.kill()
    cluster.targets[1].lose()
    server.process.start()

    def stores() -> dict[str, str]:
        return {one["name"]: one["store"] for one in weft(cluster, "status")["data_servers"]}
    wait_until(lambda: stores()[server.name].startswith("parity, waits for target 1: "), 60,
               "it to wait", 0.2)
    problems = weft(cluster, "status")["problems"]
    told = next(line for line in problems if "waits for target 1" in line)
    words = told.split("weft ")[1].split()
    assert words[:2] == ["ds", "give-up"], told
    with pytest.raises(CountersUnavailable, match="say --yes"):
        weft(cluster, *words)
    weft(cluster, *words, "--yes")
    wait_until(lambda: stores()[server.name].startswith("parity, degraded, "), 30, "it to go on",
               0.2)
    assert stores()[server.name].endswith(" blocks given up")
    assert any("has given up" in line for line in weft(cluster, "status")["problems"])
    cluster.targets[1].process.start()
    wait_until(lambda: all(not store.startswith(("parity, degraded", "parity, rebuild"))
                           for store in stores().values()), 60, "the rebuilds", 0.2)
    time.sleep(2)
    client.run("touch /tmp/enough")
    job.wait(60)
    client.unmount()
    # What nobody has written or read since is found by comparing the copies.
    weft(cluster, "scrub", "start")
    wait_until(lambda: not weft(cluster, "status")["scrub"]["running"], 60, "the scrub", 0.2)
    scrub(cluster)
    wait_store(cluster, "parity")
    parity.wait_consistent(cluster)
    client.mount(cluster.address, cluster.path)
    client.python(CHECK_KNOWN)
    client.unmount()
