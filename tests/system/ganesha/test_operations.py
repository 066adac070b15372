"""Which operations an export allows, and what is left when they are over.

One test for each of the patches 0045, 0062 to 0065, 0094 and 0095, see docs/ganesha.md.
"""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from test_patches import granted, healthy, leaves_nothing, needs_true_sizes, put
from wire import Client, Status, const, layout_ops, ops
from wire.ops import pack_bitmap, pack_stateid
from wire.rpc import auth_sys
from wire.xdr import Packer


@needs_true_sizes
@pytest.mark.parametrize("why, status", [
    ("missing", Status.NOXATTR), ("grows", None), ("not supported", Status.NOTSUPP),
    ("no file handle", Status.NOFILEHANDLE)])
def test_0045_a_getxattr_that_fails_leaves_nothing_behind(server, client, why, status):
    handle, _ = client.open("/layout", b"file", create=True)
    file = {"not supported": client.at("/mem"), "no file handle": []}.get(why, [put(handle)])
    # A value that grows does not fit into what it was a moment ago.
    server.set(xattr_size=2000, xattr_missing=int(why == "missing"),
               xattr_grows=int(why == "grows"))

    def fails(count):
        for _ in range(count):
            found = client.compound(*file, ops.getxattr(b"a")).status
            assert found == status if status else found != Status.OK

    leaves_nothing(server, fails, 2000)


def test_0062_what_changes_a_file_needs_one_and_an_export_to_write(server, client):
    for operation in (ops.allocate, ops.deallocate):
        space = operation(ops.ANONYMOUS, 0, 100)
        assert client.compound(space).status == Status.NOFILEHANDLE
        healthy(server)
        assert client.compound(*client.at("/read"), space).status == Status.ROFS
    for one in (ops.setxattr(b"a", b"value"), ops.removexattr(b"a")):
        assert client.compound(*client.at("/read"), one).status == Status.ROFS
        assert client.compound(one).status == Status.NOFILEHANDLE
    assert client.compound(ops.getxattr(b"a")).status == Status.NOFILEHANDLE
    healthy(server)


def test_0063_advice_is_not_kept_where_something_else_is(server, client):
    handle, opened = client.open("/layout", b"file", create=True)
    packer = pack_stateid(Packer(), opened).uint64(0).uint64(4096)
    advise = ops.raw(const.Op.IO_ADVISE, pack_bitmap(packer, [1]).bytes())
    advice = client.compound(put(handle), advise)
    assert advice.status == Status.NOTSUPP
    client.call(put(handle), ops.close(opened))
    healthy(server)


@pytest.fixture
def forgetful(start):
    """A server whose leases are short."""
    return start(lease_s=2)


def test_0064_layouts_whose_lease_ended_keep_no_export(forgetful):
    server = forgetful
    with Client(server.address, uid=0, gid=0) as root:
        root.call(*root.at("/more"), ops.setattr(mode=0o1777))
    client = Client(server.address)
    granted(client, directory="/more")
    client.vanish()
    server.wait_for_call("layoutreturn", timeout_s=15)
    conf = server.folder / "ganesha.conf"
    lines = conf.read_text().splitlines(keepends=True)
    conf.write_text("".join(line for line in lines if "/more" not in line))
    server.process.send_signal(signal.SIGHUP)
    assert server.wait_for_call("release", timeout_s=15)[0]["export"] == 3


def test_0065_attributes_that_change_while_they_are_fetched_are_not_kept(server, client):
    handle, _, layout = granted(client)
    get = [put(handle), ops.getattr([const.ATTR_SIZE])]
    commit = [put(handle), layout_ops.layoutcommit(layout)]
    client.call(*commit)  # what is cached is not trusted
    server.set(getattrs_delay_ms=500)
    with ThreadPoolExecutor() as threads:
        asking = threads.submit(lambda: client.call(*get))
        server.wait_for_call("getattrs")
        client.call(*commit)
        asking.result()
    asked = len(server.calls("getattrs"))
    client.call(*get)
    assert len(server.calls("getattrs")) == asked + 1
    client.call(*get)
    assert len(server.calls("getattrs")) == asked + 1


def test_0094_a_readdir_whose_size_the_server_may_choose(server, client):
    client.call(*client.at("/mem"), ops.create_directory(b"names"))
    client.open("/mem/names", b"file", create=True)
    listed = client.call(*client.at("/mem/names"), ops.readdir(dircount=0))
    assert [entry.name for entry in listed.entries] == [b"file"]


def test_0095_a_seek_with_a_special_stateid_is_carried_out(server, client):
    handle, opened = client.open("/mem", b"file", create=True)

    def seek(stateid, what=const.CONTENT_DATA):
        return client.compound(put(handle), ops.seek(stateid, 1 << 40, what)).status
    assert seek(ops.ANONYMOUS) == seek(opened) != Status.OK  # past the end, or not supported
    assert seek(opened, 7) == Status.UNION_NOTSUPP
    client.call(put(handle), ops.setattr(mode=0o600))
    other = client.compound(put(handle), ops.seek(ops.ANONYMOUS, 0, const.CONTENT_DATA),
                            credential=auth_sys(1234, 1234))
    assert other.status == Status.ACCESS
