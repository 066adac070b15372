#include "ganesha-fsal/meta/ops/fileid_allocator.h"

#include "ganesha-fsal/meta/schema/keys.h"
#include "ganesha-fsal/meta/schema/records.h"

namespace weft::mds {

Result<FileId> FileIdAllocator::next() {
  const MutexLock lock(mutex_);
  if (next_ == end_) {
    if (auto done = reserve(); !done) return pass(done);
  }
  return next_++;
}

Result<> FileIdAllocator::reserve() {
  FileId first = 0;
  auto done = store_.run([&](Transaction& transaction) -> Result<> {
    auto value = transaction.get(keys::next_fileid());
    if (!value) return pass(value);
    if (!*value) return fail(Errc::kCorrupt, "the metadata store has no file number counter");
    auto counter = decode_counter(**value);
    if (!counter) return pass(counter);
    if (*counter <= kRootFileId || *counter > UINT64_MAX - kRange) {
      return fail(Errc::kCorrupt, "the file number counter is out of range");
    }
    first = *counter;
    transaction.put(keys::next_fileid(), encode_counter(first + kRange));
    return {};
  });
  if (!done) return pass(done);
  next_ = first;
  end_ = first + kRange;
  return {};
}

}  // namespace weft::mds
