"""A whole Weft in a run: one metadata server, N data servers, each on a machine of its own.

Data servers have namespaces, addresses and store folders of their own. A test may kill, pause,
restart or cut off any of them through its Process and its Node.

WEFT_SYSTEM_BACKEND=vfs replaces it all by Ganesha's VFS, without counters: to see whether a test
itself is right.
"""

import errno
import os
import secrets
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import config, counters, disks, paths, servers, stores
from .cgroups import Cgroup
from .in_namespace import InNamespace
from .network import Network, Node
from .process import Process
from .run import Run, sh, wait_until


@dataclass
class Options:
    """What a test may choose. Sizes in bytes, times in seconds."""

    data_servers: int = 4
    mds_port: int = config.NFS_PORT  # another where data servers share its addresses
    stripe_unit: int = 1 << 20
    stripe_count: int = 0
    pnfs: bool = True
    by_load: bool = False  # all data servers are on this machine: where files are is to repeat
    layout: str = "files"
    lease_s: int = 10
    grace_s: int = 12
    supervise: bool = False  # weft-ds --supervise
    store: str = ""  # where objects are, see stores.KINDS; nothing said: WEFT_STORE
    store_options: str = ""  # more lines of [store] in weft-ds.toml
    cache: str = ""  # of data servers over targets, a size; nothing said: WEFT_STORE_CACHE, or none
    target_cache: str = ""  # of targets, which then go around the page cache
    store_mib: int = 0  # a store on a file system of its own with this size; 0: the run's folder
    store_in_memory: bool = False  # a tmpfs: no disk that all data servers share
    domains: tuple[str, ...] = ()  # failure domains of the data servers, in turn; none: not said
    extra: dict[str, str] = field(default_factory=dict)  # more options of the FSAL block
    # More tables of weft-ds.toml, for the data server of this number.
    tables: Callable[[int], str] = lambda number: ""
    metrics: bool = False  # data servers and targets have pages for Prometheus
    # Servers stand for machines of their own, so they share no memory unless a test is about that.
    shared_memory: tuple[str, ...] = ()  # who would: "mds", "ds"
    cgroups: bool = False  # each data server in a group of its own, whose load it reports


@dataclass
class DataServer:
    name: str
    node: Node
    process: Process
    store: Path
    cgroup: Cgroup | None = None

    def fill(self) -> None:
        """Leaves no space in the store's file system, which has to be its own (store_mib)."""
        with open(self.store / "ballast", "wb") as ballast:
            end = 0
            for piece in (16 << 20, 1 << 20, 4 << 10):
                try:
                    while True:
                        os.posix_fallocate(ballast.fileno(), end, piece)
                        end += piece
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def unfill(self) -> None:
        (self.store / "ballast").unlink(missing_ok=True)


class Cluster:
    """Made with everything running. Ends with the run."""

    path = "/export"

    def __init__(self, run: Run, network: Network, options: Options | None = None):
        self.run = run
        self.network = network
        self.options = options or Options()
        self.counted = os.environ.get("WEFT_SYSTEM_BACKEND", "weft") == "weft"
        self.mds_node = network.mds()
        self.address = self.mds_node.address
        self.folder = run.make_folder("mds")
        self.admin_socket = self.folder / "admin.sock"
        self.ds: list[DataServer] = []
        self.store = stores.chosen(self.options.store)
        if self.options.store_mib or self.options.store_in_memory:
            self.store = "folder"  # the test is about the data servers' own file systems
        self.targets: list[stores.Target] = []
        if self.counted:
            self._make()
            self.start()
        else:
            self.mds = servers.start_vfs(run, self.mds_node)

    def _make(self) -> None:
        self.key_file = self.folder / "cluster.key"
        self.key_file.write_text(secrets.token_hex(32) + "\n")
        self.key_file.chmod(0o600)
        mds = config.MdsConfig(self.folder, self.options.lease_s, self.options.grace_s,
                               port=self.options.mds_port)
        text = config.ganesha_core(mds, self.options.pnfs) + config.weft_export(self)
        servers.require(paths.fsal_library())
        self.mds = servers.ganesha(self.run, self.mds_node, text, mds)
        self.targets = [stores.make_target(self, number, self.store)
                        for number in range(1, stores.KINDS[self.store] + 1)]
        for number in range(1, self.options.data_servers + 1):
            self.ds.append(self._make_data_server(number))

    def _make_data_server(self, number: int) -> DataServer:
        name = f"ds{number}"
        node = self.network.data_server(number)
        store = self.run.make_folder(f"{name}/store")
        if self.options.store_in_memory:
            sh("mount", "-t", "tmpfs", "-o", "size=4g", "tmpfs", str(store))
        if self.options.store_mib:
            self._mount_store(store)
        file = self.run.folder / name / "weft-ds.toml"
        file.write_text(config.data_server(self, number, node.address, store))
        binary = servers.require(paths.data_server_program())
        command = [str(binary), "--config", str(file)]
        if self.options.supervise:
            command.append("--supervise")
        group = None
        if self.options.cgroups:
            group = Cgroup(self.run.name, name, self.run.folder / name / "cgroup")
        process = Process(self.run, name, command, node, cgroup=group)
        return DataServer(name, node, process, store, group)

    def _mount_store(self, store: Path) -> None:
        """ext4 on a file, so that 'full' is what a real disk says. The run unmounts it."""
        image = store.parent / "disk"
        with open(image, "wb") as file:
            file.truncate(self.options.store_mib << 20)
        sh("mke2fs", "-q", "-t", "ext4", "-m", "0", str(image))
        sh("mount", "-o", "loop", str(image), str(store))
        disks.limit_writes(store, 0)  # what a run that was killed left at this loop device
        self.run.on_close(lambda: disks.limit_writes(store, 0))

    def start(self) -> None:
        """Starts everything and waits until every data server is known to be up."""
        self.mds.start()
        self.mds.wait_port(self.options.mds_port)
        for target in self.targets:
            target.process.start()
        for server in self.ds:
            server.process.start()
        self.wait_up()

    def wait_up(self, timeout_s: float = 40) -> None:
        """Waits until the metadata server counts every data server as up."""
        def all_up() -> bool:
            for process in (self.mds, *(server.process for server in self.ds)):
                if not process.alive:
                    raise RuntimeError(f"{process.name} ended with {process.status}:\n"
                                       f"{process.log_tail()}")
            try:
                states = [server["state"] for server in counters.weft(self, "ds", "list")]
            except counters.CountersUnavailable:
                return False
            return states.count("up") == len(self.ds)
        wait_until(all_up, timeout_s, "the data servers to register", 0.2)

    def metrics(self, server: DataServer | stores.Target) -> dict[str, float]:
        """By name, with labels; needs Options.metrics. OSError: no page now."""
        number = self.targets.index(server) + 1 if server in self.targets else 0
        url = f"http://{server.process.node.address}:{config.METRICS_PORT + number}/metrics"

        def ask() -> str:
            with urllib.request.urlopen(url, timeout=5) as page:
                return page.read().decode()
        lines = InNamespace(server.process.node, ask).result(10).splitlines()
        rows = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in rows}

    def restart_mds(self) -> None:
        """After mds.kill(): starts it again and waits for its port, not for the end of grace."""
        self.mds.start()
        self.mds.wait_port(self.options.mds_port)
