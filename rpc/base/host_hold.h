// What is held of a host's share of memory (HostShare): the rule, and what one request holds, as
// long as this is there.
//
// Threading: a value, of one thread at a time; what it counts in may be any thread's.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "rpc/base/standing.h"

namespace weft {

// Counts so much more in the share. False, and nothing counted: the host holds what it may. One
// request is always possible, however small the pool.
[[nodiscard]] inline bool take_of_share(HostShare& host, const BufferPool& pool,
                                        std::size_t bytes) {
  const std::size_t held = host.bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (held == 0 || held + bytes <= pool.limit_bytes() / HostShare::kPart) return true;
  host.bytes.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

class HostHold {
 public:
  // Nothing: the host holds what it may.
  [[nodiscard]] static std::optional<HostHold> take(std::shared_ptr<HostShare> host,
                                                    const BufferPool& pool, std::size_t bytes) {
    if (!take_of_share(*host, pool, bytes)) return std::nullopt;
    return HostHold(std::move(host), bytes);
  }
  HostHold(HostHold&&) noexcept = default;
  HostHold& operator=(HostHold&& other) noexcept {
    std::swap(host_, other.host_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HostHold() {
    if (host_ != nullptr) host_->bytes.fetch_sub(bytes_, std::memory_order_relaxed);
  }

 private:
  HostHold(std::shared_ptr<HostShare> host, std::size_t bytes)
      : host_(std::move(host)), bytes_(bytes) {}

  std::shared_ptr<HostShare> host_;
  std::size_t bytes_;
};

}  // namespace weft
