// A TCP server that answers records, and a socket that is no more than one: for what peers can do
// to a channel.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <memory>
#include <thread>

#include "rpc/onc/record_reader.h"
#include "rpc/transport/tcp_server.h"

namespace weft::rpc::test {

// Answers each record with what `reply` makes of it; counts.
struct EchoServer {
  explicit EchoServer(TcpServerOptions options, std::function<Message(Buffer)> make_reply = nullptr)
      : io(2, false),
        reply(std::move(make_reply)),
        server(io, pool, local(std::move(options)), [this](std::shared_ptr<Channel> channel) {
          channel->start(std::make_shared<User>(*this, channel));
        }) {
    REQUIRE(server.listen());
    io.start();
  }
  ~EchoServer() {
    server.stop();
    io.stop();
  }

  static TcpServerOptions local(TcpServerOptions options) {
    options.address = "127.0.0.1";
    return options;
  }

  struct User final : ChannelUser {
    User(EchoServer& o, const std::shared_ptr<Channel>& c) : owner(o), channel(c) {}
    void on_record(ReceivedRecord received) override {
      Buffer& record = received.bytes;
      ++owner.records;
      const auto open = channel.lock();
      if (owner.becomes && open && !open->promote(owner.becomes(record))) {
        return open->close({Errc::kBusy, "too many"});
      }
      if (owner.reply && open) open->send(owner.reply(std::move(record)));
      if (open) owner.queued = std::max(owner.queued.load(), open->queued_bytes());
    }
    void on_closed(const Error& why) override {
      owner.last_error = static_cast<int>(why.code);
      ++owner.closed;
    }
    [[nodiscard]] bool is_awaited() const override { return owner.awaited; }
    EchoServer& owner;
    // The channel owns its user: one that is open when the threads stop is freed with them.
    std::weak_ptr<Channel> channel;
  };

  bool wait_closed(int count) {
    for (int i = 0; i < 500 && closed < count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return closed >= count;
  }
  [[nodiscard]] Errc error() const { return static_cast<Errc>(last_error.load()); }

  BufferPool pool{std::size_t{64} << 20};
  IoThreads io;
  std::function<Message(Buffer)> reply;
  std::function<Standing(const Buffer&)> becomes = nullptr;
  std::atomic<bool> awaited{false};
  std::atomic<int> records{0};
  std::atomic<std::size_t> queued{0};  // at most, on a connection
  std::atomic<int> closed{0};
  std::atomic<int> last_error{0};
  TcpServer server;
};

struct RawSocket {
  explicit RawSocket(std::uint16_t port) : fd(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
    timeval wait{.tv_sec = 5, .tv_usec = 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  }
  ssize_t write(std::span<const std::byte> bytes) {
    return ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void record(std::span<const std::byte> bytes) {
    const auto mark = record_mark(bytes.size());
    write(mark);
    write(bytes);
  }
  std::vector<std::byte> read(std::size_t size) {
    std::vector<std::byte> out(size);
    std::size_t at = 0;
    while (at < size) {
      const ssize_t n = ::recv(fd.get(), out.data() + at, size - at, 0);
      if (n <= 0) break;
      at += static_cast<std::size_t>(n);
    }
    out.resize(at);
    return out;
  }
  OwnedFd fd;
};

}  // namespace weft::rpc::test
