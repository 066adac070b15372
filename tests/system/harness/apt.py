"""Debian packages fetched through the machine's own apt configuration, never installed.

No registry's name is written here: sources, proxies and keys are whatever apt is set up to use.
"""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path


class AptError(RuntimeError):
    """apt could not name or fetch a package; the text says which and what to try."""


def _run(command: list[str], cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise AptError(f"'{' '.join(command)}' ended with {done.returncode}:\n"
                       f"{done.stdout[-2000:].rstrip()}\n(would 'apt-get update' help?)")
    return done.stdout


def _release_of_machine() -> str:
    """Its codename, as apt's sources have it."""
    return platform.freedesktop_os_release()["VERSION_CODENAME"]


def source_lines(suite: str, component: str = "main") -> list[str]:
    """The 'deb' lines of this machine for a suite and its updates and security suites. For another
    release of Debian than the machine's, and than its sources name, those of its own release with
    that name in place of its own."""
    lines = _known_lines(suite, component)
    own = _release_of_machine()
    if not lines and suite != own:
        lines = [re.sub(rf"\b{own}\b", suite, line) for line in _known_lines(own, component)]
        keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
        if keyring.exists():
            lines = [re.sub(r"^deb (\[.*?\] )?", f"deb [signed-by={keyring}] ", line)
                     for line in lines]
    if not lines:
        raise AptError(f"apt on this machine has no source for Debian {suite}, nor one for its own "
                       "release to go by; root folders need one")
    return lines


def _known_lines(suite: str, component: str) -> list[str]:
    """Empty unless the suite itself is among them."""
    rows = _run(["apt-get", "indextargets", "--format",
                 "$(CREATED_BY)|$(SITE)|$(RELEASE)|$(COMPONENT)|$(SIGNED_BY)"])
    lines = []
    for row in rows.splitlines():
        created_by, site, release, comp, signed_by = row.split("|", 4)
        wanted = release in (suite, f"{suite}-updates", f"{suite}-security")
        if created_by != "Packages" or comp != component or not wanted:
            continue
        option = f"[signed-by={signed_by}] " if signed_by.startswith("/") else ""
        line = f"deb {option}{site} {release} {component}"
        if line not in lines:
            lines.append(line)
    return lines if any(f" {suite} " in line for line in lines) else []


def candidate(package: str) -> str:
    """The version apt would install now."""
    for line in _run(["apt-cache", "policy", package]).splitlines():
        key, _, value = line.strip().partition(": ")
        if key == "Candidate" and value != "(none)":
            return value
    raise AptError(f"apt knows no package '{package}' (would 'apt-get update' help?)")


def first_dependency(package: str, prefix: str) -> str:
    """The first dependency whose name starts with prefix: what a meta-package stands for."""
    for line in _run(["apt-cache", "depends", package]).splitlines():
        kind, _, name = line.strip().partition(": ")
        if kind == "Depends" and name.startswith(prefix):
            return name
    raise AptError(f"'{package}' depends on nothing called {prefix}*")


def unpack(package: str, target: Path, scratch: Path) -> str:
    """Downloads a package and unpacks its files under target. Returns its version."""
    version = candidate(package)
    folder = scratch / f"deb-{package}"
    folder.mkdir(parents=True)
    _run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", f"{package}={version}"],
         cwd=folder)
    debs = list(folder.glob("*.deb"))
    if len(debs) != 1:
        raise AptError(f"expected one file for {package}={version}, got {[d.name for d in debs]}")
    target.mkdir(parents=True, exist_ok=True)
    _run(["dpkg", "-x", str(debs[0]), str(target)])
    shutil.rmtree(folder)
    return version


def bootstrap(suite: str, packages: list[str], target: Path, hook: str) -> None:
    """A root folder by mmdebstrap, with packages; hook is a shell line, run with its path in $1."""
    sources = "\n".join(source_lines(suite)) + "\n"
    proxies = []
    for scheme in ("http", "https"):
        shown = _run(["apt-config", "shell", "value", f"Acquire::{scheme}::Proxy"])
        if shown.startswith("value='") and len(shown) > len("value=''\n"):
            proxies.append(f"--aptopt=Acquire::{scheme}::Proxy \"{shown[7:].rstrip()[:-1]}\"")
    command = ["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase",
               "--aptopt=Apt::Install-Recommends false", *proxies,
               "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
               "--dpkgopt=path-exclude=/usr/share/locale/*",
               f"--include={','.join(packages)}", f"--customize-hook={hook}",
               suite, str(target), "-"]
    done = subprocess.run(command, input=sources, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT,
                          env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    if done.returncode != 0:
        raise AptError(f"mmdebstrap ended with {done.returncode}:\n{done.stdout[-3000:]}")
