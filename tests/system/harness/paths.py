"""Where things are: cache of client machines, build folder, Ganesha, run folders.

Every location can be moved by an environment variable, so that two checkouts, or a packaged
tree, can use the harness at the same time.
"""

import os
from pathlib import Path

HARNESS = Path(__file__).resolve().parent
REPOSITORY = HARNESS.parents[2]


def _from_env(name: str, default: Path) -> Path:
    value = os.environ.get(name)
    return Path(value).resolve() if value else default


def cache_folder() -> Path:
    """Client machine images. Safe to delete when no client runs; rebuilt on demand."""
    return _from_env("WEFT_CACHE", Path("/var/cache/weft")) / "clients"


def build_folder() -> Path:
    """The CMake build whose binaries are tested."""
    return _from_env("WEFT_BUILD", REPOSITORY / "build" / "release")


def ganesha_prefix() -> Path:
    """The private prefix that holds the patched NFS-Ganesha."""
    return _from_env("WEFT_GANESHA_PREFIX", Path("/opt/weft-ganesha"))


def runs_folder() -> Path:
    """One folder a live run: sockets, logs, stores. On a disk, since stores grow in it."""
    return _from_env("WEFT_TEST_RUNS", Path("/var/tmp/weft-test-runs"))


def weft_command() -> Path:
    """The command line, 'weft'."""
    return build_folder() / "tools" / "weft" / "weft"


def fsck_program() -> Path:
    """What 'weft fsck' runs."""
    return build_folder() / "ganesha-fsal" / "backup" / "weft-fsck"


def data_server_program() -> Path:
    return build_folder() / "dataserver" / "weft-ds"


def rdma_verbs_test() -> Path:
    return build_folder() / "tests" / "rpc" / "test_rdma_verbs"


def target_program() -> Path:
    return build_folder() / "dataserver" / "weft-target"


def fsal_library() -> Path:
    return build_folder() / "ganesha-fsal" / "libfsalweft.so"


def delay_line_program() -> Path:
    return build_folder() / "tools" / "delay_line" / "weft-delay-line"
