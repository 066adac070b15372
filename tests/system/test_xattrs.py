"""Extended attributes of the "user." kind (RFC 8276), from a stock client: their limits."""

import pytest
from wire import ops


@pytest.fixture(autouse=True)
def counted(cluster):
    if not cluster.counted:
        pytest.skip("Ganesha's VFS has none")


def test_values_of_64_kib(client, folder):
    """Every size up to Linux's limit, for one value, is kept; beyond it, the client refuses."""
    client.python(f"""
import errno, os
os.chdir({folder!r})
open("f", "w").close()
for size in 0, 1, 1023, 1024, 8191, 8192, 16000, 40000, 65535, 65536:
    value = os.urandom(size)
    os.setxattr("f", "user.a", value)
    if os.getxattr("f", "user.a") != value:
        raise SystemExit(f"{{size}} bytes came back otherwise")
try:
    os.setxattr("f", "user.a", bytes(65537))
except OSError as error:
    if error.errno != errno.E2BIG:
        raise
else:
    raise SystemExit("65,537 bytes were taken")
""", 60)


def test_more_than_a_thousand_of_a_file(client, folder):
    """All are listed, though one answer has no room for them."""
    client.python(f"""
import os
os.chdir({folder!r})
open("f", "w").close()
names = sorted(f"user.{{number:04}}" for number in range(2500))
for name in names:
    os.setxattr("f", name, name.encode())
if sorted(os.listxattr("f")) != names:
    raise SystemExit(f"{{len(os.listxattr('f'))}} names")
for name in names[::100]:
    if os.getxattr("f", name) != name.encode():
        raise SystemExit(name)
""", 120)


def test_a_file_lists_its_own_only(cluster):
    """No name of ours is among them: programs that copy attributes would copy it as well."""
    with cluster.connect() as client:
        handle, stateid = client.open("/export", b"xattrs", create=True)
        here = ops.putfh(handle)
        empty = client.call(here, ops.listxattrs())
        assert empty.names == [] and empty.eof
        client.call(here, ops.setxattr(b"a", b"1"))
        assert client.call(here, ops.listxattrs()).names == [b"a"]
        client.call(here, ops.close(stateid))
