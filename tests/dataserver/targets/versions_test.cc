// Versions of the target protocol: which one two sides go on with, and data servers and targets of
// older versions over a real connection, their bytes written here by hand.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <thread>

#include "tests/dataserver/targets/target_rig.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;
using test::RemoteRunner;
using test::TargetRig;

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1};
constexpr TargetVersions kNext{.least = 10, .most = 11};
constexpr TargetVersions kAfterNext{.least = 11, .most = 12};

std::vector<std::byte> challenge_of(std::uint32_t version) {
  xdr::Encoder out;
  encode(out, TargetChallenge{.version = version});
  return out.take();
}

TEST_CASE("versions: two sides go on with the newest that both speak") {
  CHECK(choose_version(offer()).value() == 10);
  CHECK(choose_version(offer(kNext)).value() == 10);
  CHECK(choose_version(offer(), kNext).value() == 10);
  CHECK(choose_version(offer({.least = 6, .most = 7})).value() == 7);
  CHECK(choose_version(offer({.least = 6, .most = 6})).value() == 6);
  CHECK(choose_version(0).value() == 6);  // a data server of version 6 says nothing of versions
  CHECK(chosen_version(0).value() == 6);  // nor does a target
  CHECK(chosen_version(7).value() == 7);
  CHECK(chosen_version(8).value() == 8);
  CHECK(chosen_version(9).value() == 9);
  CHECK(chosen_version(10).value() == 10);
  CHECK(decode_challenge(challenge_of(6)));
  CHECK(decode_challenge(challenge_of(10)));
}

TEST_CASE("versions: of two with none in common one is told which program is too old") {
  const auto newer = choose_version(offer(kAfterNext));
  CHECK(newer.error() == Errc::kNotSupported);
  CHECK(newer.error().text ==
        "weft-ds speaks version 11 to 12 of the target protocol there, weft-target 6 to 10 here: "
        "weft-target is to be upgraded");
  CHECK(choose_version(0, kNext).error().text ==
        "weft-ds speaks version 6 of the target protocol there, weft-target 10 to 11 here: weft-ds "
        "is to be upgraded");
  CHECK(chosen_version(0, kNext).error().text ==
        "weft-target speaks version 6 of the target protocol there, weft-ds 10 to 11 here: "
        "weft-target is to be upgraded");
  const auto later = decode_challenge(challenge_of(11));
  CHECK(later.error() == Errc::kNotSupported);
  CHECK(
      later.error().text ==
      "weft-target speaks version 11 and later of the target protocol there, weft-ds 6 to 10 here: "
      "weft-ds is to be upgraded");
  CHECK(decode_challenge(challenge_of(5)).error().text ==
        "weft-target speaks version 5 of the target protocol there, weft-ds 6 to 10 here: "
        "weft-target is to be upgraded");
}

TEST_CASE("versions: what makes no sense is refused") {
  CHECK(choose_version(77).error() == Errc::kProtocol);                              // to 0
  CHECK(choose_version(std::uint64_t{7} << 32).error() == Errc::kProtocol);          // from 0
  CHECK(choose_version(offer({.least = 7, .most = 6})).error() == Errc::kProtocol);  // backwards
  CHECK(chosen_version(11).error() == Errc::kProtocol);                              // not offered
  CHECK(chosen_version(std::uint64_t{7} << 32 | 6).error() == Errc::kProtocol);      // our own
}

// Records over TCP, each with its length before it (RFC 5531 section 11). Whoever waits for more
// than 20 s for the other side throws.
class Records {
 public:
  explicit Records(int socket) : socket_(socket) {
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  static Records to(std::uint16_t port) {
    Records made(::socket(AF_INET, SOCK_STREAM, 0));
    const sockaddr_in address = here(port);
    if (::connect(made.socket_.get(), reinterpret_cast<const sockaddr*>(&address),
                  sizeof address) != 0) {
      throw std::runtime_error("connect");
    }
    return made;
  }
  static sockaddr_in here(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  void send(std::span<const std::byte> record) const {
    xdr::Encoder out;
    out.u32(0x80000000U | static_cast<std::uint32_t>(record.size()));
    out.raw(record);
    if (::send(socket_.get(), out.bytes().data(), out.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(out.size())) {
      throw std::runtime_error("send");
    }
  }
  [[nodiscard]] std::vector<std::byte> receive() const {
    const auto mark = exactly(4);
    return exactly(xdr::Decoder(mark).u32() & 0x7fffffffU);
  }

 private:
  [[nodiscard]] std::vector<std::byte> exactly(std::size_t size) const {
    std::vector<std::byte> bytes(size);
    if (size != 0 &&
        ::recv(socket_.get(), bytes.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size)) {
      throw std::runtime_error("the other side says nothing more");
    }
    return bytes;
  }
  OwnedFd socket_;
};

// What is the same in every version.
rpc::peer::Key key_of_rig() {
  return target_key(rpc::peer::parse_cluster_key(test::key_text('a')).value());
}

void put_request(xdr::Encoder& out, std::uint32_t op, std::uint64_t tag) {
  out.u32(op);
  out.u64(tag);
  out.u64(kObject.fileid);
  out.u32(kObject.generation);
  out.u32(kObject.fsid);
  out.u64(0);
  out.u64(0);
  out.u32(0);
  out.u32(0);
}

TEST_CASE("versions: a data server of version 6 works with this target") {
  const TargetRig rig;
  const auto target = rig.start();
  const Records ds = Records::to(target->ports().at(0));

  const auto challenge = ds.receive();
  xdr::Decoder in(challenge);
  REQUIRE(in.u32() == 6);  // it takes no other
  Nonce nonce{};
  in.fixed(nonce);
  in.skip(16);
  const std::uint32_t socket = in.u32();
  REQUIRE(in.remaining() == xdr::padded(socket));

  TargetHello hello{.space = test::space_of(1), .boot = 9, .link = 0};
  hello.proof = hello_proof(key_of_rig(), nonce, hello);
  xdr::Encoder out;
  out.u32(1);
  out.u64(0);
  out.fixed(hello.space);
  out.u64(hello.boot);
  out.u32(hello.link);
  out.fixed(hello.nonce);
  out.fixed(hello.proof);
  ds.send(out.bytes());

  const auto welcome = ds.receive();
  REQUIRE(welcome.size() == 4 + 8 + 4 + 8 + 16 + 32 + 8);
  xdr::Decoder answer(welcome);
  CHECK(answer.u32() == 1);
  CHECK(answer.u64() == 0);  // as version 6 answered
  CHECK(answer.u32() == 0);
  answer.skip(8);
  Uuid store{};
  answer.fixed(store);
  rpc::peer::Key proof{};
  answer.fixed(proof);
  CHECK(same_proof(proof, welcome_proof(key_of_rig(), nonce, hello, store)));

  xdr::Encoder stat;
  put_request(stat, 7, 5);
  ds.send(stat.bytes());
  const auto none = ds.receive();
  xdr::Decoder told(none);
  CHECK(told.u32() == 7);
  CHECK(told.u64() == 5);
  CHECK(told.u32() == 2);  // not found
  CHECK(target->counts().refused == 0);
}

TEST_CASE("versions: a data server of a version to come is told, and nothing is served") {
  const TargetRig rig;
  const auto target = rig.start();
  const Records ds = Records::to(target->ports().at(0));
  const auto challenge = decode_challenge(ds.receive());
  REQUIRE(challenge);
  TargetHello hello{.space = test::space_of(1), .boot = 9, .link = 0};
  hello.proof = hello_proof(key_of_rig(), challenge->nonce, hello);
  xdr::Encoder out;
  encode(out, TargetRequest{.op = TargetOp::kHello, .tag = offer(kAfterNext), .hello = hello});
  ds.send(out.bytes());
  const auto record = ds.receive();
  const auto answer = decode_response(record);
  REQUIRE(answer);
  CHECK_FALSE(answer->message.good);
  CHECK(answer->message.error == Errc::kNotSupported);
  CHECK(answer->message.text.ends_with("weft-target is to be upgraded"));
  CHECK(target->counts().refused == 1);
}

// A target of version 6 to 9, for one connection: it answers what comes until that ends.
class OldTarget {
 public:
  explicit OldTarget(std::uint32_t version)
      : version_(version), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = Records::here(0);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(listener_.get(), 1) == 0);
    REQUIRE(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~OldTarget() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  [[nodiscard]] TargetAddress address() const {
    return {.inet = layout::make_address("127.0.0.1", port_).value()};
  }
  [[nodiscard]] unsigned newest_op() const { return newest_op_; }

 private:
  void run() {
    const int socket = ::accept(listener_.get(), nullptr, nullptr);
    if (socket < 0) return;
    const Records connection(socket);
    try {
      greet(connection);
      for (;;) answer(connection, connection.receive());
    } catch (const std::runtime_error&) {  // it has ended
    }
  }
  void greet(const Records& connection) const {
    const Nonce nonce{std::byte{3}};
    xdr::Encoder challenge;
    challenge.u32(6);
    challenge.fixed(nonce);
    challenge.fixed(MachineId{});
    challenge.u32(0);
    connection.send(challenge.bytes());
    const auto record = connection.receive();
    if (record.size() != 4 + 8 + 16 + 8 + 4 + 16 + 32) return;
    const auto hello = decode_request(record).value().message.hello;
    if (!same_proof(hello.proof, hello_proof(key_of_rig(), nonce, hello))) return;
    const Uuid store = test::space_of(7);
    xdr::Encoder welcome;
    welcome.u32(1);
    welcome.u64(version_ == 6 ? 0 : version_);
    welcome.u32(0);
    welcome.u64(12);
    welcome.fixed(store);
    welcome.fixed(welcome_proof(key_of_rig(), nonce, hello, store));
    welcome.u64(0);
    connection.send(welcome.bytes());
  }
  void answer(const Records& connection, const std::vector<std::byte>& request) {
    xdr::Decoder in(request);
    const std::uint32_t op = in.u32();
    const std::uint64_t tag = in.u64();
    newest_op_ = std::max(newest_op_.load(), op);
    xdr::Encoder out;
    out.u32(op);
    out.u64(tag);
    out.u32(0);
    out.u64(12);
    if (op == 13) out.u32(0);                              // KEYS: none
    if (op == 14) out.u64(0);                              // ABOUT: nothing
    for (int i = 0; op < 13 && i < 3; ++i) out.u64(1000);  // of USAGE and of STAT
    connection.send(out.bytes());
  }

  const std::uint32_t version_;
  OwnedFd listener_;
  std::uint16_t port_ = 0;
  std::atomic<unsigned> newest_op_{0};
  std::thread thread_;
};

TEST_CASE("versions: a target of version 6 to 9 works with this data server") {
  const TargetRig rig;
  const auto version = GENERATE(6U, 7U, 8U, 9U);
  const OldTarget target(version);
  RemoteRunner runner(rig, target.address());
  CHECK(runner.stat(kObject).value().size == 1000);
  CHECK(runner.eventually([&] { return runner.remote().usage().has_value(); }));
  runner.run_for(1500ms);  // it goes on asking
  CHECK(runner.view().connections == 1);
  CHECK(target.newest_op() <= (version < 8 ? 12 : version + 5));
  CHECK(runner.remote().keys().error() == (version < 8 ? Errc::kNotSupported : Errc::kUnreachable));
  CHECK(runner.remote().about().error() ==
        (version < 9 ? Errc::kNotSupported : Errc::kUnreachable));
}

}  // namespace
}  // namespace weft::ds
