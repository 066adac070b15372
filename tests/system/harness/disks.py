"""Disks of servers' own: file systems on loop devices, which get full, break, lose power or are
slower than the machine's.

Limits hold for buffered writes too, since they are those of the root group, to which writeback
belongs: version 1 of the blkio controller only, version 2 has no limit for its root.
"""

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .process import Process
from .run import Run, sh, wait_until

FREEZE, THAW = 0xC0045877, 0xC0045878  # FIFREEZE, FITHAW
EXT4_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
WITHOUT_THE_LOG = struct.pack("I", 2)
RULES = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device")


def limit_writes(store: Path, bytes_per_second: int) -> None:
    """Of the device the folder is on; 0 takes the limit away."""
    if not RULES.exists():
        if bytes_per_second == 0:
            return
        raise RuntimeError(f"no {RULES}: disks cannot be slowed down here")
    device = os.stat(store).st_dev
    RULES.write_text(f"{os.major(device)}:{os.minor(device)} {bytes_per_second}\n")


# What processes that were killed take to let go of their files on a machine that has much to do.
FREE_S = 90


class Disk:
    """An ext4 of its own under a folder, which is empty before. The run unmounts it."""

    def __init__(self, run: Run, folder: Path, mib: int, options: str = "loop"):
        self.folder = folder
        self.image = folder.parent / f"{folder.name}.disk"
        self.options = options
        with open(self.image, "wb") as file:
            file.truncate(mib << 20)
        sh("mke2fs", "-q", "-t", "ext4", "-m", "0", str(self.image))
        self.mount()
        limit_writes(folder, 0)  # what a run that was killed left at this loop device
        run.on_close(lambda: limit_writes(folder, 0))

    def mount(self) -> None:
        sh("mount", "-o", self.options, str(self.image), str(self.folder))

    def mount_again(self) -> None:
        """After shut_down(), when nothing uses it any more: what is stable is there."""
        device = sh("findmnt", "-no", "SOURCE", str(self.folder)).strip()
        # An io_uring lets go of its files a moment after its process has ended.
        wait_until(lambda: not sh("umount", str(self.folder), check=False), FREE_S,
                   f"{self.folder} to be unmounted", 0.1)
        # Or it would be mounted as it is.
        wait_until(lambda: not self._has(device), FREE_S,
                   f"the file system of {device} to go")
        self.mount()

    def _has(self, device: str) -> bool:
        """Another run's disk may be at the same device a moment later."""
        try:
            name = Path("/sys/block", Path(device).name, "loop/backing_file").read_text()
        except OSError:
            return False
        return name.strip() == str(self.image)


# What is written stays in memory for as long as ext4 lets it, unless it is synced.
LAZY = "loop,commit=30,noauto_da_alloc"


def lose_power(machines: list[tuple[Disk, Process]]) -> None:
    """All at the same moment: what is not stable is lost, and no process says goodbye. They have
    their disks again on return, and are to be started."""
    for _, process in machines:
        process.pause()
    for disk, _ in machines:
        shut_down(disk.folder)
    for _, process in machines:
        process.kill()
    for disk, _ in machines:
        disk.mount_again()


def shut_down(store: Path) -> None:
    """Nothing can be written to the file system any more, nor synced, until it is mounted anew."""
    folder = os.open(store, os.O_RDONLY)
    try:
        fcntl.ioctl(folder, EXT4_SHUTDOWN, WITHOUT_THE_LOG)
    finally:
        os.close(folder)


def fill(folder: Path) -> None:
    """Leaves no space in the folder's file system."""
    with open(folder / "ballast", "wb") as ballast:
        end = 0
        for piece in (16 << 20, 1 << 20, 4 << 10):
            try:
                while True:
                    os.posix_fallocate(ballast.fileno(), end, piece)
                    end += piece
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def unfill(folder: Path) -> None:
    (folder / "ballast").unlink(missing_ok=True)


def find_error(folder: Path) -> None:
    """The file system under the folder takes itself for broken, and does what its option says."""
    device = os.stat(folder).st_dev
    name = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name
    Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("weft test")


@contextmanager
def frozen(folder: Path) -> Iterator[None]:
    """Whoever writes to the folder's file system waits until the end, as for a disk that stalls."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.ioctl(opened, FREEZE, 0)
        try:
            yield
        finally:
            fcntl.ioctl(opened, THAW, 0)
    finally:
        os.close(opened)
