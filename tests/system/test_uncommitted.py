"""What is written through the metadata server, acknowledged as unstable, and not committed when a
data server is killed. COMMIT must not answer the verifier of the write then. If nobody commits,
or the client is gone, the copies get equal by themselves."""

import pytest
from harness.cluster import Cluster, Options
from harness.copies import objects_of, wait_equal
from harness.counters import weft
from wire import const, ops

pytestmark = pytest.mark.faults

UNIT = 64 * 1024
SIZE = 3 * UNIT


@pytest.fixture(params=["server-sync", "server-async"])
def written(request, run, network):
    """A cluster of two copies, a client, and the handle of a file that has SIZE durable bytes."""
    cluster = Cluster(run, network, Options(
        data_servers=2, domains=("a", "b"), pnfs=False, stripe_unit=UNIT, lease_s=40,
        extra={"Copies": "2", "Duplication": request.param}))
    if not cluster.counted:
        pytest.skip("Ganesha's VFS has no copies")
    client = cluster.connect(owner=b"writer")
    handle, stateid = client.open("/export", b"file", create=True)
    cluster.asynchronous = request.param == "server-async"

    def write(fill, stable):
        return client.call(ops.putfh(handle), ops.write(stateid, 0, fill * SIZE, stable))

    write(b"a", const.FILE_SYNC4)
    wait_equal(cluster)
    yield cluster, client, handle, write
    client.close()


def roles(cluster):
    """The server through which the file is written, and the other: of copies that are alike the
    first leads."""
    [stripe] = weft(cluster, "layout", "show", f"{cluster.path}/file")["stripes"]
    first = stripe["copies"][0]["ds_name"]
    leader = next(server for server in cluster.ds if server.name == first)
    return leader, next(server for server in cluster.ds if server is not leader)


def contents(cluster):
    return [file.read_bytes()[:1] for server in cluster.ds
            for file in objects_of(server.store).values()]


@pytest.mark.parametrize("lost", ["leader", "partner", "both"])
def test_a_write_that_is_never_committed(written, lost):
    cluster, client, handle, write = written
    leader, partner = roles(cluster)
    if cluster.asynchronous:  # the leader alone has it
        partner.node.cut()
    answered = write(b"b", const.UNSTABLE4)
    assert answered.committed == const.UNSTABLE4
    if cluster.asynchronous:
        assert sorted(contents(cluster)) == [b"a", b"b"]
    killed = {"leader": [leader], "partner": [partner], "both": [leader, partner]}[lost]
    for server in killed:  # of the leader alone TCP still brings what it has sent
        server.process.kill()
    for server in killed:
        server.process.start()
    partner.node.restore()
    cluster.wait_up()
    wait_equal(cluster, timeout_s=60)
    # Should it be committed after all, the client is to write it again.
    verifier = client.call(ops.putfh(handle), ops.commit()).verifier
    assert verifier != answered.verifier
    again = write(b"b", const.UNSTABLE4)
    assert client.call(ops.putfh(handle), ops.commit()).verifier == again.verifier
    wait_equal(cluster)
    assert contents(cluster) == [b"b", b"b"]
