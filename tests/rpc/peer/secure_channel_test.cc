#include "rpc/peer/secure_channel.h"

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <rapidcheck.h>

#include <algorithm>
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

// The two ends of a connection.
struct Pair {
  Pair(const ClusterKeys& connecting_keys, const ClusterKeys& accepting_keys)
      : connecting(Role::kConnecting, connecting_keys),
        accepting(Role::kAccepting, accepting_keys) {}
  explicit Pair(std::uint8_t connecting_key = 1, std::uint8_t accepting_key = 1,
                Versions connecting_versions = kVersions, Versions accepting_versions = kVersions)
      : connecting(Role::kConnecting, ClusterKeys{{filled(connecting_key)}}, connecting_versions),
        accepting(Role::kAccepting, ClusterKeys{{filled(accepting_key)}}, accepting_versions) {}

  // Runs the handshake until neither side has anything to say.
  void shake() {
    Bytes to_connecting = accepting.open();
    while (!to_connecting.empty()) {
      SecureChannel::Received there;
      connecting_result = connecting.receive(to_connecting, there);
      SecureChannel::Received here;
      if (!there.to_send.empty()) accepting_result = accepting.receive(there.to_send, here);
      to_connecting = here.to_send;
    }
  }

  SecureChannel connecting;
  SecureChannel accepting;
  Result<> connecting_result;
  Result<> accepting_result;
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
  CHECK(pair.connecting.version() == kVersion);
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
  CHECK(pair.connecting_result.error() == Errc::kAuth);
  CHECK(pair.accepting_result.error() == Errc::kAuth);
  CHECK(pair.accepting_result.error().text == "the peer says our cluster key is another");
}

TEST_CASE("ends of different versions refuse each other, and both say why") {
  Pair pair(1, 1, kVersions, {kVersion + 1, kVersion + 1});
  pair.shake();
  CHECK_FALSE(pair.connecting.established());
  CHECK_FALSE(pair.accepting.established());
  CHECK(pair.connecting_result.error() == Errc::kNotSupported);
  CHECK(pair.connecting_result.error().text ==
        "the peer speaks weft-control/7, this server weft-control/6, weft-control/5, "
        "weft-control/4, weft-control/3: both must run the same Weft");
  CHECK(pair.accepting_result.error() == Errc::kNotSupported);
  CHECK(pair.accepting_result.error().text.ends_with("both servers must run the same Weft"));
}

TEST_CASE("ends whose versions are next to each other speak the newest that both do") {
  // While servers are upgraded: one release speaks its version and the one before.
  const auto spoken = [](Versions connecting, Versions accepting) {
    Pair pair(1, 1, connecting, accepting);
    pair.shake();
    REQUIRE(pair.connecting.established());
    REQUIRE(pair.accepting.established());
    CHECK(pair.connecting.version() == pair.accepting.version());
    const auto there = deliver(pair.accepting, pair.connecting.seal(text("ping")).value());
    CHECK(there.value() == std::vector<Bytes>{text("ping")});
    return pair.accepting.version();
  };
  // Today's server, and one of the next release, either way round.
  CHECK(spoken(kVersions, {kVersion, kVersion + 1}) == kVersion);
  CHECK(spoken({kVersion, kVersion + 1}, kVersions) == kVersion);
  CHECK(spoken({7, 8}, {8, 9}) == 8);
  CHECK(spoken({7, 9}, {7, 8}) == 8);
  CHECK(spoken({9, 10}, {9, 10}) == 10);
}

TEST_CASE("ends two versions apart refuse each other, and say which they speak") {
  Pair pair(1, 1, {3, 4}, {5, 6});
  pair.shake();
  CHECK_FALSE(pair.connecting.established());
  CHECK_FALSE(pair.accepting.established());
  CHECK(pair.connecting_result.error().text ==
        "the peer speaks weft-control/6, weft-control/5, this server weft-control/4, "
        "weft-control/3: both must run the same Weft");
  CHECK(pair.accepting_result.error() == Errc::kNotSupported);
}

TEST_CASE("a data server of before TLS is told so, in its own protocol") {
  Pair pair;
  (void)pair.accepting.open();
  xdr::Encoder hello;
  hello.u32(0x57465443);
  hello.u32(1);
  hello.u32(2);
  hello.u32(2);
  hello.fixed(filled(7));
  SecureChannel::Received received;
  const auto result = pair.accepting.receive(frame(hello.bytes()), received);
  CHECK(result.error() == Errc::kNotSupported);
  CHECK(result.error().text.ends_with("both servers must run the same Weft"));
  xdr::Encoder refusal;
  refusal.u32(0x57465443);
  refusal.u32(4);
  refusal.u32(1);
  CHECK(received.to_send == frame(refusal.bytes()));
}

TEST_CASE("strangers without TLS are refused at the first byte") {
  for (const auto role : {Role::kAccepting, Role::kConnecting}) {
    SecureChannel end(role, ClusterKeys{{filled(1)}});
    (void)end.open();
    SecureChannel::Received received;
    CHECK(end.receive(text("GET / HTTP/1.1"), received).error() == Errc::kProtocol);
    CHECK(received.to_send.empty());
  }
}

// A stranger that speaks TLS, but has no key, and maybe a certificate of its own making.
class Stranger {
 public:
  explicit Stranger(bool serves) : context_(SSL_CTX_new(TLS_method())), ssl_(SSL_new(context_)) {
    SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    if (serves) {
      EVP_PKEY* const key = EVP_EC_gen("P-256");
      X509* const certificate = X509_new();
      X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
      X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
      X509_set_pubkey(certificate, key);
      X509_sign(certificate, key, EVP_sha256());
      CHECK(SSL_use_certificate(ssl_, certificate) == 1);
      CHECK(SSL_use_PrivateKey(ssl_, key) == 1);
      X509_free(certificate);
      EVP_PKEY_free(key);
      SSL_set_accept_state(ssl_);
    } else {
      SSL_set_connect_state(ssl_);
    }
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  Bytes say(const Bytes& heard) {
    BIO_write(SSL_get_rbio(ssl_), heard.data(), static_cast<int>(heard.size()));
    SSL_do_handshake(ssl_);
    Bytes said(BIO_ctrl_pending(SSL_get_wbio(ssl_)));
    BIO_read(SSL_get_wbio(ssl_), said.data(), static_cast<int>(said.size()));
    return said;
  }

 private:
  SSL_CTX* const context_;
  SSL* const ssl_;
};

TEST_CASE("strangers with TLS and no key are refused, a certificate does not help") {
  for (const auto role : {Role::kAccepting, Role::kConnecting}) {
    SecureChannel end(role, ClusterKeys{{filled(1)}});
    Stranger stranger(role == Role::kAccepting);
    Bytes to_stranger = end.open();
    Result<> result;
    for (int step = 0; step < 4 && result; ++step) {
      SecureChannel::Received received;
      result = end.receive(stranger.say(to_stranger), received);
      to_stranger = received.to_send;
    }
    CHECK_FALSE(result);
    CHECK_FALSE(end.established());
  }
}

namespace {

// The connecting end as another program would make it: what docs/protocol.md says, by OpenSSL
// alone.
class OtherEnd {
 public:
  OtherEnd() : context_(SSL_CTX_new(TLS_method())), ssl_(nullptr) {
    SSL_CTX_set_psk_find_session_callback(
        context_, [](SSL* ssl, const unsigned char*, std::size_t, SSL_SESSION** session) {
          const Key key = derive({filled(1)}, "control tls");
          static constexpr unsigned char kSuite[] = {0x13, 0x01};
          *session = SSL_SESSION_new();
          SSL_SESSION_set1_master_key(*session, reinterpret_cast<const unsigned char*>(key.data()),
                                      key.size());
          SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, kSuite));
          SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
          return 1;
        });
    SSL_CTX_set_alpn_select_cb(
        context_,
        [](SSL*, const unsigned char** chosen, unsigned char* size, const unsigned char* offered,
           unsigned, void*) {
          *chosen = offered + 1;
          *size = *offered;
          return SSL_TLSEXT_ERR_OK;
        },
        nullptr);
    ssl_ = SSL_new(context_);
    SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(ssl_);
  }
  OtherEnd(const OtherEnd&) = delete;
  OtherEnd& operator=(const OtherEnd&) = delete;
  ~OtherEnd() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  void connect(SecureChannel& to) {
    Bytes there = to.open();
    for (int step = 0; step < 2; ++step) {
      BIO_write(SSL_get_rbio(ssl_), there.data(), static_cast<int>(there.size()));
      SSL_do_handshake(ssl_);
      SecureChannel::Received received;
      REQUIRE(to.receive(said(), received));
      there = received.to_send;
    }
    REQUIRE(SSL_is_init_finished(ssl_));
    REQUIRE(to.established());
  }
  Bytes seal(const Bytes& plain) {
    REQUIRE(SSL_write(ssl_, plain.data(), static_cast<int>(plain.size())) ==
            static_cast<int>(plain.size()));
    return said();
  }

 private:
  Bytes said() {
    Bytes bytes(BIO_ctrl_pending(SSL_get_wbio(ssl_)));
    BIO_read(SSL_get_wbio(ssl_), bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
  }

  SSL_CTX* const context_;
  SSL* ssl_;
};

}  // namespace

TEST_CASE("what has the key, but sends no messages, is refused") {
  SecureChannel end(Role::kAccepting, ClusterKeys{{filled(1)}});
  OtherEnd other;
  other.connect(end);
  xdr::Encoder mark;
  Errc why{};
  SECTION("one that is too large, before it is there") {
    mark.u32(0x80000000 | (kMaxPayloadBytes + 1));
    why = Errc::kTooLarge;
  }
  SECTION("one in fragments") {
    mark.u32(4);
    why = Errc::kProtocol;
  }
  const auto bytes = mark.bytes();
  CHECK(deliver(end, other.seal({bytes.begin(), bytes.end()})).error() == why);
  CHECK_FALSE(end.seal(text("more")));
}

TEST_CASE("another program that keeps to the protocol is understood") {
  SecureChannel end(Role::kAccepting, ClusterKeys{{filled(1)}});
  OtherEnd other;
  other.connect(end);
  CHECK(deliver(end, other.seal(frame(text("hello")))).value() ==
        std::vector<Bytes>{text("hello")});
}

TEST_CASE("payloads cannot be read on the wire") {
  Pair pair;
  pair.shake();
  const Bytes secret = text("an object's name");
  for (SecureChannel* end : {&pair.connecting, &pair.accepting}) {
    const Bytes wire = end->seal(secret).value();
    CHECK(std::ranges::search(wire, secret).empty());
  }
}

TEST_CASE("no message comes before both ends are proved, and no ticket after") {
  Pair pair;
  const Bytes first = pair.accepting.open();
  SecureChannel::Received there;
  REQUIRE(pair.connecting.receive(first, there));
  CHECK_FALSE(pair.connecting.established());
  SecureChannel::Received here;
  REQUIRE(pair.accepting.receive(there.to_send, here));
  REQUIRE(pair.accepting.established());
  SecureChannel::Received last;
  REQUIRE(pair.connecting.receive(here.to_send, last));
  REQUIRE(pair.connecting.established());
  CHECK(last.to_send.empty());
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
  Pair other;
  other.shake();
  CHECK(deliver(other.accepting, one.connecting.seal(text("x")).value()).error() == Errc::kAuth);
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

TEST_CASE("any flipped bit of the first message of the handshake is found") {
  const Bytes hello = Pair().accepting.open();
  for (std::size_t bit = 0; bit < hello.size() * 8; ++bit) {
    Pair pair;
    Bytes changed = pair.accepting.open();
    changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    SecureChannel::Received there;
    if (!pair.connecting.receive(changed, there)) continue;
    SecureChannel::Received here;
    if (!there.to_send.empty()) (void)pair.accepting.receive(there.to_send, here);
    SecureChannel::Received last;
    if (!here.to_send.empty()) (void)pair.connecting.receive(here.to_send, last);
    // TLS records say a version that nobody looks at, and that is no part of the handshake.
    if (bit / 8 != 1 && bit / 8 != 2) CHECK_FALSE(pair.connecting.established());
  }
}

TEST_CASE("messages and handshakes over the limit are refused") {
  Pair pair;
  pair.shake();
  const Bytes most(kMaxPayloadBytes, std::byte{5});
  const auto got = deliver(pair.accepting, pair.connecting.seal(most).value());
  REQUIRE(got);
  CHECK(got.value() == std::vector<Bytes>{most});
  CHECK(pair.connecting.seal(Bytes(kMaxPayloadBytes + 1)).error() == Errc::kTooLarge);

  // A handshake that goes on: the longest record there is, of which only the beginning comes.
  Pair endless;
  (void)endless.accepting.open();
  Bytes record = {std::byte{22}, std::byte{3}, std::byte{3}, std::byte{0x40}, std::byte{0}};
  record.resize(kMaxHandshakeBytes + 1);
  CHECK(deliver(endless.accepting, record).error() == Errc::kTooLarge);
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
  CHECK(apart.connecting_result.error() == Errc::kAuth);
}
