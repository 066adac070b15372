// The calling end of RPC over RDMA: against the serving end, and against a server that the test
// plays work by work.
#include "rpc/transport/rdma/client_channel.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstring>
#include <set>

#include "rpc/transport/rdma/call.h"
#include "rpc/transport/rdma/incoming.h"
#include "rpc/transport/rdma/server_channel.h"
#include "tests/rpc/transport/rdma/fake_pair.h"

using namespace weft;
using namespace weft::rpc;
using namespace weft::rpc::rdma;

namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
constexpr auto kNoMessage = static_cast<std::uint32_t>(Procedure::kNoMessage);

std::vector<std::byte> pattern(std::size_t size, unsigned seed = 1) {
  std::vector<std::byte> out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>((i * 31 + seed) >> 3);
  return out;
}

std::vector<std::byte> copy(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

// What comes to one end.
struct User final : ChannelUser {
  void on_record(ReceivedRecord record) override {
    const Buffer& head = record.bytes;
    const std::vector<Buffer>& parts = record.apart.lent;
    REQUIRE(parts.size() <= 1);
    records.push_back(copy(head.span()));
    bulk.push_back(parts.empty() ? std::vector<std::byte>{} : copy(parts.front().span()));
    for (const Buffer& part : parts) foreign |= outside(part);
    foreign |= outside(head);
    if (on_call) on_call(records.size() - 1);
  }
  void on_closed(const Error& why) override {
    CHECK_FALSE(closed.has_value());
    closed = why;
  }
  [[nodiscard]] bool outside(const Buffer& buffer) const {
    return pool != nullptr && !pool->arena()->memory()->contains(buffer.span());
  }
  std::vector<std::vector<std::byte>> records;
  std::vector<std::vector<std::byte>> bulk;
  std::function<void(std::size_t)> on_call;
  const BufferPool* pool = nullptr;
  bool foreign = false;
  std::optional<Error> closed;
};

struct Rig {
  explicit Rig(std::size_t exposed = kExposedBytes, std::size_t memory = 64 * kMebibyte)
      : pool(memory, std::make_shared<Arena>(SharedMemory::create(2 * memory, "test").value())),
        pair(std::make_shared<FakePair>(context, pool, exposed)) {}
  ~Rig() {
    pair->cut();
    turn();
    if (client) CHECK(caller->closed.has_value());
    caller.reset();
    client.reset();
    turn();
    CHECK(pool.in_use_bytes() == 0);
  }
  void call(CallLimits limits = {}) {
    caller->pool = &pool;
    client = call_over(context, pool, pair->calling(), limits, counts);
    client->start(caller);
    turn();
  }
  void turn() {
    context.restart();
    context.poll();
  }
  template <class Happened>
  bool wait(Happened happened) {
    for (int i = 0; i < 500 && !happened(); ++i) {
      context.restart();
      context.run_for(std::chrono::milliseconds(2));
    }
    return happened();
  }
  Payload payload(std::span<const std::byte> bytes) {
    auto data = pool.allocate(bytes.size());
    REQUIRE(data);
    std::memcpy(data->data(), bytes.data(), bytes.size());
    Payload out;
    out.append(std::move(*data));
    return out;
  }
  // A message with data in it as nfs4/io_ops.h has it, and a word behind it if that is wanted.
  Message message(std::uint32_t xid, std::span<const std::byte> data = {}, bool more = false) {
    Message out;
    out.bytes().u32(xid);
    out.bytes().u32(0);
    if (!data.empty()) {
      out.bytes().u32(static_cast<std::uint32_t>(data.size()));
      out.splice(payload(data));
      out.bytes().raw(std::vector<std::byte>(xdr::padded(data.size()) - data.size()));
    }
    if (more) out.bytes().u32(0xaaaa);
    return out;
  }
  void send(Message out) {
    client->send(std::move(out));
    turn();
  }

  boost::asio::io_context context{1};
  BufferPool pool;
  std::shared_ptr<FakePair> pair;
  std::shared_ptr<User> caller = std::make_shared<User>();
  std::shared_ptr<Channel> client;
  std::shared_ptr<Counts> counts = std::make_shared<Counts>();
};

// With the serving end that there is: its service answers each call when it is told to.
struct Served : Rig {
  explicit Served(Limits limits = {}, CallLimits calls = {}, std::size_t exposed = kExposedBytes,
                  std::size_t send_bytes = 4096)
      : Rig(exposed) {
    pair->max_send_bytes = send_bytes;
    server = serve(context, pool, pair->serving(), limits);
    server->start(service);
    call(calls);
  }
  ~Served() {
    pair->cut();
    turn();
    service->on_call = {};
    server.reset();
    service.reset();
  }
  void answer(std::uint32_t xid, std::span<const std::byte> data = {}, std::size_t words = 0) {
    Message out = message(xid, data);
    for (std::size_t i = 0; i < words; ++i) out.bytes().u32(7);
    server->send(std::move(out));
    turn();
  }
  std::shared_ptr<User> service = std::make_shared<User>();
  std::shared_ptr<Channel> server;
};

// A server that the test plays.
struct Played final : QueuePairUser {
  explicit Played(Rig& rig, std::size_t receives = 32) : rig_(rig), queue(rig.pair->serving()) {
    for (std::size_t i = 0; i < receives; ++i) receive();
  }
  void receive() {
    queue->post(
        {.kind = Work::Kind::kReceive, .memory = rig_.pool.allocate(4096).value(), .remote = {}});
  }
  void on_completion(Completion completion) override {
    if (completion.work.kind == Work::Kind::kReceive && completion.done) {
      calls.push_back(copy(completion.work.memory.span().first(completion.received)));
    } else if (completion.work.kind == Work::Kind::kRead && completion.done) {
      read = copy(completion.work.memory.span());
    }
  }
  void on_disconnected(const Error& /*why*/) override { ended = true; }

  Incoming call(std::size_t index) { return read_incoming(calls.at(index)).value(); }
  void send(std::span<const std::byte> bytes) {
    auto memory = rig_.pool.allocate(bytes.size()).value();
    std::memcpy(memory.data(), bytes.data(), bytes.size());
    queue->post({.kind = Work::Kind::kSend, .memory = std::move(memory), .remote = {}});
    rig_.turn();
  }
  void answer(const Start& start, const Chunks& chunks = {}) {
    xdr::Encoder out;
    encode(out, start);
    encode(out, chunks);
    if (start.procedure == 0) {
      out.u32(start.xid);
      out.u32(1);
    }
    send(out.bytes());
  }
  void fetch(const Segment& segment) {
    queue->post({.kind = Work::Kind::kRead,
                 .memory = rig_.pool.allocate(segment.length).value(),
                 .remote = segment});
    rig_.turn();
  }

 private:
  Rig& rig_;

 public:
  std::unique_ptr<QueuePair> queue;
  std::vector<std::vector<std::byte>> calls;
  std::vector<std::byte> read;
  bool ended = false;
};

std::shared_ptr<Played> play(Rig& rig) {
  auto played = std::make_shared<Played>(rig);
  played->queue->start(played);
  rig.call();
  return played;
}

}  // namespace

TEST_CASE("calls and answers of all sizes go between both ends, by which way they must") {
  Served rig;
  std::uint32_t xid = 0;
  for (const std::size_t size : {0UZ, 1UZ, 3000UZ, 4000UZ, 4096UZ, 70'001UZ, kMebibyte}) {
    const auto data = pattern(size);
    for (const bool more : {false, true}) {
      const std::size_t read_before = rig.pair->read;
      rig.send(rig.message(++xid, data, more));
      REQUIRE(rig.service->records.size() == xid);
      // Apart, if nothing comes behind it; and whole else.
      const auto whole = rig.message(xid, data, more).flatten().value();
      auto got = rig.service->records.back();
      const auto& apart = rig.service->bulk.back();
      CHECK(apart.empty() == (size <= 4000 || more));
      got.insert(got.end(), apart.begin(), apart.end());
      got.resize(whole.size());
      CHECK(got == whole);
      CHECK(rig.pair->read - read_before == (size <= 4000 ? 0 : size));
      rig.answer(xid);
      REQUIRE(rig.caller->records.size() == xid);
      CHECK(rig.caller->records.back() == rig.message(xid).flatten().value());
    }
  }
  CHECK_FALSE(rig.caller->foreign);
  CHECK(rig.counts->calls == xid);
  CHECK(rig.counts->bytes_out == rig.pair->read);
}

TEST_CASE("bulk data that a call expects is written to its room, and comes apart") {
  Served rig;
  std::uint32_t xid = 0;
  for (const std::size_t size : {1UZ, 4096UZ, 70'001UZ, kMebibyte}) {
    const auto data = pattern(size);
    Message call = rig.message(++xid);
    call.expect_bulk(kMebibyte);
    rig.send(std::move(call));
    const std::size_t before = rig.pair->written;
    rig.answer(xid, data);
    REQUIRE(rig.caller->bulk.size() == xid);
    CHECK(rig.caller->bulk.back() == data);
    CHECK(rig.caller->records.back().size() == 12);
    CHECK(rig.pair->written - before == size);
  }
  // What expected some and gets none, as at the end of a file.
  Message call = rig.message(++xid);
  call.expect_bulk(4096);
  rig.send(std::move(call));
  rig.answer(xid);
  CHECK(rig.caller->records.size() == xid);
  CHECK(rig.caller->bulk.back().empty());
  CHECK_FALSE(rig.caller->foreign);
}

TEST_CASE("an answer too large to come inline is written to its place") {
  Served rig;
  rig.send(rig.message(1));
  rig.answer(1, {}, 3000);
  REQUIRE(rig.caller->records.size() == 1);
  CHECK(rig.caller->records[0].size() == 8 + 3000 * 4);
  CHECK(rig.pair->written == 8 + 3000 * 4);
  // Larger than that: the server says so, and nobody waits for it.
  rig.send(rig.message(2));
  rig.answer(2, {}, 5000);
  REQUIRE(rig.caller->closed.has_value());
  CHECK(*rig.caller->closed == Errc::kProtocol);
}

TEST_CASE("a call too large to go inline is read as a whole, and its bulk data apart") {
  Served rig({}, {}, kExposedBytes, 1024);
  Message call = rig.message(1);
  call.bytes().raw(pattern(6000));
  const auto whole = call.share().flatten().value();
  rig.send(std::move(call));
  REQUIRE(rig.service->records.size() == 1);
  CHECK(rig.service->records[0] == whole);
  CHECK(rig.pair->read == whole.size());

  Message both = rig.message(2);
  both.bytes().raw(pattern(2000));
  const auto data = pattern(10'001);
  both.bytes().u32(10'001);
  both.splice(rig.payload(data));
  both.bytes().raw(std::vector<std::byte>(3));
  const auto all = both.share().flatten().value();
  rig.answer(1);
  rig.send(std::move(both));
  REQUIRE(rig.service->bulk.size() == 2);
  CHECK(rig.service->bulk[1] == data);
  CHECK(rig.service->records[1].size() == all.size() - 10'004);
}

TEST_CASE("no more calls are out than are granted, one before the first answer") {
  Served rig({.credits = 3}, {.credits = 8});
  std::set<std::uint32_t> open;
  std::size_t most = 0;
  for (std::uint32_t xid = 1; xid <= 20; ++xid) rig.send(rig.message(xid));
  CHECK(rig.service->records.size() == 1);
  CHECK(rig.client->queued_bytes() > 0);
  std::size_t answered = 0;
  while (answered < 20) {
    REQUIRE(rig.service->records.size() > answered);
    most = std::max(most, rig.service->records.size() - answered);
    rig.answer(static_cast<std::uint32_t>(++answered));
  }
  CHECK(most == 3);
  CHECK(rig.caller->records.size() == 20);
  CHECK(rig.client->queued_bytes() == 0);
  CHECK_FALSE(rig.caller->closed.has_value());
}

TEST_CASE("an urgent call passes those that wait, for credits or for exposed memory") {
  Served rig;
  rig.send(rig.message(1));
  rig.answer(1);
  const auto data = pattern(GENERATE(0UZ, kMebibyte));
  const std::uint32_t last = data.empty() ? 50 : 20;
  for (std::uint32_t xid = 2; xid <= last; ++xid) rig.send(rig.message(xid, data));
  const std::size_t out = rig.service->records.size();
  CHECK(out < last);
  for (const std::uint32_t xid : {100, 101}) {
    Message urgent = rig.message(xid);
    urgent.set_urgent();
    rig.send(std::move(urgent));
  }
  for (const std::uint32_t xid : {100, 101}) {  // one after the other if there is one credit
    REQUIRE(rig.service->records.size() > out + xid - 100);
    CHECK(word_at(rig.service->records[out + xid - 100], 0) == xid);
    rig.answer(xid);
  }
  for (std::uint32_t xid = 2; xid <= last; ++xid) rig.answer(xid);
  CHECK(rig.caller->records.size() == last + 2);
}

TEST_CASE("calls wait for exposed memory, and one that never has room ends the connection") {
  Served rig({}, {}, 3 * kMebibyte);
  rig.service->on_call = {};
  rig.send(rig.message(1));
  rig.answer(1);
  const auto data = pattern(kMebibyte);
  for (std::uint32_t xid = 2; xid <= 9; ++xid) rig.send(rig.message(xid, data));
  CHECK(rig.service->records.size() == 3);  // two of them with 1 MiB
  for (std::uint32_t xid = 2; xid <= 9; ++xid) rig.answer(xid);
  CHECK(rig.caller->records.size() == 9);
  CHECK(rig.service->bulk.back() == data);
  rig.send(rig.message(10, pattern(5 * kMebibyte)));
  REQUIRE(rig.caller->closed.has_value());
  CHECK(*rig.caller->closed == Errc::kTooLarge);
}

TEST_CASE("answers wait while there is no memory, and are given up after a time") {
  for (const bool comes : {true, false}) {
    BufferPool small(4096);
    Rig rig;
    const auto played = std::make_shared<Played>(rig, 4);
    played->queue->start(played);
    rig.client = call_over(rig.context, small, rig.pair->calling(),
                           {.memory_deadline = std::chrono::milliseconds(comes ? 10'000 : 20)});
    rig.client->start(rig.caller);
    rig.send(rig.message(1));
    Buffer taken = small.allocate(4096).value();
    played->answer({.xid = 1, .credits = 4});
    CHECK(rig.caller->records.empty());
    if (comes) {
      taken.reset();
      CHECK(rig.wait([&] { return rig.caller->records.size() == 1; }));
    } else {
      CHECK(rig.wait([&] { return rig.caller->closed.has_value(); }));
      CHECK(*rig.caller->closed == Errc::kBusy);
    }
  }
}

TEST_CASE("a pause holds answers back, and no calls") {
  Served rig;
  rig.send(rig.message(1));
  rig.client->pause();
  rig.answer(1);
  CHECK(rig.caller->records.empty());
  rig.client->resume();
  rig.turn();
  CHECK(rig.caller->records.size() == 1);
}

TEST_CASE("a call of the number of one that is out waits for its answer") {
  Served rig;
  rig.send(rig.message(1));
  rig.answer(1);
  rig.send(rig.message(2));
  rig.send(rig.message(2));
  CHECK(rig.service->records.size() == 2);
  rig.answer(2);
  CHECK(rig.service->records.size() == 3);
  rig.answer(2);
  CHECK(rig.caller->records.size() == 3);
}

TEST_CASE("a drained close sends what waits, and delivers nothing more") {
  Served rig;
  for (std::uint32_t xid = 1; xid <= 3; ++xid) rig.send(rig.message(xid));
  rig.client->close({Errc::kClosed, "enough"}, true);
  rig.turn();
  CHECK_FALSE(rig.caller->closed.has_value());
  rig.answer(1);
  rig.turn();
  REQUIRE(rig.caller->closed.has_value());
  CHECK(*rig.caller->closed == Errc::kClosed);
  CHECK(rig.service->records.size() == 3);
  CHECK(rig.caller->records.empty());
}

TEST_CASE("a server that takes nothing, or says nothing, is given up") {
  Rig rig;
  const auto played = std::make_shared<Played>(rig, 4);
  played->queue->start(played);
  SECTION("nothing") {
    rig.call({.send_deadline = std::chrono::milliseconds(20)});
    rig.pair->hold = true;
    rig.send(rig.message(1));
  }
  SECTION("no answer") {
    rig.call({.idle_deadline = std::chrono::milliseconds(20)});
    rig.send(rig.message(1));
    CHECK(played->calls.size() == 1);
  }
  CHECK(rig.wait([&] { return rig.caller->closed.has_value(); }));
  CHECK(*rig.caller->closed == Errc::kTimedOut);
}

TEST_CASE("too many calls that wait end the connection") {
  Served rig({}, {.max_waiting = 10});
  for (std::uint32_t xid = 1; xid <= 11; ++xid) rig.send(rig.message(xid));
  CHECK_FALSE(rig.caller->closed.has_value());
  rig.send(rig.message(12));
  REQUIRE(rig.caller->closed.has_value());
  CHECK(*rig.caller->closed == Errc::kBusy);
}

TEST_CASE("an answer that cannot be ends the connection") {
  Rig rig;
  const auto played = play(rig);
  Message first = rig.message(1);
  first.expect_bulk(8192);
  rig.send(std::move(first));
  REQUIRE(played->calls.size() == 1);
  const Incoming call = played->call(0);
  REQUIRE(call.places.writes.size() == 1);
  Chunk room = call.places.writes[0];
  Segment& segment = room.segments.at(0);
  CHECK(segment.length == 8192);
  SECTION("to nothing") { played->answer({.xid = 2, .credits = 1}); }
  SECTION("of another version") { played->answer({.xid = 1, .version = 2, .credits = 1}); }
  SECTION("of no procedure") { played->answer({.xid = 1, .credits = 1, .procedure = 7}); }
  SECTION("with no credits") { played->answer({.xid = 1, .credits = 0}); }
  SECTION("larger than its room") {
    ++segment.length;
    played->answer({.xid = 1, .credits = 1}, {.writes = {room}});
  }
  SECTION("elsewhere") {
    segment.offset += 4096;
    segment.length = 4;
    played->answer({.xid = 1, .credits = 1}, {.writes = {room}});
  }
  SECTION("by another handle") {
    segment.handle ^= 1;
    played->answer({.xid = 1, .credits = 1}, {.writes = {room}});
  }
  SECTION("in more segments") {
    room.segments.push_back(room.segments[0]);
    played->answer({.xid = 1, .credits = 1}, {.writes = {room}});
  }
  SECTION("in a place that it did not bring") {
    played->answer({.xid = 1, .credits = 1, .procedure = kNoMessage}, {.reply = room});
  }
  SECTION("nowhere") { played->answer({.xid = 1, .credits = 1, .procedure = kNoMessage}); }
  SECTION("to be read") {
    played->answer({.xid = 1, .credits = 1}, {.reads = {{.position = 0, .chunk = room}}});
  }
  SECTION("a refusal") {
    xdr::Encoder out;
    encode(out, Start{.xid = 1, .credits = 1, .procedure = 4});
    encode(out, Refused::kChunk);
    played->send(out.bytes());
  }
  SECTION("with a message of another number") {
    xdr::Encoder out;
    encode(out, Start{.xid = 1, .credits = 1});
    encode(out, Chunks{});
    out.u32(2);
    out.u32(1);
    played->send(out.bytes());
  }
  SECTION("cut off") {
    xdr::Encoder out;
    encode(out, Start{.xid = 1, .credits = 1});
    played->send(out.bytes());
  }
  SECTION("of a few bytes") { played->send(pattern(5)); }
  REQUIRE(rig.caller->closed.has_value());
  CHECK(*rig.caller->closed == Errc::kProtocol);
  CHECK(rig.caller->records.empty());
  CHECK(played->ended);
}

TEST_CASE("a server reaches what is exposed to it, and nothing else") {
  Rig rig;
  const auto played = play(rig);
  const auto data = pattern(20'000);
  rig.send(rig.message(1, data));
  const Incoming call = played->call(0);
  REQUIRE(call.bulk.has_value());
  Segment segment = call.bulk->chunk.segments.at(0);
  CHECK(call.bulk->position == 12);
  CHECK(segment.length == data.size());
  played->fetch(segment);
  CHECK(played->read == data);
  CHECK_FALSE(rig.pair->ended());
  SECTION("by another handle") { segment.handle ^= 1; }
  SECTION("outside of it") {
    segment.offset = reinterpret_cast<std::uintptr_t>(rig.pool.arena()->memory()->base());
  }
  played->fetch(segment);
  CHECK(rig.pair->ended());
  CHECK(rig.caller->closed.has_value());
}

TEST_CASE("what a server does to memory after it has answered changes nothing that was delivered") {
  Rig rig;
  const auto played = play(rig);
  Message call = rig.message(1);
  call.expect_bulk(4096);
  rig.send(std::move(call));
  const Chunk room = played->call(0).places.writes.at(0);
  std::byte* const at = reinterpret_cast<std::byte*>(room.segments.at(0).offset);
  std::memset(at, 'a', 4096);
  std::optional<std::vector<std::byte>> seen;
  rig.caller->on_call = [&](std::size_t) {
    std::memset(at, 'b', 4096);
    seen = rig.caller->bulk.back();
  };
  xdr::Encoder out;
  encode(out, Start{.xid = 1, .credits = 4});
  encode(out, Chunks{.writes = {room}});
  for (const std::uint32_t word : {1U, 1U, 4096U}) out.u32(word);
  played->send(out.bytes());
  CHECK(seen == std::vector<std::byte>(4096, std::byte{'a'}));
  CHECK_FALSE(rig.caller->foreign);
}

TEST_CASE("a connection that breaks is told once, and its calls with it") {
  Served rig;
  rig.send(rig.message(1, pattern(kMebibyte)));
  rig.send(rig.message(2, pattern(kMebibyte)));
  rig.pair->cut();
  rig.turn();
  REQUIRE(rig.caller->closed.has_value());
  CHECK(*rig.caller->closed == Errc::kUnreachable);
  rig.client->send(rig.message(3));
  rig.turn();
  CHECK(rig.caller->records.empty());
}

TEST_CASE("a channel that nobody starts ends without a word") {
  Rig rig;
  auto channel = call_over(rig.context, rig.pool, rig.pair->calling(), {});
  channel->close({Errc::kCancelled, "not wanted"}, true);
  rig.turn();
  channel.reset();
}
