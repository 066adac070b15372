// What files made in a directory inherit: remembered, so that a create does not walk up to the
// root for it.
//
// Whoever changes what is inherited (a policy, or the place of a directory) holds a Change from
// before its transaction until the transaction is committed. Who walks up takes the state before,
// and gives it back with what was found.
//
// Threading: any thread; a mutex for a lookup.
//
// Invariants:
//  1. What is known is what the store says. While a Change is held nothing is known, and what was
//     found while one was, is not kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "ganesha-fsal/meta/schema/types.h"
#include "layout/policy.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class InheritedPolicies {
 public:
  class Change {
   public:
    explicit Change(InheritedPolicies& all) : all_(all) {
      const MutexLock lock(all_.mutex_);
      ++all_.changing_;
      all_.known_.clear();
    }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;
    ~Change() {
      const MutexLock lock(all_.mutex_);
      --all_.changing_;
      ++all_.state_;
    }

   private:
    InheritedPolicies& all_;
  };

  struct Found {
    std::optional<layout::Policy> policy;
    std::uint64_t state = 0;
  };
  [[nodiscard]] Found find(FileId dir) const {
    const MutexLock lock(mutex_);
    const auto found = known_.find(dir);
    if (found == known_.end()) return {.policy = std::nullopt, .state = state_};
    return {.policy = found->second, .state = state_};
  }
  void keep(FileId dir, const layout::Policy& policy, std::uint64_t state) {
    const MutexLock lock(mutex_);
    if (changed(state)) return;
    if (known_.size() >= kMost) known_.clear();
    known_.insert_or_assign(dir, policy);
  }

  [[nodiscard]] bool changed_since(std::uint64_t state) const {
    const MutexLock lock(mutex_);
    return changed(state);
  }

 private:
  static constexpr std::size_t kMost = 16384;

  [[nodiscard]] bool changed(std::uint64_t state) const WEFT_REQUIRES(mutex_) {
    return changing_ > 0 || state != state_;
  }

  mutable Mutex mutex_;
  unsigned changing_ WEFT_GUARDED_BY(mutex_) = 0;
  std::uint64_t state_ WEFT_GUARDED_BY(mutex_) = 0;  // changes that have ended
  std::unordered_map<FileId, layout::Policy> known_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::mds
