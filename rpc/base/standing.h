// What the peer of a connection has shown so far, and how much of a pool's memory peers of its kind
// may fill. Whoever has shown less leaves a part to those who have shown more: strangers cannot
// keep clients from memory, and clients cannot keep it from what servers send each other, without
// which what clients asked for would never end.
//
// It is one counter for all, the pool's own, that each is held against: nothing is counted twice.
//
// While memory is short, what one host's connections hold of it for requests that have not come
// whole is bounded, too (HostShare).
//
// Threading: any thread. Checks race by what is taken between them: a few records.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "rpc/base/buffer.h"

namespace weft {

enum class Standing : std::uint8_t {
  kStranger,  // nothing
  kGuest,     // that it has a session, which anybody may have who asks
  kClient,    // that it has one, and a right to a file
  kServer,    // that it has the cluster's key
};

// Eighths of a pool up to which its memory may be in use for something new to be received or read.
enum class PoolShare : std::uint8_t {
  kStrangers = 4,
  kClients = 6,  // what they send
  kReplies = 7,  // what they ask for
  kServers = 8,
};

[[nodiscard]] constexpr PoolShare share_of(Standing standing) {
  switch (standing) {
    case Standing::kStranger: return PoolShare::kStrangers;
    case Standing::kGuest:
    case Standing::kClient: return PoolShare::kClients;
    case Standing::kServer: break;
  }
  return PoolShare::kServers;
}

[[nodiscard]] inline bool has_room(const BufferPool& pool, PoolShare share, std::size_t bytes) {
  const std::size_t limit = pool.limit_bytes() / 8 * static_cast<std::size_t>(share);
  return share == PoolShare::kServers || pool.in_use_bytes() + bytes <= limit;
}

// As BufferPool::allocate(); kBusy also beyond the share.
[[nodiscard]] inline Result<Buffer> allocate(BufferPool& pool, PoolShare share, std::size_t bytes) {
  if (!has_room(pool, share, bytes)) return fail(Errc::kBusy, "no memory left for such peers");
  return pool.allocate(bytes);
}

// Whether peers must make haste with what they hold memory for.
[[nodiscard]] inline bool is_short(const BufferPool& pool) {
  return !has_room(pool, PoolShare::kStrangers, 0);
}

// What the connections of one host hold for requests that began to come while memory was short.
struct HostShare {
  // Of a pool's limit, for one host.
  static constexpr std::size_t kPart = 32;
  std::atomic<std::size_t> bytes{0};
};

}  // namespace weft
