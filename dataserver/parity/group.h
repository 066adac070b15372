// The state of a parity group, and the one lock over it: its mode, who waits for another mode, its
// record and its log, the objects that are known and the regions of them that are dirty.
//
// An operation is tried in one mode (until_done()). When a member fails it, the attempt is reported
// and waits until the manager (parity_store.h) has dealt with the member; then it is tried again.
// One that memory is short for lets go of what it has, and is tried again for ParityOptions's
// patience; then it is kBusy.
// Quiesce makes operations wait from then on, and waits for those that are under way: the manager
// changes the mode between that and unblock().
//
// Threading: any thread of the group's rings, but what is said to be the manager's: rings[0].
// mutex_ is held for moments, and never while anything is awaited.
//
// Ownership: outlives its tasks (idle()).
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "dataserver/parity/blocks.h"
#include "dataserver/parity/group_disk.h"
#include "dataserver/parity/group_log.h"
#include "dataserver/parity/group_record.h"
#include "dataserver/parity/member_calls.h"
#include "dataserver/parity/moment.h"
#include "dataserver/parity/parity_view.h"
#include "dataserver/ring/range_locks.h"
#include "dataserver/store/store.h"
#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"
#include "rpc/base/task.h"

namespace weft::ds {

// What may change while the group runs: the next rebuild and the next scrub go by it.
struct ParityRates {
  std::uint64_t rebuild = 0;            // bytes written a second; 0: no limit
  std::uint64_t scrub = 0;              // bytes read a second at each member; 0: no limit
  std::chrono::seconds scrub_every{0};  // begun by itself; 0: never
};

struct ParityOptions {
  ParityGeometry geometry;
  std::uint64_t region_bytes = std::uint64_t{8} << 20;    // of an object, for one entry of the log
  std::size_t max_dirty = 256;                            // regions, before they are committed
  std::size_t log_limit = std::size_t{64} << 20;          // bytes, before it is written anew
  std::uint64_t reserve_bytes = std::uint64_t{64} << 20;  // at each member: member_room.h
  // Of a member's object: for a longer one it is asked (member_room.h).
  std::uint64_t sure_length = std::uint64_t{1} << 40;
  std::size_t max_objects = 65536;                  // known, beyond what is in use
  std::chrono::milliseconds patience{8'000};        // operations wait for the group
  std::chrono::milliseconds retry_every{1'000};     // recovery, and members that are out
  std::chrono::milliseconds note_every{10'000};     // how far a rebuild is, durably
  std::chrono::milliseconds reserve_after{10'000};  // its use it is taken again
  ParityRates rates;
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

struct ParityParts {
  std::vector<Store*> members;
  GroupDisk& disk;
  BufferPool& pool;
  Clock& clock;
  Random& random;
  std::vector<IoRing*> rings;
  ParityOptions options;
  Replacements* replacements = nullptr;  // nobody can take a member's place
};

namespace parity {

using Hold = RangeLocks::Hold;

// Ranges of an object that RangeLocks knows: its bytes, and behind them its header.
constexpr std::uint64_t kObjectEnd = std::uint64_t{1} << 62;
constexpr ByteRange kWholeObject{0, kObjectEnd};
constexpr ByteRange kHeaderRange{kObjectEnd, kObjectEnd + 1};

// What is known of an object.
struct Object {
  bool exists = false;
  bool header_dirty = false;
  std::uint64_t size = 0;
  std::uint64_t sequence = 0;
  std::uint64_t generation = 0;  // of the group, when it was loaded
  std::uint32_t gone = 0;        // members that have lost it: no header, though others have one
  std::uint64_t returns = 0;     // of members, when that was looked at
};

// How far a rebuild of everything is.
struct Progress {
  std::uint64_t done = 0;
  ListPlace place;
};

class Group {
 public:
  using ObjectPtr = std::shared_ptr<Object>;                // what it points to is read with look()
  using Versions = std::map<std::uint64_t, std::uint64_t>;  // of regions
  using DirtyRegions = std::map<ObjectId, std::set<std::uint64_t>>;
  class Mark;
  class Quiesce;
  // Who deals with what the group is told. From rings[0].
  struct Manager {
    std::function<void()> look;         // there may be something to do
    std::function<void()> object_gone;  // a member has lost an object; from any thread
  };

  explicit Group(ParityParts parts);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  // Before anything else.
  void managed_by(Manager manager) { manager_ = std::move(manager); }

  [[nodiscard]] const ParityParts& parts() const { return parts_; }
  [[nodiscard]] const ParityOptions& options() const { return parts_.options; }
  // Any thread.
  [[nodiscard]] ParityRates rates() const {
    const MutexLock lock(rates_mutex_);
    return rates_;
  }
  void set_rates(const ParityRates& rates) {
    const MutexLock lock(rates_mutex_);
    rates_ = rates;
  }
  [[nodiscard]] const ParityGeometry& geometry() const { return parts_.options.geometry; }
  [[nodiscard]] unsigned members() const { return geometry().members; }
  [[nodiscard]] MemberCalls& calls() { return calls_; }
  [[nodiscard]] const MemberCalls& calls() const { return calls_; }
  [[nodiscard]] ParityView& view() { return view_; }
  [[nodiscard]] const ParityView& view() const { return view_; }
  [[nodiscard]] TimePoint now() const { return parts_.clock.now(); }
  [[nodiscard]] WriteVerifier verifier() const { return verifier_.load(); }
  // Stripes that are read or written at once in the background: about half a MiB at each member.
  [[nodiscard]] std::uint64_t stripes_at_once() const;
  // The stripes that bytes [begin, end) touch, in bytes.
  [[nodiscard]] ByteRange stripe_range(std::uint64_t begin, std::uint64_t end) const;

  // --- Tasks ---
  void task_begins() { ++tasks_; }
  void task_ended() { --tasks_; }
  [[nodiscard]] bool idle() const { return tasks_.load() == 0; }
  template <class T, class Done>
  void run(Task<T> task, Done done) {
    task_begins();
    spawn(std::move(task), [this, done = std::move(done)](T result) mutable {
      task_ended();
      done(std::move(result));
    });
  }
  // The manager looks what there is to do, soon.
  void kick();
  void close();
  [[nodiscard]] bool closed() const;
  // At most a second. False: the group is closed.
  Task<bool> pause(boost::asio::steady_timer& timer, Nanoseconds time);

  // --- Attempts ---
  template <class Attempt>
  Task<Result<>> until_done(std::uint64_t generation, Attempt attempt) {
    const TimePoint deadline = now() + options().patience;
    for (;;) {
      Op op;
      if (auto entered = co_await enter(op, generation); !entered) co_return entered;
      Result<> result = co_await attempt(op);
      if (op.failed == 0) {
        leave();
        if (op.busy && result) result = outcome(op);
        if (result || !(result.error() == Errc::kBusy) || now() >= deadline) co_return result;
        co_await wait_a_moment();
        continue;
      }
      if ((op.stuck & calls_.readable(op.mode)) != 0) break_group();  // that has not failed
      if (auto handled = co_await report(op.failed); !handled) co_return handled;
    }
  }
  // Recovery is needed.
  void break_group();
  [[nodiscard]] Mode mode() const;
  [[nodiscard]] bool whole() const;
  // How many objects there are, about; 0: not known.
  [[nodiscard]] std::uint64_t objects_in_all() const;

  // --- Objects ---
  Task<Hold> lock(ObjectId object, ByteRange range);
  Task<Result<ObjectPtr>> find(ObjectId object);
  Task<Result<ObjectPtr>> find_in(Op& op, ObjectId object);
  [[nodiscard]] Object look(const ObjectPtr& state) const;
  // Members that have lost the object, of those that are read in this attempt: what an operation
  // found before it need not be so any more, when a member has come back meanwhile. `blank`:
  // members that have nothing where the object may have a hole; these may have lost it since it is
  // known, which their headers say.
  Task<Result<std::uint32_t>> gone_in(Op& op, ObjectId object, std::uint32_t blank = 0);
  Task<Result<>> read_header(Op& op, ObjectId object, Object& into);
  Task<Result<>> write_header(Op& op, ObjectId object, SumHeader header, std::uint32_t mask);
  // Which of these members have no header of the object.
  Task<Result<std::uint32_t>> lack_header(Op& op, ObjectId object, std::uint32_t asked);
  // Durable at all members that are written; but one that is being rebuilt and has lost the object
  // gets its header last.
  Task<Result<>> flush_header(Op& op, ObjectId object, ObjectPtr state);
  // The object exists and ends at `end` or later.
  void extend(const ObjectPtr& state, std::uint64_t end);
  void set_size(const ObjectPtr& state, std::uint64_t size);
  // Its header is to be written anew, but for members that have lost the object.
  void header_is_wrong(const ObjectPtr& state, std::uint32_t gone);
  // All members have all of it again, and get its header.
  Task<Result<>> is_back(Op& op, ObjectId object, ObjectPtr state);
  // Loads an image, and distrusts members that have lost the object, before or since it is known.
  Task<Result<>> load(Op& op, Image& image, std::uint32_t mask);
  // Writes at the members, first in the log if a member is out. `size` is the object's then.
  // kNoSpace: one that is nearly full has no room, and nothing is written.
  Task<Result<>> write(Op& op, ObjectId object, std::vector<MemberWrite> writes, std::uint64_t size,
                       Stability wanted);

  // --- What is dirty, and the log ---
  // The regions that bytes [begin, end) touch are dirty, and written to until the mark goes.
  Task<Result<Mark>> mark(ObjectId object, std::uint64_t begin, std::uint64_t end);
  // While a member is out: it has missed that the object was cut here.
  Task<Result<Mark>> mark_cut(ObjectId object, std::uint64_t size);
  // Of the regions that nobody writes to just now.
  [[nodiscard]] Versions quiet_regions(const ObjectId& object) const;
  // Regions that nobody has written to since they had these versions are stable everywhere.
  void forget_dirty(const ObjectId& object, const Versions& versions);
  [[nodiscard]] std::vector<ObjectId> dirty_objects() const;
  [[nodiscard]] std::set<std::uint64_t> dirty_regions(const ObjectId& object) const;
  // A cut is in the log from before it begins until it is done.
  Task<Result<>> begin_cut(LogCut cut);
  Task<Result<>> end_cut(ObjectId object);
  [[nodiscard]] bool is_cutting(const ObjectId& object) const;
  // After the end of a cut that removed it. The regions that were dirty, unless a member is out.
  [[nodiscard]] Versions removed(const Op& op, const ObjectId& object);
  // What is done without a member is in the log until it is in place at the others.
  Task<Result<>> log_content(std::vector<std::byte> frame);
  void content_in_place();
  [[nodiscard]] bool has_contents() const;
  // The log that is there goes on behind its good bytes; what is torn goes. What is good is durable
  // on return, whoever wrote it: recovery acts by it.
  Task<Result<>> begin_log(std::vector<std::byte> there, std::size_t good);
  // The log anew. Precondition: nothing of its contents is live.
  Task<Result<>> renew_log();

  // --- The manager's ---
  struct Condition {
    bool closed = false;
    bool broken = false;
    bool failures = false;
    bool log_full = false;
    bool rebuild_ended = false;
    bool rebuild_running = false;
    bool progress = false;
    bool none_lost = false;
    bool sweep_running = false;
    bool sweep_wanted = false;
    bool lacks_reserve = false;
    Mode mode;
    std::size_t dirty_regions = 0;
  };
  [[nodiscard]] Condition condition() const;
  [[nodiscard]] const GroupRecord& record() const { return record_; }
  // False, and it is logged: it could not be saved.
  Task<bool> save_record(GroupRecord record);
  // As the disk has it.
  void set_record(const GroupRecord& record) { record_ = record; }
  void unblock();
  void expire_waiters();
  void show_state();
  // The member has failed, though no operation said so.
  void member_failed(unsigned member);
  // False: the group must be recovered.
  Task<bool> handle_failures();

  void begin_recovery();
  // It is in this mode, as the record says, or is to. Precondition: nothing is under way.
  void recover_in(const Mode& mode);
  // The mode, what is dirty, and a log that says so.
  Task<bool> adopt(const Mode& mode, const LogState& log);
  void end_recovery();

  // What is dirty, which is what the member misses. From now on what is written is written there.
  [[nodiscard]] DirtyRegions begin_rebuild();
  void rebuild_ended(bool good);
  // Whether the member may be read from now on; otherwise it is out again.
  [[nodiscard]] bool rebuild_holds();
  void member_is_back();
  // Nothing at the member is what it was.
  void member_lost();
  void note(const Progress& progress);
  [[nodiscard]] std::optional<Progress> take_progress();
  // Whether a scrub of all has found nothing that is lost.
  void set_none_lost(bool none);
  void sweep_begins();
  [[nodiscard]] std::vector<ObjectId> take_sweep();
  void sweep_ended();

 private:
  struct Region {
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
  class Pause;  // awaits a Waiter

  Task<Result<>> enter(Op& op, std::uint64_t generation);
  void leave();
  // Leaves, and waits until the group has another mode; what is tried again then must not rely on
  // anything but its object's state.
  Task<Result<>> report(std::uint32_t failed);
  void one_leaves() WEFT_REQUIRES(mutex_);
  void wake(std::deque<Waiter>& waiters) WEFT_REQUIRES(mutex_);
  Task<bool> put_out(unsigned member);
  void found_gone(const ObjectId& object, std::uint32_t at);
  Task<Result<>> look_for_gone(Op& op, ObjectId object, ObjectPtr state, std::uint32_t asked);
  Task<Result<>> flush_held(Op& op, ObjectId object, ObjectPtr state);
  Task<bool> flush_at(Op& op, ObjectId object, ObjectPtr state, std::uint32_t there);
  [[nodiscard]] std::uint64_t returns() const;
  [[nodiscard]] bool is_recovering() const;
  void forget_some() WEFT_REQUIRES(mutex_);
  Task<Result<Mark>> mark_regions(ObjectId object, std::uint64_t first, std::uint64_t last);
  Task<Result<>> append(std::vector<std::byte> bytes);
  void compact(GroupDisk::Done done) WEFT_REQUIRES(mutex_);
  // What is dirty may alone be more than the limit.
  [[nodiscard]] bool log_is_full() const WEFT_REQUIRES(mutex_) {
    return log_bytes_ > std::max(parts_.options.log_limit, 2 * log_least_);
  }
  [[nodiscard]] std::vector<std::byte> log_snapshot() const WEFT_REQUIRES(mutex_);

  const ParityParts parts_;
  MemberCalls calls_;
  ParityView view_;
  Manager manager_;
  RangeLocks locks_;
  std::atomic<WriteVerifier> verifier_;
  std::atomic<std::size_t> tasks_{0};

  mutable Mutex mutex_;
  Mode mode_ WEFT_GUARDED_BY(mutex_);
  bool blocked_ WEFT_GUARDED_BY(mutex_) = true;  // operations wait
  bool broken_ WEFT_GUARDED_BY(mutex_) = true;   // recovery is needed
  // It is under way: no operation is. Operations go on while the group is broken, until it begins.
  bool recovering_ WEFT_GUARDED_BY(mutex_) = true;
  std::uint64_t generation_ WEFT_GUARDED_BY(mutex_) = 1;
  std::uint64_t returns_ WEFT_GUARDED_BY(mutex_) = 0;  // of members that were out
  std::size_t in_flight_ WEFT_GUARDED_BY(mutex_) = 0;
  std::uint32_t failed_ WEFT_GUARDED_BY(mutex_) = 0;  // members reported and not handled yet
  std::deque<Waiter> entering_ WEFT_GUARDED_BY(mutex_);
  std::deque<Waiter> reporting_ WEFT_GUARDED_BY(mutex_);
  std::coroutine_handle<> quiescing_ WEFT_GUARDED_BY(mutex_);
  std::unordered_map<ObjectId, ObjectPtr> objects_ WEFT_GUARDED_BY(mutex_);
  // When there are so many objects, they are looked through.
  std::size_t forget_at_ WEFT_GUARDED_BY(mutex_) = 0;
  std::map<ObjectId, Regions> dirty_ WEFT_GUARDED_BY(mutex_);
  std::size_t dirty_count_ WEFT_GUARDED_BY(mutex_) = 0;  // regions of all of them
  std::map<ObjectId, LogCut> cuts_ WEFT_GUARDED_BY(mutex_);
  std::uint64_t next_version_ WEFT_GUARDED_BY(mutex_) = 1;
  std::size_t log_bytes_ WEFT_GUARDED_BY(mutex_) = 0;
  std::size_t log_least_ WEFT_GUARDED_BY(mutex_) = 0;      // when it was written anew
  std::size_t live_contents_ WEFT_GUARDED_BY(mutex_) = 0;  // in the log, not in place yet
  bool closed_ WEFT_GUARDED_BY(mutex_) = false;
  bool rebuild_running_ WEFT_GUARDED_BY(mutex_) = false;
  bool rebuild_ended_ WEFT_GUARDED_BY(mutex_) = false;  // all that was missed is there
  std::optional<Progress> progress_
      WEFT_GUARDED_BY(mutex_);  // of a rebuild of everything, not in the record yet
  bool none_lost_ WEFT_GUARDED_BY(mutex_) = false;  // of what was given up, as a scrub found
  bool sweep_wanted_ WEFT_GUARDED_BY(mutex_) = false;
  bool sweep_running_ WEFT_GUARDED_BY(mutex_) = false;

  GroupRecord record_;  // the manager's
  mutable Mutex rates_mutex_;
  ParityRates rates_ WEFT_GUARDED_BY(rates_mutex_) = parts_.options.rates;
};

// Regions of an object that are dirty and being written, until it goes.
class Group::Mark {
 public:
  Mark(Group& group, const ObjectId& object, std::uint64_t first, std::uint64_t last)
      : group_(&group), object_(object), first_(first), last_(last) {}
  Mark(Mark&& other) noexcept
      : group_(std::exchange(other.group_, nullptr)),
        object_(other.object_),
        first_(other.first_),
        last_(other.last_) {}
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  Mark& operator=(Mark&&) = delete;
  ~Mark();

 private:
  Group* group_;
  ObjectId object_;
  std::uint64_t first_;
  std::uint64_t last_;  // inclusive
};

// Makes operations wait from now on, and waits for those under way. On rings[0].
class Group::Quiesce {
 public:
  explicit Quiesce(Group& group) : group_(group) {}
  bool await_ready() const { return false; }
  bool await_suspend(std::coroutine_handle<> handle) {
    const MutexLock lock(group_.mutex_);
    group_.blocked_ = true;
    if (group_.in_flight_ == 0) return false;
    group_.quiescing_ = handle;
    return true;
  }
  void await_resume() const {}

 private:
  Group& group_;
};

}  // namespace parity
}  // namespace weft::ds
