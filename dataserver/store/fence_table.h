// Which handles a data server no longer honours: durable, and quick to ask.
//
// For an object and for a client there may be a least epoch; a handle below either is refused. The
// metadata server raises epochs to take a right back; they never go down, so raising twice is
// raising once. The table is a log (fence_log.h) that is written anew when it has grown to several
// times what it says. Space for the log is reserved ahead, so that a full disk can still fence.
//
// Threading: admits() from any thread, without a lock while nothing near is fenced; raise() blocks
// on the disk, from any thread but the I/O threads.
//
// Invariants:
//  1. A fence is in force in memory before it is written, and stays so should writing fail.
//  2. raise() succeeds only after every given fence is on stable storage.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "dataserver/store/fence_log.h"
#include "layout/handle.h"
#include "rpc/base/buffer.h"

namespace weft::ds {

class FenceTable {
 public:
  // Reads, or begins, the log in a store's folder, which must stay open as long as the table.
  // kCorrupt when the log was damaged; kIo.
  [[nodiscard]] static Result<std::unique_ptr<FenceTable>> open(int directory);

  // Handles of the metadata server's own (Access::kControl) are not bound by clients' fences.
  [[nodiscard]] bool admits(const layout::Handle& handle) const;
  [[nodiscard]] Result<> raise(std::span<const Fence> fences);
  [[nodiscard]] std::size_t size() const { return size_.load(); }

 private:
  template <class Key>
  struct Shard {
    std::atomic<std::size_t> count{0};
    mutable std::shared_mutex mutex;
    std::unordered_map<Key, std::uint32_t> least;  // protected by mutex
  };
  static constexpr std::size_t kShards = 64;
  template <class Key>
  using Shards = std::array<Shard<Key>, kShards>;

  explicit FenceTable(int directory) : directory_(directory) {}
  [[nodiscard]] Result<> load();
  [[nodiscard]] Result<> rewrite();
  [[nodiscard]] Result<> append(std::span<const Fence> fences);
  [[nodiscard]] std::vector<Fence> all() const;
  // Whether it raised anything.
  bool apply(const Fence& fence);
  template <class Key>
  bool apply(Shards<Key>& shards, const Key& key, std::uint32_t epoch);
  template <class Key>
  [[nodiscard]] static std::uint32_t least(const Shards<Key>& shards, const Key& key);

  const int directory_;
  Shards<layout::ObjectId> objects_;
  Shards<std::uint64_t> clients_;
  std::atomic<std::size_t> size_{0};
  std::mutex log_mutex_;        // the log, and raise() as a whole; held across I/O
  OwnedFd log_;                 // protected by log_mutex_
  std::uint64_t log_end_ = 0;   // protected by log_mutex_; bytes
  std::size_t log_fences_ = 0;  // protected by log_mutex_
  bool must_rewrite_ = false;   // protected by log_mutex_; an append failed half way
};

}  // namespace weft::ds
