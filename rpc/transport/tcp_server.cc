#include "rpc/transport/tcp_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <list>
#include <map>
#include <set>

#include "rpc/base/log_limit.h"
#include "rpc/base/mutex.h"
#include "rpc/transport/listener.h"
#include "rpc/transport/tcp_channel.h"

namespace weft::rpc {

using boost::asio::ip::tcp;
using boost::system::error_code;

namespace {

// An accepted connection, as long as its socket is open.
struct Place {
  std::string peer;
  int socket = -1;
  Standing standing = Standing::kStranger;
  std::shared_ptr<HostShare> host;
  std::weak_ptr<Channel> channel;  // once it is there
  bool lost = false;               // it gives way to others, and counts no more
  std::list<std::shared_ptr<Place>>::iterator at = {};  // among the strangers, if it is one
};
using PlacePtr = std::shared_ptr<Place>;

// What accepted connections keep of their server. Nothing here belongs to an io_context, so that
// channels may be destroyed with theirs, in any order.
struct Admission {
  Admission(BufferPool& buffer_pool, TcpServerOptions server_options, TcpServer::Accept on_accept)
      : pool(buffer_pool), options(std::move(server_options)), accept(std::move(on_accept)) {}

  // Null: beyond a limit.
  [[nodiscard]] PlacePtr admit(const std::string& peer, int socket) {
    const MutexLock lock(mutex);
    const Standing standing = options.limits.standing;
    Host& host = hosts[peer];
    if (standing == Standing::kStranger) make_way(peer, host);
    if (!has_room(host, standing)) {
      refused.fetch_add(1, std::memory_order_relaxed);
      if (host.empty()) hosts.erase(peer);
      return nullptr;
    }
    auto place = std::make_shared<Place>();
    place->peer = peer;
    place->socket = socket;
    sockets.insert(socket);
    place->standing = standing;
    place->host = host.share;
    enter(host, place);
    open_count.fetch_add(1, std::memory_order_relaxed);
    return place;
  }

  [[nodiscard]] bool promote(const PlacePtr& place, Standing to) {
    const MutexLock lock(mutex);
    if (place->lost) return false;
    Host& host = hosts.at(place->peer);
    if (!has_room(host, to)) {
      refused.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    exit(host, place);
    place->standing = to;
    enter(host, place);
    return true;
  }

  // False: it has given way meanwhile.
  [[nodiscard]] bool is_there(const PlacePtr& place, const std::shared_ptr<Channel>& channel) {
    const MutexLock lock(mutex);
    place->channel = channel;
    return !place->lost;
  }
  static void close_lost(const std::shared_ptr<Channel>& channel) {
    channel->post(
        [channel] { channel->close({Errc::kBusy, "gives way: it has not shown who it is"}); });
  }

  void leave(const PlacePtr& place) {
    const MutexLock lock(mutex);
    if (!place->lost) exit(hosts.at(place->peer), place);
    sockets.erase(sockets.find(place->socket));
    open_count.fetch_sub(1, std::memory_order_relaxed);
    const auto host = hosts.find(place->peer);
    if (host != hosts.end() && host->second.empty()) hosts.erase(host);
  }

  void cut() {
    const MutexLock lock(mutex);
    for (const int socket : sockets) static_cast<void>(::shutdown(socket, SHUT_RDWR));
  }

  BufferPool& pool;
  const TcpServerOptions options;
  const TcpServer::Accept accept;
  std::atomic<std::size_t> open_count{0};
  std::atomic<std::uint64_t> refused{0};
  LogLimit refused_log;

 private:
  // Connections of a kind.
  struct Counts {
    std::size_t strangers = 0;
    std::size_t clients = 0;
    std::size_t servers = 0;
    [[nodiscard]] std::size_t& of(Standing standing) {
      return standing == Standing::kStranger ? strangers
             : standing == Standing::kClient ? clients
                                             : servers;
    }
  };
  struct Host : Counts {
    std::shared_ptr<HostShare> share = std::make_shared<HostShare>();
    [[nodiscard]] bool empty() const { return strangers + clients + servers == 0; }
  };

  [[nodiscard]] bool has_room(Host& host, Standing standing) WEFT_REQUIRES(mutex) {
    switch (standing) {
      case Standing::kStranger: return true;  // make_way() has seen to it
      case Standing::kClient:
        return all.clients < options.max_connections &&
               host.clients < options.max_connections_per_peer;
      case Standing::kServer: break;
    }
    return all.servers < options.max_servers;
  }

  void enter(Host& host, const PlacePtr& place) WEFT_REQUIRES(mutex) {
    ++host.of(place->standing);
    ++all.of(place->standing);
    if (place->standing == Standing::kStranger)
      place->at = strangers.insert(strangers.end(), place);
  }
  void exit(Host& host, const PlacePtr& place) WEFT_REQUIRES(mutex) {
    --host.of(place->standing);
    --all.of(place->standing);
    if (place->standing == Standing::kStranger) strangers.erase(place->at);
  }

  // The strangers that have been so for longest go, until there is room for one more.
  void make_way(const std::string& peer, Host& host) WEFT_REQUIRES(mutex) {
    if (host.strangers >= options.max_strangers_per_peer) {
      const auto oldest =
          std::ranges::find_if(strangers, [&](const PlacePtr& one) { return one->peer == peer; });
      if (oldest != strangers.end()) give_way(*oldest);
    }
    if (all.strangers >= options.max_strangers) give_way(strangers.front());
  }

  // A copy: what it comes from goes.
  void give_way(PlacePtr place) WEFT_REQUIRES(mutex) {
    exit(hosts.at(place->peer), place);
    place->lost = true;
    refused.fetch_add(1, std::memory_order_relaxed);
    if (const auto channel = place->channel.lock()) close_lost(channel);
  }

  Mutex mutex;
  std::map<std::string, Host> hosts WEFT_GUARDED_BY(mutex);
  Counts all WEFT_GUARDED_BY(mutex);
  std::list<PlacePtr> strangers WEFT_GUARDED_BY(mutex);  // the oldest first
  // Of connections, until just after they are closed.
  std::multiset<int> sockets WEFT_GUARDED_BY(mutex);
};

void take(boost::asio::io_context& context, const std::shared_ptr<Admission>& rules,
          tcp::socket socket) {
  error_code gone;
  const std::string peer = socket.remote_endpoint(gone).address().to_string();
  if (gone) return;
  const PlacePtr place = rules->admit(peer, socket.native_handle());
  if (place == nullptr) {
    rules->refused_log.warn("event=connection_refused peer={} why=limit", peer);
    return;
  }
  // The socket belongs to the other thread's context already.
  boost::asio::post(context, [rules, place, taken = std::move(socket)]() mutable {
    auto channel = std::make_shared<TcpChannel>(
        std::move(taken), rules->pool, rules->options.limits,
        TcpPlace{.gone = [rules, place] { rules->leave(place); },
                 .promoted = [rules, place](Standing to) { return rules->promote(place, to); },
                 .host = place->host});
    if (!rules->is_there(place, channel)) Admission::close_lost(channel);
    rules->accept(std::move(channel));
  });
}

}  // namespace

struct TcpServer::Impl {
  Impl(IoThreads& threads, std::shared_ptr<Admission> admission_rules)
      : admission(std::move(admission_rules)),
        listener(std::make_shared<Listener<tcp>>(
            threads, admission->options.address + ":" + std::to_string(admission->options.port),
            [&threads, rules = admission](tcp::socket socket, unsigned thread) {
              take(threads.context(thread), rules, std::move(socket));
            })) {}

  const std::shared_ptr<Admission> admission;
  const std::shared_ptr<Listener<tcp>> listener;
  std::atomic<std::uint16_t> port{0};
  bool bound = false;
};

TcpServer::TcpServer(IoThreads& threads, BufferPool& pool, TcpServerOptions options, Accept accept)
    : impl_(std::make_unique<Impl>(
          threads, std::make_shared<Admission>(pool, std::move(options), std::move(accept)))) {}

TcpServer::~TcpServer() { stop(); }

Result<> TcpServer::bind() {
  const TcpServerOptions& options = impl_->admission->options;
  error_code error;
  const auto address = boost::asio::ip::make_address(options.address, error);
  if (error) return fail(Errc::kInvalid, "not a numeric address: " + options.address);
  if (auto bound = impl_->listener->bind(tcp::endpoint(address, options.port)); !bound) {
    return bound;
  }
  impl_->port = impl_->listener->local().port();
  impl_->bound = true;
  return {};
}

Result<> TcpServer::listen() {
  if (!impl_->bound) {
    if (auto bound = bind(); !bound) return bound;
  }
  if (auto listening = impl_->listener->listen(1024); !listening) return listening;
  impl_->listener->start();
  return {};
}

void TcpServer::stop() { impl_->listener->stop(); }

// Not by the connections' own threads, which may hang. One that has just closed its socket may have
// got another of that number: then that one ends, which whoever has it gets over.
void TcpServer::cut() {
  impl_->listener->refuse();
  impl_->admission->cut();
}

void TcpServer::go_on() { impl_->listener->go_on(); }

std::uint16_t TcpServer::port() const { return impl_->port; }
std::size_t TcpServer::connections() const { return impl_->admission->open_count; }
std::uint64_t TcpServer::refused() const { return impl_->admission->refused; }

}  // namespace weft::rpc
