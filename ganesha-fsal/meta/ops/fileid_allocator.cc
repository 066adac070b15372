#include "ganesha-fsal/meta/ops/fileid_allocator.h"

#include "ganesha-fsal/meta/schema/keys.h"
#include "ganesha-fsal/meta/schema/records.h"

namespace weft::mds {

Result<FileId> FileIdAllocator::next() {
  MutexLock lock(mutex_);
  // One reserves for all: if each did, their transactions would only conflict.
  if (!reserved_.wait_for(mutex_, patience_, [this]() WEFT_REQUIRES(mutex_) {
        return next_ != end_ || !reserving_;
      })) {
    return fail(Errc::kBusy, "waiting for file numbers");
  }
  if (next_ == end_) {
    reserving_ = true;
    lock.unlock();
    auto first = reserve();
    lock.lock();
    reserving_ = false;
    // After a failure those that wait try it themselves, one after another.
    reserved_.notify_all();
    if (!first) return first;
    next_ = *first;
    end_ = *first + kRange;
  }
  return next_++;
}

Result<FileId> FileIdAllocator::reserve() {
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
  return first;
}

}  // namespace weft::mds
