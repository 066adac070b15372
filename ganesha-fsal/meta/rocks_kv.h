// The metadata store in RocksDB, embedded (an OptimisticTransactionDB).
//
// commit() writes RocksDB's log without a sync. wait_durable() syncs the log up to the last commit:
// the first thread to wait does it for all that have committed by then, so that the number of syncs
// a second is the disk's, not the load's.
//
// A folder belongs to one process at a time (RocksDB's LOCK file).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "ganesha-fsal/meta/kv.h"

namespace weft::mds {

struct RocksOptions {
  std::string path;  // a folder, made if absent (its parent is not)
  bool create_if_missing = true;
  bool read_only = false;  // for weft-fsck: nothing is written; takes no lock
  bool sync = true;        // false: a commit survives the process only
  std::size_t block_cache_bytes = std::size_t{256} << 20;
  std::size_t write_buffer_bytes = std::size_t{64} << 20;  // of each of at most 4
};

// kBusy: another process has the folder open. kCorrupt, kNoSpace, kIo, kNotFound as they say.
[[nodiscard]] Result<std::unique_ptr<KvStore>> open_rocks_kv(const RocksOptions& options);

}  // namespace weft::mds
