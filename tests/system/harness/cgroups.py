"""A control group for each server of a run: what it uses is counted apart, and may be limited.

The servers of a run share one machine's processors and memory; a group makes a machine of each, as
far as its load goes. A group has a folder that looks like one of cgroup version 2, which is what
weft-ds takes as `counters`. Where controllers are mounted in version 1 hierarchies, the folder is
made of links to their files, which have the same form; a CPU limit is told there in a file of ours.

Groups go with their run; those of dead runs are swept.
"""

from pathlib import Path

PERIOD_US = 20_000  # short, so that a limit shows within a heartbeat


def _mounts() -> dict[str, Path]:
    """Where each version 1 controller is mounted, and version 2 under the name ''."""
    found: dict[str, Path] = {}
    for row in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, options = row.split()[:4]
        if kind == "cgroup2":
            found[""] = Path(place)
        elif kind == "cgroup":
            found.update({name: Path(place) for name in options.split(",")})
    return found


def _own(controller: str) -> str:
    """The group of this process in a version 1 hierarchy, beginning with '/'."""
    for row in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = row.split(":", 2)
        if controller in names.split(","):
            return path
    return "/"


def _homes() -> dict[str, Path]:
    """The folder in which groups are made, of cpu, memory, and of what counts ('')."""
    mounts = _mounts()
    if "" not in mounts:
        raise RuntimeError("no cgroup version 2 is mounted: loads cannot be counted by server")
    homes = {"": mounts[""]}
    for name in ("cpu", "memory"):
        if name in mounts:
            homes[name] = mounts[name] / _own(name).lstrip("/")
        else:
            (mounts[""] / "cgroup.subtree_control").write_text(f"+{name}")
            homes[name] = mounts[""]
    return homes


def sweep(run_name: str) -> None:
    """Removes the groups of a run whose processes have ended."""
    try:
        homes = set(_homes().values())
    except (RuntimeError, OSError):
        return
    for home in homes:
        for group in home.glob(f"{run_name}-*"):
            try:
                group.rmdir()
            except OSError:
                pass  # somebody is in it; the next sweep


class Cgroup:
    """Made empty and without limits. Processes join by writing to all of `joins`."""

    def __init__(self, run_name: str, name: str, link: Path):
        homes = _homes()
        self._groups = {kind: home / f"{run_name}-{name}" for kind, home in homes.items()}
        for group in self._groups.values():
            group.mkdir(exist_ok=True)
        self.joins = sorted({group / "cgroup.procs" for group in self._groups.values()})
        self.folder = link
        counted = self._groups[""]
        if len(set(self._groups.values())) == 1:
            link.symlink_to(counted)
            return
        link.mkdir()
        memory = self._groups["memory"]
        for name_there, file in (("cpu.stat", counted / "cpu.stat"),
                                 ("cgroup.threads", counted / "cgroup.threads"),
                                 ("memory.current", memory / "memory.usage_in_bytes"),
                                 ("memory.max", memory / "memory.limit_in_bytes"),
                                 ("memory.stat", memory / "memory.stat")):
            (link / name_there).symlink_to(file)

    def limit_cpu(self, percent: float) -> None:
        """Of one processor."""
        quota = int(PERIOD_US * percent / 100)
        group = self._groups["cpu"]
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
            return
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(quota))
        (self.folder / "cpu.max").write_text(f"{quota} {PERIOD_US}\n")

    def limit_memory(self, size: int) -> None:
        group = self._groups["memory"]
        name = "memory.max" if (group / "memory.max").exists() else "memory.limit_in_bytes"
        (group / name).write_text(str(size))

    def join_command(self) -> list[str]:
        """To be put before a command: it runs in the group."""
        joins = " ".join(f"echo $$ > {file};" for file in self.joins)
        return ["/bin/sh", "-c", f'{joins} exec "$@"', "sh"]
