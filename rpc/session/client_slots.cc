#include "rpc/session/client_slots.h"

#include <algorithm>

#include "rpc/base/assert.h"

namespace weft::rpc {

void ClientSlots::reset(std::uint32_t count) {
  slots_.assign(count, Slot{});
  usable_ = count;
  in_use_ = 0;
}

std::optional<std::uint32_t> ClientSlots::acquire() {
  for (std::uint32_t i = 0; i < usable_; ++i) {
    if (slots_[i].used) continue;
    slots_[i].used = true;
    ++in_use_;
    return i;
  }
  return std::nullopt;
}

void ClientSlots::release(std::uint32_t slot, bool executed) {
  WEFT_ASSERT(slot < slots_.size() && slots_[slot].used);
  slots_[slot].used = false;
  --in_use_;
  if (executed) ++slots_[slot].sequence;
}

void ClientSlots::set_target(std::uint32_t highest_slot) {
  if (highest_slot < count()) usable_ = highest_slot + 1;
}

std::uint32_t ClientSlots::highest_used() const {
  for (std::uint32_t i = count(); i > 0; --i) {
    if (slots_[i - 1].used) return i - 1;
  }
  return 0;
}

}  // namespace weft::rpc
