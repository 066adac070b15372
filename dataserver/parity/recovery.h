// Recovery of a parity group: after a start, or after more failed than one member.
//
// It reads the record and the log, finds out which members are there, does again what was under way
// without a member, makes what is dirty consistent, and ends cuts that had begun. What is removed
// goes first: the rest may need room. That needs all
// members, or all but the one that is out; otherwise it fails, says what it waits for, and is tried
// again. So it is while a call that failed may be carried out at a member yet (Store::settled()):
// that must not come after what recovery does. If it waits for one member alone, it can be told to
// go on without (give_up()).
//
// Until it is told that the members are this group's to change, it only finds out who is there:
// this process may be an old copy of the one that has them.
//
// Threading: recover() on rings[0], with no operation under way; the rest from any thread.
#pragma once

#include <set>

#include "dataserver/parity/stripe_writer.h"

namespace weft::ds::parity {

class Scrub;

class Recovery {
 public:
  Recovery(Group& group, Scrub& scrub) : group_(group), scrub_(scrub), stripes_(group) {}

  // False: it is to be tried again. Otherwise operations go on.
  Task<bool> recover();
  // The members may be changed from now on. False: that was known.
  bool allow_changes() { return !may_change_.exchange(true); }
  [[nodiscard]] bool may_change() const { return may_change_.load(); }
  // The member is lost for ever, though the group waits for it.
  [[nodiscard]] Result<> give_up(unsigned member);

 private:
  // Of an object that is settled.
  struct Settled {
    std::uint64_t size = 0;
    std::uint32_t gone = 0;                  // Object::gone
    int absent = -1;                         // the member that is given up
    std::vector<std::vector<bool>> changed;  // blocks of an image, by member
    std::vector<bool> holes;                 // rows of it that the others have nothing of
    std::uint64_t given_up = 0;              // blocks, so far,
    ByteRange lost{};                        // and where they are
  };

  [[nodiscard]] const ParityGeometry& geometry() const { return group_.geometry(); }
  [[nodiscard]] unsigned members() const { return group_.members(); }
  [[nodiscard]] BufferPool& pool() const { return group_.parts().pool; }
  // The record, and what is to be done about the log.
  Task<Result<LogState>> load_group();
  void wait_for(std::uint32_t away, const LogState& log);
  void will_be_out(Mode mode, int member);
  void wait_for_late(std::uint32_t members);
  [[nodiscard]] std::uint32_t unreachable() const;
  Task<bool> go_without(Op& op, const LogState& log);
  Task<bool> go_on_without(Op& op, unsigned member, const LogState& log);
  Task<bool> free_room(Op& op, LogState& log);
  Task<bool> redo_contents(Op& op, const LogState& log);
  Task<bool> cut_ends(Op& op, const LogState& log);
  Task<bool> redo_cuts(Op& op, LogState& log);
  // False: it is to be tried again. An object without a header that can be read is unread_.
  Task<bool> read_header(Op& op, ObjectId object, Object& into);
  [[nodiscard]] static std::uint32_t surely_gone(const Object& state);
  Task<bool> recover_object(Op& op, ObjectId object, std::set<std::uint64_t> regions,
                            std::uint64_t& given_up);
  Task<bool> resync(Op& op, ObjectId object, std::uint64_t first, std::uint64_t last,
                    Settled& settled);
  Task<bool> find_holes(Op& op, const Image& image, Settled& settled);
  [[nodiscard]] bool clear_behind(Image& image, std::size_t row, Settled& settled);
  void give_up_block(Image& image, std::size_t row, Settled& settled);
  [[nodiscard]] bool give_up_unread(Image& image, std::size_t row, Settled& settled);
  [[nodiscard]] bool give_up_damaged(Image& image, std::size_t row, Settled& settled);
  void give_up_at(Image& image, std::size_t row, unsigned member, Settled& settled);
  [[nodiscard]] static bool compute_torn(Image& image, std::size_t row, unsigned which,
                                         Settled& settled);
  void settle_row(Image& image, std::size_t row, Settled& settled);

  Group& group_;
  Scrub& scrub_;
  StripeWriter stripes_;
  // Objects that are left as they are, and dirty: how far they go is not known.
  std::set<ObjectId> unread_;
  std::uint32_t away_ = 0;  // members that did not answer when they were asked last
  std::uint32_t told_ = 0;  // members of which the log says that they are waited for
  std::atomic<bool> may_change_{false};
  std::atomic<int> give_up_{-1};  // a member that recovery is to go on without
};

}  // namespace weft::ds::parity
