// Brings segments into memory: two at a time, and those that wait in the order in which their files
// were made, which is about that of their places on the disk. All at once they would cost a seek
// for each of their pieces. What comes while those are read waits for the next sweep: so nobody
// waits for more than two, each of what memory holds. One that the kernel has in its page cache
// waits with the others.
//
// What of a segment is there answers reads at once: who waits for that piece is called.
//
// Threading: load() from threads with an IoRing. The read of one that waits begins on the thread on
// which another ended. Ownership: what it refers to outlives it, and it is destroyed when idle()
// and nothing is being removed from the partition.
#pragma once

#include <map>

#include "dataserver/segments/segment_partition.h"
#include "dataserver/segments/segment_table.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

class SegmentLoader {
 public:
  SegmentLoader(SegmentPartition& partition, SegmentTable& table)
      : partition_(partition), table_(table) {}

  // After Load::kStart of the table, with the memory that it gave. `ended` is called when all of it
  // has come, or not.
  void load(const SegmentTable::SegmentPtr& segment, Buffer memory, Store::Done<void> ended);
  [[nodiscard]] bool idle() const;

 private:
  struct Job {
    SegmentTable::SegmentPtr segment;
    Buffer memory;
    std::size_t left = 0;  // pieces
    Store::Done<void> ended;
  };
  using JobPtr = std::shared_ptr<Job>;

  [[nodiscard]] JobPtr take() WEFT_REQUIRES(mutex_);
  void begin(const JobPtr& job);
  void end(Job& job);
  void piece_came(Job& job, std::size_t piece, Result<> result);

  SegmentPartition& partition_;
  SegmentTable& table_;
  mutable Mutex mutex_;
  std::map<std::uint64_t, JobPtr> sweep_ WEFT_GUARDED_BY(mutex_);  // by number
  std::map<std::uint64_t, JobPtr> later_ WEFT_GUARDED_BY(mutex_);  // the next sweep's
  unsigned running_ WEFT_GUARDED_BY(mutex_) = 0;
};

}  // namespace weft::ds
