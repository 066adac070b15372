// How much may wait for data servers at one time, of what goes through the metadata server: calls
// and bytes for each data server, and bytes altogether. What exceeds it is refused at once, so that
// a data server that hangs holds a bounded part of our memory, and leaves the others theirs.
//
// Threading: any thread; nothing here waits. Ownership: every Place is gone before the admission.
//
// Invariants:
//  1. Calls and bytes that are counted are those of the Places that live.
//  2. An operation is admitted, however large, when nothing else waits for any of its servers and
//     nothing at all counts against the common bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "rpc/base/error.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class ProxyAdmission {
 public:
  struct Bounds {
    std::size_t calls = 0;         // to one data server
    std::size_t server_bytes = 0;  // to and from one data server
    std::size_t bytes = 0;         // altogether
  };
  // A call of an operation.
  struct Call {
    std::uint32_t ds_id = 0;
    std::size_t bytes = 0;
  };

  // An operation's part of the bounds, for as long as it lives.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), calls_(std::move(other.calls_)) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (owner_ != nullptr) owner_->leave(calls_);
    }

   private:
    friend class ProxyAdmission;
    Place(ProxyAdmission* owner, std::vector<Call> calls)
        : owner_(owner), calls_(std::move(calls)) {}
    ProxyAdmission* owner_ = nullptr;
    std::vector<Call> calls_;
  };

  explicit ProxyAdmission(Bounds bounds) : bounds_(bounds) {}
  ProxyAdmission(const ProxyAdmission&) = delete;
  ProxyAdmission& operator=(const ProxyAdmission&) = delete;

  // Of all the calls of an operation, or of none. kBusy.
  [[nodiscard]] Result<Place> admit(std::vector<Call> calls);

 private:
  void leave(const std::vector<Call>& calls);

  struct Use {
    std::size_t calls = 0;
    std::size_t bytes = 0;
  };
  const Bounds bounds_;
  Mutex mutex_;
  std::map<std::uint32_t, Use> servers_ WEFT_GUARDED_BY(mutex_);  // those with calls
  std::size_t bytes_ WEFT_GUARDED_BY(mutex_) = 0;
};

}  // namespace weft::mds
