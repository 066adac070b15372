"""The harness itself, against Ganesha's own VFS: nothing of Weft takes part.

If something fails here, failures elsewhere say nothing about Weft.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness import disks, paths, servers
from harness.client import ClientDied, JobFailed, start_client, start_clients
from harness.disks import Disk
from harness.machines import need_kind
from harness.process import Process
from harness.run import Run, sh, sweep, wait_until
from wire.rpc import USER

COPY = """
set -e
head -c 32M /dev/urandom > /tmp/in
cp /tmp/in /mnt/nfs/{name}
weft-drop-caches
cmp /tmp/in /mnt/nfs/{name}
sha256sum < /tmp/in | cut -d' ' -f1
"""


@pytest.fixture
def vfs(run, network):
    """Ganesha's VFS at 10.77.0.1:/export, its folder in run.folder/vfs."""
    node = network.mds()
    process = servers.start_vfs(run, node)
    process.address = node.address
    return process


def sha256(file: Path) -> str:
    return sh("sha256sum", str(file)).split()[0]


@pytest.mark.parametrize("kind,release", [
    ("uml61", "6.1."), pytest.param("qemu61", "6.1.", marks=pytest.mark.long),
    pytest.param("uml612", "6.12.", marks=pytest.mark.long)])
def test_each_kind_boots_and_copies(run, network, vfs, kind, release):
    need_kind(kind)
    client = start_client(run, network, kind)
    assert client.wait_ready().startswith(release)
    client.mount(vfs.address, "/export")
    copied = client.run(COPY.format(name="a")).output.split()[-1]
    assert sha256(run.folder / "vfs" / "a") == copied
    assert client.pnfs_driver() == "not configured"
    client.unmount()
    client.stop()
    assert not client.alive


def test_jobs_status_output_python_and_many_at_once(run, network):
    client = start_client(run, network)
    failed = client.run("echo out; echo err >&2; exit 7", check=False)
    assert (failed.status, failed.output) == (7, "out\nerr\n")
    ids = "import os; print(os.getuid(), os.getgid(), os.getgroups())"
    assert client.python(ids).output == f"{USER} {USER} []\n"
    assert client.python(ids, root=True).output == "0 0 []\n"
    client.run("test -w /proc/sys/vm/drop_caches && exit 1; weft-drop-caches; weft-signal dropped")
    client.wait_event("dropped", 5)
    jobs = [client.start_job(f"weft-wait go 20; echo {i}") for i in range(5)]
    assert not any(job.done() for job in jobs)
    client.signal("go")
    assert [job.wait(20).output for job in jobs] == [f"{i}\n" for i in range(5)]


def test_job_that_takes_too_long_is_killed(run, network):
    client = start_client(run, network)
    with pytest.raises(JobFailed, match="started"):
        client.run("echo started; sleep 100", timeout_s=1)
    wait_until(lambda: client.run("pgrep -x sleep", check=False).status == 1, 10, "sleep to go")


def test_a_machine_that_dies_ends_the_wait(run, network):
    client = start_client(run, network)
    job = client.start_job("sleep 1; echo c > /proc/sysrq-trigger; sleep 100", root=True)
    with pytest.raises(ClientDied):
        job.wait(60)


def test_two_clients_at_once_see_each_other(run, network, vfs):
    first, second = start_clients(run, network, ["uml61", "uml61"])
    for client in (first, second):
        client.mount(vfs.address, "/export")
    job = first.start_job("echo one > /mnt/nfs/a; weft-signal written; weft-wait read\n"
                          "rm /mnt/nfs/a")
    first.wait_event("written")
    assert second.run("cat /mnt/nfs/a").output == "one\n"
    first.signal("read")
    job.wait(20)
    assert second.run("ls /mnt/nfs").output == ""


@pytest.mark.faults
def test_cut_link_stalls_and_restored_link_goes_on(run, network, vfs):
    client = start_client(run, network)
    client.mount(vfs.address, "/export")
    client.node.cut()
    job = client.start_job("echo late > /mnt/nfs/late && sync /mnt/nfs/late")
    time.sleep(2)
    assert not job.done()
    client.node.restore()
    job.wait(30)
    assert (run.folder / "vfs" / "late").read_text() == "late\n"


@pytest.mark.faults
def test_server_killed_in_a_copy_and_started_again(run, network, vfs):
    client = start_client(run, network)
    client.mount(vfs.address, "/export")
    job = client.start_job("set -e; head -c 200M /dev/urandom > /tmp/in; weft-signal go\n"
                           "cp /tmp/in /mnt/nfs/big; cmp /tmp/in /mnt/nfs/big")
    client.wait_event("go")
    time.sleep(0.2)
    vfs.kill()
    assert vfs.status == -signal.SIGKILL
    vfs.start()
    job.wait(90)


def test_paused_server_is_silent_until_resumed(run, network, vfs):
    client = start_client(run, network)
    client.mount(vfs.address, "/export")
    vfs.pause()
    job = client.start_job("touch /mnt/nfs/x")
    time.sleep(1.5)
    assert not job.done()
    vfs.resume()
    job.wait(20)


@pytest.mark.alone
def test_limited_link_is_limited(run, network, vfs):
    client = start_client(run, network)
    client.mount(vfs.address, "/export")
    client.node.limit("100mbit")
    started = time.monotonic()
    client.run("dd if=/dev/zero of=/mnt/nfs/z bs=1M count=24 conv=fsync status=none")
    slow = time.monotonic() - started
    assert 1.7 < slow < 10  # 24 MiB need 2 s
    client.node.unlimit()


CRASH = """
import os, sys, time
sys.path.insert(0, {system!r})
from harness.client import start_client
from harness.network import Network
from harness.run import Run
run = Run()
start_client(run, Network(run))
os.environ["WEFT_TEST_RUNS"] = str(run.make_folder("disk"))
inner = Run()
Network(inner).mds()
print(run.name, inner.name, flush=True)
time.sleep(100)
"""


def test_a_server_with_mounts_of_its_own_holds_no_other_runs_disk(run):
    hosts = run.folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    with Run() as other:
        disk = Disk(other, other.make_folder("disk"), 16)
        holder = Process(run, "holder", [*servers.with_hosts(hosts), "sh", "-c",
                                         "cat /etc/hosts; exec sleep 1000"])
        holder.start()
        wait_until(lambda: "localhost" in holder.log.read_text(), 10, "its own /etc/hosts")
        disk.mount_again()


def test_a_disk_whose_device_another_one_takes_at_once(run, monkeypatch):
    disk = Disk(run, run.make_folder("disk"), 16)
    other = Disk(run, run.make_folder("other"), 16)
    sh("umount", str(other.folder))
    device = sh("findmnt", "-no", "SOURCE", str(disk.folder)).strip()
    taken = []

    def unmount_and_take(*words, **options):
        output = sh(*words, **options)
        if words[0] == "umount" and not output:
            wait_until(lambda: not sh("mount", "-o", f"loop={device}", str(other.image),
                                      str(other.folder), check=False), 10, f"{device} to be free")
            taken.append(device)
        return output

    monkeypatch.setattr(disks, "sh", unmount_and_take)
    (disk.folder / "file").write_text("stable")
    disk.mount_again()
    assert taken and (disk.folder / "file").read_text() == "stable"
    assert sh("findmnt", "-no", "SOURCE", str(disk.folder)).strip() != device


def test_what_a_killed_run_left_is_swept(tmp_path):
    script = tmp_path / "crash.py"
    script.write_text(CRASH.format(system=str(Path(__file__).parent)))
    child = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    name, inner = child.stdout.readline().split()
    for one in (name, inner):
        assert one in sh("ip", "netns", "list")
    child.kill()
    child.wait()
    sweep()  # or a run of another process that begins now does it
    wait_until(lambda: not (paths.runs_folder() / name).exists(), 20, f"{name} to be swept", 0.1)
    for one in (name, inner):
        assert one not in sh("ip", "netns", "list")
