"""Firewalls that drop what comes: between two data servers, and before one of the metadata server's
addresses."""

import json
import subprocess

import pytest
from harness import paths, servers
from harness.cluster import Cluster, Options
from harness.config import CONTROL_PORT, NFS_PORT
from harness.run import sh, wait_until

pytestmark = [pytest.mark.any_store, pytest.mark.faults]


def ports(cluster, prefix) -> tuple[int, dict[str, list[str]]]:
    """The exit status of the doctor at the metadata server's machine, and what it says of paths
    between data servers: by what it found, the texts."""
    done = subprocess.run(
        [*cluster.mds_node.enter_command(), str(paths.weft_command()), "--socket",
         str(cluster.admin_socket), "doctor", "--prefix", str(prefix), "-o", "json"],
        text=True, capture_output=True, timeout=60)
    found: dict[str, list[str]] = {}
    for row in json.loads(done.stdout):
        if row["check"] == "port" and row["is"].startswith("from "):
            found.setdefault(row["found"], []).append(row["is"])
            assert row["found"] != "bad" or f"TCP port {NFS_PORT} from" in row["to_do"]
    return done.returncode, {word: sorted(texts) for word, texts in found.items()}


def test_a_doctor_names_the_data_servers_that_do_not_reach_each_other(run, network):
    cluster = Cluster(run, network, Options(data_servers=3))
    prefix = run.make_folder("prefix")
    (prefix / "etc/weft").mkdir(parents=True)
    (prefix / "etc/weft/ganesha.conf").symlink_to(cluster.folder / "ganesha.conf")
    all_good = {"good": [f"from ds{number} to other data servers" for number in (1, 2, 3)]}
    wait_until(lambda: ports(cluster, prefix)[1] == all_good, 30, "data servers that listen", 0.5)
    first, second, _ = cluster.ds
    first.node.drop_port_towards(second.node.address, NFS_PORT)
    status, found = ports(cluster, prefix)
    assert status == 1
    assert found["bad"] == [f"from ds1 to ds2 {second.node.address}:{NFS_PORT}: no answer"]
    assert len(found["good"]) == 2  # the other direction, too
    first.node.unlimit()
    assert ports(cluster, prefix)[1] == all_good


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
