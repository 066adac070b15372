"""Prometheus' own tool: it checks metrics, and tests alerting rules.

It is unpacked from Debian's package, not installed: that would have Prometheus run on this machine.
"""

import shutil
import subprocess
from pathlib import Path

from . import apt, images


def _build(folder: Path, scratch: Path) -> dict:
    version = apt.unpack("prometheus", scratch / "deb", scratch)
    shutil.copy(scratch / "deb/usr/bin/promtool", folder / "promtool")
    return {"prometheus": version}


RECIPE = images.Recipe("promtool", [images.SUITE], _build)


def run(*arguments: str, given: str = "", cwd: Path | None = None) -> tuple[int, str]:
    """The exit status, and what it said."""
    program = images.ensure(RECIPE) / "promtool"
    done = subprocess.run([str(program), *arguments], input=given, cwd=cwd, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    return done.returncode, done.stdout


def missing() -> str:
    """Why it cannot be had; empty: it is there."""
    try:
        images.ensure(RECIPE)
    except apt.AptError as error:
        return f"no promtool: {error}"
    return ""
