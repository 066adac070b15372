// The modes of a parity group, and the manager that changes them: one duty after the other, on
// rings[0]. It takes no locks of objects, because who holds one may be waiting for it.
#include <spdlog/spdlog.h>

#include <bit>

#include "dataserver/parity/parity_internal.h"
#include "dataserver/parity/parity_scrub.h"
#include "rpc/base/assert.h"

namespace weft::ds {

std::string_view to_string(GroupState state) {
  switch (state) {
    case GroupState::kStarting: return "starting";
    case GroupState::kWhole: return "whole";
    case GroupState::kDegraded: return "degraded";
    case GroupState::kRebuilding: return "rebuilding";
  }
  return "unknown";
}

ParityStore::ParityStore(Parts parts)
    : parts_(std::move(parts)),
      known_(parts_.members.size()),
      verifier_(parts_.random.u64()),
      timer_(parts_.rings.front()->context()),
      pause_(parts_.rings.front()->context()),
      scrub_(std::make_unique<Scrub>(*this)) {
  WEFT_ASSERT(geometry().valid() && members() == parts_.members.size());
}

ParityStore::~ParityStore() { WEFT_ASSERT(tasks_.load() == 0); }

void ParityStore::start() {
  ++tasks_;  // the timer's
  parts_.rings.front()->post([this] { on_timer(); });
}

void ParityStore::close() {
  {
    const MutexLock lock(mutex_);
    closed_ = true;
  }
  ++tasks_;
  parts_.rings.front()->post([this] {
    timer_.cancel();
    pause_.cancel();
    scrub_->wake();
    expire_waiters();
    --tasks_;
  });
}

Result<> ParityStore::begin_scrub(bool only_tell) { return scrub_->begin(only_tell); }
bool ParityStore::end_scrub() { return scrub_->end(); }

bool ParityStore::idle() const { return tasks_.load() == 0; }

// --- Operations ----------------------------------------------------------------------------------

Task<Result<>> ParityStore::enter(Op& op, std::uint64_t generation) {
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

void ParityStore::leave() {
  const MutexLock lock(mutex_);
  if (--in_flight_ > 0 || !quiescing_) return;
  parts_.rings.front()->post([handle = std::exchange(quiescing_, nullptr)] { handle.resume(); });
}

Task<Result<>> ParityStore::report(std::uint32_t failed) {
  // Handling is bounded by what members take to answer.
  const TimePoint deadline = parts_.clock.now() + std::chrono::minutes(5);
  std::uint64_t generation = 0;
  bool handled = false;
  {
    MutexLock lock(mutex_);
    failed_ |= failed;
    generation = generation_;
    if (--in_flight_ == 0 && quiescing_) {
      parts_.rings.front()->post(
          [handle = std::exchange(quiescing_, nullptr)] { handle.resume(); });
    }
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

void ParityStore::break_group() {
  {
    const MutexLock lock(mutex_);
    broken_ = true;
  }
  kick();
}

void ParityStore::wake(std::deque<Waiter>& waiters) {
  for (const Waiter& waiter : waiters) {
    waiter.ring->post([handle = waiter.handle] { handle.resume(); });
  }
  waiters.clear();
}

void ParityStore::unblock() {
  const MutexLock lock(mutex_);
  blocked_ = false;
  wake(entering_);
  wake(reporting_);
}

void ParityStore::expire_waiters() {
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

// --- The manager ---------------------------------------------------------------------------------

void ParityStore::on_timer() {
  bool closed = false;
  {
    const MutexLock lock(mutex_);
    closed = closed_;
  }
  if (closed) {
    --tasks_;  // the last that is touched: the store may go
    return;
  }
  expire_waiters();
  kick();
  timer_.expires_after(
      std::min<std::chrono::milliseconds>(parts_.options.retry_every, std::chrono::seconds(1)));
  timer_.async_wait([this](const boost::system::error_code&) { on_timer(); });
}

void ParityStore::kick() {
  ++tasks_;
  parts_.rings.front()->post([this] {
    again_ = true;
    if (managing_) {
      --tasks_;
      return;
    }
    managing_ = true;
    spawn(manage(), [this](bool) {
      managing_ = false;
      --tasks_;
    });
  });
}

ParityStore::Duty ParityStore::next_duty() {
  const TimePoint now = parts_.clock.now();
  const MutexLock lock(mutex_);
  if (closed_) return Duty::kNone;
  if (broken_) return now >= next_recovery_ ? Duty::kRecover : Duty::kNone;
  if (failed_ != 0) return Duty::kFailures;
  if (log_bytes_ > parts_.options.log_limit) return Duty::kLog;
  if (rebuild_ended_) return Duty::kEndRebuild;
  if (const int member = offered(); member >= 0 && now >= next_replace_ && !rebuild_running_) {
    if (member == mode_.out) return Duty::kReplace;
    failed_ |= std::uint32_t{1} << member;  // nobody has asked it for anything since
    return Duty::kFailures;
  }
  if (mode_.out >= 0 && !mode_.rebuilding && !rebuild_running_ && now >= next_rebuild_) {
    return Duty::kBeginRebuild;
  }
  if (progress_ && now >= next_note_) return Duty::kNote;
  if (none_lost_) return Duty::kForget;
  std::size_t dirty = 0;
  for (const auto& [object, regions] : dirty_) dirty += regions.size();
  view_.dirty_regions.store(dirty);
  if (mode_.out >= 0) return Duty::kNone;
  const bool wanted = sweep_wanted_ || dirty > parts_.options.max_dirty;
  if (!wanted || sweep_running_) return scrub_->due() ? Duty::kScrub : Duty::kNone;
  sweep_running_ = true;
  return Duty::kSweep;
}

Task<bool> ParityStore::manage() {
  while (std::exchange(again_, false)) {
    for (;;) {
      const Duty duty = next_duty();
      if (duty == Duty::kNone) break;
      bool good = true;
      switch (duty) {
        case Duty::kRecover:
          good = co_await recover();
          next_recovery_ = parts_.clock.now() + parts_.options.retry_every;
          break;
        case Duty::kFailures: good = co_await handle_failures(); break;
        case Duty::kLog: good = co_await renew_log(); break;
        case Duty::kEndRebuild: good = co_await end_rebuild(); break;
        case Duty::kReplace:
          next_replace_ = parts_.clock.now() + parts_.options.retry_every;
          good = co_await replace();
          break;
        case Duty::kNote: good = co_await note_progress(); break;
        case Duty::kForget: good = co_await forget_given_up(); break;
        case Duty::kBeginRebuild:
          next_rebuild_ = parts_.clock.now() + parts_.options.retry_every;
          co_await begin_rebuild();
          break;
        case Duty::kSweep:
          ++tasks_;
          spawn(sweep(), [this](bool) { --tasks_; });
          break;
        case Duty::kScrub:
          ++tasks_;
          spawn(scrub_->run(), [this](bool) { --tasks_; });
          break;
        case Duty::kNone: break;
      }
      if (!good) {
        const MutexLock lock(mutex_);
        broken_ = true;
      }
      show_state();
    }
  }
  co_return true;
}

void ParityStore::show_state() {
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

Task<bool> ParityStore::renew_log() {
  co_await Quiesce(*this);
  auto start = [this](auto done) {
    const MutexLock lock(mutex_);
    if (live_contents_ > 0) broken_ = true;  // not in place: it must be redone
    compact(std::move(done));
  };
  {
    const MutexLock lock(mutex_);
    if (live_contents_ > 0) co_return false;
  }
  auto kept = co_await call<Result<>>(start);
  if (!kept) {
    spdlog::error("event=parity_log_failed error=\"{}\"", kept.error().describe());
    co_return false;
  }
  unblock();
  co_return true;
}

Task<bool> ParityStore::save_record(GroupRecord record) {
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

// False: the group must be recovered.
Task<bool> ParityStore::handle_failures() {
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
Task<bool> ParityStore::put_out(unsigned member) {
  Op op;
  op.mode.out = -1;  // so that a verifier that changes is a failure
  const std::uint32_t others = readable(op.mode) & ~(std::uint32_t{1} << member);
  std::vector<std::pair<ObjectId, ObjectPtr>> objects;
  {
    const MutexLock lock(mutex_);
    for (const auto& [object, regions] : dirty_) {
      const auto found = objects_.find(object);
      objects.emplace_back(object, found == objects_.end() ? nullptr : found->second);
    }
  }
  for (auto& [object, state] : objects) {
    SumHeader header;
    bool wanted = false;
    std::uint32_t gone = 0;
    if (state != nullptr) {
      const MutexLock lock(mutex_);
      wanted = state->exists && state->header_dirty;
      state->header_dirty = false;
      if (wanted) header = {.sequence = ++state->sequence, .size = state->size};
      gone = state->gone;
    }
    if (wanted && !co_await write_header(op, object, header, others & ~gone)) co_return false;
    if (!co_await commit_children(op, object, others)) co_return false;
  }
  GroupRecord record = record_;
  record.out = static_cast<int>(member);
  record.everything = record.lost = false;
  if (!co_await save_record(record)) co_return false;
  spdlog::warn("event=parity_member_out member={} epoch={}", member, record_.epoch);
  view_.put_out.fetch_add(1);
  const MutexLock lock(mutex_);
  mode_ = {.out = record_.out};
  next_rebuild_ = parts_.clock.now() + parts_.options.retry_every;
  co_return true;
}

}  // namespace weft::ds
