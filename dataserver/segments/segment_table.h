// What a data server knows of its segments: which strips are where, what of them is in memory, and
// which may no longer be used. It decides; who does the I/O is told what to do.
//
//   building   the builder reads its strips. A change of one of them spoils it: it comes to nothing
//   listed     its file is whole on the disk. It answers reads, and may be in an index
//   doomed     a change has come, or its bytes do not hold. It answers nothing any more; its strips
//              are known as long as its file may be there, so that each change of them waits for
//              its removal
//
// Strips of a group of which the object had no bytes, as behind its end, are not in the segment's
// file. The table knows them as the segment's all the same, until the next start, so that the group
// is seen to be a segment until one of them is written. They answer nothing.
//
// Threading: any thread. Waiters are called by who calls end_load(), not under the mutex.
//
// Memory: segments in memory, and those of which replies still hold parts, are cache_bytes at most;
// the table itself takes about 150 bytes a strip.
//
// Invariants:
//  1. A strip is in one segment at most, listed or doomed.
//  2. A change of an object's bytes that could be in a segment that was ever listed does not go on
//     before that segment's file is durably removed: no crash brings old bytes back.
//  3. What is built is what the object has: nothing of the objects is under way when the build
//     begins, and no change of its strips begins before it is listed.
//  4. An object's end is told as it was before or after what is under way: writes only move it up,
//     and whatever may make an object shorter dooms all segments that have strips of it. When the
//     store beneath may have lost writes it is asked for again.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "dataserver/ring/io_ring.h"
#include "dataserver/segments/segment_index.h"
#include "dataserver/store/store.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

struct SegmentOptions {
  std::uint64_t size = 0;                                // of the partition, bytes; 0: no segments
  std::uint64_t cache_bytes = std::uint64_t{256} << 20;  // in memory
  unsigned best = 2;                                     // successor_graph.h
  unsigned recent = 4;
  std::uint32_t history = 65'536;  // strips whose successors are remembered
  std::chrono::seconds idle{5};    // before groups are written
  [[nodiscard]] bool on() const { return size > 0; }
};

// Counts, for any thread.
struct SegmentView {
  std::atomic<std::uint64_t> reads{0};      // that clients asked
  std::atomic<std::uint64_t> hits{0};       // answered from a segment in memory
  std::atomic<std::uint64_t> hit_bytes{0};  // by those, and by reads that waited for a segment
  std::atomic<std::uint64_t> waits{0};      // reads that waited for a segment to come from disk
  std::atomic<std::uint64_t> loads{0};      // segments that came from disk
  std::atomic<std::uint64_t> loaded_bytes{0};
  std::atomic<std::uint64_t> built{0};
  std::atomic<std::uint64_t> built_bytes{0};
  std::atomic<std::uint64_t> invalidated{0};  // because of a change
  std::atomic<std::uint64_t> replaced{0};     // by others, or for want of room
  std::atomic<std::uint64_t> damaged{0};      // that did not read as they were written
  std::atomic<std::uint64_t> segments{0};     // now
  std::atomic<std::uint64_t> bytes{0};        // now, on disk
};

class SegmentTable {
 public:
  explicit SegmentTable(const SegmentOptions& options);
  SegmentTable(const SegmentTable&) = delete;
  SegmentTable& operator=(const SegmentTable&) = delete;

  class Segment;
  using SegmentPtr = std::shared_ptr<Segment>;
  [[nodiscard]] static std::uint64_t number_of(const SegmentPtr& segment);
  [[nodiscard]] static std::size_t pieces_of(const SegmentPtr& segment);
  [[nodiscard]] static std::uint64_t sum_of(const SegmentPtr& segment, std::size_t piece);

  // --- Reading

  struct Found {
    enum class Kind {
      kNothing,  // read beneath
      kEnd,      // ask beneath where the object ends, tell it by learn_end(), and look again
      kLoad,     // bring `segment` into memory, and look again when `piece` of it is there
      kBytes,    // here they are
    };
    Kind kind = Kind::kNothing;
    SegmentPtr segment;
    std::size_t piece = 0;
    std::uint64_t entry = 0;  // for learn_end()
    ReadResult result;
  };
  // `verifier` is the store's beneath, now: another than before says that writes may be lost, and
  // where objects end is not known any more.
  [[nodiscard]] Found find(const layout::ObjectId& object, std::uint64_t offset,
                           std::uint32_t count, WriteVerifier verifier);
  void learn_end(const layout::ObjectId& object, std::uint64_t entry, std::uint64_t end);

  struct Waiter {
    IoRing* ring = nullptr;  // of the thread that it is to be called on
    std::move_only_function<void()> go_on;
  };
  enum class Load { kStart, kJoined, kThere, kRefused };
  // kStart: `memory` is to be filled, and end_load() called for each piece. kJoined: the waiter has
  // been taken, and is called when the piece is there or not to be had. kRefused: there is no room
  // just now, or it is doomed.
  [[nodiscard]] Load begin_load(const SegmentPtr& segment, std::size_t piece, Waiter waiter,
                                Buffer& memory);
  enum class Came { kWhole, kNot, kDamaged };  // of a piece; kNot: just now
  struct Loaded {
    std::vector<Waiter> waiters;  // who waited for it
    bool dropped = false;         // it was listed, and is damaged: it is to be removed
  };
  [[nodiscard]] bool is_doomed(const SegmentPtr& segment) const;
  // What came of a piece. What a change has doomed meanwhile may be removed in part: that is no
  // damage.
  [[nodiscard]] Loaded end_load(const SegmentPtr& segment, std::size_t piece, Came came);

  // --- Changing

  // Bytes [begin, end) of an object are to be changed. What is returned is to be removed before.
  [[nodiscard]] std::vector<std::uint64_t> begin_change(const layout::ObjectId& object,
                                                        std::uint64_t begin, std::uint64_t end);
  // Its file is durably gone.
  void removed(std::uint64_t number);
  // The end that the object has after it; nothing when that is not known, as after an error, or of
  // a write that may be lost since.
  void end_change(const layout::ObjectId& object, std::optional<std::uint64_t> object_end);

  // --- Building, one at a time

  // The number of the segment to be; nothing when one of the objects is being changed, or the
  // group is a segment already, or one of its strips is in a doomed segment.
  [[nodiscard]] std::optional<std::uint64_t> begin_build(const StripGroup& group);
  [[nodiscard]] bool spoiled() const;
  // Dooms those that share a strip with it, and those used longest ago, as many as it takes. They
  // are to be removed before it is listed.
  [[nodiscard]] std::vector<std::uint64_t> make_room(std::uint64_t bytes);
  // Ends the build; strips of the group that are not in the record have no bytes. False: it came to
  // nothing, and its file is to be removed.
  [[nodiscard]] bool end_build(std::optional<SegmentRecord> record);

  // --- Starting and keeping

  // Those of the index whose files are there. Precondition: the table is empty.
  void restore(SegmentIndex index);
  [[nodiscard]] SegmentIndex index() const;
  // Whose removal failed: to be tried again.
  [[nodiscard]] std::vector<std::uint64_t> doomed() const;

  [[nodiscard]] SegmentView& view() { return view_; }
  [[nodiscard]] const SegmentView& view() const { return view_; }
  [[nodiscard]] std::uint64_t memory_bytes() const { return memory_->load(); }

 private:
  struct Place {
    SegmentPtr segment;
    std::uint32_t slot;   // of kStrip bytes
    std::uint32_t bytes;  // 0: it is not in the file
  };
  struct Object {
    std::map<std::uint64_t, Place> strips;
    std::uint64_t end = 0;
    bool end_known = false;
    std::uint64_t entry = 0;
  };
  struct Build {
    std::uint64_t number;
    StripGroup group;
    bool spoiled = false;
  };
  using Age = std::list<SegmentPtr>;

  void add(SegmentRecord record, StripGroup absent) WEFT_REQUIRES(mutex_);
  void place(const Strip& strip, Place at) WEFT_REQUIRES(mutex_);
  void forget(const Strip& strip) WEFT_REQUIRES(mutex_);
  void doom(const SegmentPtr& segment) WEFT_REQUIRES(mutex_);
  void forget_ends() WEFT_REQUIRES(mutex_);
  void forget_memory(Segment& segment) WEFT_REQUIRES(mutex_);
  void piece_came(const SegmentPtr& segment, std::size_t piece, bool whole) WEFT_REQUIRES(mutex_);
  void spoil(const layout::ObjectId& object, std::uint64_t first, std::uint64_t last)
      WEFT_REQUIRES(mutex_);
  [[nodiscard]] bool buildable(const StripGroup& group) const WEFT_REQUIRES(mutex_);
  [[nodiscard]] bool is_segment(const StripGroup& group) const WEFT_REQUIRES(mutex_);
  [[nodiscard]] const Place* place_of(const Strip& strip) const WEFT_REQUIRES(mutex_);
  [[nodiscard]] Buffer memory_for(std::uint64_t bytes) WEFT_REQUIRES(mutex_);

  const SegmentOptions options_;
  SegmentView view_;
  const std::shared_ptr<std::atomic<std::uint64_t>> memory_;  // in use, by replies too
  mutable Mutex mutex_;
  std::unordered_map<std::uint64_t, SegmentPtr> segments_ WEFT_GUARDED_BY(mutex_);
  std::unordered_map<layout::ObjectId, Object> objects_ WEFT_GUARDED_BY(mutex_);
  std::unordered_map<layout::ObjectId, std::uint64_t> changing_ WEFT_GUARDED_BY(mutex_);
  Age by_use_ WEFT_GUARDED_BY(mutex_);     // listed, what was used last first
  Age in_memory_ WEFT_GUARDED_BY(mutex_);  // likewise
  std::optional<Build> build_ WEFT_GUARDED_BY(mutex_);
  std::uint64_t next_number_ WEFT_GUARDED_BY(mutex_) = 1;
  WriteVerifier verifier_ WEFT_GUARDED_BY(mutex_) = 0;
  std::uint64_t last_entry_ WEFT_GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_ WEFT_GUARDED_BY(mutex_) = 0;  // of all files that may be there
};

}  // namespace weft::ds
