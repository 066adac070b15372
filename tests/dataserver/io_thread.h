// An I/O thread's surroundings for a test that is that thread itself: an io_context and a ring.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>

#include "dataserver/ring/io_ring.h"

namespace weft::test {

class IoThread {
 public:
  IoThread() : ring_(std::move(ds::IoRing::create(context_).value())) {
    ring_->bind_to_this_thread();
  }
  ds::IoRing& ring() { return *ring_; }
  boost::asio::io_context& context() { return context_; }
  // Runs handlers until `finished`, at most 60 s: a busy disk may hold up a write for seconds.
  template <class Finished>
  bool run_until(Finished finished) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!finished()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      context_.restart();
      context_.run_one_for(std::chrono::milliseconds(100));
    }
    return true;
  }
  // Runs what is ready now.
  void poll() {
    context_.restart();
    context_.poll();
  }
  // Runs until nothing is in flight at the ring, and what is ready.
  void drain() {
    do {
      context_.restart();
      context_.run_for(std::chrono::milliseconds(20));
    } while (!ring_->idle());
  }

 private:
  boost::asio::io_context context_;
  std::unique_ptr<ds::IoRing> ring_;
};

}  // namespace weft::test
