// How a server is reached by the network: by RDMA, or else by TCP.
#include "rpc/session/server_dial.h"

#include <catch2/catch_test_macros.hpp>
#include <optional>

using namespace weft;
using namespace weft::rpc;
using std::chrono::milliseconds;

namespace {

class ByRdma final : public Channel {
 public:
  void start(std::shared_ptr<ChannelUser> /*user*/) override {}
  void send(Message /*message*/) override {}
  void pause() override {}
  void resume() override {}
  void close(Error /*why*/, bool /*drain*/) override {}
  void post(std::move_only_function<void()> /*work*/) override {}
  [[nodiscard]] const std::string& peer() const override { return peer_; }
  [[nodiscard]] bool by_rdma() const override { return true; }
  [[nodiscard]] std::size_t queued_bytes() const override { return 0; }

 private:
  const std::string peer_ = "rdma";
};

layout::NetAddress address(const char* ip, std::uint16_t port) {
  return layout::make_address(ip, port).value();
}

// By TCP nobody listens.
struct Rig {
  struct Try {
    std::string ip;
    std::uint16_t port;
    milliseconds within;
    bool operator==(const Try&) const = default;
  };
  Result<std::shared_ptr<Channel>> connect(std::vector<layout::NetAddress> rdma,
                                           milliseconds within, bool has_rdma = true) {
    ServerDialOptions options;
    options.addresses = {address("127.0.0.1", 1)};
    options.rdma = std::move(rdma);
    options.within = within;
    if (has_rdma) {
      options.dial_rdma = [this](boost::asio::io_context& /*context*/, const std::string& ip,
                                 std::uint16_t port, milliseconds each) -> Dial {
        return [this, attempt = Try{ip, port, each}](auto done) {
          tries.push_back(attempt);
          if (attempt.ip != there) return done(fail(Errc::kUnreachable, "refused"));
          done(std::shared_ptr<Channel>(std::make_shared<ByRdma>()));
        };
      };
    }
    options.on_connected = [this](const Channel& channel) { told.push_back(channel.by_rdma()); };
    const Dial dial = dial_server(context, pool, std::move(options));
    std::optional<Result<std::shared_ptr<Channel>>> made;
    dial([&made](auto channel) { made.emplace(std::move(channel)); });
    context.restart();
    while (!made) context.run_one_for(milliseconds(100));
    return std::move(*made);
  }

  boost::asio::io_context context{1};
  BufferPool pool{std::size_t{1} << 20};
  std::string there;  // the address that answers by RDMA
  std::vector<Try> tries;
  std::vector<bool> told;
};

}  // namespace

TEST_CASE("a server's addresses by RDMA are tried in turn, in a quarter of the time") {
  Rig rig;
  rig.there = "192.0.2.8";
  const auto made =
      rig.connect({address("192.0.2.7", 20049), address("192.0.2.8", 20050)}, milliseconds(800));
  REQUIRE(made);
  CHECK((*made)->by_rdma());
  CHECK(rig.told == std::vector{true});
  CHECK(rig.tries == std::vector<Rig::Try>{{"192.0.2.7", 20049, milliseconds(100)},
                                           {"192.0.2.8", 20050, milliseconds(100)}});
}

TEST_CASE("a server that does not answer by RDMA in a second is gone to by TCP") {
  Rig rig;
  const auto made = rig.connect({address("192.0.2.7", 20049)}, milliseconds(60'000));
  CHECK(made.error() == Errc::kUnreachable);
  CHECK(rig.tries == std::vector<Rig::Try>{{"192.0.2.7", 20049, milliseconds(1000)}});
  CHECK(rig.told.empty());
}

TEST_CASE("TCP alone is taken where one of both has no RDMA") {
  Rig rig;
  CHECK(rig.connect({}, milliseconds(800)).error() == Errc::kUnreachable);
  CHECK(rig.connect({address("192.0.2.7", 20049)}, milliseconds(800), false).error() ==
        Errc::kUnreachable);
  CHECK(rig.tries.empty());
}
