#include "rpc/transport/rdma/rdma_server.h"

#include <netdb.h>
#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <cerrno>

#include "rpc/base/assert.h"
#include "rpc/base/log_limit.h"
#include "rpc/base/mutex.h"
#include "rpc/transport/rdma/verbs_queue_pair.h"

namespace weft::rpc::rdma {
namespace {

constexpr int kBacklog = 128;
constexpr unsigned kCallsToLookAgain = 25;

// "192.0.2.7" and "812".
struct Peer {
  std::string host = "?";
  std::string service;
};
Peer peer_of(rdma_cm_id* id) {
  char host[NI_MAXHOST] = "?";
  char service[NI_MAXSERV] = "";
  const sockaddr* address = ::rdma_get_peer_addr(id);
  const socklen_t size =
      address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  static_cast<void>(::getnameinfo(address, size, host, sizeof host, service, sizeof service,
                                  NI_NUMERICHOST | NI_NUMERICSERV));
  return {.host = host, .service = service};
}

// False: nobody can connect through its port now, for want of a link.
bool port_is_up(const rdma_cm_id& id) {
  ibv_port_attr port{};
  return id.verbs == nullptr ||  // it is bound to all devices
         ::ibv_query_port(id.verbs, id.port_num, &port) != 0 || port.state >= IBV_PORT_ACTIVE;
}

// The whole process, for those who are connected.
struct Shared {
  Shared(BufferPool& buffer_pool, ServerOptions server_options, Server::Accept on_accept)
      : pool(buffer_pool),
        options(std::move(server_options)),
        accept(std::move(on_accept)),
        admission(std::make_shared<Admission>(options.admission)),
        devices(pool.arena()->memory()) {}

  BufferPool& pool;
  const ServerOptions options;
  const Server::Accept accept;
  const std::shared_ptr<Admission> admission;
  const std::shared_ptr<Counts> counts = std::make_shared<Counts>();
  Devices devices;
  LogLimit refused_log;
};

// A connection that is asked for, on its way to its thread.
struct Arrival {
  std::shared_ptr<ConnectionId> id;
  ConnectionEvent request;
  std::string peer;
  std::shared_ptr<Device> device;
  Admission::PlacePtr place;
};

Result<> begin(const std::shared_ptr<Shared>& shared, const std::shared_ptr<DeviceEvents>& events,
               const Arrival& arrival) {
  if (events->connections() == nullptr) return fail(Errc::kClosed, "RDMA is shut down");
  if (::rdma_migrate_id(arrival.id->get(), events->connections()) != 0) {
    return fail_errno(errno, "move the connection to its thread");
  }
  const Limits& limits = shared->options.limits;
  auto pair = make_queue_pair(events, arrival.device, arrival.id, arrival.request, arrival.peer,
                              {.receives = limits.credits, .receive_bytes = limits.receive_bytes});
  if (!pair) return pass(pair);
  auto channel = serve(events->context(), shared->pool, std::move(*pair), limits,
                       shared->admission->place_of(arrival.place), shared->counts);
  shared->admission->has_channel(arrival.place, channel);
  shared->accept(std::move(channel));
  return {};
}

}  // namespace

struct Server::Impl final : ConnectionUser {
  struct Place {
    rdma_cm_id* id = nullptr;        // null: not bound
    std::shared_ptr<Device> device;  // that it is bound to; null: to all
    bool listening = false;
    bool port_up = true;  // when it was looked at last
  };

  Impl(IoThreads& io_threads, std::shared_ptr<Shared> of_all)
      : threads(io_threads), shared(std::move(of_all)), places(shared->options.addresses.size()) {}

  // On an I/O thread; requests on the first.
  void on_event(const ConnectionEvent& event) override WEFT_EXCLUDES(mutex);
  void take(const ConnectionEvent& request) WEFT_EXCLUDES(mutex);
  [[nodiscard]] Result<> open();
  [[nodiscard]] Result<> prepare(bool listen) WEFT_EXCLUDES(mutex);
  void prepare_or_say(bool listen) WEFT_EXCLUDES(mutex);
  [[nodiscard]] Result<> bind_at(std::size_t index) WEFT_REQUIRES(mutex);
  [[nodiscard]] Result<> listen_at(std::size_t index) WEFT_REQUIRES(mutex);
  static void give_up(Place& place) {
    place.device.reset();  // first: its verbs may go with the identifier
    ::rdma_destroy_id(std::exchange(place, {}).id);
  }
  void look_at_port(std::size_t index) WEFT_REQUIRES(mutex);
  void look_at_ports() WEFT_EXCLUDES(mutex);
  void stop_listening() WEFT_EXCLUDES(mutex);

  IoThreads& threads;
  const std::shared_ptr<Shared> shared;
  std::vector<std::shared_ptr<DeviceEvents>> events;  // of each thread; none before there is RDMA
  mutable Mutex mutex;
  unsigned calls = 0;   // of look(), since something did not listen
  unsigned looks = 0;   // calls of it
  std::string why_not;  // it does not listen everywhere, as was said last
  std::vector<Place> places WEFT_GUARDED_BY(mutex);
  bool stopped WEFT_GUARDED_BY(mutex) = false;
};

void Server::Impl::on_event(const ConnectionEvent& event) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) return take(event);
  if (event.type != RDMA_CM_EVENT_DEVICE_REMOVAL) return;
  const MutexLock lock(mutex);
  for (Place& place : places) {
    if (place.id == nullptr || place.id != event.id) continue;
    spdlog::warn("event=rdma_device_removed");
    give_up(place);
  }
}

void Server::Impl::take(const ConnectionEvent& request) {
  auto id = std::make_shared<ConnectionId>(request.id);
  std::uint64_t cuts = 0;
  {
    const MutexLock lock(mutex);
    if (stopped) return;  // asked before it was told
    cuts = shared->admission->cuts();
  }
  const Peer peer = peer_of(request.id);
  auto device = shared->devices.of(request.id->verbs);
  if (!device) {
    return shared->refused_log.warn("event=connection_refused peer={} transport=rdma why=\"{}\"",
                                    peer.host, device.error().describe());
  }
  auto place = shared->admission->admit(peer.host, cuts, [id] { id->cut(); });
  if (place == nullptr) {
    return shared->refused_log.warn("event=connection_refused peer={} transport=rdma why={}",
                                    peer.host, cuts != shared->admission->cuts() ? "cut" : "limit");
  }
  const unsigned thread = threads.next();
  Arrival arrival{.id = std::move(id),
                  .request = request,
                  .peer = peer.host + ":" + peer.service,
                  .device = std::move(*device),
                  .place = std::move(place)};
  boost::asio::post(threads.context(thread), [of_all = shared, own = events.at(thread),
                                              taken = std::move(arrival)]() mutable {
    auto begun = begin(of_all, own, taken);
    if (begun) return;
    of_all->refused_log.warn("event=connection_refused peer={} transport=rdma why=\"{}\"",
                             taken.peer, begun.error().describe());
    taken.device.reset();
    taken.id->destroy();
    of_all->admission->leave(taken.place);
  });
}

Result<> Server::Impl::open() {
  if (!events.empty()) return {};
  std::vector<std::shared_ptr<DeviceEvents>> made;
  for (unsigned i = 0; i < threads.size(); ++i) {
    made.push_back(std::make_shared<DeviceEvents>(threads.context(i), i));
    if (auto opened = made.back()->open(); !opened) return opened;
  }
  events = std::move(made);
  return {};
}

Result<> Server::Impl::bind_at(std::size_t index) {
  const auto& address = shared->options.addresses.at(index);
  auto where = socket_address(address);
  if (!where) return pass(where);
  rdma_cm_id* id = nullptr;
  if (::rdma_create_id(events.front()->connections(), &id, static_cast<ConnectionUser*>(this),
                       RDMA_PS_TCP) != 0) {
    return fail_errno(errno, "an RDMA identifier");
  }
  const auto failed = [&](const char* what) {
    const int error = errno;
    ::rdma_destroy_id(id);
    return fail_errno(error, std::string(what) + " " + address.ip + " by RDMA");
  };
  if (::rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&*where)) != 0) return failed("bind to");
  // No device: it is bound to all.
  std::shared_ptr<Device> device;
  if (id->verbs != nullptr) {
    auto found = shared->devices.of(id->verbs);
    if (!found) {
      ::rdma_destroy_id(id);
      return pass(found);
    }
    device = std::move(*found);
  }
  places.at(index) = {.id = id, .device = std::move(device)};
  look_at_port(index);
  return {};
}

void Server::Impl::look_at_port(std::size_t index) {
  Place& place = places.at(index);
  if (place.id == nullptr) return;
  if (const bool up = port_is_up(*place.id); up != std::exchange(place.port_up, up)) {
    spdlog::warn("event=rdma_port state={} address={}", up ? "up" : "down",
                 shared->options.addresses.at(index).ip);
  }
}

void Server::Impl::look_at_ports() {
  const MutexLock lock(mutex);
  for (std::size_t i = 0; i < places.size(); ++i) look_at_port(i);
}

Result<> Server::Impl::listen_at(std::size_t index) {
  Place& place = places.at(index);
  const auto& address = shared->options.addresses.at(index);
  if (::rdma_listen(place.id, kBacklog) != 0) {
    const int error = errno;
    give_up(place);
    return fail_errno(error, "listen on " + address.ip + " by RDMA");
  }
  place.listening = true;
  spdlog::info("event=listening transport=rdma address={} port={}", address.ip, address.port);
  return {};
}

Result<> Server::Impl::prepare(bool listen) {
  if (!Devices::any()) return fail(Errc::kNotSupported, "this machine has no RDMA device");
  if (auto opened = open(); !opened) return opened;
  const MutexLock lock(mutex);
  Result<> result;
  for (std::size_t i = 0; i < places.size() && !stopped; ++i) {
    Result<> done;
    if (places[i].id == nullptr) done = bind_at(i);
    if (done && listen && !places[i].listening) done = listen_at(i);
    if (!done) result = done;
  }
  return result;
}

void Server::Impl::prepare_or_say(bool listen) {
  const auto prepared = prepare(listen);
  const std::string why = prepared ? "" : prepared.error().describe();
  if (!why.empty() && why != why_not) {
    spdlog::warn("event=no_rdma why=\"{}\" then=\"serves by TCP, and looks again\"", why);
  }
  why_not = why;
}

void Server::Impl::stop_listening() {
  const MutexLock lock(mutex);
  stopped = true;
  for (Place& place : places) {
    if (place.id != nullptr) give_up(place);
  }
}

Server::Server(IoThreads& threads, BufferPool& pool, ServerOptions options, Accept accept) {
  WEFT_ASSERT(pool.arena() != nullptr && options.limits.standing == options.admission.standing);
  impl_ = std::make_unique<Impl>(
      threads, std::make_shared<Shared>(pool, std::move(options), std::move(accept)));
}

Server::~Server() {
  stop();
  close(impl_->threads, impl_->events);
}

void Server::bind() { impl_->prepare_or_say(false); }
Result<> Server::listen() { return impl_->prepare(true); }

void Server::look() {
  if (impl_->looks++ % kCallsToLookAgain == 0) impl_->look_at_ports();
  if (listening() == impl_->shared->options.addresses.size()) {
    impl_->calls = 0;
    return;
  }
  if (impl_->calls++ % kCallsToLookAgain == 0) impl_->prepare_or_say(true);
}

void Server::stop() { impl_->stop_listening(); }

void Server::cut() {
  impl_->stop_listening();
  impl_->shared->admission->cut();
}

void Server::go_on() {
  impl_->calls = 0;
  const MutexLock lock(impl_->mutex);
  impl_->stopped = false;
}

std::size_t Server::listening() const {
  const MutexLock lock(impl_->mutex);
  std::size_t count = 0;
  for (const Impl::Place& place : impl_->places) count += place.listening ? 1 : 0;
  return count;
}

std::vector<bool> Server::reachable() const {
  const MutexLock lock(impl_->mutex);
  std::vector<bool> reachable;
  for (const Impl::Place& place : impl_->places) {
    reachable.push_back(place.id != nullptr && place.port_up);
  }
  return reachable;
}

std::size_t Server::connections() const { return impl_->shared->admission->connections(); }
std::uint64_t Server::refused() const { return impl_->shared->admission->refused(); }
const Counts& Server::counts() const { return *impl_->shared->counts; }

}  // namespace weft::rpc::rdma
