"""Builds and caches the client machines: root folder, kernels, initramfs.

Each image is a folder <cache>/<name>-<hash>, where the hash covers everything that decides its
content but the packages' versions. It is built in a temporary folder and renamed, so a folder
that exists is whole. Building twice is a no-op; two builders at once wait for each other.

    python3 -m harness.images build [uml61|qemu61|uml612|rdma|all]
    python3 -m harness.images list
    python3 -m harness.images --print-packages
"""

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

from . import apt, paths

SUITE = "bookworm"
ROOT_PACKAGES = ["nfs-common", "iproute2", "iputils-ping", "kmod", "fio", "python3", "procps",
                 "strace", "util-linux", "netbase", "attr"]
HOST_PACKAGES = ["mmdebstrap", "busybox-static", "cpio", "kmod", "e2fsprogs", "qemu-system-x86",
                 "iproute2", "python3-pytest", "make", "gcc", "bc", "bison", "flex", "xz-utils"]
QEMU_MODULES = ["virtio_pci", "virtio_blk", "virtio_net", "virtio_console", "ext4", "sunrpc",
                "nfsv4", "nfs_layout_nfsv41_files", "nfs_layout_flexfiles"]
RDMA_MODULES = ["9pnet_virtio", "9p", "crc32_generic", "rdma_rxe", "rdma_ucm", "rpcrdma"]
GUEST = paths.HARNESS / "guest"
UML_612_CONFIG = paths.HARNESS / "recipes" / "uml-6.12.config"
UML_XSTATE = paths.HARNESS / "recipes" / "uml-xstate.c"


class ImageError(RuntimeError):
    """An image could not be built; the text says at which step."""


@dataclass
class Recipe:
    """What an image is made of. build(folder, scratch) fills folder and returns versions."""

    name: str
    inputs: list[str]
    build: Callable[[Path, Path], dict]
    needs: list["Recipe"] = field(default_factory=list)

    def key(self) -> str:
        text = json.dumps([self.name, self.inputs, [need.key() for need in self.needs]])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def folder(self) -> Path:
        return paths.cache_folder() / f"{self.name}-{self.key()}"


def _say(text: str) -> None:
    print(f"client machines: {text}", file=sys.stderr, flush=True)


def _run(step: str, command: list[str], **options) -> str:
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, **options)
    if done.returncode != 0:
        raise ImageError(f"{step}: '{' '.join(map(str, command[:6]))} ...' ended with "
                         f"{done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


@contextmanager
def _locked(name: str):
    folder = paths.cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f".{name}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"{name}: another process is building it, waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def ensure(recipe: Recipe) -> Path:
    """The image's folder, built now if the cache lacks it."""
    for need in recipe.needs:
        ensure(need)
    if recipe.folder().is_dir():
        return recipe.folder()
    with _locked(recipe.name):
        if recipe.folder().is_dir():
            return recipe.folder()
        for leftover in paths.cache_folder().glob(f".new-{recipe.name}-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".new-{recipe.name}-", dir=paths.cache_folder()))
        try:
            started = time.monotonic()
            _say(f"{recipe.name}: building")
            target = scratch / "image"
            target.mkdir(mode=0o755)
            versions = recipe.build(target, scratch)
            (target / "info.json").write_text(json.dumps(versions, indent=1) + "\n")
            os.rename(target, recipe.folder())
            _say(f"{recipe.name}: built in {time.monotonic() - started:.0f} s, {versions}")
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return recipe.folder()


def _build_root(folder: Path, scratch: Path) -> dict:
    shutil.copy(GUEST / "uml-init.sh", scratch / "weft-init")
    (scratch / "weft-init").chmod(0o755)
    hook = (f'cp {scratch}/weft-init "$1/weft-init" && mkdir -p "$1/lib/modules" '
            '&& ln -sf /proc/mounts "$1/etc/mtab" && echo weft-client > "$1/etc/hostname"')
    apt.bootstrap(SUITE, ROOT_PACKAGES, folder / "root", hook)
    return {"suite": SUITE}


def _build_preload(folder: Path) -> None:
    _run("preload", ["gcc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", str(UML_XSTATE),
                     "-o", str(folder / "preload.so")])


def _build_uml61(folder: Path, scratch: Path) -> dict:
    version = apt.unpack("user-mode-linux", scratch / "deb", scratch)
    shutil.copy(scratch / "deb/usr/bin/linux.uml", folder / "linux")
    shutil.copytree(scratch / "deb/usr/lib/uml/modules", folder / "modules", symlinks=True)
    _build_preload(folder)
    return {"user-mode-linux": version}


def _build_uml612(folder: Path, scratch: Path) -> dict:
    version = apt.unpack("linux-source-6.12", scratch / "deb", scratch)
    _run("unpack", ["tar", "-C", str(scratch), "-xf",
                    str(scratch / "deb/usr/src/linux-source-6.12.tar.xz")])
    tree = scratch / "linux-source-6.12"
    make = ["make", "-s", "ARCH=um"]
    _run("configure", [*make, "defconfig"], cwd=tree)
    _run("configure", ["scripts/kconfig/merge_config.sh", "-m", ".config", str(UML_612_CONFIG)],
         cwd=tree, env={**os.environ, "ARCH": "um"})
    _run("configure", [*make, "olddefconfig"], cwd=tree)
    _check_config(tree / ".config")
    _say("uml612: compiling, some minutes")
    _run("compile", ["nice", *make, f"-j{os.cpu_count() or 1}", "linux"], cwd=tree)
    shutil.copy(tree / "linux", folder / "linux")
    _build_preload(folder)
    return {"linux-source-6.12": version}


def _check_config(config: Path) -> None:
    made = config.read_text()
    wanted = [line for line in UML_612_CONFIG.read_text().splitlines() if line.endswith("=y")]
    missing = [line for line in wanted if line not in made]
    if missing:
        raise ImageError(f"configure: the kernel refused {', '.join(missing)}")


def _unpack_kernel(meta_package: str, modules: list[str], folder: Path, scratch: Path) -> dict:
    """A kernel of Debian's, unpacked, and an initramfs with these modules of it."""
    package = apt.first_dependency(meta_package, "linux-image-")
    version = apt.unpack(package, scratch / "deb", scratch)
    shutil.copy(next((scratch / "deb/boot").glob("vmlinuz-*")), folder / "vmlinuz")
    _make_initramfs(scratch / "deb", modules, scratch / "initramfs", folder / "initramfs.gz")
    return {package: version}


def _build_rdma(folder: Path, scratch: Path) -> dict:
    """The cloud kernel has no RDMA, the one for all machines has. The root disk is the same."""
    os.link(QEMU61.folder() / "root.ext4", folder / "root.ext4")
    return _unpack_kernel("linux-image-amd64", QEMU_MODULES + RDMA_MODULES, folder, scratch)


def _build_qemu61(folder: Path, scratch: Path) -> dict:
    versions = _unpack_kernel("linux-image-cloud-amd64", QEMU_MODULES, folder, scratch)
    root = ROOT.folder() / "root"
    kib = int(_run("measure", ["du", "-sk", "--apparent-size", str(root)]).split()[0])
    _run("root disk", ["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", str(root),
                       str(folder / "root.ext4"), f"{kib * 5 // 4 + 65536}k"])
    return versions


def _make_initramfs(tree: Path, modules: list[str], stage: Path, result: Path) -> None:
    """busybox, the modules a client needs in the order they load, and our init."""
    release = next((tree / "lib/modules").iterdir()).name
    _run("modules", ["depmod", "-b", str(tree), release])
    ordered = []
    for module in modules:
        shown = _run("modules", ["modprobe", "-d", str(tree), "-S", release, "--show-depends",
                                 module])
        for file in re.findall(r"^insmod (\S+)", shown, re.M):
            if file not in ordered:
                ordered.append(file)
    for part in ("bin", "etc", "lib/modules"):
        (stage / part).mkdir(parents=True)
    shutil.copy("/bin/busybox", stage / "bin/busybox")
    names = []
    for file in ordered:
        name = f"/lib/modules/{Path(file).name}"
        shutil.copy(file, f"{stage}{name}")
        names.append(name)
    (stage / "etc/modules-in-order").write_text("\n".join(names) + "\n")
    shutil.copy(GUEST / "initramfs-init.sh", stage / "init")
    (stage / "init").chmod(0o755)
    _run("initramfs", ["sh", "-c", f"find . | cpio -o -H newc --quiet | gzip -1 > {result}"],
         cwd=stage)


def _text(*files: Path) -> list[str]:
    return [file.read_text() for file in files]


ROOT = Recipe("root", [SUITE, *ROOT_PACKAGES, *_text(GUEST / "uml-init.sh")], _build_root)
UML61 = Recipe("uml61", ["user-mode-linux", *_text(UML_XSTATE)], _build_uml61, [ROOT])
UML612 = Recipe("uml612", _text(UML_612_CONFIG, UML_XSTATE), _build_uml612, [ROOT])
QEMU61 = Recipe("qemu61", [*QEMU_MODULES, *_text(GUEST / "initramfs-init.sh")], _build_qemu61,
                [ROOT])
RDMA = Recipe("rdma", [*QEMU_MODULES, *RDMA_MODULES, *_text(GUEST / "initramfs-init.sh")],
              _build_rdma, [QEMU61])
KINDS = {recipe.name: recipe for recipe in (UML61, QEMU61, UML612, RDMA)}


def available(kind: str) -> bool:
    """Whether the kind's image is in the cache, for tests that would rather skip than build."""
    return KINDS[kind].folder().is_dir() and ROOT.folder().is_dir()


def main() -> int:
    parser = argparse.ArgumentParser(prog="harness.images", description=__doc__.split("\n")[0])
    parser.add_argument("--print-packages", action="store_true",
                        help="Debian packages the host needs to build and run client machines")
    parser.add_argument("action", nargs="?", choices=["build", "list"])
    parser.add_argument("kinds", nargs="*", help=f"{', '.join(KINDS)} or all; default uml61")
    chosen = parser.parse_args()
    if chosen.print_packages:
        print(" ".join(HOST_PACKAGES))
        return 0
    if chosen.action == "list":
        for kind, recipe in KINDS.items():
            print(kind, recipe.folder(), "built" if available(kind) else "absent")
        return 0
    if chosen.action != "build":
        parser.error("nothing to do: give build, list or --print-packages")
    kinds = list(KINDS) if "all" in chosen.kinds else chosen.kinds or ["uml61"]
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        parser.error(f"no client machine called {', '.join(unknown)}; known: {', '.join(KINDS)}")
    try:
        for kind in kinds:
            print(ensure(KINDS[kind]))
    except (ImageError, apt.AptError, OSError) as error:
        _say(f"failed: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
