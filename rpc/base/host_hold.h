// What one request holds of its host's share of memory (HostShare), as long as this is there.
//
// Threading: a value, of one thread at a time; what it counts in may be any thread's.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "rpc/base/standing.h"

namespace weft {

class HostHold {
 public:
  // Nothing: the host holds what it may. One request is always possible, however small the pool.
  [[nodiscard]] static std::optional<HostHold> take(std::shared_ptr<HostShare> host,
                                                    const BufferPool& pool, std::size_t bytes) {
    const std::size_t held = host->bytes.fetch_add(bytes, std::memory_order_relaxed);
    HostHold hold(std::move(host), bytes);
    if (held != 0 && held + bytes > pool.limit_bytes() / HostShare::kPart) return std::nullopt;
    return hold;
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
