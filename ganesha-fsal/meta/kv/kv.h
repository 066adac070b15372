// The metadata store: an ordered key-value store with serialisable transactions.
//
// Everything the metadata server knows durably goes through this interface. RocksDB, embedded, is
// the default engine (rocks_kv.h); tests have a double in memory, which can also fail and lose
// power on purpose. A distributed engine can take their place.
//
// Transactions are optimistic: get() remembers what was read, and commit() answers kConflict when
// somebody else has changed any of it since; apply() and run() then try again.
//
// A commit has two steps, so that commits of many threads share one sync of the log:
//  1. commit() makes the transaction's writes visible to others, all or none, and gives it a place
//     in the order of commits. The death of the process may still undo it.
//  2. wait_durable() returns when that place, and with it every earlier one, is on stable storage.
// What is lost in a crash is always a suffix of the order of commits. run() does both steps. A
// caller of apply() owes a wait_durable() before it tells anybody what it wrote, and a reader that
// may have read such writes owes one too (inode_locks.h keeps the account).
//
// An engine may keep keys of one kind, which is their first byte, apart from the others. So a scan
// is of keys of one kind; one that begins with the empty key may leave such keys out.
//
// Failure: a write or sync of the log that fails leaves the store's memory and its disk apart, so
// from then on every commit and wait is refused (kIo, kNoSpace) until the store is opened again.
//
// Space: room() says whether more may be added. It says no while there is still enough left for
// what makes room, and for what ends things that have begun: nothing else asks.
//
// Threading: a KvStore is used from any thread; a KvReader from several; a Transaction belongs to
// one thread. Neither outlives its store.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/base/error.h"

namespace weft::mds {

// A place in the order of commits. 0 is before every commit.
using CommitSeq = std::uint64_t;

// Keys and values are valid until the visitor returns. Returns whether to go on.
using ScanVisitor = std::function<bool(std::string_view key, std::string_view value)>;

class KvReader {
 public:
  virtual ~KvReader() = default;

  // nullopt when there is no such key. Later changes by others are no conflict.
  [[nodiscard]] virtual Result<std::optional<std::string>> peek(std::string_view key) const = 0;
  // peek() of each of `keys`, which are of one kind; cheaper, the more so when they are sorted.
  using Values = std::vector<std::optional<std::string>>;
  [[nodiscard]] virtual Result<Values> peek_all(std::span<const std::string> keys) const;
  // Visits the keys of [begin, end) in order until `visit` returns false or `limit` keys were
  // seen. Never a conflict: a caller that needs the range to stay as it is reads a guard key too.
  // The visitor may read, and must not write.
  [[nodiscard]] virtual Result<> scan(std::string_view begin, std::string_view end,
                                      std::size_t limit, const ScanVisitor& visit) const = 0;
};

// peek() and scan() see the transaction's own writes.
class Transaction : public KvReader {
 public:
  // Like peek, and commit() fails if another has changed the value since.
  [[nodiscard]] virtual Result<std::optional<std::string>> get(std::string_view key) = 0;
  virtual void put(std::string_view key, std::string_view value) = 0;
  virtual void erase(std::string_view key) = 0;

  // kConflict: run it again. kIo, kNoSpace, kBusy (later): not committed. Used once.
  [[nodiscard]] virtual Result<CommitSeq> commit() = 0;
};

// How a store is, for who watches it. Sizes in bytes.
struct StoreHealth {
  std::string failure;            // why nothing can be committed any more; empty: it can
  bool full = false;              // room() refuses
  std::uint64_t free_bytes = 0;   // of its file system
  std::uint64_t floor_bytes = 0;  // that are to stay free of it
  std::uint64_t keeps_bytes = 0;  // of these, what the store has not set aside in a file
  bool writes_stopped = false;    // until compaction has caught up
  bool writes_slowed = false;     // so that it does
  std::uint64_t background_errors = 0;
  std::uint64_t memory_bytes = 0;        // written and only in memory and log yet
  std::uint64_t table_bytes = 0;         // on disk, without the log
  std::uint64_t compaction_bytes = 0;    // still to be compacted
  std::uint64_t cache_bytes = 0;         // of tables, in memory
  std::uint64_t cache_pinned_bytes = 0;  // of these, what nothing else takes the place of
  std::uint64_t cache_most_bytes = 0;
  std::uint64_t commits = 0;              // since it was opened, of transactions that wrote
  std::uint64_t syncs = 0;                // of the log, for them
  std::chrono::nanoseconds sync_time{0};  // of all these
  // Of inline files, about: what was written again or removed is counted until it is compacted.
  std::uint64_t inline_files = 0;
  std::uint64_t inline_bytes = 0;
};

class KvStore {
 public:
  KvStore() = default;
  KvStore(const KvStore&) = delete;
  KvStore& operator=(const KvStore&) = delete;
  virtual ~KvStore() = default;

  [[nodiscard]] virtual std::unique_ptr<Transaction> begin() = 0;
  // What is committed, durable or not: each call sees the newest.
  [[nodiscard]] virtual const KvReader& latest() const = 0;
  // The store as it is now, unchanged by later commits.
  [[nodiscard]] virtual std::unique_ptr<KvReader> snapshot() const = 0;

  // Blocks until commit `seq` and all before it survive the machine's death (or, when the store
  // was opened without sync, the process's).
  [[nodiscard]] virtual Result<> wait_durable(CommitSeq seq) = 0;
  // Instead of waiting: has `who` told, once, when wait_durable() would return at once, perhaps
  // before this returns. `tell` is called with all who are to be told at that moment, on any
  // thread, and must neither wait nor let go of the store. False: nobody is told, and
  // wait_durable() is to be called.
  using Tell = void (*)(std::span<void* const> who);
  [[nodiscard]] virtual bool tell_when_durable(CommitSeq /*seq*/, Tell /*tell*/, void* /*who*/) {
    return false;
  }
  // Up to where nobody need wait: this commit and all before it are durable, as far as is known
  // without looking. For who would wait for each of many.
  [[nodiscard]] virtual CommitSeq durable() const { return 0; }

  // Asked before names, layouts and attributes are added. kNoSpace.
  [[nodiscard]] virtual Result<> room() const { return {}; }
  [[nodiscard]] virtual StoreHealth health() const { return {}; }

  // The store as it is at one moment, in a folder of its own beside its files: returned is its
  // path. Its files do not change, and what is in the store too is on the disk once. Commits go on
  // meanwhile. There is one at a time (kExists), until it is dropped, or the store is opened again.
  [[nodiscard]] virtual Result<std::string> make_checkpoint() {
    return fail(Errc::kNotSupported, "this store makes no checkpoints");
  }
  [[nodiscard]] virtual Result<> drop_checkpoint() { return {}; }

  // Runs `body` in a transaction and commits it; on kConflict again, at most kMaxAttempts times.
  // An error from `body` ends it uncommitted and is returned.
  static constexpr int kMaxAttempts = 64;
  using Body = std::function<Result<>(Transaction&)>;
  [[nodiscard]] Result<CommitSeq> apply(const Body& body);
  // apply() and wait_durable().
  [[nodiscard]] Result<> run(const Body& body);
};

}  // namespace weft::mds
