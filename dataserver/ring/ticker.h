// Ticker: calls a function on a ring's thread, at once and then again and again, until it is
// stopped.
//
// Threading: start() once, at most, before stop(); stop() and what it tells from any thread.
//
// Ownership: the ring outlives it, or has run all that was posted to it. Whoever owns a Ticker
// calls stop() before the ring's thread ends, waits until running() is false, and destroys it after
// the thread's end.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>

#include "dataserver/ring/io_ring.h"

namespace weft::ds {

class Ticker {
 public:
  void start(IoRing& ring, std::chrono::milliseconds period, std::move_only_function<void()> tick);
  // No call begins after the one that goes on, if one does.
  void stop();

  [[nodiscard]] bool running() const { return running_.load(); }
  [[nodiscard]] bool stopped() const { return stopped_.load(); }

 private:
  void tick();

  IoRing* ring_ = nullptr;
  std::chrono::milliseconds period_{};
  std::move_only_function<void()> tick_;
  std::unique_ptr<boost::asio::steady_timer> timer_;
  std::atomic<bool> running_{false};
  std::atomic<bool> stopped_{false};
};

}  // namespace weft::ds
