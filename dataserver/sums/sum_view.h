// What a SummedStore (summed_store.h) counts.
//
// Threading: any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::ds {

struct SumView {
  std::atomic<std::uint64_t> bad_blocks{0};      // reads and writes that met one
  std::atomic<std::uint64_t> checked_blocks{0};  // of reads
  std::atomic<std::uint64_t> unknown_blocks{0};  // of reads, read as they are
  std::atomic<std::uint64_t> sealed_blocks{0};
};

// The same, of one store or several together.
struct SumCounts {
  std::uint64_t bad_blocks = 0;
  std::uint64_t checked_blocks = 0;
  std::uint64_t unknown_blocks = 0;
  std::uint64_t sealed_blocks = 0;
  SumCounts& operator+=(const SumView& view) {
    bad_blocks += view.bad_blocks.load();
    checked_blocks += view.checked_blocks.load();
    unknown_blocks += view.unknown_blocks.load();
    sealed_blocks += view.sealed_blocks.load();
    return *this;
  }
};

}  // namespace weft::ds
