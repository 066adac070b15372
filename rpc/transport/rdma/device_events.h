// What an I/O thread hears of RDMA devices: events of connections (librdmacm's) and of completed
// work (one completion channel for each device), waited for through its io_context. It waits in the
// kernel and does not spin: a processor is shared with what else the thread has to do.
//
// Threading: open() from any thread, once; everything else, and every call it makes, on the thread
// of its context, or when that runs no more.
//
// Ownership: shared with its pending waits. Who is called is known by address: by the `context` of
// an rdma_cm_id, or of a completion queue, which are gone before who they belong to. close() ends
// all queue pairs of the thread.
//
// Invariant: no event is kept unacknowledged while somebody is called, so that ids and completion
// queues can be destroyed at any time.
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "rpc/transport/io_threads.h"
#include "rpc/transport/rdma/devices.h"

namespace weft::rpc::rdma {

struct ConnectionEvent {
  rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_RESOLVED;
  rdma_cm_id* id = nullptr;
  int status = 0;
  // Of a connection request, and of one that stands.
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::array<std::byte, 256> private_data{};
  std::size_t private_size = 0;
};

// In the `context` of an rdma_cm_id.
class ConnectionUser {
 public:
  ConnectionUser() = default;
  ConnectionUser(const ConnectionUser&) = delete;
  ConnectionUser& operator=(const ConnectionUser&) = delete;
  virtual ~ConnectionUser() = default;
  virtual void on_event(const ConnectionEvent& event) = 0;
};

// In the context of a completion queue, one for each of these.
class CompletionUser {
 public:
  CompletionUser() = default;
  CompletionUser(const CompletionUser&) = delete;
  CompletionUser& operator=(const CompletionUser&) = delete;
  virtual ~CompletionUser() = default;
  virtual void on_completions() = 0;
  // The thread is to hear nothing more. It may be gone afterwards.
  virtual void on_events_closed() = 0;
};

class DeviceEvents : public std::enable_shared_from_this<DeviceEvents> {
 public:
  // `thread`: the number of the context's among those that are served.
  DeviceEvents(boost::asio::io_context& context, unsigned thread)
      : context_(context), thread_(thread), wait_(context) {}
  DeviceEvents(const DeviceEvents&) = delete;
  DeviceEvents& operator=(const DeviceEvents&) = delete;
  ~DeviceEvents();

  // kNotSupported, kUnreachable and the like where the machine has no RDMA.
  [[nodiscard]] Result<> open();
  void close();

  [[nodiscard]] boost::asio::io_context& context() { return context_; }
  [[nodiscard]] rdma_event_channel* connections() { return channel_; }
  // For one queue, until it is gone and forget() says so. Nothing of a device is kept when it has
  // no queue here: one that is removed goes with its last connection (librdmacm closes its verbs).
  [[nodiscard]] Result<ibv_comp_channel*> completions(const std::shared_ptr<Device>& device);
  void forget(const Device& device);
  // Which of a device's `count` completion vectors the thread's queues have: threads have different
  // ones, so that a card interrupts more than one processor.
  [[nodiscard]] int vector(int count) const {
    return count > 1 ? static_cast<int>(thread_ % static_cast<unsigned>(count)) : 0;
  }
  void add(CompletionUser* user) { users_.insert(user); }
  void remove(CompletionUser* user) { users_.erase(user); }

 private:
  struct Completions;

  void wait();
  void take_events();
  void take_completions(const std::shared_ptr<Completions>& completions);

  boost::asio::io_context& context_;
  const unsigned thread_;
  rdma_event_channel* channel_ = nullptr;
  boost::asio::posix::stream_descriptor wait_;
  bool closed_ = false;
  std::map<const Device*, std::shared_ptr<Completions>> completions_;
  std::set<CompletionUser*> users_;
};

// Closes each on its thread, or here once that has ended. Not from one of the threads.
void close(IoThreads& threads, std::vector<std::shared_ptr<DeviceEvents>>& events);

}  // namespace weft::rpc::rdma
