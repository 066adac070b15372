// Which addresses accept a connection, which refuse it, and which say nothing.
#include "dataserver/main/dialer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <future>
#include <optional>
#include <stdexcept>

#include "rpc/base/buffer.h"

namespace weft::ds {
namespace {

namespace control = rpc::control;
using namespace std::chrono_literals;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

OwnedFd stream(int flags = 0) { return OwnedFd(::socket(AF_INET, SOCK_STREAM | flags, 0)); }

// A port of 127.0.0.1 that is taken while this lives.
class Port {
 public:
  // `waiting`: how many connections have room that nobody accepts, one more than that; none: it
  // does not listen.
  explicit Port(std::optional<int> waiting) : socket_(stream()) {
    sockaddr_in at = loopback(0);
    socklen_t size = sizeof at;
    auto* const address = reinterpret_cast<sockaddr*>(&at);
    const bool good = ::bind(socket_.get(), address, size) == 0 &&
                      (!waiting || ::listen(socket_.get(), *waiting) == 0) &&
                      ::getsockname(socket_.get(), address, &size) == 0;
    if (!good) throw std::runtime_error("no port on 127.0.0.1");
    number_ = ntohs(at.sin_port);
  }
  [[nodiscard]] layout::NetAddress address() const {
    return layout::make_address("127.0.0.1", number_).value();
  }
  // The kernel has room for no more connections here, and answers none from then on.
  void fill() {
    for (int i = 0; i < 4; ++i) {
      waiting_.push_back(stream(SOCK_NONBLOCK));
      const sockaddr_in at = loopback(number_);
      (void)::connect(waiting_.back().get(), reinterpret_cast<const sockaddr*>(&at), sizeof at);
    }
  }

 private:
  OwnedFd socket_;
  std::uint16_t number_ = 0;
  std::vector<OwnedFd> waiting_;
};

Result<control::TriedAddresses> tried(Dialer& dialer, const control::TryAddresses& request) {
  std::promise<Result<control::TriedAddresses>> answer;
  dialer.try_all(request, [&](auto result) { answer.set_value(std::move(result)); });
  return answer.get_future().get();
}

TEST_CASE("each address is said to be reached, to refuse, or not to answer") {
  const Port open(8);
  const Port closed(std::nullopt);
  Port silent(0);
  silent.fill();
  Dialer dialer(300ms);
  const auto answer = tried(dialer, {{open.address(), closed.address(), silent.address()}});
  REQUIRE(answer);
  CHECK(answer->why == std::vector<std::string>{"", "Connection refused", "no answer"});
  CHECK(tried(dialer, {}).value().why.empty());
  CHECK(tried(dialer, {{open.address()}}).value().why == std::vector<std::string>{""});
}

TEST_CASE("one request is tried at a time, and the end of the program does not wait for it") {
  Port silent(0);
  silent.fill();
  Dialer dialer(1h);
  std::promise<Result<control::TriedAddresses>> first;
  dialer.try_all({{silent.address()}}, [&](auto result) { first.set_value(std::move(result)); });
  CHECK(tried(dialer, {{silent.address()}}).error() == Errc::kBusy);
  dialer.stop();
  const auto answer = first.get_future().get();
  REQUIRE(answer);
  CHECK(answer->why == std::vector<std::string>{"no answer"});
  CHECK(tried(dialer, {{silent.address()}}).error() == Errc::kClosed);
}

}  // namespace
}  // namespace weft::ds
