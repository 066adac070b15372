// What a channel costs: the same echo and the same bulk transfer over TCP and over shared memory,
// between two processes that are pinned to processors.
//
// Threading: blocking calls; forks, so from a process without other threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "rpc/base/error.h"

namespace weft::load {

struct ChannelBench {
  enum class Transport : std::uint8_t { kTcp, kShm };
  Transport transport = Transport::kTcp;
  unsigned client_cpu = 0;
  unsigned server_cpu = 0;
  std::chrono::microseconds poll{0};  // shared memory: polls so long at most
  std::size_t bytes = 64;             // of a message
  // Bulk: messages of `bytes` one way, answered each by a small one. `copy`: out of the sender's
  // own memory, as TCP does; otherwise from the buffer they are in already.
  bool bulk = false;
  bool copy = true;
  unsigned outstanding = 1;
  std::chrono::milliseconds duration{1000};
};

struct ChannelResult {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;
  double cpu_seconds = 0;  // of both processes
};

[[nodiscard]] Result<ChannelResult> run_channel_bench(const ChannelBench& bench);

}  // namespace weft::load
