"""The cluster key is changed under clients that write: add, use, drop, server after server, as
docs/keys.md has it. Nobody sees an error, and afterwards the old key is good for nothing."""

import subprocess

import pytest
from harness import handles, paths
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.config import NFS_PORT, Export
from harness.counters import weft
from harness.in_namespace import InNamespace
from harness.run import wait_until
from wire import Client, Status, const, ops

PART = "/part"
PART_AT = "/mnt/part"

# A file that stays open, one after the other that does not, and one whose handle is of before.
WRITE = """#!/usr/bin/python3
import os
from weftio import *
KEPT = "/mnt/nfs/kept"
PART = "/mnt/part/seen before"
check(PART, b"part")
kept = os.open(KEPT, os.O_CREAT | os.O_RDWR)
number = 0
while not os.path.exists("/run/weft/to_guest/event-enough"):
    number += 1
    os.pwrite(kept, block(number, MIB), number % 8 * MIB)
    os.fsync(kept)
    name = f"/mnt/nfs/file-{number % 16}"
    with open(name, "wb") as file:
        file.write(block(number, 2 * MIB))
        file.flush()
        os.fsync(file.fileno())
    drop_caches()
    check(name, block(number, 2 * MIB))
    same("what was written", os.pread(kept, MIB, number % 8 * MIB), block(number, MIB))
    check(PART, b"part")
    os.system(f"weft-signal round-{number}")
os.close(kept)
"""


def command(*words, fails=False):
    done = subprocess.run([str(paths.weft_command()), "key", *map(str, words)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20)
    assert done.returncode == (2 if fails else 0), done.stdout
    return done.stdout


def keys_of(file):
    return [line.split()[0] for line in command("show", file).splitlines()]


def status(cluster, key):
    """What weft key status says of a key."""
    return next(one for one in weft(cluster, "key", "status")["keys"] if one["key"] == key)


def logs_of(cluster):
    """Of every server, by its name."""
    processes = [server.process for server in cluster.ds + cluster.targets]
    return {"mds": cluster.run.folder / "ganesha.log",
            **{process.name: process.log for process in processes}}


def wait_read(cluster, says):
    """Until the log of each says that it has read its key file anew, and has these keys."""
    for name, log in logs_of(cluster).items():
        wait_until(lambda one=log: any(line.endswith(f"event=keys_changed {says}")
                                       for line in one.read_text().splitlines()),
                   20, f"{name} to say {says}", 0.1)


def copy_to(file, text):
    """As an administrator does it: whole, and not readable for others."""
    new = file.with_suffix(".new")
    new.touch(0o600)
    new.write_text(text)
    new.rename(file)


def status_of(cluster, key, access, shows=""):
    """What each data server says of a handle that is sealed with this key, to who shows by another
    key, or the same, that it is a server."""
    def proof(owner, verifier):
        return handles.server_domain(shows or key, owner, verifier)

    def ask(server):
        number = weft(cluster, "ds", "list")
        ds_id = next(one["id"] for one in number if one["name"] == server.name)
        with Client((server.node.address, NFS_PORT), minor=1,
                    flags=const.EXCHGID_USE_PNFS_DS, domain=proof) as client:
            return client.compound(ops.putfh(handles.seal(key, ds_id, 12345, access))).status
    return {InNamespace(cluster.mds_node, lambda one=server: ask(one)).result()
            for server in cluster.ds}


def join_as_server(cluster, key):
    """A session with each data server, of who shows by this key that it is a server."""
    def join(server):
        return Client((server.node.address, NFS_PORT), minor=1, flags=const.EXCHGID_USE_PNFS_DS,
                      domain=lambda owner, verifier: handles.server_domain(key, owner, verifier))
    return [InNamespace(cluster.mds_node, lambda one=server: join(one)).result()
            for server in cluster.ds]


def await_ended(sessions):
    """They end with their key, however often they are used."""
    wait_until(lambda: all(session.compound().status == Status.BADSESSION for session in sessions),
               20, "sessions of the old key to end", 0.1)
    for session in sessions:
        session.vanish()


def make_part(cluster, client):
    """A directory that is exported by itself, and mounted."""
    client.run("mkdir /mnt/nfs/dir && printf part > '/mnt/nfs/dir/seen before'")
    cluster.reload_exports([*cluster.exports, Export(9, PART, path="/dir")])
    client.mount(cluster.address, PART, at=PART_AT)


@pytest.mark.parametrize("store, options", [
    ("folder", {}),
    ("folder", {"Copies": "2"}),
    ("shm", {}),
    ("parity3-tcp", {}),
], ids=["folder", "copies", "target", "parity"])
def test_nobody_notices_a_change_of_the_key(run, network, store, options):
    cluster = Cluster(run, network, Options(
        data_servers=2, store=store, extra=options,
        shared_memory=("ds",) if store == "shm" else ()))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    client = start_client(run, network, uid=1000)
    client.mount(cluster.address, cluster.path)
    make_part(cluster, client)
    files = cluster.key_files
    assert len(files) == 1 + len(cluster.ds + cluster.targets)
    old_text = files[0].read_text().splitlines()[0]
    job = client.start_job(WRITE)
    client.wait_event("round-2", 120)

    def more_rounds():
        rounds = len([*client.from_guest.glob("event-round-*")])
        wait_until(lambda: len([*client.from_guest.glob("event-round-*")]) >= rounds + 3 or
                   job.done(), 120, "more rounds", 0.2)
        assert not job.done(), job.output

    old, = keys_of(files[0])
    command("add", files[0])
    _, new = keys_of(files[0])
    wait_until(lambda: any(one["key"] == new for one in weft(cluster, "key", "status")["keys"]),
               20, "the metadata server to have the new key", 0.1)
    assert not status(cluster, new)["may_be_used"]
    for file in files[1:]:
        copy_to(file, files[0].read_text())
    wait_read(cluster, f"uses={old} accepts={old},{new}")
    # Targets say it once a second.
    wait_until(lambda: status(cluster, new)["may_be_used"], 30, "the new key to be accepted by all",
               0.2)
    assert not status(cluster, old)["may_be_dropped"]
    more_rounds()
    command("add", files[0], fails=True)
    command("drop", files[0], old, fails=True)
    for file in files:
        command("use", file, new)
        command("use", file, new)  # said twice is said once
    wait_read(cluster, f"uses={new} accepts={new},{old}")
    wait_until(lambda: status(cluster, old)["may_be_dropped"], 20, "the old key to be used by none",
               0.1)
    assert not status(cluster, new)["may_be_dropped"]
    more_rounds()
    for access in (handles.READ_WRITE, handles.CONTROL):
        assert status_of(cluster, old_text, access) == {Status.OK}
    sessions = join_as_server(cluster, old_text)
    assert all(session.compound().status == Status.OK for session in sessions)
    for file in reversed(files):
        command("drop", file, old)
        command("drop", file, old)
    wait_read(cluster, f"uses={new} accepts={new}")
    await_ended(sessions)
    more_rounds()
    client.signal("enough")
    job.wait(120)
    new_text, = files[0].read_text().splitlines()
    for access in (handles.READ_WRITE, handles.CONTROL):
        assert status_of(cluster, old_text, access, new_text) == {Status.BADHANDLE}
        assert status_of(cluster, new_text, access) == {Status.OK}
    for log in logs_of(cluster).values():
        assert "event=data_server_refused" not in log.read_text()
        assert "event=key_file_unusable" not in log.read_text()
    # What servers sent each other came to its end.
    for server in cluster.ds:
        assert "event=server_sessions_end" in server.process.log.read_text()
        assert "event=partner_away" not in server.process.log.read_text()


@pytest.mark.parametrize("store", ["shm", "tcp", "parity3-tcp"])
def test_targets_are_asked_which_keys_they_have(run, network, store):
    cluster = Cluster(run, network, Options(
        data_servers=1, store=store, shared_memory=("ds",) if store == "shm" else ()))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    files = cluster.key_files
    targets = len(cluster.targets)
    old, = keys_of(files[0])

    def told():
        """Keys of each target, or None where they are not known."""
        _, server = weft(cluster, "key", "status")["servers"]
        assert [one["address"] for one in server["targets"]] == \
            [one.address for one in cluster.targets]
        assert all(bool(one["keys"]) != bool(one["why"]) for one in server["targets"])
        return [one["keys"] or None for one in server["targets"]]

    wait_until(lambda: told() == [[old]] * targets, 60, "targets to be known", 0.2)
    command("add", files[0])
    _, new = keys_of(files[0])
    of_last = files[targets]  # after the metadata server's and those of the other targets
    for file in files[1:]:
        if file != of_last:
            copy_to(file, files[0].read_text())
    wait_until(lambda: any(one["key"] == new for one in weft(cluster, "key", "status")["keys"]),
               30, "the metadata server to have the new key", 0.2)
    wait_until(lambda: told() == [[old, new]] * (targets - 1) + [[old]] and
               status(cluster, new)["accepted"] == 1 + targets,
               60, "all but the last target to have the new key", 0.2)
    assert not status(cluster, new)["may_be_used"]
    copy_to(of_last, files[0].read_text())
    wait_until(lambda: status(cluster, new)["may_be_used"], 60, "the last one to have it", 0.2)
    last = cluster.targets[-1]
    last.process.kill()
    wait_until(lambda: told()[-1] is None, 60, "the target to be missed", 0.2)
    assert not status(cluster, new)["may_be_used"]
    assert not status(cluster, old)["may_be_dropped"]
    last.process.start()
    wait_until(lambda: status(cluster, new)["may_be_used"], 60, "the target to be back", 0.2)
    for file in files:
        if file != of_last:
            command("use", file, new)
    wait_until(lambda: status(cluster, new)["used"] == 1 + targets, 60,
               "all but the last target to use the new key", 0.2)
    assert not status(cluster, old)["may_be_dropped"]
    command("use", of_last, new)
    wait_until(lambda: status(cluster, old)["may_be_dropped"], 60, "none to use the old key", 0.2)


def test_a_bad_key_file_changes_nothing(run, network):
    cluster = Cluster(run, network, Options(data_servers=1))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    mds_key, ds_key = cluster.key_files
    good = ds_key.read_text()
    for bad, mode, why in (("nonsense\n", 0o600, "64 hexadecimal digits"), ("", 0o600, "no key"),
                           (good, 0o644, "readable by its owner only")):
        for file in (ds_key, mds_key):
            copy_to(file, bad)
            file.chmod(mode)
        for name, log in logs_of(cluster).items():
            wait_until(lambda one=log, text=why: text in one.read_text(), 20,
                       f"{name} to complain of what is wrong: {why}", 0.1)
    assert status_of(cluster, good, handles.READ_WRITE) == {Status.OK}
    for file in (mds_key, ds_key):
        file.chmod(0o600)
    for log in logs_of(cluster).values():
        # A line for each that was read, whether its mode was set by then or not.
        assert log.read_text().count("event=key_file_unusable") <= 6
        assert "event=keys_changed" not in log.read_text()
    cluster.ds[0].process.kill()
    cluster.ds[0].process.start()
    cluster.wait_up()
