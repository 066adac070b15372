// Whether a peer makes too little haste with what this end holds memory for, while memory is short.
//
// A peer holds memory for what it sends, until all of it has come, and for what it is sent. Either
// is to go on at Rules::least_rate; and what is queued for it is to be taken so fast that it would
// be gone within Rules::whole. It is given up when it has been slower for Rules::patience.
//
// Threading: its channel's thread. Ownership: a value.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "rpc/base/clock.h"

namespace weft::rpc {

class SlowPeer {
 public:
  struct Rules {
    std::size_t least_rate = 0;  // bytes a second
    std::chrono::milliseconds whole{0};
    std::chrono::milliseconds patience{0};
    std::chrono::milliseconds every{0};  // between two looks, at least
  };
  // Of the connection, at a look.
  struct Seen {
    bool sends = false;          // memory is held for what the peer is to send, and we read
    std::uint64_t received = 0;  // bytes, ever
    bool takes = false;          // something waits to be taken by it
    std::uint64_t taken = 0;     // bytes, ever
    std::size_t queued = 0;      // bytes of memory that wait to be taken
    bool memory_short = false;
  };

  explicit SlowPeer(TimePoint now) : measured_at_(now) {}

  // A look. True: it is to be given up.
  [[nodiscard]] bool look(TimePoint now, const Rules& rules, const Seen& seen);

 private:
  // At the look before, and since when it is slow; the epoch: it is not.
  TimePoint measured_at_;
  std::uint64_t received_ = 0;
  std::uint64_t taken_ = 0;
  std::size_t queued_ = 0;
  TimePoint slow_since_{};
};

}  // namespace weft::rpc
