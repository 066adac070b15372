"""What all system tests share. They need root, for namespaces and taps; see docs/testing.md."""

import os
import shutil

import pytest

from harness import images, paths
from harness.network import Network
from harness.process import tail
from harness.run import LIVE_RUNS, Run


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes minutes; only ./dev test long runs it")
    config.addinivalue_line("markers", "faults: kills, freezes or cuts something")


def pytest_collection_modifyitems(items):
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


def need_kind(kind: str) -> None:
    """Builds the kind's image, but for the kernel that takes minutes: that is left to ./dev."""
    if kind == "uml612" and not images.available(kind):
        pytest.skip("the 6.12 client kernel is not built: tools/dev/clients.sh build uml612")
    images.ensure(images.KINDS[kind])


@pytest.fixture
def run():
    with Run() as one:
        yield one


@pytest.fixture
def network(run):
    return Network(run)


@pytest.fixture(scope="session")
def build():
    """The build folder under test; skips when it has not been built."""
    if not paths.build_folder().is_dir():
        pytest.skip(f"{paths.build_folder()} is missing: ./dev build")
    return paths.build_folder()
