"""One data server without a metadata server, over any kind of store, for tests with many faults:
it is back within a fraction of a second. Clients are ours (wire/) and make handles themselves."""

import secrets
import time

from wire import Client, ConnectionClosed, NfsError, Status, const, ops

from . import config, handles, paths, servers, stores
from .cluster import Cluster, DataServer
from .in_namespace import InNamespace
from .process import Process
from .run import sh, wait_until

DS_ID = 7
PATIENCE_S = 90  # for one operation, servers that are away included
_PAUSE_S = 0.02


class Standalone(Cluster):
    """A Cluster with data server 1 and its targets only."""

    def _make(self) -> None:
        self.key = secrets.token_hex(32) + "\n"
        self.key_file = self.folder / "cluster.key"
        self.key_file.write_text(self.key)
        self.key_file.chmod(0o600)
        self.targets = [stores.make_target(self, number, self.store)
                        for number in range(1, stores.KINDS[self.store] + 1)]
        self.ds = [self._make_alone()]

    def _make_alone(self) -> DataServer:
        node = self.network.data_server(1)
        store = self.run.make_folder("ds1/store")
        if self.options.store_in_memory:
            sh("mount", "-t", "tmpfs", "-o", "size=4g", "tmpfs", str(store))
        self.file = self.run.folder / "ds1" / "weft-ds.toml"
        self.file.write_text(config.data_server(self, 1, node.address, store))
        command = [str(servers.require(paths.data_server_program())), "--config", str(self.file),
                   "--standalone", str(DS_ID)]
        return DataServer("ds1", node, Process(self.run, "ds1", command, node), store)

    def configure(self, store_options: str) -> None:
        """Other lines of [store], for the next start of the data server."""
        self.options.store_options = store_options
        server = self.ds[0]
        self.file.write_text(config.data_server(self, 1, server.node.address, server.store))

    def start(self) -> None:
        for target in self.targets:
            target.process.start()
        self.ds[0].process.start()
        self.wait_up()

    def wait_up(self, timeout_s: float = 40) -> None:
        self.ds[0].process.wait_port(config.NFS_PORT, timeout_s)

    def session(self, owner: bytes, timeout_s: float) -> Client:
        """Made again and again until the data server listens."""
        address = (self.ds[0].node.address, config.NFS_PORT)

        def connect():
            try:
                return Client(address, owner=owner, backchannel=False, timeout=timeout_s,
                              flags=const.EXCHGID_USE_PNFS_DS)
            except (OSError, ConnectionClosed, NfsError):
                return None
        return InNamespace(self.ds[0].node, lambda: wait_until(
            connect, timeout_s, "a session with the data server", 0.05)).result(timeout_s + 5)

    def handle(self, fileid: int, client: int = 1) -> bytes:
        return handles.seal(self.key, DS_ID, fileid, client=client)

    def group_state(self) -> str:
        """Of the parity group; nothing while the data server does not say."""
        try:
            return next((name.split('"')[1] for name in self.metrics(self.ds[0])
                         if name.startswith("weft_ds_parity_state{")), "")
        except OSError:
            return ""

    def memory(self) -> dict[str, float]:
        """Bytes of data in transit, pages lent to others included, by data server and target."""
        used = {target.name: self.metrics(target)["weft_target_memory_bytes"]
                for target in self.targets}
        return {**used, "ds1": self.metrics(self.ds[0])["weft_ds_memory_bytes"]}


class Caller:
    """One client of a Standalone, of one object. Sessions are made anew when they are lost. Calls
    are made again while the server says "later", or is away."""

    def __init__(self, system: Standalone, fileid: int, name: str = "caller",
                 patience_s: float = PATIENCE_S):
        self.system, self.name, self.patience_s = system, name, patience_s
        self.handle = system.handle(fileid)
        self.sessions = 0
        self.longest_s = 0.0
        self._client: Client | None = None

    def connect(self) -> None:
        self.sessions += 1
        self._client = self.system.session(f"{self.name}-{self.sessions}".encode(),
                                           self.patience_s)

    def call(self, operation, once: bool = False):
        """With `once` None if the connection is lost before the answer. TimeoutError."""
        begun = time.monotonic()
        while True:
            try:
                if self._client is None:
                    self.connect()
                result = self._client.call(ops.putfh(self.handle), operation)
                self.longest_s = max(self.longest_s, time.monotonic() - begun)
                return result
            except NfsError as error:
                if error.status == Status.BADSESSION:  # nobody called for longer than the lease
                    self._client.vanish()
                    self._client = None
                elif error.status != Status.DELAY:
                    raise
            except ConnectionClosed:
                self._client.vanish()
                self._client = None
                if once:
                    return None
            if time.monotonic() - begun > self.patience_s:
                raise TimeoutError(f"{self.name}: no answer within {self.patience_s} s")
            time.sleep(_PAUSE_S)

    def write(self, at: int, data: bytes, stable: int = const.UNSTABLE4, once: bool = False):
        return self.call(ops.write(ops.ANONYMOUS, at, data, stable), once)

    def read(self, at: int, count: int) -> bytes:
        return self.call(ops.read(ops.ANONYMOUS, at, count)).data

    def commit(self) -> bytes:
        """The verifier."""
        return self.call(ops.commit()).verifier

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
