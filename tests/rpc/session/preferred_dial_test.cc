// Connections by the better of two transports.
#include "rpc/session/preferred_dial.h"

#include <catch2/catch_test_macros.hpp>
#include <optional>

using namespace weft;
using namespace weft::rpc;
using std::chrono::milliseconds;

namespace {

// Only its being there, and its end, are looked at.
class Named final : public Channel {
 public:
  explicit Named(std::string name) : name_(std::move(name)) {}
  void start(std::shared_ptr<ChannelUser> /*user*/) override {}
  void send(Message /*message*/) override {}
  void pause() override {}
  void resume() override {}
  void close(Error /*why*/, bool /*drain*/) override { closed = true; }
  void post(std::move_only_function<void()> /*work*/) override {}
  [[nodiscard]] const std::string& peer() const override { return name_; }
  [[nodiscard]] std::size_t queued_bytes() const override { return 0; }
  bool closed = false;

 private:
  const std::string name_;
};

using Done = std::move_only_function<void(Result<std::shared_ptr<Channel>>)>;

struct Rig {
  Rig() {
    PreferredDialOptions options;
    options.preferred = [this](Done done) {
      ++tried;
      if (hold) {
        held = std::move(done);
      } else {
        done(make(rdma, "rdma"));
      }
    };
    options.other = [this](Done done) { done(make(tcp, "tcp")); };
    options.look_every = milliseconds(10);
    options.on_connected = [this](const Channel& channel, bool preferred) {
      CHECK(preferred == (channel.peer() == "rdma"));
      ++connected;
    };
    options.on_better = [this] { ++better; };
    dial.emplace(preferred_dial(context, std::move(options)));
  }
  Result<std::shared_ptr<Channel>> make(bool there, const char* name) {
    if (!there) return fail(Errc::kUnreachable, name);
    auto channel = std::make_shared<Named>(name);
    made.push_back(channel);
    return std::shared_ptr<Channel>(channel);
  }
  std::string connect() {
    std::string name;
    (*dial)([&](auto channel) { name = channel ? (*channel)->peer() : channel.error().text; });
    return name;
  }
  void run(int rounds) {
    context.restart();
    context.run_for(milliseconds(15 * rounds));
  }

  boost::asio::io_context context{1};
  std::optional<Dial> dial;
  std::vector<std::shared_ptr<Named>> made;
  std::optional<Done> held;
  bool rdma = true;
  bool tcp = true;
  bool hold = false;
  int tried = 0;
  int connected = 0;
  int better = 0;
};

}  // namespace

TEST_CASE("the preferred transport is used, and not asked for again") {
  Rig rig;
  CHECK(rig.connect() == "rdma");
  rig.run(3);
  CHECK(rig.tried == 1);
  CHECK(rig.better == 0);
  CHECK(rig.connected == 1);
}

TEST_CASE("the other one is used while the preferred one does not come about") {
  Rig rig;
  rig.rdma = false;
  CHECK(rig.connect() == "tcp");
  rig.run(3);
  CHECK(rig.tried > 1);
  CHECK(rig.better == 0);
  rig.tcp = false;
  CHECK(rig.connect() == "tcp");  // whose error it is
  CHECK(rig.connected == 1);
}

TEST_CASE(
    "a preferred connection that does not last is followed by the other one, if there is one") {
  Rig rig;
  CHECK(rig.connect() == "rdma");
  CHECK(rig.connect() == "tcp");
  CHECK(rig.tried == 1);
  while (rig.better == 0) rig.run(1);
  CHECK(rig.connect() == "rdma");
  rig.tcp = false;
  CHECK(rig.connect() == "rdma");
}

TEST_CASE("the more preferred connections in a row do not last, the longer until the next one") {
  Rig rig;
  for (const int least : {10, 20, 40, 80, 160}) {
    const auto since = std::chrono::steady_clock::now();
    CHECK(rig.connect() == "rdma");
    CHECK(rig.connect() == "tcp");
    rig.better = 0;
    while (rig.better == 0) rig.run(1);
    CHECK(std::chrono::steady_clock::now() - since >= milliseconds(least));
  }
}

TEST_CASE("when the preferred one comes about, whoever dials next gets it") {
  Rig rig;
  rig.rdma = false;
  CHECK(rig.connect() == "tcp");
  rig.rdma = true;
  while (rig.better == 0) rig.run(1);
  const int tried = rig.tried;
  CHECK(rig.connect() == "rdma");
  CHECK(rig.tried == tried);
  CHECK(rig.connected == 2);
  CHECK_FALSE(rig.made.back()->closed);
  rig.run(3);
  CHECK(rig.tried == tried);
}

TEST_CASE(
    "a connection that nobody comes for is closed when another takes its place, and at the end") {
  Rig rig;
  rig.rdma = false;
  CHECK(rig.connect() == "tcp");
  rig.rdma = true;
  while (rig.better < 2) rig.run(1);
  CHECK(rig.made.at(1)->closed);
  CHECK_FALSE(rig.made.back()->closed);
  rig.dial.reset();
  CHECK(rig.made.back()->closed);
  CHECK_FALSE(rig.made.at(0)->closed);
}

TEST_CASE("what is still tried when nobody dials any more is closed") {
  Rig rig;
  rig.rdma = false;
  CHECK(rig.connect() == "tcp");
  rig.hold = true;
  while (!rig.held) rig.run(1);
  rig.dial.reset();
  rig.rdma = true;
  (*rig.held)(rig.make(true, "rdma"));
  CHECK(rig.made.back()->closed);
  CHECK(rig.better == 0);
}
