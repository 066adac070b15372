// Memory that is not of a pool's blocks, and counts as in use of the pool as long as this is there:
// so it is bounded with what the pool gives, and others see that memory is short.
//
// Threading: a value, of one thread at a time. Ownership: the pool outlives it.
#pragma once

#include <cstddef>

#include "rpc/base/standing.h"

namespace weft {

class PoolHold {
 public:
  explicit PoolHold(BufferPool& pool) : pool_(pool) {}
  PoolHold(const PoolHold&) = delete;
  PoolHold& operator=(const PoolHold&) = delete;
  ~PoolHold() { shrink(0); }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  // So much counts then, or it is more already. False, and nothing changes: such peers may not fill
  // so much.
  [[nodiscard]] bool grow(PoolShare share, std::size_t bytes) {
    if (bytes <= bytes_) return true;
    const std::size_t more = bytes - bytes_;
    if (!has_room(pool_, share, more) || !pool_.charge(more)) return false;
    bytes_ = bytes;
    return true;
  }
  // No more than that counts then.
  void shrink(std::size_t bytes) {
    if (bytes >= bytes_) return;
    pool_.discharge(bytes_ - bytes);
    bytes_ = bytes;
  }

 private:
  BufferPool& pool_;
  std::size_t bytes_ = 0;
};

}  // namespace weft
