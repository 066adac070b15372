// Rebuild of a member of a parity group that was out: it gets what it missed, or, if it is a new
// store in the place of one that is lost, everything.
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
  // False: the member is not there.
  Task<bool> begin();
  // Makes the member one that is read, if it still has all. False: the group must be recovered.
  Task<bool> end();
  // How far it is, to the disk. False: the group must be recovered.
  Task<bool> note_progress();
  // The group is closed.
  void wake() { timer_.cancel(); }

 private:
  using ObjectPtr = Group::ObjectPtr;
  // Of a member that lacks all, all that is not zeros; otherwise these regions.
  struct Missed {
    bool all = false;
    std::set<std::uint64_t> regions;
  };

  [[nodiscard]] const ParityGeometry& geometry() const { return group_.geometry(); }
  [[nodiscard]] unsigned members() const { return group_.members(); }
  Task<bool> run(Group::DirtyRegions objects, std::optional<Progress> everything);
  Task<Result<>> rebuild_everything(Progress progress, TokenBucket& rate);
  Task<Result<>> rebuild_object(ObjectId object, Missed missed, TokenBucket& rate);
  Task<Result<>> rebuild_range(ObjectId object, ByteRange stripes, bool all, TokenBucket& rate);
  Task<Result<>> rebuild_shape(Op& op, ObjectId object, ObjectPtr& state);
  Task<Result<>> rebuild_stripes(Op& op, ObjectId object, std::uint64_t first, std::uint64_t last,
                                 bool all);

  Group& group_;
  boost::asio::steady_timer timer_;
};

}  // namespace weft::ds::parity
