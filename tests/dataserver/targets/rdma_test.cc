// A target and a data server's store over it by RDMA, over a device that is a double; and by TCP
// where that does not get through.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <deque>
#include <map>

#include "dataserver/targets/rdma_records.h"
#include "dataserver/targets/target_server.h"
#include "rpc/session/preferred_dial.h"
#include "rpc/transport/forwarding_channel.h"
#include "rpc/transport/rdma/client_channel.h"
#include "rpc/transport/rdma/server_channel.h"
#include "rpc/transport/tcp_dialer.h"
#include "tests/dataserver/store/store_model.h"
#include "tests/dataserver/targets/target_rig.h"
#include "tests/rpc/transport/rdma/fake_pair.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;
using test::quick_link;
using test::RemoteRunner;
using test::TargetRig;

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1};
constexpr std::size_t kMemory = std::size_t{64} << 20;

TargetAddress by_rdma(std::uint16_t port) {
  return {.inet = layout::make_address("127.0.0.1", port).value(), .rdma = true};
}

// A target's end that answers pings, and keeps the other answers while it is told to.
class SlowChannel final : public rpc::ForwardingChannel {
 public:
  SlowChannel(std::shared_ptr<rpc::Channel> inner, const bool& slow)
      : ForwardingChannel(std::move(inner)), slow_(slow) {}
  void start(std::shared_ptr<rpc::ChannelUser> user) override { inner_->start(std::move(user)); }
  void send(rpc::Message message) override {
    kept_.push_back(std::move(message));
    release();
  }
  void release() {
    for (rpc::Message& message : std::exchange(kept_, {})) {
      xdr::Decoder in(message.bytes().bytes());
      static_cast<void>(in.u32());
      if (slow_ && in.u64() != 0) {
        kept_.push_back(std::move(message));
      } else {
        inner_->send(std::move(message));
      }
    }
  }
  [[nodiscard]] std::size_t kept() const { return kept_.size(); }

 private:
  const bool& slow_;
  std::deque<rpc::Message> kept_;
};

// A target's end on the data server's thread, at the other end of a double of a device.
class ByDevice {
 public:
  explicit ByDevice(const TargetRig& rig)
      : pool_(kMemory, std::make_shared<Arena>(SharedMemory::create(2 * kMemory, "t").value())),
        spaces_({.base = rig.config().store, .max_spaces = 4}, pool_, nullptr),
        server_({.spaces = spaces_,
                 .keys = std::make_shared<rpc::peer::Keyring>(
                     rpc::peer::parse_cluster_key(test::key_text('a')).value()),
                 .socket = "",
                 .random = system_random()}) {}
  [[nodiscard]] DialRdma dial() {
    return [this](boost::asio::io_context& context, const std::string&, std::uint16_t,
                  std::chrono::milliseconds) -> rpc::Dial {
      return [this, &context](auto done) {
        pair_ = std::make_shared<rpc::rdma::FakePair>(context, pool_, rpc::rdma::kExposedBytes);
        auto channel = std::make_shared<SlowChannel>(
            answer_by_rdma(rpc::rdma::serve(context, pool_, pair_->serving(), rpc::rdma::Limits{})),
            slow);
        channel_ = channel;
        server_.serve(std::move(channel));
        done(rpc::rdma::call_over(context, pool_, pair_->calling(), {}));
      };
    };
  }
  // The runner's store is closed then, and what it had is over.
  void close(RemoteRunner& runner) {
    runner.remote().close();
    runner.run_for(50ms);
    CHECK(runner.eventually([&] { return counts().running == 0; }));
    CHECK(pool_.in_use_bytes() == 0);
    CHECK(spaces_.close());
  }
  [[nodiscard]] rpc::rdma::FakePair& pair() { return *pair_; }
  [[nodiscard]] std::shared_ptr<SlowChannel> channel() { return channel_.lock(); }
  [[nodiscard]] TargetCounts counts() const { return server_.counts(); }
  bool slow = false;

 private:
  BufferPool pool_;
  Spaces spaces_;
  TargetServer server_;
  std::shared_ptr<rpc::rdma::FakePair> pair_;
  std::weak_ptr<SlowChannel> channel_;  // gone before the thread's context is
};

struct DeviceRunner {
  DeviceRunner() : runner(rig, by_rdma(1), quick_link(), 1, 'a', false, 64, 1, device.dial()) {}
  ~DeviceRunner() { device.close(runner); }

  TargetRig rig;
  ByDevice device{rig};
  RemoteRunner runner;
};

TEST_CASE("a remote store behaves like strings in memory, by RDMA") {
  DeviceRunner at;
  CHECK(test::behaves_like_strings(at.runner));
  CHECK(at.runner.view().transport == TargetTransport::kRdma);
  CHECK(transport_text(at.runner.view()) == "rdma");
  CHECK(at.device.counts().lent_bytes == 0);
}

TEST_CASE("by RDMA bulk data is read from and written to the data server's memory") {
  DeviceRunner at;
  for (const std::size_t size : {1UL, 1000UL, 5001UL, std::size_t{kMaxTargetIo}}) {
    std::string bytes(size, 'x');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>('a' + i % 23);
    static_cast<void>(at.runner.stat(kObject));  // it is connected then
    const std::size_t read = at.device.pair().read;
    REQUIRE(at.runner.write(kObject, 0, bytes));
    CHECK(at.device.pair().read - read == (size > 4096 ? size : 0));  // the rest went inline
    const std::size_t written = at.device.pair().written;
    CHECK(at.runner.text(kObject, 0, static_cast<std::uint32_t>(size)) == bytes);
    CHECK(at.device.pair().written - written == size);
  }
  CHECK(at.runner.text({.fileid = 9, .generation = 1}, 0, 5).starts_with("error: not found"));
}

TEST_CASE("by RDMA a list comes in parts that its answer has room for") {
  DeviceRunner at;
  constexpr std::size_t kMany = 1500;
  for (std::uint64_t i = 1; i <= kMany; ++i) {
    REQUIRE(at.runner.write({.fileid = i, .generation = 1}, 0, "x"));
  }
  CHECK(at.runner.list(4096).value().size() == kMany);
}

TEST_CASE(
    "by RDMA many operations are under way at a time, and a connection that breaks is made anew") {
  DeviceRunner at;
  constexpr int kMany = 100;
  int done = 0;
  const auto start = [&](int i) {
    std::vector<Buffer> data;
    data.push_back(at.runner.buffer(std::string(100'000, static_cast<char>('a' + i % 20))));
    at.runner.any().write(kObject, static_cast<std::uint64_t>(i) * 100'000, std::move(data),
                          Stability::kUnstable, [&](const Result<WriteResult>& written) {
                            CHECK(written);
                            ++done;
                          });
  };
  for (int i = 0; i < kMany; ++i) start(i);
  REQUIRE(at.runner.eventually([&] { return done > 10; }));
  at.device.pair().cut();
  REQUIRE(at.runner.eventually([&] { return done == kMany; }));
  CHECK(at.runner.view().connections == 2);
  CHECK(at.runner.text(kObject, 99 * 100'000, 5) == std::string(5, 'a' + 99 % 20));
}

TEST_CASE("by RDMA a target that is slow with all it was sent is not taken for gone") {
  DeviceRunner at;
  REQUIRE(at.runner.write(kObject, 0, "x"));
  at.device.slow = true;
  constexpr int kMany = 40;
  const std::size_t size =
      GENERATE(std::size_t{10}, std::size_t{400'000});  // of credits, or memory
  int done = 0;
  for (int i = 0; i < kMany; ++i) {
    std::vector<Buffer> data;
    data.push_back(at.runner.buffer(std::string(size, 'y')));
    at.runner.any().write(kObject, 0, std::move(data), Stability::kUnstable,
                          [&](const Result<WriteResult>& written) {
                            CHECK(written);
                            ++done;
                          });
  }
  at.runner.run_for(3 * quick_link().silence);
  CHECK(at.device.channel()->kept() > 5);
  CHECK(at.runner.view().connections == 1);
  at.device.slow = false;
  at.device.channel()->release();
  CHECK(at.runner.eventually([&] { return done == kMany; }));
}

// --- By one or the other -------------------------------------------------------------------------

// What a channel by RDMA is, over a connection by TCP to a target: numbers are kept here.
class OverTcp final : public rpc::ForwardingChannel {
 public:
  OverTcp(std::shared_ptr<rpc::Channel> inner, const bool& loses_hello)
      : ForwardingChannel(std::move(inner)), loses_hello_(loses_hello) {}

  void start(std::shared_ptr<rpc::ChannelUser> user) override {
    inner_->start(std::make_shared<Link>(std::move(user), numbers_, loses_hello_));
  }
  void send(rpc::Message message) override {
    const auto bytes = message.flatten().value();
    xdr::Decoder in(bytes);
    const std::uint32_t number = in.u32();
    if (std::exchange(first_, false)) return numbers_->challenge.push_back(number);
    const std::uint32_t op = in.u32();
    numbers_->requests[op].push_back(number);
    rpc::Message out;
    out.bytes().raw(std::span(bytes).subspan(4));
    inner_->send(std::move(out));
  }
  [[nodiscard]] bool by_rdma() const override { return true; }

 private:
  struct Numbers {
    std::deque<std::uint32_t> challenge;
    std::map<std::uint32_t, std::deque<std::uint32_t>> requests;
    BufferPool pool{kMemory};
  };
  struct Link final : rpc::ChannelUser {
    Link(std::shared_ptr<rpc::ChannelUser> of, std::shared_ptr<Numbers> known, const bool& loses)
        : user(std::move(of)), numbers(std::move(known)), loses_hello(loses) {}
    void on_record(rpc::ReceivedRecord received) override {
      const Buffer& record = received.bytes;
      constexpr auto kHello = static_cast<std::uint32_t>(TargetOp::kHello);
      const bool challenge = !numbers->challenge.empty();
      if (loses_hello && !challenge && xdr::Decoder(record.span()).u32() == kHello) return;
      auto& from = numbers->challenge.empty() ? numbers->requests[xdr::Decoder(record.span()).u32()]
                                              : numbers->challenge;
      xdr::Encoder out;
      out.u32(from.front());
      out.raw(record.span());
      from.pop_front();
      auto whole = numbers->pool.allocate(out.size()).value();
      std::ranges::copy(out.bytes(), whole.data());
      user->on_record({.bytes = std::move(whole)});
    }
    void on_closed(const Error& why) override { user->on_closed(why); }
    const std::shared_ptr<rpc::ChannelUser> user;
    const std::shared_ptr<Numbers> numbers;
    const bool& loses_hello;
  };
  const bool& loses_hello_;
  const std::shared_ptr<Numbers> numbers_ = std::make_shared<Numbers>();
  bool first_ = true;
};

// RDMA as the test wants it: to the port that is dialled.
struct Air {
  [[nodiscard]] DialRdma dial() {
    return [this](boost::asio::io_context& context, const std::string& ip, std::uint16_t port,
                  std::chrono::milliseconds) -> rpc::Dial {
      return [this, &context, ip, port](auto done) {
        ++dials;
        if (!gets_through) return done(fail(Errc::kUnreachable, "nothing gets through"));
        rpc::TcpLimits limits;
        limits.max_record_bytes = kMaxTargetRecord;
        rpc::tcp_dialer(context, pool, ip, port, limits, 1000ms)(
            [this, done = std::move(done)](Result<std::shared_ptr<rpc::Channel>> made) mutable {
              REQUIRE(made);
              auto channel = std::make_shared<OverTcp>(std::move(*made), loses_hello);
              last = channel;
              done(std::move(channel));
            });
      };
    };
  }
  bool gets_through = false;
  bool loses_hello = false;  // the answer to it; and carries all else
  int dials = 0;
  BufferPool pool{kMemory};
  std::weak_ptr<rpc::Channel> last;
};

TEST_CASE("a target is gone to by TCP while RDMA does not get through, and by RDMA again") {
  const TargetRig rig;
  const auto target = rig.start();
  LinkOptions options = quick_link();
  options.prefer_shared_memory = false;
  options.rdma_look_every = 50ms;
  Air air;
  RemoteRunner runner(rig, by_rdma(target->ports().at(0)), options, 1, 'a', false, 64, 1,
                      air.dial());
  REQUIRE(runner.write(kObject, 0, "by tcp"));
  CHECK(transport_text(runner.view()) == "tcp");
  CHECK(air.dials >= 1);

  air.gets_through = true;
  REQUIRE(runner.eventually([&] { return runner.view().by_rdma == 1; }));
  CHECK(transport_text(runner.view()) == "rdma");
  CHECK(runner.text(kObject, 0, 6) == "by tcp");
  REQUIRE(runner.write(kObject, 0, "by rdma"));

  air.gets_through = false;
  if (const auto last = air.last.lock()) last->close({Errc::kUnreachable, "lost"}, false);
  CHECK(runner.text(kObject, 0, 7) == "by rdma");
  CHECK(transport_text(runner.view()) == "tcp");
  CHECK(runner.view().by_rdma == 0);

  air.gets_through = true;
  REQUIRE(runner.eventually([&] { return runner.view().by_rdma == 1; }));
  CHECK(runner.text(kObject, 0, 7) == "by rdma");
}

TEST_CASE("a target whose answer to a Hello RDMA loses is gone to by TCP") {
  const TargetRig rig;
  const auto target = rig.start();
  LinkOptions options = quick_link();
  options.prefer_shared_memory = false;
  options.greeting = rpc::kProven + 500ms;
  options.patience = 2 * options.greeting;
  Air air;
  air.gets_through = true;
  air.loses_hello = true;
  RemoteRunner runner(rig, by_rdma(target->ports().at(0)), options, 1, 'a', false, 64, 1,
                      air.dial());
  REQUIRE(runner.write(kObject, 0, "by tcp"));
  CHECK(transport_text(runner.view()) == "tcp");
  CHECK(air.dials == 1);
}

TEST_CASE("a better connection is taken between calls, however many are begun, and none fails") {
  const TargetRig rig;
  const auto target = rig.start();
  LinkOptions options = quick_link();
  options.prefer_shared_memory = false;
  options.rdma_look_every = 20ms;
  Air air;
  RemoteRunner runner(rig, by_rdma(target->ports().at(0)), options, 1, 'a', false, 64, 1,
                      air.dial());
  REQUIRE(runner.write(kObject, 0, "first"));
  air.gets_through = true;
  // New ones are begun all the time.
  int under_way = 0;
  int failed = 0;
  const auto begin = [&] {
    ++under_way;
    runner.any().read(kObject, 0, 5, [&](const Result<ReadResult>& read) {
      --under_way;
      failed += read ? 0 : 1;
    });
  };
  REQUIRE(runner.eventually([&] {
    while (under_way < 8) begin();
    return runner.view().by_rdma == 1;
  }));
  REQUIRE(runner.eventually([&] { return under_way == 0; }));
  CHECK(failed == 0);
}

TEST_CASE("addresses for RDMA are read and written as they are given") {
  const auto named = parse_target_address("rdma://disks1:9640");
  REQUIRE(named);
  CHECK(named->rdma);
  CHECK(named->host == "disks1");
  CHECK(to_string(*named) == "rdma://disks1:9640");
  const auto numeric = parse_target_address("rdma://[2001:db8::7]:9640");
  REQUIRE(numeric);
  CHECK(to_string(*numeric) == "rdma://[2001:db8::7]:9640");
  CHECK_FALSE(parse_target_address("rdma://disks1"));
  CHECK_FALSE(parse_target_address("rdma:disks1:9640"));
  CHECK_FALSE(parse_target_address("tcp:192.0.2.1:9640")->rdma);
}

TEST_CASE("a target listens by RDMA where it does by TCP") {
  const auto with = [](const std::string& listen) {
    auto config =
        parse_target_config("[target]\nlisten = [" + listen +
                                "]\n[store]\npath = \"/s\"\n[cluster]\nkey_file = \"/k\"\n",
                            "file");
    if (!config) return config;
    if (auto good = check_target_config(*config); !good) return Result<TargetConfig>(pass(good));
    return config;
  };
  const auto both = with("\"0.0.0.0:9640\", \"rdma://192.0.2.1:9640\"");
  REQUIRE(both);
  CHECK(both->listen.size() == 1);
  CHECK(layout::to_string(both->listen_rdma.at(0)) == "192.0.2.1:9640");
  CHECK_FALSE(with("\"rdma://192.0.2.1:9640\""));
  CHECK_FALSE(with("\"0.0.0.0:9641\", \"rdma://192.0.2.1:9640\""));
  CHECK_FALSE(with("\"0.0.0.0:9640\", \"rdma://0.0.0.0:9640\""));
  CHECK_FALSE(with("\"0.0.0.0:9640\", \"rdma://192.0.2.1\""));
}

}  // namespace
}  // namespace weft::ds
