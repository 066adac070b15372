// A QueuePair of a real device: a reliable connection that librdmacm has made, with a completion
// queue of its own, so that no other connection can make it overflow.
//
// A connection is one that a peer asks for, or one that this side asks for, which exposes memory.
//
// It ends by its queue pair being destroyed: from then on the device touches none of the memory
// that work names, and what was under way is told to have failed.
//
// Threading: queue_pair.h. ConnectionId::cut() alone is for any thread.
//
// Ownership: queue_pair.h. DeviceEvents knows it as long as it has a user.
#pragma once

#include <rdma/rdma_cma.h>

#include <functional>
#include <memory>
#include <string>

#include "rpc/base/mutex.h"
#include "rpc/transport/rdma/device_events.h"
#include "rpc/transport/rdma/queue_pair.h"

namespace weft::rpc::rdma {

// An rdma_cm_id of a connection, one that a peer has asked for or that it is asked for.
class ConnectionId {
 public:
  explicit ConnectionId(rdma_cm_id* id) : id_(id) {}
  ConnectionId(const ConnectionId&) = delete;
  ConnectionId& operator=(const ConnectionId&) = delete;
  ~ConnectionId() { destroy(); }

  // With its queue pair, if it has one. A peer that was not accepted is refused. The device may be
  // gone afterwards, if it was removed: what else is of it goes between these two.
  void destroy_pair() WEFT_EXCLUDES(mutex_);
  void destroy() WEFT_EXCLUDES(mutex_);
  // Ends the connection, whatever its thread does.
  void cut() WEFT_EXCLUDES(mutex_);
  // Null once destroyed. On the thread that destroys it.
  [[nodiscard]] rdma_cm_id* get() const WEFT_NO_THREAD_SAFETY_ANALYSIS { return id_; }

 private:
  Mutex mutex_;  // held over calls to the kernel that do not wait for a peer
  rdma_cm_id* id_ WEFT_GUARDED_BY(mutex_);
};

struct QueuePairOptions {
  std::size_t receives = 32;
  std::size_t work = 256;
  std::size_t send_bytes = 4096;  // inline, of one message
  std::size_t receive_bytes = 4096;
};

// For a connection that is asked for, with its request. On the thread of `events`.
[[nodiscard]] Result<std::unique_ptr<QueuePair>> make_queue_pair(
    std::shared_ptr<DeviceEvents> events, std::shared_ptr<Device> device,
    std::shared_ptr<ConnectionId> id, const ConnectionEvent& request, std::string peer,
    const QueuePairOptions& options);

// Asks for a connection: `id` has a route, `device` is this connection's alone (Reach::kPeers), and
// is exposed to the peer. `connected` comes once, unless the queue pair is destroyed before: by
// then it can be started. kUnreachable: refused, or nobody answers.
[[nodiscard]] Result<std::unique_ptr<QueuePair>> connect_queue_pair(
    std::shared_ptr<DeviceEvents> events, std::shared_ptr<Device> device,
    std::shared_ptr<ConnectionId> id, std::string peer, const QueuePairOptions& options,
    std::move_only_function<void(Result<>)> connected);

}  // namespace weft::rpc::rdma
