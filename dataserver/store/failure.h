// Which errors of a store (store.h) say something of the store, and which of what was asked for.
//
// Threading: a pure function.
#pragma once

#include "rpc/base/error.h"

namespace weft::ds {

// Whether an operation failed because of its store, so that it may succeed at another; not because
// of what was asked for. "Try again" counts: where it is said for too long, another is better.
[[nodiscard]] inline bool failed_by_store(const Error& error) {
  return !(error == Errc::kFileTooLarge || error == Errc::kInvalid || error == Errc::kTooLarge);
}

}  // namespace weft::ds
