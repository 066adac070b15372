"""Several exports of one metadata store: each has its own options, and comes and goes by itself."""

import os
import re
import threading
from pathlib import Path

import pytest
from harness import disks
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.config import CONTROL_PORT, NFS_PORT, Export
from harness.counters import through_data_servers, weft
from harness.in_namespace import InNamespace
from harness.run import sh, wait_until
from wire import Client, NfsError, Op, Packer, Status, const, layout_ops, ops
from wire.rpc import auth_sys

FIRST = "/export"
SECOND = "/second"
# Freed memory does not look alive.
PERTURB = {"MALLOC_PERTURB_": "165", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}


@pytest.fixture
def perturbed(monkeypatch):
    for name, value in PERTURB.items():
        monkeypatch.setenv(name, value)


def make(run, network, *more, **options):
    cluster = Cluster(run, network, Options(lease_s=40, more_exports=more, **options))
    if not cluster.counted:
        pytest.skip("Ganesha's VFS shares no store")
    with cluster.connect() as client:
        for export in cluster.exports:  # the last ones may come after the port
            wait_until(lambda path=export.pseudo: there(client, path), 30, export.pseudo)
    return cluster


def copies(cluster, path):
    return {len(stripe["copies"]) or 1
            for stripe in weft(cluster, "layout", "show", path)["stripes"]}


def test_each_export_has_its_own_copies(run, network):
    """Whichever export a directory was seen through first, and also through I/O here."""
    cluster = make(run, network, Export(2, SECOND, extra={"Copies": "2"}),
                   extra={"Copies": "1"}, data_servers=2)
    with cluster.connect() as client:
        for path, expected in ((FIRST, 1), (SECOND, 2), (FIRST, 1)):
            name = f"file-{expected}".encode()
            handle, stateid = client.open(path, name, create=True)
            client.call(ops.putfh(handle), layout_ops.layoutget(stateid))
            assert copies(cluster, f"{path}/{name.decode()}") == {expected}
            handle, stateid = client.open(path, name + b"-through", create=True)
            client.call(ops.putfh(handle), ops.write(stateid, 0, b"x" * 100_000))
            assert copies(cluster, f"{path}/{name.decode()}-through") == {expected}


def test_each_export_has_its_own_layouts(run, network):
    """Of another type, or none."""
    cluster = make(run, network, Export(2, SECOND, layout="flexfiles"),
                   Export(3, "/none", pnfs=False), data_servers=1)

    def layout(path, kind):
        handle, stateid = client.open(path, f"{path[1:]}-{kind}".encode(), create=True)
        return client.compound(ops.putfh(handle), layout_ops.layoutget(
            stateid, layout_type=kind)).status

    files, flexfiles = const.LAYOUT4_NFSV4_1_FILES, const.LAYOUT4_FLEX_FILES
    with cluster.connect() as client:
        for _ in range(2):
            assert layout(FIRST, files) == Status.OK
            assert layout(FIRST, flexfiles) == Status.UNKNOWN_LAYOUTTYPE
            assert layout(SECOND, flexfiles) == Status.OK
            assert layout(SECOND, files) == Status.UNKNOWN_LAYOUTTYPE
            assert layout("/none", files) == Status.LAYOUTUNAVAILABLE


def write_at_data_server(cluster, layout, data):
    """Under a layout of one data server, stable when it returns."""
    cluster.ds[0].process.wait_port(NFS_PORT)
    body = layout_ops.unpack_files_layout(layout.layouts[0].body)
    with cluster.connect_to(cluster.ds[0]) as server:
        server.call(ops.putfh(body.handles[0]),
                    ops.write(ops.ANONYMOUS, 0, data, const.UNSTABLE4))
        server.call(ops.putfh(body.handles[0]), ops.commit())


def test_a_size_in_doubt_is_asked_for_through_any_export(run, network):
    """What GETATTR learns from the data servers changes the attributes it is asked for."""
    cluster = make(run, network, Export(2, SECOND), data_servers=1)
    with cluster.connect() as client:
        client.handle(FIRST)
        handle, stateid = client.open(SECOND, b"doubtful", create=True)
        layout = client.call(ops.putfh(handle), layout_ops.layoutget(stateid))
        write_at_data_server(cluster, layout, b"d" * 8192)
        client.call(ops.putfh(handle), layout_ops.layoutreturn(layout.stateid))
        late = client.compound(ops.putfh(handle),
                               layout_ops.layoutcommit(layout.stateid, last_write=10))
        assert late.status == Status.BADLAYOUT
        for path in (SECOND, FIRST, SECOND):
            size = client.call(*client.at(f"{path}/doubtful"), ops.getattr([const.ATTR_SIZE]))
            assert size.attributes[const.ATTR_SIZE] == 8192
    assert cluster.mds.alive


def through(handle, number):
    """A file handle as if it came from the export of that number: what a client can make of it."""
    return handle[:2] + number.to_bytes(2, "big") + handle[4:]


@pytest.fixture
def tenants(run, network):
    """A cluster that exports /a and /b of a store, beside all of it, and a client."""
    cluster = make(run, network, data_servers=1)
    client = cluster.connect()
    for path, name in (("", b"a"), ("", b"b"), ("a", b"sub"), ("b", b"sub")):
        path = f"{FIRST}/{path}"
        client.call(*client.at(path), ops.create_directory(name, 0o777))
    for path, name in (("a", b"one"), ("a/sub", b"deep"), ("b", b"two")):
        handle, stateid = client.open(f"{FIRST}/{path}", name, create=True)
        client.call(ops.putfh(handle), ops.close(stateid))
    cluster.reload_exports([*cluster.exports, Export(2, "/tenant-a", path="/a"),
                            Export(3, "/tenant-b", path="/b")])
    for path in ("/tenant-a", "/tenant-b"):
        wait_until(lambda: there(client, path), 30, path)
    yield cluster, client
    client.close()


def names_in(client, *where):
    return {entry.name for entry in client.call(*where, ops.readdir()).entries}


def test_an_export_of_a_directory_is_that_directory(tenants):
    """And what is below it: no name of the rest, and no handle of it."""
    cluster, client = tenants

    def status(handle):
        return client.compound(ops.putfh(handle), ops.getattr([const.ATTR_TYPE])).status

    assert names_in(client, *client.at("/tenant-a")) == {b"one", b"sub"}
    assert names_in(client, *client.at("/tenant-b")) == {b"sub", b"two"}
    for name in ("two", "a", "b"):
        assert not there(client, f"/tenant-a/{name}")
    own = [client.handle(f"/tenant-a{path}") for path in ("", "/one", "/sub", "/sub/deep")]
    assert [status(handle) for handle in own] == [Status.OK] * 4
    for path in ("", "/two", "/sub"):
        for other in (client.handle(f"/tenant-b{path}"), client.handle(f"{FIRST}/b{path}")):
            assert status(other) == Status.OK
            assert status(through(other, 2)) == Status.STALE
    # Nor one of this export with the number of another file.
    foreign, mine = client.handle(f"{FIRST}/b/two"), client.handle("/tenant-a/one")
    head = 5  # what Ganesha puts before ours
    assert status(mine[:head + 8] + foreign[head + 8:head + 16] + mine[head + 16:]) == Status.STALE
    assert status(through(client.handle(FIRST), 2)) == Status.STALE

    lookupp = ops.raw(Op.LOOKUPP)
    assert names_in(client, *client.at("/tenant-a/sub"), lookupp) == {b"one", b"sub"}
    top = names_in(client, *client.at("/tenant-a/sub"), lookupp, lookupp)
    assert b"tenant-b" in top and b"b" not in top
    assert weft(cluster, "policy", "show", "/tenant-a/sub")["path"] == "/tenant-a/sub"


def test_what_is_moved_out_of_an_exported_directory(tenants):
    _, client = tenants
    sub, deep = client.handle("/tenant-a/sub"), client.handle("/tenant-a/sub/deep")
    rename = ops.raw(Op.RENAME, Packer().opaque(b"sub").opaque(b"moved").bytes())
    client.call(*client.at(f"{FIRST}/a"), ops.savefh(), *client.at(f"{FIRST}/b"), rename)
    reply = client.compound(ops.putfh(sub), ops.readdir())
    assert reply.status == Status.STALE
    assert client.call(ops.putfh(deep), ops.getattr([const.ATTR_TYPE])).status == Status.OK
    assert names_in(client, *client.at("/tenant-b")) == {b"sub", b"two", b"moved"}


def test_handles_of_an_exported_directory_outlive_a_restart(tenants):
    cluster, client = tenants
    handle = client.handle("/tenant-a/sub/deep")
    client.close()
    cluster.mds.kill()
    cluster.restart_mds()
    with cluster.connect() as again:
        wait_until(lambda: there(again, "/tenant-a"), 30, "the export")
        again.call(ops.putfh(handle), ops.getattr([const.ATTR_TYPE]))


def test_a_layout_is_recalled_by_the_handle_of_its_export(tenants):
    """Whichever export the recall goes through: the client knows no other handle."""
    cluster, client = tenants
    wait_until(lambda: weft(cluster, "status")["data_servers"][0]["state"] == "up", 30, "up", 0.2)
    handle, stateid = client.open("/tenant-a", b"one")
    client.call(ops.putfh(handle), layout_ops.layoutget(stateid))
    with cluster.connect() as other:
        whole, stateid = other.open(FIRST + "/a", b"one")
        other.compound(ops.putfh(whole), ops.setattr(stateid, size=0))
    assert client.backchannel.next_recall().handle == handle


def documented_access(clients):
    """What docs/clients.md shows of who may mount an export, of these addresses."""
    page = (Path(__file__).parents[2] / "docs/clients.md").read_text()
    shown = re.search(r'Pseudo = "/project-a"; (Access_Type = \w+;).*\n *(CLIENT \{.*\})\n', page)
    client, replaced = re.subn(r"Clients = [^;]*", f"Clients = {clients}", shown[2])
    assert replaced == 1
    return f"{shown[1]} {client}"


def test_who_is_not_among_the_clients_of_an_export_is_refused(run, network):
    """In the form that docs/clients.md shows."""
    inside = network.program(1)
    cluster = make(run, network, data_servers=1)
    cluster.reload_exports([*cluster.exports, Export(
        2, SECOND, access=documented_access(f"{inside.address}/32"))])
    address = (cluster.address, NFS_PORT)
    with (InNamespace(inside, lambda: Client(address)).result() as may, cluster.connect() as other):
        wait_until(lambda: there(may, SECOND), 30, "the export")
        may.call(*may.at(SECOND), ops.create_directory(b"made"), credential=auth_sys(0, 0))
        assert not there(other, SECOND)
        handle = may.handle(f"{SECOND}/made")
        assert other.compound(ops.putfh(handle)).status != Status.OK


def test_a_path_that_is_not_there_is_refused(run, network):
    cluster = make(run, network, data_servers=0)
    with cluster.connect() as client:
        client.open(FIRST, b"file", create=True)
        cluster.reload_exports([*cluster.exports, Export(2, "/two", path="/none"),
                                Export(3, "/three", path="/file")])
        log = run.folder / "ganesha.log"
        for path in ("/none", "/file"):
            wait_until(lambda path=path: f"there is no directory {path} in the store" in
                       log.read_text(errors="replace"), 30, f"a word of {path}")
        assert not there(client, "/two") and not there(client, "/three")
        assert there(client, FIRST)


def test_a_kernel_client_of_two_exported_directories(tenants, run, network):
    """Both are of one store, and of one file system to the client."""
    cluster, _ = tenants
    client = start_client(run, network)
    for name in ("a", "b"):
        client.mount(cluster.address, f"/tenant-{name}", at=f"/mnt/{name}")
    with through_data_servers(cluster):
        client.run("""set -e
cd /mnt/a && test "$(echo *)" = "one sub" && test ! -e two && test ! -e ../a/two
cd /mnt/b && test "$(echo *)" = "sub two"
dd if=/dev/zero of=/mnt/a/sub/big bs=1M count=4 conv=fsync 2>/dev/null
cp /mnt/a/sub/big /mnt/b/big && cmp /mnt/a/sub/big /mnt/b/big
""", 60)
    client.run("setpriv --reuid 1234 --clear-groups sh -c 'echo x > /mnt/a/sub/mine'", root=True)
    for name in ("a", "b"):
        client.unmount(f"/mnt/{name}")


class Load(threading.Thread):
    """Writes and reads a file by one path until it is told to stop; counts, and keeps what failed
    and how. Ganesha answers DELAY to a LOOKUP of an export's path while it reads exports again;
    that is no failure, clients ask again."""

    def __init__(self, client, path, name):
        super().__init__(daemon=True)
        self.client, self.path, self.name_of_file = client, path, name
        self.done, self.failed, self.ending = 0, set(), False
        self.start()

    def once(self):
        handle, stateid = self.client.open(self.path, self.name_of_file, create=True)
        self.client.call(ops.putfh(handle), ops.write(stateid, 0, b"w" * 4096))
        read = self.client.call(ops.putfh(handle), ops.read(stateid, 0, 4096))
        assert read.data == b"w" * 4096
        self.client.call(ops.putfh(handle), ops.getattr([const.ATTR_SIZE]))
        self.client.call(ops.putfh(handle), ops.close(stateid))
        self.done += 1

    def run(self):
        while not self.ending:
            try:
                self.once()
            except NfsError as error:
                if (error.op, error.status) != (Op.LOOKUP, Status.DELAY):
                    self.failed.add((error.op, error.status))

    def stop(self):
        self.ending = True
        self.join(30)
        assert not self.is_alive(), "the load hangs"


def there(client, path):
    return client.compound(*client.at(path)).status == Status.OK


def wait_until_files(client, cluster, path):
    """The export answers, and data servers are in touch."""
    def works():
        try:
            handle, stateid = client.open(path, b"probe", create=True)
            client.call(ops.putfh(handle), ops.write(stateid, 0, b"p"))
            client.call(ops.putfh(handle), ops.close(stateid))
            return True
        except NfsError:
            return False
    wait_until(works, 60, f"{path} to work", 0.2)
    cluster.wait_up()


@pytest.mark.faults
def test_an_export_goes_while_files_are_used_through_both(run, network, perturbed):
    """Nobody who uses the other export sees anything of it, files that both used included."""
    cluster = make(run, network, Export(2, SECOND), data_servers=2)
    first, second = cluster.exports
    with cluster.connect(timeout=30) as leaving, cluster.connect(timeout=30) as staying:
        for name in (b"a", b"b"):  # seen through the export that goes before the other
            leaving.open(FIRST, name, create=True)
        for _ in range(3):
            load = [Load(leaving, FIRST, b"a"), Load(leaving, FIRST, b"b"),
                    Load(staying, SECOND, b"a"), Load(staying, SECOND, b"b")]
            wait_until(lambda: all(one.done > 5 for one in load), 30, "I/O")
            cluster.reload_exports([second])
            wait_until(lambda: not there(staying, FIRST), 30, "the export to go")
            counts = [one.done for one in load[2:]]
            wait_until(lambda: all(one.done > count + 20 for one, count in zip(load[2:], counts)),
                       30, "I/O through the other export")
            for one in load:
                one.stop()
            assert load[2].failed | load[3].failed == set()
            cluster.reload_exports([first, second])
            wait_until(lambda: there(staying, FIRST), 30, "the export to come back")
            wait_until_files(leaving, cluster, FIRST)
    assert cluster.mds.alive


@pytest.mark.faults
def test_the_last_export_of_a_store_goes_and_comes_back(run, network, perturbed):
    """The store is closed with it, and opened again with all that was in it."""
    cluster = make(run, network, Export(2, SECOND), data_servers=1)
    both = cluster.exports
    with cluster.connect(timeout=30) as client:
        handle, stateid = client.open(FIRST, b"kept", create=True)
        client.call(ops.putfh(handle), ops.write(stateid, 0, b"kept"))
        client.call(ops.putfh(handle), ops.close(stateid))
        for _ in range(2):
            load = [Load(client, path, b"busy") for path in (FIRST, SECOND)]
            wait_until(lambda: all(one.done > 5 for one in load), 30, "I/O")
            cluster.reload_exports([])
            wait_until(lambda: not there(client, FIRST) and not there(client, SECOND), 30,
                       "the exports to go")
            for one in load:
                one.stop()
            wait_until(lambda: not cluster.admin_socket.exists(), 30, "the store to be closed")
            cluster.reload_exports(both)
            for path in (SECOND, FIRST):
                wait_until_files(client, cluster, path)
                read = client.call(*client.at(f"{path}/kept"), ops.read(ops.ANONYMOUS, 0, 9))
                assert read.data == b"kept"
    assert cluster.mds.alive


def waits_for_a_disk(pid):
    """A thread of the process does, in the kernel."""
    states = (stat.read_text().rpartition(")")[2].split()[0]
              for stat in Path(f"/proc/{pid}/task").glob("*/stat"))
    return "D" in states


@pytest.mark.faults
@pytest.mark.skipif(not os.path.exists("/dev/loop-control"), reason="needs loop devices")
def test_a_store_whose_disk_stalls_as_it_is_opened_is_waited_for_by_nobody_else(run, network):
    """Another store's clients are answered as ever."""
    cluster = make(run, network, data_servers=1)
    first, folder = cluster.exports[0], run.make_folder("second")
    disk = disks.Disk(run, folder, 256)
    other = Export(2, SECOND, extra={
        "Metadata_Path": f'"{folder}/metadata"', "Admin_Socket": f'"{run.folder}/second.sock"',
        "Control_Address": f'"{cluster.address}:{CONTROL_PORT + 1}"'})
    with cluster.connect(timeout=20) as client:
        home = client.handle(FIRST)
        with disks.frozen(disk.folder):
            cluster.reload_exports([first, other])
            wait_until(lambda: waits_for_a_disk(cluster.mds.pid), 30, "the store to wait", 0.1)
            for number in range(10):
                client.call(ops.putfh(home), ops.create_directory(b"%d" % number))
            assert waits_for_a_disk(cluster.mds.pid)
        wait_until(lambda: there(client, SECOND), 60, "the other store")
        client.call(*client.at(SECOND), ops.create_directory(b"there"),
                    credential=auth_sys(0, 0))  # a store that nobody has opened to users
    assert cluster.mds.alive


@pytest.mark.faults
def test_an_export_that_comes_back_before_the_last_one_of_its_number_has_ended(run, network):
    """That one lives on in a READ that waits. When it ends, nothing of the new one goes."""
    cluster = make(run, network, Export(2, SECOND), data_servers=1)
    first, second = cluster.exports
    log, server = run.folder / "ganesha.log", cluster.ds[0].node

    def ended():
        return "export id=1 path=/ released" in log.read_text(errors="replace")

    def on_its_way():
        found = sh("ss", "-N", cluster.mds_node.namespace, "-Htan",
                   f"dst {server.address}:{NFS_PORT}")
        return any(int(line.split()[2]) > 0 for line in found.splitlines())

    with cluster.connect(timeout=60) as client, cluster.connect(timeout=30) as other:
        handle, stateid = client.open(FIRST, b"file", create=True)
        client.call(ops.putfh(handle), ops.write(stateid, 0, b"x" * 100_000),
                    ops.commit())
        server.drop_port(NFS_PORT)
        late = InNamespace(cluster.mds_node, lambda: client.compound(
            ops.putfh(handle), ops.read(stateid, 0, 4096)))
        wait_until(on_its_way, 30, "the READ at the data server's connection", 0.1)
        cluster.reload_exports([second])
        wait_until(lambda: not there(other, FIRST), 30, "the export to go")
        cluster.reload_exports([first, second])
        wait_until(lambda: there(other, FIRST), 30, "the export to come back")
        assert not ended()
        server.unlimit()
        wait_until(ended, 60, "the end of the first one")
        late.result()
        assert copies(cluster, f"{FIRST}/file") == {1}
        handle, stateid = other.open(FIRST, b"file")
        layout = other.call(ops.putfh(handle), layout_ops.layoutget(stateid)).layouts[0]
        device = layout_ops.unpack_files_layout(layout.body).device
        other.call(layout_ops.getdeviceinfo(device))
    assert cluster.mds.alive
