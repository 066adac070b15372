"""What all system tests share. They need root, for namespaces and taps; see docs/testing.md."""

import os
import re
import shutil
from contextlib import nullcontext
from functools import partial

import pytest

from harness import schedule, stores
from harness.client import start_clients
from harness.cluster import Cluster
from harness.counters import through_data_servers, weft
from harness.network import Network
from harness.process import tail
from harness.run import LIVE_RUNS, Run
from harness.schedule import (  # noqa: F401  hooks: how workers run the tests side by side
    pytest_configure_node, pytest_runtest_protocol, pytest_unconfigure,
    pytest_xdist_auto_num_workers, pytest_xdist_make_scheduler)


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes minutes; only ./dev test long runs it")
    config.addinivalue_line("markers", "any_store: says nothing of where objects are; WEFT_STORE")
    config.addinivalue_line("markers", "faults: kills, freezes or cuts something")
    config.addinivalue_line("markers", "alone: no other test runs meanwhile")


def pytest_collection_modifyitems(config, items):
    schedule.order_for_workers(config, items)
    reason = _missing()
    if reason:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


def _missing() -> str:
    if os.geteuid() != 0:
        return "system tests need root, for network namespaces"
    if not os.path.exists("/dev/net/tun"):
        return "this host has no /dev/net/tun, so client machines would have no network"
    if not shutil.which("ip") or not shutil.which("mmdebstrap"):
        return "iproute2 or mmdebstrap is not installed (tools/dev/clients.sh --print-packages)"
    return ""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows the end of every log of the runs that live at that moment."""
    outcome = yield
    report = outcome.get_result()
    if not report.failed:
        return
    for run in LIVE_RUNS:
        logs = sorted([*run.folder.glob("*.log"), *run.folder.glob("*/console.log")])
        for log in logs:
            report.sections.append((f"{run.name} {log.relative_to(run.folder)}", tail(log, 25)))


@pytest.fixture
def run():
    with Run() as one:
        yield one


@pytest.fixture
def network(run):
    return Network(run)


class System:
    """One Weft with four data servers and up to two clients that have it mounted, shared by all
    tests that break nothing. Made again if a test did break it. Jobs are an ordinary user's."""

    def __init__(self):
        self.run = Run()
        self.network = Network(self.run)
        try:
            self.cluster = Cluster(self.run, self.network)
            self.clients = []
            self.add_clients(1)
        except BaseException:
            self.run.close()
            raise

    def add_clients(self, count: int) -> None:
        missing = count - len(self.clients)
        if missing > 0:
            self.clients += start_clients(self.run, self.network, ["uml61"] * missing,
                                          first=len(self.clients))
            for client in self.clients[-missing:]:
                client.mount(self.cluster.address, self.cluster.path)

    def healthy(self) -> bool:
        processes = [self.cluster.mds, *(server.process for server in self.cluster.ds)]
        if not all(process.alive for process in processes):
            return False
        return all(client.alive and client.run("stat -f /mnt/nfs", 15, check=False).status == 0
                   for client in self.clients)


_shared: list[System] = []


def _shared_system() -> System:
    if _shared and not _shared[0].healthy():
        _shared.pop().run.close()
    if not _shared:
        _shared.append(System())
    for client in _shared[0].clients:  # those of a test before are not this one's
        client.forget_events()
    return _shared[0]


@pytest.fixture
def system():
    return _shared_system()


@pytest.fixture
def cluster(system):
    return system.cluster


@pytest.fixture
def client(system):
    return system.clients[0]


@pytest.fixture
def two_clients(system):
    system.add_clients(2)
    return system.clients


@pytest.fixture
def folder(request, client):
    """An empty folder on the mount, as clients see it; left empty-handed."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    path = f"/mnt/nfs/{name}"
    client.run(f"rm -rf {path}; mkdir {path}")
    yield path
    if client.alive:
        client.run(f"rm -rf {path}", check=False)


# What may be in the metadata store; None: what an export has that says nothing, 16 KiB.
INLINE = {"objects": "0", "inline": None, "inline 1MiB": "1MiB"}


@pytest.fixture(params=["objects", "inline", pytest.param("inline 1MiB", marks=pytest.mark.long)])
def through(request, cluster, folder):
    """through_data_servers() of the files in the folder. A test that takes it runs with all files
    at data servers, and with small ones in the metadata store; ./dev test long has most there, too.
    Then I/O may be anywhere, and is not counted."""
    limit = INLINE[request.param]
    if limit != "0" and (not cluster.counted or stores.chosen() != "folder"):
        pytest.skip("the other store is the data servers'")
    if limit and cluster.counted:
        path = cluster.path + folder.removeprefix("/mnt/nfs")
        weft(cluster, "policy", "set", path, f"inline={limit}")
    if limit != "0":
        return lambda **bounds: nullcontext({})
    return partial(through_data_servers, cluster)


def pytest_sessionfinish():
    while _shared:
        _shared.pop().run.close()
