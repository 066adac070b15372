#include "rpc/transport/rdma/device_events.h"

#include <fcntl.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>

#include "rpc/base/edge_watch.h"

namespace weft::rpc::rdma {
namespace {

using boost::system::error_code;

// Of one wait, so that others of this thread are not starved.
constexpr std::size_t kMostEvents = 64;
constexpr std::chrono::seconds kCloseDeadline{5};

bool never_blocks(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  return flags >= 0 && ::fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0;
}

ConnectionEvent copy_of(const rdma_cm_event& event) {
  ConnectionEvent out{.type = event.event, .id = event.id, .status = event.status};
  if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST || event.event == RDMA_CM_EVENT_ESTABLISHED) {
    const rdma_conn_param& asked = event.param.conn;
    out.responder_resources = asked.responder_resources;
    out.initiator_depth = asked.initiator_depth;
    if (asked.private_data != nullptr) {
      out.private_size = std::min<std::size_t>(asked.private_data_len, out.private_data.size());
      std::memcpy(out.private_data.data(), asked.private_data, out.private_size);
    }
  }
  return out;
}

}  // namespace

struct DeviceEvents::Completions {
  Completions(std::shared_ptr<Device> of, ibv_comp_channel* made)
      : device(std::move(of)), channel(made) {}
  Completions(const Completions&) = delete;
  Completions& operator=(const Completions&) = delete;
  ~Completions() { close(); }
  void close() {
    if (channel == nullptr) return;
    watch.stop();
    ::ibv_destroy_comp_channel(std::exchange(channel, nullptr));
    device.reset();
  }

  std::shared_ptr<Device> device;
  ibv_comp_channel* channel;
  std::size_t queues = 1;
  EdgeWatch watch;
};

DeviceEvents::~DeviceEvents() { close(); }

Result<> DeviceEvents::open() {
  channel_ = ::rdma_create_event_channel();
  if (channel_ == nullptr) return fail_errno(errno, "hear of RDMA connections");
  error_code failed;
  if (!never_blocks(channel_->fd) || (wait_.assign(channel_->fd, failed), failed)) {
    ::rdma_destroy_event_channel(std::exchange(channel_, nullptr));
    return fail(Errc::kInternal, "wait for RDMA connections: " + failed.message());
  }
  boost::asio::post(context_, [self = shared_from_this()] { self->wait(); });
  return {};
}

void DeviceEvents::close() {
  if (std::exchange(closed_, true)) return;
  while (!users_.empty()) {
    CompletionUser* const user = *users_.begin();
    users_.erase(users_.begin());
    user->on_events_closed();
  }
  for (const auto& [device, completions] : completions_) completions->close();
  completions_.clear();
  if (channel_ == nullptr) return;
  static_cast<void>(wait_.release());
  ::rdma_destroy_event_channel(std::exchange(channel_, nullptr));
}

Result<ibv_comp_channel*> DeviceEvents::completions(const std::shared_ptr<Device>& device) {
  if (closed_) return fail(Errc::kClosed, "RDMA is shut down");
  if (const auto known = completions_.find(device.get()); known != completions_.end()) {
    ++known->second->queues;
    return known->second->channel;
  }
  ibv_comp_channel* channel = ::ibv_create_comp_channel(device->verbs());
  if (channel == nullptr) return fail_errno(errno, "a completion channel");
  if (!never_blocks(channel->fd)) {
    ::ibv_destroy_comp_channel(channel);
    return fail(Errc::kInternal, "a completion channel that blocks");
  }
  auto made = std::make_shared<Completions>(device, channel);
  auto watched = made->watch.start(
      context_, channel->fd, [self = shared_from_this(), made] { self->take_completions(made); });
  if (!watched) return pass(watched);
  completions_.emplace(device.get(), std::move(made));
  return channel;
}

void DeviceEvents::forget(const Device& device) {
  const auto known = completions_.find(&device);
  if (known == completions_.end() || --known->second->queues > 0) return;
  known->second->close();
  completions_.erase(known);
}

void DeviceEvents::wait() {
  if (closed_) return;
  wait_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                   [self = shared_from_this()](const error_code& error) {
                     if (error || self->closed_) return;
                     self->take_events();
                     self->wait();
                   });
}

void DeviceEvents::take_events() {
  rdma_cm_event* event = nullptr;
  for (std::size_t i = 0; i < kMostEvents && !closed_; ++i) {
    if (::rdma_get_cm_event(channel_, &event) != 0) return;
    // What it is of has the same context as who listens, until it is told otherwise.
    auto* user = static_cast<ConnectionUser*>(event->id->context);
    const ConnectionEvent copy = copy_of(*event);
    ::rdma_ack_cm_event(event);
    if (user != nullptr) user->on_event(copy);
  }
}

void DeviceEvents::take_completions(const std::shared_ptr<Completions>& completions) {
  ibv_cq* queue = nullptr;
  void* user = nullptr;
  // A queue tells once until it is asked again. So of a lone one nothing more is there to be looked
  // for, and what comes meanwhile is told of again.
  const std::size_t most = std::max<std::size_t>(users_.size(), 1);
  for (std::size_t i = 0; i < std::min(most, kMostEvents); ++i) {
    if (closed_ || completions->channel == nullptr) return;
    if (::ibv_get_cq_event(completions->channel, &queue, &user) != 0) return;
    ::ibv_ack_cq_events(queue, 1);
    static_cast<CompletionUser*>(user)->on_completions();
  }
  if (most <= kMostEvents) return;
  boost::asio::post(
      context_, [self = shared_from_this(), completions] { self->take_completions(completions); });
}

void close(IoThreads& threads, std::vector<std::shared_ptr<DeviceEvents>>& events) {
  for (unsigned i = 0; i < events.size(); ++i) {
    auto& context = threads.context(i);
    if (context.stopped()) {
      events[i]->close();
      continue;
    }
    auto done = std::make_shared<std::promise<void>>();
    boost::asio::post(context, [own = events[i], done] {
      own->close();
      done->set_value();
    });
    static_cast<void>(done->get_future().wait_for(kCloseDeadline));
  }
  events.clear();
}

}  // namespace weft::rpc::rdma
