// What the source of a job (messages.h, Resync) could not read. The metadata server asks when a job
// has failed; a data server of an earlier version says kNotSupported.
//
// Threading: plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "rpc/control/messages.h"

namespace weft::rpc::control {

// All else of the job's extents is equal, and on stable storage. Empty: the job failed for another
// reason, or is not known.
struct Unreadable {
  std::vector<Extent> extents;
  friend bool operator==(const Unreadable&, const Unreadable&) = default;
};
template <class Io>
void describe(Io& io, Unreadable& r) {
  io("extents", r.extents, at_most(kMaxExtents));
}
struct GetUnreadable {
  static constexpr std::uint32_t kVerb = 38;
  using Reply = Unreadable;
  std::uint64_t job = 0;
  friend bool operator==(const GetUnreadable&, const GetUnreadable&) = default;
};
template <class Io>
void describe(Io& io, GetUnreadable& r) {
  io("job", r.job);
}

}  // namespace weft::rpc::control
