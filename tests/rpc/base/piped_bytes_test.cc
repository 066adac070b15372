#include "rpc/base/piped_bytes.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <cstdio>
#include <vector>

using namespace weft;

namespace {

using Bytes = std::vector<std::byte>;

Bytes pattern(std::size_t size) {
  Bytes out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(i * 31 >> 3);
  return out;
}

struct Sockets {
  Sockets() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    ours = OwnedFd(ends[0]);
    peer = OwnedFd(ends[1]);
  }
  OwnedFd ours;
  OwnedFd peer;
};

}  // namespace

TEST_CASE("bytes go from a socket through a pipe into a file") {
  BufferPool pool(std::size_t{1} << 20);
  const Sockets sockets;
  const Bytes sent = pattern(50'000);
  auto piped = PipedBytes::open(pool);
  REQUIRE(piped);
  REQUIRE(piped->put(std::span(sent).first(7'777)));
  CHECK(piped->fill(sockets.ours.get(), 1000) == -EAGAIN);
  std::size_t at = 7'777;
  while (at < sent.size()) {
    const auto rest = std::span(sent).subspan(at);
    REQUIRE(::send(sockets.peer.get(), rest.data(), std::min<std::size_t>(rest.size(), 9'999), 0) >
            0);
    const long n = piped->fill(sockets.ours.get(), rest.size());
    REQUIRE(n > 0);
    at += static_cast<std::size_t>(n);
  }
  CHECK(piped->size() == sent.size());
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  const int fd = ::fileno(file);
  std::uint64_t written = 0;
  while (!piped->empty()) {
    const long n = piped->write_to(fd, 5 + written);
    REQUIRE(n > 0);
    written += static_cast<std::uint64_t>(n);
  }
  CHECK(written == sent.size());
  Bytes back(sent.size() + 5);
  CHECK(::pread(fd, back.data(), back.size() + 1, 0) == static_cast<ssize_t>(back.size()));
  CHECK(std::equal(sent.begin(), sent.end(), back.begin() + 5));
  std::fclose(file);
  ::shutdown(sockets.peer.get(), SHUT_WR);
  CHECK(piped->fill(sockets.ours.get(), 1) == 0);
}

TEST_CASE("bytes that cannot be written stay, and can be had in memory") {
  BufferPool pool(std::size_t{16} << 10);
  const Bytes sent = pattern(10'000);
  auto piped = PipedBytes::open(pool);
  REQUIRE(piped);
  REQUIRE(piped->put(sent));
  const OwnedFd full(::open("/dev/full", O_WRONLY));
  CHECK(piped->write_to(full.get(), 0) < 0);
  CHECK(piped->size() == sent.size());
  {
    auto hog = pool.allocate(8 << 10);
    CHECK(piped->to_buffer().error() == Errc::kBusy);
  }
  Bytes front(100);
  REQUIRE(piped->take(front));
  CHECK(std::equal(front.begin(), front.end(), sent.begin()));
  auto rest = piped->to_buffer();
  REQUIRE(rest);
  CHECK(std::equal(rest->span().begin(), rest->span().end(), sent.begin() + 100, sent.end()));
  CHECK(piped->empty());
}

TEST_CASE("pipes are bounded in number, and what is dropped with bytes in it is not used again") {
  BufferPool pool(std::size_t{1} << 20);
  {
    std::vector<PipedBytes> all;
    while (auto one = PipedBytes::open(pool)) {
      REQUIRE(one->put(Bytes(100, std::byte{0xee})));
      all.push_back(std::move(*one));
      REQUIRE(all.size() <= PipedBytes::kMost);
    }
    CHECK(all.size() >= PipedBytes::kMost / 2);  // fewer where a user may have fewer
  }
  auto one = PipedBytes::open(pool);
  REQUIRE(one);
  CHECK(one->empty());
  REQUIRE(one->put(pattern(10)));
  PipedBytes other = std::move(*one);
  CHECK(one->empty());
  const Buffer back = other.to_buffer().value();
  const Bytes sent = pattern(10);
  CHECK(std::equal(back.span().begin(), back.span().end(), sent.begin(), sent.end()));
}
