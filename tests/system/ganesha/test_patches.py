"""Each patch of cmake/ganesha-patches by what a client sees of it.

Every test fails against a Ganesha without the patch it names; the patch's header says how.
"""

import os
import pathlib
import queue
import signal
import threading
import time

import pytest

import ganesha_server
from wire import Client, Connection, ConnectionClosed, Op, RpcError, Status, const, layout_ops, ops
from wire.client40 import Client40
from wire.rpc import auth_none, auth_sys

DEVICE = bytes([1]) + bytes(range(1, 16))  # byte 0 names the layout FSAL
CIRCUMSTANCE_CLIENT, CIRCUMSTANCE_FORGOTTEN = 0, 4
KEPT = 16  # bytes of memory one operation may keep, on average

needs_true_sizes = pytest.mark.skipif(
    ganesha_server.sanitized(), reason="AddressSanitizer keeps freed memory for a while")


def put(handle):
    return ops.putfh(handle)


def granted(client, name=b"file", iomode=const.IOMODE_RW, directory="/layout"):
    """Opens a file and gets a layout: (handle, open stateid, layout stateid)."""
    handle, opened = client.open(directory, name, create=True)
    layout = client.call(put(handle), layout_ops.layoutget(opened, iomode))
    return handle, opened, layout.stateid


def leaves_nothing(server, repeat, count):
    """repeat(n) does something n times. What a server does beside grows it too, now and then; what
    leaks grows it every time."""
    repeat(500)
    grown = []
    while not grown or (grown[-1] >= count * KEPT and len(grown) < 6):
        before = server.allocated_bytes()
        repeat(count)
        grown.append(server.allocated_bytes() - before)
    assert min(grown) < count * KEPT, grown


def healthy(server):
    assert server.ended is None, f"the server ended: {server.ended}"
    assert server.answers()


def test_0001_layoutget_with_a_layout_stateid(server, client):
    handle, opened, stateid = granted(client)
    for _ in range(50):
        stateid = client.call(put(handle), layout_ops.layoutget(stateid)).stateid
    assert stateid.seqid == 51
    # One state and all its segments are still there.
    client.call(put(handle), layout_ops.layoutreturn(stateid))
    assert len(server.calls("layoutreturn")) == 51
    client.call(put(handle), ops.close(opened))
    healthy(server)


def test_0002_0003_layouterror_and_layoutstats_are_answered(server, client):
    handle, _, stateid = granted(client)
    attributes = ops.getattr([const.ATTR_TYPE])
    error = (DEVICE, Status.NOSPC, Op.WRITE)
    reply = client.compound(put(handle), layout_ops.layouterror(stateid, [error]), attributes)
    assert reply.status == Status.OK and reply[1].op == Op.LAYOUTERROR
    assert reply.last.attributes[const.ATTR_TYPE] == 1
    reply = client.compound(put(handle),
                            layout_ops.layoutstats(stateid, DEVICE, (2**33, 2**40), (3, 4096)),
                            attributes)
    assert reply.status == Status.OK and reply[1].op == Op.LAYOUTSTATS
    healthy(server)


@pytest.mark.parametrize("count", [0, 1, 3, 9])
def test_0003_layouterror_takes_an_array(server, client, count):
    handle, _, stateid = granted(client)
    errors = [(DEVICE, Status.IO, Op.READ)] * count
    reply = client.compound(put(handle), layout_ops.layouterror(stateid, errors),
                            ops.getattr([const.ATTR_TYPE]))
    assert reply.status == Status.OK
    assert reply.last.attributes[const.ATTR_TYPE] == 1


def test_0004_layout_operations_refuse_an_open_stateid(server, client):
    handle, opened, _ = granted(client)
    for operation in (layout_ops.layoutreturn(opened), layout_ops.layoutcommit(opened),
                      layout_ops.layouterror(opened, []),
                      layout_ops.layoutstats(opened, DEVICE, (0, 0), (0, 0))):
        assert client.compound(put(handle), operation).status == Status.BAD_STATEID
    assert [c["call"] for c in server.calls()] == ["layoutget"]
    healthy(server)


def test_0005_layouterror_reaches_the_fsal(server, client):
    handle, _, stateid = granted(client)
    other = DEVICE[::-1]
    errors = [(DEVICE, Status.NOSPC, Op.WRITE), (other, Status.IO, Op.READ)]
    client.call(put(handle), layout_ops.layouterror(stateid, errors, 4096, 8192))
    assert server.calls("layouterror") == [{
        "call": "layouterror", "client": client.clientid, "offset": 4096, "length": 8192,
        "errors": [[DEVICE.hex(), Status.NOSPC, Op.WRITE], [other.hex(), Status.IO, Op.READ]]}]


def test_0005_layoutstats_reach_the_fsal(server, client):
    handle, _, stateid = granted(client)
    client.call(put(handle), layout_ops.layoutstats(
        stateid, DEVICE, (2**33, 2**40), (3, 4096), 1, 2, const.LAYOUT4_FLEX_FILES,
        bytes(range(16))))
    assert server.calls("layoutstats") == [{
        "call": "layoutstats", "client": client.clientid, "offset": 1, "length": 2,
        "read": [2**33, 2**40], "write": [3, 4096], "device": DEVICE.hex(),
        "type": const.LAYOUT4_FLEX_FILES, "body": bytes(range(16)).hex()}]


def settles(server):
    """No thread of the server spins."""
    time.sleep(0.1)
    assert not server.cpu_hungry()
    healthy(server)


def test_0006_layoutreturn_fsid_returns_that_file_systems_layouts(server, client):
    handle, _, _ = granted(client, b"one")
    granted(client, b"two")
    reply = client.call(put(handle), layout_ops.layoutreturn(scope=const.SCOPE_FSID))
    assert reply.stateid is None
    assert {r["segment"] for r in server.calls("layoutreturn")} == {1, 2}
    settles(server)


def test_0006_layoutreturn_fsid_spares_other_file_systems(server, client):
    granted(client, b"one")
    elsewhere = client.handle("/mem")
    client.call(put(elsewhere), layout_ops.layoutreturn(scope=const.SCOPE_FSID))
    assert server.calls("layoutreturn") == []
    settles(server)


def test_0006_layoutreturn_all_ends_when_a_layout_is_left(server, client):
    granted(client, b"one", const.IOMODE_RW)
    granted(client, b"two", const.IOMODE_READ)
    for _ in range(2):
        client.call(layout_ops.layoutreturn(scope=const.SCOPE_ALL, iomode=const.IOMODE_READ))
    assert [r["segment"] for r in server.calls("layoutreturn")] == [2]
    client.call(layout_ops.layoutreturn(scope=const.SCOPE_ALL))
    assert [r["segment"] for r in server.calls("layoutreturn")] == [2, 1]
    settles(server)


def test_0007_layoutreturn_fsid_without_a_file_handle(server, client):
    for _ in range(3):
        reply = client.compound(layout_ops.layoutreturn(scope=const.SCOPE_FSID))
        assert reply.status == Status.NOFILEHANDLE
    assert client.call(*client.at("/layout"), ops.getattr([const.ATTR_TYPE])).attributes
    healthy(server)


def test_0008_recall_of_a_finite_range(server, client):
    granted(client)
    assert server.recall(offset=4096, length=8192) == 0
    recall = client.backchannel.next_recall()
    assert (recall.offset, recall.length) == (4096, 8192)
    assert server.recall(offset=2**64 - 4096, length=8192) != 0  # this one wraps
    with pytest.raises(queue.Empty):
        client.backchannel.next_recall(timeout=0.2)


def test_0009_recalls_while_layouts_are_returned(server, new_client):
    """Eight clients get, and return when recalled, as fast as they can; the server lives."""
    clients = [new_client(slots=4) for _ in range(8)]
    failures = []
    done = threading.Event()

    def churn(client):
        handle, opened = client.open("/layout", b"shared", create=True)
        while not done.is_set():
            got = client.compound(put(handle), layout_ops.layoutget(opened))
            if got.status not in (Status.OK, Status.DELAY):
                failures.append(got.status)
            if got.status == Status.OK:
                reply = client.compound(put(handle), layout_ops.layoutreturn(got.last.stateid))
                while reply.status == Status.OLD_STATEID:  # recalled meanwhile
                    recall = client.backchannel.next_recall()
                    reply = client.compound(put(handle), layout_ops.layoutreturn(recall.stateid))
                if reply.status not in (Status.OK, Status.BAD_STATEID):
                    failures.append(reply.status)

    threads = [threading.Thread(target=churn, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    server.wait_for_call("layoutget")
    for cookie in range(1, 200):
        server.command(f"recall 0 {const.UINT64_MAX} 3 {cookie}")
    server.wait_for_call("recall", count=199, timeout_s=10)
    done.set()
    for thread in threads:
        thread.join(timeout=10)
    healthy(server)
    assert not failures, failures[:5]


def test_0010_a_recalls_cookie_comes_with_the_return_that_ends_it(server, new_client):
    one, two = new_client(), new_client()
    handle, _, _ = granted(one)
    granted(two)
    assert server.recall(cookie=7) == 0
    assert server.recall(cookie=8) == 0
    for client, cookies in ((one, []), (two, [7, 8])):
        client.backchannel.next_recall()
        stateid = client.backchannel.next_recall().stateid
        client.call(put(handle), layout_ops.layoutreturn(stateid))
        assert server.calls("layoutreturn")[-1]["cookies"] == cookies


def test_0010_a_cookie_waits_for_all_segments(server, client):
    handle, _, stateid = granted(client)
    client.call(put(handle), layout_ops.layoutget(stateid, const.IOMODE_READ))
    assert server.recall(cookie=5) == 0
    stateid = client.backchannel.next_recall().stateid
    stateid = client.call(put(handle),
                          layout_ops.layoutreturn(stateid, const.IOMODE_READ)).stateid
    client.call(put(handle), layout_ops.layoutreturn(stateid))
    assert [r["cookies"] for r in server.calls("layoutreturn")] == [[], [5]]


def test_0010_a_client_that_has_no_such_layout_ends_the_recall(server, client):
    granted(client)
    client.backchannel.answer = lambda recall: Status.NOMATCHING_LAYOUT
    assert server.recall(cookie=9) == 0
    returned = server.wait_for_call("layoutreturn")[0]
    assert returned["cookies"] == [9] and returned["circumstance"] == CIRCUMSTANCE_CLIENT


def test_0010_a_client_that_leaves_ends_the_recall(server, new_client):
    gone, stays = new_client(), new_client()
    handle, _, _ = granted(gone)
    _, _, _ = granted(stays)
    assert server.recall(cookie=3) == 0
    stateid = stays.backchannel.next_recall().stateid
    stays.call(put(handle), layout_ops.layoutreturn(stateid))
    assert server.calls("layoutreturn")[-1]["cookies"] == []
    gone.send(ops.destroy_session(gone.session)).check()
    gone.session = None
    gone.vanish()
    # The same owner with a new verifier is a restarted client: its state goes.
    new_client(owner=gone.owner)
    assert server.wait_for_call("layoutreturn", count=2)[1]["cookies"] == [3]


def test_0011_the_referring_call_names_the_whole_session(server, new_client):
    new_client()  # so that the id is not all zero but for its first bytes
    client = new_client()
    granted(client)
    assert server.recall() == 0
    (session, calls), = client.backchannel.next_recall().referring
    assert session == client.session
    assert len(calls) == 1


@pytest.mark.parametrize("maxcount", [1, 4, 11, 12, 75])
def test_0012_getdeviceinfo_says_how_much_room_it_needs(server, client, maxcount):
    reply = client.compound(layout_ops.getdeviceinfo(DEVICE, maxcount=maxcount))
    assert reply.status == Status.TOOSMALL
    assert reply.last.mincount == 12 + 64
    assert len(client.call(layout_ops.getdeviceinfo(DEVICE, maxcount=76)).address) == 64
    healthy(server)


def test_0012_getdeviceinfo_without_any_room(server, client):
    assert client.call(layout_ops.getdeviceinfo(DEVICE, maxcount=0)).address == b""


def test_0013_directory_delegations_are_not_supported(server, client):
    reply = client.compound(*client.at("/layout"), ops.get_dir_delegation(),
                            ops.getattr([const.ATTR_TYPE]))
    assert (reply.last.op, reply.status) == (Op.GET_DIR_DELEGATION, Status.NOTSUPP)
    reply = client.compound(*client.at("/layout"), ops.readdir(bits=[const.ATTR_TYPE]))
    assert reply.status == Status.OK


def test_0014_read_plus_is_not_supported(server, client):
    for directory in ("/mem", "/layout"):
        handle, opened = client.open(directory, b"data", create=True)
        client.call(put(handle), ops.write(opened, 0, b"x" * 1000))
        reply = client.compound(put(handle), ops.read_plus(opened, 0, 1000))
        assert (reply.last.op, reply.status) == (Op.READ_PLUS, Status.NOTSUPP)
        assert client.call(put(handle), ops.read(opened, 0, 1000)).data == b"x" * 1000


def test_0015_a_layoutreturn_body_comes_once(server, client):
    handle, _, stateid = granted(client)
    stateid = client.call(put(handle), layout_ops.layoutget(stateid)).stateid
    body = bytes(range(32))
    client.call(put(handle), layout_ops.layoutreturn(stateid, body=body))
    assert [r["body"] for r in server.calls("layoutreturn")] == [body.hex(), None]


def test_0015_a_layoutreturn_body_comes_without_a_segment_too(server, client):
    handle, _, stateid = granted(client, iomode=const.IOMODE_READ)
    body = bytes(range(8))
    reply = client.call(put(handle),
                        layout_ops.layoutreturn(stateid, const.IOMODE_RW, body=body))
    returned, = server.calls("layoutreturn")
    assert (returned["body"], returned["segment"], returned["dispose"]) == (body.hex(), 0, 0)
    client.call(put(handle), layout_ops.layoutreturn(reply.stateid))
    assert server.calls("layoutreturn")[-1]["segment"] == 1


def test_0016_the_last_segment_is_said_to_be_the_last(server, client):
    handle, _, stateid = granted(client)
    stateid = client.call(put(handle), layout_ops.layoutget(stateid)).stateid
    client.call(put(handle), layout_ops.layoutreturn(stateid))
    assert [r["last"] for r in server.calls("layoutreturn")] == [0, 1]
    granted(client)
    client.call(layout_ops.layoutreturn(scope=const.SCOPE_ALL))
    assert server.calls("layoutreturn")[-1]["last"] == 1


def test_0017_a_partial_return_leaves_the_layout_whole(server, client):
    handle, _, stateid = granted(client)
    stateid = client.call(put(handle),
                          layout_ops.layoutreturn(stateid, offset=0, length=4096)).stateid
    client.call(put(handle), layout_ops.layoutreturn(stateid))
    partial, rest = server.calls("layoutreturn")
    assert (partial["dispose"], rest["dispose"]) == (0, 1)
    assert (rest["offset"], rest["length"]) == (0, const.UINT64_MAX)


@needs_true_sizes
def test_0018_granted_layouts_are_not_kept_in_memory(server, client):
    server.set(body_size=32768)
    handle, _, stateid = granted(client)

    def get_and_return(count):
        nonlocal stateid
        for _ in range(count):
            got = client.call(put(handle), layout_ops.layoutget(stateid)).stateid
            stateid = client.call(put(handle), layout_ops.layoutreturn(
                got, const.IOMODE_READ)).stateid

    get_and_return(50)
    before = server.resident_bytes()
    get_and_return(400)
    assert server.resident_bytes() - before < 400 * 32768 / 4


def test_0019_a_layoutget_that_fails_late_is_given_back(server, new_client):
    client = new_client(max_response=2048)
    server.set(body_size=4096)
    handle, opened = client.open("/layout", b"file", create=True)
    reply = client.compound(put(handle), layout_ops.layoutget(opened))
    assert reply.status == Status.REP_TOO_BIG
    got, returned = server.calls()
    assert (got["call"], returned["call"]) == ("layoutget", "layoutreturn")
    assert returned["segment"] == got["segment"] and returned["dispose"]
    assert returned["circumstance"] == CIRCUMSTANCE_FORGOTTEN


@needs_true_sizes
def test_0019_refused_layouts_leave_nothing_behind(server, client):
    server.set(layoutget_status=Status.LAYOUTUNAVAILABLE)
    handle, opened = client.open("/layout", b"file", create=True)

    def refused(count):
        for _ in range(count):
            reply = client.compound(put(handle), layout_ops.layoutget(opened))
            assert reply.status == Status.LAYOUTUNAVAILABLE

    leaves_nothing(server, refused, 4000)


def test_0020_a_layout_returned_while_it_is_granted_is_given_back(server, client):
    handle, _, stateid = granted(client)
    server.set(layoutget_delay_ms=500)
    results = []
    getter = threading.Thread(target=lambda: results.append(
        client.compound(put(handle), layout_ops.layoutget(stateid))))
    getter.start()
    time.sleep(0.15)
    client.call(put(handle), layout_ops.layoutreturn(stateid))
    getter.join()
    assert results[0].status == Status.BAD_STATEID
    assert [(c["call"], c["segment"]) for c in server.calls()] == [
        ("layoutget", 1), ("layoutreturn", 1), ("layoutget", 2), ("layoutreturn", 2)]
    healthy(server)


def test_0021_recalls_that_are_answered_at_once(server, client):
    """The bug writes to freed memory, which only a server built with AddressSanitizer notices."""
    for _ in range(30):
        handle, opened, _ = granted(client)
        assert server.recall() == 0
        stateid = client.backchannel.next_recall().stateid
        client.call(put(handle), layout_ops.layoutreturn(stateid))
        client.call(put(handle), ops.close(opened))
    healthy(server)


def test_0022_operations_refuse_stateids_of_another_kind(server, client):
    handle, opened, layout = granted(client)
    # More segments: CLOSE takes each for a lock.
    layout = client.call(put(handle), layout_ops.layoutget(layout)).stateid
    locked = client.call(put(handle), ops.lock(opened, client.clientid)).stateid
    wrong = [ops.close(layout), ops.close(locked), ops.open_downgrade(layout, const.SHARE_READ),
             ops.open_downgrade(locked, const.SHARE_READ), ops.unlock(layout), ops.unlock(opened),
             ops.delegreturn(layout), ops.delegreturn(opened), ops.delegreturn(locked)]
    for operation in wrong:
        assert client.compound(put(handle), operation).status == Status.BAD_STATEID
    client.call(put(handle), ops.unlock(locked))
    client.call(put(handle), layout_ops.layoutreturn(layout))
    client.call(put(handle), ops.open_downgrade(opened, const.SHARE_BOTH))
    healthy(server)


def test_0023_a_stateid_is_good_for_its_own_client_only(server, client, new_client):
    handle, opened, layout = granted(client)
    locked = client.call(put(handle), ops.lock(opened, client.clientid)).stateid
    thief = new_client()
    for operation in (layout_ops.layoutget(opened), layout_ops.layoutget(layout),
                      layout_ops.layoutreturn(layout), layout_ops.layoutcommit(layout),
                      layout_ops.layouterror(layout, []),
                      layout_ops.layoutstats(layout, DEVICE, (0, 0), (0, 0)),
                      ops.read(opened, 0, 10), ops.write(opened, 0, b"x"),
                      ops.write(locked, 0, b"x"), ops.setattr(opened, size=0),
                      ops.unlock(locked), ops.open_downgrade(opened, const.SHARE_READ),
                      ops.close(opened)):
        assert thief.compound(put(handle), operation).status == Status.BAD_STATEID
    assert [c["call"] for c in server.calls()] == ["layoutget"]
    client.call(put(handle), ops.write(locked, 0, b"mine"))
    client.call(put(handle), layout_ops.layoutcommit(layout))
    healthy(server)


def test_0024_a_client_with_state_is_not_destroyed(server, new_client):
    leaver, stays = new_client(), new_client()
    granted(leaver)
    handle, opened, layout = granted(stays)
    leaver.send(ops.destroy_session(leaver.session)).check()
    leaver.session = None
    assert leaver.send(ops.destroy_clientid(leaver.clientid)).status == Status.CLIENTID_BUSY
    stays.call(put(handle), layout_ops.layoutreturn(layout))
    stays.call(put(handle), ops.close(opened))  # walks all states of the file
    stays.send(ops.destroy_session(stays.session)).check()
    stays.session = None
    assert stays.send(ops.destroy_clientid(stays.clientid)).status == Status.OK
    healthy(server)


def test_0025_0026_connections_that_end_during_a_recall(server, new_client):
    for i in range(200):
        client = new_client()
        granted(client, b"file%d" % i)
        server.command(f"recall 0 {const.UINT64_MAX} 3 1")
        if i % 2:
            client.backchannel.next_recall()
        client.vanish()
    healthy(server)


def test_a_server_whose_client_misbehaves_serves_the_others(server, new_client):
    """Garbage where arguments belong is refused or ends that connection, never the server."""
    good = new_client()
    handle, _, stateid = granted(good)
    for number in (Op.LAYOUTGET, Op.LAYOUTRETURN, Op.LAYOUTCOMMIT, Op.LAYOUTERROR,
                   Op.LAYOUTSTATS, Op.GETDEVICEINFO):
        for arguments in (b"", b"\xff" * 64, b"\0" * 3 + b"\1" + b"\xff" * 400):
            bad = Client(server.address, timeout=2.0)
            try:
                assert bad.compound(put(handle), ops.raw(number, arguments)).status != 0
            except (RpcError, ConnectionClosed, TimeoutError):
                pass
            bad.vanish()
    good.call(put(handle), layout_ops.layoutcommit(stateid))
    healthy(server)


def test_0027_a_layoutcommit_from_before_a_restart_is_no_error_of_the_application(server, client):
    handle, _, layout = granted(client)
    other = bytearray(layout.other)
    other[4] ^= 1  # bytes 4 to 8 are the boot of the server that made it
    earlier = layout_ops.layoutcommit(ops.Stateid(layout.seqid, bytes(other)))
    assert client.compound(put(handle), earlier).status == Status.BADLAYOUT
    other = bytearray(layout.other)
    other[11] ^= 1
    unknown = layout_ops.layoutcommit(ops.Stateid(layout.seqid, bytes(other)))
    assert client.compound(put(handle), unknown).status == Status.BADLAYOUT  # 0035
    assert [call["segment"] for call in server.calls("layoutcommit")] == [0]
    client.call(put(handle), layout_ops.layoutcommit(layout))
    healthy(server)


def test_0028_an_fsal_may_promise_that_open_files_outlive_their_names(server, client):
    directory = client.handle("/layout")

    def flags():
        reply = client.call(put(directory), ops.open_file(b"file", client.clientid, create=True))
        return reply.flags & const.OPEN_PRESERVE_UNLINKED

    assert not flags()
    server.set(preserve_unlinked=1)
    assert flags() == const.OPEN_PRESERVE_UNLINKED


def until(condition, timeout_s=10.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def graceful(start):
    """A server with grace periods of 4 s."""
    return start(lease_s=2, grace_s=4)


def test_0029_0030_no_layouts_in_grace(graceful):
    until(lambda: graceful.grace_left_ms() == 0)
    with Client(graceful.address) as client:
        handle, opened, stateid = granted(client)
        graceful.command("grace")
        began = time.monotonic()
        assert 3000 < graceful.grace_left_ms() <= 4001
        assert client.compound(put(handle), layout_ops.layoutget(opened)).status == Status.GRACE
        again = layout_ops.layoutget(stateid)
        assert client.compound(put(handle), again).status == Status.GRACE
        time.sleep(1)
        assert 2000 < graceful.grace_left_ms() < 3001
        # Nobody reclaims, so it lasts its time.
        until(lambda: client.compound(put(handle), again).status != Status.GRACE)
        assert 3.9 < time.monotonic() - began < 7
        assert graceful.grace_left_ms() == 0
        assert len(graceful.calls("layoutget")) == 2
    healthy(graceful)


def test_0031_the_session_of_a_lost_lease_is_a_bad_session(graceful):
    """SEQUENCE may notice before the reaper does, which comes once a second: so many try, with
    leases that end at different moments."""
    until(lambda: graceful.grace_left_ms() == 0)
    clients = []
    for _ in range(20):
        clients.append(Client(graceful.address))
        time.sleep(0.05)
    time.sleep(1)
    for client in clients:  # each 2 s after its last renewal, and a little more
        client.connection.timeout = 5
        status = client.compound(ops.putrootfh()).status
        assert status in (Status.OK, Status.BADSESSION), status
        time.sleep(0.05)
    time.sleep(4)
    for client in clients:
        assert client.compound(ops.putrootfh()).status == Status.BADSESSION
        client.vanish()
    healthy(graceful)


def test_0032_a_layoutcommit_from_before_the_lease_ended(graceful):
    until(lambda: graceful.grace_left_ms() == 0)
    client = Client(graceful.address)
    handle, _, layout = granted(client)
    time.sleep(5)
    client.close()
    with Client(graceful.address, owner=client.owner) as again:
        late = again.compound(put(handle), layout_ops.layoutcommit(layout))
        assert late.status == Status.BADLAYOUT
        assert [call["segment"] for call in graceful.calls("layoutcommit")] == [0]
    healthy(graceful)


def test_0057_what_a_client_has_goes_with_its_lease(graceful):
    until(lambda: graceful.grace_left_ms() == 0)
    client = Client(graceful.address)
    granted(client)
    client.vanish()
    assert not graceful.calls("layoutreturn")
    until(lambda: graceful.calls("layoutreturn"))
    healthy(graceful)


def test_0034_a_layout_stateid_of_before_a_recall(server, client):
    handle, _, layout = granted(client)
    current = client.call(put(handle), layout_ops.layoutget(layout)).stateid
    beside = client.call(put(handle), layout_ops.layoutget(layout)).stateid
    assert beside.seqid == current.seqid + 1
    assert server.recall(cookie=1) == 0
    recalled = client.backchannel.next_recall().stateid
    assert recalled.seqid > beside.seqid
    client.call(put(handle), layout_ops.layoutcommit(current))
    client.call(put(handle), layout_ops.layouterror(current, [(DEVICE, Status.NOSPC, Op.WRITE)]))
    client.call(put(handle), layout_ops.layoutstats(current, DEVICE, (1, 4096), (0, 0)))
    late = client.compound(put(handle), layout_ops.layoutget(current))
    assert late.status == Status.RECALLCONFLICT
    newer = recalled.with_seqid(recalled.seqid + 1)
    for operation in (layout_ops.layoutcommit(newer), layout_ops.layoutget(newer),
                      layout_ops.layouterror(newer, [(DEVICE, Status.NOSPC, Op.WRITE)]),
                      layout_ops.layoutstats(newer, DEVICE, (1, 4096), (0, 0))):
        assert client.compound(put(handle), operation).status == Status.BAD_STATEID
    client.call(put(handle), layout_ops.layoutreturn(recalled))
    healthy(server)


def test_0035_a_layoutcommit_of_a_layout_that_was_returned(server, client):
    handle, opened, layout = granted(client)
    client.call(put(handle), layout_ops.layoutreturn(layout))
    late = client.compound(put(handle), layout_ops.layoutcommit(layout))
    assert late.status == Status.BADLAYOUT
    assert [call["segment"] for call in server.calls("layoutcommit")] == [0]
    server.set(layoutcommit_status=Status.DELAY)
    late = client.compound(put(handle), layout_ops.layoutcommit(layout))
    assert late.status == Status.DELAY
    server.set(layoutcommit_status=0)
    wrong = client.compound(put(handle), layout_ops.layoutcommit(opened))
    assert wrong.status == Status.BAD_STATEID  # a stateid that exists, and is no layout
    healthy(server)


def test_0039_attributes_invalidated_while_they_are_fetched(server, client):
    handle, _ = client.open("/layout", b"file", create=True)
    size = [const.ATTR_SIZE]
    server.set(getattrs_invalidates=1)
    client.call(put(handle), ops.setattr(mode=0o600))
    healthy(server)
    asked = server.calls("getattrs")
    assert {call["told"] for call in asked} == {0}
    server.set(getattrs_invalidates=0)
    client.call(put(handle), ops.getattr(size))
    server.set(getattrs_invalidates=1)
    client.call(put(handle), ops.getattr(size))  # from the cache: what is in it is trusted
    assert len(server.calls("getattrs")) == len(asked)
    client.call(put(handle), ops.setattr(mode=0o644))
    asked = server.calls("getattrs")
    client.call(put(handle), ops.getattr(size))
    assert len(server.calls("getattrs")) == len(asked) + 1, "what came meanwhile is trusted"
    healthy(server)


def test_0040_a_lock_that_a_client_without_sessions_waits_for(server):
    """Nothing tells it that the lock is free, and it keeps nobody else waiting."""
    with Client40(server.address) as holder, Client40(server.address) as waiter, \
            Client40(server.address) as other:
        handle, opened = holder.open("/layout", b"file", create=True)
        status, held = holder.lock(handle, opened, b"holder")
        assert status == Status.OK
        _, waiting = waiter.open("/layout", b"file")
        assert waiter.lock(handle, waiting, b"waiter")[0] == Status.DENIED
        held = holder.unlock(handle, held, b"holder").stateid
        time.sleep(0.5)
        healthy(server)
        assert waiter.callbacks == []
        _, opened = other.open("/layout", b"file")
        status, held = other.lock(handle, opened, b"other")
        assert status == Status.OK
        assert waiter.lock(handle, waiting, b"waiter")[0] == Status.DENIED
        other.unlock(handle, held, b"other")
        assert waiter.lock(handle, waiting, b"waiter")[0] == Status.OK


def test_0042_a_client_is_asked_to_return_what_it_chooses(server, new_client):
    client, other = new_client(), new_client()
    granted(client)
    whom = server.calls("layoutget")[-1]["client"]
    mask = 1 << 16 | 1 << 17
    assert server.recall_any(whom, 3, mask) == Status.OK
    assert client.backchannel.asked == [(3, [mask])]
    client.backchannel.any_status = Status.INVAL
    for _ in range(20):  # each gives its slot back
        assert server.recall_any(whom, 0, mask) == Status.INVAL
    assert other.backchannel.asked == []
    with pytest.raises(Exception, match="error"):
        server.recall_any(whom + 1000, 0, mask)
    client.vanish()

    def cannot_be_asked():
        try:
            server.recall_any(whom, 0, mask)
        except Exception as error:
            return "error" in str(error)
        return False  # the server has not seen yet that the connection is gone
    until(cannot_be_asked, 30)
    healthy(server)


def test_0033_a_server_that_was_stopped_keeps_its_clients(start):
    server = start(lease_s=4)
    with Client(server.address) as client:
        handle, _, layout = granted(client)
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(6)
        server.process.send_signal(signal.SIGCONT)
        client.call(put(handle), layout_ops.layoutcommit(layout))
        time.sleep(8)  # and its lease still ends
        assert client.compound(ops.putrootfh()).status == Status.BADSESSION
    healthy(server)


def thresholds(client, *before):
    wanted = ops.getattr([const.ATTR_SIZE, const.ATTR_MDSTHRESHOLD])
    return client.call(*before, wanted).attributes[const.ATTR_MDSTHRESHOLD]


def opened(client, name, directory="/layout"):
    return [*client.at(directory), ops.open_file(name, client.clientid, create=True)]


def test_0050_mdsthreshold_is_told_with_an_open(server, client):
    assert thresholds(client, *opened(client, b"none")) == []
    server.set(mds_threshold=1000)
    told = [(const.LAYOUT4_NFSV4_1_FILES, {0: 1000, 1: 1001, 3: 1002})]
    assert thresholds(client, *opened(client, b"file")) == told
    # Without an OPEN, and of what is no file, there is none to tell.
    assert thresholds(client, put(client.handle("/layout/file"))) == []
    assert thresholds(client, *client.at("/layout")) == []
    assert thresholds(client, *opened(client, b"file", "/mem")) == []
    healthy(server)


def test_0051_layoutget_with_open(server, client):
    handle, stateid, _ = granted(client)
    assert server.calls("layoutget with open") == []
    client.call(*opened(client, b"other"), layout_ops.layoutget(ops.CURRENT))
    assert len(server.calls("layoutget with open")) == 1
    client.call(put(handle), layout_ops.layoutget(stateid))
    assert len(server.calls("layoutget with open")) == 1
    healthy(server)


@pytest.mark.parametrize("mode", [0o644, 0o711])
def test_0036_who_may_not_write_does_not_truncate(server, client, mode):
    handle, opened = client.open("/mem", b"file", create=True, mode=mode)
    client.call(put(handle), ops.write(opened, 0, b"x" * 1000))
    directory = client.at("/mem")
    other = auth_sys(1234, 1234)

    def truncate():
        return client.compound(
            *directory, ops.open_file(b"file", client.clientid, owner=b"other", size=0, create=True,
                                      share=const.SHARE_READ), credential=other).status

    def size():
        return client.call(put(handle), ops.getattr([const.ATTR_SIZE])).attributes[const.ATTR_SIZE]

    assert truncate() == Status.ACCESS and size() == 1000
    # And when the open owner has the file open for reading already.
    client.call(*directory, ops.open_file(b"file", client.clientid, owner=b"other",
                                          share=const.SHARE_READ), credential=other)
    assert truncate() == Status.ACCESS and size() == 1000
    client.call(put(handle), ops.setattr(mode=0o666))
    assert truncate() == Status.OK and size() == 0


def test_0037_a_directory_that_may_be_read_and_not_searched_is_listed(server, client):
    client.call(*client.at("/mem"), ops.create_directory(b"names", 0o744))
    client.open("/mem/names", b"file", create=True)
    bits = [const.ATTR_TYPE, const.ATTR_RDATTR_ERROR]
    listed = client.compound(*client.at("/mem"), ops.lookup(b"names"), ops.readdir(bits=bits),
                             credential=auth_sys(1234, 1234))
    assert listed.status == Status.OK and listed.last.eof
    entry, = listed.last.entries
    assert entry.name == b"file" and entry.attributes == {const.ATTR_RDATTR_ERROR: Status.ACCESS}


@pytest.mark.parametrize("guarded", [True, False])
def test_0047_a_create_looks_up_its_name_once(server, client, guarded):
    server.set(records_lookups=1)
    opening = [ops.putfh(client.handle("/layout")),
               ops.open_file(b"new", client.clientid, create=True, guarded=guarded)]
    assert client.compound(*opening).status == Status.OK
    assert [call["name"] for call in server.calls("lookup")].count("new") == 1
    assert client.compound(*opening).status == (Status.EXIST if guarded else Status.OK)


def test_0059_a_request_wakes_a_worker_once(server):
    """On one processor, where who is woken runs at once; where others take it away, it may not."""
    tasks = pathlib.Path(f"/proc/{server.process.pid}/task")
    for task in tasks.iterdir():
        os.sched_setaffinity(int(task.name), {min(os.sched_getaffinity(0))})

    def sleeps():
        words = " ".join((task / "status").read_text() for task in tasks.iterdir()).split()
        return sum(int(words[at + 1]) for at, word in enumerate(words)
                   if word == "voluntary_ctxt_switches:")

    with Connection(server.address, 5.0) as connection:
        def sleeps_of_a_request():
            before = sleeps()
            for _ in range(1000):
                connection.call(const.NFS_PROGRAM, const.NFS_VERSION, 0, b"", auth_none())
            return (sleeps() - before) / 1000
        assert sorted(sleeps_of_a_request() for _ in range(5))[2] < 2.25
