// RPC messages with their bulk data apart, over a channel that only pretends to share memory: what
// goes through it is looked at, and what comes is made up.
#include "rpc/transport/shm/bulk_channel.h"

#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "rpc/base/shared_memory.h"

using namespace weft;
using namespace weft::rpc;

namespace {

// The inner channel: keeps what is sent, and its user delivers what the test says.
class FakeChannel final : public Channel {
 public:
  explicit FakeChannel(bool lender) : lender_(lender) {}
  void start(std::shared_ptr<ChannelUser> to) override { user = std::move(to); }
  void send(Message message) override { sent.push_back(std::move(message)); }
  [[nodiscard]] bool lends(const Buffer& buffer) const override {
    return lender_ && !buffer.empty() && lend;
  }
  void pause() override {}
  void resume() override {}
  void close(Error why, bool) override {
    if (!closed) closed = why;
  }
  void post(std::move_only_function<void()> work) override { work(); }
  [[nodiscard]] const std::string& peer() const override { return name_; }
  [[nodiscard]] std::size_t queued_bytes() const override { return 0; }

  std::shared_ptr<ChannelUser> user;
  std::vector<Message> sent;
  std::optional<Error> closed;
  bool lend = true;

 private:
  const bool lender_;
  const std::string name_ = "fake";
};

struct Inbox : ChannelUser {
  void on_record(ReceivedRecord record) override {
    records.push_back(std::move(record.bytes));
    bulk = std::move(record.apart.lent);
    room = std::move(record.room);
  }
  void on_closed(const Error& why) override { closed = why; }
  std::vector<Buffer> records;
  std::vector<Buffer> bulk;
  Buffer room;
  std::optional<Error> closed;
};

struct Bench {
  Buffer buffer(std::span<const std::byte> bytes) {
    auto out = pool.allocate(bytes.size()).value();
    if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  Buffer filled(std::size_t size, char with) {
    auto out = pool.allocate(size).value();
    std::memset(out.data(), with, size);
    return out;
  }
  // A record with this head and an RPC message of one word, its number.
  Buffer record(BulkHead head, std::uint32_t xid) {
    xdr::Encoder out;
    out.raw(std::as_bytes(std::span(&head, 1)));
    out.u32(xid);
    return buffer(out.bytes());
  }
  static Message message(std::uint32_t xid, std::vector<Buffer> data = {},
                         std::size_t padding = 0) {
    Message out;
    out.bytes().u32(xid);
    Payload payload;
    for (Buffer& part : data) payload.append(std::move(part));
    out.splice(std::move(payload));
    for (std::size_t i = 0; i < padding; ++i) out.bytes().raw(std::vector<std::byte>(1));
    return out;
  }
  static BulkHead head_of(const Message& message) {
    BulkHead head;
    REQUIRE(message.bytes().size() >= sizeof head);
    std::memcpy(&head, message.bytes().bytes().data(), sizeof head);
    return head;
  }
  void hello(ServerIdentity server = {}) {
    const BulkHello hello{.server = server};
    fake->user->on_record({.bytes = buffer(std::as_bytes(std::span(&hello, 1)))});
  }
  void connect() {
    fake = std::make_shared<FakeChannel>(true);
    connect_bulk(context, pool, fake, {}, counts,
                 [this](Result<std::shared_ptr<Channel>> made) { dialled = std::move(made); });
  }
  void serve() {
    fake = std::make_shared<FakeChannel>(false);
    channel = serve_bulk(fake, {}, counts);
    channel->start(inbox);
  }

  std::shared_ptr<Arena> arena =
      std::make_shared<Arena>(SharedMemory::create(std::size_t{4} << 20, "test").value());
  BufferPool pool{std::size_t{2} << 20, arena};
  boost::asio::io_context context;
  std::shared_ptr<BulkCounts> counts = std::make_shared<BulkCounts>();
  std::shared_ptr<FakeChannel> fake;
  std::optional<Result<std::shared_ptr<Channel>>> dialled;
  std::shared_ptr<Channel> channel;
  std::shared_ptr<Inbox> inbox = std::make_shared<Inbox>();
};

struct Client : Bench {
  Client() {
    connect();
    hello();
    REQUIRE((dialled && *dialled));
    channel = **dialled;
    channel->start(inbox);
  }
};

struct Server : Bench {
  Server() { serve(); }
};

}  // namespace

TEST_CASE("a hello is awaited, and must be the server's that is looked for") {
  Bench bench;
  bench.connect();
  CHECK_FALSE(bench.dialled);
  SECTION("another's") {
    ServerIdentity other{};
    other[0] = std::byte{1};
    bench.hello(other);
    REQUIRE(bench.dialled);
    CHECK((*bench.dialled).error() == Errc::kStale);
  }
  SECTION("none at all") {
    bench.fake->user->on_record({.bytes = bench.record({}, 1)});
    REQUIRE(bench.dialled);
    CHECK((*bench.dialled).error() == Errc::kProtocol);
  }
  SECTION("the end instead") {
    bench.fake->user->on_closed({Errc::kClosed, "gone"});
    REQUIRE(bench.dialled);
    CHECK((*bench.dialled).error() == Errc::kClosed);
  }
  CHECK(bench.fake->closed);
}

TEST_CASE("one that closes between hello and start says so to its user") {
  Bench bench;
  bench.connect();
  bench.hello();
  REQUIRE((bench.dialled && *bench.dialled));
  bench.fake->user->on_closed({Errc::kClosed, "gone"});
  (**bench.dialled)->start(bench.inbox);
  CHECK(bench.inbox->closed);
}

TEST_CASE("large data at a call's end is lent, without its padding") {
  Client client;
  std::vector<Buffer> data;
  data.push_back(client.filled(4096, 'a'));
  data.push_back(client.filled(1001, 'b'));
  client.channel->send(Bench::message(5, std::move(data), 3));
  REQUIRE(client.fake->sent.size() == 1);
  const Message& sent = client.fake->sent[0];
  CHECK(Bench::head_of(sent).bulk == 5097);
  CHECK(Bench::head_of(sent).flags == 0);
  CHECK(sent.bytes().size() == sizeof(BulkHead) + 4);
  REQUIRE(sent.splices().size() == 1);
  CHECK(sent.splices()[0].payload.size() == 5097);
  CHECK(client.counts->to_server == 5097);
}

TEST_CASE("small data, and what cannot be lent, goes in the message") {
  Client client;
  std::vector<Buffer> data;
  SECTION("small") { data.push_back(client.filled(4095, 'a')); }
  SECTION("not of the arena") {
    client.fake->lend = false;
    data.push_back(client.filled(5000, 'a'));
  }
  std::size_t size = data[0].size();
  client.channel->send(Bench::message(5, std::move(data)));
  REQUIRE(client.fake->sent.size() == 1);
  CHECK(Bench::head_of(client.fake->sent[0]).bulk == 0);
  CHECK_FALSE(client.fake->sent[0].has_payload());
  CHECK(client.fake->sent[0].bytes().size() == sizeof(BulkHead) + 4 + size);
  CHECK(client.counts->to_server == 0);
}

TEST_CASE("a call that expects data lends room, which is the answer's data") {
  Client client;
  Message call = Bench::message(9);
  call.expect_bulk(10'000);
  client.channel->send(std::move(call));
  REQUIRE(client.fake->sent.size() == 1);
  Message& sent = client.fake->sent[0];
  CHECK(Bench::head_of(sent).flags == BulkHead::kRoom);
  REQUIRE(sent.splices().size() == 1);
  auto& room = std::get<Buffer>(sent.splices()[0].payload.pieces()[0]);
  REQUIRE(room.size() == 10'000);
  std::memset(room.data(), 'r', room.size());
  client.fake->sent.clear();  // given back
  client.fake->user->on_record({.bytes = client.record({.bulk = 7000}, 9)});
  REQUIRE(client.inbox->records.size() == 1);
  CHECK(client.inbox->records[0].size() == 4);
  REQUIRE(client.inbox->bulk.size() == 1);
  CHECK(client.inbox->bulk[0].size() == 7000);
  CHECK(client.inbox->bulk[0].data()[6999] == std::byte{'r'});
  SECTION("once") {
    client.fake->user->on_record({.bytes = client.record({.bulk = 7000}, 9)});
    REQUIRE(client.fake->closed);
    CHECK(*client.fake->closed == Errc::kProtocol);
  }
}

TEST_CASE("an answer that claims what no room was lent for ends the connection") {
  Client client;
  Message call = Bench::message(9);
  call.expect_bulk(10'000);
  client.channel->send(std::move(call));
  SECTION("more than there is room for") {
    client.fake->user->on_record({.bytes = client.record({.bulk = 10'001}, 9)});
  }
  SECTION("another call's") {
    client.fake->user->on_record({.bytes = client.record({.bulk = 1}, 8)});
  }
  SECTION("flags") { client.fake->user->on_record({.bytes = client.record({.flags = 1}, 9)}); }
  SECTION("no message") {
    client.fake->user->on_record({.bytes = client.buffer(std::vector<std::byte>(11))});
  }
  REQUIRE(client.fake->closed);
  CHECK(*client.fake->closed == Errc::kProtocol);
  CHECK(client.inbox->records.empty());
}

TEST_CASE("rooms go with the connection") {
  Client client;
  Message call = Bench::message(9);
  call.expect_bulk(1 << 20);
  client.channel->send(std::move(call));
  client.fake->sent.clear();
  CHECK(client.pool.in_use_bytes() > 0);
  client.fake->user->on_closed({Errc::kClosed, "gone"});
  CHECK(client.inbox->closed);
  CHECK(client.pool.in_use_bytes() == 0);
}

TEST_CASE("a server greets, takes what is lent, and answers into the room") {
  Server server;
  REQUIRE(server.fake->sent.size() == 1);
  CHECK(decode_bulk_hello(server.fake->sent[0].bytes().bytes()));
  std::vector<Buffer> lent;
  lent.push_back(server.filled(5000, 'w'));
  lent.push_back(server.filled(8192, 0));
  auto seen = lent[1].share(0, 8192).value();
  server.fake->user->on_record({.bytes = server.record({.bulk = 5000, .flags = BulkHead::kRoom}, 3),
                                .loans = std::move(lent)});
  REQUIRE(server.inbox->records.size() == 1);
  CHECK(server.inbox->bulk.at(0).size() == 5000);
  CHECK(server.inbox->room.size() == 8192);

  std::vector<Buffer> data;
  data.push_back(server.filled(6001, 'd'));
  Message answer = Bench::message(3, std::move(data), 3);
  answer.set_room(std::move(server.inbox->room));
  server.channel->send(std::move(answer));
  REQUIRE(server.fake->sent.size() == 2);
  CHECK(Bench::head_of(server.fake->sent[1]).bulk == 6001);
  CHECK(server.fake->sent[1].bytes().size() == sizeof(BulkHead) + 4);
  CHECK(seen.data()[6000] == std::byte{'d'});
  CHECK(seen.unique());  // given back with the answer
  CHECK(server.counts->to_client == 6001);
}

TEST_CASE("an answer that the room does not hold goes through the ring") {
  Server server;
  std::vector<Buffer> data;
  data.push_back(server.filled(6000, 'd'));
  Message answer = Bench::message(3, std::move(data));
  answer.set_room(server.filled(5999, 0));
  server.channel->send(std::move(answer));
  CHECK(Bench::head_of(server.fake->sent.back()).bulk == 0);
  CHECK(server.fake->sent.back().bytes().size() == sizeof(BulkHead) + 4 + 6000);
}

TEST_CASE("loans that do not fit their head end the connection") {
  Server server;
  std::vector<Buffer> lent;
  lent.push_back(server.filled(5000, 'w'));
  SECTION("too few bytes") {
    server.fake->user->on_record(
        {.bytes = server.record({.bulk = 5001}, 3), .loans = std::move(lent)});
  }
  SECTION("too many") {
    server.fake->user->on_record(
        {.bytes = server.record({.bulk = 4999}, 3), .loans = std::move(lent)});
  }
  SECTION("the room is not data") {
    server.fake->user->on_record(
        {.bytes = server.record({.bulk = 5000, .flags = BulkHead::kRoom}, 3),
         .loans = std::move(lent)});
  }
  SECTION("unknown flags") {
    server.fake->user->on_record(
        {.bytes = server.record({.bulk = 5000, .flags = 2}, 3), .loans = std::move(lent)});
  }
  SECTION("none are there") {
    server.fake->user->on_record({.bytes = server.record({.bulk = 1}, 3)});
  }
  SECTION("room of none") {
    server.fake->user->on_record({.bytes = server.record({.flags = BulkHead::kRoom}, 3)});
  }
  REQUIRE(server.fake->closed);
  CHECK(*server.fake->closed == Errc::kProtocol);
  CHECK(server.inbox->records.empty());
}
