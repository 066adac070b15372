// Records whose bulk data a TCP server leaves in the kernel: whole or not at all, whatever the peer
// does in the middle, and the connection stays in step.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <mutex>
#include <thread>

#include "rpc/nfs4/compound.h"
#include "rpc/nfs4/payload_locator.h"
#include "rpc/onc/rpc_header.h"
#include "rpc/transport/tcp_server.h"

using namespace weft;
using namespace weft::rpc;
using std::chrono::milliseconds;

namespace {

using Bytes = std::vector<std::byte>;

struct Got {
  Bytes bytes;
  std::size_t piped = 0;
};

struct Server {
  explicit Server(milliseconds record_deadline = milliseconds(10'000))
      : server(io, pool, options(record_deadline, pipes), [this](std::shared_ptr<Channel> channel) {
          channel->start(std::make_shared<User>(*this));
        }) {
    REQUIRE(server.listen());
    io.start();
  }
  ~Server() {
    server.stop();
    io.stop();
  }
  static TcpServerOptions options(milliseconds record_deadline, const std::atomic<bool>& pipes) {
    TcpServerOptions out;
    out.address = "127.0.0.1";
    out.limits.locate_payload = nfs4::locate_payload;
    out.limits.pipe_from = std::size_t{64} << 10;
    out.limits.pipes = [&pipes](std::span<const std::byte>) { return pipes.load(); };
    out.limits.record_deadline = record_deadline;
    return out;
  }
  struct User final : ChannelUser {
    explicit User(Server& o) : owner(o) {}
    void on_record(ReceivedRecord record) override {
      const Buffer& head = record.bytes;
      PipedBytes& rest = record.apart.piped;
      Got one{{head.span().begin(), head.span().end()}, rest.size()};
      if (!rest.empty()) {
        auto more = rest.to_buffer().value();
        one.bytes.insert(one.bytes.end(), more.span().begin(), more.span().end());
      }
      const std::scoped_lock lock(owner.mutex);
      owner.got.push_back(std::move(one));
    }
    void on_closed(const Error& why) override { owner.closed = static_cast<int>(why.code); }
    Server& owner;
  };
  std::vector<Got> wait(std::size_t count) {
    for (int i = 0; i < 1000; ++i) {
      {
        const std::scoped_lock lock(mutex);
        if (got.size() >= count) return got;
      }
      std::this_thread::sleep_for(milliseconds(10));
    }
    FAIL("the records did not come");
    return {};
  }
  [[nodiscard]] Errc wait_closed() const {
    for (int i = 0; i < 1000 && closed < 0; ++i) std::this_thread::sleep_for(milliseconds(10));
    return static_cast<Errc>(closed.load());
  }

  std::atomic<bool> pipes{true};
  BufferPool pool{std::size_t{64} << 20};
  IoThreads io{1, false};
  std::mutex mutex;
  std::vector<Got> got;  // protected by mutex
  std::atomic<int> closed{-1};
  TcpServer server;
};

struct Peer {
  explicit Peer(std::uint16_t port) : fd(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  void send(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      REQUIRE(n > 0);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  OwnedFd fd;
};

// The record of a WRITE with `size` bytes.
Bytes write_record(BufferPool& pool, std::size_t size, bool more_follows = false) {
  nfs4::WriteArgs write;
  auto data = pool.allocate(size).value();
  for (std::size_t i = 0; i < size; ++i) data.data()[i] = static_cast<std::byte>(i * 31 >> 3);
  write.data.push_back(std::move(data));
  Message call;
  encode_call(call.bytes(), 1, nfs4::kProgram, nfs4::kVersion, 1, nullptr);
  std::vector<nfs4::OpArgs> ops;
  ops.push_back({nfs4::Op::OP_SEQUENCE, nfs4::SequenceArgs{}});
  ops.push_back({nfs4::Op::OP_PUTFH, nfs4::PutFhArgs{}});
  ops.push_back({nfs4::Op::OP_WRITE, std::move(write)});
  if (more_follows) ops.push_back({nfs4::Op::OP_COMMIT, nfs4::CommitArgs{}});
  nfs4::encode_compound(call, 1, std::move(ops));
  return call.flatten().value();
}

Bytes marked(const Bytes& record) {
  const auto mark = record_mark(record.size());
  Bytes out(mark.begin(), mark.end());
  out.insert(out.end(), record.begin(), record.end());
  return out;
}

std::size_t pipes_to_be_had(BufferPool& pool) {
  std::vector<PipedBytes> all;
  while (auto one = PipedBytes::open(pool)) all.push_back(std::move(*one));
  return all.size();
}

}  // namespace

TEST_CASE("large bulk data is piped, other records are not, and all arrive as they were sent") {
  Server server;
  Peer peer(server.server.port());
  const std::vector<Bytes> sent = {
      write_record(server.pool, 1 << 20),       write_record(server.pool, 100),
      write_record(server.pool, 65536),         write_record(server.pool, 65532),
      write_record(server.pool, 100'001),       write_record(server.pool, 1 << 20),
      write_record(server.pool, 200'000, true), write_record(server.pool, 1'048'572),
  };
  const std::vector<std::size_t> piped = {1 << 20, 0, 65536, 0, 0, 1 << 20, 0, 1'048'572};
  Bytes all;
  for (const Bytes& one : sent) {
    const Bytes wire = marked(one);
    all.insert(all.end(), wire.begin(), wire.end());
  }
  peer.send(all);                                        // as one stream,
  for (const Bytes& one : sent) peer.send(marked(one));  // and one by one
  const auto got = server.wait(2 * sent.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO(i);
    CHECK(got[i].bytes == sent[i % sent.size()]);
    CHECK(got[i].piped == piped[i % sent.size()]);
  }
}

TEST_CASE("whether bulk data is piped is asked for each record") {
  Server server;
  Peer peer(server.server.port());
  const Bytes record = write_record(server.pool, 1 << 20);
  for (const bool pipes : {true, false, true}) {
    const std::size_t before = server.wait(0).size();
    server.pipes = pipes;
    peer.send(marked(record));
    const auto got = server.wait(before + 1);
    CHECK(got.back().bytes == record);
    CHECK((got.back().piped > 0) == pipes);
  }
}

TEST_CASE("bulk data in several fragments is received in memory") {
  Server server;
  Peer peer(server.server.port());
  const Bytes record = write_record(server.pool, 1 << 20);
  auto first = record_mark(300'000);
  first[0] &= std::byte{0x7f};
  peer.send(first);
  peer.send(std::span(record).first(300'000));
  peer.send(record_mark(record.size() - 300'000));
  peer.send(std::span(record).subspan(300'000));
  const auto got = server.wait(1);
  CHECK(got[0].bytes == record);
  CHECK(got[0].piped == 0);
}

TEST_CASE("a peer that goes in the middle of bulk data leaves nothing behind") {
  Server server;
  const std::size_t before = pipes_to_be_had(server.pool);
  {
    Peer peer(server.server.port());
    const Bytes wire = marked(write_record(server.pool, 1 << 20));
    peer.send(std::span(wire).first(500'000));
    std::this_thread::sleep_for(milliseconds(50));
  }
  CHECK(server.wait_closed() == Errc::kProtocol);
  CHECK(server.got.empty());
  for (int i = 0; i < 100 && server.server.connections() > 0; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  CHECK(pipes_to_be_had(server.pool) == before);
  CHECK(server.pool.in_use_bytes() == 0);
}

TEST_CASE("a peer that stops in the middle of bulk data is disconnected in time") {
  Server server(milliseconds(200));
  Peer peer(server.server.port());
  const Bytes wire = marked(write_record(server.pool, 1 << 20));
  peer.send(std::span(wire).first(500'000));
  CHECK(server.wait_closed() == Errc::kTimedOut);
}

TEST_CASE("bulk data in more segments than a pipe has places arrives whole") {
  Server server;
  Peer peer(server.server.port());
  Peer other(server.server.port());  // takes its turn, so that segments do not lie side by side
  const Bytes wire = marked(write_record(server.pool, 256'000));
  const Bytes small = marked(write_record(server.pool, 100));
  for (std::size_t at = 0; at < wire.size(); at += 100) {
    peer.send(std::span(wire).subspan(at, std::min<std::size_t>(100, wire.size() - at)));
    if (at % 1000 == 0) other.send(small);
  }
  peer.send(wire);
  const auto got = server.wait(2 + (wire.size() + 999) / 1000);
  std::size_t large = 0;
  for (const Got& one : got) {
    if (one.bytes.size() < 1000) continue;
    CHECK(one.bytes == Bytes(wire.begin() + 4, wire.end()));
    ++large;
  }
  CHECK(large == 2);
}
