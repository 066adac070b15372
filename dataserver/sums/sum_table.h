// What a SummedStore (summed_store.h) has in memory of the blocks that change, by regions of 16
// MiB, and whose turn it is to change the checksums of an object on the disk.
//
// A region is here from when a write into it began until its new checksums are on the disk. Of each
// of its blocks is known either the checksum that it had (it is checked), or that it was touched
// (it is not, until it is sealed).
//
// Threading: any thread. A mutex, held for moments, never over I/O. Who waits for a turn goes on on
// its own ring's thread.
//
// Invariants:
//  1. One at a time has the turn of an object. Only who has it makes or ends regions of the object,
//     or writes its checksums; while nobody has it, drop_oldest() may end some.
//  2. Nobody begins to write into a region while somebody has the object's turn, but who has it.
//  3. A region that somebody writes into stays.
//  4. What is in a region never has a number of changes again that it had before, nor has one that
//     takes its place.
#pragma once

#include <bitset>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dataserver/parity/geometry.h"
#include "dataserver/ring/io_ring.h"
#include "layout/object_id.h"
#include "rpc/base/mutex.h"
#include "rpc/base/task.h"

namespace weft::ds {

constexpr std::uint64_t kSumRegionBlocks = 4096;
constexpr std::uint64_t kSumRegion = kSumRegionBlocks * kParityBlock;

// As kept on the disk: 0 is of a block of which nothing is known, so that a hole among checksums
// says nothing of its blocks, and kLostSum of a block of zeros.
constexpr std::uint64_t kUnknownSum = 0;

class SumTable {
 public:
  using Object = layout::ObjectId;

  struct Region {
    std::uint64_t index = 0;
    std::vector<std::uint64_t> sums;  // as they were kept; shorter: unknown from there on
    std::bitset<kSumRegionBlocks> touched;
    bool cleared = false;  // on the disk all of them are unknown, durably
    unsigned writing = 0;
    std::uint64_t changes = 0;  // of what a seal would be of: the number of the last
    std::uint64_t changed_at = 0;
    [[nodiscard]] std::uint64_t sum_at(std::uint64_t block) const {
      return block < sums.size() ? sums[block] : kUnknownSum;
    }
  };

  // Held as long as the turn is. Moves with whoever has it.
  class Turn {
   public:
    Turn() = default;
    Turn(SumTable& table, const Object& object) : table_(&table), object_(object) {}
    Turn(Turn&& other) noexcept { *this = std::move(other); }
    Turn& operator=(Turn&& other) noexcept {
      end();
      table_ = std::exchange(other.table_, nullptr);
      object_ = other.object_;
      return *this;
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { end(); }
    void end() {
      if (table_ != nullptr) std::exchange(table_, nullptr)->end_turn(object_);
    }

   private:
    SumTable* table_ = nullptr;
    Object object_;
  };

  // The turn, at once or when it has come; on the calling thread, which has a ring.
  void take_turn(const Object& object, std::move_only_function<void(Turn)> then);
  [[nodiscard]] Task<Turn> turn(Object object);

  // A run of blocks that a write covers, and which of its ends it covers in part.
  struct Blocks {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    bool part_of_first = false;
    bool part_of_last = false;
  };
  // Nobody's turn, all regions here, and no block that would have to be checked before: the write
  // has begun. False: it needs the turn.
  [[nodiscard]] bool begin_at_once(const Object& object, const Blocks& blocks, std::uint64_t now);
  // With the turn. Regions that are missing, or not cleared.
  [[nodiscard]] std::vector<std::uint64_t> missing(const Object& object,
                                                   const Blocks& blocks) const;
  void begin(const Object& object, const Blocks& blocks, std::uint64_t now);
  void end_write(const Object& object, const Blocks& blocks, std::uint64_t now);

  // With the turn. It is not there yet.
  void add(const Object& object, Region region);
  void set_cleared(const Object& object, std::uint64_t index);
  [[nodiscard]] bool has(const Object& object, std::uint64_t index) const;
  [[nodiscard]] bool is_cleared(const Object& object, std::uint64_t index) const;
  // Blocks from `first` to `end` are holes, or gone.
  void forget(const Object& object, std::uint64_t first, std::uint64_t end);
  void erase(const Object& object, std::uint64_t index);

  // Of a block of a region that is here: nothing when it is not; kUnknownSum when it is touched.
  [[nodiscard]] std::optional<std::uint64_t> sum_of(const Object& object,
                                                    std::uint64_t block) const;
  // The same into those of `sums`, which begin with block `first`, that are of regions that are
  // here. Whether all are.
  [[nodiscard]] bool fill(const Object& object, std::uint64_t first,
                          std::span<std::uint64_t> sums) const;
  // Of which nothing is known: to be sealed as they are on the disk.
  void adopt(const Object& object, std::uint64_t first, std::uint64_t end, std::uint64_t now);

  struct Place {
    Object object;
    std::uint64_t index = 0;
  };
  // Regions that nobody changed since `before`, the oldest first.
  [[nodiscard]] std::vector<Place> due(std::uint64_t before, std::size_t most) const;
  // What a region is now, to be sealed.
  struct Due {
    Object object;
    std::uint64_t index = 0;
    std::uint64_t changes = 0;
    std::vector<std::uint64_t> sums;
    std::bitset<kSumRegionBlocks> touched;
  };
  // Nothing when it is gone, somebody writes into it, or has the object's turn.
  [[nodiscard]] std::optional<Due> look_at(const Place& place) const;
  // Nobody has changed it since.
  [[nodiscard]] bool unchanged(const Due& due) const;
  // With the turn: erase(), unless it was changed since.
  [[nodiscard]] bool erase_unchanged(const Due& due);
  // Those that nobody writes into, the oldest first, until so many bytes are free: of objects of
  // which nobody has the turn, and of `mine`, of which the caller has it, but for those from
  // `first` to `last`.
  void drop_oldest(std::size_t bytes, const Object& mine, std::uint64_t first, std::uint64_t last);
  // Bytes of memory that regions take: kRegionBytes each, and 8 for each block that had a checksum.
  static constexpr std::size_t kRegionBytes = std::size_t{8} << 10;
  [[nodiscard]] std::size_t memory() const;

 private:
  struct Waiter {
    IoRing* ring = nullptr;
    std::move_only_function<void(Turn)> then;
  };
  struct State {
    std::map<std::uint64_t, Region> regions;
    bool turn = false;
    std::deque<Waiter> waiting;
  };
  using States = std::unordered_map<Object, State>;

  void end_turn(const Object& object);
  void drop_if_empty(States::iterator at) WEFT_REQUIRES(mutex_);
  [[nodiscard]] const Region* find(const Object& object, std::uint64_t index) const
      WEFT_REQUIRES(mutex_);
  [[nodiscard]] Region* find(const Object& object, std::uint64_t index) WEFT_REQUIRES(mutex_);
  void mark(const Object& object, const Blocks& blocks, std::uint64_t now) WEFT_REQUIRES(mutex_);
  // The oldest regions of which `pick` says so.
  template <class Pick>
  [[nodiscard]] std::vector<Place> oldest(std::size_t most, Pick pick) const WEFT_REQUIRES(mutex_);
  void erase_region(const Object& object, std::uint64_t index) WEFT_REQUIRES(mutex_);

  mutable Mutex mutex_;
  States objects_ WEFT_GUARDED_BY(mutex_);
  std::size_t memory_ WEFT_GUARDED_BY(mutex_) = 0;
  std::uint64_t changes_ WEFT_GUARDED_BY(mutex_) = 0;
};

}  // namespace weft::ds
