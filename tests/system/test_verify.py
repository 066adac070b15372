"""'weft verify' on a real client: does it tell pNFS from a silent fall-back?"""

import json

import pytest
from harness import paths


@pytest.fixture
def verify(cluster, client):
    if not cluster.counted:
        pytest.skip("needs a Weft")
    client.install(paths.weft_command())

    def verify(mount: str, status: int) -> dict:
        """Runs it and returns its JSON; status is the exit status expected."""
        done = client.run(f"weft verify {mount} --size 8MiB --output json", check=False)
        assert done.status == status, done.output
        return json.loads(done.output[done.output.index("{"):])
    return verify


def test_a_pnfs_mount(verify, folder):
    found = verify("/mnt/nfs", 0)
    assert (found["pnfs"], found["driver"]) == ("yes", "files"), found
    assert found["mds_reads"] + found["mds_writes"] == 0, found


def test_a_v40_mount_can_never(cluster, client, verify):
    client.mount(cluster.address, cluster.path, "vers=4.0", at="/mnt/v40")
    try:
        found = verify("/mnt/v40", 1)
        assert found["pnfs"] == "impossible", found
        assert any("4.0" in reason for reason in found["reasons"]), found
    finally:
        client.unmount("/mnt/v40")
