"""Firewalls that drop what comes: between two data servers, and before one of the metadata server's
addresses; and links that drop what is too large for them."""

import json
import subprocess

import pytest
from harness import paths, servers
from harness.cluster import Cluster, Options
from harness.config import CONTROL_PORT, NFS_PORT
from harness.run import sh, wait_until

pytestmark = [pytest.mark.any_store, pytest.mark.faults]


def between_data_servers(cluster, prefix) -> tuple[int, dict[str, list[str]]]:
    """The exit status of the doctor at the metadata server's machine, and what it says of paths
    between data servers, and of all that are narrow: by what it found and check, the texts."""
    done = subprocess.run(
        [*cluster.mds_node.enter_command(), str(paths.weft_command()), "--socket",
         str(cluster.admin_socket), "doctor", "--prefix", str(prefix), "-o", "json"],
        text=True, capture_output=True, timeout=60)
    found: dict[str, list[str]] = {}
    for row in json.loads(done.stdout):
        if row["is"].startswith("from ") or row["check"] == "MTU":
            found.setdefault(f"{row['found']} {row['check']}", []).append(row["is"])
            if row["found"] == "bad":
                expected = "one MTU" if row["check"] == "MTU" else f"TCP port {NFS_PORT} from"
                assert expected in row["to_do"]
    return done.returncode, {word: sorted(texts) for word, texts in found.items()}


ALL_GOOD = {"good port": [f"from ds{number} to other data servers" for number in (1, 2, 3)]}


@pytest.fixture
def cluster(run, network):
    return Cluster(run, network, Options(data_servers=3))


@pytest.fixture
def prefix(run, cluster):
    """Of a machine that has this metadata server; data servers listen."""
    folder = run.make_folder("prefix")
    (folder / "etc/weft").mkdir(parents=True)
    (folder / "etc/weft/ganesha.conf").symlink_to(cluster.folder / "ganesha.conf")
    wait_until(lambda: between_data_servers(cluster, folder)[1] == ALL_GOOD, 30,
               "data servers that listen", 0.5)
    return folder


def test_a_doctor_names_the_data_servers_that_do_not_reach_each_other(cluster, prefix):
    first, second, _ = cluster.ds
    first.node.drop_port_towards(second.node.address, NFS_PORT)
    status, found = between_data_servers(cluster, prefix)
    assert status == 1
    assert found["bad port"] == [f"from ds1 to ds2 {second.node.address}:{NFS_PORT}: no answer"]
    assert len(found["good port"]) == 2  # the other direction, too
    first.node.unlimit()
    assert between_data_servers(cluster, prefix)[1] == ALL_GOOD


def test_a_doctor_names_paths_that_swallow_large_packets(cluster, prefix):
    first, second, third = cluster.ds
    for node in (first.node, third.node, cluster.mds_node):
        node.send_single_packets()
    second.node.take_packets_of(1400)  # from anybody
    status, found = between_data_servers(cluster, prefix)
    assert status == 1
    assert found["bad MTU"] == [
        f"{way}ds2 {second.node.address}:{NFS_PORT}: segments of 1448 bytes do not get through"
        for way in ("", "from ds1 to ", "from ds3 to ")]
    assert found["good port"] == ["from ds2 to other data servers"]
    second.node.take_packets_of(1500)
    assert between_data_servers(cluster, prefix)[1] == ALL_GOOD


def test_a_doctor_names_data_servers_with_a_smaller_mtu(cluster, prefix):
    first, second, third = cluster.ds
    sh("ip", "-n", second.node.namespace, "link", "set", "e0", "mtu", "1492")
    status, found = between_data_servers(cluster, prefix)
    assert status == 1
    assert found["bad MTU"] == [
        f"{way}ds2 {second.node.address}:{NFS_PORT}: segments of 1440 bytes, and of 1448 here"
        for way in ("", "from ds1 to ", "from ds3 to ")]


def test_the_second_address_of_a_name_is_tried_where_the_first_does_not_answer(run, network):
    """The network of the first is down."""
    cluster = Cluster(run, network, Options(data_servers=1))
    [server] = cluster.ds
    hosts = run.make_folder("named") / "hosts"
    dead = server.node.address.rsplit(".", 1)[0] + ".10"  # like its own: it is sorted to the front
    hosts.write_text(f"127.0.0.1 localhost\n{dead} mds\n{cluster.address} mds\n")
    named = servers.with_hosts(hosts)
    first = subprocess.run([*server.node.enter_command(), *named, "getent", "ahosts", "mds"],
                           text=True, capture_output=True, check=True).stdout.split()[0]
    assert first == dead
    sh("ip", "-n", server.node.namespace, "neigh", "add", dead, "lladdr", "02:00:00:00:00:01",
       "dev", "e0")
    server.node.drop_port_towards(dead, CONTROL_PORT)
    server.process.stop()
    conf = run.folder / server.name / "weft-ds.toml"
    conf.write_text(conf.read_text().replace(f'mds = ["{cluster.address}', 'mds = ["mds'))
    server.process.command[:0] = named
    server.process.start()
    cluster.wait_up(20)
