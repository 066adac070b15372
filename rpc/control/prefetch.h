// What the metadata server tells a data server of reads that it expects; as messages.h.
//
// Threading: plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "rpc/control/messages.h"

namespace weft::rpc::control {

// Clients are expected to read these soon, the first one first: the data server may bring them into
// memory. kNotSupported: it reads nothing ahead, or does not know the request.
struct Prefetch {
  static constexpr std::uint32_t kVerb = 35;
  using Reply = void;
  static constexpr std::size_t kMost = 256;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 20;  // of each
  std::vector<Range> ranges;
  friend bool operator==(const Prefetch&, const Prefetch&) = default;
};
template <class Io>
void describe(Io& io, Prefetch& r) {
  io("ranges", r.ranges, at_most(Prefetch::kMost));
  for (const Range& range : r.ranges) {
    io.check(range.length > 0 && range.length <= Prefetch::kMostBytes &&
             range.offset <= layout::kMaxFileSize - range.length);
  }
}

}  // namespace weft::rpc::control
