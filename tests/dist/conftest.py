"""Tests of what is installed. Those of packages need a folder of them: ./dev package names it."""

import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "system"))

import roots  # noqa: E402


def missing() -> str:
    """Why packages cannot be tested here; empty if they can."""
    if not os.environ.get("WEFT_PACKAGES"):
        return "no packages: ./dev package builds them and runs these tests"
    if os.geteuid() != 0:
        return "root folders need root"
    programs = [name for name in ("mmdebstrap", "systemd-nspawn", "ip") if not shutil.which(name)]
    return f"not installed: {', '.join(programs)}" if programs else ""


@pytest.fixture(scope="session")
def packages() -> Path:
    """The folder of the packages."""
    if missing():
        pytest.skip(missing())
    return Path(os.environ["WEFT_PACKAGES"]).resolve()


@pytest.fixture(scope="session")
def run(packages):
    from harness.run import Run
    with Run() as one:
        yield one


@pytest.fixture(scope="session")
def installed(run, packages) -> roots.Root:
    """A bare Debian with all packages installed. Tests look at it, and build upon it."""
    root = roots.Root(run, "installed", [roots.bare(packages)], packages)
    root.install(roots.PACKAGES)
    return root
