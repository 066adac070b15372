// The files of segments and their index, in a store of their own.
//
//   number n, generation 1   the segment n: its strips one after another, 64 KiB each, one that is
//                            shorter filled up with zeros
//   number n, generation 2   the n-th index (segment_index.h)
//
// all with the file system id 0xffffffff. A new index is written beside the last, which is removed
// when it is durable. Any whole index is right, since what it names is a segment only if its file
// is there, and numbers are not used twice; so the newest whole one is taken. Without one, all
// segments are removed: they hold nothing that is not elsewhere.
//
// Threading: from threads with an IoRing; each operation's thread is that of its caller. open() and
// write_index() by one caller at a time. Ownership: the store outlives it, and so do callers.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "dataserver/segments/segment_index.h"
#include "dataserver/store/store.h"
#include "rpc/base/task.h"

namespace weft::ds {

class SegmentPartition {
 public:
  template <class T>
  using Done = Store::Done<T>;
  using PieceDone = std::function<void(std::size_t piece, Result<>)>;

  explicit SegmentPartition(Store& files) : files_(files) {}

  // The segments there are, before anything else is done. What cannot be used is removed. An error
  // only if that failed: then nobody may go on as if there were no segments.
  [[nodiscard]] Task<Result<SegmentIndex>> open();

  // All of a segment into `memory`, which is as long as it is: its pieces side by side, and `done`
  // is called once for each. kIo, kCorrupt when there is less.
  void read(std::uint64_t number, const Buffer& memory, const PieceDone& done);
  // Durable when it is done. Precondition: the number has not been used.
  [[nodiscard]] Task<Result<>> write(std::uint64_t number, const Buffer& bytes);
  // Durable, too. Success when it is not there.
  void remove(std::uint64_t number, Done<void> done);
  // Of several, all of which are tried; told one by one what is gone.
  void remove_all(std::vector<std::uint64_t> numbers, std::function<void(std::uint64_t)> gone,
                  Done<void> done);
  [[nodiscard]] Task<Result<>> write_index(const SegmentIndex& index);

 private:
  [[nodiscard]] Task<Result<>> write_file(layout::ObjectId file, const Buffer& bytes);
  [[nodiscard]] Task<Result<std::vector<layout::ObjectId>>> list();
  // What of an index file holds: nothing if it is damaged or torn.
  [[nodiscard]] Task<Result<std::optional<SegmentIndex>>> read_index(layout::ObjectId file);
  [[nodiscard]] Task<Result<>> remove_files(std::vector<layout::ObjectId> files);

  Store& files_;
  std::uint64_t last_index_ = 0;        // the greatest number that was given out
  std::vector<std::uint64_t> indices_;  // that may be there
};

}  // namespace weft::ds
