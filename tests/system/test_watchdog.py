"""A metadata server that hangs is one of which the service manager hears no more. One whose store
waits for its disk is not."""

import os
import signal
import socket
import struct

import pytest
from harness import disks
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.hang import hung
from harness.in_namespace import InNamespace
from harness.run import wait_until

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not os.path.exists("/dev/loop-control"), reason="needs loop devices")]

PATIENCE_S = 6  # in the place of the unit's 30
WORKERS = 12  # of Ganesha, some of which wait for connections


class Manager:
    """What systemd hears, and how it would decide."""

    def __init__(self, run):
        path = run.folder / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        run.on_close(self.socket.close)
        self.environment = {"NOTIFY_SOCKET": str(path),
                            "WATCHDOG_USEC": str(PATIENCE_S * 1_000_000)}

    def hear(self, word: bytes) -> None:
        self.socket.settimeout(60)
        while word not in self.socket.recv(1000):
            pass

    def forget(self) -> None:
        """What was said until now."""
        self.socket.settimeout(0)
        try:
            while True:
                self.socket.recv(1000)
        except BlockingIOError:
            pass

    def would_end_it(self) -> bool:
        """It has said nothing for so long. A round or two after it hangs it may still."""
        self.socket.settimeout(PATIENCE_S)
        for _ in range(10):
            try:
                self.socket.recv(1000)
            except TimeoutError:
                return True
        return False


@pytest.fixture
def manager(run):
    return Manager(run)


def start(run, network, manager) -> Cluster:
    cluster = Cluster(run, network, Options(data_servers=1, mds_mib=256,
                                            extra={"Metadata_Timeout": "600"}))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    cluster.mds.stop()
    conf = cluster.folder / "ganesha.conf"
    conf.write_text(conf.read_text().replace(
        "NFS_CORE_PARAM {", f"NFS_CORE_PARAM {{\n  RPC_Ioq_ThrdMax = {WORKERS};", 1))
    cluster.mds.env = manager.environment
    cluster.restart_mds()
    manager.hear(b"READY=1")
    manager.hear(b"WATCHDOG=1")
    cluster.wait_up()
    return cluster


@pytest.mark.parametrize("what, chosen", [
    ("Ganesha's workers", lambda name: not name.startswith("weft-")),
    ("the thread for data servers", lambda name: name == "weft-control"),
], ids=["workers", "control"])
def test_threads_that_hang(run, network, manager, what, chosen):
    cluster = start(run, network, manager)
    with hung(cluster.mds.pid, chosen):
        assert manager.would_end_it(), f"without {what}"
    manager.hear(b"WATCHDOG=1")
    assert cluster.mds.alive


def test_a_process_that_is_stopped(run, network, manager):
    cluster = start(run, network, manager)
    cluster.mds.signal(signal.SIGSTOP)
    assert manager.would_end_it()
    cluster.mds.signal(signal.SIGCONT)
    manager.hear(b"WATCHDOG=1")


def answers(cluster: Cluster) -> bool:
    """Whether a worker is free: it answers NULL, which needs no store."""
    call = struct.pack(">11I", 1 << 31 | 40, 1, 0, 2, 100003, 4, 0, 0, 0, 0, 0)

    def ask() -> bool:
        try:
            with socket.create_connection((cluster.address, cluster.options.mds_port), 3) as there:
                there.sendall(call)
                return len(there.recv(4)) == 4
        except TimeoutError:
            return False
    # A worker that has waited for connections of one group takes what came by another once it is
    # woken: what comes first may wake it, and be answered late.
    return InNamespace(cluster.mds_node, lambda: any(ask() for _ in range(3))).result()


def test_a_store_that_is_slow(run, network, manager):
    """All workers wait for it, for longer than the service manager has patience."""
    cluster = start(run, network, manager)
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    client.run(f"cd /mnt/nfs && mkdir $(seq {4 * WORKERS}) && sync")
    with disks.frozen(cluster.folder):
        job = client.start_job(f"cd /mnt/nfs; for i in $(seq {4 * WORKERS}); do mkdir $i/new & "
                               "done; wait")
        # A machine that is busy with other things answers late, too.
        for _ in range(10):
            wait_until(lambda: not answers(cluster), 120, "all workers to wait")
            manager.forget()
            assert not manager.would_end_it()
            if not answers(cluster):
                break
        else:
            pytest.fail("a worker was free")
    job.wait(120)
    client.run(f"cd /mnt/nfs && test $(ls -d */new | wc -l) = {4 * WORKERS}")
    assert cluster.mds.alive
