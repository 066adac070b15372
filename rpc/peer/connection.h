// One connection between two servers: a TCP socket, the secure channel over it, and the calls under
// way in both directions. What is asked and answered is its users' matter.
//
// Threading: everything runs on the one thread of its IoThread; Responder alone may be called from
// any.
//
// Ownership: a connection keeps itself alive while it is open. After on_closed it calls nobody, and
// every call that waited has been completed.
//
// Bounds: calls under way each way, bytes waiting to be sent, record size, silence.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <memory>

#include "rpc/base/clock.h"
#include "rpc/peer/call.h"
#include "rpc/peer/io_thread.h"
#include "rpc/peer/secure_channel.h"

namespace weft::rpc::peer {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = PendingCalls::Clock;

  struct Limits {
    std::size_t max_calls = 4096;
    std::size_t max_unsent_bytes = std::size_t{16} << 20;
    std::chrono::milliseconds handshake{5000};
    std::chrono::milliseconds silence{10000};
  };

  // Answers a call; from any thread, once. Copies of the results are its own.
  using Responder = Done<Bytes>;

  struct Events {
    std::move_only_function<void()> on_established;
    std::move_only_function<void(std::uint32_t verb, Bytes arguments, Responder)> on_call;
    std::move_only_function<void(const Error&)> on_closed;
  };

  // `socket` belongs to the context of `io`, which the connection keeps alive.
  Connection(std::shared_ptr<IoThread> io, boost::asio::ip::tcp::socket socket,
             SecureChannel channel, Limits limits, const weft::Clock& clock = system_clock());

  // Starts reading; the accepting end begins the handshake.
  void start(Events events);
  // kBusy at a limit, kUnreachable when the connection is closed or closes before the answer.
  template <Request R>
  void call(const R& request, std::chrono::milliseconds timeout, Done<typename R::Reply> done) {
    send_call(R::kVerb, to_bytes(request), timeout, expect<typename R::Reply>(std::move(done)));
  }
  // The same, of a request that is encoded already.
  void send_call(std::uint32_t verb, const Bytes& arguments, std::chrono::milliseconds timeout,
                 Done<Bytes> done);
  void close(Error why);
  [[nodiscard]] bool open() const { return open_; }
  // Once established.
  [[nodiscard]] const ClusterKey& key() const { return channel_.key(); }
  // What both ends speak, once established.
  [[nodiscard]] std::uint32_t version() const { return channel_.version(); }

 private:
  void read();
  void on_bytes(std::size_t size);
  void on_message(const Bytes& payload);
  void on_call(Call call);
  void send(Bytes bytes);
  void send_payload(const Bytes& payload);
  void write();
  void look();
  // look() comes then, or before.
  void wake_by(Clock::time_point due);

  const std::shared_ptr<IoThread> io_;  // before what uses its context
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  SecureChannel channel_;
  const Limits limits_;
  const weft::Clock& clock_;
  Events events_;
  PendingCalls calls_;
  std::size_t serving_ = 0;  // the peer's calls that wait for our answer
  bool open_ = true;
  bool announced_ = false;  // on_established was called
  Clock::time_point heard_;
  Clock::time_point due_ = Clock::time_point::max();  // when look() comes next
  std::array<std::byte, 16384> input_;
  std::deque<Bytes> output_;
  std::size_t unsent_bytes_ = 0;
};

}  // namespace weft::rpc::peer
