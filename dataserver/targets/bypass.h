// Descriptors of a target's objects, by which a data server of the same machine reads and writes
// the page cache, past the target: no message, no copy between the two, nobody to wake. Reads of
// what is not there, writes that the kernel would make wait, syncs, and objects that are not known
// here go through the target.
//
// It is the same file, whose end is the object's, and an object belongs to one data server, so
// nobody else cuts or removes it. A file that was unlinked is nobody's object; it is looked for at
// each use, and dropped.
//
// Writes. What is written here is unstable, under the verifier that the target had when the
// descriptor came: a descriptor is written by only while that is the verifier still, and a target
// that has handed one out never says again after a restart what it said before. It syncs whatever
// it is asked to commit, for it does not know what was written. The kernel reports a failed
// write-back to who has the file open: a file written here stays open until a commit covers that.
//
// The target is not trusted with more than its objects: a descriptor that is not of a regular file,
// or not opened as it should be, is not used.
//
// Threading: any thread. Shards with a mutex each, held for a lookup, never across I/O.
//
// Invariants:
//  1. At most `most` objects (rounded up to shards) are open here; the one used longest ago of
//     those with nothing to commit goes, and when there is none, the new one is not kept.
//  2. After drop(object) has followed the object's removal, no descriptor of it is kept, whatever
//     add() comes at the same time: it looks at the file once more when it can be found here.
//  3. The verifier is taken before the descriptor is found, and the bytes are written after: what
//     is answered under a verifier was written before the target can have given out another.
#pragma once

#include <array>
#include <atomic>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "dataserver/store/store.h"
#include "dataserver/store/throttle.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

class Bypass {
 public:
  // The pool is for small reads. It outlives this, and so does `verifier`, the target's as it was
  // told last.
  Bypass(std::size_t most, BufferPool& pool, const std::atomic<WriteVerifier>& verifier);

  // `welcome`: no result, because there is no descriptor, and one would be kept.
  template <class T>
  struct AtHand {
    std::optional<T> result;
    bool welcome = false;
  };
  // Answers from the page cache if it can, as Store::read().
  [[nodiscard]] AtHand<ReadResult> read(const layout::ObjectId& object, std::uint64_t offset,
                                        std::uint32_t count, bool to_memory = false);
  // As Store::write(), unstable, if it can. Without a result the bytes are as they were.
  [[nodiscard]] AtHand<Result<WriteResult>> write(const layout::ObjectId& object,
                                                  std::uint64_t offset,
                                                  std::span<const Buffer> data);
  [[nodiscard]] AtHand<Result<WriteResult>> write(const layout::ObjectId& object,
                                                  std::uint64_t offset, PipedBytes& data);
  // Whether some object can be written.
  [[nodiscard]] bool writes() const { return writes_.load(std::memory_order_relaxed); }

  // A descriptor that came with an answer of this verifier, to write by as well or to read by. An
  // object that has to be committed before there is room for another, if there is none.
  std::optional<layout::ObjectId> add(const layout::ObjectId& object, OwnedFd descriptor,
                                      bool writable, WriteVerifier verifier);
  // Around a commit: what it covers, and that it has succeeded.
  [[nodiscard]] std::uint64_t written(const layout::ObjectId& object) const;
  void committed(const layout::ObjectId& object, std::uint64_t written);
  void drop(const layout::ObjectId& object);
  // None is used any more. Those with something to commit stay open until that is done.
  void retire_all();
  [[nodiscard]] std::size_t size() const;

 private:
  using Descriptor = std::shared_ptr<const OwnedFd>;
  struct Entry {
    layout::ObjectId object;
    Descriptor file;
    bool writable = false;
    bool retired = false;
    WriteVerifier verifier = 0;
    unsigned running = 0;         // writes
    std::uint64_t written = 0;    // writes that ended
    std::uint64_t committed = 0;  // of those
    [[nodiscard]] bool holds() const { return running > 0 || written != committed; }
  };
  using Entries = std::list<Entry>;
  struct Shard {
    mutable Mutex mutex;
    Entries entries WEFT_GUARDED_BY(mutex);  // the one used last first
    std::unordered_map<layout::ObjectId, Entries::iterator> places WEFT_GUARDED_BY(mutex);
  };
  static constexpr std::size_t kShards = 16;

  Shard& shard_of(const layout::ObjectId& object);
  [[nodiscard]] const Shard& shard_of(const layout::ObjectId& object) const;
  [[nodiscard]] Descriptor find(const layout::ObjectId& object);
  // Counts a write that runs, until end_write().
  [[nodiscard]] Descriptor begin_write(const layout::ObjectId& object, WriteVerifier verifier);
  void end_write(const layout::ObjectId& object);
  // Puts it first. Null: there is one already that does.
  [[nodiscard]] static Descriptor put(Shard& shard, Entry entry) WEFT_REQUIRES(shard.mutex);
  // Whether bytes that were written are still there, to be written once more.
  enum class Afterwards : std::uint8_t { kKept, kGone };
  // put(fd, offset) moves the next bytes there: how many, or -errno. -EINVAL before any: the file
  // system does not take them in this way.
  template <class Put>
  [[nodiscard]] AtHand<Result<WriteResult>> write_by(const layout::ObjectId& object,
                                                     std::uint64_t offset, std::uint64_t size,
                                                     Afterwards bytes, Put put);

  const std::size_t most_in_shard_;
  BufferPool& pool_;
  const std::atomic<WriteVerifier>& verifier_;
  Throttle throttle_;
  std::atomic<bool> writes_{false};
  std::array<Shard, kShards> shards_;
};

}  // namespace weft::ds
