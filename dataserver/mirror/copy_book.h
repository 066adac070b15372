// What this data server knows of the other copies of the objects written through it.
//
// For each object and partner:
//   missed        regions that the metadata server has been told the partner lacks: nothing in them
//                 is brought there, until forget() or a handle of a later epoch
//   uncommitted   what the partner has, but may lose: written there unstable and not committed
//   unreported    where it may differ and the metadata server could not be told: what it lacks
//                 though the client was answered (server-asynchronous duplication), and writes that
//                 were refused because of that
// Of this server's own copy, by its own id, there is only what is unreported: where its store
// failed, and a partner has the bytes.
//
// In memory only. A restart forgets it, which costs nothing but work: missed regions are written to
// a stale copy, or reported again; the write verifier is new, so clients write uncommitted data
// once more. Copies may go on to differ in what was refused: nobody was told that it was written.
//
// Threading: any thread; a mutex is held for a moment.
//
// Invariants:
//  1. missed never says more than was reported.
//  2. uncommitted and unreported never say less than is so.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "dataserver/ring/extent_set.h"
#include "layout/object_id.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

class CopyBook {
 public:
  struct Owed {
    std::uint64_t generation = 0;
    ExtentSet uncommitted;
    ExtentSet unreported;
  };

  [[nodiscard]] bool missed(const layout::ObjectId& object, std::uint32_t partner,
                            std::uint32_t epoch, ByteRange range);
  // `extents` were reported.
  void mark_missed(const layout::ObjectId& object, std::uint32_t partner, std::uint32_t epoch,
                   const ExtentSet& extents);
  void forget(const layout::ObjectId& object, std::uint32_t partner);

  void add_uncommitted(const layout::ObjectId& object, std::uint32_t partner, ByteRange range);
  void add_unreported(const layout::ObjectId& object, std::uint32_t partner, ByteRange range);
  // What a COMMIT that begins now must see to.
  [[nodiscard]] Owed owed(const layout::ObjectId& object, std::uint32_t partner);
  // It has been seen to: what came since stays.
  void settled(const layout::ObjectId& object, std::uint32_t partner, std::uint64_t generation);
  // The object is gone.
  void remove(const layout::ObjectId& object);

  [[nodiscard]] std::size_t size() const;

 private:
  static constexpr std::size_t kMaxCopies = 4096;  // in a shard; beyond, `missed` is forgotten

  struct Key {
    layout::ObjectId object;
    std::uint32_t partner = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept {
      return std::hash<layout::ObjectId>{}(key.object) * 31 + key.partner;
    }
  };
  struct Generation {
    ExtentSet uncommitted;
    ExtentSet unreported;
  };
  struct Copy {
    std::uint32_t epoch = 0;  // of the handle that what is missed was written with
    ExtentSet missed;
    std::uint64_t open = 0;                    // the generation that is added to; 0: none
    std::map<std::uint64_t, Generation> owed;  // by generation
  };
  struct Shard {
    mutable Mutex mutex;
    std::uint64_t next_generation WEFT_GUARDED_BY(mutex) = 1;  // never used twice
    std::unordered_map<Key, Copy, KeyHash> copies WEFT_GUARDED_BY(mutex);
  };
  [[nodiscard]] Shard& shard_of(const layout::ObjectId& object) {
    return shards_[std::hash<layout::ObjectId>{}(object) % shards_.size()];
  }
  // Makes room in a shard that is full, if anything there may be forgotten.
  static void make_room(Shard& shard) WEFT_REQUIRES(shard.mutex);
  static void drop_if_empty(Shard& shard, const Key& key) WEFT_REQUIRES(shard.mutex);
  Generation& present(Shard& shard, const Key& key) WEFT_REQUIRES(shard.mutex);

  std::array<Shard, 16> shards_;
};

}  // namespace weft::ds
