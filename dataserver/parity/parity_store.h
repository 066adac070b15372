// ParityStore: a store over N member stores (targets), any one of which may be lost.
//
// Geometry. Rotated single parity (geometry.h): an object of the group is an object of the same
// name at each member, holding its chunks, and one of checksums beside it (blocks.h), whose header
// has the object's size. Data, parity and checksums of a stripe are written together.
//
// Crash safety. Before the first write to a region of an object, the log (group_log.h) says so; it
// is taken back when a commit has made the object stable at all members. After a crash of the data
// server, all dirty regions are gone through: blocks that match their checksums stay, the rest is
// made consistent from the data that is there. That needs all members, since an interrupted write
// may have left a stripe's parity older or newer than its data: with dirty regions and a member
// away the group does not start, rather than guess. While a member is out, each write is in the
// log with its contents before it is in place, and is stable in place before it is answered: half a
// stripe written would otherwise be the loss of the missing member's chunk.
//
// Losing a member. A member whose operation fails (error, timeout), or whose write
// verifier changes (it may have lost unstable writes), is put out: operations wait; those under
// way end at the other members, so every stripe is consistent there; what is dirty is committed
// there; the group record (group_record.h) says durably that it is out; operations begin again,
// those that failed from their start. So a target that restarts costs nobody a write: what it lacks
// is in the dirty regions, which are rebuilt from the others when it is back. If another fails
// before the record is there, or while one is out, nobody is put out: the group recovers as after a
// crash, its write verifier changes, and operations are answered kBusy until all that it needs is
// back.
//
// Full members. kNoSpace is the client's: a member that is nearly full is asked for room before
// anything of a write is written at any, and each has a reserve for what must be written all the
// same (member_room.h). So a member is never put out because it is full, and objects can be removed
// and cut. If somebody else takes the reserve, too, the group waits for room, which recovery goes
// on with; it begins with what is being removed.
//
// Replacing a member. A store that is new and empty takes the place of one that is lost: the record
// says that it lacks everything, then it is the member. All objects that the others list are
// brought to it, in the order of their places, and the record is told how far that is, so that a
// new process goes on there. What is written meanwhile is written there too, and is dirty, so that
// it is brought there again if the rebuild has to go on later.
//
// Giving a member up. When recovery waits for one member, which is lost for ever, it can be told to
// go on without: what is dirty is settled at the others, and where the member had data in it the
// parity is marked as lost (blocks.h), since it may not fit what that was. Such a row computes
// nothing: the member's block is kIo until all of it is written, which makes the row whole, and the
// others are read and written without parity. A new store in the member's place gets the mark too.
//
// Durability. Unstable writes are unstable at the members; commit() commits the object at all of
// them. The verifier is new with each start and each recovery: sizes of objects are known to
// members only from the next commit on.
//
// Corruption. A block that does not match its checksum is never returned: it is computed from the
// rest of its row, written anew and counted. Two of one row are lost: kIo, counted.
//
// Scrub (scrub.h). While the group is whole, from time to time or when told to, every stripe
// is read at all members, and what is wrong is written anew.
//
// Parts. Group has the state and the one lock over it; MemberCalls asks the members; ParityIo has
// the operations, with StripeWriter beneath; Recovery, Rebuild and Scrub run in the background.
// ParityStore is the Store over them, and the manager: it decides which of these is due, one duty
// after the other.
//
// Memory: buffers come from the pool, and kBusy is answered when it is exhausted; for an operation
// at most (members + 2) MiB at a time. Objects known are bounded by max_objects and what is dirty.
//
// Threading: operations from any thread of `rings`, with completions there. The manager (recovery,
// putting out, rebuild) runs on rings[0]. It takes no locks of ranges, because who holds one may be
// waiting for it.
//
// Ownership: members, disk, pool and rings outlive it. close(), then wait for idle(), then destroy.
//
// Invariants:
//  1. In every row of blocks of a stripe that nobody writes, the XOR over all members is zero.
//  2. Bytes of an object's last stripe beyond its size are zero, and nothing is behind that stripe.
//  3. While a member is out nothing is read from it, and the record said so before any write was
//     answered without it.
#pragma once

#include <boost/asio/steady_timer.hpp>

#include "dataserver/parity/group.h"
#include "dataserver/parity/parity_io.h"
#include "dataserver/parity/rebuild.h"
#include "dataserver/parity/recovery.h"
#include "dataserver/parity/scrub.h"

namespace weft::ds {

class ParityStore final : public Store {
 public:
  using Parts = ParityParts;
  // Precondition: options.geometry is valid and has as many members as there are.
  explicit ParityStore(Parts parts);
  ~ParityStore() override;

  // Begins recovery; operations wait for it. It goes no further than to find out which members are
  // there until allow_changes().
  void start();
  // The members are this store's to change from now on, and no newer one's. Any thread.
  void allow_changes();
  // Ends what goes on in the background, soon: idle() then.
  void close();
  [[nodiscard]] bool idle() const { return group_.idle(); }
  // For the next rebuild and the next scrub. Any thread.
  void set_rates(const ParityRates& rates) { group_.set_rates(rates); }
  [[nodiscard]] const ParityView& view() const { return group_.view(); }
  // Goes through everything in the background, as soon as the group is whole; with `only_tell`
  // nothing is changed. kBusy: a scrub goes on. Any thread.
  [[nodiscard]] Result<> begin_scrub(bool only_tell) { return scrub_.begin(only_tell); }
  // Ends it, soon. False: none went on.
  bool end_scrub() { return scrub_.end(); }
  // The member is lost for ever, though the group waits for it (view().may_give_up): it goes on
  // without it, soon, and without the blocks that only the member had. kInvalid: it does not wait
  // for this one alone. Any thread.
  [[nodiscard]] Result<> give_up(unsigned member) { return recovery_.give_up(member); }

  using Store::read;
  using Store::write;
  void read(StoreRead what, Done<ReadResult> done) override {
    group_.run(io_.read(what.object, what.offset, what.count, what.share),
               into_room(std::move(what.room), std::move(done)));
  }
  void write(StoreWrite what, Done<WriteResult> done) override {
    if (auto moved = what.to_memory(); !moved) return done(pass(moved));
    group_.run(io_.write(what.object, what.offset, std::move(what.data), what.wanted),
               std::move(done));
  }
  void commit(const layout::ObjectId& object, Done<WriteVerifier> done) override {
    group_.run(io_.commit(object), std::move(done));
  }
  void truncate(const layout::ObjectId& object, std::uint64_t size,
                Done<ObjectStat> done) override {
    group_.run(io_.truncate(object, size), std::move(done));
  }
  void remove(const layout::ObjectId& object, Done<void> done) override {
    group_.run(io_.remove(object), std::move(done));
  }
  void stat(const layout::ObjectId& object, Done<ObjectStat> done) override {
    group_.run(io_.stat(object), std::move(done));
  }
  void list(ListPlace from, std::uint32_t max, Done<ObjectList> done) override {
    group_.run(io_.list(from, max), std::move(done));
  }
  void next_data(const layout::ObjectId& object, std::uint64_t offset,
                 Done<DataRun> done) override {
    group_.run(io_.next_data(object, offset), std::move(done));
  }
  void allocate(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
                Done<void> done) override {
    group_.run(io_.allocate(object, offset, size), std::move(done));
  }
  void punch(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
             Done<void> done) override {
    group_.run(io_.punch(object, offset, size), std::move(done));
  }
  [[nodiscard]] WriteVerifier verifier() const override { return group_.verifier(); }
  // Whether all members are that are read.
  [[nodiscard]] bool settled() const override {
    return group_.calls().unsettled(group_.calls().readable(group_.mode())) == 0;
  }
  [[nodiscard]] Result<StoreStat> usage() const override { return io_.usage(); }

 private:
  enum class Duty {
    kNone,
    kRecover,
    kFailures,
    kLog,
    kEndRebuild,
    kReplace,
    kProbe,
    kBeginRebuild,
    kNote,
    kForget,
    kSweep,
    kReserve,
    kScrub
  };

  [[nodiscard]] const ParityOptions& options() const { return group_.options(); }
  void on_timer();
  void look();
  Task<bool> manage();
  [[nodiscard]] Duty next_duty();
  // False: the group must be recovered.
  Task<bool> carry_out(Duty duty);
  Task<bool> recover();
  // Of the member that is out.
  void probe();
  Task<bool> handle_failures();
  Task<bool> replace();
  Task<bool> renew_log();
  Task<bool> forget_given_up();
  Task<bool> sweep();

  parity::Group group_;
  parity::ParityIo io_{group_};
  parity::Scrub scrub_{group_};
  parity::Recovery recovery_{group_, scrub_};
  parity::Rebuild rebuild_{group_};

  // On rings[0]:
  bool managing_ = false;
  bool again_ = false;
  TimePoint next_recovery_{};
  TimePoint next_rebuild_{};
  TimePoint next_replace_{};
  TimePoint next_note_{};
  TimePoint next_reserve_{};
  bool reserving_ = false;
  bool probing_ = false;
  int there_ = -1;  // the member that was out, and has answered since
  boost::asio::steady_timer timer_;
};

}  // namespace weft::ds
