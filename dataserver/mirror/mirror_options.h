// What can be configured of duplication: weft-ds.toml(5), [mirror].
//
// Threading: values.
#pragma once

#include <chrono>
#include <cstddef>

namespace weft::ds {

struct MirrorOptions {
  std::chrono::milliseconds timeout{4000};           // of a write at a partner
  std::size_t window_bytes = std::size_t{64} << 20;  // asynchronous: owed to partners at most
  std::chrono::milliseconds window_age{2000};        // and how long
};

}  // namespace weft::ds
