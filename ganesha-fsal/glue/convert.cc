#include "ganesha-fsal/glue/convert.h"

#include "ganesha-fsal/meta/schema/time_ns.h"

namespace weft::mds {
namespace {

struct Row {
  Errc code;
  fsal_errors_t fsal;
  int posix;
  nfsstat4 nfs;
};

// What is missing here is a server fault.
constexpr Row kRows[] = {
    {Errc::kNotFound, ERR_FSAL_NOENT, ENOENT, NFS4ERR_NOENT},
    {Errc::kExists, ERR_FSAL_EXIST, EEXIST, NFS4ERR_EXIST},
    {Errc::kNotDirectory, ERR_FSAL_NOTDIR, ENOTDIR, NFS4ERR_NOTDIR},
    {Errc::kIsDirectory, ERR_FSAL_ISDIR, EISDIR, NFS4ERR_ISDIR},
    {Errc::kNotEmpty, ERR_FSAL_NOTEMPTY, ENOTEMPTY, NFS4ERR_NOTEMPTY},
    {Errc::kNameTooLong, ERR_FSAL_NAMETOOLONG, ENAMETOOLONG, NFS4ERR_NAMETOOLONG},
    {Errc::kAccess, ERR_FSAL_ACCESS, EACCES, NFS4ERR_ACCESS},
    {Errc::kPermission, ERR_FSAL_PERM, EPERM, NFS4ERR_PERM},
    {Errc::kCrossDevice, ERR_FSAL_XDEV, EXDEV, NFS4ERR_XDEV},
    {Errc::kTooManyLinks, ERR_FSAL_MLINK, EMLINK, NFS4ERR_MLINK},
    {Errc::kReadOnly, ERR_FSAL_ROFS, EROFS, NFS4ERR_ROFS},
    {Errc::kSymlink, ERR_FSAL_SYMLINK, EINVAL, NFS4ERR_SYMLINK},
    {Errc::kWrongType, ERR_FSAL_BADTYPE, EINVAL, NFS4ERR_WRONG_TYPE},
    {Errc::kIo, ERR_FSAL_IO, EIO, NFS4ERR_IO},
    {Errc::kCorrupt, ERR_FSAL_IO, EIO, NFS4ERR_IO},
    {Errc::kNoSpace, ERR_FSAL_NOSPC, ENOSPC, NFS4ERR_NOSPC},
    {Errc::kQuota, ERR_FSAL_DQUOT, EDQUOT, NFS4ERR_DQUOT},
    {Errc::kFileTooLarge, ERR_FSAL_FBIG, EFBIG, NFS4ERR_FBIG},
    {Errc::kStale, ERR_FSAL_STALE, ESTALE, NFS4ERR_STALE},
    {Errc::kBadHandle, ERR_FSAL_BADHANDLE, EINVAL, NFS4ERR_BADHANDLE},
    {Errc::kShareDenied, ERR_FSAL_SHARE_DENIED, EACCES, NFS4ERR_SHARE_DENIED},
    {Errc::kLocked, ERR_FSAL_LOCKED, EACCES, NFS4ERR_LOCKED},
    {Errc::kGrace, ERR_FSAL_IN_GRACE, EAGAIN, NFS4ERR_GRACE},
    {Errc::kLayoutUnavailable, ERR_FSAL_NOTSUPP, ENOTSUP, NFS4ERR_LAYOUTUNAVAILABLE},
    {Errc::kLayoutTryLater, ERR_FSAL_DELAY, EAGAIN, NFS4ERR_LAYOUTTRYLATER},
    {Errc::kBadLayout, ERR_FSAL_INVAL, EINVAL, NFS4ERR_BADLAYOUT},
    {Errc::kRecallConflict, ERR_FSAL_DELAY, EAGAIN, NFS4ERR_RECALLCONFLICT},
    {Errc::kInvalid, ERR_FSAL_INVAL, EINVAL, NFS4ERR_INVAL},
    {Errc::kTooLarge, ERR_FSAL_TOOSMALL, EINVAL, NFS4ERR_TOOSMALL},
    {Errc::kNotSupported, ERR_FSAL_NOTSUPP, ENOTSUP, NFS4ERR_NOTSUPP},
    // What may pass: the client waits and asks again.
    {Errc::kConflict, ERR_FSAL_DELAY, EAGAIN, NFS4ERR_DELAY},
    {Errc::kTimedOut, ERR_FSAL_DELAY, EAGAIN, NFS4ERR_DELAY},
    {Errc::kUnreachable, ERR_FSAL_DELAY, EAGAIN, NFS4ERR_DELAY},
    {Errc::kClosed, ERR_FSAL_DELAY, EAGAIN, NFS4ERR_DELAY},
    {Errc::kBusy, ERR_FSAL_DELAY, EAGAIN, NFS4ERR_DELAY},
    {Errc::kCancelled, ERR_FSAL_DELAY, EAGAIN, NFS4ERR_DELAY},
    {Errc::kFenced, ERR_FSAL_DELAY, EAGAIN, NFS4ERR_DELAY},
};

constexpr Row row_of(Errc code) {
  for (const Row& row : kRows) {
    if (row.code == code) return row;
  }
  return {code, ERR_FSAL_SERVERFAULT, EIO, NFS4ERR_SERVERFAULT};
}

}  // namespace

fsal_status_t to_fsal(Errc code) {
  const Row row = row_of(code);
  return fsalstat(row.fsal, row.posix);
}

nfsstat4 to_nfsstat(Errc code) { return row_of(code).nfs; }

timespec to_timespec(std::int64_t ns) {
  std::int64_t seconds = ns / kNsPerSecond;
  std::int64_t rest = ns % kNsPerSecond;
  if (rest < 0) {
    rest += kNsPerSecond;
    --seconds;
  }
  return {.tv_sec = seconds, .tv_nsec = rest};
}

std::int64_t to_ns(const timespec& time) { return time_ns(time.tv_sec, time.tv_nsec); }

}  // namespace weft::mds
