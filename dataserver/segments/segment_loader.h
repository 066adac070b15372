// Brings segments into memory: two at a time, and of those that wait the one whose file was made
// next after the last one's, as an arm goes over a disk. Files are made one after the other, so
// that is about the order of their places; all at once they would cost a seek for each of their
// pieces.
//
// What of a segment is there answers reads at once: the table calls who waits for that piece.
//
// Threading: load() from threads with an IoRing. The read of one that waits begins on the thread on
// which another ended. Ownership: what it refers to outlives it, and it is destroyed when nothing
// is being loaded.
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

 private:
  struct Job {
    SegmentTable::SegmentPtr segment;
    Buffer memory;
    std::size_t left = 0;  // pieces
    Store::Done<void> ended;
  };
  using JobPtr = std::shared_ptr<Job>;

  [[nodiscard]] JobPtr take() WEFT_EXCLUDES(mutex_);
  void begin_next();
  void end(const JobPtr& job);
  void piece_came(Job& job, std::size_t piece, Result<> result);

  SegmentPartition& partition_;
  SegmentTable& table_;
  Mutex mutex_;
  std::map<std::uint64_t, JobPtr> waiting_ WEFT_GUARDED_BY(mutex_);  // by number
  unsigned running_ WEFT_GUARDED_BY(mutex_) = 0;
  std::uint64_t next_ WEFT_GUARDED_BY(mutex_) = 0;  // the number after that of the last begun
};

}  // namespace weft::ds
