"""Servers of a run: Ganesha over its VFS, and a whole Weft (in cluster.py)."""

from pathlib import Path

from . import config, disks, paths
from .network import Node, with_mounts
from .process import Process
from .run import Run, sh


class MissingServer(RuntimeError):
    """A program or library that is to be tested has not been built."""


def require(file: Path) -> Path:
    if not file.exists():
        raise MissingServer(f"{file} is missing: build it with ./dev build")
    return file


def ganesha(run: Run, node: Node, text: str, mds: config.MdsConfig) -> Process:
    """A ganesha.nfsd process, not started, with text as its configuration."""
    (mds.folder / "recovery").mkdir(parents=True, exist_ok=True)
    plugins = mds.folder / "plugins"
    plugins.mkdir()
    for library in [*(paths.ganesha_prefix() / "lib" / "ganesha").glob("*.so"),
                    paths.fsal_library()]:
        (plugins / library.name).symlink_to(library)
    conf = mds.folder / "ganesha.conf"
    conf.write_text(text)
    binary = require(paths.ganesha_prefix() / "bin" / "ganesha.nfsd")
    return Process(run, "mds", [str(binary), "-F", "-L", str(run.folder / "ganesha.log"), "-N",
                                "NIV_EVENT", "-f", str(conf), "-p", str(mds.folder / "pid")], node)


def with_hosts(hosts: Path) -> list[str]:
    """What a command begins with that has this file as /etc/hosts."""
    return with_mounts(hosts.parent, f"mount --bind {hosts} /etc/hosts")


def start_vfs(run: Run, node: Node, in_memory: bool = False) -> Process:
    """Ganesha serving a folder of the run at /export, without grace. In memory it is an
    ext4 with its image in a tmpfs: VFS exports none of these."""
    mds = config.MdsConfig(run.make_folder("mds"), graceless=True)
    folder = run.make_folder("memory" if in_memory else "vfs")
    if in_memory:
        sh("mount", "-t", "tmpfs", "-o", "size=4g", "tmpfs", str(folder))
        folder = run.make_folder("memory/vfs")
        disks.Disk(run, folder, 3 << 10)
    text = config.ganesha_core(mds, pnfs=False) + config.vfs_export(folder)
    process = ganesha(run, node, text, mds)
    process.start()
    process.wait_port(config.NFS_PORT)
    return process
