// SegmentStore: a store that learns which strips are read one after another, keeps them together on
// disk, and brings them into memory together: SOGP, semantic on-disk grouping and prefetching.
//
// For disks that rotate. A read of strips that are in segments is answered from memory; if a
// segment is not in memory, all of it is brought there, and the read waits for its part: that is
// the prefetch. All other reads go beneath. Segments are copies, made while the disk is idle
// (segment_builder.h), of what the objects beneath have: to lose them loses nothing.
//
// A change of an object first removes, durably, every segment that has a strip of its range, or of
// the object if it could become shorter; then it goes beneath. If such a segment cannot be removed
// the change fails, since after a restart the segment would answer with old bytes. So nobody may
// change the objects beneath past this store while the segments are kept: who goes on without a
// SegmentStore removes the partition before.
//
// Reads that must see the disk go beneath (StoreRead::uncached).
//
// Threading: as the store beneath; completions on the thread that began the operation. open() from
// a thread that has an IoRing, before all else; start() and stop() from the program's main thread;
// poll() from one thread with a ring. Ownership: both stores outlive it, and it is destroyed when
// idle() after stop().
#pragma once

#include <atomic>
#include <memory>

#include "dataserver/ring/ticker.h"
#include "dataserver/segments/segment_builder.h"
#include "dataserver/segments/segment_loader.h"
#include "dataserver/segments/successor_graph.h"
#include "dataserver/store/store_over.h"

namespace weft::ds {

class SegmentStore final : public StoreOver {
 public:
  // `partition` is a store with nothing else in it. `device_queue`: SegmentBuilder::Parts.
  SegmentStore(
      Store& beneath, Store& partition, const SegmentOptions& options,
      std::function<std::uint64_t()> device_queue = [] { return 0; });

  // Learns what segments there are. An error: the partition cannot be read nor cleared.
  void open(Done<void> done);
  // Polls once a second on this ring's thread.
  void start(IoRing& ring);
  void stop();
  [[nodiscard]] bool idle() const {
    return !builder_.busy() && !ticker_.running() && loader_.idle();
  }
  void poll() { builder_.poll(); }
  [[nodiscard]] const SegmentTable& table() const { return table_; }

  // A client is about to read this, be it answered from memory above. What no client asked for is
  // not told.
  void note_read(std::uint64_t client, const layout::ObjectId& object, std::uint64_t offset,
                 std::uint32_t count);

  using Store::read;
  using Store::write;
  void read(StoreRead what, Done<ReadResult> done) override;
  void write(StoreWrite what, Done<WriteResult> done) override;
  void commit(const layout::ObjectId& object, Done<WriteVerifier> done) override {
    beneath_.commit(object, beneath(std::move(done)));
  }
  void truncate(const layout::ObjectId& object, std::uint64_t size, Done<ObjectStat> done) override;
  void remove(const layout::ObjectId& object, Done<void> done) override;
  void allocate(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
                Done<void> done) override;
  void punch(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
             Done<void> done) override;

 private:
  struct ReadOp;
  void look(std::shared_ptr<ReadOp> op);
  void read_beneath(ReadOp& op);
  void ask_end(std::shared_ptr<ReadOp> op, std::uint64_t entry);
  void load(std::shared_ptr<ReadOp> op, const SegmentTable::SegmentPtr& segment, std::size_t piece);

  // Counted as an operation beneath until it is answered.
  template <class T>
  [[nodiscard]] Done<T> beneath(Done<T> done) {
    begun_.fetch_add(1);
    under_way_.fetch_add(1);
    return [this, done = std::move(done)](Result<T> result) mutable {
      under_way_.fetch_sub(1);
      done(std::move(result));
    };
  }
  // Removes what has bytes of the range, then `go(done)` changes it.
  template <class T, class Go>
  void change(const layout::ObjectId& object, std::uint64_t begin, std::uint64_t end, Go go,
              Done<T> done);
  template <class T, class Go>
  void change_all(const layout::ObjectId& object, Go go, Done<T> done);
  [[nodiscard]] std::vector<StripGroup> groups();

  SegmentPartition partition_;
  SegmentTable table_;
  SegmentLoader loader_;
  std::atomic<std::uint64_t> begun_{0};
  std::atomic<std::uint64_t> under_way_{0};
  Mutex mutex_;
  SuccessorGraph graph_ WEFT_GUARDED_BY(mutex_);
  bool observed_ WEFT_GUARDED_BY(mutex_) = false;  // since groups() was asked
  SegmentBuilder builder_;
  Ticker ticker_;
};

}  // namespace weft::ds
