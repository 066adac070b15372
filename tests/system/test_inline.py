"""Small files in the metadata store (docs/architecture.md, "Inline files"): no data server is asked
for them, and one that grows goes to data servers whole, whatever the client does and whoever
dies."""

import random
import time

import pytest
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import MIB, snapshot, weft
from harness.run import wait_until

LIMIT = 16384
FILES = 1000
# Beside other tests syncs may take so long that the store counts as busy, and takes no new files.
NEVER_BUSY = {"Sync_Metadata": "false"}


def make(run, network, kind="uml61", **options):
    """16 KiB is what an export has that says nothing."""
    extra = options.pop("extra", {})
    if "inline" in options:
        extra = {"Inline": str(options.pop("inline")), **extra}
    cluster = Cluster(run, network, Options(extra=extra, **options))
    if not cluster.counted:
        pytest.skip("needs a Weft")
    cluster.client = start_client(run, network, kind)
    cluster.client.mount(cluster.address, cluster.path)
    return cluster


def second_client(run, network, cluster, kind="uml61"):
    client = start_client(run, network, kind)
    client.mount(cluster.address, cluster.path)
    return client


def job(client, script, timeout_s=120):
    return client.python("import os, mmap\nfrom weftio import *\nos.chdir('/mnt/nfs')\n" + script,
                         timeout_s)


def layout_of(cluster, name):
    return weft(cluster, "layout", "show", f"{cluster.path}/{name}")["layout_type"]


SIZES = f"""
def size(n):
    return {LIMIT} if n % 50 == 0 else n * 37 % {LIMIT}
"""


@pytest.mark.parametrize("kind", ["uml61", "uml612"])
def test_small_files_ask_no_data_server(run, network, kind):
    cluster = make(run, network, kind, extra=NEVER_BUSY)
    before = snapshot(cluster)
    job(cluster.client, SIZES + f"""
os.mkdir("d")
for n in range({FILES}):
    with open(f"d/{{n}}", "wb" if n % 2 else "xb") as file:
        file.write(block(n, size(n)))
""", 300)
    written = snapshot(cluster).since(before)
    second = second_client(run, network, cluster, kind)
    job(second, SIZES + f"""
for n in range({FILES}):
    check(f"d/{{n}}", block(n, size(n)))
""", 300)
    counts = snapshot(cluster).since(before)
    assert counts.layoutgets == 0, counts
    assert counts.total_read == counts.total_written == 0, counts
    assert written.mds_writes >= FILES * 0.9 and counts.mds_reads >= FILES * 0.9, counts
    shown = weft(cluster, "layout", "show", f"{cluster.path}/d/50")
    assert (shown["layout_type"], shown["inline_bytes"], shown["stripes"]) == ("inline", LIMIT, [])
    status = weft(cluster, "status")["inline"]
    assert status["files"] >= FILES * 0.9 and status["bytes"] > FILES * LIMIT / 4, status
    assert status["writes"] == written.mds_writes and status["reads"] == counts.mds_reads, status
    assert status["grown"] == 0 and not status["busy"], status
    # None of it leaves anything behind.
    cluster.client.run("rm -r /mnt/nfs/d", 120)
    assert sum(server["objects"] for server in weft(cluster, "ds", "list")) == 0


@pytest.mark.parametrize("kind", ["uml61", "uml612"])
def test_a_small_file_takes_three_compounds_and_two_syncs(run, network, kind):
    """OPEN, WRITE and CLOSE. The first two wait for the metadata store's disk."""
    files = 200
    cluster = make(run, network, kind)
    client = cluster.client
    job(client, "os.mkdir('d'); open('d/first', 'xb').write(block(0, 4096))")
    sent, store = client.compounds(), weft(cluster, "status")["store"]
    job(client, f"""
for n in range({files}):
    with open(f"d/{{n}}", "xb") as file:
        file.write(block(n, 4096 - n))
""")
    more = {name: count - sent.get(name, 0) for name, count in client.compounds().items()
            if count != sent.get(name, 0)}
    syncs = weft(cluster, "status")["store"]["syncs"] - store["syncs"]
    print(more, syncs)
    assert more["OPEN"] == more["WRITE"] == more["CLOSE"] == files, more
    assert sum(more.values()) <= 3 * files + files / 10, more
    # Beside those of files a few of the server's own.
    assert syncs <= 2 * files + files / 10, syncs
    assert layout_of(cluster, "d/0") == "inline"


GROW = {
    "appends": """
whole = b""
for n, size in enumerate([1, 4000, 9000, 5000, 100, 30000, 7]):
    whole += block(n, size)
    with open("f", "ab") as file:
        file.write(block(n, size))
    same("size", os.stat("f").st_size, len(whole))
""",
    "appends of one open file": """
whole = b""
with open("f", "ab", buffering=0) as file:
    for n in range(100):
        whole += block(n, 1234)
        file.write(block(n, 1234))
        if n % 7 == 0:
            os.fsync(file.fileno())
""",
    "one write": """
with open("f", "wb") as file:
    file.write(block(0, 5000))
whole = block(0, 5000) + block(1, 3000000)
with open("f", "ab", buffering=0) as file:
    file.write(block(1, 3000000))
""",
    "mmap": """
whole = block(3, 200000)
with open("f", "w+b") as file:
    file.write(whole[:10000])
    file.flush()
    os.fsync(file.fileno())
    file.truncate(len(whole))
    with mmap.mmap(file.fileno(), len(whole)) as memory:
        memory[:] = whole
        memory.flush()
""",
    "O_DIRECT": """
whole = block(4, 65536)
file = os.open("f", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
memory = mmap.mmap(-1, 4096)
for at in range(0, len(whole), 4096):
    memory[:] = whole[at:at + 4096]
    os.pwrite(file, memory, at)
os.close(file)
""",
    "O_DIRECT, far behind": """
whole = block(5, 8192) + bytes(1000000 - 8192) + block(6, 4096)
with open("f", "wb") as file:
    file.write(whole[:8192])
whole = whole[:999424] + block(6, 4096)
file = os.open("f", os.O_RDWR | os.O_DIRECT)
memory = mmap.mmap(-1, 4096)
memory[:] = block(6, 4096)
os.pwrite(file, memory, 999424)
os.close(file)
""",
    "truncate": """
with open("f", "wb") as file:
    file.write(block(0, 9000))
os.truncate("f", 100000)
whole = block(0, 9000) + bytes(91000)
with open("f", "r+b") as file:
    file.seek(50000)
    file.write(b"middle")
whole = whole[:50000] + b"middle" + whole[50006:]
""",
}


@pytest.mark.parametrize("options", [
    {}, {"extra": {"Copies": "2"}}, {"layout": "flexfiles", "extra": {"Copies": "2"}},
    {"kind": "uml612"}, {"pnfs": False}, {"minor": 0}],
    ids=["files", "copies", "flexfiles", "6.12", "no pnfs", "4.0"])
def test_a_file_grows_through_the_limit(run, network, options):
    options = dict(options)
    minor = options.pop("minor", 2)
    cluster = make(run, network, **options)
    client = cluster.client
    if minor != 2:
        client.unmount()
        client.mount(cluster.address, cluster.path, f"vers=4.{minor}")
    second = second_client(run, network, cluster)
    for number, (how, script) in enumerate(GROW.items()):
        print(how)
        job(client, script + "drop_caches()\ncheck('f', whole)\n"
            f"open('/tmp/whole', 'wb').write(whole)\nos.rename('f', 'grown{number}')\n")
        expected = client.run("sha256sum < /tmp/whole").output
        assert second.run(f"sha256sum < /mnt/nfs/grown{number}").output == expected, how
        # What was only made longer is where it was.
        assert layout_of(cluster, f"grown{number}") in ("files", "flexfiles"), how


def test_a_file_of_1_mib_goes_to_data_servers_only(run, network):
    cluster = make(run, network)
    before = snapshot(cluster)
    job(cluster.client, """
for n in range(10):
    with open(f"{n}", "wb") as file:
        file.write(block(n))
drop_caches()
for n in range(10):
    check(f"{n}", block(n))
""")
    counts = snapshot(cluster).since(before)
    assert counts.mds_reads == counts.mds_writes == 0, counts
    assert counts.total_written >= 10 * MIB and counts.total_read >= 10 * MIB, counts


def test_small_files_cut_punched_renamed_and_removed(run, network):
    cluster = make(run, network, extra=NEVER_BUSY)
    before = snapshot(cluster)
    job(cluster.client, """
def write(name, data, at=0):
    with open(name, "r+b" if os.path.exists(name) else "wb") as file:
        file.seek(at)
        file.write(data)
data = block(1, 12000)
write("f", data)
os.truncate("f", 5000)
os.truncate("f", 8000)
drop_caches()
check("f", data[:5000] + bytes(3000))
write("f", b"tail", 9000)
drop_caches()
check("f", data[:5000] + bytes(4000) + b"tail")
same("holes", os.system("fallocate -p -o 1000 -l 2000 f"), 0)
drop_caches()
check("f", data[:1000] + bytes(2000) + data[3000:5000] + bytes(4000) + b"tail")
same("space", os.system("fallocate -l 16384 f"), 0)
same("size", os.stat("f").st_size, 16384)
os.link("f", "g")
write("h", data)
os.rename("h", "f")
drop_caches()
check("f", data)
check("g", data[:1000] + bytes(2000) + data[3000:5000] + bytes(4000) + b"tail" + bytes(7380))
held = open("g", "rb")
os.unlink("g")
drop_caches()
same("unlinked", held.read(10), data[:10])
with open("f", "rb") as file:
    same("data", os.lseek(file.fileno(), 0, os.SEEK_DATA), 0)
    same("hole", os.lseek(file.fileno(), 0, os.SEEK_HOLE), 12000)
os.mkdir("e")
with open("e/sparse", "wb") as file:
    file.truncate(10000)
drop_caches()
check("e/sparse", bytes(10000))
""")
    counts = snapshot(cluster).since(before)
    assert counts.layoutgets == 0 and counts.total_written == counts.total_read == 0, counts


def test_two_clients_of_a_file_that_grows(run, network):
    """Each has it open, and has read it, when the other makes it longer than the limit; and both
    append by turns, through the limit and beyond."""
    cluster = make(run, network)
    clients = [cluster.client, second_client(run, network, cluster)]
    cluster.client.run("touch /mnt/nfs/log /mnt/nfs/held && chmod 666 /mnt/nfs/*")
    holder = clients[0].start_job("""#!/usr/bin/python3
import os
from weftio import *
with open("/mnt/nfs/held", "r+b", buffering=0) as file:
    file.write(block(1, 5000))
    os.fsync(file.fileno())
    os.system("weft-signal written; weft-wait grown")
    file.seek(1000)
    file.write(b"mine")
    os.fsync(file.fileno())
""")
    clients[0].wait_event("written")
    job(clients[1], """
check("held", block(1, 5000))
with open("held", "r+b") as file:
    file.seek(60000)
    file.write(block(2, 9000))
""")
    clients[0].signal("grown")
    holder.wait(60)
    for client in clients:
        job(client, """
drop_caches()
first = block(1, 5000)[:1000] + b"mine" + block(1, 5000)[1004:]
check("held", first + bytes(55000) + block(2, 9000))
""")
    turns = """#!/usr/bin/python3
import fcntl, os, time
from weftio import *
file = os.open("/mnt/nfs/log", os.O_RDWR | os.O_APPEND)
for turn in range(40):
    fcntl.lockf(file, fcntl.LOCK_EX)
    os.write(file, bytes([%d]) * 777)
    fcntl.lockf(file, fcntl.LOCK_UN)
    time.sleep(0.02)
"""
    for one in [client.start_job(turns % n) for n, client in enumerate(clients)]:
        one.wait(300)
    for client in clients:
        job(client, """
drop_caches()
data = open("log", "rb").read()
pieces = [data[at:at + 777] for at in range(0, len(data), 777)]
same("pieces", sorted(pieces), [bytes(777)] * 40 + [bytes([1]) * 777] * 40)
""")
    assert layout_of(cluster, "log") == layout_of(cluster, "held") == "files"


def test_names_of_files_that_are_inline_and_not(run, network):
    """Hard links, renames over and O_TRUNC, of files of both kinds."""
    cluster = make(run, network, extra=NEVER_BUSY)
    job(cluster.client, """
def write(name, data, flags="wb"):
    with open(name, flags) as file:
        file.write(data)
small, large = block(1, 3000), block(2, 100000)
write("a", small)
os.link("a", "b")
write("b", large, "ab")  # grows by its other name
drop_caches()
check("a", small + large)
write("a", small)  # it has objects, and keeps them
drop_caches()
check("b", small)
write("c", small[:100])
with open("c", "rb") as held:
    os.rename("b", "c")
    drop_caches()
    same("replaced", held.read(), small[:100])
check("c", small)
write("d", large)
write("e", small)
with open("d", "rb") as held:
    os.rename("e", "d")
    drop_caches()
    same("replaced", held.read() == large, True)
check("d", small)
os.truncate("d", 0)
write("d", b"x")
drop_caches()
check("d", b"x")
same("names", sorted(os.listdir(".")), ["a", "c", "d"])
same("links", os.stat("c").st_nlink, 2)
""")
    assert layout_of(cluster, "c") == "files" and layout_of(cluster, "d") == "inline"
    wait_until(lambda: sum(server["objects"] for server in weft(cluster, "ds", "list")) == 1, 30,
               "the object of what was replaced to go")
    assert weft(cluster, "status")["inline"]["grown"] == 1


def test_the_directory_says_up_to_what_size(run, network):
    cluster = make(run, network, inline=0, extra=NEVER_BUSY)
    client = cluster.client
    client.run("mkdir /mnt/nfs/small /mnt/nfs/none")
    weft(cluster, "policy", "set", f"{cluster.path}/small", "inline=8K")
    client.run("cd /mnt/nfs; head -c 8192 /dev/urandom > small/f; "
               "head -c 8193 /dev/urandom > small/g; head -c 1 /dev/urandom > none/f")
    assert layout_of(cluster, "small/f") == "inline"
    assert layout_of(cluster, "small/g") == "files"
    assert layout_of(cluster, "none/f") == "files"
    weft(cluster, "policy", "set", f"{cluster.path}/small", "inline=0")  # of new files
    client.run("cd /mnt/nfs/small; echo x >> f; head -c 1 /dev/urandom > h; "
               "head -c 100 /dev/urandom > /tmp/h; cat /tmp/h > h")
    assert layout_of(cluster, "small/h") == "files"


@pytest.mark.faults
def test_without_data_servers_small_files_go_on(run, network):
    cluster = make(run, network, data_servers=2)
    client = cluster.client
    job(client, "open('grows', 'wb').write(block(1, 10000))")
    for server in cluster.ds:
        server.process.kill()
    job(client, """
for n in range(50):
    with open(f"s{n}", "wb") as file:
        file.write(block(n, 9000))
drop_caches()
for n in range(50):
    check(f"s{n}", block(n, 9000))
""", 60)
    growing = client.start_job("#!/usr/bin/python3\nfrom weftio import *\n"
                               "with open('/mnt/nfs/grows', 'ab') as file:\n"
                               "    file.write(block(2, 50000))\n")
    time.sleep(5)
    assert not growing.done()
    client.run("weft-drop-caches; cat /mnt/nfs/s3 > /dev/null; echo more > /mnt/nfs/s51", 30)
    for server in cluster.ds:
        server.process.start()
    growing.wait(120)
    job(client, "drop_caches()\ncheck('grows', block(1, 10000) + block(2, 50000))")
    wait_until(lambda: layout_of(cluster, "grows") == "files", 10, "its bytes at data servers")


ROUNDS = 8


@pytest.mark.faults
@pytest.mark.parametrize("copies", [1, 2])
def test_the_metadata_server_dies_while_files_grow(run, network, copies):
    """What fsync has answered is there, in order, whatever was on its way."""
    cluster = make(run, network, extra={"Copies": str(copies)})
    client = cluster.client
    writer = client.start_job("""#!/usr/bin/python3
import os
from weftio import *
os.mkdir("/mnt/nfs/d")
n = 0
while not os.path.exists("/tmp/stop"):
    file = os.open(f"/mnt/nfs/d/{n}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for piece in range(6):
        os.write(file, block(n * 6 + piece, 5000))
        os.fsync(file)
    os.close(file)
    n += 1
print(n)
""")
    chance = random.Random(copies)
    for _ in range(ROUNDS):
        time.sleep(chance.uniform(0.2, 3))
        cluster.mds.kill()
        cluster.restart_mds()
        cluster.wait_up()
    client.run("touch /tmp/stop")
    files = int(writer.wait(180).output.split()[-1])
    assert files > ROUNDS
    second = second_client(run, network, cluster)
    job(second, f"""
for n in range({files}):
    check(f"d/{{n}}", b"".join(block(n * 6 + piece, 5000) for piece in range(6)))
""", 300)
