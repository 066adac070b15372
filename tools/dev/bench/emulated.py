"""Clusters over emulated disks, in one tier or with targets behind each data server.

Every disk is emulated where its objects are (store.emulated_disk), over a tmpfs, so that neither
the machine's one disk nor its page cache decides. Imported before anything of the harness.
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import loopback  # noqa: F401, finds the harness
from harness import paths, servers, stores
from harness.cluster import Cluster
from harness.run import sh

MIB = 1 << 20


@dataclass
class Disk:
    """rate and sizes in bytes; seek and rotation are means, in seconds."""

    rate: int
    seek: float
    rotation: float
    capacity: int
    memory: int

    def toml(self, seed: int) -> str:
        return (f"emulated_disk = {{ rate = {self.rate}, seek_us = {round(self.seek * 1e6)}, "
                f"rotation_us = {round(self.rotation * 1e6)}, capacity = {self.capacity}, "
                f"memory = {self.memory}, seed = {seed} }}\n")


class EmulatedCluster(Cluster):
    """targets: of each data server; 0, the disk is its own; from 2 on a parity group. options.cache
    is a data server's over targets.

    transport: "shm", or "tcp" with a machine for each target.
    """

    def __init__(self, run, network, options, disk: Disk, targets: int = 0,
                 transport: str = "tcp"):
        options.store = "folder"  # as far as the harness knows
        options.store_in_memory = True
        self.disk = disk
        self.behind = targets
        self.transport = transport
        self.emulated: list[stores.Target] = []
        super().__init__(run, network, options)

    def _make_data_server(self, number: int):
        server = super()._make_data_server(number)
        where = self.disk.toml(number)
        if self.behind > 0:
            addresses = [f'"{self._add_target()}"' for _ in range(self.behind)]
            where = (f"parity = [{', '.join(addresses)}]\n" if self.behind > 1
                     else f"target = {addresses[0]}\n")
        file = self.run.folder / server.name / "weft-ds.toml"
        add_to_store(file, where)
        if self.behind > 0 and self.options.cache:
            with file.open("a", encoding="utf-8") as more:
                more.write(f'[cache]\nsize = "{self.options.cache}"\n')
        return server

    def all_targets(self) -> list[stores.Target]:
        return self.emulated

    def _add_target(self) -> str:
        """Starts one and returns its address."""
        target = stores.make_target(self, len(self.emulated) + 1, self.transport)
        sh("mount", "-t", "tmpfs", "-o", "size=4g", "tmpfs", str(target.store))
        self.emulated.append(target)
        add_to_store(target.store.parent / "weft-target.toml",
                     self.disk.toml(100 + len(self.emulated)))
        target.process.start()
        return target.address


def add_to_store(file: Path, lines: str) -> None:
    """More lines of [store] in a configuration file."""
    file.write_text(file.read_text().replace("[store]\n", "[store]\n" + lines))


def plan(*words: str) -> dict:
    """What 'weft plan performance' says."""
    binary = servers.require(paths.weft_command())
    done = subprocess.run([str(binary), "plan", "performance", *words, "--output", "json"],
                          text=True, capture_output=True, check=True)
    return json.loads(done.stdout)
