// Order between the writes of one object: of those that overlap, one at a time, in the order they
// came; those that do not go on side by side.
//
// That is what keeps copies equal. A write holds its range from before it is written here until it
// is written at every partner as well, or the partner is durably marked as having missed it. So
// two writes to the same bytes, on whatever connections and threads they came, reach every copy
// in the same order.
//
// One who leads waits for partners while he holds a range, and one who follows, a partner's write
// that is brought here, must not wait for him: at that partner the same may be so the other way
// round. That is when two data servers take themselves for the leader. He gets no hold then.
//
// A hold also says whether its bytes are written here yet. Who reads an object to make another
// server's copy equal waits for that (when_local), because the other server may have got the bytes
// already; it does not wait for the whole hold, which may be waiting for that very server.
//
// Threading: any I/O thread; a callback comes on the thread that asked, at once or later. A mutex
// is held for a moment: a range is compared with those of its MiB and those that are longer than 16
// MiB, however many there are of its object.
//
// Ownership: outlives every Hold and everything posted to the I/O threads.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "dataserver/ring/extent_set.h"
#include "dataserver/ring/io_ring.h"
#include "layout/object_id.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

class RangeLocks {
  struct Entry;

 public:
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept { *this = std::move(other); }
    Hold& operator=(Hold&& other) noexcept;
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() { release(); }
    // Whether there is one.
    explicit operator bool() const { return locks_ != nullptr; }
    // The bytes are written here, or will not be.
    void local_done();
    void release();

   private:
    friend class RangeLocks;
    RangeLocks* locks_ = nullptr;
    layout::ObjectId object_;
    Entry* entry_ = nullptr;
  };
  using Granted = std::move_only_function<void(Hold)>;

  RangeLocks() = default;
  RangeLocks(const RangeLocks&) = delete;
  RangeLocks& operator=(const RangeLocks&) = delete;

  enum class As : std::uint8_t {
    kOther,
    kLeads,
    kFollows,  // gets no hold, at once, when somebody who leads is there, or waits
  };
  void acquire(const layout::ObjectId& object, ByteRange range, Granted granted,
               As as = As::kOther);
  // When every hold that overlaps now and came before has its bytes written here.
  void when_local(const layout::ObjectId& object, ByteRange range, std::function<void()> done);
  [[nodiscard]] std::size_t size() const;  // holds and those who wait

 private:
  enum class Kind { kHold, kReader };
  struct Entry {
    Kind kind = Kind::kHold;
    bool leads = false;  // of a hold
    ByteRange range;
    std::uint64_t number = 0;  // in the order they came
    std::size_t before = 0;    // of a hold: holds that overlap and came before
    bool granted = false;
    bool local_pending = true;  // of a hold
    IoRing* ring = nullptr;     // where to call back
    Granted on_hold;
    std::function<void()> on_local;
  };
  // The ranges of an object.
  struct Ranges {
    std::unordered_map<std::uint64_t, std::unique_ptr<Entry>> all;  // by their numbers
    std::unordered_map<std::uint64_t, std::vector<Entry*>>
        cells;  // narrow ones, by the cells they touch
    std::vector<Entry*> wide;

    Entry& add(std::unique_ptr<Entry> entry);
    void remove(Entry* entry);
    template <class Each>
    void overlapping(ByteRange range, Each each);
  };
  struct Shard {
    mutable Mutex mutex;
    std::unordered_map<layout::ObjectId, Ranges> objects WEFT_GUARDED_BY(mutex);
    std::uint64_t next WEFT_GUARDED_BY(mutex) = 0;
  };
  using Calls = std::vector<std::pair<IoRing*, std::move_only_function<void()>>>;

  [[nodiscard]] Shard& shard_of(const layout::ObjectId& object) {
    return shards_[std::hash<layout::ObjectId>{}(object) % shards_.size()];
  }
  void local_done(const layout::ObjectId& object, Entry* entry);
  void release(const layout::ObjectId& object, Entry* entry);
  [[nodiscard]] Hold grant(const layout::ObjectId& object, Entry& entry);
  // Whether a hold that came before a reader writes here now. Who has no grant yet has sent nothing
  // either.
  [[nodiscard]] static bool must_wait(Ranges& ranges, ByteRange range, std::uint64_t number);
  // Lets those go on that waited for this one, and for nobody else. `gone`: it holds no more.
  void wake(const layout::ObjectId& object, Ranges& ranges, const Entry& entry, bool gone,
            Calls& calls);
  static void run(Calls calls);

  std::array<Shard, 64> shards_;
};

}  // namespace weft::ds
