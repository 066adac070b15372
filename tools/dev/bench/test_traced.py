"""What strace's log says of calls and copies, and what copied.c counts."""

import os
import subprocess
import sys

import traced

LOG = """\
7 read(5<anon_inode:[infinibandevent]>, ""..., 16) = 16
7 write(4</run/host/dev/infiniband/uverbs0>, ""..., 32) = 32
8 epoll_wait(3<anon_inode:[eventpoll]>,  <unfinished ...>
7 recvmsg(9<TCP:[10.0.0.1:2049->10.0.0.2:900]>, {msg_name=NULL}, 0) = 100
7 recvmsg(9<TCP:[10.0.0.1:2049->10.0.0.2:900]>, 0x1, 0) = -1 EAGAIN (Resource unavailable)
9 pread64(6</a, b>,  <unfinished ...>
8 <... epoll_wait resumed>[{events=EPOLLIN}], 8, -1) = 1
9 <... pread64 resumed>""..., 4096, 0) = 4096
9 splice(6</x>, [0], 10<pipe:[1]>, NULL, 512, 0) = 512
8 --- SIGINT {si_signo=SIGINT} ---
8 exit(0)                           = ?
8 +++ exited with 0 +++
"""
COPIES = """
import ctypes
libc = ctypes.CDLL(None)
for name in ("memcpy", "memmove"):
    getattr(libc, name).argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
room = bytearray(range(256)) * 64
at = ctypes.addressof((ctypes.c_char * len(room)).from_buffer(room))
wanted = room[:1] + room[:8192]
libc.memmove(at + 1, at, 8192)
assert room[:8193] == wanted
libc.memcpy(at + 8192, at, 8000)
libc.memcpy(at, at + 8192, 100)
"""


def test_calls_are_counted_once_and_copies_by_what_they_brought():
    assert traced.read(LOG) == traced.Counts(calls=8, doorbells=1, copied=16 + 100 + 4096)


def test_a_preloaded_program_counts_its_greater_copies(tmp_path):
    made = traced.environment(tmp_path) | {"WEFT_COPIED": str(tmp_path / "count")}
    def copied(script: str) -> int:
        subprocess.run([sys.executable, "-c", script], env=os.environ | made, check=True)
        return int.from_bytes((tmp_path / "count").read_bytes(), sys.byteorder)
    copied("import ctypes")  # an interpreter copies, too
    before = copied("import ctypes")
    for_nothing = copied("import ctypes") - before
    assert copied(COPIES) - before - 2 * for_nothing >= 8192 + 8000
