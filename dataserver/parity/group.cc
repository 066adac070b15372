#include "dataserver/parity/group.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>

#include "dataserver/ring/io_ring.h"
#include "rpc/base/assert.h"

namespace weft::ds {

namespace parity {

namespace {

constexpr std::uint64_t kRunBytes = std::uint64_t{512} << 10;  // at each member, at a time

}  // namespace

// Suspends until wake() or, with false, until its deadline.
class Group::Pause {
 public:
  // Precondition: the lock is held; it is given up when the waiter is in the queue.
  Pause(MutexLock& lock, std::deque<Waiter>& waiters, TimePoint deadline)
      : lock_(lock), waiters_(waiters), deadline_(deadline) {}
  bool await_ready() const { return false; }
  // The analysis does not know whose lock it is. To it, who awaits this still has the lock
  // afterwards: let go of it at once.
  void await_suspend(std::coroutine_handle<> handle) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    waiters_.push_back({IoRing::current(), handle, deadline_, &expired_});
    lock_.unlock();
  }
  bool await_resume() const { return !expired_; }

 private:
  MutexLock& lock_;
  std::deque<Waiter>& waiters_;
  TimePoint deadline_;
  bool expired_ = false;
};

Group::Group(ParityParts parts)
    : parts_(std::move(parts)),
      calls_(parts_.members, parts_.pool, parts_.clock, parts_.options.geometry,
             {.reserve = parts_.options.reserve_bytes, .sure_length = parts_.options.sure_length}),
      verifier_(parts_.random.u64()) {
  WEFT_ASSERT(geometry().valid() && members() == parts_.members.size());
}

Group::~Group() { WEFT_ASSERT(idle()); }

std::uint64_t Group::stripes_at_once() const {
  return std::max<std::uint64_t>(1, kRunBytes / geometry().chunk);
}

ByteRange Group::stripe_range(std::uint64_t begin, std::uint64_t end) const {
  const std::uint64_t width = geometry().width();
  return {begin / width * width, geometry().stripes(end) * width};
}

void Group::kick() {
  task_begins();
  parts_.rings.front()->post([this] {
    manager_.look();
    task_ended();  // the last that is touched: the group may go
  });
}

void Group::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
}

bool Group::closed() const {
  const MutexLock lock(mutex_);
  return closed_;
}

Task<bool> Group::pause(boost::asio::steady_timer& timer, Nanoseconds time) {
  if (closed()) co_return false;
  Join join;
  join.started();
  timer.expires_after(std::min<Nanoseconds>(time, std::chrono::seconds(1)));
  timer.async_wait([&join](const boost::system::error_code&) { join.ended(); });
  co_await join;
  co_return !closed();
}

// --- Attempts ------------------------------------------------------------------------------------

Task<Result<>> Group::enter(Op& op, std::uint64_t generation) {
  const TimePoint deadline = parts_.clock.now() + parts_.options.patience;
  for (;;) {
    MutexLock lock(mutex_);
    if (generation != 0 && generation != generation_) {
      co_return fail(Errc::kBusy, "the parity group was recovered meanwhile");
    }
    if (closed_) co_return fail(Errc::kClosed, "the parity group is closed");
    if (!blocked_) {
      ++in_flight_;
      op.mode = mode_;
      co_return Result<>{};
    }
    if (!co_await Pause(lock, entering_, deadline)) {
      co_return fail(Errc::kBusy, "the parity group is not ready");
    }
  }
}

void Group::one_leaves() {
  if (--in_flight_ > 0 || !quiescing_) return;
  parts_.rings.front()->post([handle = std::exchange(quiescing_, nullptr)] { handle.resume(); });
}

void Group::leave() {
  const MutexLock lock(mutex_);
  one_leaves();
}

Task<Result<>> Group::report(std::uint32_t failed) {
  // Handling is bounded by what members take to answer.
  const TimePoint deadline = parts_.clock.now() + std::chrono::minutes(5);
  std::uint64_t generation = 0;
  bool handled = false;
  {
    MutexLock lock(mutex_);
    failed_ |= failed;
    generation = generation_;
    one_leaves();
    if (closed_) co_return fail(Errc::kClosed, "the parity group is closed");  // nobody handles it
    kick();
    handled = co_await Pause(lock, reporting_, deadline);
  }
  const MutexLock lock(mutex_);
  if (!handled || generation != generation_) {
    co_return fail(Errc::kBusy, "the parity group was recovered meanwhile");
  }
  co_return Result<>{};
}

void Group::break_group() {
  {
    const MutexLock lock(mutex_);
    broken_ = true;
  }
  kick();
}

void Group::wake(std::deque<Waiter>& waiters) {
  for (const Waiter& waiter : waiters) {
    waiter.ring->post([handle = waiter.handle] { handle.resume(); });
  }
  waiters.clear();
}

void Group::unblock() {
  const MutexLock lock(mutex_);
  blocked_ = false;
  wake(entering_);
  wake(reporting_);
}

void Group::expire_waiters() {
  const TimePoint now = parts_.clock.now();
  const MutexLock lock(mutex_);
  for (std::deque<Waiter>* waiters : {&entering_, &reporting_}) {
    std::erase_if(*waiters, [&](const Waiter& waiter) WEFT_REQUIRES(mutex_) {
      if (!closed_ && now < waiter.deadline) return false;
      *waiter.expired = true;
      waiter.ring->post([handle = waiter.handle] { handle.resume(); });
      return true;
    });
  }
}

Mode Group::mode() const {
  const MutexLock lock(mutex_);
  return mode_;
}

bool Group::whole() const {
  const MutexLock lock(mutex_);
  return !broken_ && mode_.out < 0;
}

std::uint64_t Group::objects_in_all() const {
  const auto all = calls_.usage(mode(), view_.away.load());
  return all ? all->objects : 0;
}

// --- What is dirty, and the log ------------------------------------------------------------------

Group::Mark::~Mark() {
  if (group_ == nullptr) return;
  const MutexLock lock(group_->mutex_);
  const auto found = group_->dirty_.find(object_);
  if (found == group_->dirty_.end()) return;  // forgotten meanwhile by recovery
  for (auto at = found->second.lower_bound(first_); at != found->second.end() && at->first <= last_;
       ++at) {
    if (at->second.writers > 0) --at->second.writers;
  }
}

Task<Result<Group::Mark>> Group::mark(ObjectId object, std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t region = parts_.options.region_bytes;
  co_return co_await mark_regions(object, begin / region, (std::max(end, begin + 1) - 1) / region);
}

Task<Result<Group::Mark>> Group::mark_cut(ObjectId object, std::uint64_t size) {
  const std::uint64_t region = size / parts_.options.region_bytes | kCutFrom;
  co_return co_await mark_regions(object, region, region);
}

Task<Result<Group::Mark>> Group::mark_regions(ObjectId object, std::uint64_t first,
                                              std::uint64_t last) {
  std::vector<std::byte> frames;
  {
    const MutexLock lock(mutex_);
    Regions& regions = dirty_[object];
    const std::size_t before = regions.size();
    for (std::uint64_t at = first; at <= last; ++at) {
      Region& state = regions[at];
      ++state.writers;
      state.version = next_version_++;
      if (state.logged) continue;
      const auto frame = encode(LogDirty{object, at});
      frames.insert(frames.end(), frame.begin(), frame.end());
    }
    dirty_count_ += regions.size() - before;
  }
  Mark made(*this, object, first, last);
  if (frames.empty()) co_return made;
  if (auto kept = co_await append(std::move(frames)); !kept) co_return pass(kept);
  std::size_t count = 0;
  {
    const MutexLock lock(mutex_);
    Regions& regions = dirty_[object];
    for (std::uint64_t at = first; at <= last; ++at) regions[at].logged = true;
    count = dirty_count_;
  }
  view_.dirty_regions.store(count);
  if (count > parts_.options.max_dirty) kick();
  co_return made;
}

Group::Versions Group::quiet_regions(const ObjectId& object) const {
  Versions versions;
  const MutexLock lock(mutex_);
  const auto found = dirty_.find(object);
  if (found == dirty_.end()) return versions;
  for (const auto& [region, of] : found->second) {
    if (of.writers == 0) versions[region] = of.version;
  }
  return versions;
}

std::vector<ObjectId> Group::dirty_objects() const {
  std::vector<ObjectId> objects;
  const MutexLock lock(mutex_);
  for (const auto& [object, regions] : dirty_) objects.push_back(object);
  return objects;
}

std::set<std::uint64_t> Group::dirty_regions(const ObjectId& object) const {
  std::set<std::uint64_t> regions;
  const MutexLock lock(mutex_);
  const auto found = dirty_.find(object);
  if (found == dirty_.end()) return regions;
  for (const auto& [region, state] : found->second) regions.insert(region);
  return regions;
}

void Group::forget_dirty(const ObjectId& object, const Versions& versions) {
  const MutexLock lock(mutex_);
  const auto found = dirty_.find(object);
  if (found == dirty_.end()) return;
  for (const auto& [region, version] : versions) {
    const auto at = found->second.find(region);
    if (at == found->second.end()) continue;
    if (at->second.writers > 0 || at->second.version != version) continue;
    found->second.erase(at);
    --dirty_count_;
  }
  if (!found->second.empty()) return;
  dirty_.erase(found);
  auto frame = encode(LogClean{object});
  log_bytes_ += frame.size();
  parts_.disk.append(std::move(frame), false, [](const Result<>&) {});
}

Task<Result<>> Group::append(std::vector<std::byte> bytes) {
  auto start = [this, &bytes](auto done) {
    const MutexLock lock(mutex_);
    if (log_bytes_ == 0) {
      auto header = group_log_header();
      bytes.insert(bytes.begin(), header.begin(), header.end());
    }
    log_bytes_ += bytes.size();
    parts_.disk.append(std::move(bytes), true, std::move(done));
    if (log_is_full()) kick();
  };
  auto kept = co_await call<Result<>>(std::move(start));
  if (!kept) break_group();  // what is in the log now is not known
  co_return kept;
}

// What a log must say that begins now, if nothing of its contents is live.
std::vector<std::byte> Group::log_snapshot() const {
  auto bytes = group_log_header();
  const auto add = [&bytes](const LogFrame& frame) {
    const auto encoded = encode(frame);
    bytes.insert(bytes.end(), encoded.begin(), encoded.end());
  };
  for (const auto& [object, regions] : dirty_) {
    for (const auto& [region, state] : regions) add(LogDirty{object, region});
  }
  for (const auto& [object, cut] : cuts_) add(cut);
  return bytes;
}

// With the mutex held, so that everything logged before is in the new log and all else comes after.
void Group::compact(GroupDisk::Done done) {
  auto bytes = log_snapshot();
  log_bytes_ = log_least_ = bytes.size();
  parts_.disk.replace_log(std::move(bytes), std::move(done));
}

Task<Result<>> Group::begin_log(std::vector<std::byte> there, std::size_t good) {
  const bool none = there.empty();
  there.resize(good);
  co_return co_await call<Result<>>([&](auto done) {
    const MutexLock lock(mutex_);
    log_bytes_ = good;
    if (none) return done(Result<>{});
    parts_.disk.replace_log(std::move(there), std::move(done));
  });
}

Task<Result<>> Group::renew_log() {
  co_return co_await call<Result<>>([this](auto done) {
    const MutexLock lock(mutex_);
    compact(std::move(done));
  });
}

Task<Result<>> Group::begin_cut(LogCut cut) {
  {
    const MutexLock lock(mutex_);
    cuts_[cut.object] = cut;
  }
  co_return co_await append(encode(cut));
}

Task<Result<>> Group::end_cut(ObjectId object) {
  auto done = co_await append(encode(LogCutDone{object}));
  const MutexLock lock(mutex_);
  if (done) cuts_.erase(object);
  co_return done;
}

bool Group::is_cutting(const ObjectId& object) const {
  const MutexLock lock(mutex_);
  return cuts_.contains(object);
}

Group::Versions Group::removed(const Op& op, const ObjectId& object) {
  Versions versions;
  const MutexLock lock(mutex_);
  // The next header is the first again (Recovery::surely_gone()).
  if (const auto known = objects_.find(object); known != objects_.end()) {
    Object& state = *known->second;
    state = {.generation = state.generation, .returns = state.returns};
  }
  if (op.mode.out >= 0) return versions;
  const auto found = dirty_.find(object);
  if (found == dirty_.end()) return versions;
  for (const auto& [region, of] : found->second) versions[region] = of.version;
  return versions;
}

// It counts from before it is in the log: the log must not be written anew without it.
Task<Result<>> Group::log_content(std::vector<std::byte> frame) {
  {
    const MutexLock lock(mutex_);
    ++live_contents_;
  }
  auto kept = co_await append(std::move(frame));
  if (!kept) content_in_place();
  co_return kept;
}

void Group::content_in_place() {
  const MutexLock lock(mutex_);
  --live_contents_;
}

bool Group::has_contents() const {
  const MutexLock lock(mutex_);
  return live_contents_ > 0;
}

// --- The manager's -------------------------------------------------------------------------------

Group::Condition Group::condition() const {
  const MutexLock lock(mutex_);
  return {.closed = closed_,
          .broken = broken_,
          .failures = failed_ != 0,
          .log_full = log_is_full(),
          .rebuild_ended = rebuild_ended_,
          .rebuild_running = rebuild_running_,
          .progress = progress_.has_value(),
          .none_lost = none_lost_,
          .sweep_running = sweep_running_,
          .sweep_wanted = sweep_wanted_,
          .lacks_reserve = calls_.lacks_reserve(mode_),
          .mode = mode_,
          .dirty_regions = dirty_count_};
}

Task<bool> Group::save_record(GroupRecord record) {
  record.geometry = geometry();
  ++record.epoch;
  auto start = [this, &record](auto done) {
    parts_.disk.save_record(encode(record), std::move(done));
  };
  auto saved = co_await call<Result<>>(start);
  if (!saved) {
    spdlog::error("event=parity_record_failed error=\"{}\"", saved.error().describe());
    co_return false;
  }
  record_ = record;
  co_return true;
}

void Group::show_state() {
  const MutexLock lock(mutex_);
  GroupState state = GroupState::kWhole;
  if (mode_.out >= 0) state = mode_.rebuilding ? GroupState::kRebuilding : GroupState::kDegraded;
  if (broken_) state = GroupState::kStarting;
  view_.out.store(record_.out);
  view_.epoch.store(record_.epoch);
  view_.given_up.store(record_.given_up);
  if (view_.state.exchange(state) == state) return;
  spdlog::info("event=parity_group state={} out={} epoch={}", to_string(state), record_.out,
               record_.epoch);
}

void Group::member_failed(unsigned member) {
  const MutexLock lock(mutex_);
  failed_ |= std::uint32_t{1} << member;
}

Task<bool> Group::handle_failures() {
  co_await Quiesce(*this);
  std::uint32_t failed = 0;
  {
    const MutexLock lock(mutex_);
    if (broken_) co_return false;
    failed = std::exchange(failed_, 0);
    if (mode_.out >= 0) {
      mode_.rebuilding = false;
      rebuild_ended_ = false;
      failed &= ~(std::uint32_t{1} << mode_.out);
    }
  }
  if (failed != 0) {
    const bool first = record_.out < 0 && std::popcount(failed) == 1;
    if (!first || !co_await put_out(static_cast<unsigned>(std::countr_zero(failed)))) {
      co_return false;
    }
  }
  unblock();
  co_return true;
}

// Everything that is dirty is stable at the others, sizes too; then the record says so.
Task<bool> Group::put_out(unsigned member) {
  Op op;
  op.mode.out = -1;  // so that a verifier that changes is a failure
  const std::uint32_t others = calls_.readable(op.mode) & ~(std::uint32_t{1} << member);
  std::vector<std::pair<ObjectId, ObjectPtr>> objects;
  {
    const MutexLock lock(mutex_);
    for (const auto& [object, regions] : dirty_) {
      const auto found = objects_.find(object);
      objects.emplace_back(object, found == objects_.end() ? nullptr : found->second);
    }
  }
  for (auto& [object, state] : objects) {
    if (state != nullptr && !co_await flush_at(op, object, state, others)) co_return false;
    if (!co_await calls_.commit(op, object, others)) co_return false;
  }
  GroupRecord record = record_;
  record.out = static_cast<int>(member);
  record.everything = record.lost = false;
  if (!co_await save_record(record)) co_return false;
  spdlog::warn("event=parity_member_out member={} epoch={}", member, record_.epoch);
  view_.put_out.fetch_add(1);
  const MutexLock lock(mutex_);
  mode_ = {.out = record_.out};
  co_return true;
}

void Group::begin_recovery() {
  const MutexLock lock(mutex_);
  recovering_ = true;
  ++generation_;
  objects_.clear();
  forget_at_ = 0;
  failed_ = 0;
  rebuild_ended_ = none_lost_ = false;
  verifier_.store(parts_.random.u64());
  wake(reporting_);  // what they began is to be asked for anew
}

void Group::recover_in(const Mode& mode) {
  const MutexLock lock(mutex_);
  mode_ = mode;
}

Task<bool> Group::adopt(const Mode& mode, const LogState& log) {
  auto start = [&](auto done) {
    const MutexLock lock(mutex_);
    mode_ = mode;
    dirty_.clear();
    dirty_count_ = 0;
    for (const auto& [object, regions] : log.dirty) {
      for (const std::uint64_t region : regions) {
        dirty_[object][region] = {.version = next_version_++, .logged = true};
        ++dirty_count_;
      }
    }
    cuts_.clear();
    live_contents_ = 0;
    compact(std::move(done));
  };
  co_return (co_await call<Result<>>(start)).has_value();
}

void Group::end_recovery() {
  const MutexLock lock(mutex_);
  broken_ = recovering_ = false;
}

Group::DirtyRegions Group::begin_rebuild() {
  DirtyRegions objects;
  const MutexLock lock(mutex_);
  progress_.reset();
  mode_.rebuilding = true;
  rebuild_running_ = true;
  for (const auto& [object, regions] : dirty_) {
    for (const auto& [region, state] : regions) objects[object].insert(region);
  }
  return objects;
}

void Group::rebuild_ended(bool good) {
  const MutexLock lock(mutex_);
  rebuild_running_ = false;
  rebuild_ended_ = good && mode_.rebuilding;
  if (!good) mode_.rebuilding = false;
}

bool Group::rebuild_holds() {
  const MutexLock lock(mutex_);
  rebuild_ended_ = false;
  const bool good = mode_.rebuilding && live_contents_ == 0 && failed_ == 0 && !broken_ &&
                    calls_.unchanged(static_cast<unsigned>(mode_.out));
  if (!good) mode_.rebuilding = false;
  return good;
}

void Group::member_is_back() {
  const MutexLock lock(mutex_);
  mode_ = {};
  ++returns_;
  sweep_wanted_ = true;
}

void Group::member_lost() {
  const MutexLock lock(mutex_);
  mode_.lost = true;
}

void Group::note(const Progress& progress) {
  const MutexLock lock(mutex_);
  progress_ = progress;
}

std::optional<Progress> Group::take_progress() {
  const MutexLock lock(mutex_);
  auto progress = std::exchange(progress_, std::nullopt);
  return mode_.rebuilding ? progress : std::nullopt;
}

void Group::set_none_lost(bool none) {
  const MutexLock lock(mutex_);
  none_lost_ = none;
}

void Group::sweep_begins() {
  const MutexLock lock(mutex_);
  sweep_running_ = true;
}

std::vector<ObjectId> Group::take_sweep() {
  {
    const MutexLock lock(mutex_);
    sweep_wanted_ = false;
  }
  return dirty_objects();
}

void Group::sweep_ended() {
  const MutexLock lock(mutex_);
  sweep_running_ = false;
}

}  // namespace parity
}  // namespace weft::ds
