// An RDMA device without a network, for tests: a FakePair is one connection with a queue pair at
// each end. The calling end exposes memory, which the serving end reads and writes.
//
// Work is done when the io_context runs, in order, one after the other. What a real device refuses
// ends the connection here too: memory that is not exposed, and a Send for which no receive is
// posted.
//
// Threading: the io_context's thread. Ownership: both ends share the pair.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <deque>
#include <memory>

#include "rpc/transport/rdma/queue_pair.h"

namespace weft::rpc::rdma {

class FakePair : public std::enable_shared_from_this<FakePair> {
 public:
  // What the serving end posts is of the pool's arena; the calling end exposes so many bytes.
  FakePair(boost::asio::io_context& context, const BufferPool& serving, std::size_t exposed);

  // Each once.
  [[nodiscard]] std::unique_ptr<QueuePair> calling();
  [[nodiscard]] std::unique_ptr<QueuePair> serving();
  // As when the network does it.
  void cut() { end({Errc::kUnreachable, "cut"}); }

  [[nodiscard]] const Exposed& exposed() const { return exposed_; }

  // What goes wrong, or has gone. -----------------------------------------------------------------
  bool hold = false;  // no work is done any more, until the connection ends
  std::size_t max_work = 16;
  std::size_t max_receives = 64;
  std::size_t max_send_bytes = 4096;  // either way
  [[nodiscard]] bool ended() const { return ended_; }
  std::size_t sends = 0;    // of the calling end
  std::size_t written = 0;  // bytes, by Writes
  std::size_t read = 0;     // bytes, by Reads

 private:
  friend class FakeEnd;
  enum class At : std::uint8_t { kCalling, kServing };
  struct Side {
    std::shared_ptr<QueuePairUser> user;
    std::deque<Work> receives;
    std::deque<Work> work;
    std::deque<Work> untold;  // quiet ones that are done
  };
  [[nodiscard]] Side& side(At at) { return sides_.at(static_cast<std::size_t>(at)); }
  [[nodiscard]] Side& other(At at) { return sides_.at(1 - static_cast<std::size_t>(at)); }
  [[nodiscard]] bool reaches(At at, std::span<const std::byte> bytes) const;
  void post(At at, Work work);
  void step(At at);
  [[nodiscard]] bool carry_out(At at, Work& work);
  void end(Error why);

  boost::asio::io_context& context_;
  const BufferPool& serving_;
  Exposed exposed_;
  std::array<Side, 2> sides_;
  bool ended_ = false;
};

}  // namespace weft::rpc::rdma
