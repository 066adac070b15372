// status_from() and errc_from(): the one edge between our error codes and the protocol's.
#include "rpc/nfs4/types.h"

namespace weft::rpc::nfs4 {

Status status_from(Errc code) {
  using enum Status;
  switch (code) {
    case Errc::kNotFound: return NFS4ERR_NOENT;
    case Errc::kExists: return NFS4ERR_EXIST;
    case Errc::kNotDirectory: return NFS4ERR_NOTDIR;
    case Errc::kIsDirectory: return NFS4ERR_ISDIR;
    case Errc::kNotEmpty: return NFS4ERR_NOTEMPTY;
    case Errc::kNameTooLong: return NFS4ERR_NAMETOOLONG;
    case Errc::kAccess: return NFS4ERR_ACCESS;
    case Errc::kPermission: return NFS4ERR_PERM;
    case Errc::kCrossDevice: return NFS4ERR_XDEV;
    case Errc::kTooManyLinks: return NFS4ERR_MLINK;
    case Errc::kReadOnly: return NFS4ERR_ROFS;
    case Errc::kSymlink: return NFS4ERR_SYMLINK;
    case Errc::kWrongType: return NFS4ERR_WRONG_TYPE;
    case Errc::kIo: return NFS4ERR_IO;
    case Errc::kNoSpace: return NFS4ERR_NOSPC;
    case Errc::kQuota: return NFS4ERR_DQUOT;
    case Errc::kFileTooLarge: return NFS4ERR_FBIG;
    case Errc::kCorrupt: return NFS4ERR_IO;
    case Errc::kStale: return NFS4ERR_STALE;
    case Errc::kBadHandle: return NFS4ERR_BADHANDLE;
    case Errc::kBadStateid: return NFS4ERR_BAD_STATEID;
    case Errc::kFenced: return NFS4ERR_ACCESS;
    case Errc::kShareDenied: return NFS4ERR_SHARE_DENIED;
    case Errc::kLocked: return NFS4ERR_LOCKED;
    case Errc::kGrace: return NFS4ERR_GRACE;
    case Errc::kLayoutUnavailable: return NFS4ERR_LAYOUTUNAVAILABLE;
    case Errc::kLayoutTryLater: return NFS4ERR_LAYOUTTRYLATER;
    case Errc::kBadLayout: return NFS4ERR_BADLAYOUT;
    case Errc::kRecallConflict: return NFS4ERR_RECALLCONFLICT;
    case Errc::kInvalid: return NFS4ERR_INVAL;
    case Errc::kTooLarge: return NFS4ERR_FBIG;
    case Errc::kNotSupported: return NFS4ERR_NOTSUPP;
    case Errc::kAuth: return NFS4ERR_ACCESS;
    case Errc::kConflict:
    case Errc::kTimedOut:
    case Errc::kUnreachable:
    case Errc::kBusy: return NFS4ERR_DELAY;
    case Errc::kProtocol:
    case Errc::kClosed:
    case Errc::kCancelled:
    case Errc::kInternal: return NFS4ERR_SERVERFAULT;
  }
  return NFS4ERR_SERVERFAULT;
}

namespace {

Errc errc_from_state_error(Status status) {
  using enum Status;
  switch (status) {
    case NFS4ERR_DELAY:
    case NFS4ERR_BACK_CHAN_BUSY:
    case NFS4ERR_CLIENTID_BUSY: return Errc::kBusy;
    case NFS4ERR_EXPIRED:
    case NFS4ERR_STALE_STATEID:
    case NFS4ERR_OLD_STATEID:
    case NFS4ERR_BAD_STATEID:
    case NFS4ERR_ADMIN_REVOKED:
    case NFS4ERR_OPENMODE: return Errc::kBadStateid;
    case NFS4ERR_LOCKED:
    case NFS4ERR_DENIED:
    case NFS4ERR_LOCKS_HELD:
    case NFS4ERR_FILE_OPEN: return Errc::kLocked;
    case NFS4ERR_GRACE: return Errc::kGrace;
    case NFS4ERR_SHARE_DENIED: return Errc::kShareDenied;
    case NFS4ERR_LAYOUTTRYLATER: return Errc::kLayoutTryLater;
    case NFS4ERR_LAYOUTUNAVAILABLE:
    case NFS4ERR_UNKNOWN_LAYOUTTYPE: return Errc::kLayoutUnavailable;
    case NFS4ERR_BADLAYOUT:
    case NFS4ERR_BADIOMODE:
    case NFS4ERR_NOMATCHING_LAYOUT:
    case NFS4ERR_PNFS_NO_LAYOUT: return Errc::kBadLayout;
    case NFS4ERR_RECALLCONFLICT: return Errc::kRecallConflict;
    case NFS4ERR_CLID_INUSE:
    case NFS4ERR_WRONGSEC:
    case NFS4ERR_WRONG_CRED: return Errc::kAuth;
    case NFS4ERR_SERVERFAULT: return Errc::kInternal;
    default: return Errc::kProtocol;
  }
}

}  // namespace

Errc errc_from(Status status) {
  using enum Status;
  switch (status) {
    case NFS4ERR_PERM: return Errc::kPermission;
    case NFS4ERR_NOENT: return Errc::kNotFound;
    case NFS4ERR_IO:
    case NFS4ERR_NXIO: return Errc::kIo;
    case NFS4ERR_ACCESS: return Errc::kAccess;
    case NFS4ERR_EXIST: return Errc::kExists;
    case NFS4ERR_XDEV: return Errc::kCrossDevice;
    case NFS4ERR_NOTDIR: return Errc::kNotDirectory;
    case NFS4ERR_ISDIR: return Errc::kIsDirectory;
    case NFS4ERR_INVAL:
    case NFS4ERR_BADNAME:
    case NFS4ERR_BADCHAR: return Errc::kInvalid;
    case NFS4ERR_FBIG: return Errc::kFileTooLarge;
    case NFS4ERR_NOSPC: return Errc::kNoSpace;
    case NFS4ERR_ROFS: return Errc::kReadOnly;
    case NFS4ERR_MLINK: return Errc::kTooManyLinks;
    case NFS4ERR_NAMETOOLONG: return Errc::kNameTooLong;
    case NFS4ERR_NOTEMPTY: return Errc::kNotEmpty;
    case NFS4ERR_DQUOT: return Errc::kQuota;
    case NFS4ERR_STALE:
    case NFS4ERR_FHEXPIRED: return Errc::kStale;
    case NFS4ERR_BADHANDLE: return Errc::kBadHandle;
    case NFS4ERR_NOTSUPP:
    case NFS4ERR_ATTRNOTSUPP: return Errc::kNotSupported;
    case NFS4ERR_SYMLINK: return Errc::kSymlink;
    case NFS4ERR_WRONG_TYPE:
    case NFS4ERR_BADTYPE: return Errc::kWrongType;
    case NFS4ERR_REQ_TOO_BIG:
    case NFS4ERR_REP_TOO_BIG:
    case NFS4ERR_TOOSMALL: return Errc::kTooLarge;
    default: return errc_from_state_error(status);
  }
}

}  // namespace weft::rpc::nfs4
