"""A client that drops its layout, and with it what it was to tell by LAYOUTCOMMIT, as Linux does
when a data server refuses it, and then closes."""

from harness.cluster import Cluster, Options
from harness.config import NFS_PORT
from harness.run import wait_until
from wire import Status, const, layout_ops, ops

SIZE = 64 * 1024


def test_what_it_has_committed_is_the_files_after_its_close(run, network):
    cluster = Cluster(run, network, Options(data_servers=1, stripe_unit=SIZE,
                                            extra={"Inline": "0", "Kept_Layouts": "0"}))
    cluster.ds[0].process.wait_port(NFS_PORT)
    client = cluster.connect(owner=b"dropping")
    at_server = cluster.connect_to(cluster.ds[0], owner=b"dropping")
    handle, opened = client.open("/export", b"file", create=True)
    layout = client.call(ops.putfh(handle), layout_ops.layoutget(opened, const.IOMODE_RW))
    [there] = layout_ops.unpack_files_layout(layout.layouts[0].body).handles
    at_server.call(ops.putfh(there), ops.write(ops.ANONYMOUS, 0, b"x" * SIZE, const.UNSTABLE4),
                   ops.commit())
    client.call(ops.putfh(handle), ops.close(opened))
    found = client.call(ops.putfh(handle), ops.getattr([const.ATTR_SIZE]))
    assert found.attributes[const.ATTR_SIZE] == SIZE
    at_server.close()
    client.close()


def test_seek_goes_by_no_size_that_is_in_doubt(run, network):
    cluster = Cluster(run, network, Options(data_servers=2, stripe_unit=SIZE,
                                            extra={"Inline": "0", "Kept_Layouts": "0"}))
    for server in cluster.ds:
        server.process.wait_port(NFS_PORT)
    client = cluster.connect(owner=b"dropping")
    handle, opened = client.open("/export", b"file", create=True)
    granted = client.call(ops.putfh(handle), layout_ops.layoutget(opened, const.IOMODE_RW))
    layout = layout_ops.unpack_files_layout(granted.layouts[0].body)
    there = layout.handles[layout.first_stripe]
    at_servers = [cluster.connect_to(server, owner=b"dropping") for server in cluster.ds]
    written = [at.compound(ops.putfh(there), ops.write(
        ops.ANONYMOUS, 0, b"x" * SIZE, const.FILE_SYNC4)).status for at in at_servers]
    assert written.count(Status.OK) == 1
    other = cluster.ds[1 - written.index(Status.OK)]
    other.node.cut()
    client.call(ops.putfh(handle), ops.close(opened))

    def data():
        return client.compound(ops.putfh(handle),
                               ops.seek(ops.ANONYMOUS, 0, const.CONTENT_DATA), timeout=30)
    assert data().status == Status.DELAY
    other.node.restore()
    wait_until(lambda: data().status == Status.OK, 60, "the size", 0.2)
    assert data().last.offset == 0
    for at in (*at_servers, client):
        at.close()
