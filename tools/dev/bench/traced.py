"""What a program in a machine asks its kernel for, and how much it copies.

System calls are read from strace's log. Bytes are copied by the calls that bring them from or to
the process's memory, and by its own memcpy, which copied.c counts.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

LOG, COPIED = "/tmp/calls", "/run/weft-copied"
DEVICE = "/dev/infiniband/uverbs"  # wherever /dev is
COPYING = {"read", "readv", "pread64", "preadv", "preadv2", "recvfrom", "recvmsg",
           "write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg"}
# "12 read(7</tmp/x>, ""..., 10) = 10", or a part of that with "<unfinished ...>" or "resumed>".
CALL = re.compile(r"(\d+) +(?:<\.\.\. )?(\w+)(?:\((?:\d+<([^>]*)>)?| resumed>)")
RESULT = re.compile(r"= (\d+)$")


@dataclass
class Counts:
    calls: int = 0
    doorbells: int = 0  # of calls: to an RDMA device's file
    copied: int = 0  # bytes


def command(pid: str) -> str:
    """The shell's, that traces a process until it is interrupted."""
    return f"exec strace -f -y -s 0 -e trace=!clock_gettime -o {LOG} -p {pid}"


def read(log: str) -> Counts:
    """Of what strace wrote. Calls that had not ended count, signals do not."""
    counts = Counts()
    begun: dict[str, str | None] = {}  # by thread: the file of a call that has not ended
    for line in log.splitlines():
        call = CALL.match(line)
        if not call:
            continue
        thread, name, file = call.groups()
        resumed = " resumed>" in line
        if resumed:
            file = begun.pop(thread, None)
        of_device = file is not None and DEVICE in file
        counts.calls += not resumed
        counts.doorbells += of_device and not resumed
        if line.endswith("<unfinished ...>"):
            begun[thread] = file
            continue
        result = RESULT.search(line)
        if result and name in COPYING and not of_device:
            counts.copied += int(result[1])
    return counts


def environment(folder: Path) -> dict[str, str]:
    """With which a program counts what it copies."""
    library = folder / "copied.so"
    source = Path(__file__).with_name("copied.c")
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-fno-builtin",
                    "-fno-tree-loop-distribute-patterns", "-o", str(library), str(source)],
                   check=True)
    return {"LD_PRELOAD": str(library), "WEFT_COPIED": COPIED}
