// The calling end of RPC over RDMA on a real device: it connects to the serving end in the same
// process.
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <filesystem>
#include <future>

#include "rpc/transport/rdma/rdma_dialer.h"
#include "tests/rpc/transport/rdma/verbs_rig.h"

using namespace weft;
using namespace weft::rpc;
using namespace weft::rpc::rdma;
using namespace weft::rpc::rdma::test;

namespace {

struct Caller final : ChannelUser {
  void on_record(ReceivedRecord record) override {
    const std::vector<Buffer>& parts = record.apart.lent;
    if (!parts.empty()) {
      const std::lock_guard lock(mutex);
      bulk.assign(parts[0].span().begin(), parts[0].span().end());
    }
    ++answers;
  }
  void on_closed(const Error& why) override {
    closed = why.code;
    ended = true;
  }
  std::mutex mutex;
  std::vector<std::byte> bulk;
  std::atomic<int> answers{0};
  std::optional<Errc> closed;
  std::atomic<bool> ended{false};
};

// Callers have threads of their own.
struct Callers {
  Callers() { threads.start(); }
  ~Callers() {
    dialer.reset();
    threads.stop();
  }
  Result<std::shared_ptr<Channel>> dial(Endpoint endpoint, milliseconds deadline = seconds(20)) {
    auto answer = std::make_shared<std::promise<Result<std::shared_ptr<Channel>>>>();
    auto& context = threads.context(0);
    boost::asio::post(context, [this, answer, &context, endpoint, deadline] {
      dialer->to(context, pool, endpoint, {},
                 deadline)([answer](auto result) { answer->set_value(std::move(result)); });
    });
    return answer->get_future().get();
  }
  std::shared_ptr<Caller> start(const std::shared_ptr<Channel>& channel) {
    auto caller = std::make_shared<Caller>();
    channel->post([channel, caller] { channel->start(caller); });
    return caller;
  }
  // A call with `data`, or one that expects as much as was sent last.
  void call(const std::shared_ptr<Channel>& channel, std::uint32_t xid,
            std::span<const std::byte> data, std::uint32_t wanted = 0) {
    Message out;
    out.bytes().u32(xid);
    out.bytes().u32(0);
    if (wanted > 0) {
      out.bytes().u32(wanted);
      out.expect_bulk(wanted);
    } else if (!data.empty()) {
      auto buffer = pool.allocate(data.size()).value();
      std::memcpy(buffer.data(), data.data(), data.size());
      Payload payload;
      payload.append(std::move(buffer));
      out.bytes().u32(static_cast<std::uint32_t>(data.size()));
      out.splice(std::move(payload));
      out.bytes().raw(std::vector<std::byte>(xdr::padded(data.size()) - data.size()));
    }
    channel->post(
        [channel, message = std::move(out)]() mutable { channel->send(std::move(message)); });
  }

  BufferPool pool{32 * kMebibyte};
  IoThreads threads{1, false};
  std::optional<Dialer> dialer{std::in_place, threads};
};

std::size_t descriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(open), end(open)));
}

}  // namespace

TEST_CASE("without a device nobody is called, and that is said at once") {
  if (Devices::any()) SKIP("this machine has an RDMA device");
  Callers callers;
  for (int i = 0; i < 3; ++i) {
    CHECK(callers.dial({.ip = "127.0.0.1"}).error() == Errc::kNotSupported);
  }
}

TEST_CASE("both ends carry calls over a real device, and bulk data both ways") {
  Rig rig(device_address());
  Callers callers;
  const auto channel = callers.dial({.ip = rig.address, .port = kTestPort});
  INFO((channel ? "" : channel.error().describe()));
  REQUIRE(channel);
  const auto caller = callers.start(*channel);
  std::uint32_t xid = 0;
  std::size_t moved = 0;
  for (const std::size_t size : {std::size_t{5000}, std::size_t{70'001}, kMebibyte}) {
    std::vector<std::byte> data(size);
    for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>((i * 31 + size) >> 3);
    callers.call(*channel, ++xid, data);
    REQUIRE(wait([&] { return caller->answers == static_cast<int>(xid); }));
    callers.call(*channel, ++xid, {}, static_cast<std::uint32_t>(size));
    REQUIRE(wait([&] { return caller->answers == static_cast<int>(xid); }));
    const std::lock_guard lock(caller->mutex);
    CHECK(caller->bulk == data);
    moved += size;
  }
  // Many at once: they keep to the credits.
  for (int i = 0; i < 200; ++i) callers.call(*channel, ++xid, {});
  REQUIRE(wait([&] { return caller->answers == static_cast<int>(xid); }));
  CHECK_FALSE(caller->ended);
  CHECK(rig.server->counts().bytes_in == moved);
  CHECK(rig.server->counts().bytes_out == moved);
  CHECK(callers.dialer->counts().bytes_out == moved);
  CHECK(callers.dialer->counts().bytes_in == moved);
  CHECK(callers.dialer->counts().connections == 1);
}

TEST_CASE("who is not there is not connected to, in time") {
  Rig rig(device_address());
  Callers callers;
  CHECK(callers.dial({.ip = rig.address, .port = kTestPort + 1}).error() == Errc::kUnreachable);
  CHECK(callers.dial({.ip = "here", .port = kTestPort}).error() == Errc::kInvalid);
  const auto begun = std::chrono::steady_clock::now();
  // TEST-NET-3: nobody has it.
  const auto nobody = callers.dial({.ip = "203.0.113.1", .port = kTestPort}, seconds(1));
  REQUIRE_FALSE(nobody);
  CHECK((nobody.error() == Errc::kUnreachable || nobody.error() == Errc::kTimedOut));
  CHECK(std::chrono::steady_clock::now() - begun < seconds(20));
}

TEST_CASE("connections that are made and lost leave nothing behind") {
  Rig rig(device_address());
  Callers callers;
  std::optional<std::size_t> before;
  for (int i = 0; i < 10; ++i) {
    auto channel = callers.dial({.ip = rig.address, .port = kTestPort});
    INFO((channel ? "" : channel.error().describe()));
    REQUIRE(channel);
    const auto caller = callers.start(*channel);
    callers.call(*channel, 1, std::vector<std::byte>(100'000));
    REQUIRE(wait([&] { return caller->answers == 1; }));
    if (i % 2 == 0) {
      rig.server->cut();
    } else {
      (*channel)->post([held = *channel] { held->close({Errc::kClosed, "enough"}); });
    }
    REQUIRE(wait([&] { return caller->ended.load(); }));
    REQUIRE(wait([&] { return rig.server->connections() == 0; }));
    if (i % 2 == 0) {
      rig.server->go_on();
      REQUIRE(rig.server->listen());
    }
    channel = fail(Errc::kClosed, "");
    if (i == 1) before = descriptors();
  }
  CHECK(callers.dialer->counts().connections == 0);
  CHECK(wait([&] { return descriptors() <= *before; }));
  CHECK(wait([&] { return callers.pool.in_use_bytes() == 0; }));
}

TEST_CASE("a dialer goes while it is connected, while it dials, and with what nobody started") {
  Rig rig(device_address());
  for (int i = 0; i < 3; ++i) {
    Callers callers;
    auto channel = callers.dial({.ip = rig.address, .port = kTestPort});
    INFO((channel ? "" : channel.error().describe()));
    REQUIRE(channel);
    std::shared_ptr<Caller> caller;
    if (i != 1) caller = callers.start(*channel);
    if (i == 2) {
      auto& context = callers.threads.context(0);
      boost::asio::post(context, [&] {
        callers.dialer->to(context, callers.pool,
                           {.ip = rig.address, .port = kTestPort})([](const auto&) {});
      });
    }
    callers.dialer.reset();
    if (caller != nullptr) CHECK(wait([&] { return caller->ended.load(); }));
  }
}
