// RocksDB's log, in files that are longer than what is in them: zeros are written ahead of what is
// appended. Then a sync writes data and nothing else, where a file that grows costs a file system
// with a journal a second write and a second flush, each time.
//
// RocksDB ends its reading of a log at zeros. A log that is closed has none, and GetFileSize()
// leaves them out while it is open.
//
// Threading: a file belongs to one thread at a time, as RocksDB has it; zeros are written by a
// thread of their own, never where something is being appended. An append waits for that thread
// where it comes near it.
#pragma once

#include <rocksdb/file_system.h>

#include <cstddef>
#include <memory>

namespace weft::mds {

// The file system `base`, whose files named *.log have `bytes` of zeros written ahead. Where that
// fails, on a full disk, a file grows as it would without. Ownership: its files keep what they
// need.
[[nodiscard]] std::shared_ptr<rocksdb::FileSystem> with_log_ahead(
    std::shared_ptr<rocksdb::FileSystem> base, std::size_t bytes);

}  // namespace weft::mds
