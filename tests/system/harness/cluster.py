"""A whole Weft in a run: one metadata server, N data servers, each on a machine of its own.

Data servers have namespaces, addresses and store folders of their own. A test may kill, pause,
restart or cut off any of them through its Process and its Node.

WEFT_SYSTEM_BACKEND=vfs replaces it all by Ganesha's VFS, without counters: to see whether a test
itself is right.
"""

import os
import secrets
import signal
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from wire import Client, Status, const, ops
from wire.rpc import auth_sys

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
    squashed: bool = False  # the tree once more, at Cluster.squashed_path, with root squashed
    # By number, with groups beside that of their own number: the metadata server looks groups up.
    users: dict[int, tuple[int, ...]] = field(default_factory=dict)
    by_load: bool = False  # all data servers are on this machine: where files are is to repeat
    layout: str = "files"
    lease_s: int = 10
    grace_s: int = 12
    nfs4: str = ""  # more of Ganesha's NFSv4 block
    supervise: bool = False  # weft-ds --supervise
    store: str = ""  # where objects are, see stores.KINDS; nothing said: WEFT_STORE
    on_targets: tuple[int, ...] = ()  # numbers of the data servers that are; none said: all
    server_options: str = ""  # more lines of [server] in weft-ds.toml
    store_options: str = ""  # the same of [store]
    cache: str = ""  # of data servers over targets, a size; nothing said: WEFT_STORE_CACHE, or none
    target_cache: str = ""  # of targets, which then go around the page cache
    target_checksums: bool = False  # targets keep some
    store_mib: int = 0  # a store on a file system of its own with this size; 0: the run's folder
    target_mib: int = 0  # the same of each target's store
    mds_mib: int = 0  # of the metadata server's folder, if it is to be on a file system of its own
    power: bool = False  # every store and the metadata server's folder are so, and may lose power
    store_in_memory: bool = False  # a tmpfs: no disk that all data servers share
    domains: tuple[str, ...] = ()  # failure domains of the data servers, in turn; none: not said
    extra: dict[str, str] = field(default_factory=dict)  # more options of the FSAL block
    more_exports: tuple[config.Export, ...] = ()  # beside Cluster.path, of the same store
    # More tables of weft-ds.toml, for the data server of this number.
    tables: Callable[[int], str] = lambda number: ""
    metrics: bool = False  # data servers and targets have pages for Prometheus
    # Servers stand for machines of their own, so they share no memory unless a test is about that.
    shared_memory: tuple[str, ...] = ()  # who would: "mds", "ds"
    user: str = ""  # whom the servers run as, without any capability; nobody said: root
    cgroups: bool = False  # each data server in a group of its own, whose load it reports


@dataclass
class DataServer:
    name: str
    node: Node
    process: Process
    store: Path
    cgroup: Cgroup | None = None
    disk: disks.Disk | None = None

    def fill(self) -> None:
        """Leaves no space in the store's file system, which has to be its own (store_mib)."""
        disks.fill(self.store)

    def unfill(self) -> None:
        disks.unfill(self.store)

    def new_disk_cable(self) -> None:
        """After disks.shut_down(): the same file system again, and the data server with it."""
        self.process.kill()
        self.disk.mount_again()
        self.process.start()


class Cluster:
    """Made with everything running. Ends with the run."""

    path = "/export"
    squashed_path = "/squashed"

    def __init__(self, run: Run, network: Network, options: Options | None = None):
        self.run = run
        self.network = network
        self.options = options or Options()
        self.counted = os.environ.get("WEFT_SYSTEM_BACKEND", "weft") == "weft"
        self.mds_node = network.mds()
        self.address = self.mds_node.address
        self.folder = run.make_folder("mds")
        self.mds_disk = self.own_disk(self.folder, self.options.mds_mib)
        self.admin_socket = self.folder / "admin.sock"
        self.key_files: list[Path] = []  # the metadata server's first
        self.open_to_users = False
        self.ds: list[DataServer] = []
        self.store = stores.chosen(self.options.store)
        if (self.options.store_mib and not self.options.power) or self.options.store_in_memory:
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
        self.key_files.append(self.key_file)
        squashed = config.Export(2, "/squashed", squash=True)
        self.exports = [config.Export(1, self.path), *([squashed] if self.options.squashed else []),
                        *self.options.more_exports]
        servers.require(paths.fsal_library())
        self.mds = servers.ganesha(self.run, self.mds_node, self._mds_text(), self._mds_config())
        if self.options.users:
            self.mds.shown = config.user_database(self.folder, self.options.users)
        self.targets = [stores.make_target(self, number, self.store)
                        for number in range(1, stores.KINDS[self.store] + 1)]
        for number in range(1, self.options.data_servers + 1):
            self.ds.append(self._make_data_server(number))
        if self.options.user:
            self._give_to(self.options.user)
        if self.options.power:  # what an administrator wrote is not what is to be lost
            sh("sync", "-f", str(self.folder))

    def key_file_in(self, folder: Path) -> Path:
        """The copy of the key file that a server other than the metadata server has."""
        copy = folder / "cluster.key"
        if not copy.exists():
            copy.touch(0o600)
            copy.write_text(self.key_file.read_text())
            self.key_files.append(copy)
        return copy

    def _give_to(self, user: str) -> None:
        """All that was made for the servers, and the servers."""
        sh("chown", "-R", f"{user}:", str(self.run.folder))
        for process in (self.mds, *(server.process for server in self.ds + self.targets)):
            process.user = user

    def _mds_config(self) -> config.MdsConfig:
        return config.MdsConfig(self.folder, self.options.lease_s, self.options.grace_s,
                                port=self.options.mds_port, nfs4=self.options.nfs4)

    def _mds_text(self) -> str:
        return (config.ganesha_core(self._mds_config(), pnfs=True) +
                config.weft_exports(self))

    def reload_exports(self, exports: list[config.Export]) -> None:
        """Has the metadata server read its configuration again, with these exports. It takes a
        moment."""
        self.exports = exports
        (self.folder / "ganesha.conf").write_text(self._mds_text())
        self.mds.signal(signal.SIGHUP)

    def _make_data_server(self, number: int) -> DataServer:
        name = f"ds{number}"
        node = self.network.data_server(number)
        store = self.run.make_folder(f"{name}/store")
        if self.options.store_in_memory:
            sh("mount", "-t", "tmpfs", "-o", "size=4g", "tmpfs", str(store))
        disk = self.own_disk(store, self.options.store_mib)
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
        return DataServer(name, node, process, store, group, disk)

    def own_disk(self, folder: Path, mib: int) -> disks.Disk | None:
        """For a server's folder, if the options say so; mib is what they say of such folders."""
        if self.options.power:
            return disks.Disk(self.run, folder, self.options.store_mib or 1024, disks.LAZY)
        if mib:
            return disks.Disk(self.run, folder, mib)
        return None

    def lose_power(self, servers: list) -> None:
        """Of data servers, targets, and of the cluster itself for its metadata server: all at the
        same moment. They start again (Options.power)."""
        machines = [(server.mds_disk, server.mds) if server is self else
                    (server.disk, server.process) for server in servers]
        disks.lose_power(machines)
        for _, process in machines:
            process.start()
        if self in servers:
            self.mds.wait_port(self.options.mds_port)

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

    def connect(self, **options) -> Client:
        """A wire client of the metadata server, on its machine. As with a client machine's mount()
        users may make files in the export from then on."""
        address = (self.address, self.options.mds_port)
        client = InNamespace(self.mds_node, lambda: Client(address, **options)).result()

        def opened() -> bool:
            return client.compound(*client.at(self.path), ops.setattr(mode=0o1777),
                                   credential=auth_sys(0, 0)).status == Status.OK
        if not self.open_to_users:
            wait_until(opened, 30, "the export, and the end of grace", 0.2)
            self.open_to_users = True
        return client

    def connect_to(self, server, **options) -> Client:
        """A wire client of a data server, on the metadata server's machine."""
        return InNamespace(self.mds_node, lambda: Client(
            (server.node.address, config.NFS_PORT), minor=1, flags=const.EXCHGID_USE_PNFS_DS,
            **options)).result()

    def all_targets(self) -> list[stores.Target]:
        """In the order of their numbers."""
        return self.targets

    def metrics(self, server: DataServer | stores.Target) -> dict[str, float]:
        """By name, with labels; needs Options.metrics. OSError: no page now."""
        targets = self.all_targets()
        number = targets.index(server) + 1 if server in targets else 0
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
