"""A firewall between two data servers that drops one direction: weft doctor names the pair."""

import json
import subprocess

import pytest
from harness import paths
from harness.cluster import Cluster, Options
from harness.config import NFS_PORT
from harness.run import wait_until

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
