// CachedStore: a store whose reads are answered from memory where it has been read before.
//
// For stores that are far: targets, parity groups, and disks without the kernel's page cache
// (direct I/O). What is read comes in whole blocks (block_cache.h), so a small read asks for
// somewhat more than it needs; if the store beneath cannot give that, it is asked for the rest
// alone. Writes go through: they are answered when the store beneath has answered, and are kept
// only where the blocks were kept already. With bytes still in the kernel blocks are dropped
// instead, so that nothing is copied for their sake.
//
// Nobody else may change what the store beneath has. At a target nobody can: each data server has a
// name space of its own there (targets/spaces.h), named by its store's identity, whose folder is
// locked by one process (store_directory.h); an earlier process's operations have ended before the
// target answers a new one. Behind a target's own caches there is only its own file store. Parity
// groups write to their members below this, but never bytes that read otherwise.
//
// Reads that must see the disk go beneath (StoreRead::uncached): scrubs, comparisons of copies, and
// what other data servers read.
//
// Threading, verifiers, memory: as the store beneath, and block_cache.h. A completion runs on the
// thread that began the operation; from memory, before the call returns.
//
// Ownership: the store beneath and the cache outlive it.
#pragma once

#include "dataserver/store/block_cache.h"
#include "dataserver/store/store_over.h"

namespace weft::ds {

class CachedStore final : public StoreOver {
 public:
  CachedStore(Store& beneath, BlockCache& cache)
      : StoreOver(beneath), cache_(cache), area_(cache, beneath) {}

  using Store::read;
  using Store::write;
  void read(StoreRead what, Done<ReadResult> done) override;
  void write(StoreWrite what, Done<WriteResult> done) override;
  void truncate(const layout::ObjectId& object, std::uint64_t size, Done<ObjectStat> done) override;
  void remove(const layout::ObjectId& object, Done<void> done) override;
  void allocate(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
                Done<void> done) override;
  void punch(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
             Done<void> done) override;

 private:
  struct ReadOp;
  void read_beneath(std::unique_ptr<ReadOp> op);
  void read_done(std::unique_ptr<ReadOp> op, Result<ReadResult> result);
  // Ends the change when `done` is called, and before that.
  template <class T>
  [[nodiscard]] Done<T> ending(BlockCache::Ticket change, Done<T> done);
  [[nodiscard]] Done<WriteResult> ending_write(BlockCache::Ticket change, std::uint64_t offset,
                                               std::vector<Buffer> data, Done<WriteResult> done);

  BlockCache& cache_;
  BlockCache::Area area_;
};

}  // namespace weft::ds
