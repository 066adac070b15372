#include "ganesha-fsal/repair/readmission.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "layout/relocation.h"

namespace weft::mds {
namespace {

// Whether the stripe is current elsewhere, so that this copy may be given up.
bool has_another(const layout::LayoutMap& map, const layout::Seat& seat) {
  for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
    const bool current = map.copies[copy].state_of(seat.stripe) == layout::CopyState::kCurrent;
    if (copy != seat.copy && current) return true;
  }
  return false;
}

bool has_missed(const layout::LayoutMap& map) {
  return std::ranges::any_of(map.copies, [](const layout::Copy& copy) {
    return copy.state != layout::CopyState::kCurrent;
  });
}

control::Fence fence_of(const layout::ObjectId& object, std::uint32_t epoch) {
  control::Fence fence;
  fence.object = object;
  fence.epoch = epoch;
  return fence;
}

}  // namespace

void Readmission::start() {
  thread_ = std::thread([this] { run(); });
}

void Readmission::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Readmission::look_now() {
  {
    const MutexLock lock(mutex_);
    look_now_ = true;
  }
  wake_.notify_all();
}

void Readmission::run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    look_now_ = false;
    lock.unlock();
    turn();
    lock.lock();
    wake_.wait_for(mutex_, parts_.limits.round,
                   [this]() WEFT_REQUIRES(mutex_) { return stopping_ || look_now_; });
  }
}

void Readmission::turn() {
  const auto stores = parts_.foreign();
  std::erase_if(
      pauses_, [now = parts_.clock.now()](const auto& pause) { return pause.second.until <= now; });
  for (const Registry::Foreign& store : stores) {
    if (!paused(store)) review(store);
  }
}

bool Readmission::paused(const Registry::Foreign& store) const {
  const auto pause = pauses_.find(store.ds_id);
  return pause != pauses_.end() && pause->second.state == store.state &&
         pause->second.as_is == store.as_is;
}

void Readmission::pause(const Registry::Foreign& store, Clock::duration length) {
  pauses_[store.ds_id] = {store.state, store.as_is, parts_.clock.now() + length};
}

bool Readmission::goes_on(const Registry::Foreign& store) const {
  {
    const MutexLock lock(mutex_);
    if (stopping_) return false;
  }
  return std::ranges::any_of(parts_.foreign(), [&](const Registry::Foreign& now) {
    return now.ds_id == store.ds_id && now.state == store.state && now.as_is == store.as_is;
  });
}

void Readmission::review(const Registry::Foreign& store) {
  const std::uint32_t id = store.ds_id;
  if (!parts_.lapse(id)) {
    return parts_.explain(id, "waiting until the data server's last lease has surely ended");
  }
  const auto found = go_through(store);
  if (!found) {
    spdlog::error("event=store_review_failed ds={} error=\"{}\"", id, found.error().describe());
    return pause(store, parts_.limits.retry);
  }
  if (found->interrupted) return;  // nothing was promised: the next turn begins anew
  if (found->failed > 0) {
    parts_.explain(id, "its copies cannot be marked stale yet: " + found->error);
    return pause(store, parts_.limits.retry);
  }
  if (!store.as_is && found->only > 0) {
    parts_.explain(
        id, fmt::format("it has the only copy of {0} objects: bring the newer store back, or weft "
                        "ds accept {1} --rolled-back, or weft ds remove {1} --yes",
                        found->only, id));
    return pause(store, parts_.limits.look_again);
  }
  if (!store.as_is && found->away > 0) {
    parts_.explain(id, fmt::format("waiting for the data servers that have the other copies of {} "
                                   "objects (or weft ds accept {} --rolled-back)",
                                   found->away, id));
    return pause(store, parts_.limits.retry);
  }
  // Fences before it is let in: it tells nobody apart who was fenced while its store was elsewhere.
  auto admitted = fence_clients(id);
  if (admitted && goes_on(store)) admitted = parts_.admit(id, store.state);
  spdlog::warn("event=store_admitted ds={} generation={} only_copies={} as_is={} outcome=\"{}\"",
               id, store.state.generation, found->only, store.as_is,
               admitted ? "done" : admitted.error().describe());
  pause(store, parts_.limits.retry);
}

Result<Readmission::Found> Readmission::go_through(const Registry::Foreign& store) const {
  Found found;
  std::optional<layout::ObjectId> after;
  while (true) {
    if (!goes_on(store)) {
      found.interrupted = true;
      return found;
    }
    auto page = parts_.names.objects_of(store.ds_id, after, parts_.limits.page);
    if (!page) return pass(page);
    if (auto marked = mark_page(store, *page, found); !marked) return pass(marked);
    if (page->size() < parts_.limits.page) return found;
    after = page->back();
  }
}

Result<> Readmission::mark_page(const Registry::Foreign& store,
                                std::span<const layout::ObjectId> objects, Found& found) const {
  const std::uint32_t ds_id = store.ds_id;
  std::vector<control::Fence> fences;
  for (const layout::ObjectId& object : objects) {
    auto before = parts_.names.layout(object.fileid);
    if (!before) return pass(before);
    if (!*before || (*before)->object_generation != object.generation) continue;  // it was removed
    const auto seat = layout::seat_of(**before, ds_id);
    if (!seat) continue;  // it was moved away
    // Marking the only copy stale would leave nothing to be read, which is no better than old data:
    // an administrator decides.
    bool stays = false;
    if (!has_another(**before, *seat)) {
      ++found.only;
      stays = true;
    } else if (auto marked = parts_.mark(object.fileid, ds_id); !marked) {
      if (marked.error() == Errc::kStale) continue;  // it was removed meanwhile
      const bool away = marked.error() == Errc::kLayoutTryLater;
      ++(away ? found.away : found.failed);
      if (!away) found.error = marked.error().describe();
      stays = away;
    }
    // What others missed they missed of newer bytes than these.
    if (store.as_is && stays && has_missed(**before)) {
      auto doubted = parts_.names.doubt_stale(object.fileid);
      if (!doubted && doubted.error() != Errc::kStale) return doubted;
    }
    // The present epoch: marking may have raised it. At 1 nobody was ever fenced.
    auto after = parts_.names.layout(object.fileid);
    if (!after) return pass(after);
    if (!*after) continue;
    if ((*after)->object_epoch > 1) fences.push_back(fence_of(object, (*after)->object_epoch));
  }
  return fences.empty() ? Result<>() : parts_.fence(ds_id, fences);
}

Result<> Readmission::fence_clients(std::uint32_t ds_id) const {
  auto epochs = parts_.names.client_epochs();
  if (!epochs) return pass(epochs);
  std::vector<control::Fence> fences;
  for (const Namespace::ClientEpoch& of : *epochs) {
    control::Fence fence;
    fence.what = control::Fence::What::kClient;
    fence.client_id = of.client;
    fence.epoch = of.epoch;
    fences.push_back(fence);
    if (fences.size() < control::kMaxFences) continue;
    if (auto kept = parts_.fence(ds_id, fences); !kept) return kept;
    fences.clear();
  }
  return fences.empty() ? Result<>() : parts_.fence(ds_id, fences);
}

}  // namespace weft::mds
