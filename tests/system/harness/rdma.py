"""Servers on machines that have RDMA, by software (Soft-RoCE), and what went by which transport
there.

The metadata server is a cluster's, on the host, whose kernel has no RDMA, unless it is on such a
machine too (RdmaMetadataServer).
"""

import json
import secrets
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from . import config, counters, paths, servers
from .client import Client, start_clients
from .cluster import Cluster, Options
from .machines import WithRdma
from .network import Network
from .run import Run, wait_until

FOLDER = "/run/ds"  # in the machine's memory
METRICS = f"127.0.0.1:{config.METRICS_PORT}"
START_S = 240  # machines are emulated
SLOW_S = 300
RDMA_PORT = 4791  # of UDP, where RoCE's packets go
IDLE_BYTES = 64 << 10  # more than what comes and goes beside a test's I/O

# What a data server's store has, in its machine.
CHECKSUMS = f"""
import glob, hashlib, json, os
def checksum(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read().rstrip(bytes(1))).hexdigest()
print(json.dumps({{os.path.basename(path): checksum(path)
                  for path in glob.glob("{FOLDER}/store/objects/*/*")}}))
"""


class RdmaMetadataServer:
    """A metadata server on such a machine. It stands for a cluster whose data servers are on others
    of them."""

    path = "/export"

    def __init__(self, run: Run, machine: WithRdma, options: Options):
        self.machine = machine
        self.address = machine.node.address
        self.key_file = run.make_folder("rdma-mds") / "cluster.key"
        self.key_file.write_text(secrets.token_hex(32) + "\n")
        there = SimpleNamespace(folder=FOLDER, address=self.address, options=options,
                                key_file=f"{FOLDER}/cluster.key",
                                exports=[config.Export(1, self.path)],
                                admin_socket=f"{FOLDER}/admin.sock")
        text = (config.ganesha_core(config.MdsConfig(FOLDER), pnfs=True) +
                config.weft_exports(there))
        prepare(machine, self, "ganesha.conf", text)
        libraries = [*(paths.ganesha_prefix() / "lib" / "ganesha").glob("*.so"),
                     servers.require(paths.fsal_library())]
        machine.run(f"mkdir -p {FOLDER}/plugins {FOLDER}/recovery\n"
                    f"ln -s {' '.join(map(str, libraries))} {FOLDER}/plugins/", root=True)

    def start(self) -> None:
        program = servers.require(paths.ganesha_prefix() / "bin" / "ganesha.nfsd")
        job = self.machine.start_job(self.machine.enter_host(
            f"{program} -F -L STDOUT -N NIV_EVENT -f {FOLDER}/ganesha.conf -p {FOLDER}/pid"),
            root=True)

        def serves() -> bool:
            if job.done():
                raise RuntimeError(f"the metadata server ended:\n{job.output()[-2000:]}")
            try:
                return counters.weft(self, "status") is not None
            except counters.CountersUnavailable:
                return False
        wait_until(serves, START_S, "the metadata server", 0.5)

    def run_there(self, command: list[str], timeout_s: float) -> str:
        """What a command of the host's says that is run on its machine."""
        command = ["/usr/bin/env", f"WEFT_ADMIN_SOCKET={FOLDER}/admin.sock", *command]
        done = self.machine.start_job(self.machine.enter_host(shlex.join(command)),
                                      root=True).wait(timeout_s + START_S, check=False)
        if done.status != 0 and not done.output.startswith(("{", "[")):
            raise counters.CountersUnavailable(done.output)
        return done.output


class RdmaDataServer:
    """It has no device until machine.add_device()."""

    def __init__(self, run: Run, cluster: Cluster | RdmaMetadataServer, machine: WithRdma,
                 number: int = 1, store_lines: str = "", by_rdma: list[str] | None = None):
        """by_rdma: where it listens so, if that is not the machine's address."""
        self.run, self.cluster, self.machine = run, cluster, machine
        self.name = f"ds{number}"
        self.address = machine.node.address
        self.program = servers.require(paths.data_server_program())
        self.job = None
        lines = (f'name = "{self.name}"\nfailure_domain = "{self.name}"\n'
                 f'metrics = "{METRICS}"\nmemory_limit = "64 MiB"\n')
        text = config.lone_data_server(
            FOLDER, [f"{self.address}:{config.NFS_PORT}",
                     *(f"rdma://{at}" for at in by_rdma or [self.address])],
            f"{cluster.address}:{config.CONTROL_PORT}", lines, store_lines)
        prepare(machine, cluster, "ds.toml", text)

    def start(self, environment: dict[str, str] | None = None) -> None:
        settings = [f"{name}={value}" for name, value in (environment or {}).items()]
        command = shlex.join(["/usr/bin/env", *settings, str(self.program)])
        self.job = self.machine.start_job(
            self.machine.enter_host(f"{command} --config {FOLDER}/ds.toml"), root=True)
        self.wait_told(None)

    def stop(self, signal: str = "TERM") -> None:
        self.signal(signal)
        self.job.wait(60, check=False)

    def signal(self, signal: str) -> None:
        self.machine.run(f"pkill -{signal} -f '^{self.program} --config {FOLDER}'", root=True)

    def told(self) -> list[str] | None:
        """The addresses that the metadata server knows while it counts this server as up."""
        try:
            for server in counters.weft(self.cluster, "ds", "list"):
                if server["name"] == self.name and server["state"] == "up":
                    return server["addresses"]
        except counters.CountersUnavailable:
            pass
        return None

    def wait_told(self, rdma: bool | None) -> None:
        """Until it is up, and clients are told of RDMA, or not; None: either."""
        def as_wanted() -> bool:
            if self.job.done():
                raise RuntimeError(f"{self.name} ended:\n{self.job.output()[-2000:]}")
            told = self.told()
            has = told is not None and any(one.startswith("rdma://") for one in told)
            return told is not None and rdma in (None, has)
        wait_until(as_wanted, START_S, f"{self.name} to be up, RDMA {rdma}", 0.5)

    def metrics(self) -> dict[str, float]:
        return rdma_metrics(self.machine)

    def traffic(self) -> dict[str, tuple[int, int]]:
        """Bytes that came and went: "rdma" and "tcp" of requests and answers, "chunks" of what was
        read from memory and written to it by RDMA."""
        now = self.metrics()
        names = {"rdma": 'weft_ds_transport_bytes_total{transport="rdma",',
                 "tcp": 'weft_ds_transport_bytes_total{transport="tcp",',
                 "chunks": "weft_ds_rdma_bytes_total{"}
        return {what: (int(now[name + 'direction="in"}']), int(now[name + 'direction="out"}']))
                for what, name in names.items()}

    def moved(self) -> tuple[int, int]:
        """Bytes that came and went by RDMA."""
        return self.traffic()["chunks"]

    @contextmanager
    def all_by(self, transport: str, size: int) -> Iterator[None]:
        """Asserts that the block's I/O, so many bytes each way, comes and goes by "rdma" or "tcp",
        and none of it by the other."""
        before = self.traffic()
        yield
        grown = {what: [now - then for now, then in zip(counts, before[what])]
                 for what, counts in self.traffic().items()}
        by_rdma = transport == "rdma"
        assert min(grown[transport]) >= size, grown
        assert max(grown["tcp" if by_rdma else "rdma"]) < IDLE_BYTES, grown
        assert min(grown["chunks"]) >= size if by_rdma else max(grown["chunks"]) == 0, grown

    def to_partners(self) -> tuple[int, int]:
        """Connections to partners by RDMA, and bytes that went by them."""
        now = self.metrics()
        return (int(now['weft_ds_partner_rdma_connections']),
                int(now['weft_ds_partner_rdma_bytes_total{direction="out"}']))

    def from_partners(self) -> int:
        """Bytes that it read at them by RDMA."""
        return int(self.metrics()['weft_ds_partner_rdma_bytes_total{direction="in"}'])

    def checksums(self) -> dict[str, str]:
        """Object id to SHA-256. Zeros at an object's end do not count: a hole there is no byte."""
        return json.loads(self.machine.python(CHECKSUMS, SLOW_S, root=True).output)

    def to_target(self) -> tuple[int, int, int]:
        """Connections to its target by RDMA, and bytes that came and went by them."""
        now = self.metrics()
        return (int(now["weft_ds_target_rdma_connections"]),
                int(now['weft_ds_target_rdma_bytes_total{direction="in"}']),
                int(now['weft_ds_target_rdma_bytes_total{direction="out"}']))


class RdmaTarget:
    """A target on such a machine, by RDMA and TCP at the same port."""

    def __init__(self, run: Run, cluster: Cluster, machine: WithRdma):
        self.machine = machine
        self.where = f"rdma://{machine.node.address}:{config.TARGET_PORT}"
        self.program = servers.require(paths.target_program())
        lines = (f'listen = ["{machine.node.address}:{config.TARGET_PORT}", "{self.where}"]\n'
                 f'metrics = "{METRICS}"\nmemory_limit = "64 MiB"\n')
        prepare(machine, cluster, "target.toml", config.lone_target(FOLDER, lines))

    def start(self) -> None:
        self.machine.start_job(
            self.machine.enter_host(f"{self.program} --config {FOLDER}/target.toml"), root=True)

    def metrics(self) -> dict[str, float]:
        return rdma_metrics(self.machine)


def write_and_compare(client: Client, name: str, size: int) -> None:
    """A file that comes back from the servers as it was."""
    client.run(f"set -e\ncd /mnt/nfs\n"
               f"head -c {size} /dev/urandom > /tmp/{name}\n"
               f"cp /tmp/{name} {name}\nsync {name}\nweft-drop-caches\n"
               f"cmp /tmp/{name} {name}\nrm /tmp/{name}", timeout_s=SLOW_S)


def prepare(machine: WithRdma, cluster: Cluster | RdmaMetadataServer, name: str,
            text: str) -> None:
    """A folder with the cluster's key and this configuration."""
    machine.run(f"mkdir -p {FOLDER}/store\n"
                f"(umask 077; echo {cluster.key_file.read_text().strip()} > "
                f"{FOLDER}/cluster.key)\n"
                f"cat > {FOLDER}/{name} <<'END'\n{text}END", root=True)


def rdma_metrics(machine: WithRdma) -> dict[str, float]:
    """Those of RDMA and of transports, by name with labels."""
    script = (f"import json, urllib.request\n"
              f"page = urllib.request.urlopen('http://{METRICS}/metrics', timeout=30)\n"
              f"rows = (line.decode().rsplit(' ', 1) for line in page"
              f"        if b'_rdma_' in line or b'_transport_' in line)\n"
              f"print(json.dumps({{name: float(value) for name, value in rows"
              f" if not name.startswith('#')}}))\n")
    return json.loads(machine.python(script, 90, root=True).output)


def start_machines(run: Run, network: Network, kind: str, count: int,
                   links: int = 1) -> list[WithRdma]:
    return start_clients(run, network, [kind] * count, links=links, memory_mib=1024)
