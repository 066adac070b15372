#include "ganesha-fsal/repair/auditor.h"

#include <spdlog/spdlog.h>

#include <tuple>

namespace weft::mds {

Auditor::Auditor(Parts parts) : parts_(std::move(parts)) {}

Auditor::~Auditor() { stop(); }

void Auditor::start() {
  thread_ = std::thread([this] { run(); });
}

void Auditor::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<> Auditor::begin(bool only_tell) {
  {
    const MutexLock lock(mutex_);
    if (state_.running) return fail(Errc::kBusy, "an audit runs (weft audit status)");
    AuditState fresh;
    fresh.running = true;
    fresh.only_tell = only_tell;
    fresh.rounds = state_.rounds;
    state_ = std::move(fresh);
    ending_ = false;
    since_ = parts_.clock.now();
  }
  wake_.notify_all();
  return {};
}

bool Auditor::end() {
  {
    const MutexLock lock(mutex_);
    if (!state_.running) return false;
    ending_ = true;
  }
  wake_.notify_all();
  return true;
}

AuditState Auditor::state() const {
  const MutexLock lock(mutex_);
  AuditState out = state_;
  out.age = std::chrono::duration_cast<std::chrono::milliseconds>(parts_.clock.now() - since_);
  return out;
}

void Auditor::run() {
  MutexLock lock(mutex_);
  while (true) {
    wake_.wait(mutex_, [this]() WEFT_REQUIRES(mutex_) { return stopping_ || state_.running; });
    if (stopping_) return;
    const bool only_tell = state_.only_tell;
    lock.unlock();
    for (const Parts::Server& server : parts_.servers()) {
      if (!wanted()) break;
      if (server.connected) {
        look_at(server.ds_id, only_tell);
      } else {
        const MutexLock guard(mutex_);
        state_.failures.push_back({server.ds_id, "it is away"});
      }
    }
    lock.lock();
    state_.running = false;
    ++state_.rounds;
    since_ = parts_.clock.now();
    spdlog::info(
        "event=audit_ended servers={} objects={} strays={} removed={} foreign={} failed={}",
        state_.servers, state_.objects, state_.strays, state_.removed, state_.foreign,
        state_.failures.size());
  }
}

bool Auditor::wanted() const {
  const MutexLock lock(mutex_);
  return !stopping_ && !ending_;
}

bool Auditor::pause() {
  MutexLock lock(mutex_);
  return !wake_.wait_for(mutex_, parts_.limits.between,
                         [this]() WEFT_REQUIRES(mutex_) { return stopping_ || ending_; });
}

// A data server that restarts answers again in a moment; one that does not know the request never
// will.
template <class T, class Ask>
Result<T> Auditor::ask(const Ask& question) {
  for (unsigned tried = 1;; ++tried) {
    Result<T> answer = question();
    if (answer || answer.error() == Errc::kNotSupported || tried == parts_.limits.tries) {
      return answer;
    }
    if (!pause()) return answer;
  }
}

void Auditor::look_at(std::uint32_t ds_id, bool only_tell) {
  const auto done = go_through(ds_id, only_tell);
  const MutexLock lock(mutex_);
  if (done) {
    if (!ending_ && !stopping_) ++state_.servers;
    return;
  }
  spdlog::warn("event=audit_failed ds={} error=\"{}\"", ds_id, done.error().describe());
  state_.failures.push_back({ds_id, done.error().describe()});
}

Result<> Auditor::go_through(std::uint32_t ds_id, bool only_tell) {
  control::ListFrom from;
  while (wanted()) {
    auto page = ask<control::Listed>([&] { return parts_.list(ds_id, from); });
    if (!page) return pass(page);
    auto suspects = parts_.names.without_entry(ds_id, page->objects);
    if (!suspects) return pass(suspects);
    for (const layout::ObjectId& suspect : *suspects) {
      if (!wanted()) return {};
      if (auto judged = judge(ds_id, suspect, only_tell); !judged) return judged;
    }
    {
      const MutexLock lock(mutex_);
      state_.objects += page->objects.size();
    }
    if (!page->more) return {};
    // Pages come from outside: one that goes back would have the round never end.
    if (std::tie(page->next.folder, page->next.after) <= std::tie(from.folder, from.after)) {
      return fail(Errc::kProtocol, "its list of objects does not go on");
    }
    from = page->next;
  }
  return {};
}

Result<> Auditor::judge(std::uint32_t ds_id, const layout::ObjectId& suspect, bool only_tell) {
  auto there = ask<control::ObjectStat>([&] { return parts_.stat(ds_id, suspect); });
  if (!there) return pass(there);
  if (!there->exists) return {};
  // Between the list and this question a file may have been made, or a move begun, whose object it
  // is. The index is written before any client can write the object, so a second look is enough.
  auto still = parts_.names.without_entry(ds_id, {&suspect, 1});
  if (!still) return pass(still);
  if (still->empty()) return {};
  auto made = parts_.names.was_made(suspect);
  if (!made) return pass(made);
  Stray stray{.ds_id = ds_id, .object = suspect, .bytes = there->allocated};
  if (!*made) {
    stray.is = Stray::Is::kForeign;
  } else if (!only_tell) {
    auto queued = parts_.names.queue_stray(ds_id, suspect);
    if (!queued) return pass(queued);
    if (!*queued) return {};  // the transaction has seen that it is needed
    stray.is = Stray::Is::kRemoved;
    parts_.removals();
  }
  spdlog::warn("event=stray ds={} object={} bytes={} what={}", ds_id, to_string(suspect),
               stray.bytes,
               stray.is == Stray::Is::kForeign   ? "never_made_here"
               : stray.is == Stray::Is::kRemoved ? "queued_for_removal"
                                                 : "left");
  const MutexLock lock(mutex_);
  stray.is == Stray::Is::kForeign ? ++state_.foreign : ++state_.strays;
  if (stray.is == Stray::Is::kRemoved) ++state_.removed;
  state_.bytes += stray.bytes;
  // All are counted; the list is bounded, since it is kept in memory until the next round.
  if (state_.found.size() < parts_.limits.most_found) state_.found.push_back(stray);
  return {};
}

}  // namespace weft::mds
