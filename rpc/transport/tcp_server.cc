#include "rpc/transport/tcp_server.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <map>
#include <set>

#include "rpc/base/mutex.h"
#include "rpc/transport/listener.h"
#include "rpc/transport/tcp_channel.h"

namespace weft::rpc {

using boost::asio::ip::tcp;
using boost::system::error_code;

namespace {

// What accepted connections keep of their server. Nothing here belongs to an io_context, so that
// channels may be destroyed with theirs, in any order.
struct Admission {
  Admission(BufferPool& buffer_pool, TcpServerOptions server_options, TcpServer::Accept on_accept)
      : pool(buffer_pool), options(std::move(server_options)), accept(std::move(on_accept)) {}

  [[nodiscard]] bool admit(const std::string& peer, int socket) {
    const MutexLock lock(mutex);
    const auto found = per_peer.find(peer);
    const std::size_t of_peer = found == per_peer.end() ? 0 : found->second;
    if (open_count >= options.max_connections || of_peer >= options.max_connections_per_peer) {
      refused.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    ++per_peer[peer];
    ++open_count;
    sockets.insert(socket);
    return true;
  }

  void leave(const std::string& peer, int socket) {
    const MutexLock lock(mutex);
    --open_count;
    sockets.erase(sockets.find(socket));
    const auto found = per_peer.find(peer);
    if (--found->second == 0) per_peer.erase(found);
  }

  BufferPool& pool;
  const TcpServerOptions options;
  const TcpServer::Accept accept;
  std::atomic<std::size_t> open_count{0};
  std::atomic<std::uint64_t> refused{0};
  Mutex mutex;
  std::map<std::string, std::size_t> per_peer WEFT_GUARDED_BY(mutex);
  // Of connections, until just after they are closed.
  std::multiset<int> sockets WEFT_GUARDED_BY(mutex);
};

void take(boost::asio::io_context& context, const std::shared_ptr<Admission>& rules,
          tcp::socket socket) {
  error_code gone;
  const std::string peer = socket.remote_endpoint(gone).address().to_string();
  if (gone) return;
  const int fd = socket.native_handle();
  if (!rules->admit(peer, fd)) {
    spdlog::warn("event=connection_refused peer={} why=limit", peer);
    return;
  }
  // The socket belongs to the other thread's context already.
  boost::asio::post(context, [rules, peer, fd, taken = std::move(socket)]() mutable {
    rules->accept(std::make_shared<TcpChannel>(std::move(taken), rules->pool, rules->options.limits,
                                               [rules, peer, fd] { rules->leave(peer, fd); }));
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
  const MutexLock lock(impl_->admission->mutex);
  for (const int socket : impl_->admission->sockets) {
    static_cast<void>(::shutdown(socket, SHUT_RDWR));
  }
}

void TcpServer::go_on() { impl_->listener->go_on(); }

std::uint16_t TcpServer::port() const { return impl_->port; }
std::size_t TcpServer::connections() const { return impl_->admission->open_count; }
std::uint64_t TcpServer::refused() const { return impl_->admission->refused; }

}  // namespace weft::rpc
