"""Who may do what on a file system, cell by cell: operations x callers x modes.

    cells(Posix("/tmp/x"))   {"0755 group mkdir": "EACCES gone", ...}

A cell's value is "OK" or the name of the error, then mode, owner and group of what the operation
left. Posix makes system calls, in a process with the caller's identity; the wire client has the
same methods in test_rights.py. The host runs it, and client machines do.
"""

import ctypes
import errno
import os
import stat

OWNER, GROUP = 1001, 2001  # of what is tested
FOREIGN = 2009  # a group that nobody is in
CALLERS = {  # uid, gid, further groups
    "owner": (1001, 2001, ()),
    "group": (1002, 2001, ()),
    "secondary": (1003, 2003, (2005, 2001)),
    "other": (1004, 2004, ()),
    "squashed": (65534, 65534, ()),
    "root": (0, 0, ()),
}
DIRECTORY_MODES = (0o755, 0o775, 0o777, 0o1777, 0o1775, 0o2775, 0o2777, 0o3777, 0o555, 0o700,
                   0o711, 0o744, 0o707, 0o077)
FILE_MODES = (0o644, 0o664, 0o666, 0o600, 0o444, 0o222, 0o111, 0o6755, 0o6777, 0o2767, 0o707)

KEEP_SIZE, PUNCH_HOLE = 1, 2  # fallocate(2)
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]


class Posix:
    """System calls, the caller's in a process with his identity, those that set the scene as root.
    squashed_root: where root is squashed into the caller of that name."""

    def __init__(self, root, squashed_root=None):
        self.root = root
        self.squashed_root = squashed_root

    def at(self, path):
        return os.path.join(self.root, path)

    # As root, to set the scene.

    def make(self, path, kind, uid, gid, mode):
        """kind: dir, file (of one byte), or mode for what is there."""
        if kind == "dir":
            os.mkdir(self.at(path))
        elif kind == "file":
            os.close(os.open(self.at(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            os.truncate(self.at(path), 1)
        os.chown(self.at(path), uid, gid)
        os.chmod(self.at(path), mode)

    def give_xattr(self, path):
        """One that getxattr and removexattr find."""
        os.setxattr(self.at(path), "user.b", b"1")

    def shown(self, path):
        """Mode, owner and group; 'gone'."""
        try:
            found = os.lstat(self.at(path))
        except FileNotFoundError:
            return "gone"
        return f"{stat.S_IMODE(found.st_mode):o} {found.st_uid} {found.st_gid}"

    def as_caller(self, caller, work):
        """work() in a process with the caller's identity; returns the list that it returned."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                self.become(*caller)
                os.write(writer, "\n".join(work()).encode())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            answers = pipe.read().split("\n")
        os.waitpid(child, 0)
        return answers

    def become(self, uid, gid, groups):
        os.umask(0)
        if self.squashed_root and (uid, gid, groups) == CALLERS["squashed"]:
            self.root = self.squashed_root
            return
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)

    def outcome(self, action):
        try:
            action()
            return "OK"
        except OSError as error:
            return errno.errorcode[error.errno]

    # As the caller.

    def create(self, path, mode):
        os.close(os.open(self.at(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, mode))

    def open(self, path, access, truncate=False, create=False):
        flags = {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR}[access]
        flags |= (os.O_TRUNC if truncate else 0) | (os.O_CREAT if create else 0)
        os.close(os.open(self.at(path), flags, 0o644))

    def mkdir(self, path, mode):
        os.mkdir(self.at(path), mode)

    def mknod(self, path, kind, mode):
        types = {"fifo": stat.S_IFIFO, "socket": stat.S_IFSOCK, "block": stat.S_IFBLK,
                 "char": stat.S_IFCHR}
        os.mknod(self.at(path), types[kind] | mode, os.makedev(1, 3))

    def symlink(self, path):
        os.symlink("target", self.at(path))

    def link(self, source, path):
        os.link(self.at(source), self.at(path))

    def rename(self, source, path):
        os.rename(self.at(source), self.at(path))

    def unlink(self, path):
        os.unlink(self.at(path))

    def rmdir(self, path):
        os.rmdir(self.at(path))

    def readdir(self, path):
        os.listdir(self.at(path))

    def lookup(self, path):
        os.lstat(self.at(path))

    def chmod(self, path, mode):
        os.chmod(self.at(path), mode)

    def chown(self, path, uid, gid):
        os.chown(self.at(path), uid, gid)

    def utimes(self, path, now):
        os.utime(self.at(path), None if now else (1, 2))

    def truncate(self, path):
        os.truncate(self.at(path), 2)

    def setxattr(self, path):
        os.setxattr(self.at(path), "user.a", b"1")

    def getxattr(self, path):
        os.getxattr(self.at(path), "user.b")

    def removexattr(self, path):
        os.removexattr(self.at(path), "user.b")

    def write(self, path):
        self.to_write(path, lambda fd: os.write(fd, b"w"))

    def allocate(self, path):
        self.to_write(path, lambda fd: self.fallocate(fd, 0, 2))

    def punch(self, path):
        self.to_write(path, lambda fd: self.fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 1))

    def to_write(self, path, action):
        fd = os.open(self.at(path), os.O_WRONLY)
        try:
            action(fd)
        finally:
            os.close(fd)

    def fallocate(self, fd, mode, length):
        """posix_fallocate(3) would write where the file system knows no fallocate."""
        if libc.fallocate(fd, mode, 0, length) != 0:
            raise OSError(ctypes.get_errno(), "fallocate")


# An operation: its name, what it does, what to show of it afterwards. `d` is the directory that is
# tested, `a` another that everybody may write; `f` the file that is tested, `uid` the caller's.
DIRECTORY_OPERATIONS = [
    ("create", lambda fs, d, a: fs.create(f"{d}/new", 0o644), "{d}/new"),
    ("create-setgid", lambda fs, d, a: fs.create(f"{d}/newg", 0o2755), "{d}/newg"),
    ("create-locking", lambda fs, d, a: fs.create(f"{d}/newk", 0o2745), "{d}/newk"),
    ("create-over", lambda fs, d, a: fs.create(f"{d}/there", 0o644), None),
    ("open-create", lambda fs, d, a: fs.open(f"{d}/newo", "rw", create=True), "{d}/newo"),
    ("open-create-over", lambda fs, d, a: fs.open(f"{d}/public", "r", create=True), None),
    ("mkdir", lambda fs, d, a: fs.mkdir(f"{d}/newd", 0o755), "{d}/newd"),
    ("mkdir-over", lambda fs, d, a: fs.mkdir(f"{d}/there", 0o755), None),
    ("mkfifo", lambda fs, d, a: fs.mknod(f"{d}/newp", "fifo", 0o644), "{d}/newp"),
    ("mksocket", lambda fs, d, a: fs.mknod(f"{d}/news", "socket", 0o2755), "{d}/news"),
    ("mkblock", lambda fs, d, a: fs.mknod(f"{d}/newb", "block", 0o666), "{d}/newb"),
    ("mkchar", lambda fs, d, a: fs.mknod(f"{d}/newc", "char", 0o666), "{d}/newc"),
    ("symlink", lambda fs, d, a: fs.symlink(f"{d}/newl"), "{d}/newl"),
    ("link-in", lambda fs, d, a: fs.link(f"{a}/source", f"{d}/newh"), "{d}/newh"),
    ("link-over", lambda fs, d, a: fs.link(f"{a}/source", f"{d}/there"), None),
    ("link-out", lambda fs, d, a: fs.link(f"{d}/there", f"{a}/newh"), "{a}/newh"),
    ("rename-in", lambda fs, d, a: fs.rename(f"{a}/in", f"{d}/in"), "{d}/in"),
    ("rename-theirs", lambda fs, d, a: fs.rename(f"{d}/theirs1", f"{d}/r1"), "{d}/r1"),
    ("rename-mine", lambda fs, d, a: fs.rename(f"{d}/mine1", f"{d}/r2"), "{d}/r2"),
    ("rename-out-theirs", lambda fs, d, a: fs.rename(f"{d}/theirs2", f"{a}/r3"), "{a}/r3"),
    ("rename-out-mine", lambda fs, d, a: fs.rename(f"{d}/mine2", f"{a}/r4"), "{a}/r4"),
    ("rename-over-theirs", lambda fs, d, a: fs.rename(f"{a}/in2", f"{d}/theirs3"), "{d}/theirs3"),
    ("rename-over-mine", lambda fs, d, a: fs.rename(f"{a}/in3", f"{d}/mine3"), "{d}/mine3"),
    ("rename-file-over-dir", lambda fs, d, a: fs.rename(f"{a}/in4", f"{d}/dir6"), None),
    ("rename-dir-over-file", lambda fs, d, a: fs.rename(f"{a}/dir", f"{d}/theirs4"), None),
    ("rename-dir-theirs", lambda fs, d, a: fs.rename(f"{d}/dir1", f"{d}/r5"), "{d}/r5"),
    ("rename-dir-out-theirs", lambda fs, d, a: fs.rename(f"{d}/dir2", f"{a}/r6"), "{a}/r6"),
    ("rename-dir-out-mine", lambda fs, d, a: fs.rename(f"{d}/mydir2", f"{a}/r7"), "{a}/r7"),
    ("rename-dir-out-open", lambda fs, d, a: fs.rename(f"{d}/open2", f"{a}/r8"), "{a}/r8"),
    ("rename-dir-in-mine", lambda fs, d, a: fs.rename(f"{a}/mydir", f"{d}/r9"), "{d}/r9"),
    ("rename-dir-over-full", lambda fs, d, a: fs.rename(f"{a}/mydir3", f"{d}/full"), None),
    ("rename-gone", lambda fs, d, a: fs.rename(f"{d}/gone", f"{a}/gone"), None),
    ("rename-itself", lambda fs, d, a: fs.rename(f"{d}/there", f"{d}/there"), None),
    ("unlink-theirs", lambda fs, d, a: fs.unlink(f"{d}/theirs5"), "{d}/theirs5"),
    ("unlink-mine", lambda fs, d, a: fs.unlink(f"{d}/mine5"), "{d}/mine5"),
    ("unlink-gone", lambda fs, d, a: fs.unlink(f"{d}/gone"), None),
    ("rmdir-theirs", lambda fs, d, a: fs.rmdir(f"{d}/dir5"), "{d}/dir5"),
    ("rmdir-mine", lambda fs, d, a: fs.rmdir(f"{d}/mydir5"), "{d}/mydir5"),
    ("rmdir-full", lambda fs, d, a: fs.rmdir(f"{d}/full"), None),
    ("readdir", lambda fs, d, a: fs.readdir(d), None),
    ("lookup", lambda fs, d, a: fs.lookup(f"{d}/there"), None),
    ("lookup-gone", lambda fs, d, a: fs.lookup(f"{d}/gone"), None),
    ("setxattr", lambda fs, d, a: fs.setxattr(d), None),
    ("utimes-now", lambda fs, d, a: fs.utimes(d, True), None),
]
FILE_OPERATIONS = [
    ("open-r", lambda fs, f, uid: fs.open(f, "r")),
    ("open-w", lambda fs, f, uid: fs.open(f, "w")),
    ("open-rw", lambda fs, f, uid: fs.open(f, "rw")),
    ("open-w-trunc", lambda fs, f, uid: fs.open(f, "w", truncate=True)),
    ("open-w-creat-trunc", lambda fs, f, uid: fs.open(f, "w", truncate=True, create=True)),
    ("open-r-creat-trunc", lambda fs, f, uid: fs.open(f, "r", truncate=True, create=True)),
    ("truncate", lambda fs, f, uid: fs.truncate(f)),
    ("chmod", lambda fs, f, uid: fs.chmod(f, 0o640)),
    ("chmod-set-id", lambda fs, f, uid: fs.chmod(f, 0o6755)),
    ("chown-self", lambda fs, f, uid: fs.chown(f, uid, -1)),
    ("chown-away", lambda fs, f, uid: fs.chown(f, 1007, -1)),
    ("chown-same", lambda fs, f, uid: fs.chown(f, OWNER, GROUP)),
    ("chgrp-mine", lambda fs, f, uid: fs.chown(f, -1, CALLERS_GROUP[uid])),
    ("chgrp-foreign", lambda fs, f, uid: fs.chown(f, -1, FOREIGN)),
    ("utimes-now", lambda fs, f, uid: fs.utimes(f, True)),
    ("utimes-set", lambda fs, f, uid: fs.utimes(f, False)),
    ("setxattr", lambda fs, f, uid: fs.setxattr(f)),
    ("getxattr", lambda fs, f, uid: fs.getxattr(f)),
    ("removexattr", lambda fs, f, uid: fs.removexattr(f)),
    ("write", lambda fs, f, uid: fs.write(f)),
    ("allocate", lambda fs, f, uid: fs.allocate(f)),
    ("punch", lambda fs, f, uid: fs.punch(f)),
    ("link", lambda fs, f, uid: fs.link(f, f + "-link")),
]
# What is done to a directory itself, each to one of its own.
ATTRIBUTE_OPERATIONS = [
    ("chmod", lambda fs, d, uid: fs.chmod(d, 0o750)),
    ("chmod-set-id", lambda fs, d, uid: fs.chmod(d, 0o6755)),
    ("chown-self", lambda fs, d, uid: fs.chown(d, uid, -1)),
    ("chown-away", lambda fs, d, uid: fs.chown(d, 1007, -1)),
    ("chown-same", lambda fs, d, uid: fs.chown(d, OWNER, GROUP)),
    ("chgrp-mine", lambda fs, d, uid: fs.chown(d, -1, CALLERS_GROUP[uid])),
    ("chgrp-foreign", lambda fs, d, uid: fs.chown(d, -1, FOREIGN)),
    ("utimes-set", lambda fs, d, uid: fs.utimes(d, False)),
    ("getxattr", lambda fs, d, uid: fs.getxattr(d)),
    ("removexattr", lambda fs, d, uid: fs.removexattr(d)),
]
CALLERS_GROUP = {uid: (groups or (gid,))[0] for uid, gid, groups in CALLERS.values()}


def set_scene(fs, base, mode, uid):
    d, a = f"{base}/d", f"{base}/a"
    fs.make(base, "dir", 0, 0, 0o755)
    fs.make(a, "dir", 0, 0, 0o777)
    fs.make(d, "dir", OWNER, GROUP, 0o777)
    for name in ("there", *(f"theirs{n}" for n in range(1, 6))):
        fs.make(f"{d}/{name}", "file", 0, 0, 0o644)
    fs.make(f"{d}/public", "file", 0, 0, 0o666)
    for n in (1, 2, 3, 5):
        fs.make(f"{d}/mine{n}", "file", uid, 0, 0o644)
    for name in ("dir1", "dir2", "dir5", "dir6", "full"):
        fs.make(f"{d}/{name}", "dir", 0, 0, 0o755)
    fs.make(f"{d}/full/file", "file", 0, 0, 0o644)
    fs.make(f"{d}/open2", "dir", 0, 0, 0o777)
    for name in ("mydir2", "mydir5"):
        fs.make(f"{d}/{name}", "dir", uid, 0, 0o755)
    for name in ("source", "in", "in2", "in3", "in4"):
        fs.make(f"{a}/{name}", "file", uid, 0, 0o644)
    for name in ("dir", "mydir", "mydir3"):
        fs.make(f"{a}/{name}", "dir", uid, 0, 0o755)
    fs.make(f"{d}", "mode", OWNER, GROUP, mode)
    return d, a


def cells(fs, modes=DIRECTORY_MODES, file_modes=FILE_MODES, callers=CALLERS):
    """All of them, in folders of their own below the root of `fs`."""
    found = {}
    for name in callers:
        caller = CALLERS[name]
        for mode in modes:
            d, a = set_scene(fs, f"{name}-{mode:o}", mode, caller[0])
            answers = fs.as_caller(caller, lambda: [
                fs.outcome(lambda: operation[1](fs, d, a)) for operation in DIRECTORY_OPERATIONS])
            for (operation, _, shows), answer in zip(DIRECTORY_OPERATIONS, answers, strict=True):
                if shows:
                    answer += " " + fs.shown(shows.format(d=d, a=a))
                found[f"{mode:04o} {name} {operation}"] = answer
        found.update(own_cells(fs, "file", name, file_modes, FILE_OPERATIONS))
        found.update(own_cells(fs, "dir", name, modes, ATTRIBUTE_OPERATIONS))
    return found


def own_cells(fs, kind, name, modes, operations):
    """Each operation on a file, or a directory, of its own."""
    found = {}
    caller = CALLERS[name]
    base = f"{name}-{kind}s"
    fs.make(base, "dir", 0, 0, 0o777)
    for mode in modes:
        paths = [f"{base}/{mode:o}-{operation}" for operation, _ in operations]
        for path in paths:
            fs.make(path, kind, OWNER, GROUP, mode)
            if path.endswith(("getxattr", "removexattr")):
                fs.give_xattr(path)
        answers = fs.as_caller(caller, lambda: [
            fs.outcome(lambda: action(fs, path, caller[0]))
            for (_, action), path in zip(operations, paths)])
        for (operation, _), path, answer in zip(operations, paths, answers, strict=True):
            found[f"{kind} {mode:04o} {name} {operation}"] = f"{answer} {fs.shown(path)}"
    return found


def differences(expected, found, explained=()):
    """Lines, one a cell that differs and is not explained: (predicate of the cell's name and both
    values) says which are."""
    lines = []
    for cell, value in expected.items():
        if found[cell] != value and not any(fits(cell, value, found[cell]) for fits in explained):
            lines.append(f"{cell}: {found[cell]}, a local file system: {value}")
    return lines
