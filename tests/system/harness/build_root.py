"""Root folders that packages are built in: a release of Debian, and what debian/control names.

    python3 -m harness.build_root RELEASE [CONTROL]     builds and caches it, and prints its path

CONTROL: another commit's debian/control.

Building in one shows that debian/control names all that a build needs, and lets a machine build
packages for another release than its own.
"""

import sys
from pathlib import Path

from . import apt, images, paths

TOOLS = ["build-essential", "ccache", "debhelper", "fakeroot"]
CONTROL = paths.REPOSITORY / "debian" / "control"


def recipe(release: str, control: Path = CONTROL) -> images.Recipe:
    # The source's paragraph: what a build needs, and nothing that changes oftener.
    needed = control.read_text().split("\n\n", 1)[0] + "\n"

    def build(folder: Path, scratch: Path) -> dict:
        (scratch / "control").write_text(needed)
        install = ('mkdir -p "$1/needed/debian" && cp {control} "$1/needed/debian/" && '
                   'chroot "$1" apt-get -q -y --no-install-recommends build-dep /needed && '
                   'rm -r "$1/needed"').format(control=scratch / "control")
        apt.bootstrap(release, TOOLS, folder / "root", install)
        return {"release": release}

    return images.Recipe(f"build-{release}", [release, *TOOLS, needed], build)


def main() -> int:
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        print(images.ensure(recipe(sys.argv[1], *map(Path, sys.argv[2:]))) / "root")
    except (images.ImageError, apt.AptError, OSError) as error:
        print(f"the root folder for {sys.argv[1]}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
