// SummedStore: keeps a checksum of every block (4 KiB) of every object in the store beneath, and
// never answers with a block that does not fit its own.
//
// A block that does not is a bad block, as one that the disk cannot read: the read fails with kIo,
// and what follows is what follows a bad sector (the reader goes to the partner, the copy is made
// equal to the others'). Writing all of it makes it good.
//
// The checksums of an object are an object beside it, sums_of(object) (dataserver/parity/blocks.h):
// u64, big-endian, for each block, from byte 0 on; sum_table.h says what 0 and all ones mean. It
// ends anywhere: of what is behind it nothing is known, nor of a block in one of its holes. Of an
// object without one, as those that were there before checksums were switched on, nothing is known.
//
// What nothing is known of is read as it is. So the rule that everything here follows: what the
// disk has of a block's checksum, at any moment at which the power may fail, is either of the bytes
// that a stable write or commit has promised, or says that nothing is known. Therefore
//
//   before   the first write into a region (16 MiB) of which something is known, the checksums of
//            all of it are made unknown on the disk, durably: one sync for each region, however
//            many writes follow. What was known stays in memory: a block that is not touched is
//            checked as before. Bytes behind what was ever sealed, as those of a new object, cost
//            nothing.
//   sealed   is a region that nobody has written into for Options::idle: the object is committed
//            beneath, what was touched is read, and the new checksums, with those that were kept,
//            are written stable. A write that comes in between makes it start again; while the
//            checksums are on their way to the disk, writes to the object wait.
//   a crash  leaves regions unknown that were not sealed: 16 MiB around each write of the last
//            seconds. They are sealed as they are when a scrub reads them (StoreRead::uncached):
//            whether they are right is what the scrub's comparison with the partner says.
//   a cut    (truncate, punch, remove) makes the checksums of what goes unknown, durably, first. Of
//            a block that goes in part, too, and it is sealed later; but it is compared before, and
//            if it is bad, its checksum stays, which it does not fit then either.
//   many     regions that wait to be sealed, more than fit into Options::memory: the oldest are
//            given up, and stay unknown until a scrub.
//
// A write of a part of a block would make a bad block look good: the block is read and compared
// first, once for each time that it is sealed, unless the write covers all of it that there is.
//
// A read that overlaps a write, a cut or a seal may find bytes and checksums of different moments.
// Then it is tried again; a block is bad when it does not fit three times in a row, and nobody
// touches it.
//
// Threading: operations from any thread with a ring. start() and stop() as of Sealer.
//
// Ownership: the store beneath and the pool outlive it.
//
// Invariant: who writes checksums of an object to the disk, or makes them unknown there, has the
// object's turn (sum_table.h).
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "dataserver/store/store_over.h"
#include "dataserver/sums/kept_sums.h"
#include "dataserver/sums/sealer.h"
#include "dataserver/sums/sum_table.h"
#include "dataserver/sums/sum_view.h"
#include "rpc/base/log_limit.h"
#include "rpc/base/task.h"

namespace weft::ds {

class SummedStore final : public StoreOver {
 public:
  struct Options {
    std::chrono::seconds idle{5};
    std::size_t memory = std::size_t{64} << 20;  // for regions: SumTable::memory()
  };
  SummedStore(Store& beneath, BufferPool& pool, Options options);

  // False of what is in the place of checksums, as those that a parity group keeps at its members.
  [[nodiscard]] static bool may_have(const layout::ObjectId& object);

  // Before anything else. How many objects there are without those of checksums.
  void open(Done<void> done);
  // Removes all checksums that a store has, which has them no more then.
  static void remove_all(Store& beneath, Done<void> done);

  // Seals once a second on this ring's thread.
  void start(IoRing& ring) { sealer_.start(ring); }
  void stop() { sealer_.stop(); }
  [[nodiscard]] bool idle() const { return sealer_.idle(); }
  // A second has passed.
  void poll() { sealer_.poll(); }
  [[nodiscard]] const SumView& view() const { return view_; }
  // Objects that have checksums.
  [[nodiscard]] std::uint64_t kept_objects() const { return kept_.objects(); }

  using Store::read;
  using Store::write;
  void read(StoreRead what, Done<ReadResult> done) override;
  void write(StoreWrite what, Done<WriteResult> done) override;
  void truncate(const layout::ObjectId& object, std::uint64_t size, Done<ObjectStat> done) override;
  void remove(const layout::ObjectId& object, Done<void> done) override;
  void punch(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
             Done<void> done) override;
  void list(ListPlace from, std::uint32_t max, Done<ObjectList> done) override;
  [[nodiscard]] Result<StoreStat> usage() const override;

 private:
  using Object = layout::ObjectId;
  using Sums = KeptSums::Sums;

  [[nodiscard]] Task<Result<ReadResult>> read_checked(StoreRead what);
  // Of the blocks from `first` to `end`, as they are now.
  [[nodiscard]] Task<Result<Sums>> read_sums(Object object, std::uint64_t first, std::uint64_t end);
  // Which of the blocks in `bytes`, the first of which is block `first`, does not fit.
  [[nodiscard]] std::optional<std::uint64_t> misfit(const Object& object, std::uint64_t first,
                                                    std::span<const std::byte> bytes,
                                                    const Sums& sums);
  [[nodiscard]] std::unexpected<Error> bad_block(const Object& object, std::uint64_t block);
  [[nodiscard]] Task<Result<>> adopt(Object object, std::uint64_t first, std::uint64_t end,
                                     const Sums& sums);

  [[nodiscard]] Task<Result<>> prepare(Object object, std::uint64_t offset, std::uint64_t size,
                                       SumTable::Blocks blocks);
  // So that the regions of these blocks can come in; theirs stay.
  void make_room(const Object& object, std::uint64_t first, std::uint64_t end);
  [[nodiscard]] Task<Result<>> load(Object object, std::uint64_t index, bool clear);
  // Of a region that is here: false when the block is bad, and not all of it that there is lies
  // between `offset` and `end`.
  [[nodiscard]] Task<Result<bool>> part_fits(Object object, std::uint64_t block,
                                             std::uint64_t offset, std::uint64_t end);
  // go(done) cuts the bytes from `begin` to `end`.
  template <class T, class Go>
  [[nodiscard]] Task<Result<T>> cut(Object object, std::uint64_t begin, std::uint64_t end, Go go);
  // Before a part of a block is cut: false when it is bad already.
  [[nodiscard]] Task<Result<bool>> is_good(Object object, std::uint64_t block);
  [[nodiscard]] Task<Result<>> remove_both(Object object);

  BufferPool& pool_;
  const Options options_;
  SumTable table_;
  SumView view_;
  LogLimit bad_log_;
  KeptSums kept_;
  Sealer sealer_;
};

}  // namespace weft::ds
