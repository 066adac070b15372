// Rebuild of a member of a parity group that was out: it gets what it missed, or, if it is a new
// store in the place of one that is lost, everything.
//
// A row in which another block is damaged or lost computes nothing. What the member has there may
// be from before it went out, with a checksum that holds. It is kept where the checksum of the
// other block proves it, and mends that one; and where the row had been given up before, since
// nothing can be written then at a member that is out. Otherwise it is lost (blocks.h), durably
// before the member is read.
//
// A member without a header of an object may have data of it from before it went out, or from a
// rebuild that did not get to its end. So zeros are left out only where it has nothing but zeros.
//
// The manager begins and ends it while no operation is under way. Between that a task goes through
// what the member missed, and holds stripes as an operation does.
//
// Threading: rings[0]; takes no lock but those of ranges.
#pragma once

#include <boost/asio/steady_timer.hpp>

#include "dataserver/parity/group.h"
#include "dataserver/ring/token_bucket.h"

namespace weft::ds::parity {

class Rebuild {
 public:
  explicit Rebuild(Group& group) : group_(group), timer_(group.parts().rings.front()->context()) {}

  // A member that a new store would take the place of: the one that is out, or any when none is;
  // or -1.
  [[nodiscard]] int offered(const Mode& mode) const;
  // The new store takes the place of the member that is out, if it is accepted. False: the group
  // must be recovered.
  Task<bool> replace(bool& accepted);
  // Whether the member that is out answers, and no call that failed may be carried out there yet.
  Task<bool> probe();
  // Once it does. False: such a call may be, after all.
  Task<bool> begin();
  // Makes the member one that is read, if it still has all. False: the group must be recovered.
  Task<bool> end();
  // How far it is, to the disk. False: the group must be recovered.
  Task<bool> note_progress();
  // The group is closed.
  void wake() { timer_.cancel(); }

 private:
  using ObjectPtr = Group::ObjectPtr;
  // The object it is at. Of a member that lacks all, it gets all that is not zeros; otherwise what
  // is in these regions, and what is behind the cut goes.
  struct Subject {
    ObjectId object;
    bool all = false;
    std::set<std::uint64_t> regions;
    std::optional<std::uint64_t> cut;
    ObjectPtr state;
    bool header_last = false;  // until it has all, it is one that has lost the object
  };
  // Some stripes of it.
  struct Part {
    Image image;
    Image old;  // what the member has, where that is looked at
    std::uint64_t size = 0;
    unsigned member = 0;
    bool known = false;          // what the member has may be what was there before it went out
    bool blank = false;          // it has no header: its zeros may be what it has lost
    std::vector<bool> wanted{};  // rows to be written there
    std::vector<std::pair<unsigned, std::size_t>> others{};  // blocks of others to be written
    std::uint64_t mended = 0;                                // those of them that are known
    std::uint64_t lost = 0;                                  // rows,
    std::uint64_t lost_anew = 0;  // and those of which nothing was known to be lost before
  };

  [[nodiscard]] const ParityGeometry& geometry() const { return group_.geometry(); }
  [[nodiscard]] unsigned members() const { return group_.members(); }
  Task<bool> run(Group::DirtyRegions objects, std::optional<Progress> everything);
  Task<Result<>> rebuild_everything(Progress progress, TokenBucket& rate);
  Task<Result<>> rebuild_object(Subject at, TokenBucket& rate);
  Task<Result<>> shape_object(Subject& at);
  Task<Result<>> rebuild_range(const Subject& at, ByteRange stripes, TokenBucket& rate);
  Task<Result<>> rebuild_shape(Op& op, Subject& at);
  Task<Result<>> write_header(Op& op, const Subject& at);
  // `empty`: they have nothing but zeros at all members, at this one too.
  Task<Result<>> rebuild_stripes(Op& op, const Subject& at, std::uint64_t first, std::uint64_t last,
                                 bool& empty);
  // The first stripe at or after this one that has something.
  Task<Result<std::uint64_t>> next_stripe(const Subject& at, std::uint64_t from);
  Task<Result<>> load_old(Op& op, Part& part);
  Task<Result<>> settle_rest(Op& op, Part& part);
  void settle_row(Part& part, std::size_t row) const;
  [[nodiscard]] bool keep_beside_lost(Part& part, std::size_t row, unsigned parity) const;
  void give_up_row(Part& part, std::size_t row, unsigned parity) const;
  [[nodiscard]] bool prove(Part& part, std::size_t row) const;
  Task<Result<>> write_part(Op& op, Part& part);

  Group& group_;
  boost::asio::steady_timer timer_;
  std::uint64_t lost_ = 0;  // rows, by this rebuild
};

}  // namespace weft::ds::parity
