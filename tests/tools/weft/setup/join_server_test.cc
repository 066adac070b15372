#include "tools/weft/setup/join_server.h"

#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <thread>

#include "rpc/base/mutex.h"
#include "rpc/peer/endpoint.h"
#include "rpc/peer/secure_channel.h"
#include "tools/weft/setup/ask_to_join.h"
#include "tools/weft/setup/tokens.h"

namespace weft::cli {
namespace {

using boost::asio::ip::tcp;
using rpc::peer::ClusterKeys;
using rpc::peer::SecureChannel;
using std::chrono::milliseconds;

const std::string kToken(32, '7');
const std::string kOther(32, '8');
const std::string kKeyFile = std::string(64, 'c') + "\n";

// A server with tokens that a test may change.
struct System {
  explicit System(std::vector<std::string> valid, milliseconds handshake = milliseconds(5000))
      : tokens(std::move(valid)),
        server({.listen = layout::make_address("127.0.0.1", 0).value(),
                .secrets = [this] { return secrets(); },
                .answer = [this]() -> Result<Joined> {
                  ++answered;
                  return Joined{.mds = mds, .keys = kKeyFile};
                },
                .pause = milliseconds(1),
                .handshake = handshake}) {
    REQUIRE(server.start());
    port = server.address().port;
  }

  ClusterKeys secrets() {
    const MutexLock lock(mutex);
    ClusterKeys out;
    for (const std::string& token : tokens) out.push_back(token_secret(token).value());
    return out;
  }
  void set(std::vector<std::string> valid) {
    const MutexLock lock(mutex);
    tokens = std::move(valid);
  }
  [[nodiscard]] std::string at() const { return "127.0.0.1:" + std::to_string(port); }
  [[nodiscard]] Result<JoinAnswer> ask(const std::string& token) const {
    return ask_to_join(at(), token, "d1", milliseconds(5000));
  }

  Mutex mutex;
  std::vector<std::string> tokens WEFT_GUARDED_BY(mutex);
  std::string mds = "192.0.2.1:20480";
  std::atomic<int> answered = 0;
  std::uint16_t port = 0;
  JoinServer server;
};

tcp::socket connected(boost::asio::io_context& io, std::uint16_t port) {
  tcp::socket socket(io);
  socket.connect({boost::asio::ip::make_address("127.0.0.1"), port});
  return socket;
}

// What the server sends until it closes.
std::string answer_to(std::uint16_t port, const std::string& bytes) {
  boost::asio::io_context io;
  auto socket = connected(io, port);
  boost::system::error_code ignored;
  boost::asio::write(socket, boost::asio::buffer(bytes), ignored);
  std::string got;
  boost::asio::read(socket, boost::asio::dynamic_buffer(got), ignored);
  return got;
}

}  // namespace

TEST_CASE("who has a token gets the key, more than once", "[setup]") {
  const System system({kOther, kToken});
  for (int i = 0; i < 3; ++i) {
    const auto answer = system.ask(kToken);
    REQUIRE(answer);
    CHECK(answer->key_file == kKeyFile);
    CHECK(answer->keys == rpc::peer::parse_cluster_keys(kKeyFile).value());
    CHECK(to_string(answer->mds) == "192.0.2.1:20480");
    CHECK(layout::ip_text(answer->own) == "127.0.0.1");
  }
  CHECK(system.answered == 3);
}

TEST_CASE("a wildcard is where the server was reached", "[setup]") {
  System system({kToken});
  system.mds = "0.0.0.0:20480";
  CHECK(to_string(system.ask(kToken).value().mds) == "127.0.0.1:20480");
}

TEST_CASE("a wrong token, an expired one and none at all are refused alike", "[setup]") {
  System system({kToken});
  const auto wrong = system.ask(kOther);
  CHECK(wrong.error() == Errc::kAuth);
  system.set({});
  const auto expired = system.ask(kToken);
  CHECK(expired.error() == Errc::kAuth);
  CHECK(expired.error().text == wrong.error().text);
  CHECK(wrong.error().text.find("weft token") != std::string::npos);
  CHECK(system.answered == 0);
  system.set({kToken});
  CHECK(system.ask(kToken));
}

TEST_CASE("who answers with another secret is not believed", "[setup]") {
  // It has a token, but not ours: as somebody in the middle would.
  const System impostor({kOther});
  CHECK(impostor.ask(kToken).error() == Errc::kAuth);
}

TEST_CASE("nobody there is said in one line", "[setup]") {
  std::uint16_t port = 0;
  {
    const System gone({kToken});
    port = gone.port;
  }
  const auto nobody =
      ask_to_join("127.0.0.1:" + std::to_string(port), kToken, "d1", milliseconds(2000));
  CHECK(nobody.error() == Errc::kUnreachable);
  CHECK(nobody.error().text.find('\n') == std::string::npos);
  CHECK(nobody.error().text.find("firewall") != std::string::npos);
  CHECK(ask_to_join("127.0.0.1:0", kToken, "d1", milliseconds(500)).error() == Errc::kInvalid);
  CHECK(ask_to_join("", kToken, "d1", milliseconds(500)).error() == Errc::kInvalid);
  CHECK(ask_to_join("127.0.0.1", "short", "d1", milliseconds(500)).error() == Errc::kInvalid);
}

TEST_CASE("who accepts and says nothing is given up", "[setup]") {
  boost::asio::io_context io;
  tcp::acceptor silent(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  const std::string at = "127.0.0.1:" + std::to_string(silent.local_endpoint().port());
  const auto began = std::chrono::steady_clock::now();
  CHECK(ask_to_join(at, kToken, "d1", milliseconds(300)).error() == Errc::kTimedOut);
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(5));
}

TEST_CASE("a stranger hears nothing before TLS, and the key is in no answer", "[setup]") {
  const System system({kToken}, milliseconds(500));
  CHECK(answer_to(system.port, "").empty());
  CHECK(answer_to(system.port, "GET / HTTP/1.0\r\n\r\n").empty());
  const std::string refused = answer_to(system.port, std::string("\x16\x03\x01\x00\x05hello", 10));
  CHECK(refused.size() <= 16);  // an alert
  CHECK(system.answered == 0);
}

TEST_CASE("a call that is none of ours is answered with an error, and gets nothing", "[setup]") {
  const System system({kToken});
  boost::asio::io_context io;
  auto socket = connected(io, system.port);
  SecureChannel channel(SecureChannel::Role::kAccepting, {token_secret(kToken).value()});
  boost::asio::write(socket, boost::asio::buffer(channel.open()));
  std::array<std::byte, 4096> bytes{};
  SecureChannel::Received received;
  while (!channel.established()) {
    const std::size_t got = socket.read_some(boost::asio::buffer(bytes));
    REQUIRE(channel.receive(std::span(bytes).first(got), received));
  }
  boost::asio::write(socket, boost::asio::buffer(received.to_send));
  const std::vector<std::byte> nonsense(100, std::byte{0x5a});
  boost::asio::write(socket, boost::asio::buffer(channel.seal(nonsense).value()));
  boost::system::error_code error;
  while (!error) {
    const std::size_t got = socket.read_some(boost::asio::buffer(bytes), error);
    SecureChannel::Received more;
    static_cast<void>(channel.receive(std::span(bytes).first(got), more));
    CHECK(more.messages.empty());
  }
  CHECK(system.answered == 0);
}

TEST_CASE("connections that say nothing do not keep others out", "[setup]") {
  const System system({kToken}, milliseconds(60'000));
  boost::asio::io_context io;
  std::vector<tcp::socket> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(connected(io, system.port));
  CHECK(system.ask(kToken));
  // The oldest gave way.
  std::array<char, 1> byte{};
  boost::system::error_code error;
  static_cast<void>(silent.front().read_some(boost::asio::buffer(byte), error));
  CHECK(error);
}

}  // namespace weft::cli
