"""A backup of the metadata store is made while clients write, the metadata disk is lost, and the
backup brought back. What was there at the backup is there; what came later is told of, and nothing
wrong is read."""

import json
import os
import shutil
import subprocess
import time

import pytest
from harness import counters, disks, paths, servers
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.copies import differences, objects_of
from harness.run import wait_until

MIB = 1 << 20

needs_disks = pytest.mark.skipif(not os.path.exists("/dev/loop-control"),
                                 reason="needs loop devices")

MAKE = """
set -e
cd /mnt/nfs/d
for n in $(seq 12); do head -c 3M /dev/urandom > keep$n; head -c 2K /dev/urandom > small$n; done
for name in removed cut rewritten grown; do head -c 3M /dev/urandom > $name; done
head -c 2K /dev/urandom > small-removed
: > empty
sync
sha256sum keep* small* > /tmp/sums
sha256sum cut removed grown | cut -c 1-64 > /tmp/others
"""

# Goes on while the backup is made.
BUSY = """
cd /mnt/nfs/d
mkdir -p busy
weft-signal busy
for n in $(seq 400); do
  echo $n > busy/$n
  head -c 100K /dev/zero > busy/large$((n % 7))
  rm -f busy/$((n - 5))
done
"""

AFTER = """
set -e
cd /mnt/nfs/d
rm removed small-removed
truncate -s 1M cut
head -c 1M /dev/urandom >> grown
sha256sum grown > /tmp/grown
head -c 3M /dev/urandom > rewritten
head -c 200K /dev/urandom > empty
sha256sum rewritten empty > /tmp/rewritten
for n in $(seq 5); do head -c 1M /dev/urandom > new$n; done
mv keep12 moved12
sync
"""


def weft(cluster, *words, check=True):
    """The command line, for people."""
    done = subprocess.run([str(servers.require(paths.weft_command())), *words],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={"PATH": "/usr/bin:/bin",
                               "WEFT_ADMIN_SOCKET": str(cluster.admin_socket)}, timeout=120)
    assert not check or done.returncode == 0, done.stdout
    return done


def begin_weft(cluster, *words):
    return subprocess.Popen([str(servers.require(paths.weft_command())), *words],
                            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            env={"PATH": "/usr/bin:/bin",
                                 "WEFT_ADMIN_SOCKET": str(cluster.admin_socket)})


def lose_metadata(cluster):
    """The metadata server's disk, with what it keeps of clients."""
    cluster.mds.kill()
    shutil.rmtree(cluster.folder / "metadata")
    for folder in cluster.folder.glob("*recov*"):
        shutil.rmtree(folder)


def mount_again(cluster):
    client = cluster.client
    client.run("umount -l /mnt/nfs || umount -f /mnt/nfs", 60, root=True)
    client.mount(cluster.address, cluster.path)


def restored(cluster):
    return counters.weft(cluster, "restored", "status", timeout_s=60)


def io_error(client, path):
    done = client.run(f"cat {path} 2>&1 > /dev/null", 120, check=False)
    return "Input/output error" in done.output


@pytest.fixture(name="cluster", params=[1, 2])
def made(run, network, request):
    cluster = Cluster(run, network, Options(data_servers=3, lease_s=5, grace_s=6, store="folder"))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    cluster.copies = request.param
    cluster.client = start_client(run, network)
    cluster.client.mount(cluster.address, cluster.path)
    cluster.client.run("mkdir -m 777 /mnt/nfs/d")
    counters.weft(cluster, "policy", "set", cluster.path + "/d", f"copies={cluster.copies}",
                  "stripes=1")
    return cluster


@pytest.mark.faults
def test_the_metadata_disk_is_lost(run, cluster):
    client = cluster.client
    client.run(MAKE, 120)
    job = client.start_job(BUSY)
    client.wait_event("busy")
    backup = run.folder / "backup"
    link = run.folder / "linked.conf"
    link.symlink_to(cluster.folder / "ganesha.conf")
    said = weft(cluster, "backup", str(backup), "--config", str(link))
    assert "the metadata store as of" in said.stdout
    assert not job.done()
    assert (backup.stat().st_mode & 0o777) == 0o700
    assert not (cluster.folder / "metadata" / "checkpoint").exists()
    assert "exists" in weft(cluster, "backup", str(backup), check=False).stdout
    job.wait(240)
    client.run(AFTER, 120)
    strays = {name for server in cluster.ds for name in objects_of(server.store)}

    lose_metadata(cluster)
    store = cluster.folder / "metadata"
    store.mkdir()
    (store / "something").touch()
    refused = weft(cluster, "restore", str(backup), "--to", str(store), check=False)
    assert refused.returncode == 2 and "not empty" in refused.stdout
    (store / "something").unlink()
    assert "is whole" in weft(cluster, "restore", "--check", str(backup)).stdout
    whole = weft(cluster, "-o", "json", "restore", "--check", str(backup)).stdout
    assert json.loads(whole)["version"]
    weft(cluster, "restore", str(backup), "--to", str(store))
    cluster.restart_mds()
    cluster.wait_up()
    mount_again(cluster)

    # All that was there is there, and what is gone is an error.
    client.run("cd /mnt/nfs/d && sha256sum -c --quiet /tmp/sums 2>&1", 120)
    assert io_error(client, "/mnt/nfs/d/removed")
    assert io_error(client, "/mnt/nfs/d/cut")
    # What was written since is there as well; what was made since is not.
    client.run("cd /mnt/nfs/d && sha256sum -c --quiet /tmp/grown 2>&1 && "
               "sha256sum rewritten > /tmp/now && grep rewritten /tmp/rewritten | cmp - /tmp/now "
               "&& [ ! -e new1 ] && [ ! -e moved12 ] && [ ! -s empty ]", 120)
    status = wait_until(lambda: (lambda now: now if now["unchecked"] == 0 else None)(
        restored(cluster)), 60, "all files to be looked at", 0.5)
    assert {file["path"] for file in status["files"]
            if "busy" not in file["path"]} == {"/d/removed", "/d/cut"}, status
    assert status["grown"] >= 1
    assert "weft audit start --check tells" in weft(cluster, "restored", "status").stdout
    assert any("lost bytes" in problem for problem in counters.weft(cluster, "status")["problems"])

    what_was_written_since_is_told(cluster)
    new_files_have_nothing_old(cluster)
    strays_stay_until_they_are_not_wanted(cluster, strays)
    damage_is_an_administrators(cluster)
    if cluster.copies == 2:
        wait_until(lambda: counters.weft(cluster, "status")["stale_objects"] == 0, 120,
                   "the copies to be compared", 0.5)
        client.run("cd /mnt/nfs/d && sha256sum -c --quiet /tmp/sums 2>&1", 120)
        wait_until(lambda: not differences(cluster, 2), 60, "the copies to be equal", 1)
    cluster.mds.stop()
    done = weft(cluster, "fsck", "--json", str(store), check=False)
    assert json.loads(done.stdout)["clean"], done.stdout


def what_was_written_since_is_told(cluster):
    def told():
        return {event["text"] for event in counters.weft(cluster, "events")["events"]
                if event["event"] == "changed_since_backup"}

    def names(file, what):
        return any(text.startswith(file + " (fileid ") and text.endswith(what) for text in told())
    wait_until(lambda: names("/d/grown", ") grew from 3145728 to 4194304 bytes after the backup"),
               30, "the file that grew to be told", 0.5)
    wait_until(lambda: names("/d/rewritten", ") was written after the backup"), 30,
               "the file that was rewritten to be told", 0.5)
    assert not any("/d/keep1 " in text for text in told())


def new_files_have_nothing_old(cluster):
    cluster.client.run(
        "cd /mnt/nfs/d && for n in $(seq 20); do head -c 1M /dev/zero > fresh$n; done; "
        "head -c 100 /dev/zero > empty && truncate -s 200K empty && sync && "
        "weft-drop-caches && for f in fresh* empty; do "
        "tr -d '\\0' < $f | wc -c; done | sort -u > /tmp/zeros && echo 0 | cmp - /tmp/zeros", 120)


def strays_stay_until_they_are_not_wanted(cluster, strays):
    def there():
        return {name for server in cluster.ds for name in objects_of(server.store)}
    refused = weft(cluster, "audit", "start", check=False)
    assert refused.returncode == 2 and "--remove-strays" in refused.stdout
    weft(cluster, "audit", "start", "--check")
    found = audited(cluster)
    assert found["strays"] >= 5 * cluster.copies and found["removed"] == 0, found
    assert strays <= there()
    weft(cluster, "audit", "start", "--remove-strays")
    assert audited(cluster, 2)["removed"] >= 5 * cluster.copies
    wait_until(lambda: not strays <= there(), 60, "the strays to go", 0.5)


def damage_is_an_administrators(cluster):
    cluster.client.run("rm /mnt/nfs/d/removed")
    weft(cluster, "restored", "accept", cluster.path + "/d/cut")
    cluster.client.run("cd /mnt/nfs/d && [ $(stat -c %s cut) = 3145728 ] && "
                       "head -c 1M cut > /dev/null && tail -c 2M cut | tr -d '\\0' | wc -c "
                       "| grep -qx 0", 120)


def audited(cluster, rounds=1):
    def ended():
        status = counters.weft(cluster, "audit", "status")["audit"]
        return status if status["rounds"] >= rounds and not status["running"] else None
    return wait_until(ended, 60, "the audit to end", 0.2)


@pytest.mark.faults
def test_the_same_backup_twice(run, cluster):
    """A year later the disk is lost again, and the only backup is that of the first time."""
    client = cluster.client
    client.run("head -c 1M /dev/urandom > /mnt/nfs/d/f; sync; sha256sum /mnt/nfs/d/f > /tmp/f")
    backup = run.folder / "backup"
    weft(cluster, "backup", str(backup))
    numbers = []
    for _ in range(2):
        lose_metadata(cluster)
        weft(cluster, "restore", str(backup), "--to", str(cluster.folder / "metadata"))
        cluster.restart_mds()
        cluster.wait_up()
        mount_again(cluster)
        client.run("sha256sum -c --quiet /tmp/f", 120)
        client.run("head -c 1M /dev/urandom > /mnt/nfs/d/g && sync && "
                   "sha256sum /mnt/nfs/d/g > /tmp/g && weft-drop-caches && "
                   "sha256sum -c --quiet /tmp/g", 120)
        numbers.append(int(client.run("stat -c %i /mnt/nfs/d/g").output))
    assert numbers[0] < numbers[1]


@pytest.mark.faults
def test_an_older_backup_and_then_a_newer_one(run, cluster):
    """What was removed as a stray after the one is a file again after the other, and is written
    anew: at the data servers nothing of before is in the way."""
    client = cluster.client
    client.run("head -c 1M /dev/urandom > /mnt/nfs/d/f; sync")
    older, newer = run.folder / "older", run.folder / "newer"
    weft(cluster, "backup", str(older))
    client.run("head -c 1M /dev/urandom > /mnt/nfs/d/g; sync")
    weft(cluster, "backup", str(newer))

    def bring_back(backup):
        lose_metadata(cluster)
        weft(cluster, "restore", str(backup), "--to", str(cluster.folder / "metadata"))
        cluster.restart_mds()
        cluster.wait_up()
        mount_again(cluster)

    bring_back(older)
    client.run("[ ! -e /mnt/nfs/d/g ]")
    time.sleep(2)  # an audit in the second of the restore removes nothing
    weft(cluster, "audit", "start", "--remove-strays")
    assert audited(cluster)["removed"] == cluster.copies
    wait_until(lambda: sum(len(objects_of(server.store)) for server in cluster.ds) ==
               cluster.copies, 60, "the strays to go", 0.5)
    bring_back(newer)
    assert io_error(client, "/mnt/nfs/d/g")
    client.run("cd /mnt/nfs/d && head -c 1M /dev/urandom > g && sync && sha256sum g > /tmp/g && "
               "weft-drop-caches && sha256sum -c --quiet /tmp/g", 120)


@pytest.mark.faults
@needs_disks
def test_a_backup_that_does_not_fit(run, network):
    """It is refused with the numbers, and nothing of it is written. Beside the store it leaves what
    that keeps free."""
    cluster = Cluster(run, network, Options(data_servers=1, store="folder", mds_mib=256))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    small = run.make_folder("small")
    disks.Disk(run, small, 16)
    checkpoint = cluster.folder / "metadata" / "checkpoint"
    done = weft(cluster, "backup", str(small / "b"), check=False)
    assert done.returncode == 2 and len(done.stdout.splitlines()) == 1, done.stdout
    assert "no space: the backup needs" in done.stdout and "the metadata store" not in done.stdout
    assert [file.name for file in small.iterdir()] == ["lost+found"]
    assert not checkpoint.exists()

    beside = cluster.folder / "b"
    weft(cluster, "backup", str(beside))
    shutil.rmtree(beside)
    free = os.statvfs(cluster.folder)
    with open(cluster.folder / "ballast", "wb") as ballast:
        os.posix_fallocate(ballast.fileno(), 0, free.f_bavail * free.f_frsize - 20 * MIB)
    done = weft(cluster, "backup", str(beside), check=False)
    assert done.returncode == 2 and "stay free for the metadata store" in done.stdout, done.stdout
    assert not any(file.name.startswith("b.") for file in cluster.folder.iterdir())
    assert not beside.exists() and not checkpoint.exists()
    weft(cluster, "backup", str(run.folder / "b"))


@pytest.mark.faults
@needs_disks
def test_the_store_gets_full_during_a_backup(run, network):
    """The checkpoint goes, and its copy is no backup."""
    cluster = Cluster(run, network, Options(data_servers=1, store="folder", mds_mib=256))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    elsewhere = run.make_folder("elsewhere")
    disks.Disk(run, elsewhere, 64)
    checkpoint = cluster.folder / "metadata" / "checkpoint"
    with disks.frozen(elsewhere):  # the copy waits
        job = begin_weft(cluster, "backup", str(elsewhere / "b"))
        wait_until(checkpoint.exists, 30, "the checkpoint", 0.05)
        time.sleep(2)
        assert checkpoint.exists() and job.poll() is None
        disks.fill(cluster.folder)
        wait_until(lambda: not checkpoint.exists(), 30, "the checkpoint to go", 0.1)
        assert job.poll() is None
    said, _ = job.communicate(timeout=60)
    assert job.returncode == 2 and "no space: the metadata store is full" in said, said
    assert [file.name for file in elsewhere.iterdir()] == ["lost+found"]
    refused = weft(cluster, "backup", str(elsewhere / "b"), check=False)
    assert refused.returncode == 2 and "full" in refused.stdout, refused.stdout
    disks.unfill(cluster.folder)
    wait_until(lambda: weft(cluster, "backup", str(elsewhere / "b"), check=False).returncode == 0,
               60, "a backup", 1)
    assert "is whole" in weft(cluster, "restore", "--check", str(elsewhere / "b")).stdout


@pytest.mark.faults
def test_a_backup_that_does_not_end(run, network):
    """Nothing that is not whole has a backup's name, and nothing is kept for it."""
    cluster = Cluster(run, network, Options(data_servers=1, store="folder"))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    backup = run.folder / "no" / "such" / "folder"
    done = weft(cluster, "backup", str(backup), check=False)
    assert done.returncode == 2 and "No such file" in done.stdout
    assert not (cluster.folder / "metadata" / "checkpoint").exists()
    done = weft(cluster, "backup", str(run.folder / "b"), "--config", "/no/such.conf", check=False)
    assert done.returncode == 2 and not (run.folder / "b").exists()
    weft(cluster, "backup", str(run.folder / "b"))
    manifest = run.folder / "b" / "weft-backup"
    assert "key" in manifest.read_text() and not (run.folder / "b" / "cluster.key").exists()
    damaged = next((run.folder / "b" / "store").glob("*.sst"))
    damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
    to = run.folder / "to"
    done = weft(cluster, "restore", str(run.folder / "b"), "--to", str(to), check=False)
    assert done.returncode == 1 and "damaged" in done.stdout
    # It is no store, and can be filled again.
    assert (to / "RESTORING").exists()
    weft(cluster, "backup", str(run.folder / "c"))
    weft(cluster, "restore", str(run.folder / "c"), "--to", str(to))
    assert not (to / "RESTORING").exists()
