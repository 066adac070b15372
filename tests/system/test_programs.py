"""weft-ds as a program: what it checks, whom it tells how it is, what signals and bad starts do."""

import json
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from harness import config, paths, servers
from harness.process import Process
from harness.run import wait_until

PORT = 2051


class DataServer:
    """One without a metadata server, on its own machine, not started."""

    def __init__(self, run, network):
        self.node = network.data_server(1)
        self.folder = run.make_folder("alone")
        self.file = self.folder / "weft-ds.toml"
        self.key = self.folder / "cluster.key"
        self.key.write_text("0" * 64 + "\n")
        self.key.chmod(0o600)
        self.write()
        self.process = Process(run, "alone", self.command("--supervise", "--standalone", "7"),
                               self.node)

    def write(self, lines: str = "", mds: str = "192.0.2.1:20480") -> None:
        self.file.write_text(config.lone_data_server(
            self.folder, [f"{self.node.address}:{PORT}"], mds, lines))

    def command(self, *options: str) -> list[str]:
        return [str(paths.data_server_program()), "--config", str(self.file), *options]

    def start_listening(self) -> None:
        self.process.start()
        self.process.wait_port(PORT)

    def log(self) -> str:
        return self.process.log.read_text()

    def await_log(self, text: str) -> None:
        wait_until(lambda: text in self.log(), 10, text)


@pytest.fixture
def alone(run, network):
    return DataServer(run, network)


def test_a_check_looks_at_the_key_file_too(alone):
    def check():
        done = subprocess.run([str(paths.weft_command()), "check-config", str(alone.file)],
                              text=True, capture_output=True)
        return done.returncode, done.stdout + done.stderr

    assert check() == (0, f"{alone.file}: good\n")
    alone.key.chmod(0o644)
    assert check() == (2, f"weft-ds: {alone.file}: cluster.key_file: {alone.key} must be readable "
                       "by its owner only (chmod 600)\n")
    alone.key.chmod(0o600)
    alone.write("treads = 4")
    assert check() == (2, f"weft-ds: {alone.file}:4: unknown key 'server.treads'; the nearest "
                       "there is: 'server.threads'\n")


# How a server ends: what is wrong in its configuration stays so, and its unit does not start it
# again; a disk may be mounted, an address come, and somebody else's server end.
WRONG, MAY_PASS = 2, 1


@pytest.mark.parametrize(("status", "change", "expected"), [
    (WRONG, ('path = "/', 'path = "'), "store.path must be an absolute path"),
    (MAY_PASS, ("/store", "/none/store"),
     "/none/store: the folder that it is to be made in is not there"),
    (MAY_PASS, ('store"', 'store"\ncreate = false'), "/store holds no store (is its disk "
     "mounted?), and store.create does not allow to make one"),
    (WRONG, ("cluster.key", "other.key"), "other.key: No such file or directory"),
    (MAY_PASS, ("10.77", "192.0"), ":2051: Cannot assign requested address"),
    (MAY_PASS, ("shared_memory", 'metrics = "192.0.2.99:9632"\nshared_memory'),
     "metrics page at 192.0.2.99:9632: Cannot assign requested address"),
])
def test_what_is_wrong_is_one_line(alone, status, change, expected):
    alone.file.write_text(alone.file.read_text().replace(*change))
    one_line(alone, alone.command(), status, expected)
    assert not (alone.folder / "store").exists()


def one_line(alone: DataServer, command: list[str], status: int, expected: str) -> None:
    limited = ["prlimit", "--nofile=20000:20000", *command]  # what it says of limits comes after
    done = subprocess.run(alone.node.enter_command() + limited, text=True, capture_output=True,
                          timeout=60)
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    program = Path(command[0]).name
    assert done.stderr.count("\n") == 1 and done.stderr.startswith(f"{program}: "), done.stderr
    assert done.stderr.endswith(expected + "\n")


@pytest.mark.parametrize(("status", "change", "expected"), [
    (MAY_PASS, ("/store", "/none/store"),
     "/none/store: the folder that it is to be made in is not there"),
    (MAY_PASS, ("/store", "/weft-target.toml"), "/weft-target.toml: Not a directory"),
    (MAY_PASS, ('store"', 'store"\ncreate = false'), "/store is not there (is its disk mounted?), "
     "and store.create does not allow it"),
    (WRONG, ("cluster.key", "other.key"), "other.key: No such file or directory"),
    (MAY_PASS, ("/socket", "/none/socket"), "/none/socket: No such file or directory"),
    (MAY_PASS, ("[target]", '[target]\nlisten = "192.0.2.99:9640"'),
     "192.0.2.99:9640: Cannot assign requested address"),
])
def test_what_is_wrong_at_a_target_is_one_line(alone, status, change, expected):
    file = alone.folder / "weft-target.toml"
    file.write_text(config.lone_target(alone.folder).replace(*change))
    one_line(alone, [str(paths.target_program()), "--config", str(file)], status, expected)
    assert not (alone.folder / "store").exists()


def test_a_folder_is_no_configuration(alone):
    command = [*alone.command()[:2], str(alone.folder)]
    one_line(alone, command, WRONG, f"open {alone.folder}: Is a directory")
    command = [str(paths.weft_command()), "check-config", str(alone.folder)]
    one_line(alone, command, WRONG, f"read {alone.folder}: Is a directory")


@pytest.mark.parametrize(("words", "expected"), [
    (["--bogus"], "there is no option --bogus"),
    (["--confg", "x"], "there is no option --confg; did you mean --config?"),
    (["x"], "x is one too many"),
    (["--config"], "--config: 1 required TEXT missing"),
])
def test_words_that_a_server_does_not_know(words, expected):
    for program in (paths.data_server_program(), paths.target_program()):
        done = subprocess.run([str(program), *words], text=True, capture_output=True)
        assert (done.returncode, done.stdout, done.stderr) == (
            2, "", f"{program.name}: {expected}; {program.name} --help says more\n")


def test_hang_ups_change_what_can_be_changed_and_kill_nobody(alone):
    alone.process.start()
    wait_until(lambda: alone.process.child_pid(), 20, "the server", 0.001)
    for _ in range(20):  # while it opens its store
        alone.process.signal(signal.SIGHUP)
    alone.process.wait_port(PORT)
    child = alone.process.child_pid()
    alone.write('log_level = "debug"\nthreads = 1')
    alone.process.signal(signal.SIGHUP)
    alone.await_log("event=reloaded key=server.log_level from=default to='debug'")
    alone.await_log("event=reload_needs_restart key=server.threads from=default to=1")
    alone.write('metrics = "no-such-host.invalid:9469"')  # names are looked up at the start alone
    alone.process.signal(signal.SIGHUP)
    alone.await_log("event=reload_needs_restart key=server.metrics from=default")
    alone.write("treads = 4")
    alone.process.signal(signal.SIGHUP)
    alone.await_log("event=reload_refused why=")
    assert alone.process.child_pid() == child
    assert alone.process.stop() == 0


def test_a_service_manager_is_told_when_it_serves(alone, run):
    path = run.folder / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(20)
        alone.process.env = {"NOTIFY_SOCKET": str(path)}
        alone.process.start()
        heard = []
        while "READY=1" not in heard:
            heard.append(manager.recv(1000).decode())
        alone.process.wait_port(PORT, timeout_s=0.1)
        while not heard[-1].startswith("STATUS="):
            heard.append(manager.recv(1000).decode())


def test_one_that_waits_for_its_metadata_server_is_not_ready_and_says_why(alone, run):
    path = run.folder / "notify"
    alone.write(mds=f"{alone.node.address}:1")
    alone.process.command = alone.command("--supervise")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(20)
        alone.process.env = {"NOTIFY_SOCKET": str(path)}
        alone.process.start()
        heard = []
        while not any("Connection refused" in text for text in heard):
            heard.append(manager.recv(1000).decode())
    assert "READY=1" not in heard
    assert heard[-1].startswith(f"STATUS=does not serve without metadata server "
                                f"{alone.node.address}:1: ")


def test_what_never_served_is_not_tried_again(alone):
    """Another store, and the address of somebody who serves."""
    alone.start_listening()
    text = alone.file.read_text()
    alone.file.write_text(text.replace("/store", "/store2"))
    second = subprocess.run(alone.node.enter_command() + alone.command(
        "--supervise", "--standalone", "8"), text=True, capture_output=True, timeout=60)
    assert second.returncode == 1
    assert second.stderr == (f"weft-ds: bind to {alone.node.address}:{PORT}: "
                             "Address already in use\n")
    assert not (alone.folder / "store2").exists()


def test_addresses_by_name(alone, run):
    """They are looked up at the start, in one line if nobody knows them."""
    hosts = run.folder / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n127.0.1.1 d0\n{alone.node.address} d1\n")
    process = Process(run, "named", [*servers.with_hosts(hosts),
                                     *alone.command("--standalone", "7")], alone.node)
    numeric = alone.file.read_text()

    def start(name: str, metrics: str) -> None:
        alone.file.write_text(numeric.replace(
            f'["{alone.node.address}:{PORT}"]', f'["{name}:{PORT}"]\nmetrics = "{metrics}:9632"'))
        process.start()

    def refused(status: int = 2) -> str:
        wait_until(lambda: not process.alive, 30, "weft-ds to end")
        assert process.status == status
        lines = process.log.read_text().splitlines()
        process.log.unlink()
        assert len(lines) == 1, lines
        return lines[0]

    start("d2..example", "d1")  # no resolver asks anybody for that
    # It may be known later: a unit starts the server again.
    assert "server.listen: 'd2..example:2051' cannot be looked up here: " in refused(status=1)
    start("d1", "d0")  # as Debian's installer writes a machine's own name
    assert refused().endswith("server.metrics: 'd0:9632' is 127.0.1.1 here, which others cannot "
                              "reach: see /etc/hosts")
    start("d1", "d1")
    process.wait_port(PORT)
    process.wait_port(9632)


@pytest.mark.parametrize(("words", "expected"), [
    (["fsck", "--jsn", "x"], "weft-fsck: there is no option --jsn; did you mean --json?; "
                             "weft-fsck --help says more"),
    (["fsck", "x", "y"], "weft-fsck: y is one too many; weft-fsck --help says more"),
    (["fsck"], "weft-fsck: FOLDER is required; weft-fsck --help says more"),
    (["restore", "--chck", "x"], "weft-restore: there is no option --chck; did you mean --check?; "
                                 "weft-restore --help says more"),
    (["restore"], "weft-restore: BACKUP is required; weft-restore --help says more"),
    (["-x"], "weft: weft has no option -x; weft --help says more"),
    (["status", "-x"], "weft: weft status has no option -x; weft status --help says more"),
    (["status", "--zzz"], "weft: weft status has no option --zzz; weft status --help says more"),
    (["clients", "x"], "weft: weft clients: x is one too many; weft clients --help says more"),
    (["health", "--mute", "FOO"], "weft: there is no code FOO; weft(1) lists them"),
    (["health", "--mute", "DS_DWN"], "weft: there is no code DS_DWN; did you mean DS_DOWN?"),
    (["-o", "josn", "status"], "weft: there is no output 'josn'; did you mean 'json'?"),
    ([], "weft: it needs a command; weft --help says more"),
])
def test_words_that_weft_does_not_know(words, expected):
    done = subprocess.run([str(paths.weft_command()), *words], text=True, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", expected + "\n")


def test_a_store_that_is_not_there_is_no_answer(alone):
    for words in (["fsck"], ["-o", "json", "fsck"], ["restore", "--check"]):
        done = subprocess.run([str(paths.weft_command()), *words, str(alone.folder / "none")],
                              text=True, capture_output=True)
        assert (done.returncode, done.stdout) == (2, "") and len(done.stderr.splitlines()) == 1


def test_a_check_is_a_document_where_one_is_asked_for(alone):
    def check(file):
        return subprocess.run([str(paths.weft_command()), "-o", "json", "check-config", str(file)],
                              text=True, capture_output=True)

    assert json.loads(check(alone.file).stdout) == {"file": str(alone.file), "good": True,
                                                    "warnings": []}
    alone.write("treads = 4")
    done = check(alone.file)
    assert (done.returncode, done.stdout) == (2, "") and "'server.treads'" in done.stderr
    target = alone.folder / "a.toml"
    target.write_text("[targt]\n")
    assert "weft-target: " in check(target).stderr and "'target'" in check(target).stderr
