"""Proof with a real client: copies a file to a server on this host and back, compares checksums.

    python3 -m harness.prove ADDRESS PATH [--mib 256] [--kind uml61] [--options vers=4.2]
                             [--fault COMMAND]

Prints 'key value' lines (kernel, mount, write_mib_s, read_mib_s, driver, sha256). Ends with 0 only
if the checksums are equal. ADDRESS is one of this host's addresses, but not of 127.0.0.0/8.

With --fault the shell command is run on this host when half of the file is written; instead of the
rates there is pause_s, the longest a write or fsync took.
"""

import argparse
import subprocess
import sys

from .client import ClientDied, JobFailed, start_client
from .images import ImageError
from .network import HostNetwork
from .run import Run

COPY = """
import hashlib, os, subprocess, time

MIB = 1 << 20
def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(MIB):
            digest.update(block)
    return digest.hexdigest()

def copy(source, target):
    started = time.monotonic()
    subprocess.run(["dd", f"if={{source}}", f"of={{target}}", "bs=1M", "conv=fsync",
                    "status=none"], check=True)
    return {mib} / (time.monotonic() - started)

with open("/tmp/in", "wb") as file:
    for _ in range({mib}):
        file.write(os.urandom(MIB))
print("write_mib_s", round(copy("/tmp/in", "/mnt/nfs/{name}")))
with open("/proc/sys/vm/drop_caches", "w") as file:
    file.write("3")
print("read_mib_s", round(copy("/mnt/nfs/{name}", "/tmp/out")))
before, after = sha256("/tmp/in"), sha256("/tmp/out")
print("sha256", before)
if before != after:
    raise SystemExit(f"checksums differ: sent {{before}}, got back {{after}}")
os.unlink("/mnt/nfs/{name}")
"""

THROUGH_FAULT = """
import hashlib, os, subprocess, time

MIB = 1 << 20
sent, pause = hashlib.sha256(), 0.0
with open("/mnt/nfs/{name}", "wb", buffering=0) as file:
    for number in range({mib}):
        block = os.urandom(MIB)
        sent.update(block)
        if number == {mib} // 2:
            subprocess.run(["weft-signal", "half"], check=True)
            subprocess.run(["weft-wait", "fault"], check=True)
        started = time.monotonic()
        if file.write(block) != MIB:
            raise SystemExit("a short write")
        if number % 8 == 7:
            os.fsync(file.fileno())
        pause = max(pause, time.monotonic() - started)
print("pause_s", round(pause, 1))
with open("/proc/sys/vm/drop_caches", "w") as file:
    file.write("3")
got = hashlib.sha256()
with open("/mnt/nfs/{name}", "rb") as file:
    while block := file.read(MIB):
        got.update(block)
print("sha256", sent.hexdigest())
if sent.digest() != got.digest():
    raise SystemExit(f"checksums differ: sent {{sent.hexdigest()}}, got back {{got.hexdigest()}}")
"""


def copy_through(client, mib: int, fault: str) -> str:
    job = client.start_job("#!/usr/bin/python3\n"
                           + THROUGH_FAULT.format(mib=mib, name="weft-proof-fault"))
    client.wait_event("half", 120)
    subprocess.run(fault, shell=True, check=True)
    client.signal("fault")
    return job.wait(300).output


def prove(address: str, path: str, mib: int, kind: str, options: str, fault: str) -> None:
    with Run() as run:
        client = start_client(run, HostNetwork(run), kind, memory_mib=1024 + 2 * mib,
                              uid=0)
        print("kernel", client.wait_ready())
        client.mount(address, path, options)
        print("mount", f"mount -t nfs -o {options} {address}:{path}")
        if fault:
            output = copy_through(client, mib, fault)
        else:
            output = client.python(COPY.format(mib=mib, name="weft-proof"), timeout_s=300).output
        print(output, end="")
        print("driver", client.pnfs_driver())
        client.unmount()
        client.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="harness.prove", description=__doc__.split("\n")[0])
    parser.add_argument("address")
    parser.add_argument("path")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--kind", default="uml61")
    parser.add_argument("--options", default="vers=4.2")
    parser.add_argument("--fault", default="", metavar="COMMAND")
    given = parser.parse_args()
    try:
        prove(given.address, given.path, given.mib, given.kind, given.options, given.fault)
    except (ClientDied, JobFailed, ImageError, TimeoutError, RuntimeError,
            subprocess.CalledProcessError) as error:
        print(f"client: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
