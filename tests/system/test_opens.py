"""OPEN over the wire: attributes of files that it makes, share reservations, and whom it asks."""

import subprocess

import pytest
from harness.cluster import Cluster, Options
from wire import const, ops
from wire.const import Status


@pytest.fixture
def on_wire(cluster):
    """Runs FUNCTION(client) with a client on the metadata server's machine."""
    def run(function):
        with cluster.connect() as client:
            function(client)
    return run


def size_of(client, handle):
    got = client.call(ops.putfh(handle), ops.getattr([const.ATTR_SIZE]))
    return got.attributes[const.ATTR_SIZE]


def test_a_size_given_when_a_file_is_made(on_wire):
    """It is the file's; of a file that is there already it counts only if it is 0 (RFC 8881 section
    18.16.3)."""
    def check(client):
        handle, made = client.open("/export", b"sized", create=True, size=32)
        assert size_of(client, handle) == 32
        read = client.call(ops.putfh(handle), ops.read(made, 0, 100))
        assert read.data == bytes(32)
        _, again = client.open("/export", b"sized", create=True, size=16)
        assert size_of(client, handle) == 32
        _, again = client.open("/export", b"sized", create=True, size=0)
        assert size_of(client, handle) == 0
        client.call(ops.putfh(handle), ops.close(again))
    on_wire(check)


def test_a_size_beyond_all_files(cluster, on_wire):
    if not cluster.counted:
        pytest.skip("Ganesha's VFS makes the file and then fails")

    def check(client):
        reply = client.compound(*client.at("/export"), ops.open_file(
            b"beyond", client.clientid, create=True, size=1 << 63))
        assert reply.status == Status.FBIG
        assert client.compound(*client.at("/export"), ops.lookup(b"beyond")).status == Status.NOENT
    on_wire(check)


def test_an_exclusive_create_leaves_times_alone(cluster, on_wire):
    """Who is told that a time holds the verifier sets it anew: one more round trip, and sync."""
    if not cluster.counted:
        pytest.skip("Ganesha's VFS has the verifier in the times")

    def check(client):
        where = client.at("/export")
        made = client.call(*where, ops.open_file(b"only", client.clientid, create=True,
                                                 exclusive=b"verifier"))
        assert made.set == [const.ATTR_MODE]
        # The same once more is the same file, and another's is not.
        client.call(*where, ops.open_file(b"only", client.clientid, create=True,
                                          exclusive=b"verifier"))
        assert client.compound(*where, ops.open_file(
            b"only", client.clientid, create=True, exclusive=b"another.")).status == Status.EXIST
    on_wire(check)


@pytest.mark.parametrize("deny, access", [(1, 1), (2, 2), (3, 3)])
def test_an_owner_is_denied_what_it_denied(on_wire, deny, access):
    """A second OPEN of an open owner conflicts with the first's denial, too (RFC 8881 section
    9.7)."""
    def check(client):
        name = b"denied%d" % deny
        handle, stateid = client.open("/export", name, create=True, deny=deny)
        again = client.compound(*client.at("/export"), ops.open_file(
            name, client.clientid, share=access))
        assert again.status == Status.SHARE_DENIED
        client.call(ops.putfh(handle), ops.close(stateid))
    on_wire(check)


def test_downgrades_conflict_with_nobody(on_wire):
    """An open that denies what it uses itself may be made less."""
    def check(client):
        handle, stateid = client.open("/export", b"downgraded", create=True, deny=0, share=1)
        both = client.compound(*client.at("/export"), ops.open_file(
            b"downgraded", client.clientid, share=3, deny=0)).check().last.stateid
        less = client.call(ops.putfh(handle), ops.open_downgrade(both, 1)).stateid
        client.call(ops.putfh(handle), ops.close(less))
    on_wire(check)


def test_an_upgrade_whose_truncate_fails_takes_no_share(run, network):
    """The owner reads as before, and others may deny what it would have had."""
    cluster = Cluster(run, network, Options(data_servers=1, extra={"Inline": "0"}))
    if not cluster.counted:
        pytest.skip("Ganesha's VFS has no data servers")
    with cluster.connect() as one, cluster.connect() as other:
        handle, made = one.open("/export", b"file", create=True)
        one.call(ops.putfh(handle), ops.write(made, 0, b"x" * 100_000))
        one.call(ops.putfh(handle), ops.close(made))
        _, opened = one.open("/export", b"file", share=const.SHARE_READ)
        cluster.ds[0].process.pause()
        upgrade = one.compound(*one.at("/export"), ops.open_file(
            b"file", one.clientid, share=const.SHARE_WRITE, create=True, size=0))
        assert upgrade.status == Status.DELAY
        denies = other.compound(*other.at("/export"), ops.open_file(
            b"file", other.clientid, share=const.SHARE_READ, deny=const.SHARE_WRITE))
        assert denies.status == Status.OK
        cluster.ds[0].process.resume()
        one.call(ops.putfh(handle), ops.close(opened))


def packets(server):
    """That the data server's machine has received."""
    devices = subprocess.run(["ip", "netns", "exec", server.node.namespace, "cat", "/proc/net/dev"],
                             text=True, capture_output=True, check=True).stdout
    [link] = [row.split() for row in devices.splitlines() if row.strip().startswith("e0:")]
    return int(link[2])


def test_making_files_costs_no_call_to_data_servers(run, network):
    """Of which there are six, each of which has a stripe of each file."""
    files = 3000
    cluster = Cluster(run, network, Options(
        data_servers=6, extra={"Inline": "0", "Sync_Metadata": "false"}))
    if not cluster.counted:
        pytest.skip("Ganesha's VFS has no data servers")

    with cluster.connect() as client:
        root = client.handle("/export")
        before = [packets(server) for server in cluster.ds]
        for number in range(files):
            made = client.call(ops.putfh(root), ops.open_file(
                b"file-%d" % number, client.clientid, create=True), ops.getfh())
            client.call(ops.putfh(made.handle), ops.getattr([const.ATTR_SIZE]))
    came = [packets(server) - then for server, then in zip(cluster.ds, before)]
    # Heartbeats are answered meanwhile.
    assert max(came) < files / 4, came
