#include "rpc/transport/tcp_server.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <future>
#include <map>

#include "rpc/base/mutex.h"
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

  [[nodiscard]] bool admit(const std::string& peer) {
    const MutexLock lock(mutex);
    const auto found = per_peer.find(peer);
    const std::size_t of_peer = found == per_peer.end() ? 0 : found->second;
    if (open_count >= options.max_connections || of_peer >= options.max_connections_per_peer) {
      refused.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    ++per_peer[peer];
    ++open_count;
    return true;
  }

  void leave(const std::string& peer) {
    const MutexLock lock(mutex);
    --open_count;
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
};

}  // namespace

struct TcpServer::Impl : std::enable_shared_from_this<TcpServer::Impl> {
  Impl(IoThreads& io_threads, std::shared_ptr<Admission> admission_rules)
      : threads(io_threads),
        admission(std::move(admission_rules)),
        acceptor(threads.context(0)),
        retry(threads.context(0)) {}

  Result<> open();
  void accept_next();
  void accepted(const error_code& error, tcp::socket socket, unsigned thread);

  IoThreads& threads;
  const std::shared_ptr<Admission> admission;
  tcp::acceptor acceptor;  // used on the first I/O thread only, once listening
  boost::asio::steady_timer retry;
  std::atomic<std::uint16_t> port{0};
};

Result<> TcpServer::Impl::open() {
  error_code error;
  const TcpServerOptions& options = admission->options;
  const auto address = boost::asio::ip::make_address(options.address, error);
  if (error) return fail(Errc::kInvalid, "not a numeric address: " + options.address);
  const tcp::endpoint endpoint(address, options.port);
  const auto failed_to = [&](const char* what) {
    return fail_errno(error.value(), std::string(what) + " " + options.address + ":" +
                                         std::to_string(options.port));
  };
  if (acceptor.open(endpoint.protocol(), error); error) return failed_to("open a socket for");
  acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (acceptor.bind(endpoint, error); error) return failed_to("bind to");
  if (acceptor.listen(1024, error); error) return failed_to("listen on");
  port = acceptor.local_endpoint(error).port();
  return {};
}

void TcpServer::Impl::accept_next() {
  const unsigned thread = threads.next();
  acceptor.async_accept(threads.context(thread), [self = shared_from_this(), thread](
                                                     const error_code& error, tcp::socket socket) {
    self->accepted(error, std::move(socket), thread);
  });
}

void TcpServer::Impl::accepted(const error_code& error, tcp::socket socket, unsigned thread) {
  if (!acceptor.is_open()) return;
  if (error) {
    // Out of descriptors, most likely: waiting lets some connection end.
    spdlog::warn("event=accept_failed port={} why=\"{}\"", port.load(), error.message());
    retry.expires_after(std::chrono::milliseconds(100));
    retry.async_wait([self = shared_from_this()](const error_code& cancelled) {
      if (!cancelled && self->acceptor.is_open()) self->accept_next();
    });
    return;
  }
  error_code gone;
  const std::string peer = socket.remote_endpoint(gone).address().to_string();
  if (gone || !admission->admit(peer)) {
    if (!gone) spdlog::warn("event=connection_refused peer={} why=limit", peer);
    socket.close(gone);
  } else {
    // The socket belongs to the other thread's context already.
    boost::asio::post(
        threads.context(thread), [rules = admission, peer, taken = std::move(socket)]() mutable {
          rules->accept(std::make_shared<TcpChannel>(std::move(taken), rules->pool,
                                                     rules->options.limits,
                                                     [rules, peer] { rules->leave(peer); }));
        });
  }
  accept_next();
}

TcpServer::TcpServer(IoThreads& threads, BufferPool& pool, TcpServerOptions options, Accept accept)
    : impl_(std::make_shared<Impl>(
          threads, std::make_shared<Admission>(pool, std::move(options), std::move(accept)))) {}

TcpServer::~TcpServer() { stop(); }

Result<> TcpServer::listen() {
  if (auto opened = impl_->open(); !opened) return opened;
  boost::asio::post(impl_->threads.context(0), [impl = impl_] { impl->accept_next(); });
  return {};
}

void TcpServer::stop() {
  auto& context = impl_->threads.context(0);
  const auto close = [impl = impl_] {
    error_code ignored;
    impl->acceptor.close(ignored);
    impl->retry.cancel();
  };
  // With the I/O threads gone, or on the acceptor's own, there is nobody to wait for.
  if (context.stopped() || IoThreads::current() == 0) return close();
  auto closed = std::make_shared<std::promise<void>>();
  boost::asio::post(context, [close, closed] {
    close();
    closed->set_value();
  });
  // A context that is stopped meanwhile drops the work: then it is closed with the server.
  static_cast<void>(closed->get_future().wait_for(std::chrono::seconds(5)));
}

std::uint16_t TcpServer::port() const { return impl_->port; }
std::size_t TcpServer::connections() const { return impl_->admission->open_count; }
std::uint64_t TcpServer::refused() const { return impl_->admission->refused; }

}  // namespace weft::rpc
