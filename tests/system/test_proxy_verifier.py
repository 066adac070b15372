"""The write verifier that a client is told for what it writes through the metadata server."""

import pytest
from harness.cluster import Cluster, Options
from harness.counters import snapshot, weft
from harness.in_namespace import InNamespace
from harness.run import wait_until
from wire import const, ops

pytestmark = pytest.mark.faults

UNIT = 64 * 1024


def written(cluster, server) -> int:
    """At this moment: a data server that is stopped sends no heartbeat to wait for."""
    known = {one["name"]: one for one in weft(cluster, "status")["data_servers"]}
    return known[server.name]["written_bytes"]


def test_a_restart_between_write_and_its_answer_shows(run, network):
    """A write is half done when the data server that has one half of it is killed. Another client's
    write then meets the new verifier, before the first one is answered. COMMIT must not answer the
    same verifier as that write: its first half may be lost."""
    cluster = Cluster(run, network, Options(data_servers=3, pnfs=False, stripe_unit=UNIT))
    if not cluster.counted:
        pytest.skip("Ganesha's VFS has no data servers")
    node = cluster.mds_node
    writer, other = (cluster.connect(owner=owner) for owner in (b"writer", b"other"))
    handle, stateid = writer.open("/export", b"file", create=True)
    also, also_stateid = other.open("/export", b"file", owner=b"other")

    def write(client, stateid, offset, size, stable=const.UNSTABLE4):
        return client.call(ops.putfh(handle), ops.write(stateid, offset, b"x" * size, stable))

    assert also == handle
    # The verifiers of both are known from here on. (A loaded data server is left out of new files:
    # of three, two or three have the file.)
    holders = []
    for unit in range(2):
        before = snapshot(cluster)
        write(writer, stateid, unit * UNIT, UNIT, const.FILE_SYNC4)
        counts = snapshot(cluster).since(before).written
        holders += [server for server in cluster.ds if counts[server.name] == UNIT]
    killed, held = holders
    assert killed is not held

    before = written(cluster, killed)
    held.process.pause()
    half_done = InNamespace(node, lambda: write(writer, stateid, 0, 2 * UNIT))
    wait_until(lambda: written(cluster, killed) > before, 15, "the first half", 0.1)
    killed.process.kill()
    killed.process.start()
    assert write(other, also_stateid, 0, 100).committed == const.UNSTABLE4
    assert half_done.is_alive(), half_done.result()
    held.process.resume()
    answered = half_done.result()
    assert answered.committed == const.UNSTABLE4
    committed = writer.call(ops.putfh(handle), ops.commit())
    assert committed.verifier != answered.verifier
    # Written again and committed, as a client does then.
    again = write(writer, stateid, 0, 2 * UNIT)
    assert writer.call(ops.putfh(handle), ops.commit()).verifier == again.verifier
    writer.close()
    other.close()

