// Hands out file numbers, each once in the life of a store.
//
// A range of numbers is reserved durably and then handed out from memory, so that a number costs
// no transaction. A restart forgets the rest of the range: numbers are 64 bits and not missed.
//
// Threading: any thread. One of 65,536 calls waits for a commit, and those that come meanwhile wait
// for that one. No mutex is held over the commit.
#pragma once

#include <chrono>
#include <cstdint>

#include "ganesha-fsal/meta/kv/kv.h"
#include "ganesha-fsal/meta/schema/types.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class FileIdAllocator {
 public:
  static constexpr std::uint64_t kRange = 65'536;
  static constexpr std::chrono::seconds kPatience{20};

  explicit FileIdAllocator(KvStore& store, std::chrono::milliseconds patience = kPatience)
      : store_(store), patience_(patience) {}

  // kBusy: another's reservation has not ended within `patience`. Else as the store fails.
  [[nodiscard]] Result<FileId> next() WEFT_EXCLUDES(mutex_);

 private:
  // The first number of a range that nobody else gets.
  [[nodiscard]] Result<FileId> reserve();

  KvStore& store_;
  const std::chrono::milliseconds patience_;
  Mutex mutex_;
  CondVar reserved_;
  bool reserving_ WEFT_GUARDED_BY(mutex_) = false;  // somebody is in reserve()
  FileId next_ WEFT_GUARDED_BY(mutex_) = 0;
  FileId end_ WEFT_GUARDED_BY(mutex_) = 0;
};

}  // namespace weft::mds
