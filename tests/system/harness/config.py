"""Every configuration file the tests write, in one place: formats change here only."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

NFS_PORT = 2049
CONTROL_PORT = 20480
TARGET_PORT = 9640
METRICS_PORT = 9100  # of a data server; a target's is this and its number


@dataclass
class MdsConfig:
    """What ganesha.nfsd needs whatever it serves. Times in seconds."""

    folder: Path
    lease_s: int = 10
    grace_s: int = 12
    graceless: bool = False
    port: int = NFS_PORT
    nfs4: str = ""  # more of its NFSv4 block


def ganesha_core(mds: MdsConfig, pnfs: bool) -> str:
    return f"""NFS_CORE_PARAM {{
  Protocols = 4;
  NFS_Port = {mds.port};
  Plugins_Dir = "{mds.folder}/plugins";
  allow_set_io_flusher_fail = true;
  Enable_UDP = false;
  Enable_NLM = false;
  Enable_RQUOTA = false;
}}
NFSv4 {{
  PNFS_MDS = {str(pnfs).lower()};
  Minor_Versions = 0, 1, 2;
  Lease_Lifetime = {mds.lease_s};
  Grace_Period = {mds.grace_s};
  Graceless = {str(mds.graceless).lower()};
  RecoveryBackend = fs;
  RecoveryRoot = "{mds.folder}/recovery";
  Only_Numeric_Owners = true;
  {mds.nfs4}
}}
MDCACHE {{ Detached_Mult = 64; }}
"""


def vfs_export(folder: Path) -> str:
    """Ganesha's own VFS: what the harness is checked against without any code of Weft."""
    return f"""EXPORT {{
  Export_Id = 1;
  Path = "{folder}";
  Pseudo = "/export";
  Access_Type = RW;
  Squash = No_Root_Squash;
  SecType = sys;
  FSAL {{ Name = VFS; }}
}}
"""


def fsal_export(lines: list[str]) -> str:
    """An export of a Weft that says this in its FSAL block, and no more."""
    said = "".join(f"    {line}\n" for line in lines)
    return f"""EXPORT {{
  Export_Id = 1;
  Path = "/";
  Pseudo = "/export";
  Access_Type = RW;
  SecType = sys;
  FSAL {{
    Name = WEFT;
{said}  }}
}}
"""


NOBODY = 65534  # whom a squashed root is


@dataclass(frozen=True)
class Export:
    """One more export, of the same store or, by `extra`, another. What is not said is as in the
    cluster's options."""

    number: int
    pseudo: str
    path: str = "/"  # in the store
    layout: str = ""
    pnfs: bool | None = None
    squash: bool = False  # root is nobody, as Ganesha has it when nothing is said
    access: str = "Access_Type = RW;"  # and CLIENT blocks
    extra: dict[str, str] = field(default_factory=dict)


def user_database(folder: Path, users: dict[int, tuple[int, ...]]) -> dict[str, Path]:
    """Files for a machine that knows root and these, by where it has them."""
    passwd, group = folder / "passwd", folder / "group"
    lines = [f"user{uid}:x:{uid}:{uid}::/:/bin/false\n" for uid in users]
    passwd.write_text("root:x:0:0::/root:/bin/sh\n" + "".join(lines))
    members = {gid: [f"user{uid}" for uid, groups in users.items() if gid in groups]
               for gid in {gid for groups in users.values() for gid in groups} | set(users)}
    group.write_text("root:x:0:\n" + "".join(f"group{gid}:x:{gid}:{','.join(names)}\n"
                                             for gid, names in sorted(members.items())))
    return {"/etc/passwd": passwd, "/etc/group": group}


def weft_exports(cluster) -> str:
    """The exports that the cluster has now."""
    return "".join(weft_export(cluster, export) for export in cluster.exports)


def inline() -> dict[str, str]:
    """Where a test says nothing of small files, WEFT_INLINE may."""
    limit = os.environ.get("WEFT_INLINE", "")
    return {"Inline": limit} if limit else {}


def weft_export(cluster, export: Export) -> str:
    """An export of a Weft; fsal-weft(8) explains the options."""
    options = cluster.options
    pnfs = options.pnfs if export.pnfs is None else export.pnfs
    squash = (f"  Anonymous_Uid = {NOBODY};\n  Anonymous_Gid = {NOBODY};\n" if export.squash else
              "  Squash = No_Root_Squash;\n")
    groups = "  Manage_Gids = true;\n" if options.users else ""
    store = {"Metadata_Path": f'"{cluster.folder}/metadata"',
             "Control_Address": f'"{cluster.address}:{CONTROL_PORT}"',
             "Key_File": f'"{cluster.key_file}"',
             "Admin_Socket": f'"{cluster.admin_socket}"'}
    said = "".join(f"    {key} = {value};\n" for key, value in
                   {**store, **inline(), **options.extra, **export.extra}.items())
    return f"""EXPORT {{
  Export_Id = {export.number};
  Path = "{export.path}";
  Pseudo = "{export.pseudo}";
  {export.access}
{squash}{groups}  SecType = sys;
  FSAL {{
    Name = WEFT;
    Layout_Type = {export.layout or options.layout};
    Stripe_Unit = {options.stripe_unit};
    Stripe_Count = {options.stripe_count};
    PNFS = {str(pnfs).lower()};
    By_Load = {str(options.by_load).lower()};
    Shared_Memory = {str("mds" in options.shared_memory).lower()};
{said}  }}
}}
"""


def _targets(cluster) -> str:
    """The line of [store] that says where the objects are, if they are not in the folder."""
    addresses = [f'"{target.address}"' for target in cluster.targets]
    if cluster.store.startswith("parity"):
        return f"parity = [{', '.join(addresses)}]\n"
    return f"target = {addresses[0]}\n" if addresses else ""


# As eager as can be: what is read twice in a row is a segment after a second.
SEGMENTS = """[segments]
size = "64 MiB"
cache = "32 MiB"
best = 1
recent = 2
idle_seconds = 1
"""


def data_server(cluster, number: int, address: str, store: Path) -> str:
    """weft-ds.toml for data server number, counted from 1."""
    domains = cluster.options.domains
    domain = f'failure_domain = "{domains[(number - 1) % len(domains)]}"\n' if domains else ""
    of_all = not cluster.options.on_targets
    over_targets = of_all or number in cluster.options.on_targets
    targets = (_targets(cluster) if over_targets else "") + cluster.options.store_options
    metrics = f'metrics = "{address}:{METRICS_PORT}"\n' if cluster.options.metrics else ""
    metrics += cluster.options.server_options
    shared = str("ds" in cluster.options.shared_memory).lower()
    load = f'[load]\ncounters = "{store.parent}/cgroup"\n' if cluster.options.cgroups else ""
    size = cluster.options.cache or os.environ.get("WEFT_STORE_CACHE", "")
    cached = size and cluster.targets and over_targets
    cache = f'[cache]\nsize = "{size}"\n' if cached else ""
    segments = SEGMENTS if cluster.store == "segments" else ""
    return f"""[server]
name = "ds{number}"
{domain}listen = ["{address}:{NFS_PORT}"]
shared_memory = {shared}
{metrics}
[store]
path = "{store}"
{targets}
[cluster]
mds = ["{cluster.address}:{CONTROL_PORT}"]
key_file = "{cluster.key_file_in(store.parent)}"
{load}{cache}{segments}{cluster.options.tables(number)}"""


def lone_data_server(folder: Path | str, addresses: list[str], mds: str, lines: str = "",
                     store_lines: str = "") -> str:
    """weft-ds.toml without a cluster; `lines` are more of [server], `store_lines` of [store]."""
    return f"""[server]
listen = {json.dumps(addresses)}
shared_memory = false
{lines}
[store]
path = "{folder}/store"
{store_lines}
[cluster]
mds = ["{mds}"]
key_file = "{folder}/cluster.key"
"""


def lone_target(folder: Path | str, lines: str = "") -> str:
    """weft-target.toml without a cluster; `lines` are more of [target]."""
    return f"""[target]
socket = "{folder}/socket"
{lines}
[store]
path = "{folder}/store"

[cluster]
key_file = "{folder}/cluster.key"
"""


def target(cluster, address: str, store: Path, metrics: str) -> str:
    """weft-target.toml of a target that data servers reach at this address."""
    kind, _, where = address.partition(":")
    listen = f'socket = "{where}"' if kind == "unix" else f'listen = ["{where}"]'
    if cluster.options.metrics:
        listen += f'\nmetrics = "{metrics}"'
    size = cluster.options.target_cache
    cache = f'mode = "direct"\n\n[cache]\nsize = "{size}"\n' if size else ""
    checksums = "checksums = true\n" if cluster.options.target_checksums else ""
    return f"""[target]
{listen}

[store]
path = "{store}"
{checksums}{cache}
[cluster]
key_file = "{cluster.key_file_in(store.parent)}"
"""
