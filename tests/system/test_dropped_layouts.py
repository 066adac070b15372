"""A client that drops its layout, and with it what it was to tell by LAYOUTCOMMIT, as Linux does
when a data server refuses it, and then closes."""

from harness.cluster import Cluster, Options
from harness.config import NFS_PORT
from harness.in_namespace import InNamespace
from wire import Client, const, layout_ops, ops

SIZE = 64 * 1024


def test_what_it_has_committed_is_the_files_after_its_close(run, network):
    cluster = Cluster(run, network, Options(data_servers=1, stripe_unit=SIZE,
                                            extra={"Inline": "0", "Kept_Layouts": "0"}))
    cluster.ds[0].process.wait_port(NFS_PORT)
    client = cluster.connect(owner=b"dropping")
    at_server = InNamespace(cluster.mds_node, lambda: Client(
        (cluster.ds[0].node.address, NFS_PORT), minor=1, owner=b"dropping",
        flags=const.EXCHGID_USE_PNFS_DS)).result()
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
