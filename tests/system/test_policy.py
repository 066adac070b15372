"""Policies of directories: set by the command line and as an extended attribute by a stock client,
inherited, and kept by the files that took them."""

import pytest
from harness import counters
from harness.copies import objects_of
from harness.counters import MIB, through_data_servers

NAME = "user.weft.policy"


def exported(cluster, folder, name=""):
    """The client's folder as the export has it."""
    return cluster.path + folder.removeprefix("/mnt/nfs") + name


def shown(cluster, path):
    """What 'weft policy show' says: {key: (value, from)}."""
    report = counters.weft(cluster, "policy", "show", path)
    return {row["key"]: (row["value"], row["from"]) for row in report["effective"]}


def layout(cluster, path):
    return counters.weft(cluster, "layout", "show", path)


REFUSED = """
def refused(error, what, *words):
    try:
        what(*words)
    except OSError as found:
        same(str(words), found.errno, error)
    else:
        raise SystemExit(f"{words} was allowed")
"""


def job(client, folder, script, root=False):
    return client.python(f"import os, errno\nfrom weftio import *\nos.chdir({folder!r})\n"
                         f"NAME = {NAME!r}\n{REFUSED}{script}", 60, root=root)


@pytest.fixture(autouse=True)
def counted(cluster):
    if not cluster.counted:
        pytest.skip("needs a Weft")


def test_by_command_line(cluster, client, folder):
    """A file is laid out as its directory said when it was made, and stays so."""
    top = exported(cluster, folder)
    client.run(f"mkdir -p {folder}/a/b {folder}/other")
    counters.weft(cluster, "policy", "set", top + "/a", "stripes=2", "unit=64KiB")
    counters.weft(cluster, "policy", "set", top + "/a/b", "copies=1")
    counters.weft(cluster, "policy", "replace", top + "/a/b", "stripes=1")
    assert shown(cluster, top + "/a/b")["stripes"] == (1, top + "/a/b")
    assert shown(cluster, top + "/a/b")["unit"] == (65536, top + "/a")
    assert shown(cluster, top + "/a/b")["copies"][1] == "export"
    with through_data_servers(cluster, written=3 * MIB):
        job(client, folder, """
for name in "f", "a/f", "a/b/f", "a/b/empty":
    with open(name, "wb") as file:
        file.write(block(7, 0 if name.endswith("empty") else MIB))
with open("a/b/later", "wb"):
    pass
os.link("a/b/later", "other/link")
os.rename("a/b/later", "other/later")
""")
    counters.weft(cluster, "policy", "clear", top + "/a/b")
    counters.weft(cluster, "policy", "set", top + "/a", "stripes=3")
    job(client, folder, """
with open("other/link", "wb") as file:
    file.write(block(8, MIB))
drop_caches()
for name in "f", "a/f", "a/b/f":
    check(name, block(7, MIB))
check("other/later", block(8, MIB))
""")
    assert len(layout(cluster, top + "/f")["stripes"]) > 2  # all that are fit at that moment
    assert len(layout(cluster, top + "/a/f")["stripes"]) == 2
    for name in "/a/b/f", "/other/later":
        found = layout(cluster, top + name)
        assert (len(found["stripes"]), found["stripe_unit"]) == (1, 64 << 10), found
        assert found["policy"] == "stripes=1 unit=64KiB copies=1", found
    assert layout(cluster, top + "/a/b/empty")["policy"].startswith("stripes=1 unit=64KiB ")
    assert shown(cluster, top + "/a/b")["stripes"] == (3, top + "/a")
    assert shown(cluster, top + "/a/b")["unit"] == (65536, top + "/a")  # which set has left alone


def test_by_extended_attribute(cluster, client, folder):
    """Set, shown, listed and removed by a stock kernel; what is wrong is refused and logged."""
    top = exported(cluster, folder)
    job(client, folder, """
os.mkdir("d")
same("listed", NAME in os.listxattr("d"), False)
os.setxattr("d", NAME, b"stripes=2 unit=64KiB")
os.setxattr("d", "user.other", b"1")
same("value", os.getxattr("d", NAME), b"stripes=2 unit=64KiB")
same("listed", sorted(os.listxattr("d")), ["user.other", NAME])
os.mkdir("d/sub")
same("own", NAME in os.listxattr("d/sub"), False)
with open("d/sub/f", "wb") as file:
    file.write(block(1, MIB))
    os.fsync(file.fileno())
same("listed", os.listxattr("d/sub/f"), [])
same("value", os.getxattr("d/sub/f", NAME), b"stripes=2 unit=64KiB copies=1")
os.setxattr("d/sub/f", NAME, os.getxattr("d/sub/f", NAME))

refused(errno.EPERM, os.setxattr, "d/sub/f", NAME, b"stripes=1")
refused(errno.EPERM, os.removexattr, "d/sub/f", NAME)
refused(errno.EINVAL, os.setxattr, "d", NAME, b"stripes=2 copys=2")
refused(errno.EINVAL, os.setxattr, "d", NAME, b"duplication=client-sync")
refused(errno.EEXIST, os.setxattr, "d", NAME, b"stripes=1", os.XATTR_CREATE)
refused(errno.ENODATA, os.setxattr, "d/sub", NAME, b"stripes=1", os.XATTR_REPLACE)
same("value", os.getxattr("d", NAME), b"stripes=2 unit=64KiB")

# Who may write the directory may not set its policy, unless it is the owner or root.
os.chmod("d", 0o777)
""")
    job(client, folder, """
os.setxattr("d", NAME, b"stripes=2 unit=64KiB")
os.setgid(1234)
os.setuid(1234)
os.setxattr("d", "user.mine", b"1")
refused(errno.EPERM, os.setxattr, "d", NAME, b"stripes=1")
refused(errno.EPERM, os.removexattr, "d", NAME)
""", root=True)
    job(client, folder, """
os.removexattr("d", NAME)
refused(errno.ENODATA, os.getxattr, "d", NAME)
refused(errno.ENODATA, os.removexattr, "d", NAME)
""")
    log = (cluster.run.folder / "ganesha.log").read_text()
    assert 'no policy has the key "copys"; did you mean "copies"?' in log
    assert "duplication=client-sync needs the flexfiles layout" in log
    assert shown(cluster, top + "/d")["stripes"][1] == "export"


def test_small_files_of_a_directory_begin_at_one_data_server(cluster, client, folder):
    """And those of others at others."""
    top = exported(cluster, folder)
    client.run(f"mkdir {folder}/near {folder}/far")
    for name, first in (("near", "directory"), ("far", "turn")):
        counters.weft(cluster, "policy", "set", f"{top}/{name}", "inline=0", "skip=never",
                      f"first={first}")
    job(client, folder, """
for top in "near", "far":
    for number in range(6):
        os.mkdir(f"{top}/{number}")
        for name in range(5):
            with open(f"{top}/{number}/{name}", "wb") as file:
                file.write(block(name, 20000))
drop_caches()
for number in range(6):
    for name in range(5):
        check(f"near/{number}/{name}", block(name, 20000))
""")

    def servers_of(place):
        """Where the bytes of its files are."""
        objects = {layout(cluster, f"{top}/{place}/{name}")["object"] for name in range(5)}
        return [server.name for server in cluster.ds for name in objects_of(server.store)
                if name in objects]

    near = [servers_of(f"near/{number}") for number in range(6)]
    assert all(len(found) == 5 and len(set(found)) == 1 for found in near), near
    assert len({found[0] for found in near}) > 1, near
    far = servers_of("far/0")
    assert len(far) == 5 and len(set(far)) > 1, far
