// Whether the process gets on, for a service manager that ends one that hangs.
//
// Threads by which everybody is served are asked for a sign. In a round each that has given its
// last one is asked for the next; if all had, the round is a mark of progress. So the marks stop
// when a thread hangs, or all threads of a pool.
//
// A thread that gives no sign is excused while a store waits for its disk: all who change something
// wait then, and the store's own limit ends that (store_watch.h). It is excused, too, while a
// thread of the process waits for a disk in the kernel: the process cannot be ended before that.
//
// Threading: any thread; look() on one.
//
// Ownership: what a Part refers to outlives its Hold; the Hold does not outlive the SignsOfLife.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "ganesha-fsal/cluster/data_servers.h"
#include "rpc/base/disk_wait.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class SignsOfLife {
 public:
  struct Part {
    // Has the thread call `give` when it comes to it, and does not wait for that.
    std::function<void(std::function<void()> give)> ask;
    std::function<bool()> store_waits = [] { return false; };
  };
  // A part is asked until its Hold is gone.
  class Hold {
   public:
    Hold() = default;
    Hold(SignsOfLife& of, std::uint64_t id) : of_(&of), id_(id) {}
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    Hold(Hold&& other) noexcept : of_(std::exchange(other.of_, nullptr)), id_(other.id_) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(id_, other.id_);
      return *this;
    }
    ~Hold() {
      if (of_ != nullptr) of_->remove(id_);
    }

   private:
    SignsOfLife* of_ = nullptr;
    std::uint64_t id_ = 0;
  };

  explicit SignsOfLife(std::function<bool()> at_disk = any_thread_waits_for_disk)
      : at_disk_(std::move(at_disk)) {}
  SignsOfLife(const SignsOfLife&) = delete;
  SignsOfLife& operator=(const SignsOfLife&) = delete;

  [[nodiscard]] Hold add(Part part);
  // A round. Whether it is a mark of progress.
  [[nodiscard]] bool look();

 private:
  struct Asked {
    Part part;
    std::shared_ptr<std::atomic<bool>> owed = std::make_shared<std::atomic<bool>>(false);
  };
  void remove(std::uint64_t id);

  const std::function<bool()> at_disk_;
  Mutex mutex_;
  std::uint64_t last_ WEFT_GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, Asked> asked_ WEFT_GUARDED_BY(mutex_);
};

// Of the thread that serves data servers: what is asked of one that there is not is answered there.
void sign_of(DataServers& servers, std::function<void()> give);

}  // namespace weft::mds
