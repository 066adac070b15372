// Removals of objects, many in one go: while one lot is made durable the next one gathers. Of a lot
// each object is unlinked, and then each folder synced once, the first of which makes nearly all of
// it durable.
//
// A thread of its own, so that who opens or syncs an object does not wait behind removals.
//
// Threading: add() on any thread; `done` runs on the thread of this class.
//
// Invariants:
//  1. A removal that succeeded is durable. Of an object that was not there, too: an earlier removal
//     may have failed between the two.
//  2. Every `done` is called once; join() waits for that.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <functional>
#include <vector>

#include "layout/object_id.h"
#include "rpc/base/error.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

class Removals {
 public:
  using Done = std::move_only_function<void(Result<>)>;
  // Both block, and are called on the thread of this class.
  struct Parts {
    std::function<Result<>(const layout::ObjectId&)> unlink;  // success when there is none
    std::function<Result<>(std::uint32_t folder)> sync;
    std::function<std::uint32_t(const layout::ObjectId&)> folder_of;
  };

  explicit Removals(Parts parts) : parts_(std::move(parts)) {}

  void add(const layout::ObjectId& object, Done done);
  // Nothing may be added after it.
  void join() { worker_.join(); }

 private:
  static constexpr std::size_t kMost = 1024;  // of a lot

  struct Removal {
    layout::ObjectId object;
    Done done;
    Result<> result;
  };
  void run();
  void carry_out(std::vector<Removal>& lot);

  const Parts parts_;
  Mutex mutex_;
  std::vector<Removal> waiting_ WEFT_GUARDED_BY(mutex_);
  bool running_ WEFT_GUARDED_BY(mutex_) = false;
  boost::asio::thread_pool worker_{1};
};

}  // namespace weft::ds
