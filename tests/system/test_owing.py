"""With asynchronous duplication a layout for writing comes back while its leader has bytes that the
other copy has not: the leader alone is read then, and leads the next writer, too (mirrors.h)."""

import time

import pytest
from harness.cluster import Cluster, Options
from harness.copies import objects_of, wait_equal
from harness.counters import weft
from harness.in_namespace import InNamespace
from harness.run import wait_until
from wire import const, layout_ops, ops

pytestmark = pytest.mark.faults

SIZE = 64 * 1024


def servers_of(client, layout):
    """Addresses of the data servers that the layout names."""
    body = layout_ops.unpack_files_layout(layout.layouts[0].body)
    device = client.call(layout_ops.getdeviceinfo(body.device))
    named = layout_ops.unpack_files_address(device.address)
    return {named.servers[index][0][1].rsplit(".", 2)[0] for index in named.stripe_indices}


class Holder:
    """A client with the file open, that gets layouts and goes to the leader with them."""

    def __init__(self, cluster, leader, owner):
        self.cluster = cluster
        self.mds = cluster.connect(owner=owner)
        self.at_leader = cluster.connect_to(leader, owner=owner)
        self.handle, self.stateid = self.mds.open("/export", b"file", create=True)

    def layout(self, iomode):
        return self.mds.call(ops.putfh(self.handle), layout_ops.layoutget(self.stateid, iomode))

    def write(self, fill, give_back=True):
        """Unstable, and without a COMMIT, after which the layout is given back."""
        layout = self.layout(const.IOMODE_RW)
        [there] = layout_ops.unpack_files_layout(layout.layouts[0].body).handles
        answer = self.at_leader.call(ops.putfh(there),
                                     ops.write(ops.ANONYMOUS, 0, fill * SIZE, const.UNSTABLE4))
        assert answer.committed == const.UNSTABLE4
        if give_back:
            self.mds.call(ops.putfh(self.handle), layout_ops.layoutreturn(layout.stateid))

    def close(self):
        self.mds.close()
        self.at_leader.close()


class Owing:
    """A file with two copies, of "a"; the servers of both, and two clients with the file open."""

    def __init__(self, run, network, lease_s=40, **options):
        extra = {"Copies": "2", "Duplication": "server-async", "Inline": "0", "Kept_Layouts": "0",
                 **options.pop("extra", {})}
        self.cluster = cluster = Cluster(run, network, Options(
            data_servers=2, domains=("a", "b"), stripe_unit=SIZE, stripe_count=1, lease_s=lease_s,
            extra=extra, **options))
        if not cluster.counted:
            pytest.skip("Ganesha's VFS has no copies")
        with cluster.connect() as maker:
            handle, stateid = maker.open("/export", b"file", create=True)
            maker.call(ops.putfh(handle), ops.write(stateid, 0, b"a" * SIZE, const.FILE_SYNC4))
        wait_equal(cluster)
        [stripe] = weft(cluster, "layout", "show", f"{cluster.path}/file")["stripes"]
        first = stripe["copies"][0]["ds_name"]  # of copies that are alike it leads
        self.leader = next(server for server in cluster.ds if server.name == first)
        self.partner = next(server for server in cluster.ds if server is not self.leader)
        self.one = Holder(cluster, self.leader, b"one")
        self.other = Holder(cluster, self.leader, b"other")

    def contents(self):
        return [file.read_bytes() for server in self.cluster.ds
                for file in objects_of(server.store).values()]


def test_what_a_leader_owes_is_read_there_and_not_written_over(run, network):
    owing = Owing(run, network)
    cluster, leader, partner = owing.cluster, owing.leader, owing.partner
    one, other = owing.one, owing.other
    partner.node.cut()
    one.write(b"b")
    # The other copy has not got it, and is not read.
    layout = other.layout(const.IOMODE_READ)
    assert len(layout_ops.unpack_files_layout(layout.layouts[0].body).handles) == 1
    assert servers_of(other.mds, layout) == {leader.node.address}
    [there] = layout_ops.unpack_files_layout(layout.layouts[0].body).handles
    read = other.at_leader.call(ops.putfh(there), ops.read(ops.ANONYMOUS, 0, SIZE))
    assert read.data == b"b" * SIZE
    through = other.mds.call(ops.putfh(other.handle), ops.read(other.stateid, 0, SIZE))
    assert through.data == b"b" * SIZE
    other.mds.call(ops.putfh(other.handle), layout_ops.layoutreturn(layout.stateid))
    # The next writer goes to the same leader, so that what is owed does not come after it: there it
    # waits for what is on its way to the same bytes.
    writing = InNamespace(cluster.mds_node, lambda: other.write(b"c"))
    time.sleep(1)
    partner.node.restore()
    writing.result()
    cluster.wait_up()
    wait_equal(cluster, timeout_s=60)
    assert owing.contents() == [b"c" * SIZE] * 2
    read = one.mds.call(ops.putfh(one.handle), ops.read(one.stateid, 0, SIZE))
    assert read.data == b"c" * SIZE
    one.close()
    other.close()


def test_a_commit_calls_no_reader_back(run, network):
    """What it commits has come to all copies by itself, and a reader has a layout of all."""
    owing = Owing(run, network)
    one, other = owing.one, owing.other
    here = ops.putfh(one.handle)
    written = one.mds.call(here, ops.write(one.stateid, 0, b"b" * SIZE, const.UNSTABLE4))
    assert written.committed == const.UNSTABLE4

    def reads_both():
        layout = other.layout(const.IOMODE_READ)
        if len(servers_of(other.mds, layout)) == 2:
            return True
        other.mds.call(here, layout_ops.layoutreturn(layout.stateid))
        return False
    wait_until(reads_both, 30, "a layout of both copies", 0.5)
    committed = one.mds.call(here, ops.commit())
    assert committed.verifier == written.verifier
    assert other.mds.backchannel.recalls.empty()
    one.close()
    other.close()


@pytest.mark.parametrize("ended", ["revoked", "gone"])
def test_what_is_owed_for_a_client_that_is_fenced(run, network, ended):
    """What the leader brings its partner late comes there before the partner is fenced, or is
    mended from the leader: what was read there once is not lost."""
    owing = Owing(run, network, lease_s=40 if ended == "revoked" else 8, extra={
        "Recall_Timeout": "2"}, tables=lambda _: "[mirror]\ntimeout_seconds = 60\n"
                                                 "window_seconds = 60\n")
    cluster, leader, partner = owing.cluster, owing.leader, owing.partner
    one, other = owing.one, owing.other
    leader.node.drop_to(partner.node.address)
    one.write(b"b", give_back=False)
    assert sorted(owing.contents()) == [b"a" * SIZE, b"b" * SIZE]
    if ended == "gone":
        one.mds.vanish()
        one.at_leader.vanish()
    else:  # it does not answer the recall
        other.mds.compound(ops.putfh(other.handle), ops.setattr(size=SIZE))

    def read():
        reply = other.mds.compound(ops.putfh(other.handle), ops.read(other.stateid, 0, SIZE))
        if reply.status == const.Status.DELAY:
            return b""
        return reply.check().last.data

    seen = []  # without those that are to be tried again

    def revoked():
        seen.append(read())
        return "event=layout_revoked" in (run.folder / "ganesha.log").read_text()
    wait_until(revoked, 60, "the layout to be revoked", 0.2)
    for _ in range(5):
        seen.append(read())
        time.sleep(0.2)
    assert sorted(owing.contents()) == [b"a" * SIZE, b"b" * SIZE]
    leader.node.reach_again(partner.node.address)
    wait_until(read, 90, "the file to be read", 0.2)
    wait_equal(cluster, timeout_s=90)
    assert set(seen) <= {b"", b"b" * SIZE}, "a copy was read that lacks what was written"
    assert owing.contents() == [b"b" * SIZE] * 2
    other.write(b"c")
    wait_equal(cluster, timeout_s=60)
    assert read() == b"c" * SIZE
    assert owing.contents() == [b"c" * SIZE] * 2
    other.close()
