#include "ganesha-fsal/cluster/removal_queue.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/cluster/await.h"
#include "ganesha-fsal/cluster/gather.h"

namespace weft::mds {
namespace {

// What one look into the queue takes; also the most objects one message to a data server names.
constexpr std::size_t kBatch = rpc::control::kMaxRemovals;

constexpr std::uint32_t kEverywhere = 0;  // no data server has that number

}  // namespace

RemovalQueue::~RemovalQueue() { stop(); }

void RemovalQueue::start() {
  thread_ = std::thread([this] { run(); });
}

void RemovalQueue::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void RemovalQueue::queued(std::span<const layout::ObjectId> objects) {
  {
    const MutexLock lock(mutex_);
    kicked_ = true;
    if (new_.size() + objects.size() <= parts_.remembered) {
      new_.insert(new_.end(), objects.begin(), objects.end());
    } else {
      look_at_all_ = true;
    }
  }
  wake_.notify_all();
}

void RemovalQueue::kick() {
  {
    const MutexLock lock(mutex_);
    kicked_ = true;
  }
  wake_.notify_all();
}

void RemovalQueue::look_again() {
  {
    const MutexLock lock(mutex_);
    look_at_all_ = kicked_ = true;
  }
  wake_.notify_all();
}

std::uint64_t RemovalQueue::backlog() const {
  const MutexLock lock(mutex_);
  return backlog_;
}

void RemovalQueue::run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (backlog_ > 0) {
      wake_.wait_for(mutex_, parts_.period,
                     [this]() WEFT_REQUIRES(mutex_) { return kicked_ || stopping_; });
    } else {
      wake_.wait(mutex_, [this]() WEFT_REQUIRES(mutex_) { return kicked_ || stopping_; });
    }
    if (stopping_) return;
    kicked_ = false;
    lock.unlock();
    const std::uint64_t left = pass();
    lock.lock();
    backlog_ = left;
  }
}

std::uint64_t RemovalQueue::pass() {
  const std::vector<Where> again = std::exchange(again_, {});
  std::set<Where> wanted(again.begin(), again.end());
  left_ = 0;
  bool all =
      std::ranges::any_of(away_, [this](const auto& one) { return parts_.reachable(one.first); });
  {
    const MutexLock lock(mutex_);
    all = std::exchange(look_at_all_, false) || all;
    for (const layout::ObjectId& object : new_) wanted.emplace(object, kEverywhere);
    new_.clear();
  }
  const auto passed = all ? pass_all() : pass_some(wanted);
  std::uint64_t left = left_;
  for (const auto& [id, count] : away_) left += count;
  if (passed) return left;
  spdlog::warn("event=removals_unread why=\"{}\"", passed.error().describe());
  const MutexLock lock(mutex_);
  look_at_all_ = true;
  return left + 1;
}

Result<> RemovalQueue::pass_all() {
  away_.clear();
  std::optional<layout::ObjectId> after;
  while (!stopping()) {
    const auto queued = parts_.source.pending(after, kBatch);
    if (!queued) return std::unexpected(queued.error());
    if (queued->empty()) return {};
    after = queued->back().object;
    remove(*queued);
  }
  return {};
}

Result<> RemovalQueue::pass_some(const std::set<Where>& wanted) {
  std::vector<layout::ObjectId> objects;
  for (const auto& [object, ds_id] : wanted) {
    if (objects.empty() || objects.back() != object) objects.push_back(object);
  }
  for (std::size_t at = 0; at < objects.size() && !stopping(); at += kBatch) {
    const auto some = std::span(objects).subspan(at, std::min(kBatch, objects.size() - at));
    auto queued = parts_.source.pending(some);
    if (!queued) return std::unexpected(queued.error());
    for (QueuedRemoval& removal : *queued) {
      if (wanted.contains({removal.object, kEverywhere})) continue;
      std::erase_if(removal.ds_ids,
                    [&](std::uint32_t ds_id) { return !wanted.contains({removal.object, ds_id}); });
    }
    remove(*queued);
  }
  return {};
}

bool RemovalQueue::stopping() const {
  const MutexLock lock(mutex_);
  return stopping_;
}

void RemovalQueue::remove(std::span<const QueuedRemoval> queued) {
  std::map<std::uint32_t, Batch> by_server;
  for (const QueuedRemoval& removal : queued) {
    for (const std::uint32_t id : removal.ds_ids) {
      // The others need not wait for one that may never be back.
      if (removal.least_epoch == 0 && parts_.may_change(removal.object, id)) {
        try_again(id, {&removal.object, 1});
        continue;
      }
      Batch& batch = by_server[id];
      batch.objects.push_back(removal.object);
      if (removal.least_epoch == 0) continue;
      control::Fence fence;
      fence.object = removal.object;
      fence.epoch = removal.least_epoch;
      batch.fences.push_back(fence);
    }
  }
  remove_batches(std::move(by_server));
}

void RemovalQueue::try_again(std::uint32_t ds_id, std::span<const layout::ObjectId> objects) {
  left_ += objects.size();
  if (again_.size() + objects.size() <= parts_.remembered) {
    for (const layout::ObjectId& object : objects) again_.emplace_back(object, ds_id);
    return;
  }
  const MutexLock lock(mutex_);
  look_at_all_ = true;
}

void RemovalQueue::remove_batches(std::map<std::uint32_t, Batch> batches) {
  std::erase_if(batches, [&](const auto& batch) {
    const bool away = !parts_.reachable(batch.first);
    if (away) away_[batch.first] += batch.second.objects.size();
    return away;
  });
  const auto asked = await<void>([&](Done<void> done) {
    const auto all = Gather::make(batches.size(), std::move(done));
    for (auto& [id, batch] : batches) {
      ask(id, batch, [&batch, one = all->one()](Result<> removed) mutable {
        batch.removed = std::move(removed);
        one({});
      });
    }
  });
  std::uint64_t removed = 0;
  for (auto& [id, batch] : batches) {
    if (asked && batch.removed) {
      removed += batch.objects.size();
      continue;
    }
    try_again(id, batch.objects);
    spdlog::warn("event=removal_failed ds={} objects={} why=\"{}\"", id, batch.objects.size(),
                 (asked ? batch.removed : asked).error().describe());
  }
  if (removed == 0) return;
  if (const auto finished = finish(batches); !finished) {
    for (const auto& [id, batch] : batches) {
      if (batch.removed) try_again(id, batch.objects);
    }
    spdlog::warn("event=removals_unrecorded removals={} why=\"{}\"", removed,
                 finished.error().describe());
    return;
  }
  spdlog::debug("event=removed removals={}", removed);
}

void RemovalQueue::ask(std::uint32_t ds_id, Batch& batch, Done<void> done) {
  if (batch.fences.empty()) {
    return parts_.servers.call(ds_id, control::Remove{batch.objects}, std::move(done));
  }
  parts_.servers.fence({&ds_id, 1}, std::move(batch.fences),
                       [this, ds_id, &batch, done = std::move(done)](Result<> fenced) mutable {
                         if (!fenced) return done(std::move(fenced));
                         parts_.servers.call(ds_id, control::Remove{batch.objects},
                                             std::move(done));
                       });
}

Result<> RemovalQueue::finish(const std::map<std::uint32_t, Batch>& batches) {
  std::map<layout::ObjectId, std::vector<std::uint32_t>> by_object;
  for (const auto& [id, batch] : batches) {
    if (!batch.removed) continue;
    for (const layout::ObjectId& object : batch.objects) by_object[object].push_back(id);
  }
  std::vector<QueuedRemoval> removed;
  removed.reserve(by_object.size());
  for (auto& [object, ds_ids] : by_object) removed.push_back({object, std::move(ds_ids)});
  return parts_.source.done(removed);
}

}  // namespace weft::mds
