"""A file system of its own for all arms of a benchmark of small files and names: what they cost
depends on it, and that of the machine may be any, an overlay, old, nearly full, or one without a
journal, whose ext4 looks for inodes past all that were removed in the last minutes.
"""

import os
from contextlib import contextmanager

import report
from harness.disks import Disk
from harness.run import Run, sh

GIB = 16


def add_option(parser) -> None:
    parser.add_argument("--machine-disk", action="store_true",
                        help="on the machine's own file system, and not on a new ext4")


@contextmanager
def own_disk(given):
    """The runs that are made meanwhile have their folders in an ext4 as mke2fs makes it, in an
    image on the machine's disk, past whose page cache it is read and written. Where there are no
    loop devices they are where all are. .context.json says which."""
    report.CONTEXT["file_system"] = "the machine's"
    if given.machine_disk:
        yield
        return
    with Run() as run:
        folder = run.make_folder("own")
        try:
            Disk(run, folder, GIB << 10, "loop,noinit_itable")
        except RuntimeError as error:
            print(f"no file system of its own, since there are no loop devices: {error}")
            yield
            return
        sh("losetup", "--direct-io=on", sh("findmnt", "-no", "SOURCE", str(folder)).strip())
        report.CONTEXT["file_system"] = "ext4 on a loop device"
        before = os.environ.get("WEFT_TEST_RUNS")
        os.environ["WEFT_TEST_RUNS"] = str(folder)
        try:
            yield
        finally:
            del os.environ["WEFT_TEST_RUNS"]
            if before is not None:
                os.environ["WEFT_TEST_RUNS"] = before
