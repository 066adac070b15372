#include "ganesha-fsal/files/layout_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace weft::mds {

LayoutService::LayoutService(Recaller& recaller, Fencer& fencer, LayoutLimits limits, Now now,
                             Watcher gone, Watcher fenced, LayoutKeeping keeping)
    : recaller_(recaller),
      fencer_(fencer),
      limits_(limits),
      now_(std::move(now)),
      gone_(std::move(gone)),
      fenced_(std::move(fenced)),
      in_use_(std::move(keeping.in_use)),
      kept_(keeping.limits) {}

Result<bool> LayoutService::grant(FileId file, ClientId client, layout::Access access) {
  const MutexLock lock(mutex_);
  if (blocked_locked(file)) return fail(Errc::kBusy, "a client of the file is being fenced");
  for (const Grant& grant : table_.of_file(file)) {
    const bool same = grant.client == client && grant.access == access;
    if (grant.state == GrantState::kRecalled && (grant.others_wait || same)) {
      return fail(Errc::kRecallConflict, "the file's layouts are being recalled");
    }
  }
  table_.add(file, client, access, now_());
  ++counters_.granted;
  return granted_.insert(file).second;
}

// What the client holds of the file besides decides: one stateid stands for all of it.
bool LayoutService::keep(FileId file, ClientId client, std::span<const std::uint32_t> ds_ids) {
  const MutexLock lock(mutex_);
  if (kept_.has(file, client)) return true;
  std::uint32_t segments = 0;
  for (const Grant& grant : table_.of_file(file)) {
    if (grant.client == client) segments += grant.segments;
  }
  return segments == 1 && kept_.add(file, client, ds_ids, now_());
}

bool LayoutService::keeps(FileId file, ClientId client) const {
  const MutexLock lock(mutex_);
  return kept_.has(file, client);
}

bool LayoutService::unused(FileId file, ClientId client) const {
  return keeps(file, client) && !in_use_(file, client);
}

void LayoutService::look_at_kept(const std::set<std::uint32_t>& away) {
  std::vector<std::pair<ClientId, bool>> got;
  {
    const MutexLock lock(answers_->mutex);
    got.swap(answers_->got);
  }
  KeptLayouts::Due due;
  {
    const MutexLock lock(mutex_);
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

void LayoutService::returned(FileId file, ClientId client, layout::Access access) {
  {
    const MutexLock lock(mutex_);
    ++counters_.returned;
    if (!table_.remove_segment(file, client, access)) return;
    kept_.remove(file, client);
  }
  tell_if_idle(file);
}

void LayoutService::dropped(FileId file, ClientId client, std::optional<layout::Access> only) {
  {
    const MutexLock lock(mutex_);
    if (!table_.remove(file, client, only)) return;
    kept_.remove(file, client);
  }
  tell_if_idle(file);
}

void LayoutService::revoke(FileId file, ClientId client, std::string_view cause) {
  {
    const MutexLock lock(mutex_);
    const bool pending = std::ranges::any_of(fences_, [&](const PendingFence& fence) {
      return fence.file == file && fence.client == client;
    });
    if (!pending) fences_.push_back({file, client, std::string(cause)});
    table_.remove(file, client);
    kept_.remove(file, client);
    if (pending) return;
    ++counters_.revoked;
  }
  spdlog::warn("layout revoked file={:x} client={:x} cause=\"{}\"", file, client, cause);
  start_fence(file, client);
}

std::size_t LayoutService::recall(FileId file, std::string_view reason, const RecallWhat& what) {
  std::vector<Recalled> asked;
  {
    const MutexLock lock(mutex_);
    asked = table_.recall(file, now_(), limits_.recall_timeout, reason, what);
    counters_.recalls += asked.size();
  }
  ask(file, asked, reason);
  return asked.size();
}

bool LayoutService::returning(FileId file, std::optional<layout::Access> only) const {
  const MutexLock lock(mutex_);
  if (blocked_locked(file)) return true;
  const auto grants = table_.of_file(file);
  return std::ranges::any_of(grants, [&](const Grant& grant) {
    return grant.state == GrantState::kRecalled && (!only || grant.access == *only);
  });
}

std::size_t LayoutService::recall_all(std::string_view reason) {
  std::set<FileId> files;
  {
    const MutexLock lock(mutex_);
    for (const Grant& grant : table_.all(SIZE_MAX)) files.insert(grant.file);
  }
  std::size_t asked = 0;
  for (const FileId file : files) asked += recall(file, reason);
  return asked;
}

void LayoutService::ask(FileId file, const std::vector<Recalled>& asked, std::string_view reason) {
  for (const auto& [client, only] : asked) {
    spdlog::info("layout recall file={:x} client={:x} mode={} reason=\"{}\"", file, client,
                 !only                                 ? "any"
                 : *only == layout::Access::kReadWrite ? "write"
                                                       : "read",
                 reason);
    recaller_.recall(file, client, only,
                     [this, file, client, only] { dropped(file, client, only); });
  }
}

bool LayoutService::blocked_locked(FileId file) const {
  return std::ranges::any_of(fences_, [&](const PendingFence& f) { return f.file == file; });
}

bool LayoutService::idle_locked(FileId file) const {
  return !table_.any_of_file(file) && !blocked_locked(file);
}

bool LayoutService::blocked(FileId file) const {
  const MutexLock lock(mutex_);
  return blocked_locked(file);
}

bool LayoutService::idle(FileId file) const {
  const MutexLock lock(mutex_);
  return idle_locked(file);
}

void LayoutService::tell_if_idle(FileId file) {
  {
    const MutexLock lock(mutex_);
    if (!idle_locked(file) || granted_.erase(file) == 0) return;
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
    const MutexLock lock(mutex_);
    const auto it = std::ranges::find_if(fences_, [&](const PendingFence& fence) {
      return fence.file == file && fence.client == client;
    });
    if (it == fences_.end()) return;
    if (!outcome) {
      ++counters_.fence_failures;
      it->in_flight = false;
      it->retry_at = now_() + limits_.fence_retry;
      spdlog::warn("fence failed file={:x} client={:x} error=\"{}\"", file, client,
                   outcome.error().describe());
      return;
    }
    fences_.erase(it);
  }
  spdlog::info("fence holds file={:x} client={:x}", file, client);
  tell_if_idle(file);
}

void LayoutService::tick() {
  std::vector<Grant> late;
  std::vector<std::pair<FileId, ClientId>> again;
  {
    const MutexLock lock(mutex_);
    const auto now = now_();
    late = table_.overdue(now);
    for (PendingFence& fence : fences_) {
      if (fence.in_flight || fence.retry_at > now) continue;
      fence.in_flight = true;
      again.emplace_back(fence.file, fence.client);
    }
  }
  for (const Grant& grant : late) {
    if (known(grant.file, grant.client)) {  // not revoked with its other mode
      revoke(grant.file, grant.client, "recall not answered in time");
    }
  }
  for (const auto& [file, client] : again) start_fence(file, client);
}

std::vector<Grant> LayoutService::grants_of(FileId file) const {
  const MutexLock lock(mutex_);
  return table_.of_file(file);
}

std::vector<Grant> LayoutService::grants(std::size_t limit) const {
  const MutexLock lock(mutex_);
  return table_.all(limit);
}

bool LayoutService::held_for_write(FileId file, std::optional<ClientId> except) const {
  const MutexLock lock(mutex_);
  return table_.any_writer(file, except);
}

bool LayoutService::known(FileId file, ClientId client) const {
  const MutexLock lock(mutex_);
  return table_.holds(file, client);
}

bool LayoutService::may_write(FileId file, ClientId client) const {
  const MutexLock lock(mutex_);
  return table_.find(file, client, layout::Access::kReadWrite).has_value();
}

bool LayoutService::recalled(FileId file, ClientId client, layout::Access access) const {
  const MutexLock lock(mutex_);
  const auto grant = table_.find(file, client, access);
  return grant && grant->state == GrantState::kRecalled;
}

LayoutCounters LayoutService::counters() const {
  const MutexLock lock(mutex_);
  return counters_;
}

}  // namespace weft::mds
