// The metadata store in RocksDB, embedded.
//
// A transaction keeps its writes to itself until it commits, and then is one batch, if what it read
// is unchanged (key_versions.h). RocksDB's own transactions do the same at several times the cost.
//
// commit() leaves what it adds to RocksDB's log in memory. wait_durable() writes and syncs the log
// up to the last commit: the first thread to wait does it for all that have committed by then, so
// that the number of writes and syncs a second is the disk's, not the load's. What nobody waits for
// is synced within a second.
//
// Keys that begin with 'B' (bytes of inline files) are in a column family of their own, "inline",
// so that a level of inodes and names is not merged with file data. It is made when a store without
// it is opened. Both share the log, so that a transaction over both is one.
//
// A folder belongs to one process at a time (RocksDB's LOCK file).
//
// A folder with a file kRestoring in it is being filled from a backup, and not whole: it is not
// opened. A checkpoint is a folder `checkpoint` beside the tables.
//
// Space (store_space.h). A floor is kept free for what RocksDB writes when nothing is added: its
// log, tables written from memory, and one compaction. All of these are in proportion to the size
// of the write buffer, which is at most a 24th of the floor: a larger buffer makes the floor
// higher, where the file system is large enough for it. When a table cannot be written
// because the file system is full all the same, RocksDB looks for space every few seconds and goes
// on by itself. Until then it refuses commits: kBusy, and after half a minute kNoSpace.
//
// Failure. Any other error of the log or in the background, and a commit or sync that gets nowhere
// for `stall_limit`, is for good: on_failure is called, before anybody is answered with it.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ganesha-fsal/meta/kv/kv.h"
#include "rpc/base/clock.h"

namespace rocksdb {
class Env;
}

namespace weft::mds {

inline constexpr const char* kRestoring = "RESTORING";

struct RocksOptions {
  std::string path;  // a folder, made if absent (its parent is not)
  bool create_if_missing = true;
  bool restoring = false;  // who fills it opens it all the same
  bool read_only = false;  // for weft-fsck: nothing is written; takes no lock
  bool sync = true;        // false: a commit survives the process only
  std::size_t block_cache_bytes = std::size_t{256} << 20;
  std::size_t write_buffer_bytes = std::size_t{42} << 20;  // at most; of each of 4
  std::chrono::milliseconds stall_limit{0};                // 0: none
  std::function<void(const Error&)> on_failure;            // once, from any thread
  const weft::Clock& clock;                                // outlives the store
  // true: writes are under way and none ends, so who changes something waits; false: no more.
  std::function<void(bool)> on_waits;
  // For tests.
  std::optional<std::uint64_t> floor_bytes;  // in place of what suits the file system
  std::function<std::optional<std::uint64_t>()> free_bytes;  // in place of what it says
  rocksdb::Env* env = nullptr;                               // outlives the store
};

// kBusy: another process has the folder open. kCorrupt, kNoSpace, kIo, kNotFound as they say.
[[nodiscard]] Result<std::unique_ptr<KvStore>> open_rocks_kv(const RocksOptions& options);
// Whether another process has the store in this folder open. Requires: this one has not, or its
// lock would go.
[[nodiscard]] bool is_open_elsewhere(const std::string& path);

}  // namespace weft::mds
