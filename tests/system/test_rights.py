"""Who may do what: the server decides as a local file system does, whatever the client checks."""

import json
import os
import sys
import tempfile

import pytest
from harness import paths
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.disks import Disk
from harness.in_namespace import InNamespace
from harness.run import sh
from wire import Client, const, layout_ops, ops
from wire.const import Status
from wire.rpc import auth_sys

sys.path.append(str(paths.HARNESS / "guest"))
import rights  # noqa: E402  what client machines run too

ERRORS = {Status.ACCESS: "EACCES", Status.PERM: "EPERM", Status.EXIST: "EEXIST",
          Status.NOENT: "ENOENT", Status.NOTEMPTY: "ENOTEMPTY", Status.NOTDIR: "ENOTDIR",
          Status.ISDIR: "EISDIR", Status.INVAL: "EINVAL"}


class Wire:
    """rights.Posix over the wire: one client of which each request has its caller's credentials."""

    def __init__(self, client, export, squashed):
        self.client = client
        self.exports = {True: squashed, False: export}
        self.root = auth_sys(0, 0)
        self.caller = self.root
        self.as_squashed = False
        self.handles = {}

    def directory(self, path):
        """Makes it the current one, whether or not the caller may search those above it."""
        key = (self.as_squashed, path)
        if key not in self.handles and not path:
            self.handles[key] = self.client.handle(self.exports[self.as_squashed])
        elif key not in self.handles:
            above, _, name = path.rpartition("/")
            found = self.client.call(*self.directory(above), ops.lookup(name.encode()),
                                     ops.getfh(), credential=self.root)
            self.handles[key] = found.handle
        return [ops.putfh(self.handles[key])]

    def parent(self, path):
        above, _, name = path.rpartition("/")
        return self.directory(above), name.encode()

    def call(self, *operations, credential=None):
        """The last result; OSError as the system call would give it."""
        reply = self.client.compound(*operations, credential=credential or self.caller)
        if reply.status != Status.OK:
            raise OSError(0, ERRORS.get(reply.status, repr(reply.status)))
        return reply.last

    # As root.

    def make(self, path, kind, uid, gid, mode):
        above, name = self.parent(path)
        as_root = {"credential": self.root}
        if kind == "dir":
            self.call(*above, ops.create_directory(name), **as_root)
        elif kind == "file":
            opened = self.call(*above, self.open_operation(name, create=True), **as_root)
            self.call(*above, ops.lookup(name), ops.close(opened.stateid), **as_root)
        if kind == "file":
            self.call(*above, ops.lookup(name), ops.setattr(size=1), **as_root)
        self.call(*above, ops.lookup(name), ops.setattr(owner=uid, group=gid), **as_root)
        self.call(*above, ops.lookup(name), ops.setattr(mode=mode), **as_root)

    def give_xattr(self, path):
        self.on(path, ops.setxattr(b"b", b"1"), credential=self.root)

    def shown(self, path):
        above, name = self.parent(path)
        bits = [const.ATTR_MODE, const.ATTR_OWNER, const.ATTR_OWNER_GROUP]
        reply = self.client.compound(*above, ops.lookup(name), ops.getattr(bits),
                                     credential=self.root)
        if reply.status == Status.NOENT:
            return "gone"
        mode, uid, gid = reply.check().last.attributes.values()
        return f"{mode:o} {uid.decode()} {gid.decode()}"

    def as_caller(self, caller, work):
        self.as_squashed = caller == rights.CALLERS["squashed"]
        self.caller = self.root if self.as_squashed else auth_sys(*caller)
        try:
            return work()
        finally:
            self.as_squashed, self.caller = False, self.root

    def outcome(self, action):
        try:
            action()
            return "OK"
        except OSError as error:
            return error.strerror

    # As the caller.

    def open_operation(self, name, **options):
        return ops.open_file(name, self.client.clientid, **options)

    def create(self, path, mode):
        above, name = self.parent(path)
        opened = self.call(*above, self.open_operation(name, create=True, guarded=True, mode=mode))
        self.call(*above, ops.lookup(name), ops.close(opened.stateid))

    def open(self, path, access, truncate=False, create=False):
        """As Linux does: with create the OPEN truncates, else a SETATTR after it."""
        above, name = self.parent(path)
        share = {"r": const.SHARE_READ, "w": const.SHARE_WRITE, "rw": const.SHARE_BOTH}[access]
        options = {"create": True, "size": 0 if truncate else None} if create else {}
        stateid = self.call(*above, self.open_operation(name, share=share, **options)).stateid
        try:
            if truncate and not create:
                self.call(*above, ops.lookup(name), ops.setattr(stateid, size=0))
        finally:
            self.call(*above, ops.lookup(name), ops.close(stateid), credential=self.root)

    def mkdir(self, path, mode):
        self.make_node(path, const.NF4DIR, mode)

    def mknod(self, path, kind, mode):
        self.make_node(path, {"fifo": const.NF4FIFO, "socket": const.NF4SOCK,
                              "block": const.NF4BLK, "char": const.NF4CHR}[kind], mode)

    def symlink(self, path):
        self.make_node(path, const.NF4LNK, 0o777, target=b"target")

    def make_node(self, path, kind, mode, **options):
        above, name = self.parent(path)
        self.call(*above, ops.create(kind, name, mode=mode, **options))

    def link(self, source, path):
        above, name = self.parent(source)
        to, new_name = self.parent(path)
        self.call(*above, ops.lookup(name), ops.savefh(), *to, ops.link(new_name))

    def rename(self, source, path):
        above, name = self.parent(source)
        to, new_name = self.parent(path)
        self.call(*above, ops.savefh(), *to, ops.rename(name, new_name))

    def unlink(self, path):
        above, name = self.parent(path)
        self.call(*above, ops.remove(name))

    rmdir = unlink

    def readdir(self, path):
        """As Linux does: for who may not search, names come with errors in place of attributes."""
        self.call(*self.directory(path), ops.readdir(bits=[const.ATTR_RDATTR_ERROR]))

    def lookup(self, path):
        above, name = self.parent(path)
        self.call(*above, ops.lookup(name))

    def on(self, path, operation, **options):
        above, name = self.parent(path)
        self.call(*above, ops.lookup(name), operation, **options)

    def set(self, path, **attributes):
        self.on(path, ops.setattr(**attributes))

    def chmod(self, path, mode):
        self.set(path, mode=mode)

    def chown(self, path, uid, gid):
        self.set(path, owner=None if uid == -1 else uid, group=None if gid == -1 else gid)

    def utimes(self, path, now):
        self.set(path, atime=ops.NOW if now else 1, mtime=ops.NOW if now else 2)

    def truncate(self, path):
        self.set(path, size=2)

    def setxattr(self, path):
        self.on(path, ops.setxattr(b"a", b"1"))

    def getxattr(self, path):
        self.on(path, ops.getxattr(b"b"))

    def removexattr(self, path):
        self.on(path, ops.removexattr(b"b"))

    def write(self, path):
        self.to_write(path, lambda stateid: ops.write(stateid, 0, b"w"))

    def allocate(self, path):
        self.to_write(path, lambda stateid: ops.allocate(stateid, 0, 2))

    def punch(self, path):
        self.to_write(path, lambda stateid: ops.deallocate(stateid, 0, 1))

    def to_write(self, path, operation):
        above, name = self.parent(path)
        opening = self.open_operation(name, share=const.SHARE_WRITE)
        stateid = self.call(*above, opening).stateid
        try:
            self.on(path, operation(stateid))
        finally:
            self.on(path, ops.close(stateid), credential=self.root)


@pytest.fixture
def local(run):
    """What an ext4 of this machine says. Others answer otherwise: a tmpfs may have no extended
    attributes of users, and an overlay has the rights of two file systems."""
    folder = run.make_folder("local")
    if os.path.exists("/dev/loop-control"):
        Disk(run, folder, 128)
        return rights.cells(rights.Posix(folder))
    kind = sh("findmnt", "-no", "FSTYPE", "-T", tempfile.gettempdir()).strip()
    if kind != "ext4":
        pytest.skip(f"no ext4 to compare with: no loop devices, and {tempfile.gettempdir()} is "
                    f"{kind or 'of an unknown kind'}")
    with tempfile.TemporaryDirectory(prefix="weft-rights-") as folder:
        os.chmod(folder, 0o755)
        return rights.cells(rights.Posix(folder))


def hard_links_are_protected(cell, expected, found):
    """fs.protected_hardlinks is the local machine's; a client has its own to ask."""
    return cell.endswith(("link", "link-out")) and expected.startswith("EPERM")


def owners_truncate(cell, expected, found):
    """An owner may set the size whatever the mode is: the client's file may be open since before a
    chmod. truncate(2) is refused by the client, which asks with ACCESS."""
    return cell.split()[2:] == ["owner", "truncate"] and expected.startswith("EACCES")


def readable_because_executable(cell, expected, found):
    """To run a program is to read it: READ is allowed to those who may execute. Who means to read
    is refused by the client."""
    return cell.endswith("open-r") and expected.startswith("EACCES") and found.startswith("OK")


def data_servers_do_not_know_who_writes(cell, expected, found):
    """So set-user-id and set-group-id go whoever it is, root too, and set-group-id that marks
    mandatory locking stays, though the writer is in another group."""
    if not cell.startswith("file") or cell.split()[-1] not in ("write", "allocate", "punch"):
        return False
    mode = int(cell.split()[1], 8) & ~0o4000
    if mode & 0o010:
        mode &= ~0o2000
    return expected.startswith("OK") and found == f"OK {mode:o} {rights.OWNER} {rights.GROUP}"


def the_client_refuses_first(cell, expected, found):
    """It leaves write permission on directories to the server; the rest it checks before."""
    operation = cell.split()[-1]
    first = {"mkblock": "EPERM gone", "mkchar": "EPERM gone", "rename-file-over-dir": "EISDIR",
             "rename-dir-over-file": "ENOTDIR"}
    return expected.startswith("EACCES") and found == first.get(operation)


def read_only_opens_do_not_truncate(cell, expected, found):
    """O_RDONLY | O_TRUNC is undefined in POSIX: the client truncates with the open stateid, which
    is not for writing, and says EACCES itself."""
    return cell.endswith("open-r-creat-trunc") and found.startswith("EACCES")


@pytest.fixture
def mds(run, network):
    """A metadata server without data servers: a Cluster with root squashed at /squashed."""
    return Cluster(run, network, Options(data_servers=0, squashed=True,
                                         extra={"Sync_Metadata": "false"}))


def test_rights_over_the_wire(mds, local):
    """Every operation by every kind of caller in directories and on files of every mode."""
    address = (mds.address, mds.options.mds_port)

    def work():
        with Client(address, timeout=30, uid=0, gid=0) as client:
            return rights.cells(Wire(client, mds.path, mds.squashed_path))

    found = InNamespace(mds.mds_node, work).result(500)
    wrong = rights.differences(local, found, [
        hard_links_are_protected, owners_truncate, readable_because_executable,
        data_servers_do_not_know_who_writes])
    assert not wrong, f"{len(wrong)} cells:\n" + "\n".join(wrong[:60])


def test_rights_from_a_kernel_client(run, network, local):
    """The same by system calls of users of a client; of the modes, those that differ in kind."""
    cluster = Cluster(run, network, Options(data_servers=1, squashed=True))
    client = start_client(run, network, uid=0)
    client.mount(cluster.address, cluster.path, "vers=4.2,noac")
    client.mount(cluster.address, cluster.squashed_path, "vers=4.2,noac", at="/mnt/squashed")
    modes = (0o755, 0o775, 0o777, 0o1777, 0o2777, 0o555, 0o711)
    file_modes = (0o644, 0o664, 0o666, 0o444, 0o6777, 0o2767)
    output = client.python(f"""
import json, rights
posix = rights.Posix("/mnt/nfs", "/mnt/squashed")
print(json.dumps(rights.cells(posix, {modes}, {file_modes})))
""", 500).output
    found = json.loads(output)
    expected = {cell: value for cell, value in local.items() if cell in found}
    wrong = rights.differences(expected, found,
                               [hard_links_are_protected, the_client_refuses_first,
                                read_only_opens_do_not_truncate,
                                data_servers_do_not_know_who_writes])
    assert len(expected) == len(found) > 2500
    assert not wrong, f"{len(wrong)} cells:\n" + "\n".join(wrong[:60])


def test_a_user_in_more_groups_than_a_request_carries(run, network):
    """AUTH_SYS has 16. With Manage_Gids it is the metadata server that knows who is in which."""
    user, stranger = 4000, 5000
    groups = tuple(range(4001, 4025))
    cluster = Cluster(run, network, Options(data_servers=1, users={user: groups, stranger: ()}))
    client = start_client(run, network, uid=0)
    client.mount(cluster.address, cluster.path, "vers=4.2,noac")
    client.run("cd /mnt/nfs; mkdir d; chgrp 4024 d; chmod 2770 d; echo x > d/f; chmod 660 d/f",
               root=True)
    listed = ",".join(map(str, groups))
    client.run(f"""setpriv --reuid {user} --regid {user} --groups {listed} sh -ec '
cd /mnt/nfs/d; cat f; echo y >> f; echo mine > new; test $(stat -c %g new) = 4024; rm new'""",
               root=True)

    def denied():
        with Client((cluster.address, cluster.options.mds_port), timeout=30) as wire:
            folder = wire.handle(cluster.path + "/d")
            reading = (ops.putfh(folder), ops.readdir())
            by_claim = wire.compound(*reading, credential=auth_sys(stranger, stranger, (4024,)))
            unsaid = wire.compound(*reading, credential=auth_sys(user, user))
            return by_claim.status, unsaid.status

    assert InNamespace(cluster.mds_node, denied).result(60) == (Status.ACCESS, Status.OK)


def opening(**how):
    return lambda client, name, owner=None, **whose: ops.open_file(
        name, client.clientid, create=True, file_owner=owner, **how, **whose)


MAKING = {  # ways to make something by name, with attributes
    "unchecked": opening(),
    "guarded": opening(guarded=True),
    "exclusive": opening(exclusive=b"verifier"),
    "directory": lambda _, name, **whose: ops.create(const.NF4DIR, name, mode=0o755, **whose),
    "symlink": lambda _, name, **whose: ops.create(const.NF4LNK, name, target=b"to", **whose),
    "fifo": lambda _, name, **whose: ops.create(const.NF4FIFO, name, mode=0o644, **whose),
    "socket": lambda _, name, **whose: ops.create(const.NF4SOCK, name, mode=0o644, **whose),
}
USER, OTHER = 1234, 4321


@pytest.mark.parametrize("way", MAKING)
def test_an_owner_said_at_a_create_is_the_callers(cluster, way):
    """CREATE and OPEN may say whose the new file is. Who may not give it away afterwards may not
    make it another's either: chown(2)'s rule. No Linux client says it, so nobody else checks."""
    if not cluster.counted:
        pytest.skip("Ganesha's VFS has the kernel check it")
    with cluster.connect(uid=USER, gid=USER) as client:
        directory = client.at(cluster.path)
        name = b"made-" + way.encode()
        found = [*directory, ops.lookup(name)]
        whose = ops.getattr([const.ATTR_OWNER, const.ATTR_OWNER_GROUP])

        def make(credential, **attributes):
            """The status, or owner and group of what was made and is removed again."""
            reply = client.compound(*directory, MAKING[way](client, name, **attributes), whose,
                                    credential=credential)
            if reply.status != Status.OK:
                assert client.compound(*found).status == Status.NOENT
                return reply.status
            if reply[-2].op == const.Op.OPEN:
                client.call(*found, ops.close(reply[-2].stateid), credential=credential)
            client.call(*directory, ops.remove(name), credential=auth_sys(0, 0))
            return tuple(int(value) for value in reply.last.attributes.values())

        user, root = auth_sys(USER, USER, (77,)), auth_sys(0, 0)
        for foreign in ({"owner": OTHER}, {"owner": 0}, {"group": OTHER}, {"group": 0},
                        {"owner": OTHER, "group": USER}, {"owner": USER, "group": OTHER}):
            assert make(user, **foreign) == Status.PERM, foreign
        assert make(user) == make(user, owner=USER, group=USER) == (USER, USER)
        assert make(user, group=77) == (USER, 77)
        assert make(root, owner=OTHER, group=77) == (OTHER, 77)


def test_extended_attributes_need_the_rights_of_the_file(cluster):
    """As for data: "user." attributes are written with write permission and read with read
    permission (xattr(7)), whoever owns the file."""
    if not cluster.counted:
        pytest.skip("Ganesha's VFS has the kernel check it")
    with cluster.connect() as owner, cluster.connect(uid=1234, gid=1234) as other:
        handle, stateid = owner.open("/export", b"rights", create=True)

        def status(client, operation):
            return client.compound(ops.putfh(handle), operation).status

        def mode(value):
            owner.call(ops.putfh(handle), ops.setattr(mode=value))

        assert status(owner, ops.setxattr(b"a", b"1")) == Status.OK
        mode(0o644)
        assert status(other, ops.setxattr(b"a", b"2")) == Status.ACCESS
        assert status(other, ops.removexattr(b"a")) == Status.ACCESS
        assert other.call(ops.putfh(handle), ops.getxattr(b"a")).value == b"1"
        mode(0o600)
        assert status(other, ops.getxattr(b"a")) == Status.ACCESS
        mode(0o622)
        assert status(other, ops.setxattr(b"a", b"3")) == Status.OK
        assert owner.call(ops.putfh(handle), ops.getxattr(b"a")).value == b"3"
        assert status(other, ops.removexattr(b"a")) == Status.OK
        owner.call(ops.putfh(handle), ops.close(stateid))


def test_who_may_only_read_commits_no_layout(cluster):
    """LAYOUTCOMMIT sets size and time of modification. That is of who may write, also when it says
    that it is of before a restart."""
    if not cluster.counted:
        pytest.skip("Ganesha's VFS has no layouts")
    with cluster.connect() as owner, cluster.connect(uid=1234, gid=1234) as other:
        handle, stateid = owner.open("/export", b"read-only", create=True)
        owner.call(ops.putfh(handle), ops.setattr(mode=0o644))
        owner.call(ops.putfh(handle), ops.write(stateid, 0, b"x" * 100_000))
        owner.call(ops.putfh(handle), ops.close(stateid))
        _, reading = other.open("/export", b"read-only", share=const.SHARE_READ)
        layout = other.call(ops.putfh(handle), layout_ops.layoutget(
            reading, iomode=const.IOMODE_READ)).stateid
        for reclaim in (False, True):
            done = other.compound(ops.putfh(handle), layout_ops.layoutcommit(
                layout, last_write=1 << 40, reclaim=reclaim))
            assert done.status == Status.BADLAYOUT, reclaim
        size = owner.call(ops.putfh(handle), ops.getattr([const.ATTR_SIZE])).attributes
        assert size[const.ATTR_SIZE] == 100_000
