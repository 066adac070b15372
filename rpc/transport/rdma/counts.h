// What went by RDMA, at one end.
//
// Threading: any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::rpc::rdma {

// Since the start. Of the serving end; of a calling end the same, by what it is told.
struct Counts {
  std::atomic<std::uint64_t> calls{0};      // to the serving end
  std::atomic<std::uint64_t> bytes_in{0};   // in chunks, to this end
  std::atomic<std::uint64_t> bytes_out{0};  // from this end
};

}  // namespace weft::rpc::rdma
