// Channels without a network, for tests: a MemoryNetwork carries records between pairs of channel
// ends and does nothing until told to. Everything that happens is one event; step() lets one
// happen, chosen at random among the connections (within one direction of a connection, order is
// kept), so that a seed fixes the whole run. Connections can be cut at any moment.
//
// Threading: one thread, which calls step(). post() is the only exception that Channel promises,
// and here it is not one: use it from the same thread.
//
// Ownership: the network owns undelivered records and outlives its channels; the pool outlives the
// network.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "rpc/base/buffer.h"
#include "rpc/base/clock.h"
#include "rpc/transport/channel.h"

namespace weft::rpc {

class MemoryChannel;

class MemoryNetwork {
 public:
  MemoryNetwork(BufferPool& pool, Random& random) : pool_(pool), random_(random) {}
  ~MemoryNetwork();
  MemoryNetwork(const MemoryNetwork&) = delete;
  MemoryNetwork& operator=(const MemoryNetwork&) = delete;

  struct Pair {
    std::shared_ptr<Channel> a;
    std::shared_ptr<Channel> b;
  };
  // A new connection; its number is connections() - 1.
  [[nodiscard]] Pair connect();
  // Both ends hear of it; what was under way is lost.
  void cut(std::size_t connection);

  // Whether who uses an end of it says that the other end waits for an answer.
  [[nodiscard]] bool awaited(std::size_t connection) const;

  // Lets one event happen. False: there is none.
  bool step();
  // Steps until nothing is left to happen, at most `limit` times; false when the limit was reached.
  bool run(std::size_t limit = 100'000);

  [[nodiscard]] std::size_t connections() const { return ends_.size() / 2; }

  bool by_rdma = false;  // what its channels say

 private:
  friend class MemoryChannel;
  using Record = std::optional<std::vector<std::byte>>;  // nullopt: the peer's end
  struct End {
    std::weak_ptr<MemoryChannel> channel;
    std::deque<Record> wire;                            // on its way to this end
    std::deque<std::move_only_function<void()>> calls;  // posted at this end
  };

  [[nodiscard]] static bool can_receive(const End& end);
  void receive(End& end);

  BufferPool& pool_;
  Random& random_;
  std::deque<End> ends_;  // 2n and 2n + 1 are the ends of connection n
};

}  // namespace weft::rpc
