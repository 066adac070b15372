// The one error type of Weft, and Result<T>, how every fallible function returns.
//
// A function that can fail returns Result<T>; it never throws (constructors may) and never aborts
// on what a peer, a disk or a user gave it. The codes say what happened in the terms of the
// protocol we serve; the text says to whom and why, for a log or a command line. One place per
// edge translates: rpc/nfs4 to nfsstat4, ganesha-fsal/glue to fsal_status_t, rpc/control to its
// wire codes. The numeric values are ours alone and never leave the process.
//
// Threading: values, freely copied and moved.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace weft {

enum class Errc : std::uint16_t {
  // Names, attributes, rights.
  kNotFound = 1,
  kExists,
  kNotDirectory,
  kIsDirectory,
  kNotEmpty,
  kNameTooLong,
  kAccess,      // the caller may not (also: fenced at a data server)
  kPermission,  // nobody but the owner or root may
  kCrossDevice,
  kTooManyLinks,
  kReadOnly,
  kSymlink,  // a symbolic link where none is allowed
  kWrongType,
  // Storage.
  kIo,
  kNoSpace,
  kQuota,
  kFileTooLarge,
  kCorrupt,  // a checksum or a structure on disk does not hold
  // Handles and state.
  kStale,      // the object is gone
  kBadHandle,  // not a handle of ours
  kBadStateid,
  kFenced,
  kShareDenied,
  kLocked,
  kGrace,
  kLayoutUnavailable,
  kLayoutTryLater,
  kBadLayout,
  kRecallConflict,
  // Transactions.
  kConflict,  // somebody else committed first: run the transaction again
  // Requests and peers.
  kInvalid,   // an argument makes no sense
  kProtocol,  // the peer broke the protocol or a limit; the bytes cannot be believed
  kTooLarge,  // more than a limit of ours allows
  kNotSupported,
  kAuth,  // the peer could not prove who it is
  kTimedOut,
  kClosed,       // the connection, or the object used, is closed
  kUnreachable,  // refused, reset, no route
  kBusy,         // try again
  kCancelled,
  kInternal,  // a broken promise of our own; a bug
};

[[nodiscard]] std::string_view to_string(Errc code);

struct [[nodiscard]] Error {
  Errc code;
  std::string text;

  // "no space: write /srv/ds1/objects: No space left on device"
  [[nodiscard]] std::string describe() const;
  friend bool operator==(const Error& a, Errc b) { return a.code == b; }
};

template <class T = void>
using Result = std::expected<T, Error>;

[[nodiscard]] inline std::unexpected<Error> fail(Errc code, std::string text = {}) {
  return std::unexpected(Error{code, std::move(text)});
}

// The error for a system call that returned `err` (an errno value), with what was tried.
[[nodiscard]] std::unexpected<Error> fail_errno(int err, std::string_view doing);
[[nodiscard]] Errc errc_from_errno(int err);

// Passes a failed Result's error on as another Result's.
template <class T>
[[nodiscard]] std::unexpected<Error> pass(Result<T>& failed) {
  return std::unexpected(std::move(failed.error()));
}

}  // namespace weft
