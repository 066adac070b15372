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
// Losing a member. A member whose operation fails (error, timeout, no space), or whose write
// verifier changes (it may have lost unstable writes), is put out: operations wait; those under
// way end at the other members, so every stripe is consistent there; what is dirty is committed
// there; the group record (group_record.h) says durably that it is out; operations begin again,
// those that failed from their start. So a target that restarts costs nobody a write: what it lacks
// is in the dirty regions, which are rebuilt from the others when it is back. If another fails
// before the record is there, or while one is out, nobody is put out: the group recovers as after a
// crash, its write verifier changes, and operations are answered kBusy until all that it needs is
// back.
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
// Scrub (parity_scrub.h). While the group is whole, from time to time or when told to, every stripe
// is read at all members, and what is wrong is written anew.
//
// Order. Writes, truncates and punches hold the stripes they touch (RangeLocks), so one at a time
// in a stripe, others side by side. Reads take no lock unless something does not match or has to
// be computed.
//
// Memory: buffers come from the pool, and kBusy is answered when it is exhausted; for an operation
// at most (members + 2) MiB at a time. Objects known are bounded by max_objects and what is dirty.
//
// Threading: operations from any thread of `rings`, with completions there. The manager (recovery,
// putting out, rebuild) runs on rings[0]. mutex_ is held for moments.
//
// Ownership: members, disk, pool and rings outlive it. close(), then wait for idle(), then destroy.
//
// Invariants:
//  1. In every row of blocks of a stripe that nobody writes, the XOR over all members is zero.
//  2. Bytes of an object's last stripe beyond its size are zero, and nothing is behind that stripe.
//  3. While a member is out nothing is read from it, and the record said so before any write was
//     answered without it.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dataserver/parity/group_disk.h"
#include "dataserver/parity/group_log.h"
#include "dataserver/parity/group_record.h"
#include "dataserver/parity/image.h"
#include "dataserver/parity/parity_view.h"
#include "dataserver/ring/range_locks.h"
#include "dataserver/ring/token_bucket.h"
#include "dataserver/store/store.h"
#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"
#include "rpc/base/task.h"

namespace weft::ds {

struct ParityOptions {
  ParityGeometry geometry;
  std::uint64_t region_bytes = std::uint64_t{8} << 20;    // of an object, for one entry of the log
  std::size_t max_dirty = 256;                            // regions, before they are committed
  std::size_t log_limit = std::size_t{64} << 20;          // bytes, before it is written anew
  std::uint64_t reserve_bytes = std::uint64_t{64} << 20;  // kept free at each member
  std::size_t max_objects = 65536;                        // known, beyond what is in use
  std::chrono::milliseconds patience{8'000};              // operations wait for the group
  std::chrono::milliseconds retry_every{1'000};           // recovery, and members that are out
  std::chrono::milliseconds note_every{10'000};           // how far a rebuild is, durably
  std::uint64_t rebuild_rate = 0;                         // bytes written a second; 0: no limit
  std::chrono::seconds scrub_every{0};                    // begun by itself; 0: never
  std::uint64_t scrub_rate = 0;  // bytes read a second at each member; 0: no limit
};

// What a group asks of who connects its members. From rings[0].
class Replacements {
 public:
  Replacements() = default;
  Replacements(const Replacements&) = delete;
  Replacements& operator=(const Replacements&) = delete;
  virtual ~Replacements() = default;
  // Whether at the member's address there is another store than it was, and a new and empty one.
  [[nodiscard]] virtual bool offered(unsigned member) = 0;
  // That store is the member from now on, durably. The record says before that it lacks everything.
  [[nodiscard]] virtual Result<> accept(unsigned member) = 0;
};

class ParityStore final : public Store {
 public:
  struct Parts {
    std::vector<Store*> members;
    GroupDisk& disk;
    BufferPool& pool;
    Clock& clock;
    Random& random;
    std::vector<IoRing*> rings;
    ParityOptions options;
    Replacements* replacements = nullptr;  // nobody can take a member's place
  };
  // Precondition: options.geometry is valid and has as many members as there are.
  explicit ParityStore(Parts parts);
  ~ParityStore() override;

  // Begins recovery; operations wait for it.
  void start();
  // Ends what goes on in the background, soon: idle() then.
  void close();
  [[nodiscard]] bool idle() const;
  [[nodiscard]] const ParityView& view() const { return view_; }
  // Goes through everything in the background, as soon as the group is whole; with `only_tell`
  // nothing is changed. kBusy: a scrub goes on. Any thread.
  [[nodiscard]] Result<> begin_scrub(bool only_tell);
  // Ends it, soon. False: none went on.
  bool end_scrub();
  // The member is lost for ever, though the group waits for it (view().may_give_up): it goes on
  // without it, soon, and without the blocks that only the member had. kInvalid: it does not wait
  // for this one alone. Any thread.
  [[nodiscard]] Result<> give_up(unsigned member);

  void read(const layout::ObjectId& object, std::uint64_t offset, std::uint32_t count,
            Done<ReadResult> done) override;
  void write(const layout::ObjectId& object, std::uint64_t offset, std::vector<Buffer> data,
             Stability wanted, Done<WriteResult> done) override;
  void commit(const layout::ObjectId& object, Done<WriteVerifier> done) override;
  void truncate(const layout::ObjectId& object, std::uint64_t size, Done<ObjectStat> done) override;
  void remove(const layout::ObjectId& object, Done<void> done) override;
  void stat(const layout::ObjectId& object, Done<ObjectStat> done) override;
  void list(ListPlace from, std::uint32_t max, Done<ObjectList> done) override;
  void allocate(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
                Done<void> done) override;
  void punch(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
             Done<void> done) override;
  [[nodiscard]] WriteVerifier verifier() const override { return verifier_.load(); }
  // Whether all members are that are read.
  [[nodiscard]] bool settled() const override;
  // Of the members: the least of them, times members - 1. Without those that are waited for, and
  // then nothing is free.
  [[nodiscard]] Result<StoreStat> usage() const override;

 private:
  using ObjectId = layout::ObjectId;
  using Hold = RangeLocks::Hold;
  struct Mode {
    int out = -1;
    bool rebuilding = false;  // what is written is written there too
    bool lost = false;        // given up, or another store now: nothing is what it was
    [[nodiscard]] bool readable(unsigned member) const { return static_cast<int>(member) != out; }
    [[nodiscard]] bool writable(unsigned member) const { return readable(member) || rebuilding; }
  };
  // One attempt at something, in one mode of the group.
  struct Op {
    Mode mode;
    std::uint32_t failed = 0;  // members, a bit each
    bool settling = false;     // without a member, but with unstable writes: verifiers count
    bool cutting = false;      // zeros in a part of a block that is lost leave it so
  };
  struct Object {  // guarded by mutex_, which has no name in here
    bool exists = false;
    bool header_dirty = false;
    std::uint64_t size = 0;
    std::uint64_t sequence = 0;
    std::uint64_t generation = 0;  // of the group, when it was loaded
    std::uint32_t gone = 0;        // members that have lost it: no header, though others have one
  };
  using ObjectPtr = std::shared_ptr<Object>;
  struct Region {  // likewise
    unsigned writers = 0;
    std::uint64_t version = 0;
    bool logged = false;
  };
  using Regions = std::map<std::uint64_t, Region>;
  struct Waiter {
    IoRing* ring;
    std::coroutine_handle<> handle;
    TimePoint deadline;
    bool* expired;
  };
  struct ChildWrite {
    unsigned member;
    bool sums;
    std::uint64_t offset;
    std::vector<Buffer> pieces;
  };
  class Mark;
  struct Cover;
  struct Part;
  class Pause;    // awaits a Waiter
  class Quiesce;  // awaits the end of all operations under way
  class Scrub;

  [[nodiscard]] const ParityGeometry& geometry() const { return parts_.options.geometry; }
  [[nodiscard]] unsigned members() const { return geometry().members; }
  [[nodiscard]] std::uint32_t readable(const Mode& mode) const;

  // members (parity_members.cc)
  void after(Op& op, unsigned member, const Error* error, const WriteVerifier* verifier);
  void child_read(Op& op, Join& join, unsigned member, const ObjectId& object, std::uint64_t offset,
                  std::uint32_t count, Payload& into);
  void child_write(Op& op, Join& join, unsigned member, const ObjectId& object,
                   std::uint64_t offset, std::vector<Buffer> data, Stability wanted);
  void child_commit(Op& op, Join& join, unsigned member, const ObjectId& object);
  void child_truncate(Op& op, Join& join, unsigned member, const ObjectId& object,
                      std::uint64_t size);
  void child_remove(Op& op, Join& join, unsigned member, const ObjectId& object);
  void child_punch(Op& op, Join& join, unsigned member, const ObjectId& object,
                   std::uint64_t offset, std::uint64_t size);
  Task<bool> cut_children(Op& op, ObjectId object, std::uint64_t size, std::uint32_t mask);
  Task<bool> remove_children(Op& op, ObjectId object, std::uint32_t mask);
  Task<bool> commit_children(Op& op, ObjectId object, std::uint32_t mask);
  Task<Result<>> load(Op& op, Image& image, std::uint32_t mask);
  [[nodiscard]] Result<> add_write(std::vector<ChildWrite>& writes, const Image& image,
                                   unsigned member, std::size_t first, std::size_t last);
  Task<Result<>> issue(Op& op, ObjectId object, std::vector<ChildWrite> writes, std::uint64_t size,
                       Stability wanted);

  // objects, headers, log (parity_objects.cc)
  Task<Hold> lock(ObjectId object, ByteRange range);
  [[nodiscard]] ByteRange stripe_range(std::uint64_t begin, std::uint64_t end) const;
  Task<Result<ObjectPtr>> find(ObjectId object);
  Task<Result<ObjectPtr>> find_in(Op& op, ObjectId object);
  Task<Result<>> read_header(Op& op, ObjectId object, Object& into);
  void found_gone(const ObjectId& object, std::uint32_t at);
  [[nodiscard]] std::uint32_t gone_of(const ObjectId& object) const;
  Task<Result<>> flush_header(Op& op, ObjectId object, ObjectPtr state);
  Task<Result<>> write_header(Op& op, ObjectId object, SumHeader header, std::uint32_t mask);
  void forget_some() WEFT_REQUIRES(mutex_);
  Task<Result<>> append(std::vector<std::byte> bytes);
  void compact(GroupDisk::Done done) WEFT_REQUIRES(mutex_);
  [[nodiscard]] std::vector<std::byte> log_snapshot() const WEFT_REQUIRES(mutex_);
  Task<Result<Mark>> mark(ObjectId object, std::uint64_t begin, std::uint64_t end);
  void forget_dirty(const ObjectId& object, const std::map<std::uint64_t, std::uint64_t>& versions);

  // modes (parity_modes.cc)
  template <class Attempt>
  Task<Result<>> until_done(std::uint64_t generation, Attempt attempt) {
    for (;;) {
      Op op;
      if (auto entered = co_await enter(op, generation); !entered) co_return entered;
      Result<> result = co_await attempt(op);
      if (op.failed == 0) {
        leave();
        co_return result;
      }
      if (auto handled = co_await report(op.failed); !handled) co_return handled;
    }
  }
  Task<Result<>> enter(Op& op, std::uint64_t generation);
  void leave();
  // Leaves, and waits until the group has another mode; what is tried again then must not rely on
  // anything but its object's state.
  Task<Result<>> report(std::uint32_t failed);
  void break_group();  // recovery is needed
  template <class T>
  void run(Task<Result<T>> task, Done<T> done);
  void kick();
  void on_timer();
  Task<bool> manage();
  void unblock();
  void wake(std::deque<Waiter>& waiters) WEFT_REQUIRES(mutex_);
  void expire_waiters();
  enum class Duty {
    kNone,
    kRecover,
    kFailures,
    kLog,
    kEndRebuild,
    kReplace,
    kBeginRebuild,
    kNote,
    kForget,
    kSweep,
    kScrub
  };
  [[nodiscard]] Duty next_duty();
  Task<bool> renew_log();
  Task<bool> handle_failures();
  Task<bool> put_out(unsigned member);
  Task<bool> save_record(GroupRecord record);
  void show_state();

  // recovery (parity_recover.cc, parity_give_up.cc)
  Task<bool> recover();
  Task<Result<LogState>> load_group();
  void wait_for(std::uint32_t away, const LogState& log);
  Task<bool> go_without(Op& op, const LogState& log);
  Task<bool> begin_log(const Mode& mode, const LogState& log);
  Task<std::uint32_t> probe(std::uint32_t mask);
  Task<bool> redo_contents(Op& op, const LogState& log);
  Task<bool> redo_cuts(Op& op, const LogState& log);
  // Of an object that is settled.
  struct Settled {
    std::uint64_t size = 0;
    std::uint32_t gone = 0;                  // Object::gone
    int absent = -1;                         // the member that is given up
    std::vector<std::vector<bool>> changed;  // blocks of an image, by member
    std::uint64_t given_up = 0;              // blocks, so far,
    ByteRange lost{};                        // and where they are
  };
  [[nodiscard]] static std::uint32_t surely_gone(const Object& state);
  Task<bool> forget_given_up();
  Task<bool> go_on_without(Op& op, unsigned member, const LogState& log);
  Task<bool> recover_object(Op& op, ObjectId object, std::set<std::uint64_t> regions,
                            std::uint64_t& given_up);
  Task<bool> resync(Op& op, ObjectId object, std::uint64_t first, std::uint64_t last,
                    Settled& settled);
  [[nodiscard]] bool clear_behind(Image& image, std::size_t row, Settled& settled);
  void give_up_block(Image& image, std::size_t row, Settled& settled);
  void settle_row(Image& image, std::size_t row, Settled& settled);

  // replacement, and how far a rebuild of everything is (parity_replace.cc)
  struct Progress {
    std::uint64_t done = 0;
    ListPlace place;
  };
  [[nodiscard]] int offered() const
      WEFT_REQUIRES(mutex_);  // a member that a new store would take the place of, or -1
  Task<bool> replace();
  Task<bool> note_progress();
  Task<Result<>> list_some(Op& op, ListPlace from, ObjectList& into);
  Task<Result<>> rebuild_everything(Progress progress, TokenBucket& rate);
  [[nodiscard]] std::uint64_t objects_in_all() const;

  // rebuild (parity_rebuild.cc): a task beside the manager, as an operation is
  Task<bool> begin_rebuild();
  Task<bool> rebuild(std::map<ObjectId, std::set<std::uint64_t>> objects,
                     std::optional<Progress> everything);
  // Of a member that lacks all, all that is not zeros; otherwise these regions.
  struct Missed {
    bool all = false;
    std::set<std::uint64_t> regions;
  };
  Task<Result<>> rebuild_object(ObjectId object, Missed missed, TokenBucket& rate);
  Task<Result<>> rebuild_range(ObjectId object, ByteRange stripes, bool all, TokenBucket& rate);
  Task<Result<>> count_rows(Op& op, ObjectId object, std::uint64_t& rows);
  Task<Result<>> rebuild_shape(Op& op, ObjectId object, ObjectPtr& state);
  Task<Result<>> rebuild_stripes(Op& op, ObjectId object, std::uint64_t first, std::uint64_t last,
                                 bool all);
  Task<bool> end_rebuild();
  Task<bool> sweep();
  // At most a second. False: the group is closed.
  Task<bool> pause(boost::asio::steady_timer& timer, Nanoseconds time);

  // operations (parity_read.cc, parity_write.cc)
  Task<Result<ReadResult>> do_read(ObjectId object, std::uint64_t offset, std::uint32_t count);
  struct Piece {
    unsigned member;
    std::uint64_t offset;  // in its data object
    std::uint64_t size;
  };
  [[nodiscard]] std::vector<Piece> pieces_of(std::uint64_t begin, std::uint64_t end) const;
  Task<Result<>> read_plain(Op& op, ObjectId object, std::uint64_t begin, std::uint64_t end,
                            Payload& into, bool& odd);
  Task<Result<>> read_computed(Op& op, ObjectId object, std::uint64_t begin, std::uint64_t end,
                               Payload& into);
  Task<Result<>> repair(Op& op, Image& image, const std::vector<std::vector<bool>>& was_good);
  Task<Result<WriteResult>> do_write(ObjectId object, std::uint64_t offset,
                                     std::vector<Buffer> data, Stability wanted);
  [[nodiscard]] Result<Buffer> one_buffer(std::uint64_t offset, std::vector<Buffer> data);
  [[nodiscard]] bool has_room() const;
  Task<Result<>> write_range(Op& op, ObjectId object, std::uint64_t offset, const Buffer& bytes,
                             std::uint64_t size, Stability wanted);
  Task<Result<>> write_full(Op& op, ObjectId object, std::uint64_t stripe, std::uint64_t count,
                            Buffer bytes, std::uint64_t size, Stability wanted);
  Task<Result<>> write_part(Op& op, ObjectId object, std::uint64_t begin,
                            std::span<const std::byte> bytes, std::uint64_t size, Stability wanted);
  Task<Result<>> load_part(Op& op, Part& part, bool& by_difference);
  [[nodiscard]] bool keep_lost(const Op& op, Part& part, std::size_t row);
  [[nodiscard]] static bool was_given_up(const Part& part, std::size_t row);
  Task<Result<WriteVerifier>> do_commit(ObjectId object);
  Task<Result<ObjectStat>> do_truncate(ObjectId object, std::uint64_t size);
  Task<Result<>> cut(Op& op, ObjectId object, ObjectPtr state, std::uint64_t size);
  Task<Result<>> may_clear_tail(Op& op, ObjectId object, std::uint64_t size);
  Task<Result<>> clear_tail(Op& op, ObjectId object, std::uint64_t size);
  Task<Result<>> do_remove(ObjectId object);
  Task<Result<>> after_write(Op& op, ObjectId object, ObjectPtr state, std::uint64_t end,
                             Stability wanted);
  Task<Result<ObjectStat>> do_stat(ObjectId object);
  Task<Result<ObjectList>> do_list(ListPlace from, std::uint32_t max);
  Task<Result<>> do_allocate(ObjectId object, std::uint64_t offset, std::uint64_t size);
  Task<Result<>> do_punch(ObjectId object, std::uint64_t offset, std::uint64_t size);
  Task<Result<>> punch_logged(Op& op, ObjectId object, std::uint64_t first, std::uint64_t last);
  Task<Result<>> punch_stripes(Op& op, ObjectId object, std::uint64_t first, std::uint64_t last);

  const Parts parts_;
  ParityView view_;
  RangeLocks locks_;
  std::vector<std::atomic<WriteVerifier>> known_;  // members': unstable writes are under these
  std::atomic<WriteVerifier> verifier_;
  std::atomic<std::size_t> tasks_{0};
  std::atomic<int> give_up_{-1};  // a member that recovery is to go on without

  mutable Mutex mutex_;
  Mode mode_ WEFT_GUARDED_BY(mutex_);
  bool blocked_ WEFT_GUARDED_BY(mutex_) = true;  // operations wait
  bool broken_ WEFT_GUARDED_BY(mutex_) = true;   // recovery is needed
  std::uint64_t generation_ WEFT_GUARDED_BY(mutex_) = 1;
  std::size_t in_flight_ WEFT_GUARDED_BY(mutex_) = 0;
  std::uint32_t failed_ WEFT_GUARDED_BY(mutex_) = 0;  // members reported and not handled yet
  std::deque<Waiter> entering_ WEFT_GUARDED_BY(mutex_);
  std::deque<Waiter> reporting_ WEFT_GUARDED_BY(mutex_);
  std::coroutine_handle<> quiescing_ WEFT_GUARDED_BY(mutex_);
  std::unordered_map<ObjectId, ObjectPtr> objects_ WEFT_GUARDED_BY(mutex_);
  std::map<ObjectId, Regions> dirty_ WEFT_GUARDED_BY(mutex_);
  std::map<ObjectId, LogCut> cuts_ WEFT_GUARDED_BY(mutex_);
  std::uint64_t next_version_ WEFT_GUARDED_BY(mutex_) = 1;
  std::size_t log_bytes_ WEFT_GUARDED_BY(mutex_) = 0;
  std::size_t live_contents_ WEFT_GUARDED_BY(mutex_) = 0;  // in the log, not in place yet
  bool closed_ WEFT_GUARDED_BY(mutex_) = false;
  bool rebuild_running_ WEFT_GUARDED_BY(mutex_) = false;
  bool rebuild_ended_ WEFT_GUARDED_BY(mutex_) = false;  // all that was missed is there
  std::optional<Progress> progress_
      WEFT_GUARDED_BY(mutex_);  // of a rebuild of everything, not in the record yet
  bool none_lost_ WEFT_GUARDED_BY(mutex_) = false;  // of what was given up, as a scrub found
  bool sweep_wanted_ WEFT_GUARDED_BY(mutex_) = false;
  bool sweep_running_ WEFT_GUARDED_BY(mutex_) = false;

  // The manager's, on rings[0]:
  GroupRecord record_;
  bool managing_ = false;
  bool again_ = false;
  TimePoint next_recovery_{};
  TimePoint next_rebuild_{};
  TimePoint next_replace_{};
  TimePoint next_note_{};
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer pause_;
  const std::unique_ptr<Scrub> scrub_;
};

}  // namespace weft::ds
