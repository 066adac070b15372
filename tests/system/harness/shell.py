"""A shell in a client machine, next to servers on this host.

    python3 -m harness.shell [ADDRESS PATH] [--kind uml61] [--options vers=4.2]

With ADDRESS and PATH, the export is mounted on /mnt/nfs before the shell begins. Leaving the shell
halts the machine. ADDRESS is one of this host's addresses, but not of 127.0.0.0/8.
"""

import argparse
import subprocess
import sys

from . import images
from .client import MOUNT_POINT
from .machines import MACHINES
from .network import HostNetwork
from .run import Run


def main() -> int:
    parser = argparse.ArgumentParser(prog="harness.shell", description=__doc__.split("\n")[0])
    parser.add_argument("address", nargs="?")
    parser.add_argument("path", nargs="?", default="/")
    parser.add_argument("--kind", default="uml61", choices=sorted(MACHINES))
    parser.add_argument("--options", default="vers=4.2")
    given = parser.parse_args()
    if not sys.stdin.isatty():
        parser.error("a shell needs a terminal; for a script use harness.client")
    images.ensure(images.KINDS[given.kind])
    modes = subprocess.run(["stty", "-g"], text=True, stdout=subprocess.PIPE).stdout.strip()
    with Run() as run:
        client = MACHINES[given.kind](run, HostNetwork(run).client(), terminal=True, uid=0)
        if given.address:
            client.shell_first = (f"mkdir -p {MOUNT_POINT}; mount -v -t nfs -o {given.options} "
                                  f"{given.address}:{given.path} {MOUNT_POINT}")
        try:
            client.start()
            client.wait_end()
        finally:
            subprocess.run(["stty", modes])
    return 0


if __name__ == "__main__":
    sys.exit(main())
