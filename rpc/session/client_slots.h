// The slots of a session at the client: which are free, and what each one's next sequence number
// is (RFC 8881 section 2.10.6.1). Sans-io.
//
// The lowest free slot is taken first, so that the highest in use stays low and the server may take
// slots back (target_highest_slot).
//
// Threading: one thread.
//
// Invariants:
//  1. A slot is held by at most one request.
//  2. A slot's sequence number goes up by one exactly when the server has executed the request
//     (or may have: a request given up keeps its slot until an answer or a new session).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace weft::rpc {

class ClientSlots {
 public:
  // A fresh session's: every sequence number starts at 1.
  void reset(std::uint32_t count);

  [[nodiscard]] std::optional<std::uint32_t> acquire();
  // executed: the server has accepted the sequence number, so the next request takes the next.
  void release(std::uint32_t slot, bool executed);
  // The server wants no more than this many used; taken slots finish first.
  void set_target(std::uint32_t highest_slot);

  [[nodiscard]] std::uint32_t sequence(std::uint32_t slot) const { return slots_[slot].sequence; }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(slots_.size()); }
  // The highest slot in use, 0 when none is.
  [[nodiscard]] std::uint32_t highest_used() const;
  [[nodiscard]] std::uint32_t in_use() const { return in_use_; }

 private:
  struct Slot {
    std::uint32_t sequence = 1;
    bool used = false;
  };
  std::vector<Slot> slots_;
  std::uint32_t usable_ = 0;
  std::uint32_t in_use_ = 0;
};

}  // namespace weft::rpc
