#include "dataserver/parity/parity_store.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "dataserver/ring/io_ring.h"

namespace weft::ds {

ParityStore::ParityStore(Parts parts)
    : group_(std::move(parts)), timer_(group_.parts().rings.front()->context()) {
  group_.managed_by({.look = [this] { look(); }, .object_gone = [this] { scrub_.object_gone(); }});
}

ParityStore::~ParityStore() = default;

void ParityStore::start() {
  group_.task_begins();  // the timer's
  group_.parts().rings.front()->post([this] { on_timer(); });
}

void ParityStore::allow_changes() {
  if (!recovery_.allow_changes()) return;
  group_.task_begins();
  group_.parts().rings.front()->post([this] {
    next_recovery_ = {};
    look();
    group_.task_ended();  // the last that is touched: the store may go
  });
}

void ParityStore::close() {
  group_.close();
  group_.task_begins();
  group_.parts().rings.front()->post([this] {
    timer_.cancel();
    rebuild_.wake();
    scrub_.wake();
    group_.expire_waiters();
    group_.task_ended();
  });
}

// --- The manager ---------------------------------------------------------------------------------

void ParityStore::on_timer() {
  if (group_.closed()) {
    group_.task_ended();  // the last that is touched: the store may go
    return;
  }
  group_.expire_waiters();
  group_.kick();
  timer_.expires_after(
      std::min<std::chrono::milliseconds>(options().retry_every, std::chrono::seconds(1)));
  timer_.async_wait([this](const boost::system::error_code&) { on_timer(); });
}

void ParityStore::look() {
  again_ = true;
  if (managing_) return;
  managing_ = true;
  group_.task_begins();
  spawn(manage(), [this](bool) {
    managing_ = false;
    group_.task_ended();
  });
}

Task<bool> ParityStore::manage() {
  while (std::exchange(again_, false)) {
    for (;;) {
      const Duty duty = next_duty();
      if (duty == Duty::kNone) break;
      if (!co_await carry_out(duty)) group_.break_group();
      group_.show_state();
    }
  }
  co_return true;
}

// The first that is due. What operations wait for comes first.
ParityStore::Duty ParityStore::next_duty() {
  const TimePoint now = group_.now();
  const parity::Group::Condition is = group_.condition();
  if (is.closed) return Duty::kNone;
  if (is.broken) return now >= next_recovery_ ? Duty::kRecover : Duty::kNone;
  if (is.failures) return Duty::kFailures;
  if (is.log_full) return Duty::kLog;
  if (is.rebuild_ended) return Duty::kEndRebuild;
  const int member = rebuild_.offered(is.mode);
  if (member >= 0 && now >= next_replace_ && !is.rebuild_running) {
    if (member == is.mode.out) return Duty::kReplace;
    group_.member_failed(static_cast<unsigned>(member));  // nobody has asked it for anything since
    return Duty::kFailures;
  }
  const bool rebuilds = is.mode.rebuilding || is.rebuild_running;
  if (is.mode.out >= 0 && !rebuilds && there_ == is.mode.out) return Duty::kBeginRebuild;
  if (is.mode.out >= 0 && !rebuilds && !probing_ && now >= next_rebuild_) return Duty::kProbe;
  if (is.progress && now >= next_note_) return Duty::kNote;
  if (is.none_lost) return Duty::kForget;
  group_.view().dirty_regions.store(is.dirty_regions);
  if (is.lacks_reserve && !reserving_ && now >= next_reserve_) return Duty::kReserve;
  if (is.mode.out >= 0) return Duty::kNone;
  const bool dirty = is.sweep_wanted || is.dirty_regions > options().max_dirty;
  if (dirty && !is.sweep_running) return Duty::kSweep;
  return scrub_.due() ? Duty::kScrub : Duty::kNone;
}

Task<bool> ParityStore::carry_out(Duty duty) {
  bool good = true;
  switch (duty) {
    case Duty::kRecover: good = co_await recover(); break;
    case Duty::kFailures: good = co_await handle_failures(); break;
    case Duty::kLog: good = co_await renew_log(); break;
    case Duty::kEndRebuild: good = co_await rebuild_.end(); break;
    case Duty::kReplace: good = co_await replace(); break;
    case Duty::kNote:
      next_note_ = group_.now() + options().note_every;
      good = co_await rebuild_.note_progress();
      break;
    case Duty::kForget: good = co_await forget_given_up(); break;
    case Duty::kProbe: probe(); break;
    case Duty::kBeginRebuild:
      there_ = -1;
      next_rebuild_ = group_.now() + options().retry_every;
      co_await rebuild_.begin();
      break;
    case Duty::kSweep:
      group_.sweep_begins();
      group_.run(sweep(), [](bool) {});
      break;
    case Duty::kReserve:
      next_reserve_ = group_.now() + options().retry_every;
      reserving_ = true;
      group_.run(group_.calls().room().take_reserve(group_.calls().readable(group_.mode()),
                                                    options().reserve_after),
                 [this](bool) { reserving_ = false; });
      break;
    case Duty::kScrub: group_.run(scrub_.run(), [](bool) {}); break;
    case Duty::kNone: break;
  }
  co_return good;
}

Task<bool> ParityStore::recover() {
  const bool may_change = recovery_.may_change();
  const bool good = co_await recovery_.recover();
  next_recovery_ = group_.now() + options().retry_every;
  if (recovery_.may_change() != may_change) next_recovery_ = {};  // at once
  co_return good;
}

// One that is away is waited for as long as the group has patience, and the log may be full sooner.
void ParityStore::probe() {
  probing_ = true;
  group_.task_begins();
  spawn(rebuild_.probe(), [this, member = group_.mode().out](bool there) {
    probing_ = false;
    there_ = there ? member : -1;
    next_rebuild_ = group_.now() + options().retry_every;
    group_.kick();
    group_.task_ended();  // the last that is touched: the store may go
  });
}

Task<bool> ParityStore::handle_failures() {
  const int out = group_.mode().out;
  const bool good = co_await group_.handle_failures();
  if (group_.mode().out != out) next_rebuild_ = group_.now() + options().retry_every;
  co_return good;
}

Task<bool> ParityStore::replace() {
  next_replace_ = group_.now() + options().retry_every;
  bool accepted = false;
  const bool good = co_await rebuild_.replace(accepted);
  if (accepted) next_rebuild_ = group_.now();
  co_return good;
}

Task<bool> ParityStore::renew_log() {
  co_await parity::Group::Quiesce(group_);
  if (group_.has_contents()) co_return false;  // not in place: recovery does it again
  auto kept = co_await group_.renew_log();
  if (!kept) {
    spdlog::error("event=parity_log_failed error=\"{}\"", kept.error().describe());
    co_return false;
  }
  group_.unblock();
  co_return true;
}

// A scrub of all has found nothing that is lost.
Task<bool> ParityStore::forget_given_up() {
  group_.set_none_lost(false);
  GroupRecord record = group_.record();
  if (record.given_up == 0) co_return true;
  record.given_up = 0;
  co_return co_await group_.save_record(record);
}

// Commits what is dirty, so that the log need not name it.
Task<bool> ParityStore::sweep() {
  bool good = true;
  for (const layout::ObjectId& object : group_.take_sweep()) {
    if (!co_await io_.commit(object)) good = false;
  }
  group_.sweep_ended();
  co_return good;
}

}  // namespace weft::ds
