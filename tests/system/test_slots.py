"""A session at a data server has as many slots as its configuration says, which clients need that
are far away: asked by the wire client, of one data server without a metadata server."""

import pytest
from harness.cluster import Options
from harness.config import NFS_PORT
from harness.in_namespace import InNamespace
from harness.standalone import Standalone
from wire import Client, Status, const, ops

FIRST = 1  # a slot's first sequence number


@pytest.mark.parametrize(("configured", "wanted", "given"),
                         [(64, 512, 64), (512, 512, 512), (512, 100, 100)])
def test_a_session_gets_the_slots_that_the_configuration_says(run, network, configured, wanted,
                                                              given):
    system = Standalone(run, network, Options(server_options=f"max_slots = {configured}\n"))
    address = (system.ds[0].node.address, NFS_PORT)
    client = InNamespace(system.ds[0].node, lambda: Client(
        address, backchannel=False, timeout=30, slots=wanted,
        flags=const.EXCHGID_USE_PNFS_DS)).result(60)
    assert client.attributes.max_requests == given
    for slot in range(1, given):  # the first one was used for RECLAIM_COMPLETE
        reply = client.send(ops.sequence(client.session, FIRST, slot, given - 1)).check()
        assert reply.last.target_highest_slot == given - 1
    beyond = client.send(ops.sequence(client.session, FIRST, given, given))
    assert beyond.status == Status.BADSLOT
    client.close()
