"""Every configuration file the tests write, in one place: formats change here only."""

from dataclasses import dataclass
from pathlib import Path

from . import paths

NFS_PORT = 2049


@dataclass
class MdsConfig:
    """What ganesha.nfsd needs whatever it serves. Times in seconds."""

    folder: Path
    lease_s: int = 10
    grace_s: int = 12
    graceless: bool = False
    port: int = NFS_PORT


def ganesha_core(mds: MdsConfig, pnfs: bool) -> str:
    return f"""NFS_CORE_PARAM {{
  Protocols = 4;
  NFS_Port = {mds.port};
  Plugins_Dir = "{paths.ganesha_prefix()}/lib/ganesha";
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
  Expired_Client_Threshold = 0;
  Only_Numeric_Owners = true;
}}
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
