#include "ganesha-fsal/cluster/removal_queue.h"

#include <spdlog/spdlog.h>

#include "ganesha-fsal/cluster/await.h"
#include "ganesha-fsal/cluster/gather.h"

namespace weft::mds {
namespace {

// What one look into the queue takes; also the most objects one message to a data server names.
constexpr std::size_t kBatch = rpc::control::kMaxRemovals;

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

void RemovalQueue::kick() {
  {
    const MutexLock lock(mutex_);
    kicked_ = true;
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
  std::uint64_t left = 0;
  std::optional<layout::ObjectId> after;
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (stopping_) return left;
    }
    const auto queued = parts_.source.pending(after, kBatch);
    if (!queued) {
      spdlog::warn("event=removals_unread why=\"{}\"", queued.error().describe());
      return left + 1;
    }
    if (queued->empty()) return left;
    after = queued->back().object;
    std::map<std::uint32_t, Batch> by_server;
    for (const QueuedRemoval& removal : *queued) {
      for (const std::uint32_t id : removal.ds_ids) {
        // The others need not wait for one that may never be back.
        if (removal.least_epoch == 0 && parts_.may_change(removal.object, id)) {
          ++left;
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
    left += remove_batches(std::move(by_server));
  }
}

std::uint64_t RemovalQueue::remove_batches(std::map<std::uint32_t, Batch> batches) {
  std::uint64_t left = 0;
  std::erase_if(batches, [&](const auto& batch) {
    const bool away = !parts_.reachable(batch.first);
    if (away) left += batch.second.objects.size();
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
    left += batch.objects.size();
    spdlog::warn("event=removal_failed ds={} objects={} why=\"{}\"", id, batch.objects.size(),
                 (asked ? batch.removed : asked).error().describe());
  }
  if (removed == 0) return left;
  if (const auto finished = finish(batches); !finished) {
    spdlog::warn("event=removals_unrecorded removals={} why=\"{}\"", removed,
                 finished.error().describe());
    return left + removed;
  }
  spdlog::debug("event=removed removals={}", removed);
  return left;
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
