// Descriptors of a target's objects, by which a data server of the same machine reads what is in
// the page cache, past the target: no message, no copy, nobody to wake. What is not there, or is
// not known here, is read through the target.
//
// What is read is what the target would read: it is the same file, whose end is the object's, and
// an object belongs to one data server, so nobody else cuts or removes it. A file that was unlinked
// is nobody's object; it is looked for at each use, and dropped.
//
// The target is not trusted with more than its objects: a descriptor that is not of a regular file,
// or by which one may write, is not used.
//
// Threading: any thread. Shards with a mutex each, held for a lookup, never across I/O.
//
// Invariants:
//  1. At most `most` objects (rounded up to shards) are open here; the one used longest ago goes.
//  2. After drop(object) has followed the object's removal, no descriptor of it is kept, whatever
//     add() comes at the same time: it looks at the file once more when it can be found here.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "dataserver/store/store.h"

namespace weft::ds {

class Readers {
 public:
  // The pool is for small reads, and outlives it.
  Readers(std::size_t most, BufferPool& pool);

  struct AtHand {
    std::optional<ReadResult> result;
    bool reader_welcome = false;  // there is none, and one would be kept
  };
  // Answers from the page cache if it can, as Store::read().
  [[nodiscard]] AtHand read(const layout::ObjectId& object, std::uint64_t offset,
                            std::uint32_t count);
  void add(const layout::ObjectId& object, OwnedFd reader);
  void drop(const layout::ObjectId& object);
  void drop_all();
  [[nodiscard]] std::size_t size() const;

 private:
  using Descriptor = std::shared_ptr<const OwnedFd>;
  using Entry = std::pair<layout::ObjectId, Descriptor>;
  struct Shard {
    mutable std::mutex mutex;
    std::list<Entry> entries;  // protected by mutex; the one used last first
    std::unordered_map<layout::ObjectId, std::list<Entry>::iterator> places;  // likewise
  };
  static constexpr std::size_t kShards = 16;

  Shard& shard_of(const layout::ObjectId& object);
  [[nodiscard]] Descriptor find(const layout::ObjectId& object);
  // Takes it out; null: it is not there. The caller lets go of it without the lock.
  [[nodiscard]] static Descriptor take(Shard& shard, const layout::ObjectId& object);

  const std::size_t most_in_shard_;
  BufferPool& pool_;
  std::array<Shard, kShards> shards_;
};

}  // namespace weft::ds
