"""Runs a command that may make no io_uring, as containers' default seccomp profiles have it:
python3 without_io_uring.py COMMAND..."""

import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
SYS_IO_URING_SETUP = 425  # on every architecture
# Loads the call's number; if it is that one, EPERM, else it is allowed (struct sock_filter).
RULES = [(0x20, 0, 0, 0), (0x15, 0, 1, SYS_IO_URING_SETUP), (0x06, 0, 0, 0x00050001),
         (0x06, 0, 0, 0x7FFF0000)]


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def forbid() -> None:
    rules = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in RULES))
    program = Program(len(RULES), ctypes.cast(rules, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or \
            libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)):
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    forbid()
    os.execv(sys.argv[1], sys.argv[1:])
