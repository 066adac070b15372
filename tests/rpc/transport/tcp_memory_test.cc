// What a peer of a TCP server cannot make it hold of memory, and what becomes of it while that is
// short.
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <thread>

#include "tests/rpc/transport/echo_server.h"

using namespace weft;
using namespace weft::rpc;
using rpc::test::EchoServer;
using rpc::test::RawSocket;
using std::chrono::milliseconds;

TEST_CASE("what is queued is bounded by what it takes of memory, however small the answers are") {
  const Standing standing = GENERATE(Standing::kStranger, Standing::kClient, Standing::kServer);
  CAPTURE(static_cast<int>(standing));
  TcpServerOptions options;
  options.limits.standing = standing;
  EchoServer echo(options, [](Buffer) {
    Message out;
    out.bytes().raw(std::vector<std::byte>(24));
    return out;
  });
  std::size_t in_use = 0;
  {
    RawSocket peer(echo.server.port());
    timeval wait{.tv_sec = 1, .tv_usec = 0};
    ::setsockopt(peer.fd.get(), SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    std::vector<std::byte> calls;
    for (int i = 0; i < 8192; ++i) {
      std::ranges::copy(record_mark(4), std::back_inserter(calls));
      calls.resize(calls.size() + 4);
    }
    for (int i = 0; i < 200; ++i) {
      if (peer.write(calls) != static_cast<ssize_t>(calls.size())) break;
    }
    in_use = echo.pool.in_use_bytes();
  }
  REQUIRE(echo.wait_closed(1));
  CHECK(echo.pool.in_use_bytes() == 0);
  switch (standing) {
    case Standing::kStranger:
      CHECK(echo.queued < 1500);
      CHECK(in_use < 100'000);
      break;
    case Standing::kGuest:
    case Standing::kClient:
      CHECK(echo.queued < 100'000);
      CHECK(in_use > 500'000);
      CHECK(in_use < 2'000'000);
      break;
    case Standing::kServer:
      CHECK(echo.queued > options.limits.max_queued_bytes);
      CHECK(in_use < 100'000);
  }
}

TEST_CASE("with memory that is short a peer must make haste with what it holds memory for") {
  TcpServerOptions options;
  options.limits.slow_deadline = milliseconds(300);
  options.limits.memory_deadline = milliseconds(800);  // so that it is looked at often
  options.limits.record_deadline = milliseconds(60'000);
  EchoServer echo(options, [](Buffer) {
    Message out;
    Payload payload;
    payload.append(ZeroRange{std::size_t{4} << 20});
    out.splice(std::move(payload));
    return out;
  });
  RawSocket peer(echo.server.port());
  const bool sends = GENERATE(true, false);
  const auto keep_on = [&] {
    if (sends) {
      peer.write(std::vector<std::byte>(10));
    } else {
      peer.read(10);
    }
    std::this_thread::sleep_for(milliseconds(20));
  };
  if (sends) {
    peer.write(record_mark(std::size_t{1} << 20));
    peer.write(std::vector<std::byte>(700));
  } else {
    for (int i = 0; i < 3; ++i) peer.record(std::vector<std::byte>(8));
  }
  for (int i = 0; i < 40; ++i) keep_on();
  CHECK(echo.closed == 0);
  auto hog = echo.pool.allocate(std::size_t{40} << 20);
  REQUIRE(hog);
  for (int i = 0; i < 100 && echo.closed == 0; ++i) keep_on();
  REQUIRE(echo.wait_closed(1));
  CHECK(echo.error() == Errc::kTimedOut);
}

TEST_CASE("with memory that is short who takes answers is to be faster the more memory they hold") {
  TcpServerOptions options;
  options.limits.slow_deadline = milliseconds(800);
  options.limits.memory_deadline = milliseconds(800);  // so that it is looked at often
  options.limits.record_deadline = milliseconds(2'000);
  options.limits.least_rate = 0;
  options.limits.standing = Standing::kClient;
  constexpr std::size_t kSize = std::size_t{1} << 20;
  const bool of_memory = GENERATE(true, false);
  const bool fast = GENERATE(true, false);
  CAPTURE(of_memory, fast);
  const auto file = std::make_shared<const OwnedFd>(::memfd_create("weft-test", 0));
  REQUIRE(::ftruncate(file->get(), kSize) == 0);
  BufferPool* pool = nullptr;
  EchoServer echo(options, [&](Buffer) {
    Payload payload;
    if (of_memory) {
      payload.append(pool->allocate(kSize).value());
    } else {
      payload.append(FileRange{file, 0, kSize});
    }
    Message out;
    out.splice(std::move(payload));
    return out;
  });
  pool = &echo.pool;
  const auto hog = echo.pool.allocate(std::size_t{33} << 20);
  REQUIRE(hog);
  RawSocket peer(echo.server.port());
  for (int i = 0; i < 24; ++i) peer.record(std::vector<std::byte>(8));
  // Of 8 MiB that wait all are to be taken in 2 s.
  const std::size_t piece = fast ? std::size_t{1} << 20 : std::size_t{4} << 10;
  for (int i = 0; i < (fast ? 24 : 150) && echo.closed == 0; ++i) {
    peer.read(piece);
    std::this_thread::sleep_for(milliseconds(20));
  }
  CHECK((echo.closed == 1) == (of_memory && !fast));
  if (echo.closed == 1) CHECK(echo.error() == Errc::kTimedOut);
}

TEST_CASE("who takes answers steadily is not slow though our kernel takes them in bursts") {
  TcpServerOptions options;
  options.limits.slow_deadline = milliseconds(300);
  options.limits.memory_deadline = milliseconds(800);  // so that it is looked at often
  options.limits.standing = Standing::kClient;
  const bool stalls = GENERATE(false, true);
  if (stalls) {
    options.limits.send_deadline = milliseconds(300);
    options.limits.least_rate = 0;
  }
  constexpr std::size_t kSize = std::size_t{1} << 20;
  BufferPool* pool = nullptr;
  EchoServer echo(options, [&](Buffer) {
    Payload payload;
    payload.append(pool->allocate(kSize).value());
    Message out;
    out.splice(std::move(payload));
    return out;
  });
  pool = &echo.pool;
  const auto hog = echo.pool.allocate(std::size_t{33} << 20);
  REQUIRE(hog);
  RawSocket peer(echo.server.port());
  for (int i = 0; i < 16; ++i) peer.record(std::vector<std::byte>(8));
  // The socket's buffer is of megabytes, and takes more when a third of it is free.
  for (int i = 0; i < 60; ++i) {
    peer.read(std::size_t{64} << 10);
    std::this_thread::sleep_for(milliseconds(50));
  }
  CHECK(echo.closed == 0);
}

TEST_CASE("a record that finds no memory is taken soon after there is some, not at the next tick") {
  TcpServerOptions options;
  options.limits.standing = Standing::kClient;
  EchoServer echo(options);
  RawSocket peer(echo.server.port());
  const auto began = std::chrono::steady_clock::now();
  constexpr int kTimes = 20;  // an ordinary tick is a second
  for (int i = 1; i <= kTimes; ++i) {
    std::this_thread::sleep_for(milliseconds(30));  // so that the next tick is an ordinary one
    std::vector<Buffer> hog;
    for (std::size_t size = std::size_t{16} << 20; size >= 4096; size /= 2) {
      while (auto more = echo.pool.allocate(size)) hog.push_back(std::move(*more));
    }
    peer.record(std::vector<std::byte>(100'000));
    std::this_thread::sleep_for(milliseconds(20));
    CHECK(echo.records < i);
    hog.clear();
    for (int j = 0; j < 2'000 && echo.records < i; ++j)
      std::this_thread::sleep_for(milliseconds(5));
    CHECK(echo.records == i);
  }
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(kTimes / 2));
}

// TCP's own pause over a far link that loses packets.
TEST_CASE("with memory that is short a pause in a record is no end, and a longer one is") {
  TcpServerOptions options;
  options.limits.standing = Standing::kClient;
  options.limits.slow_deadline = milliseconds(1'000);
  options.limits.memory_deadline = milliseconds(800);  // so that it is looked at often
  EchoServer echo(options, [](Buffer) { return Message{}; });
  const auto hog = echo.pool.allocate(std::size_t{33} << 20);
  REQUIRE(hog);
  RawSocket peer(echo.server.port());
  const std::vector<std::byte> half(50'000);
  const auto mark = record_mark(2 * half.size());
  peer.write(mark);
  peer.write(half);
  std::this_thread::sleep_for(milliseconds(600));
  peer.write(half);
  CHECK(peer.read(4).size() == 4);
  CHECK(echo.closed == 0);
  peer.write(mark);
  peer.write(half);
  REQUIRE(echo.wait_closed(1));
  CHECK(echo.error() == Errc::kTimedOut);
}
