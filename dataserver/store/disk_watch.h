// Whether the disk under a store's folder still takes writes.
//
// It is taken to do so until something failed. Then a file of one block, <store>/probe, is written
// and synced, once a second, until that succeeds; a full disk counts as one that works. A file
// system that has become read-only is seen at once. Nothing is written while nothing fails.
//
// Threading: any thread. A probe runs on a thread of its own, since it waits for the disk, and
// check() does not. The destructor waits for a probe that is under way.
//
// Ownership: the folder's descriptor and the clock outlive it.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <memory>

#include "rpc/base/clock.h"
#include "rpc/base/error.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

class DiskWatch {
 public:
  explicit DiskWatch(int folder, const Clock& clock = system_clock())
      : folder_(folder), clock_(clock) {}
  ~DiskWatch();
  DiskWatch(const DiskWatch&) = delete;
  DiskWatch& operator=(const DiskWatch&) = delete;

  // An operation failed, which may be of one block, or of the disk. Cheap.
  void doubt() { doubted_.store(true, std::memory_order_relaxed); }
  // What must not fail did: check() says so until a probe succeeds.
  void failed(Error why);
  // An error while the disk takes no writes. Ask about once a second.
  [[nodiscard]] Result<> check();

 private:
  void probe();
  [[nodiscard]] Result<> write_probe() const;

  const int folder_;
  const Clock& clock_;
  std::atomic<bool> doubted_{false};
  Mutex mutex_;
  Result<> last_ WEFT_GUARDED_BY(mutex_);
  bool probing_ WEFT_GUARDED_BY(mutex_) = false;  // or about to
  TimePoint began_ WEFT_GUARDED_BY(mutex_){};     // the last probe
  // Once there was a doubt.
  std::unique_ptr<boost::asio::thread_pool> thread_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::ds
