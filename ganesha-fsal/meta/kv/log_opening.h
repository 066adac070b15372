// A store's logs are looked at (log_check.h) when RocksDB, which opens the store, begins to read
// them.
//
// Which logs it reads follows from its MANIFEST. Older ones may be left in the folder, any of them:
// it removes the newest first, and a machine that loses power brings back what was removed last.
// What they lack is in tables, so they are not looked at. RocksDB reads in order: the log that it
// asks for first is the oldest that counts. It has its LOCK by then, so that nothing is cut that
// another process writes.
//
// A store that is opened for reading only is not changed: its logs seem to end where they would be
// cut.
//
// Threading: the thread that opens the store, until opened(); then any.
#pragma once

#include <rocksdb/file_system.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "ganesha-fsal/meta/kv/log_check.h"

namespace weft::mds {

class LogOpening final : public rocksdb::FileSystemWrapper {
 public:
  // Of the store in `folder`.
  LogOpening(std::shared_ptr<rocksdb::FileSystem> base, std::string folder, bool read_only);
  const char* Name() const override { return "LogOpening"; }

  rocksdb::IOStatus NewSequentialFile(const std::string& name, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* out,
                                      rocksdb::IODebugContext* debug) override;
  // From now on logs are what they are.
  void opened() { opened_ = true; }
  // Why the store cannot be opened, if it is for its logs.
  [[nodiscard]] const std::optional<Error>& refused() const { return refused_; }

 private:
  const std::string folder_;
  const bool read_only_;
  std::atomic<bool> opened_{false};
  std::optional<LogEnds> ends_;  // once they have been looked at
  std::optional<Error> refused_;
};

}  // namespace weft::mds
