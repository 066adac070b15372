"""Locks of byte ranges that clients wait for, by every version of the protocol that we serve."""

import pytest

HEAD = "#!/usr/bin/python3\nimport fcntl, os, time\n"

HOLD = HEAD + """
fd = os.open(%(file)r, os.O_CREAT | os.O_RDWR)
fcntl.lockf(fd, fcntl.LOCK_EX)
os.system("weft-signal held-%(name)s")
time.sleep(3)
fcntl.lockf(fd, fcntl.LOCK_UN)
"""

# Another client's write is seen, since taking a lock drops what is cached of the file.
COUNT = HEAD + """
fd = os.open(%(file)r, os.O_CREAT | os.O_RDWR)
for _ in range(10):
    fcntl.lockf(fd, fcntl.LOCK_EX)
    value = int(os.pread(fd, 20, 0) or b"0")
    time.sleep(0.05)
    os.pwrite(fd, b"%%d" %% (value + 1), 0)
    fcntl.lockf(fd, fcntl.LOCK_UN)
    time.sleep(0.05)
"""


@pytest.mark.parametrize("version", ["4.0", "4.1", "4.2"])
def test_locks_that_are_waited_for(cluster, two_clients, version):
    """A waiting client gets the lock when it is free, and only one has it at a time."""
    name = version.replace(".", "")
    at = f"/mnt/locks{name}"
    for client in two_clients:
        client.mount(cluster.address, cluster.path, f"vers={version}", at=at)
    try:
        words = {"file": f"{at}/locked-{name}", "name": name}
        first, second = two_clients
        holder = first.start_job(HOLD % words)
        first.wait_event(f"held-{name}", 30)
        counters = [second.start_job(COUNT % words)]
        holder.wait(60)
        counters.append(first.start_job(COUNT % words))
        for counter in counters:
            counter.wait(240)
        assert second.run(f"cat {at}/locked-{name}").output.strip() == "20"
        assert cluster.mds.alive
    finally:
        for client in two_clients:
            client.run(f"umount {at}", check=False, root=True)
