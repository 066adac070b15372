// One io_uring for each I/O thread, driven from that thread's io_context.
//
// Operations started during a handler are collected and submitted with one system call when the
// handler returns. The ring's own descriptor is watched by the io_context: when completions are
// there, they are reaped and their callbacks run, on the same thread. (Without io_uring: create().)
//
// Threading: everything but post() is for the owning thread only. bind_to_this_thread() makes the
// ring the one that stores find with current(); a thread has one.
//
// Ownership: memory and descriptors named by an operation stay the caller's and must live until
// its callback. The ring must be idle() when it is destroyed.
//
// Invariants:
//  1. Each callback runs exactly once, never from within the call that started it.
//  2. Operations beyond what the ring's queue takes wait in order in backlog_; how many there may
//     be is bounded by the callers (session slots times operations of a request).
#pragma once

#include <liburing.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>

#include "rpc/base/error.h"

namespace weft::ds {

class IoRing {
 public:
  // Bytes moved (0 for fsync), or -errno.
  using OnResult = std::move_only_function<void(int)>;

  // Where the kernel has no io_uring, or forbids it, threads of the process do its work, slower,
  // and it is said once. `index` numbers the I/O threads from 0, for what is kept one for each.
  [[nodiscard]] static Result<std::unique_ptr<IoRing>> create(boost::asio::io_context& context,
                                                              unsigned index = 0,
                                                              unsigned entries = 256);
  IoRing(const IoRing&) = delete;
  IoRing& operator=(const IoRing&) = delete;
  ~IoRing();

  void bind_to_this_thread();
  // The calling thread's ring, or null.
  [[nodiscard]] static IoRing* current();
  [[nodiscard]] unsigned index() const { return index_; }

  // Vectors are read when the operation is submitted and must live until the callback.
  void readv(int fd, std::span<const iovec> into, std::uint64_t offset, OnResult on_result);
  void writev(int fd, std::span<const iovec> from, std::uint64_t offset, OnResult on_result);
  void fdatasync(int fd, OnResult on_result);

  // Runs `work` on the owning thread; callable from any thread.
  template <class Work>
  void post(Work work) {
    boost::asio::post(context_, std::move(work));
  }
  [[nodiscard]] boost::asio::io_context& context() { return context_; }
  [[nodiscard]] bool idle() const { return in_flight_ == 0; }
  [[nodiscard]] std::size_t in_flight() const { return in_flight_; }

 private:
  struct Operation;
  IoRing(boost::asio::io_context& context, unsigned index, io_uring ring);

  void start(std::unique_ptr<Operation> operation);
  bool try_queue(Operation* operation);
  void submit_soon();
  void submit();
  void wait_for_completions();
  void reap();

  boost::asio::io_context& context_;
  const unsigned index_;
  io_uring ring_;
  boost::asio::posix::stream_descriptor watch_;  // a dup of the ring's descriptor
  std::deque<Operation*> backlog_;               // owned; not yet in the ring
  std::size_t in_flight_ = 0;
  // Operations that a worker has, or whose worker has not left our context yet.
  std::shared_ptr<std::atomic<unsigned>> at_workers_ = std::make_shared<std::atomic<unsigned>>(0);
  bool submit_posted_ = false;
  bool watching_ = false;
};

}  // namespace weft::ds
