// The accepting side of a stream transport: a listening socket on the first I/O thread, whose
// connections go to the I/O threads in turn.
//
// When a connection cannot be accepted, as the process is out of file descriptors, accepting pauses
// for a moment instead of spinning.
//
// Threading: bind(), listen(), start() and stop() from one thread while the I/O threads run. `take`
// is called on the first I/O thread, with a socket that belongs to the context of I/O thread
// `thread`, and with what `mark` returned when it began to wait for that connection.
//
// Ownership: shared with its pending operations; the I/O threads outlive it. What `take` refers to
// lives until stop() has returned.
#pragma once

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "rpc/base/error.h"
#include "rpc/transport/io_threads.h"

namespace weft::rpc {

template <class Protocol>
class Listener : public std::enable_shared_from_this<Listener<Protocol>> {
 public:
  using Socket = typename Protocol::socket;
  using Endpoint = typename Protocol::endpoint;
  using Take = std::function<void(Socket socket, unsigned thread, std::uint64_t mark)>;
  using Mark = std::function<std::uint64_t()>;

  // `name` of the address, for errors and the log.
  Listener(IoThreads& threads, std::string name, Mark mark, Take take)
      : threads_(threads),
        name_(std::move(name)),
        mark_(std::move(mark)),
        take_(std::move(take)),
        acceptor_(threads.context(0)),
        retry_(threads.context(0)) {}

  // Whoever connects to the address is refused until listen(). Another socket that reuses addresses
  // may bind to it as well, unless it is claimed.
  [[nodiscard]] Result<> bind(const Endpoint& endpoint);
  // Nobody else binds to the address from now on, or it fails: of several that try, one succeeds.
  // Of TCP, once bound to a port that was named. Whoever connects meanwhile is cut off at once.
  [[nodiscard]] Result<> claim();
  [[nodiscard]] Result<> listen(int backlog);
  [[nodiscard]] Endpoint local() const { return acceptor_.local_endpoint(); }
  // Begins to accept.
  void start() {
    boost::asio::post(threads_.context(0),
                      [self = this->shared_from_this()] { self->accept_next(); });
  }
  // Accepts no more, and runs `closed` once if it was open; waits for that. Connections that exist
  // are not touched.
  void stop(const std::function<void()>& closed = nullptr);
  // Whoever connects, or is not accepted yet, is refused until go_on(), also when the first I/O
  // thread hangs. One that is accepted may be taken yet, with a mark of before. On the thread that
  // starts and stops it.
  void refuse();
  void go_on();

 private:
  using ErrorCode = boost::system::error_code;

  void accept_next() {
    const unsigned thread = threads_.next();
    const std::uint64_t mark = mark_();
    acceptor_.async_accept(threads_.context(thread), [self = this->shared_from_this(), thread,
                                                      mark](const ErrorCode& error, Socket socket) {
      if (!self->acceptor_.is_open()) return;
      if (error) return self->not_accepted(error);
      self->take_(std::move(socket), thread, mark);
      self->accept_next();
    });
  }
  void not_accepted(const ErrorCode& error);
  [[nodiscard]] std::unexpected<Error> failed_to(const char* what, const ErrorCode& error) const {
    return fail_errno(error.value(), std::string(what) + " " + name_);
  }

  // Whether others that reuse addresses may bind to ours too. Connections that linger of an earlier
  // process are in nobody's way if so: bind() and listen() need it.
  void share(bool may) {
    ErrorCode ignored;  // of no effect for a path
    acceptor_.set_option(boost::asio::socket_base::reuse_address(may), ignored);
  }

  IoThreads& threads_;
  const std::string name_;
  const Mark mark_;
  const Take take_;
  int backlog_ = 0;
  std::atomic<bool> refusing_{false};
  // Used on the first I/O thread only, once listening.
  boost::asio::basic_socket_acceptor<Protocol> acceptor_;
  boost::asio::steady_timer retry_;
};

template <class Protocol>
Result<> Listener<Protocol>::bind(const Endpoint& endpoint) {
  ErrorCode error;
  if (acceptor_.open(endpoint.protocol(), error); error) {
    return failed_to("open a socket for", error);
  }
  share(true);
  if (acceptor_.bind(endpoint, error); error) return failed_to("bind to", error);
  return {};
}

// To listen is what only one socket can. It is not shared before it ends to, so that there is no
// moment in between.
template <class Protocol>
Result<> Listener<Protocol>::claim() {
  ErrorCode error;
  if (acceptor_.listen(0, error); error) return failed_to("bind to", error);
  share(false);
  static_cast<void>(::shutdown(acceptor_.native_handle(), SHUT_RDWR));
  return {};
}

template <class Protocol>
Result<> Listener<Protocol>::listen(int backlog) {
  ErrorCode error;
  share(true);
  if (acceptor_.listen(backlog, error); error) return failed_to("listen on", error);
  backlog_ = backlog;
  return {};
}

template <class Protocol>
void Listener<Protocol>::refuse() {
  refusing_.store(true);
  share(false);
  // A socket that listens does so no more after that, and keeps its address.
  static_cast<void>(::shutdown(acceptor_.native_handle(), SHUT_RDWR));
}

template <class Protocol>
void Listener<Protocol>::go_on() {
  share(true);
  if (::listen(acceptor_.native_handle(), backlog_) != 0) {
    return spdlog::error("event=listen_failed address={} errno={}", name_, errno);
  }
  refusing_.store(false);
}

template <class Protocol>
void Listener<Protocol>::not_accepted(const ErrorCode& error) {
  // Out of descriptors, most likely: waiting lets some connection end.
  if (!refusing_.load()) {
    spdlog::warn("event=accept_failed address={} why=\"{}\"", name_, error.message());
  }
  retry_.expires_after(std::chrono::milliseconds(100));
  retry_.async_wait([self = this->shared_from_this()](const ErrorCode& cancelled) {
    if (!cancelled && self->acceptor_.is_open()) self->accept_next();
  });
}

template <class Protocol>
void Listener<Protocol>::stop(const std::function<void()>& closed) {
  const auto close = [self = this->shared_from_this(), closed] {
    if (!self->acceptor_.is_open()) return;
    ErrorCode ignored;
    self->acceptor_.close(ignored);
    self->retry_.cancel();
    if (closed) closed();
  };
  auto& context = threads_.context(0);
  // With the I/O threads gone, or on the acceptor's own, there is nobody to wait for.
  if (context.stopped() || IoThreads::current() == 0) return close();
  auto done = std::make_shared<std::promise<void>>();
  boost::asio::post(context, [close, done] {
    close();
    done->set_value();
  });
  // A context that is stopped meanwhile drops the work: then it is closed with the server.
  static_cast<void>(done->get_future().wait_for(std::chrono::seconds(5)));
}

}  // namespace weft::rpc
