#include "ganesha-fsal/cluster/removal_queue.h"

#include <spdlog/spdlog.h>

#include "ganesha-fsal/cluster/await.h"

namespace weft::mds {
namespace {

// What one look into the queue takes; also the most objects one message to a data server names.
constexpr std::size_t kBatch = rpc::control::kMaxRemovals;

}  // namespace

RemovalQueue::RemovalQueue(RemovalSource& source, DataServers& servers,
                           std::function<bool(std::uint32_t)> reachable,
                           std::chrono::milliseconds period)
    : source_(source), servers_(servers), reachable_(std::move(reachable)), period_(period) {}

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
      wake_.wait_for(mutex_, period_,
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
    const auto queued = source_.pending(after, kBatch);
    if (!queued) {
      spdlog::warn("event=removals_unread why=\"{}\"", queued.error().describe());
      return left + 1;
    }
    if (queued->empty()) return left;
    after = queued->back().object;
    std::map<std::uint32_t, Batch> by_server;
    for (const QueuedRemoval& removal : *queued) {
      for (const std::uint32_t id : removal.ds_ids) {
        Batch& batch = by_server[id];
        batch.objects.push_back(removal.object);
        if (removal.least_epoch == 0) continue;
        control::Fence fence;
        fence.object = removal.object;
        fence.epoch = removal.least_epoch;
        batch.fences.push_back(fence);
      }
    }
    for (auto& [id, batch] : by_server) left += remove_batch(id, std::move(batch));
  }
}

std::uint64_t RemovalQueue::remove_batch(std::uint32_t ds_id, Batch batch) {
  const std::vector<layout::ObjectId>& objects = batch.objects;
  if (!reachable_(ds_id)) return objects.size();
  Result<> removed;
  if (!batch.fences.empty()) {
    removed = await<void>(
        [&](Done<void> done) { servers_.fence({&ds_id, 1}, batch.fences, std::move(done)); });
  }
  if (removed) removed = servers_.ask(ds_id, control::Remove{objects});
  if (!removed) {
    spdlog::warn("event=removal_failed ds={} objects={} why=\"{}\"", ds_id, objects.size(),
                 removed.error().describe());
    return objects.size();
  }
  if (const auto finished = source_.done(ds_id, objects); !finished) {
    spdlog::warn("event=removal_unrecorded ds={} objects={} why=\"{}\"", ds_id, objects.size(),
                 finished.error().describe());
    return objects.size();
  }
  spdlog::debug("event=removed ds={} objects={}", ds_id, objects.size());
  return 0;
}

}  // namespace weft::mds
