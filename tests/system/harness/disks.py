"""Disks of servers that are slower than the machine's: a store on a loop device whose writes are
limited, buffered ones too, since the limit is that of the root group, to which writeback belongs.

Version 1 of the blkio controller only: version 2 has no limit for its root.
"""

import os
from pathlib import Path

RULES = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device")


def limit_writes(store: Path, bytes_per_second: int) -> None:
    """Of the device the folder is on; 0 takes the limit away."""
    if not RULES.exists():
        if bytes_per_second == 0:
            return
        raise RuntimeError(f"no {RULES}: disks cannot be slowed down here")
    device = os.stat(store).st_dev
    RULES.write_text(f"{os.major(device)}:{os.minor(device)} {bytes_per_second}\n")
