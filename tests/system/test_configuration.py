"""What is wrong in a configuration stops the metadata server, and one line says what and where."""

import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from harness import config, paths, servers
from harness.network import with_mounts
from harness.process import Process
from harness.run import sh, wait_until

LISTEN = """import socket, time
listener = socket.create_server(("{}", {}))
time.sleep(600)"""


class Mds:
    """A metadata server that is not started yet; start() tells how it ended."""

    def __init__(self, run, network):
        self.run = run
        self.node = network.mds()
        self.mds = config.MdsConfig(run.make_folder("mds"))
        self.key = self.mds.folder / "cluster.key"
        self.key.write_text("0" * 64 + "\n")
        self.key.chmod(0o600)
        self.options = {
            "Metadata_Path": f'"{self.mds.folder}/metadata"',
            "Control_Address": f'"{self.node.address}:{config.CONTROL_PORT}"',
            "Key_File": f'"{self.key}"',
        }

    def start(self, *lines: str, hosts: Path | None = None, **options) -> Process:
        process = self.prepare(*lines, **options)
        if hosts:
            process.command[:0] = servers.with_hosts(hosts)
        process.start()
        return process

    def start_with(self, said: str, instead: str) -> Process:
        """With this in place of that, in all of the configuration."""
        process = self.prepare()
        text = self.conf.read_text()
        assert said in text
        self.conf.write_text(text.replace(said, instead))
        process.start()
        return process

    def prepare(self, *lines: str, core: str = "", env: dict[str, str] | None = None,
                **options: str) -> Process:
        text = (core or config.ganesha_core(self.mds, pnfs=True)) + config.fsal_export(
            [f"{key} = {value};" for key, value in {**self.options, **options}.items()] +
            list(lines))
        process = servers.ganesha(self.run, self.node, text, self.mds)
        process.command.append("-x")  # as the unit has it
        process.env = env or {}
        return process

    @property
    def conf(self):
        return self.mds.folder / "ganesha.conf"

    def line_of(self, text: str) -> str:
        """FILE:LINE of a line of the configuration."""
        lines = self.conf.read_text().splitlines()
        return f"{self.conf}:{1 + next(n for n, line in enumerate(lines) if text in line)}"

    def log(self) -> str:
        return (self.run.folder / "ganesha.log").read_text()

    def check(self, process: Process, expected: str) -> None:
        """It ended before it began anything, and its last line says why."""
        wait_until(lambda: not process.alive, 20, "ganesha.nfsd to end")
        assert process.status == 2
        assert self.log().rstrip().splitlines()[-1].endswith(expected), self.log()[-2000:]
        for begun in ("event=control_listening", "event=server_started", "NFS SERVER INITIALIZED"):
            assert begun not in self.log()
        assert not (self.mds.folder / "metadata").exists()

    def check_config(self):
        return subprocess.run([str(paths.weft_command()), "check-config", str(self.conf)],
                              text=True, capture_output=True)


@pytest.fixture
def mds(run, network):
    return Mds(run, network)


def test_a_good_one_starts(mds):
    process = mds.start(Copies="2", Scrub_Every='"7 d"', Resync_Rate='"64 MiB"')
    process.wait_port(config.NFS_PORT)
    done = mds.check_config()
    assert (done.returncode, done.stdout) == (0, f"{mds.conf}: good\n")


@pytest.mark.parametrize(("said", "instead", "expected"), [
    ("allow_set_io_flusher_fail = true", "allow_set_io_flusher_fail = false",
     "Allow_Set_Io_Flusher_Fail = true is not set, in NFS_CORE_PARAM: Ganesha ends then, as the "
     "service does not have the capability CAP_SYS_RESOURCE"),
    ("Lease_Lifetime = ", "Lease_Lifetime = 1000",
     "Lease_Lifetime = 100010: must be a number of seconds from 1 to 180, without quotes or a "
     "unit"),
    ("MDCACHE {", "LOG { Default_Log_Levl = INFO; }\nMDCACHE {",
     "LOG has no parameter Default_Log_Levl; the nearest there is: Default_Log_Level"),
    ("MDCACHE {", "LOG { COMPONENTS { FSAL = DEBUGG; } }\nMDCACHE {",
     "FSAL = DEBUGG: is no word that it takes; the nearest there is: DEBUG"),
    ("Lease_Lifetime = 10", "Lease_Lifetime = 10 s",
     "Lease_Lifetime = 10 s: Ganesha takes a number without a unit, of time in seconds; FSAL WEFT "
     'takes "10 s", in quotes'),
    ("Name = WEFT;", "Name = WEFT; Scrub_Every = 7d;",
     "Scrub_Every = 7d: Ganesha takes a number without a unit, of time in seconds; FSAL WEFT "
     'takes "7d", in quotes'),
])
def test_what_ganesha_ends_at_before_it_loads_the_fsal(mds, said, instead, expected):
    """The unit's check says first, in one line, what it is."""
    process = mds.start_with(said, instead)
    wait_until(lambda: not process.alive, 30, "ganesha.nfsd to end")
    assert process.status == 2
    done = mds.check_config()
    where = mds.line_of(instead.splitlines()[0])
    assert (done.returncode, done.stderr) == (2, f"weft: {where}: {expected}\n")


def test_a_service_manager_hears_when_it_serves(mds, run):
    """Not before: what depends on it may mount at once."""
    path = run.folder / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(20)
        process = mds.start(env={"NOTIFY_SOCKET": str(path)})
        assert manager.recv(1000) == b"READY=1\nSTATUS=serves"
        process.wait_port(config.NFS_PORT, timeout_s=0.1)


# /dev/log leads to the socket "log" in this folder, for a command in a namespace of its own.
DEV_LOG = ("mkdir -p {0}/dev && mount --bind /dev {0}/dev && mount -t tmpfs none /dev && "
           "cp -a {0}/dev/null {0}/dev/zero {0}/dev/random {0}/dev/urandom /dev && "
           "ln -s {0}/log /dev/log")


def test_what_the_unit_logs_has_priorities_and_no_time(mds, run):
    folder = run.make_folder("syslog")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
        syslog.bind(str(folder / "log"))
        syslog.settimeout(20)

        def priority_of(text: str) -> int:
            while True:
                line = syslog.recv(4096).decode()
                if text in line:
                    head = re.match(r"<(\d+)>\w+ +\d+ [\d:]+ [\w.-]+\[\d+\]: \[", line)
                    assert head, line  # syslog(3)'s own head, and then the thread
                    return int(head[1]) % 8

        process = mds.prepare("Copies = 1;")
        process.command[process.command.index("-L") + 1] = "SYSLOG"
        process.command[:0] = with_mounts(folder, DEV_LOG.format(folder))
        process.start()
        assert priority_of("event=server_started") == 5
        process.stop()
        mds.conf.write_text(mds.conf.read_text().replace("Copies", "Copys"))
        process.start()
        assert priority_of("FSAL WEFT has no option Copys") == 3


# Preloaded into Ganesha: it ends as it does where it logs that it cannot go on.
GIVES_UP = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
enum { kComponentAll = 0, kFatal = 1 };
typedef void Log(int, const char *, int, const char *, int, const char *, ...);
static void give_up(int number) {
  (void)number;
  ((Log *)dlsym(RTLD_DEFAULT, "DisplayLogComponentLevel"))(kComponentAll, "", 0, "", kFatal,
                                                            "gives up");
}
__attribute__((constructor)) static void begin(void) { signal(SIGUSR2, &give_up); }
"""


@pytest.mark.parametrize(("serves", "status"), [(True, 1), (False, 2)])
def test_ganesha_that_gives_up_is_started_again_if_it_served(mds, serves, status):
    """Its status is always 2, which units take for a wrong configuration."""
    if not serves:
        process = mds.start(core=config.ganesha_core(mds.mds, pnfs=True).replace(
            "RecoveryBackend = fs", "RecoveryBackend = rados_kv"))
    else:
        preload = mds.mds.folder / "gives_up.so"
        source = mds.mds.folder / "gives_up.c"
        source.write_text(GIVES_UP)
        sh("gcc", "-shared", "-fPIC", str(source), "-o", str(preload))
        process = mds.start(env={"LD_PRELOAD": str(preload)})
        process.wait_port(config.NFS_PORT)
        wait_until(lambda: "NFS SERVER INITIALIZED" in mds.log(), 10, "the server to serve")
        os.kill(int((mds.mds.folder / "pid").read_text()), signal.SIGUSR2)
    wait_until(lambda: not process.alive, 20, "ganesha.nfsd to end")
    assert ("gives up" in mds.log()) == serves
    assert process.status == status


def test_nobody_waits_for_a_grace_period_without_clients(mds):
    """Also where nobody has switched NLM off."""
    text = config.ganesha_core(mds.mds, pnfs=True).replace("  Enable_NLM = false;\n", "").replace(
        f"Grace_Period = {mds.mds.grace_s}", "Grace_Period = 90")
    assert "Enable_NLM" not in text and "Graceless = false" in text
    process = mds.start(core=text)
    process.wait_port(config.NFS_PORT)
    wait_until(lambda: "NOT IN GRACE" in mds.log(), 5, "the end of grace")


@pytest.mark.parametrize(("line", "expected"), [
    ("Copys = 2;", "FSAL WEFT has no option Copys; the nearest there is: Copies"),
    ("Copies = 4;", "Copies = 4: must be a number from 1 to 3"),
    ('Scrub_Every = "2 w";',
     "Scrub_Every = 2 w: must be 0 s to 366 d, or the number of seconds"),
    ("PNFS = maybe;", "PNFS = maybe: must be true or false"),
    ("Layout_Type = file;", "Layout_Type = file: must be files or flexfiles"),
    ('Metrics_Address = "10.77.0.1";', "Metrics_Address: '10.77.0.1' is not an address or a name "
     "with a port, like 192.0.2.1:2051, [2001:db8::1]:2051 or host:2051"),
])
def test_a_wrong_option(mds, line, expected):
    process = mds.start(line)
    expected = f"{mds.line_of(line)}: {expected}"
    mds.check(process, expected)
    done = mds.check_config()
    assert (done.returncode, done.stderr) == (2, f"weft: {expected}\n")


@pytest.mark.parametrize(("said", "instead", "expected"), [
    ("PNFS_MDS = true", "PNFS_MDS = false",
     "PNFS_MDS = false: must be true for FSAL WEFT; PNFS = false in its block is for an export "
     "without layouts"),
    ("Lease_Lifetime", "Lease_Lifetyme",
     "NFSv4 has no parameter Lease_Lifetyme; the nearest there is: Lease_Lifetime"),
    ("NFSv4 {", "NFSv44 {", "Ganesha has no block NFSv44; the nearest there is: NFSv4"),
    ("EXPORT {\n  Export_Id = 1;", "EXPORT {", "Export_id is not set, in the EXPORT block"),
    ("Export_Id = 1", "Export_Id = 99999",
     "Export_id = 99999: must be a number from 0 to 65535, without quotes or a unit"),
    ('Path = "/"', 'Path = "weft"', "Path = weft: must be an absolute path"),
    ('Pseudo = "/export"', 'Pseudo = "export"', "Pseudo = export: must be an absolute path"),
    ("SecType = sys;", "CLIENT { Clients = 192.0.2.300; }",
     "Clients = 192.0.2.300: must be an address, a network, a host's name, a wildcard or a "
     "@netgroup, without quotes"),
])
def test_what_stands_around_the_export(mds, said, instead, expected):
    process = mds.start_with(said, instead)
    mds.check(process, f"{mds.line_of(instead)}: {expected}")
    done = mds.check_config()
    assert (done.returncode, done.stderr.endswith(f": {expected}\n")) == (2, True), done.stderr


def test_addresses_by_name(mds):
    """They are looked up at the start, in one line if nobody knows them."""
    hosts = mds.run.make_folder("names") / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n127.0.1.1 m0\n{mds.node.address} m1\n")
    line = 'Metrics_Address = "m2..example:9632";'  # no resolver asks anybody for that
    process = mds.start(line, hosts=hosts)
    wait_until(lambda: not process.alive, 30, "ganesha.nfsd to end")
    assert process.status == 1
    expected = (f"{mds.line_of(line)}: Metrics_Address: 'm2..example:9632' cannot be looked up "
                "here: ")
    assert expected in mds.log().rstrip().splitlines()[-1]
    done = mds.check_config()
    assert done.returncode == 1 and done.stderr.startswith(f"weft: {expected}")

    def restart(name: str):
        (mds.run.folder / "ganesha.log").unlink()
        mds.conf.write_text(mds.conf.read_text().replace(last[0], name))
        last[0] = name
        process.start()

    last = ["m2..example"]
    restart("m0")  # as Debian's installer writes a machine's own name
    mds.check(process, "Metrics_Address: 'm0:9632' is 127.0.1.1 here, which others cannot reach: "
              "see /etc/hosts")
    restart("m1")
    process.wait_port(9632)


def test_a_client_whose_name_nobody_knows(mds):
    """The resolver may know it later."""
    said = "CLIENT { Clients = c1..example; }"
    process = mds.start_with("SecType = sys;", said)
    wait_until(lambda: not process.alive, 30, "ganesha.nfsd to end")
    assert process.status == 1
    expected = f"{mds.line_of(said)}: Clients: 'c1..example' cannot be looked up here: "
    assert expected in mds.log().rstrip().splitlines()[-1]
    done = mds.check_config()
    assert done.returncode == 1 and done.stderr.startswith(f"weft: {expected}")


def test_exports_of_a_store_that_contradict_each_other(mds):
    """They are one server to data servers, with one address."""
    process = mds.prepare()
    address = f"{mds.node.address}:{config.CONTROL_PORT}"
    said = {**mds.options, "Control_Address": f'"{mds.node.address}:1"'}
    other = config.fsal_export([f"{key} = {value};" for key, value in said.items()])
    other = other.replace("Export_Id = 1", "Export_Id = 2").replace('"/export"', '"/other"')
    mds.conf.write_text(mds.conf.read_text() + other)
    process.start()
    first, second = mds.line_of(f'{address}"'), mds.line_of(':1"')
    mds.check(process, f"{second}: Control_Address = {mds.node.address}:1: must be that of the "
              f"other export with the same Metadata_Path, {address} in line "
              f"{first.rpartition(':')[2]}")


def test_a_path_that_is_relative(mds):
    process = mds.start(Metadata_Path='"metadata"')
    mds.check(process,
              f"{mds.line_of('Metadata_Path')}: Metadata_Path = metadata: must be an absolute path")


def test_a_key_file_that_others_may_read(mds):
    mds.key.chmod(0o644)
    process = mds.start()
    mds.check(process, f"{mds.line_of('Key_File')}: Key_File: {mds.key} must be readable by its "
              "owner only (chmod 600)")
    assert mds.check_config().returncode == 2


def test_the_port_of_nfs_that_somebody_has(run, mds):
    holder = Process(run, "holder",
                     [sys.executable, "-c", LISTEN.format(mds.node.address, config.NFS_PORT)],
                     mds.node)
    holder.start()
    holder.wait_port(config.NFS_PORT)
    mds.check(mds.start(), f"NFS_Port {config.NFS_PORT} is taken: ss -ltnp 'sport = "
              f":{config.NFS_PORT}' says by what; stop that, or set another NFS_Port in "
              "NFS_CORE_PARAM")


def test_one_that_has_not_ended_yet(run, mds):
    """Its disk does not answer, so the kernel has its port and its store: not a wrong port."""
    folder = mds.mds.folder / "metadata"
    folder.mkdir()
    (folder / "LOCK").touch()
    lock = f"import fcntl; lock = open('{folder}/LOCK', 'r+'); fcntl.lockf(lock, fcntl.LOCK_EX)\n"
    holder = Process(run, "holder",
                     [sys.executable, "-c", lock + LISTEN.format(mds.node.address,
                                                                 config.NFS_PORT)], mds.node)
    holder.start()
    holder.wait_port(config.NFS_PORT)
    process = mds.start()
    wait_until(lambda: not process.alive, 20, "ganesha.nfsd to end")
    assert process.status == 1
    assert "has not ended yet" in mds.log().rstrip().splitlines()[-1]


@pytest.mark.parametrize("option", ["Control_Address", "Metrics_Address", "Status_Address"])
def test_a_port_that_somebody_has(run, mds, option):
    port = 20555
    holder = Process(run, "holder",
                     [sys.executable, "-c", LISTEN.format(mds.node.address, port)], mds.node)
    holder.start()
    holder.wait_port(port)
    address = f"{mds.node.address}:{port}"
    process = mds.start(**{option: f'"{address}"'})
    wait_until(lambda: not process.alive, 20, "ganesha.nfsd to end")
    last = mds.log().rstrip().splitlines()[-1]
    assert f"Export /, FSAL WEFT: {option}: " in last and address in last
    assert process.status == 1
    # The next start begins a store by its own configuration, Shared_Root among it.
    assert not (mds.mds.folder / "metadata").exists()


def test_a_store_that_somebody_has(mds):
    process = mds.start()
    process.wait_port(config.NFS_PORT)
    process.stop()
    with open(mds.mds.folder / "metadata" / "LOCK", "w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        (mds.run.folder / "ganesha.log").unlink()
        process.start()
        wait_until(lambda: not process.alive, 20, "ganesha.nfsd to end")
    assert process.status == 1
    assert "Export /, FSAL WEFT: Metadata_Path: " in mds.log().rstrip().splitlines()[-1]
