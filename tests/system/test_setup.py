"""The first ten minutes: a system made by weft init, weft join and a mount, without systemd."""

import json
import os
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness import config, paths, servers
from harness.client import start_client
from harness.process import Process
from harness.run import wait_until

JOIN_PORT = 20481
LISTEN = """import socket, sys
listener = socket.create_server(("", int(sys.argv[1])))
print(flush=True)
sys.stdin.read()
"""
COPY = """set -e
head -c 8M /dev/urandom >/tmp/in
cp /tmp/in /mnt/nfs/out && sync /mnt/nfs/out && weft-drop-caches && cmp /tmp/in /mnt/nfs/out
"""


class Machine:
    """A node whose files are below a folder of its own."""

    def __init__(self, run, node, name: str):
        self.run, self.node, self.name = run, node, name
        self.prefix = run.make_folder(name)
        self.disk = run.make_folder(f"{name}/srv/a")
        self.servers: list[Process] = []
        self.hosts: Path | None = None  # what it has as /etc/hosts

    def _named(self) -> list[str]:
        return servers.with_hosts(self.hosts) if self.hosts else []

    def weft(self, *words: str, prefix: bool = True) -> subprocess.CompletedProcess:
        below = ["--prefix", str(self.prefix)] if prefix else []
        return subprocess.run([*self.node.enter_command(), *self._named(),
                               str(paths.weft_command()), *words, *below],
                              text=True, capture_output=True, timeout=60)

    def refused(self, *words: str) -> str:
        """The one line that says why."""
        done = self.weft(*words)
        assert done.returncode == 2 and done.stdout == "", done
        [line] = done.stderr.splitlines()
        return line

    def said(self, *words: str, prefix: bool = True) -> dict:
        done = self.weft(*words, "-o", "json", prefix=prefix)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def start(self, command: str) -> Process:
        """What a command said is to be started."""
        words = shlex.split(command)
        program = {"weft": paths.weft_command(), "weft-ds": paths.data_server_program()}
        number = len(self.servers)
        process = Process(self.run, f"{self.name}-{number}",
                          [*self._named(), str(program[words[0]]), *words[1:]], self.node)
        process.start()
        self.servers.append(process)
        return process

    def files(self) -> list[str]:
        return sorted(str(file.relative_to(self.prefix)) for file in self.prefix.rglob("*")
                      if file.is_file())


class First(Machine):
    """The metadata server's."""

    def serve(self) -> Process:
        """ganesha.nfsd with what init wrote, and where this build has its modules."""
        mds = config.MdsConfig(self.run.make_folder("ganesha"))
        text = (self.prefix / "etc/weft/ganesha.conf").read_text()
        text = text.replace("NFS_CORE_PARAM {",
                            f'NFS_CORE_PARAM {{\n  Plugins_Dir = "{mds.folder}/plugins";', 1)
        process = servers.ganesha(self.run, self.node, text, mds)
        process.command[:0] = self._named()
        process.start()
        process.wait_port(config.NFS_PORT)
        return process

    def ask(self, *words: str) -> subprocess.CompletedProcess:
        socket = str(self.prefix / "run/weft/mds.sock")
        return self.weft("--socket", socket, *words, prefix=False)

    def asked(self, *words: str, status: int = 0):
        """The document that is the answer."""
        done = self.ask("-o", "json", *words)
        assert done.returncode == status, done
        return json.loads(done.stdout)

    def up(self) -> list[dict]:
        done = self.ask("-o", "json", "ds", "list")
        listed = json.loads(done.stdout) if done.returncode == 0 else []
        return [server for server in listed if server["state"] == "up"]


@pytest.fixture
def first(run, network):
    return First(run, network.mds(), "m1")


@pytest.fixture
def others(run, network):
    return [Machine(run, network.data_server(number), f"d{number}") for number in (1, 2, 3)]


def make_system(first, others, *words: str) -> Process:
    """By the commands that an administrator types. Returns the metadata server."""
    made = first.said("init", "--copies", "2", "--address", first.node.address, *words)
    assert made["address"] == first.node.address
    server = first.serve()
    listener = first.start(made["start"][1])
    listener.wait_port(JOIN_PORT)
    for number, machine in enumerate(others, 1):
        joined = machine.said("join", first.node.address, made["token"], "--disk",
                              str(machine.disk), "--domain", f"rack{number}", "--name",
                              machine.name)
        key = machine.prefix / "etc/weft/cluster.key"
        assert key.read_text() == (first.prefix / "etc/weft/cluster.key").read_text()
        assert key.stat().st_mode & 0o777 == 0o600
        machine.start(joined["start"])
    wait_until(lambda: len(first.up()) == 3, 30, "three data servers up", 0.2)
    return server


def test_four_machines_by_five_commands(run, network, first, others):
    make_system(first, others)
    assert {server["failure_domain"] for server in first.up()} == {"rack1", "rack2", "rack3"}
    assert {server["addresses"][0] for server in first.up()} == {
        f"{machine.node.address}:2051" for machine in others}
    client = start_client(run, network)
    # Nobody is to be let in by an administrator first.
    client.run("mkdir -p /mnt/nfs && "
               f"mount -t nfs -o vers=4.2 {first.node.address}:/weft /mnt/nfs && "
               "mkdir /mnt/nfs/of-root", root=True)
    assert client.run("rmdir /mnt/nfs/of-root", check=False).status != 0
    client.run(COPY, 120)
    # What df says at a client is what weft df says, of two copies in different racks.
    free = int(client.run("stat -f -c '%a * %S' /mnt/nfs | xargs expr").output.split()[-1])
    told = first.asked("df")["by_copies"][1]["free_bytes"]
    assert abs(free - told) < told / 20  # others use the disk meanwhile


def test_each_command_may_be_run_again(first, others):
    init = ["init", "--copies", "2", "--address", first.node.address]
    made = first.said(*init)
    before = first.files()
    again = first.said(*init)
    assert again["wrote"] == [] and first.files() == before
    assert again["token"] != made["token"]
    first.serve()
    first.start(made["start"][1]).wait_port(JOIN_PORT)
    machine = others[0]
    join = ["join", first.node.address, made["token"], "--disk", str(machine.disk)]
    joined = machine.said(*join, "--domain", "rack1")
    assert len(joined["wrote"]) == 2
    assert joined["firewall"] == ["nft add rule inet filter input tcp dport 2051 accept"]
    other = str(machine.run.make_folder(f"{machine.name}/srv/b"))
    second = machine.said(*join[:-1], other)
    assert second["firewall"] == ["nft add rule inet filter input tcp dport 2052 accept"]
    (machine.prefix / "sys/class/infiniband/rxe0").mkdir(parents=True)
    assert machine.said(*join[:-1], other)["firewall"][1:] == [
        "nft add rule inet filter input udp dport 4791 accept"]
    assert "dport 4791" not in first.weft(*init).stdout
    again = machine.said(*join, "--domain", "rack1")
    assert again["wrote"] == [] and again["start"] == joined["start"]
    line = machine.refused(*join, "--domain", "rack2")
    assert "another domain" in line and joined["configuration"] in line
    for address in ("127.0.0.2", f"{machine.node.address}:2099"):
        line = machine.refused(*join, "--address", address)
        assert "another address" in line and joined["configuration"] in line
    for address in (machine.node.address, f"{machine.node.address}:2051"):
        assert machine.said(*join, "--address", address)["wrote"] == []
    assert "something else" in first.refused("init", "--copies", "3", "--address",
                                             first.node.address)
    # What it did not say is the administrator's, or another version's.
    conf = first.prefix / "etc/weft/ganesha.conf"
    text = conf.read_text().replace("  # Root at clients is nobody.\n", "")
    admin = "CLIENT { Clients = 192.0.2.7; Access_Type = RW; Squash = no_root_squash; }"
    text = text.replace("  FSAL {", f"  {admin}\n  FSAL {{", 1)
    (conf.parent / "more.conf").write_text("LOG { Default_Log_Level = EVENT; }\n")
    conf.write_text(text + f'%include "{conf.parent}/more.conf"\n')
    assert first.said(*init)["wrote"] == []


def one_joined(first, machine) -> tuple[dict, dict, list[str]]:
    """What init and join have said, and join's words for the machine's disk."""
    made = first.said("init", "--address", first.node.address)
    first.serve()
    first.start(made["start"][1]).wait_port(JOIN_PORT)
    disk = ["--disk", str(machine.disk)]
    return made, machine.said("join", first.node.address, made["token"], *disk), disk


def test_commands_that_run_at_once_take_different_names_and_ports(run, first, others):
    made = one_joined(first, others[1])[0]
    machine, host = others[0], first.node.address
    disks = [str(run.make_folder(f"{machine.name}/{above}/d")) for above in ("p", "q", "r", "s")]
    with ThreadPoolExecutor() as threads:
        joined = list(threads.map(
            lambda disk: machine.said("join", host, made["token"], "--disk", disk), disks))
    confs = {one["configuration"]: Path(one["configuration"]).read_text() for one in joined}
    assert len(confs) == 4 and all(any(f'"{disk}"' in text for text in confs.values())
                                   for disk in disks)
    assert {port for port in range(2051, 2055)
            if any(f':{port}"]' in text for text in confs.values())} == set(range(2051, 2055))


def test_a_new_disk_at_the_place_of_one_that_is_lost(first, others):
    made, joined, disk = one_joined(first, others[0])
    machine, host = others[0], first.node.address
    conf = Path(joined["configuration"])
    conf.write_text(conf.read_text().replace("\n# create", "\ncreate"))  # as with systemd
    (machine.disk / "identity").touch()
    assert machine.said("join", host, "-", *disk)["wrote"] == []
    assert "\ncreate = false" in conf.read_text()
    (machine.disk / "identity").unlink()
    # Perhaps it is only not mounted.
    line = machine.refused("join", host, "0" * 32, *disk)
    assert "has no store: mount its disk; a new disk takes a token: " in line
    assert "\ncreate = false" in conf.read_text()
    (machine.disk / "mine").write_text("mine")
    assert "other files (mine)" in machine.refused("join", host, made["token"], *disk)
    (machine.disk / "mine").unlink()
    # A directory of something else that has objects.
    (machine.disk / "objects/pack").mkdir(parents=True)
    assert "other files (objects)" in machine.refused("join", host, made["token"], *disk)
    (machine.disk / "objects/pack").rename(machine.disk / "objects/000")
    again = machine.said("join", host, made["token"], *disk)
    assert again["wrote"] == [str(conf)] and "\n# create = false" in conf.read_text()
    machine.start(again["start"])
    wait_until(lambda: len(first.up()) == 1, 30, "a data server up", 0.2)


def test_tokens_that_are_made_at_once_are_all_good(first):
    first.said("init", "--address", first.node.address)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: first.said("token")["token"], range(8)))
    # Whose folder of configurations it is, and what somebody has made of it, does not matter.
    etc = first.prefix / "etc/weft"
    etc.chmod(0o750)
    made.append(first.said("token")["token"])
    assert etc.stat().st_mode & 0o777 == 0o750
    lines = (first.prefix / "run/weft/join-tokens").read_text().splitlines()
    assert set(made) < {line.split()[0] for line in lines}


def test_what_init_says_to_start_is_there(first):
    made = first.said("init", "--address", first.node.address)
    assert os.access(made["start"][0].split()[0], os.X_OK)


def test_directories_with_one_name_and_systems_are_told_apart(run, first, others):
    made, joined, disk = one_joined(first, others[0])
    machine, host = others[0], first.node.address
    same = ["--disk", str(run.make_folder(f"{machine.name}/mnt/a"))]
    for _ in range(2):
        second = machine.said("join", host, made["token"], *same)
        assert second["unit"] == "weft-ds@mnt-a.service" and second["name"].endswith("-mnt-a")
    assert machine.said("join", host, "-", *disk)["configuration"] == joined["configuration"]
    # Another system's metadata server.
    other = First(run, others[1].node, "m2")
    made = other.said("init", "--address", other.node.address)
    host = other.node.address
    assert f"does not name {host}: to tell" in machine.refused("join", host, "0" * 32, *disk)
    other.start(made["start"][1]).wait_port(JOIN_PORT)
    assert "another system's key" in machine.refused("join", host, made["token"], *disk)
    (machine.prefix / "etc/weft/cluster.key").unlink()
    assert "remove it if it is of a" in machine.refused("join", host, made["token"], *disk)


def test_a_machine_that_has_missed_a_change_of_the_key_gets_the_new_one(run, first, others):
    made, _, _ = one_joined(first, others[0])
    machine = others[0]
    ours, theirs = (one.prefix / "etc/weft/cluster.key" for one in (first, machine))
    old = theirs.read_text()
    new = "ab" * 32 + "\n"
    ours.write_text(new + old)
    second = ["--disk", str(run.make_folder(f"{machine.name}/mnt/b"))]
    machine.said("join", first.node.address, made["token"], *second)
    assert theirs.read_text() == new + old
    theirs.write_text("cd" * 32 + "\n")
    third = ["--disk", str(run.make_folder(f"{machine.name}/mnt/c"))]
    assert "another system's key, or one that" in machine.refused(
        "join", first.node.address, made["token"], *third)


def test_a_machine_that_may_not_join_is_left_as_it_was(first, others):
    made = first.said("init", "--address", first.node.address)
    machine = others[0]
    before = machine.files()
    host, token = first.node.address, made["token"]
    disk = ["--disk", str(machine.disk)]
    assert "nobody takes tokens" in machine.refused("join", host, token, *disk)
    listener = first.start(made["start"][1])
    listener.wait_port(JOIN_PORT)
    # The metadata server itself does not run.
    assert "is weft-mds running" in machine.refused("join", host, token, *disk)
    assert "does not accept this token" in machine.refused("join", host, "0" * 32, *disk)
    assert "32 hexadecimal digits" in machine.refused("join", host, "token", *disk)
    assert "No such file" in machine.refused("join", host, token, "--disk", f"{machine.disk}/none")
    assert "letters, digits" in machine.refused("join", host, token, *disk, "--domain", 'a"')
    (machine.disk / "mine").write_text("mine")
    assert "other files (mine)" in machine.refused("join", host, token, *disk)
    (machine.disk / "mine").unlink()
    assert machine.files() == before
    (first.prefix / "run/weft/join-tokens").unlink()  # as when they have expired
    wait_until(lambda: listener.status == 0, 10, "the listener to end")
    assert "weft token" in machine.refused("join", host, token, *disk)


def test_day_two(run, first, others):
    make_system(first, others)
    muted = ["--muted-file", str(first.prefix / "muted")]
    assert first.ask("health", "-q", *muted).stdout == ""
    assert first.asked("health", *muted) == {"healthy": True, "problems": []}
    assert first.asked("version", "--all")["same"]
    rates = first.asked("top", "--count", "1", "--interval", "0.2")
    assert [server["state"] for server in rates["data_servers"]] == ["up"] * 3
    space = first.asked("df")
    assert [row["servers"] for row in space["domains"]] == [1, 1, 1]
    assert 0 < space["by_copies"][2]["free_bytes"] < space["by_copies"][0]["free_bytes"]
    for words in (["status"], ["ds", "list"], ["health"], ["df"], ["top", "--count", "1"]):
        text = first.ask(*words).stdout
        assert text and max(map(len, text.splitlines())) <= 80, text
    bundle = str(run.folder / "bundle.tar.gz")
    assert "status.json" in first.asked("support-bundle", bundle)["parts"]
    secrets = subprocess.run(["tar", "-xzOf", bundle], capture_output=True, check=True).stdout
    key = (first.prefix / "etc/weft/cluster.key").read_text().strip()
    assert key.encode() not in secrets and b"data_servers" in secrets
    # One dies.
    others[0].servers[0].kill()
    wait_until(lambda: len(first.up()) == 2, 30, "it to be missed", 0.2)
    wait_until(lambda: "DS_DOWN" in first.ask("health", *muted).stdout, 30, "it to be down", 0.2)
    assert first.ask("health", "-q", *muted).returncode == 1
    for words in (["status"], ["health", *muted]):
        text = first.ask(*words).stdout
        assert "is down" in text and max(map(len, text.splitlines())) <= 80, text
    first.ask("health", "--mute", "DS_DOWN", *muted)
    codes = {row["code"] for row in first.asked("health", *muted)["problems"] if not row["muted"]}
    assert "DS_DOWN" not in codes
    assert "did you mean DS_DOWN?" in first.ask("health", "--mute", "DS_DWON", *muted).stderr


def looked_at(machine, *words: str) -> tuple[int, list[dict]]:
    done = machine.weft("doctor", "--socket", str(machine.prefix / "run/weft/mds.sock"), "-o",
                        "json", *words)
    return done.returncode, json.loads(done.stdout)


def found(checks: list[dict], what: str) -> list[str]:
    return [row["found"] for row in checks if row["check"] == what]


def test_a_doctor_says_what_to_try_on_clients_of_a_network(first, others):
    make_system(first, others)
    with (others[0].prefix / "etc/weft/ds-a.toml").open("a") as conf:
        conf.write('[[network]]\nname = "office"\naddresses = "192.0.2.1:2051"\n'
                   'clients = "192.0.2.0/24"\n')
    others[0].servers[0].stop()
    others[0].servers[0].start()

    def advice() -> list[str]:
        return [row["to_do"] for row in looked_at(first)[1] if row["check"] == "network office"]
    wait_until(lambda: advice() == ["on one of them: weft doctor 192.0.2.1:2051"], 30,
               "a doctor that knows of the network", 0.5)


def test_a_doctor_sees_ports_disks_and_configurations(first, others):
    make_system(first, others)
    _, checks = looked_at(first)
    assert found(checks, "port") == ["good"] * 6  # from here to each, and between them
    assert found(checks, "metadata server") == found(checks, "configuration") == ["good"]
    assert len(found(checks, str(first.prefix / "var/lib/weft/mds"))) == 3
    [elsewhere] = [row["to_do"] for row in checks if row["check"] == "ports elsewhere"]
    addresses = sorted(elsewhere.split("weft doctor ")[1].split())
    assert len(addresses) == 3
    _, checks = looked_at(others[0], *addresses)
    assert found(checks, "port") == ["good"] * 4  # the metadata server's as well
    assert found(checks, "configuration") == ["good"]
    assert found(checks, "versions") == ["good"]
    # A target's file and store, too.
    target = others[0].prefix / "etc/weft/target-a.toml"
    target.write_text(f"""[target]\nsocket = "{others[0].prefix}/target.sock"
[store]\npath = "{others[0].disk}"\n[cluster]\nkey_file = "{others[0].prefix}/etc/weft/cluster.key"
""")
    _, checks = looked_at(others[0], *addresses)
    assert [row["is"] for row in checks if row["check"] == "configuration"].count(str(target)) == 1
    target.write_text("[targt]\n")
    assert "bad" in found(looked_at(others[0])[1], "configuration")
    target.unlink()
    # A data server's targets elsewhere.
    of_target = others[0].prefix / "etc/weft/ds-t.toml"
    nobody = addresses[0].replace(":2051", ":9640")
    of_target.write_text(f"""[server]\nlisten = ["{others[0].node.address}:2099"]
[store]\npath = "{others[0].disk}"
parity = ["tcp:{addresses[0]}", "rdma://{nobody}", "tcp:{addresses[2]}"]
[cluster]\nmds = ["{first.node.address}:20480"]
key_file = "{others[0].prefix}/etc/weft/cluster.key"
""")
    _, checks = looked_at(others[0])
    told = [(row["is"].split()[1].rstrip(":"), row["found"]) for row in checks
            if row["check"] == "port" and row["is"].startswith("target ")]
    assert told == [(addresses[0], "good"), (nobody, "bad"), (addresses[2], "good")]
    of_target.unlink()
    # One is cut off, one is stopped, and a file is spoilt.
    others[1].node.cut()
    others[2].servers[0].kill()
    conf = others[0].prefix / "etc/weft/ds-a.toml"
    conf.write_text(conf.read_text().replace("listen", "lisen"))
    status, checks = looked_at(others[0], *addresses)
    assert status == 1
    assert found(checks, "port") == ["good", "bad", "bad"]
    assert found(checks, "configuration") == ["bad"]
    bad = [row for row in checks if row["found"] == "bad"]
    assert all(row["to_do"] for row in bad)
    assert any("server.listen" in row["is"] for row in bad)


def test_what_init_cannot_use_is_said(first):
    assert "no address of this machine" in first.refused("init", "--address", "192.0.2.77")
    for wildcard in ("0.0.0.0", "::"):
        assert "takes one address" in first.refused("init", "--address", wildcard)
    assert "--admin takes" in first.refused("init", "--address", first.node.address,
                                            "--admin", "a;b")
    for network in ("0.0.0.0/0", "192.0.2.0/33", "192.0.2.0/024", "::/0", "192.0.2.7/", "host"):
        line = first.refused("init", "--address", first.node.address, "--admin", network)
        assert "--admin takes" in line
    # There is no default route.
    second = [*first.node.enter_command(), "ip", "address", "add", "10.9.9.9/32", "dev", "e0"]
    subprocess.run(second, check=True)
    line = first.refused("init")
    assert f"{first.node.address}, 10.9.9.9: say --address" in line
    # What is to be listened at, to give tokens as well.
    for port in (2049, 20480, JOIN_PORT):
        with subprocess.Popen([*first.node.enter_command(), "python3", "-c", LISTEN, str(port)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as listener:
            listener.stdout.readline()
            line = first.refused("init", "--address", first.node.address)
            assert f"something listens at {first.node.address}:{port} already" in line
    assert first.files() == []
    assert "after weft init" in first.refused("token")
    # With one address no other can be meant.
    subprocess.run(["delete" if word == "add" else word for word in second], check=True)
    assert first.said("init")["address"] == first.node.address


def test_init_finds_an_address_by_ipv6(first):
    """And not that of a network which nothing is connected to."""
    def ip(words):
        return subprocess.run([*first.node.enter_command(), "ip", *words.split()], check=True,
                              text=True, capture_output=True).stdout
    ip(f"address delete {first.node.address}/24 dev e0")
    ip("address add 2001:db8:1::2/64 dev e0 nodad")
    ip("link add v9 type veth peer name v8")
    ip("address add 172.17.0.1/16 dev v9")
    ip("link set v9 up")
    assert first.said("init")["address"] == "2001:db8:1::2"
    # One of two is by the default route.
    ip("address add 172.18.0.1/16 dev e0")
    ip("-6 route add default via 2001:db8:1::1")
    (first.prefix / "etc/weft/ganesha.conf").unlink()
    assert first.said("init")["address"] == "2001:db8:1::2"


def test_addresses_by_name(run, first, others):
    """They are written as they are said, and looked up where they are used."""
    machine = others[0]
    hosts = run.make_folder("names") / "hosts"
    hosts.write_text("127.0.0.1 localhost\n127.0.1.1 own\n"
                     f"{first.node.address} m1\n{machine.node.address} d1\n")
    first.hosts = machine.hosts = hosts
    for name, why in (("m2..example", "--address: 'm2..example:20480' cannot be looked up here: "),
                      ("own", "--address: 'own:20480' is 127.0.1.1 here"),
                      ("d1", f"d1, which is {machine.node.address} here, is no address of this"),
                      ("m1:20480", "without a port")):
        assert why in first.refused("init", "--address", name)
    assert first.files() == []
    made = first.said("init", "--address", "m1")
    assert (made["address"], made["mount"]) == ("m1", "m1:/weft")
    assert 'Control_Address = "m1:20480";' in (first.prefix / "etc/weft/ganesha.conf").read_text()
    first.serve()
    first.start(made["start"][1]).wait_port(JOIN_PORT)

    def join(address: str) -> list[str]:
        return ["join", "m1", made["token"], "--disk", str(machine.disk), "--address", address]

    assert "--address: 'd2..example:2051' cannot be looked up" in machine.refused(
        *join("d2..example"))
    assert machine.files() == []
    joined = machine.said(*join("d1"))
    conf = (machine.prefix / "etc/weft/ds-a.toml").read_text()
    assert 'listen = ["d1:2051"]' in conf and 'mds = ["m1:20480"]' in conf
    machine.start(joined["start"])
    wait_until(lambda: len(first.up()) == 1, 30, "a data server up", 0.2)
    assert first.up()[0]["addresses"] == [f"{machine.node.address}:2051"]


# In place of systemctl: says of a unit what its file in $UNITS says, and starts the listener.
SYSTEMCTL = """#!/bin/sh
echo "$*" >>$UNITS/calls
case "$1 $2" in
  "start weft-join.service")
    [ -e $UNITS/no-listener ] && exit 1
    weft token --serve >$UNITS/listener.log 2>&1 &
    for i in $(seq 100); do ss -Hltn 'sport = :20481' | grep -q . && exit 0; sleep 0.1; done
    exit 1 ;;
  "enable "*) touch "$UNITS/$2.enabled" ;;
  "disable "*) rm -f "$UNITS/$3.enabled" ;;
  "is-enabled "*) [ -e "$UNITS/$2.enabled" ] ;;
  "show "*) cat "$UNITS/$2" ;;
esac
"""
# In place of journalctl: a line of $UNITS/journal has who wrote it of which unit, a priority, and
# the text. -u has the lines of the service manager as well.
JOURNALCTL = """#!/bin/sh
case "$*" in
  --sync) exit 0 ;;
  *_SYSTEMD_UNIT=*" -p err") lines="${*#*_SYSTEMD_UNIT=}"; lines="service ${lines% -p err} 3 " ;;
  *_SYSTEMD_UNIT=*) lines="service ${*#*_SYSTEMD_UNIT=} . " ;;
  *) lines="${*#*-u }"; lines="[a-z]* ${lines%% *} . " ;;
esac
sed -n "s/^$lines//p" $UNITS/journal
"""
JOURNAL = """service weft-mds.service 6 weft: /etc/weft/ganesha.conf:3: what is wrong
service weft-mds.service 2 main :NFS STARTUP :MAJ :gsh_backtrace(main+0x943)
systemd weft-mds.service 4 Failed with result 'exit-code'.
service weft-ds@a.service 3 weft-ds: what is wrong
service weft-ds@a.service 6 event=stopping
systemd weft-ds@a.service 6 Scheduled restart job, restart counter is at 3.
systemd weft-join.service 3 Failed to apply capabilities.
"""
# A machine of its own as far as its files go: /etc upon the host's, all else empty.
OF_ITS_OWN = """set -e
mkdir -p $UNITS/upper $UNITS/work
mount -t overlay overlay -o lowerdir=/etc,upperdir=$UNITS/upper,workdir=$UNITS/work /etc
for folder in /run /var/lib /srv; do mount -t tmpfs tmpfs $folder; done
mkdir -p /run/systemd/system /srv/weft/a /srv/b
grep -q ^weft: /etc/passwd || echo weft:x:990:990::/:/bin/false >>/etc/passwd
good=ActiveState=active
bad=$(printf 'ActiveState=activating\\nNRestarts=3\\nStatusText=waits for its store')
silent=$(printf 'ActiveState=activating\\nNRestarts=3\\nStatusText=')
say() { echo "== $1"; shift; "$@" 2>&1 && echo "status 0" || echo "status $?"; }
"""
STEPS = """
echo "$bad" >$UNITS/weft-mds.service
say bad-init weft init --address {address}
echo "$silent" >$UNITS/weft-mds.service
say silent-init weft init --address {address}
echo "$good" >$UNITS/weft-mds.service
touch $UNITS/no-listener
say no-token weft init --address {address}
rm $UNITS/no-listener
chown root /etc/weft/cluster.key
say init weft -o json init --address {address}
python3 -c 'import socket, time
listener = socket.create_server(("{address}", 20480)); time.sleep(100)' &
for i in $(seq 100); do ss -Hltn 'sport = :20480' | grep -q . && break; sleep 0.1; done
token=$(cut -d' ' -f1 /run/weft/join-tokens | tail -1)
echo "$bad" >$UNITS/weft-ds@a.service
say bad-join weft join {address} $token --disk /srv/weft/a --domain r1
echo "$silent" >$UNITS/weft-ds@a.service
say silent-join weft join {address} $token --disk /srv/weft/a --domain r1
echo "$good" >$UNITS/weft-ds@a.service
printf '%s\\nAmbientCapabilities=cap_sys_resource\\n' "$good" >$UNITS/weft-ds@b.service
say join weft join {address} $token --disk /srv/weft/a --domain r1
say anew weft join {address} $token --disk /srv/weft/a --domain r1
say second sh -c "echo $token | weft join {address} - --disk /srv/b --domain r1"
touch /srv/b/identity
echo "$bad" >$UNITS/weft-ds@b.service
say waiting weft join {address} - --disk /srv/b
say files stat -c '%n %a %u' /etc/weft/cluster.key /run/weft/join-tokens /srv/weft/a /var/lib/weft
say toml grep -h 'create\\|listen' /etc/weft/ds-a.toml /etc/weft/ds-b.toml
say order cat /etc/systemd/system/weft-ds@b.service.d/store.conf
say drop-ins sh -c 'cd /etc/systemd/system && grep -r Capabilit.*= weft-ds@*.d'
say calls cat $UNITS/calls
"""


def test_no_metadata_server_is_one_line(first):
    for words in (["status"], ["ds", "list"], ["health"]):
        done = first.ask(*words)
        [line] = done.stderr.splitlines()
        assert line.startswith(f"weft: no metadata server is at {first.prefix}/run/weft/mds.sock: ")
        assert done.returncode == 2


def test_services_that_do_not_start_are_stopped_again(run, network):
    node = network.mds()
    folder = run.make_folder("units")
    (folder / "journal").write_text(JOURNAL)
    for name, text in (("systemctl", SYSTEMCTL), ("journalctl", JOURNALCTL)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    path = f"{folder}:{paths.weft_command().parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    # As in a container: without a capability.
    alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
             "setpriv", "--bounding-set=-sys_resource"]
    done = subprocess.run(
        [*node.enter_command(), *alone, "env", f"UNITS={folder}", f"PATH={path}", "sh", "-c",
         OF_ITS_OWN + STEPS.format(address=node.address)],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    said = dict(part.split("\n", 1) for part in done.stdout.split("== ")[1:])
    stopped = "does not start, and was stopped"
    assert f"weft-mds.service {stopped}: waits for its store" in said["bad-init"]
    assert said["bad-init"].endswith("status 2\n") and said["bad-init"].count("\n") == 2
    # One that has not come to a status: what its service wrote last.
    assert f"{stopped}: weft: /etc/weft/ganesha.conf:3: what is wrong (" in said["silent-init"]
    assert "weft-join.service does not start: Failed to apply capabilities. (" in said["no-token"]
    assert said["init"].endswith("status 0\n"), done.stdout
    assert f"weft-ds@a.service {stopped}" in said["bad-join"], done.stdout
    assert f"weft-ds@a.service {stopped}: weft-ds: what is wrong (" in said["silent-join"]
    assert said["join"].endswith("status 0\n"), done.stdout
    # There is no store: it is a new disk.
    assert "wrote /etc/weft/ds-a.toml" in said["anew"] and said["anew"].endswith("status 0\n")
    assert said["second"].endswith("status 0\n"), done.stdout
    assert said["files"].splitlines()[:4] == [
        "/etc/weft/cluster.key 600 990", "/run/weft/join-tokens 600 990", "/srv/weft/a 700 990",
        "/var/lib/weft 700 990"]
    assert said["toml"].splitlines()[:4] == [
        f'listen = ["{node.address}:2051"]', "create = false",
        f'listen = ["{node.address}:2052"]', "create = false"]
    assert "RequiresMountsFor=/srv/b" in said["order"]
    # Only of the unit that wants what this machine has not.
    file = "weft-ds@b.service.d/capabilities.conf"
    assert said["drop-ins"] == (f"{file}:AmbientCapabilities=\n{file}:CapabilityBoundingSet=\n"
                                "status 0\n")
    assert "no CAP_SYS_RESOURCE" in said["second"] and "CAP_SYS" not in said["join"]
    calls = said["calls"].splitlines()
    # It has worked, and may wait for what it needs: it goes on.
    assert ("weft-ds@b.service was set up before, and does not serve yet: waits for its store ("
            in said["waiting"])
    assert "disable --now weft-ds@b.service" not in calls
    assert calls.count("stop weft-ds@a.service") == 1
    for unit in ("weft-mds.service", "weft-ds@a.service"):
        assert calls.index(f"disable --now {unit}") > calls.index(f"start --no-block {unit}")
        started = calls.count(f"start --no-block {unit}")
        assert calls.count(f"enable {unit}") == started > 1
