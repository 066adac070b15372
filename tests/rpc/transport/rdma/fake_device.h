// An RDMA device without a network, for tests: a FakeWire is one connection, with a queue pair at
// the server's end, and at the other a client that the test plays: it has memory that the server
// may reach, sends what it likes and sees what it is sent.
//
// Work is done when the io_context runs, in order, one after the other, and told of then, but for
// quiet one: that is told of with the next. What a real device refuses
// ends the connection here too: memory that was not exposed or is not large enough, a Send for
// which no receive is posted, and one that invalidates a handle which the client does not have.
//
// Threading: the io_context's thread. Ownership: the wire outlives neither end: both share it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "rpc/transport/rdma/queue_pair.h"

namespace weft::rpc::rdma {

class FakeWire : public std::enable_shared_from_this<FakeWire> {
 public:
  // Buffers of `pool` are registered, if it has an arena.
  FakeWire(boost::asio::io_context& context, const BufferPool& pool)
      : context_(context), pool_(pool) {}

  // The server's end. Once.
  [[nodiscard]] std::unique_ptr<QueuePair> queue_pair();

  // The client's end. ---------------------------------------------------------------------------
  // Memory of its that the server may reach.
  [[nodiscard]] Segment expose(std::vector<std::byte> bytes);
  [[nodiscard]] std::vector<std::byte>& memory(std::uint32_t handle) { return memory_.at(handle); }
  [[nodiscard]] bool exposes(std::uint32_t handle) const { return memory_.contains(handle); }
  void withdraw(std::uint32_t handle) { memory_.erase(handle); }
  void send(std::span<const std::byte> bytes);
  void disconnect() { end({Errc::kClosed, "closed by the peer"}); }

  // What it was sent, in order; given to `on_sent` instead, if there is one.
  std::deque<std::vector<std::byte>> sent;
  std::vector<std::uint32_t> invalidated;  // handles, by what it was sent
  std::function<void(const std::vector<std::byte>& memory)> on_invalidate;  // before it is gone
  std::function<void(std::vector<std::byte>)> on_sent;
  std::function<void()> on_ended;

  // What goes wrong, or has gone. -----------------------------------------------------------------
  bool hold = false;  // no work is done any more, until the connection ends
  std::size_t max_work = 16;
  std::size_t max_receives = 64;
  std::size_t max_send_bytes = 4096;
  bool may_invalidate = false;
  std::size_t receives() const { return receives_.size(); }
  bool ended() const { return ended_; }
  std::size_t written = 0;  // bytes, by Writes
  std::size_t read = 0;     // bytes, by Reads
  std::size_t told = 0;     // times that something was told to be done, but for receives
  std::size_t untold() const { return untold_.size(); }

 private:
  friend class FakeQueuePair;
  void post(Work work);
  void step();
  [[nodiscard]] bool carry_out(Work& work);
  [[nodiscard]] std::byte* reach(const Segment& segment, std::size_t size);
  void end(Error why);

  boost::asio::io_context& context_;
  const BufferPool& pool_;
  std::shared_ptr<QueuePairUser> user_;
  std::map<std::uint32_t, std::vector<std::byte>> memory_;
  std::uint32_t last_handle_ = 0;
  std::deque<Work> receives_;
  std::deque<Work> work_;
  std::deque<Work> untold_;  // done
  bool ended_ = false;
};

}  // namespace weft::rpc::rdma
