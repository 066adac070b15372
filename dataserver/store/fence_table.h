// Which handles a data server no longer honours: durable, and quick to ask.
//
// For an object and for a client there may be a least epoch; a handle below either is refused. The
// metadata server raises epochs to take a right back; they never go down, so raising twice is
// raising once. The table is a log (fence_log.h): a fence is appended, and the log is written anew
// in the background when it has grown to several times what it says. Space is reserved ahead of its
// end, so that a full disk can still fence, for some 20,000 fences at least.
//
// A fence is of use while a handle below it could be good. So it is kept with the fingerprints of
// the cluster keys that were accepted when it was raised last: handles below it are sealed with
// those. When none of them is accepted any more it can be forgotten.
//
// Threading: admits() from any thread, without a lock while nothing near is fenced; raise() blocks
// on the disk, from any thread but the I/O threads. One thread of its own writes the log anew.
//
// Invariants:
//  1. A fence is in force in memory before it is written, and stays so should writing fail.
//  2. raise() succeeds only after every given fence is on stable storage.
//  3. At most a frame is appended at a time, and synced before the next: so only the log's last
//     frame can be torn.
//  4. A log that was written anew has all that the one it replaces had, but for what was forgotten:
//     what is in force, and after that what was appended meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "dataserver/store/fence_log.h"
#include "layout/handle.h"
#include "rpc/base/buffer.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

class FenceTable {
 public:
  // Reads, or begins, the log in a store's folder, which must stay open as long as the table;
  // `keys` as of use_keys(). kCorrupt when the log was damaged; kIo.
  [[nodiscard]] static Result<std::unique_ptr<FenceTable>> open(
      int directory, std::span<const std::uint64_t> keys = {});
  ~FenceTable();

  [[nodiscard]] bool admits(const layout::Handle& handle) const;
  [[nodiscard]] Result<> raise(std::span<const Fence> fences);
  // Fingerprints of the keys that are accepted now: two at most. None: fences are never forgotten.
  void use_keys(std::span<const std::uint64_t> keys);
  // Fences that are of no use under the keys in use. They may be in force again after a restart,
  // until the log is written anew. Returns how many.
  std::size_t forget_useless();
  // In force, and bytes of the log.
  [[nodiscard]] std::size_t size() const { return size_.load(); }
  [[nodiscard]] std::uint64_t log_bytes() const { return log_end_.load(); }

 private:
  struct Least {
    std::uint32_t epoch = 0;
    std::uint32_t mark = 0;  // of marks_
  };
  template <class Key>
  struct Shard {
    std::atomic<std::size_t> count{0};
    mutable SharedMutex mutex;
    std::unordered_map<Key, Least> least WEFT_GUARDED_BY(mutex);
  };
  static constexpr std::size_t kShards = 64;
  template <class Key>
  using Shards = std::array<Shard<Key>, kShards>;
  // A log that is written beside the one in use.
  struct NewLog {
    OwnedFd file;
    std::uint64_t end = 0;
    std::size_t fences = 0;
  };

  explicit FenceTable(int directory) : directory_(directory) {}
  [[nodiscard]] Result<> load();
  [[nodiscard]] Result<> append(std::span<const Fence> fences) WEFT_REQUIRES(log_mutex_);
  void reserve() WEFT_REQUIRES(log_mutex_);
  // Writes the log anew at once: at first, and after an append failed.
  [[nodiscard]] Result<> rewrite() WEFT_REQUIRES(log_mutex_);
  // In the background.
  void begin_compaction() WEFT_REQUIRES(log_mutex_);
  void compact();
  [[nodiscard]] Result<> try_compaction();
  // What is in force, not synced.
  [[nodiscard]] Result<NewLog> write_all(const char* name) const;
  template <class Key>
  [[nodiscard]] Result<> write_shards(NewLog& log, const Shards<Key>& shards) const;
  // [begin, end) of a log, to the end of a new one.
  [[nodiscard]] static Result<> copy_tail(int from, std::uint64_t begin, std::uint64_t end,
                                          NewLog& to);
  // Syncs it, gives it its name and uses it from now on.
  [[nodiscard]] Result<> use(NewLog log, const char* name) WEFT_REQUIRES(log_mutex_);
  // Whether it raised anything, or marked it anew.
  bool apply(const Fence& fence, std::uint32_t mark);
  template <class Key>
  bool apply(Shards<Key>& shards, const Key& key, Least least);
  [[nodiscard]] std::uint32_t number_of(const KeyMark& mark);
  [[nodiscard]] std::vector<KeyMark> marks() const;
  template <class Key>
  std::size_t forget(Shards<Key>& shards, const std::vector<bool>& useless);
  template <class Key>
  [[nodiscard]] static std::uint32_t least(const Shards<Key>& shards, const Key& key);

  const int directory_;
  Shards<layout::ObjectId> objects_;
  Shards<std::uint64_t> clients_;
  std::atomic<std::size_t> size_{0};
  mutable Mutex marks_mutex_;
  std::vector<KeyMark> marks_ WEFT_GUARDED_BY(marks_mutex_){KeyMark{}};  // all there ever were
  std::uint32_t mark_ WEFT_GUARDED_BY(log_mutex_) = 0;  // the number of that in use
  Mutex log_mutex_;  // the log, and raise() as a whole; held across an append
  OwnedFd log_ WEFT_GUARDED_BY(log_mutex_);
  std::atomic<std::uint64_t> log_end_{0};                       // written under log_mutex_; bytes
  std::uint64_t reserved_end_ WEFT_GUARDED_BY(log_mutex_) = 0;  // bytes
  std::size_t log_fences_ WEFT_GUARDED_BY(log_mutex_) = 0;
  std::vector<Fence> unwritten_ WEFT_GUARDED_BY(log_mutex_);    // in force, and not in the log
  std::size_t compact_beyond_ WEFT_GUARDED_BY(log_mutex_) = 0;  // fences, after a failure
  std::uint64_t logs_used_ WEFT_GUARDED_BY(log_mutex_) = 0;     // a compaction of an older is void
  bool must_rewrite_ WEFT_GUARDED_BY(log_mutex_) = false;       // an append failed half way
  bool reserve_failed_ WEFT_GUARDED_BY(log_mutex_) = false;     // and was logged
  std::atomic<bool> compacting_{false};
  std::atomic<bool> closing_{false};
  std::thread compactor_ WEFT_GUARDED_BY(log_mutex_);
};

}  // namespace weft::ds
