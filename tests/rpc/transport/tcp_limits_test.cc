// What a peer cannot do to a TCP server: raw sockets that send half records, huge marks, nothing,
// or read nothing; and what a channel sends, byte for byte.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/asio/post.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <future>
#include <mutex>
#include <thread>

#include "rpc/onc/record_reader.h"
#include "rpc/transport/tcp_dialer.h"
#include "rpc/transport/tcp_server.h"
#include "tests/rpc/transport/echo_server.h"

using namespace weft;
using namespace weft::rpc;
using rpc::test::EchoServer;
using rpc::test::RawSocket;
using std::chrono::milliseconds;

namespace {

struct Listening final : ChannelUser {
  void on_record(ReceivedRecord /*record*/) override {}
  void on_closed(const Error& /*why*/) override {}
};

TcpServerOptions quick() {
  TcpServerOptions options;
  options.limits.record_deadline = milliseconds(200);
  options.limits.idle_deadline = milliseconds(400);
  options.limits.send_deadline = milliseconds(300);
  return options;
}

}  // namespace

TEST_CASE("a peer that sends half a record, or half a mark, is disconnected in time") {
  for (const std::size_t size : {2, 100}) {
    EchoServer echo(quick());
    RawSocket peer(echo.server.port());
    std::vector<std::byte> half(size);
    const auto mark = record_mark(1000);
    std::copy_n(mark.begin(), std::min<std::size_t>(4, size), half.begin());
    peer.write(half);
    REQUIRE(echo.wait_closed(1));
    CHECK(echo.error() == Errc::kTimedOut);
    CHECK(echo.pool.in_use_bytes() == 0);
  }
}

TEST_CASE("half a record that we held back ourselves is not the peer's fault") {
  EchoServer echo(quick());
  std::mutex mutex;
  std::shared_ptr<Channel> paused;
  struct Pausing final : ChannelUser {
    void on_record(ReceivedRecord /*record*/) override {
      if (owner->records++ > 0) return;
      const auto open = channel.lock();
      open->pause();
      const std::scoped_lock lock(*mutex);
      *paused = open;
    }
    void on_closed(const Error& /*why*/) override { ++owner->closed; }
    EchoServer* owner;
    std::mutex* mutex;
    std::shared_ptr<Channel>* paused;
    std::weak_ptr<Channel> channel;
  };
  TcpServerOptions options = quick();
  options.address = "127.0.0.1";
  options.limits.idle_deadline = milliseconds(10'000);
  TcpServer server(echo.io, echo.pool, options, [&](std::shared_ptr<Channel> channel) {
    auto user = std::make_shared<Pausing>();
    user->owner = &echo;
    user->mutex = &mutex;
    user->paused = &paused;
    user->channel = channel;
    channel->start(user);
  });
  REQUIRE(server.listen());
  RawSocket peer(server.port());
  const std::vector<std::byte> whole(100);
  const auto mark = record_mark(whole.size());
  std::vector<std::byte> bytes(mark.begin(), mark.end());  // a record, and half of the next
  bytes.insert(bytes.end(), whole.begin(), whole.end());
  bytes.insert(bytes.end(), mark.begin(), mark.end());
  bytes.insert(bytes.end(), whole.begin(), whole.begin() + 50);
  peer.write(bytes);
  std::this_thread::sleep_for(milliseconds(500));
  {
    const std::scoped_lock lock(mutex);
    REQUIRE(paused != nullptr);
    paused->post([channel = paused] { channel->resume(); });
    paused.reset();
  }
  std::this_thread::sleep_for(milliseconds(100));
  peer.write(std::span(whole).first(50));
  for (int i = 0; i < 100 && echo.records < 2; ++i) std::this_thread::sleep_for(milliseconds(10));
  CHECK(echo.records == 2);
  CHECK(echo.closed == 0);
  server.stop();
}

TEST_CASE("a peer that drips is disconnected in time too") {
  EchoServer echo(quick());
  RawSocket peer(echo.server.port());
  peer.write(record_mark(100'000));
  const std::vector<std::byte> drop(16);
  for (int i = 0; i < 200 && echo.closed == 0; ++i) {
    peer.write(drop);
    std::this_thread::sleep_for(milliseconds(10));
  }
  REQUIRE(echo.closed == 1);
  CHECK(echo.error() == Errc::kTimedOut);
}

TEST_CASE("a peer that sends nothing is disconnected when idle for too long") {
  EchoServer echo(quick());
  RawSocket peer(echo.server.port());
  REQUIRE(echo.wait_closed(1));
  CHECK(echo.error() == Errc::kTimedOut);
}

TEST_CASE("a peer that waits for an answer is not idle, and is again when it has it") {
  EchoServer echo(quick());
  echo.awaited = true;
  RawSocket peer(echo.server.port());
  std::this_thread::sleep_for(milliseconds(1000));
  CHECK(echo.closed == 0);
  echo.awaited = false;
  REQUIRE(echo.wait_closed(1));
  CHECK(echo.error() == Errc::kTimedOut);
}

TEST_CASE("a mark of 4 GiB ends the connection at once") {
  EchoServer echo({});
  RawSocket peer(echo.server.port());
  peer.write(std::vector<std::byte>(4, std::byte{0xff}));
  REQUIRE(echo.wait_closed(1));
  CHECK(echo.error() == Errc::kTooLarge);
  CHECK(peer.read(1).empty());
}

TEST_CASE("a peer that takes no replies stops being read, and is disconnected") {
  auto options = quick();
  options.limits.max_queued_bytes = std::size_t{1} << 20;
  options.limits.idle_deadline = milliseconds(10'000);
  EchoServer echo(options, [](Buffer) {
    Message out;
    Payload payload;
    payload.append(ZeroRange{std::size_t{256} << 10});
    out.splice(std::move(payload));
    return out;
  });
  RawSocket peer(echo.server.port());
  const std::vector<std::byte> request(100);
  timeval wait{.tv_sec = 0, .tv_usec = 200'000};
  ::setsockopt(peer.fd.get(), SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  for (int i = 0; i < 2000 && echo.closed == 0; ++i) peer.record(request);
  REQUIRE(echo.wait_closed(1));
  CHECK(echo.records < 200);  // what the socket's buffers and the queue's limit let through
}

TEST_CASE("who sends many small records at once leaves others of the thread their turn") {
  BufferPool pool(std::size_t{16} << 20);
  IoThreads io(1, false);
  struct Noting final : ChannelUser {
    void on_record(ReceivedRecord record) override { note(record.bytes.size()); }
    void on_closed(const Error& /*why*/) override {}
    std::function<void(std::size_t)> note;
  };
  std::promise<void> begun;
  std::promise<void> go_on;
  std::atomic<int> small{0};
  std::atomic<int> before{-1};
  TcpServer server(io, pool, EchoServer::local({}), [&](const std::shared_ptr<Channel>& channel) {
    auto user = std::make_shared<Noting>();
    user->note = [&](std::size_t size) {
      if (size == 8) before = small.load();
      if (size != 4 || ++small > 1) return;
      begun.set_value();
      go_on.get_future().wait();
    };
    channel->start(std::move(user));
  });
  REQUIRE(server.listen());
  io.start();
  RawSocket many(server.port());
  RawSocket other(server.port());
  while (server.connections() < 2) std::this_thread::sleep_for(milliseconds(1));
  const std::vector<std::byte> bytes(8);
  many.record(std::span(bytes).first(4));
  begun.get_future().wait();
  std::vector<std::byte> calls;
  for (int i = 0; i < 5000; ++i) {
    std::ranges::copy(record_mark(4), std::back_inserter(calls));
    calls.resize(calls.size() + 4);
  }
  many.write(calls);
  other.record(bytes);
  go_on.set_value();
  for (int i = 0; i < 500 && small < 5001; ++i) std::this_thread::sleep_for(milliseconds(10));
  CHECK(small == 5001);
  CHECK(before >= 0);
  CHECK(before < 1000);
  server.stop();
  io.stop();
}

TEST_CASE("an address is one server's before it listens too, and any address is all of them") {
  BufferPool pool(std::size_t{1} << 20);
  IoThreads io(1, false);
  io.start();
  const auto nobody = [](const std::shared_ptr<Channel>&) {};
  const auto server = [&](const char* address, std::uint16_t port) {
    return std::make_unique<TcpServer>(io, pool, TcpServerOptions{.address = address, .port = port},
                                       nobody);
  };
  const auto any = server("::", 0);
  REQUIRE(any->bind());
  any->stop();
  const auto first = server(GENERATE("127.0.0.1", "0.0.0.0", "::"), any->port());
  REQUIRE(first->bind());
  for (const char* address : {"127.0.0.1", "0.0.0.0", "::"}) {
    const auto second = server(address, first->port())->bind();
    REQUIRE_FALSE(second);
    CHECK(second.error().text.ends_with("Address already in use"));
  }
  CHECK(server("127.0.0.1", 0)->bind());  // another port
  REQUIRE(first->listen());
  CHECK_FALSE(server("127.0.0.1", first->port())->bind());
  first->cut();
  CHECK_FALSE(server("127.0.0.1", first->port())->bind());
  first->go_on();
  {
    const RawSocket client(first->port());
  }
  first->stop();
  CHECK(server("127.0.0.1", first->port())->bind());
  io.stop();
}

TEST_CASE("connections beyond the limit are refused, and one that leaves makes room") {
  TcpServerOptions options;
  options.max_connections_per_peer = 2;
  EchoServer echo(options, [](Buffer) { return Message{}; });
  RawSocket first(echo.server.port());
  {
    RawSocket second(echo.server.port());
    second.record(std::vector<std::byte>(8));
    CHECK(second.read(4).size() == 4);
    RawSocket third(echo.server.port());
    CHECK(third.read(1).empty());
    CHECK(echo.server.refused() == 1);
  }
  REQUIRE(echo.wait_closed(1));
  for (int i = 0; i < 100 && echo.server.connections() > 1; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  RawSocket again(echo.server.port());
  again.record(std::vector<std::byte>(8));
  CHECK(again.read(4).size() == 4);
}

TEST_CASE("strangers have little time, send little, and give way to newer ones") {
  TcpServerOptions options;
  options.limits.standing = Standing::kStranger;
  options.limits.stranger_deadline = milliseconds(10'000);
  options.max_strangers = 8;
  options.max_strangers_per_peer = 4;
  SECTION("a large record ends the connection before it takes memory") {
    EchoServer echo(options);
    RawSocket peer(echo.server.port());
    peer.write(record_mark(std::size_t{1} << 20));
    peer.write(std::vector<std::byte>(700));
    REQUIRE(echo.wait_closed(1));
    CHECK(echo.error() == Errc::kTooLarge);
    CHECK(echo.pool.in_use_bytes() == 0);
  }
  SECTION("who shows nothing in time goes") {
    options.limits.stranger_deadline = milliseconds(200);
    EchoServer echo(options, [](Buffer) { return Message{}; });
    RawSocket peer(echo.server.port());
    for (int i = 0; i < 100 && echo.closed == 0; ++i) {
      peer.record(std::vector<std::byte>(8));
      std::this_thread::sleep_for(milliseconds(20));
    }
    REQUIRE(echo.wait_closed(1));
    CHECK(echo.error() == Errc::kTimedOut);
  }
  SECTION("the oldest of those from one address goes for a new one") {
    EchoServer echo(options, [](Buffer) { return Message{}; });
    std::vector<std::unique_ptr<RawSocket>> peers;
    for (int i = 0; i < 6; ++i) {
      peers.push_back(std::make_unique<RawSocket>(echo.server.port()));
      peers.back()->record(std::vector<std::byte>(8));
      CHECK(peers.back()->read(4).size() == 4);
    }
    REQUIRE(echo.wait_closed(2));
    CHECK(peers[0]->read(1).empty());
    CHECK(peers[1]->read(1).empty());
    peers[2]->record(std::vector<std::byte>(8));
    CHECK(peers[2]->read(4).size() == 4);
  }
}

TEST_CASE("who has shown more than a stranger does not give way, and counts as what it is") {
  TcpServerOptions options;
  options.limits.standing = Standing::kStranger;
  options.limits.stranger_deadline = milliseconds(300);
  options.max_strangers_per_peer = 2;
  options.max_connections_per_peer = 3;
  EchoServer echo(options, [](Buffer) { return Message{}; });
  echo.becomes = [](const Buffer& record) {
    return record.size() == 8 ? Standing::kClient : Standing::kServer;
  };
  std::vector<std::unique_ptr<RawSocket>> peers;
  for (const std::size_t size : {8, 8, 8, 12, 12, 12}) {
    peers.push_back(std::make_unique<RawSocket>(echo.server.port()));
    peers.back()->record(std::vector<std::byte>(size));
    CHECK(peers.back()->read(4).size() == 4);
  }
  RawSocket fourth(echo.server.port());  // client of that address
  fourth.record(std::vector<std::byte>(8));
  CHECK(fourth.read(1).empty());
  for (int i = 0; i < 5; ++i) RawSocket stranger(echo.server.port());
  std::this_thread::sleep_for(milliseconds(400));
  for (const auto& peer : peers) {
    peer->record(std::vector<std::byte>(100'000));
    CHECK(peer->read(4).size() == 4);
  }
}

TEST_CASE("a message arrives as its bytes, buffers, files and zeros, in order") {
  const OwnedFd file_fd(::memfd_create("weft-test", 0));
  std::vector<std::byte> content(300'000);
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<std::byte>(i * 13);
  REQUIRE(::write(file_fd.get(), content.data(), content.size()) ==
          static_cast<ssize_t>(content.size()));
  auto file = std::make_shared<const OwnedFd>(::dup(file_fd.get()));
  std::vector<std::byte> expected;
  EchoServer* server = nullptr;
  EchoServer echo({}, [&](Buffer record) {
    Message out;
    out.bytes().u32(1);
    Payload payload;
    payload.append(std::move(record));
    payload.append(FileRange{file, 1000, 250'000});
    payload.append(ZeroRange{100'000});
    payload.append(FileRange{file, 299'000, 5'000});  // 4,000 of it past the end: zeros
    out.splice(std::move(payload));
    out.bytes().u32(2);
    Payload second;
    auto buffer = server->pool.allocate(70'000);
    REQUIRE(buffer);
    std::fill_n(buffer->data(), 70'000, std::byte{0x42});
    second.append(std::move(*buffer));
    out.splice(std::move(second));
    return out;
  });
  server = &echo;
  RawSocket peer(echo.server.port());
  for (int round = 0; round < 5; ++round) {
    const std::vector<std::byte> request(5000, static_cast<std::byte>(round));
    peer.record(request);
    xdr::Encoder want;
    want.u32(1);
    want.raw(request);
    want.raw(std::span(content).subspan(1000, 250'000));
    want.raw(std::vector<std::byte>(100'000));
    want.raw(std::span(content).subspan(299'000));
    want.raw(std::vector<std::byte>(4'000));
    want.u32(2);
    want.raw(std::vector<std::byte>(70'000, std::byte{0x42}));
    const auto mark = record_mark(want.size());
    const auto got_mark = peer.read(4);
    REQUIRE(std::equal(mark.begin(), mark.end(), got_mark.begin(), got_mark.end()));
    const auto got = peer.read(want.size());
    REQUIRE(got.size() == want.size());
    CHECK(std::equal(got.begin(), got.end(), want.bytes().begin()));
  }
}

TEST_CASE("a file is sent only while its reader has the right to it") {
  constexpr std::size_t kSize = std::size_t{32} << 20;  // more than sockets hold
  auto file = std::make_shared<const OwnedFd>(::memfd_create("weft-test", 0));
  REQUIRE(::ftruncate(file->get(), kSize) == 0);
  std::atomic<bool> may{true};
  const bool shared = GENERATE(true, false);
  EchoServer echo({}, [&](Buffer) {
    Payload payload;
    payload.append(FileRange{file, 0, kSize});
    payload.read_files_while([&may] { return may.load(); });
    Message out;
    out.splice(std::move(payload));
    return shared ? out.share() : std::move(out);
  });
  RawSocket peer(echo.server.port());
  peer.record(std::vector<std::byte>(8));
  CHECK(peer.read(4 + kSize).size() == 4 + kSize);
  peer.record(std::vector<std::byte>(8));
  CHECK(peer.read(1000).size() == 1000);
  may = false;
  CHECK(peer.read(kSize).size() < kSize - 1000);
  REQUIRE(echo.wait_closed(1));
  CHECK(echo.error() == Errc::kFenced);
}

namespace {

// Where nobody listens at the moment.
std::uint16_t free_port() {
  const OwnedFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&at), size) == 0);
  REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
  return ntohs(at.sin_port);
}

bool connects(std::uint16_t port) {
  const OwnedFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
}

}  // namespace

TEST_CASE("a server that is cut leaves nobody waiting, though its threads hang") {
  std::atomic<bool> hang{true};
  TcpServerOptions options;
  options.port = free_port();
  EchoServer echo(options, [&](Buffer record) {
    while (hang) std::this_thread::sleep_for(milliseconds(1));
    Message message;
    message.bytes().raw({record.data(), record.size()});
    return message;
  });
  const std::vector<std::byte> bytes(100, std::byte{7});
  RawSocket first(options.port);
  RawSocket second(options.port);  // both I/O threads
  while (echo.server.connections() < 2) std::this_thread::sleep_for(milliseconds(1));
  std::vector<std::byte> twice;  // the second record is delivered neither before the cut nor after
  for (int i = 0; i < 2; ++i) {
    std::ranges::copy(record_mark(bytes.size()), std::back_inserter(twice));
    std::ranges::copy(bytes, std::back_inserter(twice));
  }
  first.write(twice);
  second.record(bytes);
  while (echo.records < 2) std::this_thread::sleep_for(milliseconds(1));
  RawSocket waiting(options.port);  // in the queue: nobody takes it
  echo.server.cut();
  CHECK(first.read(1).empty());
  CHECK(second.read(1).empty());
  CHECK(waiting.read(1).empty());
  CHECK_FALSE(connects(options.port));
  hang = false;
  CHECK(echo.wait_closed(2));
  CHECK(echo.records == 2);
  CHECK_FALSE(connects(options.port));
  echo.server.go_on();
  RawSocket again(options.port);
  again.record(bytes);
  CHECK(again.read(104).size() == 104);
}

TEST_CASE("a cut ends no socket that has the number of one that was just closed") {
  BufferPool pool(std::size_t{1} << 20);
  IoThreads io(1, false);
  std::promise<std::shared_ptr<Channel>> accepted;
  TcpServer server(io, pool, EchoServer::local({}), [&](const std::shared_ptr<Channel>& channel) {
    channel->start(std::make_shared<Listening>());
    accepted.set_value(channel);
  });
  REQUIRE(server.listen());
  io.start();
  const RawSocket peer(server.port());
  const std::shared_ptr<Channel> channel = accepted.get_future().get();
  std::promise<int> ended;
  channel->post([&] {
    channel->close({Errc::kClosed, "over"}, false);
    std::vector<OwnedFd> others;
    for (int pair = 0; pair < 32; ++pair) {
      std::array<int, 2> fds{};
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, fds.data()) != 0) continue;
      others.emplace_back(fds[0]);
      others.emplace_back(fds[1]);
    }
    server.cut();
    int of_others = 0;
    for (const OwnedFd& other : others) {
      if (::send(other.get(), "x", 1, MSG_NOSIGNAL) != 1) ++of_others;
    }
    ended.set_value(of_others);
  });
  CHECK(ended.get_future().get() == 0);
  server.stop();
  io.stop();
}

TEST_CASE("a cut also ends a connection that is accepted and not taken yet") {
  BufferPool pool(std::size_t{1} << 20);
  IoThreads io(1, false);
  std::atomic<int> taken{0};
  std::promise<void> first_taken;
  std::promise<void> go_on;
  // The thread accepts the second connection once it has taken the first, and hangs in this.
  TcpServerOptions options;
  options.port = free_port();
  TcpServer server(io, pool, EchoServer::local(options),
                   [&](const std::shared_ptr<Channel>& channel) {
                     channel->start(std::make_shared<Listening>());
                     if (++taken > 1) return;
                     first_taken.set_value();
                     go_on.get_future().wait();
                   });
  REQUIRE(server.listen());
  std::promise<void> both_wait;
  boost::asio::post(io.context(0), [&] { both_wait.get_future().wait(); });
  io.start();
  RawSocket first(options.port);
  RawSocket second(options.port);
  both_wait.set_value();
  first_taken.get_future().wait();
  server.cut();
  CHECK(first.read(1).empty());
  server.go_on();
  go_on.set_value();
  CHECK(second.read(1).empty());
  CHECK(taken == 1);
  RawSocket later(options.port);
  while (taken < 2) std::this_thread::sleep_for(milliseconds(1));
  server.stop();
  io.stop();
}
