"""Rights that a kernel client checks by itself: a client that does not is refused by the server."""

import pytest
from harness.in_namespace import InNamespace
from wire import Client, ops
from wire.const import Status


def test_extended_attributes_need_the_rights_of_the_file(cluster):
    """As for data: "user." attributes are written with write permission and read with read
    permission (xattr(7)), whoever owns the file."""
    if not cluster.counted:
        pytest.skip("Ganesha's VFS has the kernel check it")
    mds = (cluster.address, cluster.options.mds_port)
    InNamespace(cluster.mds_node, lambda: check(mds)).result()


def check(mds):
    with Client(mds) as root, Client(mds, uid=1234, gid=1234) as other:
        handle, stateid = root.open("/export", b"rights", create=True)

        def status(client, operation):
            return client.compound(ops.putfh(handle), operation).status

        def mode(value):
            root.call(ops.putfh(handle), ops.setattr(mode=value))

        assert status(root, ops.setxattr(b"a", b"1")) == Status.OK
        mode(0o644)
        assert status(other, ops.setxattr(b"a", b"2")) == Status.ACCESS
        assert status(other, ops.removexattr(b"a")) == Status.ACCESS
        assert other.call(ops.putfh(handle), ops.getxattr(b"a")).value == b"1"
        mode(0o600)
        assert status(other, ops.getxattr(b"a")) == Status.ACCESS
        mode(0o622)
        assert status(other, ops.setxattr(b"a", b"3")) == Status.OK
        assert root.call(ops.putfh(handle), ops.getxattr(b"a")).value == b"3"
        assert status(other, ops.removexattr(b"a")) == Status.OK
        root.call(ops.putfh(handle), ops.close(stateid))
