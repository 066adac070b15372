#include "ganesha-fsal/files/layout_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "rpc/base/log_limit.h"

namespace weft::mds {
namespace {

// A client that goes takes as many layouts with it as it has. Never destroyed: threads may log
// while the process ends.
LogLimit& recall_log = *new LogLimit;
LogLimit& revoked_log = *new LogLimit;
LogLimit& failed_log = *new LogLimit;
LogLimit& holds_log = *new LogLimit;

}  // namespace

LayoutService::LayoutService(FileTable& files, Recaller& recaller, Fencer& fencer,
                             LayoutLimits limits, Now now, Watcher gone, Watcher fenced,
                             LayoutKeeping keeping)
    : recaller_(recaller),
      fencer_(fencer),
      limits_(limits),
      now_(std::move(now)),
      gone_(std::move(gone)),
      fenced_(std::move(fenced)),
      in_use_(std::move(keeping.in_use)),
      files_(files),
      kept_(keeping.limits) {}

template <class Change>
auto LayoutService::change(FileId file, const Change& make) {
  const FileTable::Changing record(files_, file);
  LayoutState& state = record->layouts;
  const std::size_t out = state.grants.size();
  const std::size_t recalled = state.grants.recalled();
  auto made = make(state);
  out_ += state.grants.size() - out;  // unsigned, so it may become less
  recalled_ += state.grants.recalled() - recalled;
  if (state.grants.size() < out || state.grants.recalled() < recalled) ++record->progress;
  return made;
}

Result<bool> LayoutService::grant(FileId file, ClientId client, layout::Access access) {
  return change(file, [&](LayoutState& state) -> Result<bool> {
    if (!state.fences.empty()) return fail(Errc::kBusy, "a client of the file is being fenced");
    if (state.grants.conflicts(client, access)) {
      return fail(Errc::kRecallConflict, "the file's layouts are being recalled");
    }
    if (out_ >= limits_.most) return fail(Errc::kLayoutTryLater, "too many layouts are out");
    if (state.grants.segments(client) >= limits_.segments) {
      return fail(Errc::kLayoutTryLater, "the client has too many layouts of the file");
    }
    state.grants.add(client, access, now_());
    ++granted_;
    return !std::exchange(state.watched, true);
  });
}

void LayoutService::names(FileId file, ClientId client, layout::Access access,
                          std::shared_ptr<const layout::Device> device) {
  FileTable::Changing(files_, file)->layouts.grants.names(client, access, std::move(device));
}

// What the client holds of the file besides decides: one stateid stands for all of it.
bool LayoutService::keep(FileId file, ClientId client, std::span<const std::uint32_t> ds_ids) {
  const FileTable::Looking record(files_, file);
  const MutexLock lock(kept_mutex_);
  if (kept_.has(file, client)) return true;
  return record->layouts.grants.segments(client) == 1 && kept_.add(file, client, ds_ids, now_());
}

bool LayoutService::keeps(FileId file, ClientId client) const {
  const MutexLock lock(kept_mutex_);
  return kept_.has(file, client);
}

void LayoutService::forget_kept(FileId file, ClientId client) {
  const MutexLock lock(kept_mutex_);
  kept_.remove(file, client);
}

bool LayoutService::unused(FileId file, ClientId client) const {
  return keeps(file, client) && !in_use_(file, client);
}

bool LayoutService::used(FileId file) const {
  return std::ranges::any_of(grants_of(file),
                             [&](const Grant& grant) { return !unused(file, grant.client); });
}

void LayoutService::look_at_kept(const std::set<std::uint32_t>& away) {
  std::vector<std::pair<ClientId, bool>> got;
  {
    const MutexLock lock(answers_->mutex);
    got.swap(answers_->got);
  }
  KeptLayouts::Due due;
  {
    const MutexLock lock(kept_mutex_);
    for (const auto& [client, understood] : got) kept_.answered(client, understood);
    due = kept_.due(now_(), away);
  }
  for (const ClientId client : due.asked) {
    spdlog::debug("layouts asked for client={:x}", client);
    recaller_.recall_unused(client, [answers = answers_, client](bool understood) {
      const MutexLock lock(answers->mutex);
      answers->got.emplace_back(client, understood);
    });
  }
  for (const auto& [file, client] : due.recalled) {
    if (in_use_(file, client)) continue;
    recall(file, "kept for long", {.client = client, .others_wait = false});
  }
}

template <class Remove>
void LayoutService::let_go(FileId file, ClientId client, const Remove& remove) {
  const bool nothing = change(file, [&](LayoutState& state) {
    if (!remove(state.grants)) return false;
    forget_kept(file, client);
    return true;
  });
  if (nothing) tell_if_idle(file);
}

void LayoutService::returned(FileId file, ClientId client, layout::Access access) {
  ++returned_;
  let_go(file, client, [&](FileGrants& grants) { return grants.remove_segment(client, access); });
}

void LayoutService::revoke(FileId file, ClientId client, std::string_view cause) {
  const bool fresh = change(file, [&](LayoutState& state) {
    state.grants.remove(client);
    forget_kept(file, client);
    const auto pending = std::ranges::find(state.fences, client, &PendingFence::client);
    if (pending != state.fences.end()) return false;
    state.fences.push_back({.client = client, .cause = std::string(cause)});
    return true;
  });
  if (!fresh) return;
  ++revoked_;
  revoked_log.warn("event=layout_revoked file={:x} client={:x} cause=\"{}\"", file, client, cause);
  start_fence(file, client);
}

std::size_t LayoutService::recall(FileId file, std::string_view reason, const RecallWhat& what) {
  const std::uint64_t number = ++recall_number_;
  const auto asked = change(file, [&](LayoutState& state) {
    return state.grants.recall(now_(), limits_.recall_timeout, reason, what, number);
  });
  recalls_ += asked.size();
  ask(file, asked, reason, number);
  return asked.size();
}

void LayoutService::waits(FileId file, ClientId client, std::optional<layout::Access> only) {
  FileTable::Changing(files_, file)
      ->layouts.grants.waits(client, only, now_(), limits_.recall_timeout);
}

bool LayoutService::returning(FileId file, std::optional<layout::Access> only) const {
  const FileTable::Looking record(files_, file);
  return !record->layouts.fences.empty() || record->layouts.grants.any_recalled(only);
}

std::size_t LayoutService::recall_all(std::string_view reason, const RecallWhat& what) {
  std::size_t asked = 0;
  for (const FileId file : files()) asked += recall(file, reason, what);
  return asked;
}

// What was granted since is another layout, and was not asked for.
void LayoutService::none_of(FileId file, const Recalled& what, std::uint64_t number) {
  let_go(file, what.client, [&](FileGrants& grants) {
    return grants.remove_recalled(what.client, what.only, number);
  });
}

void LayoutService::ask(FileId file, const std::vector<Recalled>& asked, std::string_view reason,
                        std::uint64_t number) {
  for (const Recalled& what : asked) {
    const auto& [client, only] = what;
    recall_log.info("layout recall file={:x} client={:x} mode={} reason=\"{}\"", file, client,
                    !only                                 ? "any"
                    : *only == layout::Access::kReadWrite ? "write"
                                                          : "read",
                    reason);
    recaller_.recall(file, client, only,
                     [this, file, what, number] { none_of(file, what, number); });
  }
}

bool LayoutService::blocked(FileId file) const {
  return !FileTable::Looking(files_, file)->layouts.fences.empty();
}

bool LayoutService::idle(FileId file) const {
  return FileTable::Looking(files_, file)->layouts.none();
}

void LayoutService::tell_if_idle(FileId file) {
  {
    const FileTable::Changing record(files_, file);
    if (!record->layouts.none() || !std::exchange(record->layouts.watched, false)) return;
  }
  gone_(file);
}

void LayoutService::start_fence(FileId file, ClientId client) {
  fencer_.fence(file, client, [this, file, client](Result<> outcome) {
    end_fence(file, client, std::move(outcome));
  });
}

void LayoutService::end_fence(FileId file, ClientId client, Result<> outcome) {
  if (outcome) fenced_(file);
  {
    const FileTable::Changing record(files_, file);
    auto& fences = record->layouts.fences;
    const auto it = std::ranges::find(fences, client, &PendingFence::client);
    if (it == fences.end()) return;
    if (outcome) {
      fences.erase(it);
      ++record->progress;
    } else {
      it->in_flight = false;
      it->retry_at = now_() + limits_.fence_retry;
    }
  }
  if (!outcome) {
    ++fence_failures_;
    failed_log.warn("event=fence_failed file={:x} client={:x} error=\"{}\"", file, client,
                    outcome.error().describe());
    return;
  }
  holds_log.info("event=fence_holds file={:x} client={:x}", file, client);
  tell_if_idle(file);
}

void LayoutService::tick() {
  const auto now = now_();
  for (const FileId file : files_.due(Due::kRecall, now, SIZE_MAX)) {
    const auto late = FileTable::Changing(files_, file)->layouts.grants.overdue(now);
    for (const ClientId client : late) revoke(file, client, "recall not answered in time");
  }
  for (const FileId file : files_.due(Due::kFence, now, SIZE_MAX)) {
    std::vector<ClientId> again;
    {
      const FileTable::Changing record(files_, file);
      for (PendingFence& fence : record->layouts.fences) {
        if (fence.in_flight || fence.retry_at > now) continue;
        fence.in_flight = true;
        again.push_back(fence.client);
      }
    }
    for (const ClientId client : again) start_fence(file, client);
  }
}

std::vector<Grant> LayoutService::grants_of(FileId file) const {
  return FileTable::Looking(files_, file)->layouts.grants.all();
}

bool LayoutService::held_for_write(FileId file, std::optional<ClientId> except) const {
  return FileTable::Looking(files_, file)->layouts.grants.any_writer(except);
}

bool LayoutService::known(FileId file, ClientId client) const {
  return FileTable::Looking(files_, file)->layouts.grants.holds(client);
}

bool LayoutService::holds(FileId file, ClientId client, layout::Access access) const {
  const FileTable::Looking record(files_, file);
  return record->layouts.grants.find(client, access) != nullptr;
}

bool LayoutService::may_write(FileId file, ClientId client) const {
  return holds(file, client, layout::Access::kReadWrite);
}

bool LayoutService::recalled(FileId file, ClientId client, layout::Access access) const {
  const FileTable::Looking record(files_, file);
  const Grant* grant = record->layouts.grants.find(client, access);
  return grant != nullptr && grant->state == GrantState::kRecalled;
}

LayoutCounters LayoutService::counters() const {
  return {.granted = granted_,
          .returned = returned_,
          .recalls = recalls_,
          .revoked = revoked_,
          .fence_failures = fence_failures_,
          .out = out_,
          .recalled = recalled_};
}

// Where recalls wait to be sent it may be a later one's.
std::optional<Clock::time_point> LayoutService::oldest_recall() const {
  const auto first = files_.first(Due::kRecall);
  if (first == FileState::kNever) return std::nullopt;
  return first - limits_.recall_timeout;
}

}  // namespace weft::mds
