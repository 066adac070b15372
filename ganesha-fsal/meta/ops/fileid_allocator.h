// Hands out file numbers, each once in the life of a store.
//
// A range of numbers is reserved durably and then handed out from memory, so that a number costs
// no transaction. A restart forgets the rest of the range: numbers are 64 bits and not missed.
//
// Threading: any thread. One of 65,536 calls waits for a commit.
#pragma once

#include <cstdint>

#include "ganesha-fsal/meta/kv/kv.h"
#include "ganesha-fsal/meta/schema/types.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class FileIdAllocator {
 public:
  static constexpr std::uint64_t kRange = 65'536;

  explicit FileIdAllocator(KvStore& store) : store_(store) {}

  [[nodiscard]] Result<FileId> next();

 private:
  [[nodiscard]] Result<> reserve() WEFT_REQUIRES(mutex_);

  KvStore& store_;
  Mutex mutex_;
  FileId next_ WEFT_GUARDED_BY(mutex_) = 0;
  FileId end_ WEFT_GUARDED_BY(mutex_) = 0;
};

}  // namespace weft::mds
