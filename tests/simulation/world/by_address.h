// Wait lists that belong to an address of the programs' memory: of a mutex, a futex word.
//
// Threading: as scheduler.h.
#pragma once

#include <memory>
#include <unordered_map>

#include "tests/simulation/world/scheduler.h"

namespace weft::sim {

// Waits until somebody wakes that address, or (false) the time has come.
inline std::unordered_map<const void*, std::unique_ptr<WaitList>>& lists_by_address() {
  static auto* const lists = new std::unordered_map<const void*, std::unique_ptr<WaitList>>;
  return *lists;
}

inline bool wait_at(const void* address, Ns deadline) {
  auto& list = lists_by_address()[address];
  if (list == nullptr) list = std::make_unique<WaitList>();
  const bool woken = wait_until(*list, deadline);
  // Others may have come and gone meanwhile: look it up again.
  const auto found = lists_by_address().find(address);
  if (found != lists_by_address().end() && found->second->empty()) lists_by_address().erase(found);
  return woken;
}

inline void wake_at(const void* address, bool all) {
  const auto found = lists_by_address().find(address);
  if (found == lists_by_address().end()) return;
  if (all) {
    wake_all(*found->second);
  } else {
    wake_one(*found->second);
  }
}

}  // namespace weft::sim
