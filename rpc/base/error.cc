#include "rpc/base/error.h"

#include <cerrno>
#include <cstring>

namespace weft {

std::string_view to_string(Errc code) {
  switch (code) {
    case Errc::kNotFound: return "not found";
    case Errc::kExists: return "exists";
    case Errc::kNotDirectory: return "not a directory";
    case Errc::kIsDirectory: return "is a directory";
    case Errc::kNotEmpty: return "directory not empty";
    case Errc::kNameTooLong: return "name too long";
    case Errc::kAccess: return "access denied";
    case Errc::kPermission: return "operation not permitted";
    case Errc::kCrossDevice: return "crosses file systems";
    case Errc::kTooManyLinks: return "too many links";
    case Errc::kReadOnly: return "read-only";
    case Errc::kSymlink: return "symbolic link";
    case Errc::kWrongType: return "wrong type";
    case Errc::kIo: return "i/o error";
    case Errc::kNoSpace: return "no space";
    case Errc::kQuota: return "quota exceeded";
    case Errc::kFileTooLarge: return "file too large";
    case Errc::kCorrupt: return "corrupt";
    case Errc::kStale: return "stale";
    case Errc::kBadHandle: return "bad handle";
    case Errc::kBadStateid: return "bad stateid";
    case Errc::kFenced: return "fenced";
    case Errc::kShareDenied: return "share denied";
    case Errc::kLocked: return "locked";
    case Errc::kGrace: return "in grace";
    case Errc::kLayoutUnavailable: return "layout unavailable";
    case Errc::kLayoutTryLater: return "layout try later";
    case Errc::kBadLayout: return "bad layout";
    case Errc::kRecallConflict: return "recall conflict";
    case Errc::kConflict: return "transaction conflict";
    case Errc::kInvalid: return "invalid";
    case Errc::kProtocol: return "protocol violation";
    case Errc::kTooLarge: return "too large";
    case Errc::kNotSupported: return "not supported";
    case Errc::kAuth: return "authentication failed";
    case Errc::kTimedOut: return "timed out";
    case Errc::kClosed: return "closed";
    case Errc::kUnreachable: return "unreachable";
    case Errc::kBusy: return "busy";
    case Errc::kCancelled: return "cancelled";
    case Errc::kInternal: return "internal error";
  }
  return "unknown error";
}

std::string Error::describe() const {
  std::string out{to_string(code)};
  if (!text.empty()) out.append(": ").append(text);
  return out;
}

Errc errc_from_errno(int err) {
  switch (err) {
    case ENOENT: return Errc::kNotFound;
    case EEXIST: return Errc::kExists;
    case ENOTDIR: return Errc::kNotDirectory;
    case EISDIR: return Errc::kIsDirectory;
    case ENOTEMPTY: return Errc::kNotEmpty;
    case ENAMETOOLONG: return Errc::kNameTooLong;
    case EACCES: return Errc::kAccess;
    case EPERM: return Errc::kPermission;
    case EXDEV: return Errc::kCrossDevice;
    case EMLINK: return Errc::kTooManyLinks;
    case EROFS: return Errc::kReadOnly;
    case ELOOP: return Errc::kSymlink;
    case ENOSPC: return Errc::kNoSpace;
    case EDQUOT: return Errc::kQuota;
    case EFBIG: return Errc::kFileTooLarge;
    case ESTALE: return Errc::kStale;
    case EINVAL: return Errc::kInvalid;
    case EOPNOTSUPP: return Errc::kNotSupported;
    case ETIMEDOUT: return Errc::kTimedOut;
    case ECANCELED: return Errc::kCancelled;
    // This process or machine is short of something for a moment; nothing is broken.
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
    case EINTR:
    case EAGAIN:
    case EBUSY: return Errc::kBusy;
    case EPIPE:
    case ENOTCONN: return Errc::kClosed;
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EHOSTUNREACH:
    case ENETUNREACH: return Errc::kUnreachable;
    default: return Errc::kIo;
  }
}

std::unexpected<Error> fail_errno(int err, std::string_view doing) {
  std::string text{doing};
  text.append(": ").append(std::strerror(err));  // NOLINT: glibc's strerror is thread-safe here
  return fail(errc_from_errno(err), std::move(text));
}

}  // namespace weft
