// Locks on inodes for operations that change them, the account of what is not yet durable, of what
// was written and told to nobody, and the counts of who holds a file open.
//
// Transactions alone would keep the namespace right, but many threads that create in one directory
// would make each other's transactions fail over and over. So an operation locks the inodes it is
// going to change, commits, and unlocks before the commit is durable: the next one in the same
// directory goes on while the log is being synced, and one sync serves many.
//
// Hence somebody may read what a crash can still undo. An operation records its commit with the
// inodes it locked; a reader asks, after reading, which commit it must wait for (seen()).
//
// A file that is written over and over keeps its `change` and its size as long as nobody is told
// of them (UntoldWrite): then a further write has only its time to note, here. Who changes
// the inode, or tells its attributes, takes that time into the store and forgets the rest. An
// UntoldWrite is remembered, and forgotten, by who has the inode locked; so who looks for one after
// reading and seen() finds that of the change it has read.
//
// Inodes share a fixed number of stripes; two that share one only wait more than needed.
//
// Threading: any thread. A Guard belongs to the thread that made it; a thread has one at a time.
//
// Invariants:
//  1. Stripes are locked in ascending order, all at once: no deadlock.
//  2. A stripe's last_commit is at or after every commit that changed its inodes, whenever nobody
//     has it locked.
//  3. While a file has an UntoldWrite, the `change` in it is that of the inode in the store, and
//     nobody was told it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ganesha-fsal/meta/kv/kv.h"
#include "ganesha-fsal/meta/schema/types.h"

namespace weft::mds {

// The last change of a file, a write. Times in ns since 1970.
struct UntoldWrite {
  FileId id = 0;
  std::uint64_t change = 0;
  std::uint64_t size = 0;
  std::int64_t stored_ns = 0;   // the time of a write that the store has
  std::int64_t written_ns = 0;  // that of the last
  bool known = false;           // it is durable, and caches of the file's attributes are dropped
};

class InodeLocks {
  struct Stripe;

 public:
  InodeLocks();
  ~InodeLocks();
  InodeLocks(const InodeLocks&) = delete;
  InodeLocks& operator=(const InodeLocks&) = delete;

  class Guard {
   public:
    Guard(Guard&&) = default;
    Guard& operator=(Guard&&) = delete;
    ~Guard() { unlock(); }

    // The operation's commit; before unlocking.
    void committed(CommitSeq seq);
    void unlock();
    // The newest commit that the locked inodes may show. For operations that turn out to change
    // nothing, and still report what they read.
    [[nodiscard]] CommitSeq seen() const;

   private:
    friend class InodeLocks;
    explicit Guard(std::vector<Stripe*> stripes) : stripes_(std::move(stripes)) {}
    std::vector<Stripe*> stripes_;  // ascending, locked; empty after unlock
  };

  // 0 is no inode and is skipped.
  [[nodiscard]] Guard lock(std::initializer_list<FileId> ids);
  [[nodiscard]] Guard lock(const std::vector<FileId>& ids);

  // After reading these inodes without a lock: the commit to wait for. Waits for operations that
  // are just committing, never for a sync.
  [[nodiscard]] CommitSeq seen(std::initializer_list<FileId> ids);
  // The commit to wait for by who tells what an operation that has ended had read or written.
  [[nodiscard]] CommitSeq last(FileId id) const;

  // Holds on an inode. The caller has locked it.
  void hold(FileId id);
  // Returns how many are left. One too many is no error: 0.
  std::uint32_t release(FileId id);
  [[nodiscard]] bool held(FileId id) const;

  // The times in the store are no older than this while a file is written again and again.
  static constexpr std::int64_t kKeepTimesNs = 1'000'000'000;
  // There was a write up to `end`. True: its time is noted, and nothing else is to be done, as the
  // last change is known, was told to nobody, and was of a file as long. Waits for nobody.
  [[nodiscard]] bool write_again(FileId id, std::uint64_t end, std::int64_t now_ns);
  // After reading it and seen(): its last change is a write that was told to nobody.
  [[nodiscard]] bool untold(FileId id) const;
  // That change is `change`, or there was another since.
  void set_known(FileId id, std::uint64_t change);
  // The caller has locked it. If there are too many, none more is remembered.
  [[nodiscard]] std::optional<UntoldWrite> untold_write(FileId id) const;
  void remember(const UntoldWrite& write);
  void forget(FileId id);

 private:
  static constexpr std::size_t kStripes = 4096;  // power of two
  [[nodiscard]] Stripe& stripe_of(FileId id) const;
  std::unique_ptr<Stripe[]> stripes_;
};

}  // namespace weft::mds
