// Writes groups of strips as segments while the disk has nothing else to do.
//
// Told once a second how things are; idle is when for SegmentOptions::idle in a row nothing was
// under way here, and nothing waited at the device. Then the groups that are no segments yet are
// written, one after the other, until all are or an operation comes: of each the strips are read
// and their objects made durable, so that no segment outlives what it is a copy of; then the
// segment is written and made durable, and those that it takes the place of are removed. At the end
// comes the index. A group that is a piece of one object anyway, and read in its order, is left: it
// gains nothing. Where the disk is full the round ends, and the next one comes when something was
// read again.
//
// Threading: poll() and all that follows on one thread, with an IoRing; the rest from any.
// Ownership: what it refers to outlives it, and it is destroyed when busy() is false.
#pragma once

#include <atomic>
#include <functional>

#include "dataserver/segments/segment_partition.h"
#include "dataserver/segments/segment_table.h"

namespace weft::ds {

class SegmentBuilder {
 public:
  struct Parts {
    Store& beneath;
    SegmentPartition& partition;
    SegmentTable& table;
    // The groups there are now; nothing when nobody has read anything since they were last asked.
    std::function<std::vector<StripGroup>()> groups;
    // Operations that have gone beneath so far, and those that are there now.
    std::function<std::uint64_t()> begun;
    std::function<std::uint64_t()> under_way;
    std::function<std::uint64_t()> device_queue;  // what waits at the device, of others too
    std::chrono::seconds idle;
  };
  explicit SegmentBuilder(Parts parts) : parts_(std::move(parts)) {}

  void poll();
  // No more of it: what goes on ends soon.
  void stop() { stopped_.store(true); }
  [[nodiscard]] bool busy() const { return busy_.load(); }

 private:
  [[nodiscard]] Task<bool> round(std::vector<StripGroup> groups);
  [[nodiscard]] Task<bool> remove_doomed();
  [[nodiscard]] Task<bool> build(StripGroup group);
  // The record of what was read into the memory; nothing when it is not to be.
  [[nodiscard]] Task<std::optional<SegmentRecord>> gather(const StripGroup& group,
                                                          std::uint64_t number, Buffer& memory);
  // False if what was read since the verifier was this may be lost.
  [[nodiscard]] Task<bool> make_durable(const StripGroup& group, WriteVerifier before);
  [[nodiscard]] Task<bool> remove(std::vector<std::uint64_t> numbers);
  [[nodiscard]] bool disturbed() const { return stopped_.load() || parts_.begun() != begun_; }

  const Parts parts_;
  std::atomic<bool> stopped_{false};
  std::atomic<bool> busy_{false};
  std::uint64_t begun_ = 0;  // when it was last idle
  unsigned idle_polls_ = 0;
  bool unfinished_ = false;  // a round was disturbed: groups_ are still to be looked at
  bool index_is_old_ = false;
  bool disk_is_full_ = false;  // it was in this round
  std::vector<StripGroup> groups_;
};

}  // namespace weft::ds
