// Finds out for the metadata server whether other data servers can be reached from here, also by
// large packets (rpc/transport/path_try.h).
//
// Threading: a Dialer runs one thread of its own. try_all() may be called from any thread; `done`
// runs on the dialer's thread, or within try_all(), once.
//
// Bounds: one request at a time, of at most TryAddresses::kMost addresses, and the time of it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

#include "rpc/control/try_addresses.h"
#include "rpc/peer/io_thread.h"

namespace weft::ds {

class Dialer {
 public:
  using Done = rpc::control::Done<rpc::control::TriedAddresses>;

  explicit Dialer(std::chrono::milliseconds patience = rpc::control::TryAddresses::kPatience);
  // As stop().
  ~Dialer();

  // kBusy while another is under way; kClosed after stop().
  void try_all(const rpc::control::TryAddresses& request, Done done);
  // Ends what is under way: those that have not answered yet count as not reached. Joins the
  // thread.
  void stop();

 private:
  class Round;

  std::chrono::milliseconds patience_;
  std::atomic<bool> busy_{false};
  std::shared_ptr<Round> round_;  // the thread's
  rpc::peer::IoThread thread_;
};

}  // namespace weft::ds
