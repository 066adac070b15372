// Between our types and Ganesha's: errors and times. The one place of this edge that translates
// errors.
#pragma once

#include "ganesha-fsal/glue/ganesha.h"
#include "rpc/base/error.h"

namespace weft::mds {

inline constexpr fsal_status_t kFsalOk = {ERR_FSAL_NO_ERROR, 0};

[[nodiscard]] fsal_status_t to_fsal(Errc code);
[[nodiscard]] inline fsal_status_t to_fsal(const Error& error) { return to_fsal(error.code); }
template <class T>
[[nodiscard]] fsal_status_t to_fsal(const Result<T>& result) {
  return result ? kFsalOk : to_fsal(result.error().code);
}

// For the layout operations, which answer in NFSv4.1's own terms.
[[nodiscard]] nfsstat4 to_nfsstat(Errc code);

// Nanoseconds since 1970, and back; times before are kept, those beyond 2262 are not (time_ns()).
[[nodiscard]] timespec to_timespec(std::int64_t ns);
[[nodiscard]] std::int64_t to_ns(const timespec& time);

}  // namespace weft::mds
