// Removes the objects of files that are gone.
//
// The transaction that removes a file queues its objects in the metadata store (a removal). This
// worker tells the data servers, batch by batch and all of them at once, and takes off the queue
// what they acknowledged. A data server that is away keeps its removals queued; they are tried
// again when it is back. So are those of objects that a change of ours may come to yet. Changes of
// an earlier run of ours come to nothing: data servers fence them first
// (Registry::missing_fences()).
//
// The queue may be long while a data server is away. It is read from its start when this begins,
// when a data server is back that has removals in it, and when more is new or failed than is
// remembered (Parts::remembered). Otherwise only what is new, or failed, is looked at.
//
// Threading: one thread of its own; kick() and queued() from any. stop() joins.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "ganesha-fsal/cluster/data_servers.h"
#include "layout/object_id.h"
#include "rpc/base/error.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

// An object to be removed at these data servers.
struct QueuedRemoval {
  layout::ObjectId object;
  std::vector<std::uint32_t> ds_ids;
  std::uint32_t least_epoch = 0;  // handles of it below are refused first; 0: nobody has any
};

// The durable queue: the namespace's. Called on the worker thread only; may block.
class RemovalSource {
 public:
  RemovalSource() = default;
  RemovalSource(const RemovalSource&) = delete;
  RemovalSource& operator=(const RemovalSource&) = delete;
  virtual ~RemovalSource() = default;

  // The oldest removals after `after` (nullopt: from the start), in order, at most `limit`.
  [[nodiscard]] virtual Result<std::vector<QueuedRemoval>> pending(
      std::optional<layout::ObjectId> after, std::size_t limit) = 0;
  // Those of these objects.
  [[nodiscard]] virtual Result<std::vector<QueuedRemoval>> pending(
      std::span<const layout::ObjectId> objects) = 0;
  // The data servers named with them have removed them, or never had them.
  [[nodiscard]] virtual Result<> done(std::span<const QueuedRemoval> removed) = 0;
};

class RemovalQueue {
 public:
  struct Parts {
    RemovalSource& source;
    DataServers& servers;
    // Those that are not are not asked.
    std::function<bool(std::uint32_t ds_id)> reachable;
    // A change of ours may come to the object there yet, and would make it anew: its removal waits.
    // Asked where no fence keeps such changes off. Any thread.
    std::function<bool(const layout::ObjectId&, std::uint32_t ds_id)> may_change;
    std::chrono::milliseconds period = std::chrono::seconds(2);
    std::size_t remembered = std::size_t{1} << 18;  // objects that are new; those that failed
  };
  // What can be removed now is, at once after queued() and kick(), and every `period` while
  // anything is left.
  explicit RemovalQueue(Parts parts) : parts_(std::move(parts)) {}
  RemovalQueue(const RemovalQueue&) = delete;
  RemovalQueue& operator=(const RemovalQueue&) = delete;
  ~RemovalQueue();

  void start();
  void stop();
  // Removals of these objects are new in the queue.
  void queued(std::span<const layout::ObjectId> objects);
  // A data server is back.
  void kick();
  // Removals were taken off the queue by others, of a data server that is removed for good.
  void look_again();

  // Removals seen and not finished; for reports.
  [[nodiscard]] std::uint64_t backlog() const;

 private:
  void run();
  using Where = std::pair<layout::ObjectId, std::uint32_t>;  // at which data server

  // Removes what can be. Returns how many removals at data servers are left.
  std::uint64_t pass();
  [[nodiscard]] Result<> pass_all();
  [[nodiscard]] Result<> pass_some(const std::set<Where>& wanted);
  [[nodiscard]] bool stopping() const;
  void remove(std::span<const QueuedRemoval> queued);
  struct Batch {
    std::vector<layout::ObjectId> objects;
    std::vector<control::Fence> fences;
    Result<> removed;
  };
  void remove_batches(std::map<std::uint32_t, Batch> batches);  // by data server
  void try_again(std::uint32_t ds_id, std::span<const layout::ObjectId> objects);
  void ask(std::uint32_t ds_id, Batch& batch, Done<void> done);
  // What was acknowledged is taken off the queue, all data servers' at once.
  [[nodiscard]] Result<> finish(const std::map<std::uint32_t, Batch>& batches);

  const Parts parts_;
  mutable Mutex mutex_;
  CondVar wake_;
  bool kicked_ WEFT_GUARDED_BY(mutex_) = true;
  std::vector<layout::ObjectId> new_ WEFT_GUARDED_BY(mutex_);
  bool look_at_all_ WEFT_GUARDED_BY(mutex_) = true;
  bool stopping_ WEFT_GUARDED_BY(mutex_) = false;
  std::uint64_t backlog_ WEFT_GUARDED_BY(mutex_) = 0;
  // The worker's: how many removals wait for data servers that are away; and what else is left of a
  // pass, as far as it is remembered.
  std::map<std::uint32_t, std::uint64_t> away_;
  std::uint64_t left_ = 0;
  std::vector<Where> again_;
  std::thread thread_;
};

}  // namespace weft::mds
