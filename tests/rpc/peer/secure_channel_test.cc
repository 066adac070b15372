#include "rpc/peer/secure_channel.h"

#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>

#include "rpc/xdr/xdr.h"

using namespace weft;
using namespace weft::rpc::peer;
using Bytes = SecureChannel::Bytes;
using Role = SecureChannel::Role;

namespace {

Key filled(std::uint8_t value) {
  Key key;
  key.fill(std::byte{value});
  return key;
}

Bytes text(std::string_view from) {
  const auto bytes = std::as_bytes(std::span(from));
  return {bytes.begin(), bytes.end()};
}

// A pair that has shaken hands, unless the keys or versions differ.
struct Pair {
  Pair(const ClusterKeys& client_keys, const ClusterKeys& server_keys)
      : connecting(Role::kConnecting, client_keys, filled(7)),
        accepting(Role::kAccepting, server_keys, filled(9)) {}
  explicit Pair(std::uint8_t client_key = 1, std::uint8_t server_key = 1, Versions client = {},
                Versions server = {})
      : connecting(Role::kConnecting, ClusterKeys{{filled(client_key)}}, filled(7), client),
        accepting(Role::kAccepting, ClusterKeys{{filled(server_key)}}, filled(9), server) {}

  // Runs the handshake until neither side has anything to say.
  void shake() {
    Bytes to_server = connecting.open();
    while (!to_server.empty()) {
      SecureChannel::Received at_server;
      server_result = accepting.receive(to_server, at_server);
      SecureChannel::Received at_client;
      if (!at_server.to_send.empty()) {
        client_result = connecting.receive(at_server.to_send, at_client);
      }
      to_server = at_client.to_send;
    }
  }

  SecureChannel connecting;
  SecureChannel accepting;
  Result<> client_result;
  Result<> server_result;
};

Result<std::vector<Bytes>> deliver(SecureChannel& to, const Bytes& bytes) {
  SecureChannel::Received received;
  if (auto taken = to.receive(bytes, received); !taken) return pass(taken);
  return received.messages;
}

}  // namespace

TEST_CASE("two ends with one key talk both ways") {
  Pair pair;
  pair.shake();
  REQUIRE(pair.connecting.established());
  REQUIRE(pair.accepting.established());
  CHECK(pair.connecting.version() == Versions{}.most);
  for (int i = 0; i < 3; ++i) {
    const auto there = deliver(pair.accepting, pair.connecting.seal(text("ping")).value());
    REQUIRE(there);
    CHECK(there.value() == std::vector<Bytes>{text("ping")});
    const auto back = deliver(pair.connecting, pair.accepting.seal(text("pong")).value());
    REQUIRE(back);
    CHECK(back.value() == std::vector<Bytes>{text("pong")});
  }
}

TEST_CASE("bytes may come one at a time or all at once") {
  Pair pair;
  pair.shake();
  Bytes stream;
  for (const auto* word : {"a", "", "three"}) {
    const Bytes record = pair.connecting.seal(text(word)).value();
    stream.insert(stream.end(), record.begin(), record.end());
  }
  std::vector<Bytes> got;
  for (const std::byte byte : stream) {
    const auto some = deliver(pair.accepting, {byte});
    REQUIRE(some);
    got.insert(got.end(), some->begin(), some->end());
  }
  CHECK(got == std::vector{text("a"), text(""), text("three")});
}

TEST_CASE("a wrong key is refused by both ends, and each says so") {
  Pair pair(1, 2);
  pair.shake();
  CHECK_FALSE(pair.connecting.established());
  CHECK_FALSE(pair.accepting.established());
  CHECK(pair.client_result.error() == Errc::kAuth);
  CHECK(pair.server_result.error() == Errc::kAuth);
}

TEST_CASE("an accepting end that knows no key cannot be fooled by its own challenge") {
  // The attacker answers Hello with a Challenge of zeros for a MAC.
  Pair pair;
  (void)pair.connecting.open();
  xdr::Encoder challenge;
  challenge.u32(0x57465443);
  challenge.u32(2);
  challenge.u32(1);
  challenge.fixed(filled(9));
  challenge.fixed(filled(0));
  SecureChannel::Received received;
  CHECK(pair.connecting.receive(frame(challenge.bytes()), received).error() == Errc::kAuth);
}

TEST_CASE("versions: the greatest in common, or none") {
  SECTION("in common") {
    Pair pair(1, 1, {1, 3}, {2, 5});
    pair.shake();
    REQUIRE(pair.accepting.established());
    CHECK(pair.connecting.version() == 3);
    CHECK(pair.accepting.version() == 3);
  }
  SECTION("none") {
    Pair pair(1, 1, {1, 2}, {3, 5});
    pair.shake();
    CHECK(pair.client_result.error() == Errc::kNotSupported);
    CHECK(pair.server_result.error() == Errc::kNotSupported);
  }
}

TEST_CASE("a replayed record ends the connection") {
  Pair pair;
  pair.shake();
  const Bytes record = pair.connecting.seal(text("once")).value();
  REQUIRE(deliver(pair.accepting, record));
  CHECK(deliver(pair.accepting, record).error() == Errc::kAuth);
  // And nothing is believed after that.
  CHECK(deliver(pair.accepting, pair.connecting.seal(text("more")).value()).error() == Errc::kAuth);
}

TEST_CASE("reordered and dropped records end the connection") {
  Pair pair;
  pair.shake();
  const Bytes first = pair.connecting.seal(text("first")).value();
  const Bytes second = pair.connecting.seal(text("second")).value();
  CHECK(deliver(pair.accepting, second).error() == Errc::kAuth);
}

TEST_CASE("a record sent back to its sender does not verify") {
  Pair pair;
  pair.shake();
  const Bytes record = pair.connecting.seal(text("mine")).value();
  CHECK(deliver(pair.connecting, record).error() == Errc::kAuth);
}

TEST_CASE("a record of another connection does not verify") {
  Pair one;
  one.shake();
  SecureChannel fresh(Role::kAccepting, ClusterKeys{{filled(1)}}, filled(10));
  SecureChannel peer(Role::kConnecting, ClusterKeys{{filled(1)}}, filled(7));
  SecureChannel::Received a;
  SecureChannel::Received b;
  REQUIRE(fresh.receive(peer.open(), a));
  REQUIRE(peer.receive(a.to_send, b));
  REQUIRE(fresh.receive(b.to_send, a));
  REQUIRE(fresh.established());
  CHECK(deliver(fresh, one.connecting.seal(text("x")).value()).error() == Errc::kAuth);
}

TEST_CASE("any flipped bit of a record is found") {
  Pair proto;
  proto.shake();
  const Bytes record = proto.connecting.seal(text("remove everything")).value();
  for (std::size_t bit = 0; bit < record.size() * 8; ++bit) {
    Pair pair;
    pair.shake();
    Bytes changed = pair.connecting.seal(text("remove everything")).value();
    changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const auto got = deliver(pair.accepting, changed);
    // A changed length may make the record wait for more; it is never delivered.
    CHECK((!got || got->empty()));
  }
}

TEST_CASE("any flipped bit of the handshake is found") {
  const Bytes hello = Pair().connecting.open();
  for (std::size_t bit = 0; bit < hello.size() * 8; ++bit) {
    Pair pair;
    Bytes changed = pair.connecting.open();
    changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    SecureChannel::Received at_server;
    if (!pair.accepting.receive(changed, at_server)) continue;
    if (at_server.to_send.empty()) continue;  // a changed length: waits for more
    SecureChannel::Received at_client;
    CHECK_FALSE(pair.connecting.receive(at_server.to_send, at_client));
  }
}

TEST_CASE("records over the limit are refused before they are read") {
  Pair pair;
  xdr::Encoder mark;
  mark.u32(0xffffffff);
  const auto bytes = mark.bytes();
  CHECK(deliver(pair.accepting, {bytes.begin(), bytes.end()}).error() == Errc::kTooLarge);
  // And over 512 bytes before the peer has proved itself.
  Pair second;
  const Bytes large(513);
  CHECK(deliver(second.accepting, frame(large)).error() == Errc::kTooLarge);
  Pair third;
  third.shake();
  CHECK(third.connecting.seal(Bytes(kMaxPayloadBytes)));
  CHECK(third.connecting.seal(Bytes(kMaxPayloadBytes + 1)).error() == Errc::kTooLarge);
}

TEST_CASE("rubbish never establishes a channel") {
  CHECK(rc::check([](const std::vector<std::uint8_t>& rubbish) {
    Pair pair;
    const auto bytes = std::as_bytes(std::span(rubbish));
    SecureChannel::Received received;
    (void)pair.accepting.receive(bytes, received);
    RC_ASSERT(!pair.accepting.established());
    RC_ASSERT(received.messages.empty());
  }));
}

TEST_CASE("ends that are a step apart in a change of the key understand each other") {
  const ClusterKey old{filled(1)};
  const ClusterKey fresh{filled(2)};
  struct {
    ClusterKeys client, server;
    ClusterKey used;
  } const steps[] = {{{old}, {old, fresh}, old},          {{old, fresh}, {old}, old},
                     {{old, fresh}, {fresh, old}, fresh}, {{fresh, old}, {old, fresh}, old},
                     {{fresh, old}, {fresh}, fresh},      {{fresh}, {fresh, old}, fresh}};
  for (const auto& step : steps) {
    Pair pair(step.client, step.server);
    pair.shake();
    REQUIRE(pair.connecting.established());
    REQUIRE(pair.accepting.established());
    CHECK(pair.connecting.key() == step.used);
    CHECK(pair.accepting.key() == step.used);
    CHECK(deliver(pair.accepting, pair.connecting.seal(text("up")).value()).value().size() == 1);
    CHECK(deliver(pair.connecting, pair.accepting.seal(text("down")).value()).value().size() == 1);
  }
  Pair apart({fresh}, {old, fresh});  // it dropped before the other used
  apart.shake();
  CHECK_FALSE(apart.connecting.established());
  CHECK(apart.client_result.error() == Errc::kAuth);
}
