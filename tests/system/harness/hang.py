"""Single threads of a process that stand still while the others run, as a debugger has them."""

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from pathlib import Path

_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17
_WALL = 0x40000000  # waitpid(2): for threads too

_ptrace = ctypes.CDLL(None, use_errno=True).ptrace
_ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def _call(request: int, thread: int) -> None:
    if _ptrace(request, thread, None, None) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), f"thread {thread}")


def _threads(pid: int, chosen: Callable[[str], bool]) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if chosen((task / "comm").read_text().strip()):
                found.append(int(task.name))
    return found


@contextlib.contextmanager
def hung(pid: int, chosen: Callable[[str], bool]) -> Iterator[None]:
    """Within it all threads whose names are chosen stand still. From one thread."""
    stopped: list[int] = []
    try:
        # Until none is left: those that still run may start others.
        while left := [thread for thread in _threads(pid, chosen) if thread not in stopped]:
            for thread in left:
                with contextlib.suppress(ProcessLookupError):
                    _call(_SEIZE, thread)
                    _call(_INTERRUPT, thread)
                    os.waitpid(thread, _WALL)
                    stopped.append(thread)
        yield
    finally:
        for thread in stopped:
            with contextlib.suppress(ProcessLookupError):
                _call(_DETACH, thread)
