// The I/O threads of a server, with a ring each, and when they are quiet.
//
// Threading: construct, stop() and wait_until_quiet() from the program's main thread; list() and
// threads() from any, once made.
//
// Ownership: outlives everything that runs on the threads.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "dataserver/ring/io_ring.h"
#include "rpc/transport/io_threads.h"

namespace weft::ds {

class RingThreads {
 public:
  // Started. count 0: one for each processor this process may use.
  [[nodiscard]] static Result<std::unique_ptr<RingThreads>> start(unsigned count, bool pin);

  [[nodiscard]] std::vector<IoRing*> list() const;
  [[nodiscard]] rpc::IoThreads& threads() { return threads_; }
  [[nodiscard]] unsigned size() const { return threads_.size(); }

  // When nobody starts operations any more: waits until those that run have ended, here and at the
  // store's workers. False when it takes too long.
  [[nodiscard]] bool wait_until_quiet(const std::function<bool()>& workers_idle,
                                      std::chrono::milliseconds limit);
  void stop();

 private:
  RingThreads(unsigned count, bool pin) : threads_(count, pin) {}

  rpc::IoThreads threads_;
  std::vector<std::unique_ptr<IoRing>> rings_;
};

}  // namespace weft::ds
