"""Where the data servers of a cluster keep their objects: in their own folders, at one weft-target
for all of them, or at a parity group of targets. "segments" is folders with segments, too.

A test that does not care says nothing and gets what WEFT_STORE says, so that the same tests run
over every kind. One that looks into the data servers' folders says "folder".
"""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from . import config, counters, disks, paths, servers
from .network import Node
from .process import Process
from .run import wait_until

# Kind to the number of targets. Those of TCP have machines of their own.
KINDS = {"folder": 0, "segments": 0, "shm": 1, "tcp": 1, "parity2": 2, "parity3": 3, "parity4": 4,
         "parity3-tcp": 3}


def chosen(kind: str = "") -> str:
    """The kind that was asked for, or WEFT_STORE."""
    kind = kind or os.environ.get("WEFT_STORE", "folder")
    if kind not in KINDS:
        raise ValueError(f"no store of kind {kind!r}: {', '.join(KINDS)}")
    return kind


@dataclass
class Target:
    name: str
    process: Process
    store: Path
    address: str  # as data servers are told it
    disk: disks.Disk | None = None

    def spaces(self) -> dict[str, Path]:
        """Folders of data servers' objects, by the data server's uuid."""
        return {folder.name: folder for folder in self.store.iterdir() if folder.is_dir()}

    def lose(self) -> None:
        """Its process and its disk are gone. Started again, it is new and empty."""
        self.process.kill()
        for folder in self.store.iterdir():
            shutil.rmtree(folder)


def make_target(cluster, number: int, kind: str) -> Target:
    """Number counts from 1. Not started."""
    name = f"target{number}"
    folder = cluster.run.make_folder(name)
    store = cluster.run.make_folder(f"{name}/store")
    disk = cluster.own_disk(store, cluster.options.target_mib)
    node: Node = cluster.mds_node
    address = f"unix:{folder / 'socket'}"
    if kind.endswith("tcp"):
        node = cluster.network.data_server(cluster.options.data_servers + number)
        address = f"tcp:{node.address}:{config.TARGET_PORT}"
    file = folder / "weft-target.toml"
    metrics = f"{node.address}:{config.METRICS_PORT + number}"
    file.write_text(config.target(cluster, address, store, metrics))
    command = [str(servers.require(paths.target_program())), "--config", str(file)]
    return Target(name, Process(cluster.run, name, command, node), store, address,
                  disk)


def wait_store(cluster, wanted: str, timeout_s: float = 60) -> None:
    """Until every data server says that its store is so."""
    def all_so() -> bool:
        return all(re.sub(r", \d+ bad blocks mended$", "", server["store"]) == wanted
                   for server in counters.weft(cluster, "status")["data_servers"])
    wait_until(all_so, timeout_s, f"stores to be '{wanted}'", 0.2)
