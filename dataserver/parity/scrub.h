// Scrub of a parity group: reads every stripe of every object at all members, and makes right what
// is wrong, before a second fault makes it a loss.
//
// Of each row of blocks (geometry.h), with its stripes held as a write holds them:
//
//   all match their checksums, the XOR is zero    right
//   all match, the XOR is not zero                the parity is computed from the data, and written
//   one does not match, or cannot be read         computed from the others, and written anew with
//                                                 its checksum, whichever of the two was wrong
//   two or more do not                            lost: counted, told, and left as they are
//
// A block of zeros with the checksum 0 may be a hole or what is left when a member has lost the
// object. So where a row does not fit and has one in its data, nothing says which block is wrong,
// and the row counts as lost; but if that member has no header either, while others have, it is the
// one that lost the object, and gets it back.
//
// Headers of objects that are damaged or differ are written anew from those that hold; that of a
// member that lost the object when it has all of it again.
//
// It runs while the group is whole only. When a member goes out it lets go of what it holds, waits
// until the group is whole again, after a rebuild or a recovery, and goes on where it was. What
// cannot be gone through after some tries is counted and left out.
//
// How far it is goes to the disk every note_every, an object at a time, so that a new process goes
// on there; what is done twice does no harm.
//
// Threading: begin() and end() from any thread, the rest on rings[0]; due() takes no lock.
#pragma once

#include <boost/asio/steady_timer.hpp>

#include "dataserver/parity/group.h"
#include "dataserver/parity/scrub_record.h"
#include "dataserver/ring/token_bucket.h"

namespace weft::ds::parity {

class Scrub {
 public:
  explicit Scrub(Group& group) : group_(group), timer_(group.parts().rings.front()->context()) {}

  // What the disk has of it; nothing: the time until the next counts from now.
  Task<bool> load(std::vector<std::byte> bytes);
  [[nodiscard]] Result<> begin(bool only_tell);
  bool end();
  // Whether one is to begin, or to go on after a start.
  [[nodiscard]] bool due();
  Task<bool> run();
  // A member has lost an object, and likely others: one begins soon, but no more than one an hour.
  void object_gone();
  // What is lost may be where it has been already.
  void gave_up() { from_the_first_ = false; }
  // The group is closed.
  void wake() { timer_.cancel(); }

 private:
  enum class Want : std::uint8_t { kNothing, kRepair, kTell };
  // The object it is at.
  struct Subject {
    ObjectId object;
    Group::ObjectPtr state;
    std::uint64_t rows = 0;    // that it may have at a member
    std::uint32_t absent = 0;  // members that have no header of it, though others have
    std::uint64_t next = 0;    // the first stripe behind those just checked that has something
  };

  [[nodiscard]] const ParityOptions& options() const { return group_.options(); }
  [[nodiscard]] std::uint64_t seconds_now() const;
  [[nodiscard]] bool stopped() const;
  void prepare();
  Task<Result<>> everything();
  Task<Result<>> one_object(ObjectId object);
  Task<Result<>> check_shape(Op& op, Subject& at, ScrubFindings& found);
  Task<Result<>> check_headers(Op& op, Subject& at, ScrubFindings& found);
  Task<Result<>> read_headers(Op& op, ObjectId object, std::vector<std::vector<std::byte>>& into);
  Task<Result<>> check_stripes(Op& op, Subject& at, std::uint64_t first, std::uint64_t last,
                               ScrubFindings& found);
  Task<Result<>> look_on(Op& op, Subject& at, const Image& image, std::uint64_t last);
  struct Rows {
    Image& image;
    std::uint64_t size;    // of the object
    std::uint32_t absent;  // as Subject's
    std::vector<std::vector<bool>> changed;
  };
  void judge_row(Rows& rows, std::size_t row, ScrubFindings& found);
  [[nodiscard]] std::optional<unsigned> gone(const Rows& rows, std::size_t row,
                                             std::optional<unsigned> but) const;
  [[nodiscard]] bool has_hole(const Rows& rows, std::size_t row, unsigned but) const;
  void lost(const Rows& rows, std::size_t row, unsigned blocks, ScrubFindings& found);
  template <class Attempt>
  Task<Result<>> while_whole(ObjectId object, ByteRange range, Attempt attempt);
  Task<bool> until_whole();
  Task<bool> pause(Nanoseconds time);
  Task<bool> throttle(std::uint64_t bytes);
  void count(const ScrubFindings& found);
  void show(std::uint64_t part, std::uint64_t parts);
  Task<bool> save();

  Group& group_;
  std::atomic<Want> wanted_{Want::kNothing};
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> not_again_before_{0};  // object_gone(), seconds
  // Of rings[0]:
  bool loaded_ = false;
  bool running_ = false;
  bool from_the_first_ = false;  // all of it since it began
  ScrubRecord record_;
  TokenBucket rate_{0, {}};
  TimePoint began_{};    // in this process
  double began_at_ = 0;  // how much of it was done then
  TimePoint next_note_{};
  boost::asio::steady_timer timer_;
};

}  // namespace weft::ds::parity
