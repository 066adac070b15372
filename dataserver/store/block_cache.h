// Memory in which CachedStores (cached_store.h) keep blocks of objects, as many stores as like to
// share it.
//
// Blocks are of 16 KiB: a page of a client that reads at random is 4 KiB, four of which cost a
// disk's arm nothing more and a 10 Gb/s network 13 us; in larger ones memory would be full of what
// nobody asked for. A block is the object's bytes as if zeros went on behind its end for ever, so
// an object that grows, or is cut and grows again, changes no block but those that the change is
// about. Where an object ends is kept beside its blocks.
//
// Replacement. Two lists, each in order of use: blocks come into the first, and move to the second
// when they are found again. What is pushed out of the second, which has at most three quarters of
// all, goes back to the first; what is pushed out of the first is gone. So what is read once, a
// backup or a scan, takes the place of other things read once.
//
// Memory. There is room for bytes / (kBlock + kBookkeeping) blocks, the second being more than what
// is needed to know one, its object included, though it were the object's only one. A block that is
// found is not copied: until the last handle to it has gone it counts, though it were pushed out;
// while all are in such hands nothing new is kept. The memory is mapped at once and used as needed.
//
// Nothing old is kept. What is read, and what is changed, is announced before it is asked for and
// has ended before it is answered, and concerns whole blocks. Then:
//
// Invariants:
//  1. No block that a change under way concerns is here: reads of it go to the store beneath.
//  2. What was read is kept only if no change that concerns it was under way at any time from
//     before it was asked for, and no change that failed may still be carried out
//     (Store::settled()).
//  3. Blocks here before a write are kept with what was written only if the write succeeded and no
//     other change concerned them meanwhile. The first of two has them, and finds the second.
//  4. When the verifier of the store beneath is not what it was, all its blocks are gone before
//     anything is found, and what was under way is not kept: it may have read, or written, what is
//     lost.
//  5. The end of an object is known only while no change that moves it has been under way since it
//     was learnt, or all of those were writes that succeeded, with nothing before them that may
//     still be carried out. Where it is moved just now, it is a lower bound.
//
// Threading: any thread. One mutex, held for moments; when a verifier changes, for about 100 ns a
// block. Under it Store::verifier() and settled() are called.
//
// Ownership: outlives its areas. Handles to blocks may outlive it.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <list>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dataserver/store/store.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

struct CacheView {
  std::atomic<std::uint64_t> hits{0};  // reads that were answered from memory
  std::atomic<std::uint64_t> misses{0};
  std::atomic<std::uint64_t> hit_bytes{0};
  std::atomic<std::uint64_t> filled_blocks{0};
  std::atomic<std::uint64_t> evictions{0};  // blocks that others took the place of
  std::atomic<std::uint64_t> lost{0};       // times that all of a store's went, for its verifier
  std::atomic<std::uint64_t> blocks{0};     // now
  std::uint64_t capacity_blocks = 0;
};

class BlockCache {
 public:
  static constexpr std::size_t kBlock = std::size_t{16} << 10;
  static constexpr std::size_t kBookkeeping = 512;
  static constexpr std::size_t kLeast = std::size_t{1} << 20;  // bytes that are worth it
  static constexpr std::uint64_t kToTheEnd = std::numeric_limits<std::uint64_t>::max();

  // The error of mmap(2). Precondition: bytes >= kLeast.
  [[nodiscard]] static Result<std::unique_ptr<BlockCache>> create(std::size_t bytes);
  ~BlockCache();

  class Area;    // the objects of one store
  class Ticket;  // a read or change under way

  // The bytes, when all are here. Otherwise the read is announced, if it is to be kept: filled().
  [[nodiscard]] std::optional<ReadResult> find(Area& area, const layout::ObjectId& object,
                                               std::uint64_t offset, std::uint32_t count,
                                               Ticket& fill);
  // What was read from `at` on; null: it failed.
  void filled(Area& area, Ticket fill, std::uint64_t at, const ReadResult* result);

  enum class Kind : std::uint8_t {
    kWrite,  // of bytes in the range, and nowhere else
    kInner,  // changes bytes in the range, and never the end
    kOuter,  // may also move the end
  };
  [[nodiscard]] Ticket begin_change(Area& area, const layout::ObjectId& object, std::uint64_t begin,
                                    std::uint64_t end, Kind kind);
  // `result` of a write that succeeded, null for all else; `data` was written from `at` on, and is
  // looked at if the ticket has blocks.
  void changed(Area& area, Ticket change, const WriteResult* result, std::uint64_t at,
               const std::vector<Buffer>& data);

  [[nodiscard]] const CacheView& view() const { return view_; }

 private:
  class Slab;
  struct Object;
  struct Guard {
    std::uint64_t begin;  // whole blocks
    std::uint64_t end;
    bool change;
    bool mover;    // of the object's end
    bool spoiled;  // what it brings is not to be kept
    std::uint64_t epoch;
    std::uint64_t end_version;
  };
  struct Entry {
    Object* object;
    std::uint64_t index;
    Buffer bytes;
    bool again;  // in the second list
  };
  using Entries = std::list<Entry>;
  struct Object {
    Area* area;
    layout::ObjectId id;
    std::map<std::uint64_t, Entries::iterator> blocks;
    std::list<Guard> guards;
    std::uint64_t end = 0;
    bool end_known = false;
    unsigned movers = 0;            // under way
    bool movers_good = true;        // those that ended since there were none
    std::uint64_t moved_to = 0;     // likewise
    std::uint64_t end_version = 0;  // of when a mover began or ended last
  };
  struct Kept {
    std::uint64_t index;
    Buffer bytes;
    bool again;
  };

  explicit BlockCache(std::shared_ptr<Slab> slab);
  void check_verifier(Area& area) WEFT_REQUIRES(mutex_);
  [[nodiscard]] std::optional<ReadResult> take(Object& object, std::uint64_t offset,
                                               std::uint32_t count) WEFT_REQUIRES(mutex_);
  [[nodiscard]] std::size_t look_up(Object& object, std::uint64_t first, std::uint64_t last,
                                    std::vector<std::uint64_t>& absent) WEFT_REQUIRES(mutex_);
  void touch(Entries::iterator entry) WEFT_REQUIRES(mutex_);
  void insert(Object& object, std::uint64_t index, Buffer bytes, bool again) WEFT_REQUIRES(mutex_);
  void erase(std::map<std::uint64_t, Entries::iterator>::iterator block, Object& object)
      WEFT_REQUIRES(mutex_);
  void balance() WEFT_REQUIRES(mutex_);
  [[nodiscard]] bool evict_one() WEFT_REQUIRES(mutex_);
  [[nodiscard]] std::vector<Buffer> room_for(std::size_t blocks) WEFT_REQUIRES(mutex_);
  void end_guard(Object& object, std::list<Guard>::iterator guard) WEFT_REQUIRES(mutex_);
  void forget_if_empty(Object& object) WEFT_REQUIRES(mutex_);

  const std::shared_ptr<Slab> slab_;
  CacheView view_;
  Mutex mutex_;
  // Guards what areas have, too.
  Entries once_ WEFT_GUARDED_BY(mutex_);   // the most recently used first
  Entries again_ WEFT_GUARDED_BY(mutex_);  // likewise
};

class BlockCache::Area {
 public:
  // Both outlive it.
  Area(BlockCache& cache, Store& store);
  // Precondition: nothing is under way.
  ~Area();
  Area(const Area&) = delete;
  Area& operator=(const Area&) = delete;

 private:
  friend class BlockCache;
  BlockCache& cache_;
  Store& store_;
  WriteVerifier verifier_;
  std::uint64_t epoch_ = 0;
  std::unordered_map<layout::ObjectId, Object> objects_;
};

// Movable; ends with filled() or changed() only.
class BlockCache::Ticket {
 public:
  Ticket() = default;
  [[nodiscard]] explicit operator bool() const { return object_ != nullptr; }
  // Whether the bytes that are written are wanted.
  [[nodiscard]] bool has_blocks() const { return !kept_.empty(); }

 private:
  friend class BlockCache;
  Object* object_ = nullptr;
  std::list<Guard>::iterator guard_;
  std::vector<Kept> kept_;
};

}  // namespace weft::ds
