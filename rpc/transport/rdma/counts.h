// What went by RDMA, at one end.
//
// Threading: any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::rpc::rdma {

// Since the start. A calling end counts what it brings for its peer to read, and what its peer says
// that it wrote.
struct Counts {
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> bytes_in{0};     // in chunks, to this end
  std::atomic<std::uint64_t> bytes_out{0};    // from this end
  std::atomic<std::uint64_t> connections{0};  // of a calling end, now
};

}  // namespace weft::rpc::rdma
