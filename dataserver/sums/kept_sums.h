// The checksums of objects' blocks as the disk has them: each object's are an object beside it,
// sums_of(object), in the same store. summed_store.h has the rules that they follow.
//
// Threading: any thread with a ring.
//
// Ownership: the store beneath and the pool outlive it.
//
// Invariant: who changes the checksums of an object has the object's turn (sum_table.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "dataserver/store/store.h"
#include "dataserver/sums/sum_table.h"
#include "rpc/base/task.h"

namespace weft::ds {

class KeptSums {
 public:
  using Object = layout::ObjectId;
  using Sums = std::vector<std::uint64_t>;
  static constexpr std::uint64_t kToTheEnd = std::numeric_limits<std::uint64_t>::max();

  KeptSums(Store& beneath, BufferPool& pool) : beneath_(beneath), pool_(pool) {}

  // Counts objects of checksums, before anything else.
  [[nodiscard]] Task<Result<>> open();
  // Removes all that a store has.
  [[nodiscard]] static Task<Result<>> remove_all(Store& beneath);
  // Of checksums, that there are.
  [[nodiscard]] std::uint64_t objects() const { return objects_.load(); }

  // Of the blocks from `first` to `end`; shorter: nothing is known from there on.
  [[nodiscard]] Task<Result<Sums>> read(Object object, std::uint64_t first, std::uint64_t end);
  // Those of a region become unknown, durably.
  [[nodiscard]] Task<Result<>> clear(Object object, std::uint64_t region);
  // Those of the blocks from `first` to `end`, or kToTheEnd, likewise.
  [[nodiscard]] Task<Result<>> make_unknown(Object object, std::uint64_t first, std::uint64_t end);
  // A region's first ones are these, durably; the rest stays.
  [[nodiscard]] Task<Result<>> write(Object object, std::uint64_t region, const Sums& sums);
  [[nodiscard]] Task<Result<>> remove(Object object);

  // What was to become unknown failed to once: the page cache may say that it is, and the disk not.
  [[nodiscard]] bool unsure() const { return unsure_.load(); }

 private:
  [[nodiscard]] static Task<Result<std::uint64_t>> each(Store& beneath, bool remove);
  [[nodiscard]] Task<Result<>> cut(Object sums, std::uint64_t size);
  [[nodiscard]] Result<> noted(Result<> done);

  Store& beneath_;
  BufferPool& pool_;
  std::atomic<std::uint64_t> objects_{0};
  std::atomic<bool> unsure_{false};
};

}  // namespace weft::ds
