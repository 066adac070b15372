"""Files that were made while a failure domain was away: they are told, and their copies are parted
by draining."""

import pytest
from harness.cluster import Cluster, Options
from harness.counters import weft
from harness.run import wait_until
from wire import ops


def state_of(cluster, name):
    return next(one for one in weft(cluster, "ds", "list") if one["name"] == name)


def domains_of(cluster, path):
    return [{copy["domain"] for copy in stripe["copies"]}
            for stripe in weft(cluster, "layout", "show", path)["stripes"]]


def warnings(cluster):
    status = weft(cluster, "status")
    return [text for code, text in zip(status["warning_codes"], status["warnings"])
            if code == "PLACEMENT"]


def scrub(cluster):
    weft(cluster, "scrub", "start")
    wait_until(lambda: not weft(cluster, "scrub", "status")["running"], 60, "the scrub", 0.3)


def make_file(cluster):
    """Its number."""
    with cluster.connect() as client:
        handle, stateid = client.open(cluster.path, b"file", create=True)
        client.call(ops.putfh(handle), ops.write(stateid, 0, b"x" * 100_000), ops.commit())
        client.call(ops.putfh(handle), ops.close(stateid))
    return weft(cluster, "layout", "show", f"{cluster.path}/file")["fileid"]


@pytest.mark.faults
def test_a_file_made_while_a_rack_was_away_is_told(run, network):
    cluster = Cluster(run, network, Options(data_servers=4, domains=("a", "a", "b", "b"),
                                            extra={"Copies": "2", "Proxy_Timeout": "3"}))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    path = f"{cluster.path}/file"
    cluster.wait_up()
    for server in cluster.ds[2:]:
        server.process.kill()
    wait_until(lambda: all(state_of(cluster, server.name)["state"] == "down"
                           for server in cluster.ds[2:]), 60, "the rack to be down", 0.3)
    fileid = make_file(cluster)
    assert domains_of(cluster, path) == [{"a"}]
    for server in cluster.ds[2:]:
        server.process.start()
    cluster.wait_up()
    scrub(cluster)
    told = warnings(cluster)
    assert len(told) == 1 and "1 files have two copies in one failure domain" in told[0], told
    assert f"fileid {fileid}." in told[0] and "weft ds drain" in told[0]
    status = weft(cluster, "scrub", "status")
    assert (status["crowded"], status["crowded_fileids"]) == (1, [fileid])
    weft(cluster, "ds", "drain", "ds1")
    wait_until(lambda: state_of(cluster, "ds1")["duty"] == "drained", 120, "ds1 to be empty", 0.5)
    weft(cluster, "ds", "undrain", "ds1")
    assert domains_of(cluster, path) == [{"a", "b"}]
    assert warnings(cluster) == []
