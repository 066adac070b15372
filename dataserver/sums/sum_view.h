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

}  // namespace weft::ds
