#include "rpc/transport/tcp_server.h"

#include <sys/socket.h>

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>

#include "rpc/base/log_limit.h"
#include "rpc/transport/admission.h"
#include "rpc/transport/listener.h"
#include "rpc/transport/tcp_channel.h"

namespace weft::rpc {

using boost::asio::ip::tcp;
using boost::system::error_code;

namespace {

AdmissionLimits admission_limits(const TcpServerOptions& options) {
  return {.standing = options.limits.standing,
          .max_connections = options.max_connections,
          .max_connections_per_peer = options.max_connections_per_peer,
          .max_strangers = options.max_strangers,
          .max_strangers_per_peer = options.max_strangers_per_peer,
          .max_servers = options.max_servers};
}

// What accepted connections keep of their server.
struct Rules {
  Rules(BufferPool& buffer_pool, TcpServerOptions server_options, TcpServer::Accept on_accept)
      : pool(buffer_pool),
        options(std::move(server_options)),
        accept(std::move(on_accept)),
        admission(std::make_shared<Admission>(admission_limits(options))) {}

  BufferPool& pool;
  const TcpServerOptions options;
  const TcpServer::Accept accept;
  const std::shared_ptr<Admission> admission;
  LogLimit refused_log;
};

void take(boost::asio::io_context& context, const std::shared_ptr<Rules>& rules, tcp::socket socket,
          std::uint64_t cuts) {
  error_code gone;
  const std::string peer = socket.remote_endpoint(gone).address().to_string();
  if (gone) return;
  auto place = rules->admission->admit(peer, cuts, [descriptor = socket.native_handle()] {
    static_cast<void>(::shutdown(descriptor, SHUT_RDWR));
  });
  if (place == nullptr) {
    const bool cut = cuts != rules->admission->cuts();
    rules->refused_log.warn("event=connection_refused peer={} why={}", peer, cut ? "cut" : "limit");
    return;
  }
  // The socket belongs to the other thread's context already.
  boost::asio::post(context, [rules, place, taken = std::move(socket)]() mutable {
    auto channel = std::make_shared<TcpChannel>(
        std::move(taken), rules->pool, rules->options.limits, rules->admission->place_of(place));
    rules->admission->has_channel(place, channel);
    rules->accept(std::move(channel));
  });
}

}  // namespace

struct TcpServer::Impl {
  Impl(IoThreads& threads, std::shared_ptr<Rules> server_rules)
      : rules(std::move(server_rules)),
        listener(std::make_shared<Listener<tcp>>(
            threads, rules->options.address + ":" + std::to_string(rules->options.port),
            [kept = rules] { return kept->admission->cuts(); },
            [&threads, kept = rules](tcp::socket socket, unsigned thread, std::uint64_t cuts) {
              take(threads.context(thread), kept, std::move(socket), cuts);
            })) {}

  const std::shared_ptr<Rules> rules;
  const std::shared_ptr<Listener<tcp>> listener;
  std::atomic<std::uint16_t> port{0};
  bool bound = false;
};

TcpServer::TcpServer(IoThreads& threads, BufferPool& pool, TcpServerOptions options, Accept accept)
    : impl_(std::make_unique<Impl>(
          threads, std::make_shared<Rules>(pool, std::move(options), std::move(accept)))) {}

TcpServer::~TcpServer() { stop(); }

Result<> TcpServer::bind() {
  const TcpServerOptions& options = impl_->rules->options;
  error_code error;
  const auto address = boost::asio::ip::make_address(options.address, error);
  if (error) return fail(Errc::kInvalid, "not a numeric address: " + options.address);
  if (auto bound = impl_->listener->bind(tcp::endpoint(address, options.port)); !bound) {
    return bound;
  }
  // A port that the kernel chose is nobody else's.
  if (options.port != 0) {
    if (auto claimed = impl_->listener->claim(); !claimed) return claimed;
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

// Not by the connections' own threads, which may hang.
void TcpServer::cut() {
  impl_->listener->refuse();
  impl_->rules->admission->cut();
}

void TcpServer::go_on() { impl_->listener->go_on(); }

std::uint16_t TcpServer::port() const { return impl_->port; }
std::size_t TcpServer::connections() const { return impl_->rules->admission->connections(); }
std::uint64_t TcpServer::refused() const { return impl_->rules->admission->refused(); }

}  // namespace weft::rpc
