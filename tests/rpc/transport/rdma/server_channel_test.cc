// The serving end of RPC over RDMA, against a client that the test plays word by word.
#include "rpc/transport/rdma/server_channel.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/rpc/transport/rdma/server_rig.h"

using namespace weft;
using namespace weft::rpc;
using namespace weft::rpc::rdma;
using namespace weft::rpc::rdma::test;

TEST_CASE("a call and its answer go inline, and every answer grants credits") {
  Rig rig;
  rig.start();
  rig.call(5, {}, {1, 2, 3});
  REQUIRE(rig.service->records.size() == 1);
  CHECK(copy(rig.service->records[0]) == bytes_of(message(5, {1, 2, 3})));
  rig.answer(5);
  const Reply reply = rig.reply();
  CHECK(reply.start == Start{.xid = 5, .credits = 32});
  CHECK(reply.chunks == Chunks{});
  CHECK(reply.message == bytes_of(answer_of(5)));
}

TEST_CASE("bulk data of a call is read from the client, and comes apart") {
  Rig rig;
  rig.start();
  for (const std::size_t size : {std::size_t{4096}, std::size_t{70'001}, kMebibyte}) {
    const auto data = pattern(size);
    Chunks chunks;
    // In two segments of one chunk.
    const std::span all(data);
    Chunk chunk{{rig.wire->expose({all.begin(), all.begin() + 1000}),
                 rig.wire->expose({all.begin() + 1000, all.end()})}};
    chunks.reads.push_back({.position = 12, .chunk = std::move(chunk)});
    const auto xid = static_cast<std::uint32_t>(size);
    rig.call(xid, chunks, {static_cast<std::uint32_t>(size)});
    REQUIRE(rig.service->bulk.size() == 1);
    CHECK(copy(rig.service->bulk[0]) == data);
    CHECK(rig.service->records[0].size() == 12);
    rig.service->bulk.clear();
    rig.service->records.clear();
    rig.answer(xid);
    CHECK(rig.reply().start.xid == xid);
  }
}

TEST_CASE("padding in a Read chunk is not bulk data") {
  Rig rig;
  rig.start();
  const Segment segment = rig.wire->expose(pattern(4096));
  rig.call(1, {.reads = {{.position = 12, .chunk = {{segment}}}}}, {4093});
  REQUIRE(rig.service->bulk.size() == 1);
  CHECK(rig.service->bulk[0].size() == 4093);
}

TEST_CASE("a call with more behind its bulk data comes as one record, with its padding") {
  Rig rig;
  rig.start();
  const auto data = pattern(4097);
  const Segment segment = rig.wire->expose(data);
  rig.call(1, {.reads = {{.position = 12, .chunk = {{segment}}}}}, {4097, 0xaaaa});
  REQUIRE(rig.service->records.size() == 1);
  CHECK(rig.service->bulk[0].empty());
  CHECK(copy(rig.service->records[0]) == with_data(1, data));
}

TEST_CASE("a long call is read from its chunk of position zero, bulk data with it") {
  Rig rig;
  rig.start();
  xdr::Encoder whole = message(1);
  whole.raw(pattern(8000));
  const Segment segment = rig.wire->expose(bytes_of(whole));
  rig.send({.xid = 1, .credits = 1, .procedure = kNoMessage},
           {.reads = {{.position = 0, .chunk = {{segment}}}}}, {});
  REQUIRE(rig.service->records.size() == 1);
  CHECK(copy(rig.service->records[0]) == bytes_of(whole));

  // And one with bulk data in its middle.
  const auto data = pattern(5001, 9);
  xdr::Encoder second = message(2, {5001, 0xaaaa});
  const Segment head = rig.wire->expose(bytes_of(second));
  const Segment bulk = rig.wire->expose(data);
  rig.send({.xid = 2, .credits = 1, .procedure = kNoMessage},
           {.reads = {{.position = 0, .chunk = {{head}}}, {.position = 12, .chunk = {{bulk}}}}},
           {});
  REQUIRE(rig.service->records.size() == 2);
  CHECK(copy(rig.service->records[1]) == with_data(2, data));
}

TEST_CASE("bulk data of an answer goes to the Write chunk, its padding nowhere") {
  Rig rig;
  rig.start();
  std::uint32_t xid = 0;
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{4096}, std::size_t{70'001}, kMebibyte}) {
    const auto data = pattern(size);
    const Chunk place = rig.exposed(kMebibyte, 3);
    rig.call(++xid, {.writes = {place}});
    rig.answer(xid, rig.payload(data), 3);
    const Reply reply = rig.reply();
    REQUIRE(reply.chunks.writes.size() == 1);
    CHECK(reply.chunks.writes[0].segments.size() == 3);
    CHECK(reply.chunks.writes[0].size() == size);
    CHECK(rig.content(reply.chunks.writes[0]) == data);
    CHECK(reply.message.size() == 16);
  }
}

TEST_CASE("bulk data that the device does not reach is copied first") {
  Rig rig;
  rig.start();
  const Chunk place = rig.exposed(10'000);
  rig.call(1, {.writes = {place}});
  auto data = pattern(3000);
  Payload payload;
  payload.append(Buffer::foreign(data, [] {}));
  payload.append(ZeroRange{1000});
  rig.answer(1, std::move(payload));
  const Reply reply = rig.reply();
  data.resize(4000);
  CHECK(rig.content(reply.chunks.writes.at(0)) == data);
}

TEST_CASE("an answer invalidates the one handle that its call brought, for who wants that") {
  Rig rig;
  rig.wire->may_invalidate = true;
  rig.start();
  const auto data = pattern(300);
  const auto read = [&] { return Chunk{{rig.wire->expose(data)}}; };
  const auto room = [&] { return Chunk{{rig.wire->expose(std::vector<std::byte>(8192))}}; };
  const auto call = [&](std::uint32_t xid, const Chunks& chunks) {
    rig.wire->invalidated.clear();
    rig.call(xid, chunks, {300});
    rig.answer(xid, chunks.writes.empty() ? Payload{} : rig.payload(data));
    CHECK(rig.reply().start.procedure == 0);
    return rig.wire->invalidated;
  };
  CHECK(call(1, {}).empty());

  const Chunk bulk = read();
  const std::uint32_t handle = bulk.segments[0].handle;
  CHECK(call(2, {.reads = {{.position = 12, .chunk = bulk}}}) == std::vector{handle});
  CHECK_FALSE(rig.wire->exposes(handle));

  // What was written there arrived before.
  const Chunk place = room();
  std::vector<std::byte> written;
  rig.wire->on_invalidate = [&](const std::vector<std::byte>& bytes) { written = bytes; };
  CHECK(call(3, {.writes = {place}}) == std::vector{place.segments[0].handle});
  written.resize(data.size());
  CHECK(written == data);

  // Of one handle in several places, and of several handles.
  Chunk one = room();
  one.segments.push_back(one.segments[0]);
  CHECK(call(4, {.writes = {one}, .reply = one}) == std::vector{one.segments[0].handle});
  CHECK(call(5, {.writes = {room()}, .reply = room()}).empty());
  Chunk two = room();
  two.segments.push_back(room().segments[0]);
  CHECK(call(6, {.writes = {two}}).empty());
  CHECK(call(7, {.reads = {{.position = 12, .chunk = read()}}, .reply = room()}).empty());
}

TEST_CASE("no handle is invalidated for a client that did not ask for it, nor by a refusal") {
  Rig rig;
  rig.start();
  const auto place = [&] { return Chunk{{rig.wire->expose(std::vector<std::byte>(64))}}; };
  rig.call(1, {.writes = {place()}});
  rig.answer(1, rig.payload(pattern(64)));
  CHECK(rig.reply().start.procedure == 0);
  CHECK(rig.wire->invalidated.empty());
  rig.wire->may_invalidate = true;
  rig.call(2, {.writes = {place()}});
  rig.answer(2, rig.payload(pattern(65)));
  CHECK(rig.reply().refused == Refused::kChunk);
  CHECK(rig.wire->invalidated.empty());
}

TEST_CASE("a client that names a handle which it does not have loses its connection") {
  Rig rig;
  rig.wire->may_invalidate = true;
  rig.start();
  Segment nowhere = rig.wire->expose(std::vector<std::byte>(64));
  nowhere.handle += 1000;
  rig.call(1, {.reply = {{{nowhere}}}});
  rig.answer(1);
  CHECK(rig.wire->ended());
}

TEST_CASE("a Write chunk that is not used comes back empty") {
  Rig rig;
  rig.start();
  rig.call(1, {.writes = {rig.exposed(4096, 2)}});
  rig.answer(1);
  const Reply reply = rig.reply();
  REQUIRE(reply.chunks.writes.size() == 1);
  CHECK(reply.chunks.writes[0].segments.size() == 2);
  CHECK(reply.chunks.writes[0].size() == 0);
  CHECK(rig.wire->written == 0);
}

TEST_CASE("an answer too large to go inline goes to the Reply chunk") {
  Rig rig;
  rig.start();
  rig.call(1, {.reply = rig.exposed(20'000, 2)});
  rig.answer(1, {}, 3000);
  const Reply reply = rig.reply();
  CHECK(reply.start.procedure == kNoMessage);
  CHECK(reply.message.empty());
  REQUIRE(reply.chunks.reply);
  CHECK(reply.chunks.reply->size() == 12'004);
  CHECK(rig.content(*reply.chunks.reply).at(3) == std::byte{1});
}

TEST_CASE("an answer that has no place is an error, and the connection goes on") {
  Rig rig;
  rig.start();
  rig.call(1);
  rig.answer(1, {}, 3000);  // no Reply chunk
  CHECK(rig.reply().refused == Refused::kChunk);
  rig.call(2, {.reply = rig.exposed(8000)});
  rig.answer(2, {}, 3000);  // too small
  CHECK(rig.reply().refused == Refused::kChunk);
  rig.call(3, {.writes = {rig.exposed(4095)}});
  rig.answer(3, rig.payload(pattern(4096)));
  CHECK(rig.reply().refused == Refused::kChunk);
  rig.call(4);
  rig.answer(4);
  CHECK(rig.reply().start.xid == 4);
  CHECK(rig.wire->written == 0);
}

TEST_CASE("headers that cannot be used are refused, each by its number") {
  Rig rig;
  rig.start();
  const auto refused = [&rig](const Start& start, const Chunks& chunks,
                              std::span<const std::byte> inline_part) {
    rig.send(start, chunks, inline_part);
    const Reply reply = rig.reply();
    CHECK(reply.start.xid == start.xid);
    return reply.refused;
  };
  const Segment segment = rig.wire->expose(pattern(64));
  const auto read_at = [&](std::uint32_t position) {
    return Chunks{.reads = {{.position = position, .chunk = {{segment}}}}};
  };
  const auto some = message(9, {64});
  CHECK(refused({.xid = 1, .version = 2}, {}, some.bytes()) == Refused::kVersion);
  CHECK(refused({.xid = 2, .procedure = 2}, {}, some.bytes()) == Refused::kChunk);
  CHECK(refused({.xid = 3, .procedure = 77}, {}, some.bytes()) == Refused::kChunk);
  CHECK(refused({.xid = 4}, read_at(0), some.bytes()) == Refused::kChunk);
  CHECK(refused({.xid = 5}, read_at(10), some.bytes()) == Refused::kChunk);  // not of words
  CHECK(refused({.xid = 6}, read_at(16), some.bytes()) == Refused::kChunk);  // behind the end
  CHECK(refused({.xid = 7, .procedure = 1}, {}, {}) == Refused::kChunk);
  // More than a record may be.
  Chunks huge = read_at(12);
  huge.reads[0].chunk.segments.assign(4, {.handle = 1, .length = 1U << 20, .offset = 0});
  CHECK(refused({.xid = 8}, huge, some.bytes()) == Refused::kChunk);
  CHECK(rig.wire->read == 0);
  CHECK(rig.wire->receives() == 32);
  rig.call(10);
  CHECK(rig.service->records.size() == 1);
}

TEST_CASE("errors and the like of a client are not answered") {
  Rig rig;
  rig.start();
  for (int i = 0; i < 100; ++i) {
    rig.send({.xid = 1, .procedure = static_cast<std::uint32_t>(Procedure::kError)}, {}, {});
    rig.send({.xid = 1, .procedure = static_cast<std::uint32_t>(Procedure::kDone)}, {}, {});
  }
  CHECK(rig.wire->sent.empty());
  CHECK(rig.wire->receives() == 32);
  CHECK_FALSE(rig.service->closed);
}

TEST_CASE("less than a header, and a message of another number, end the connection") {
  Rig rig;
  rig.start();
  SECTION("less than a header") { rig.wire->send(pattern(15)); }
  SECTION("another number") { rig.send({.xid = 1}, {}, message(2).bytes()); }
  SECTION("no message") { rig.send({.xid = 1}, {}, {}); }
  SECTION("a call again that is not answered") {
    rig.call(1);
    rig.call(1);
  }
  rig.turn();
  CHECK(rig.service->closed == Errc::kProtocol);
}

TEST_CASE("a client that keeps to its credits always finds a receive") {
  Rig rig({.credits = 4});
  rig.start();
  std::uint32_t next = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 4; ++i) rig.call(next + static_cast<std::uint32_t>(i));
    REQUIRE(rig.service->records.size() == 4);
    rig.service->records.clear();
    for (int i = 0; i < 4; ++i) {
      rig.answer(next++);
      CHECK(rig.reply().start.credits == 4);
    }
  }
  CHECK_FALSE(rig.service->closed);
  CHECK(rig.wire->receives() == 4);
}

TEST_CASE("one call more than there are credits ends the connection") {
  Rig rig({.credits = 4});
  rig.start();
  for (std::uint32_t xid = 0; xid < 4; ++xid) rig.call(xid);
  CHECK_FALSE(rig.service->closed);
  rig.call(4);
  CHECK(rig.service->closed == Errc::kProtocol);
  CHECK(rig.service->records.size() == 4);
}

TEST_CASE("while it is paused nothing is delivered, fetched or not") {
  Rig rig;
  rig.start();
  rig.channel->pause();
  const Segment segment = rig.wire->expose(pattern(64));
  rig.call(1);
  rig.call(2, {.reads = {{.position = 12, .chunk = {{segment}}}}}, {64});
  CHECK(rig.service->records.empty());
  rig.channel->resume();
  rig.turn();
  CHECK(rig.service->records.size() == 2);
}

TEST_CASE("memory that is not there, or is withdrawn, ends only the connection") {
  Rig rig;
  rig.start();
  SECTION("to read from") {
    Segment segment = rig.wire->expose(pattern(64));
    rig.wire->withdraw(segment.handle);
    rig.call(1, {.reads = {{.position = 12, .chunk = {{segment}}}}}, {64});
  }
  SECTION("that is shorter than it is said to be") {
    Segment segment = rig.wire->expose(pattern(64));
    segment.length = 65;
    rig.call(1, {.reads = {{.position = 12, .chunk = {{segment}}}}}, {65});
  }
  SECTION("to write to") {
    const Chunk place = rig.exposed(64);
    rig.call(1, {.writes = {place}});
    rig.wire->withdraw(place.segments[0].handle);
    rig.answer(1, rig.payload(pattern(64)));
  }
  rig.turn();
  CHECK(rig.service->closed == Errc::kUnreachable);
}

TEST_CASE("chunks that are never read end the connection in time") {
  Rig rig({.fetch_deadline = Milliseconds{40}});
  rig.start();
  const Segment segment = rig.wire->expose(pattern(64));
  rig.wire->hold = true;
  rig.call(1, {.reads = {{.position = 12, .chunk = {{segment}}}}}, {64});
  CHECK(rig.wait([&] { return rig.service->closed.has_value(); }));
  CHECK(rig.service->closed == Errc::kTimedOut);
  CHECK(rig.service->records.empty());
}

TEST_CASE("a client that takes no answers is given up, and costs no more than so much") {
  Rig rig({.credits = 4, .send_deadline = Milliseconds{60}});
  rig.start();
  rig.wire->hold = true;
  // Each would be answered with an error, and gives its receive back.
  for (int i = 0; i < 500 && !rig.wire->ended(); ++i) rig.send({.xid = 1, .version = 9}, {}, {});
  CHECK(rig.pool.in_use_bytes() < std::size_t{256} << 10);
  CHECK(rig.wait([&] { return rig.service->closed.has_value(); }));
}

TEST_CASE("answers that a client does not take hold no more than so much, though it calls on") {
  Rig rig({.credits = 4});
  rig.wire->max_work = 256;
  rig.start();
  rig.wire->hold = true;
  constexpr std::size_t kSize = std::size_t{64} << 10;
  std::size_t most = 0;
  for (std::uint32_t xid = 0; xid < 200 && rig.wire->receives() > 0; ++xid) {
    rig.call(xid, {.writes = {rig.exposed(kSize)}});
    if (std::exchange(rig.service->records, {}).empty()) continue;
    rig.answer(xid, rig.payload(pattern(kSize)));
    most = std::max(most, rig.pool.in_use_bytes());
  }
  CHECK_FALSE(rig.wire->ended());
  CHECK(most < 9 * kSize);
}

TEST_CASE("of a client whose answers wait nothing is taken from 8 MiB on") {
  Rig rig;
  rig.wire->max_work = 256;
  rig.start();
  rig.wire->hold = true;
  for (std::uint32_t xid = 0; xid < 20; ++xid) {
    rig.call(xid, {.writes = {rig.exposed(kMebibyte)}});
    if (rig.service->records.size() <= xid) break;
    rig.answer(xid, rig.payload(pattern(kMebibyte)));
  }
  CHECK(rig.service->records.size() == 8);
}

TEST_CASE("a stranger that takes no answers is answered a few calls") {
  Rig rig({.standing = Standing::kStranger});
  rig.wire->max_work = 256;
  rig.start();
  rig.wire->hold = true;
  for (std::uint32_t xid = 0; xid < 30; ++xid) {
    rig.call(xid);
    if (rig.service->records.size() > xid) rig.answer(xid);
  }
  CHECK(rig.service->records.size() == 8);
}

TEST_CASE("a client that takes its answers ever later is given up, though it takes some") {
  Rig rig({.send_deadline = Milliseconds{100}});
  rig.wire->max_work = 64;
  rig.start();
  std::uint32_t xid = 0;
  const auto call = [&] {
    rig.call(++xid, {.writes = {rig.exposed(4096)}});
    rig.answer(xid, rig.payload(pattern(4096)));
  };
  rig.wire->hold = true;
  for (int i = 0; i < 12; ++i) call();
  rig.wire->hold = false;
  for (int i = 0; i < 50 && !rig.service->closed; ++i) {
    call();  // the oldest of those that wait is done for it
    rig.context.restart();
    rig.context.run_for(std::chrono::milliseconds(20));
  }
  CHECK(rig.service->closed == Errc::kTimedOut);
}

TEST_CASE("while memory is short a client takes its answers, or is given up soon") {
  Rig rig({.fetch_deadline = Milliseconds{400},
           .standing = Standing::kClient,
           .slow_deadline = Milliseconds{100}},
          16 * kMebibyte);
  rig.start();
  const bool shortage = GENERATE(false, true);
  std::vector<Buffer> others;
  while (shortage && !is_short(rig.pool)) {
    others.push_back(rig.pool.allocate(kMebibyte).value());
  }
  rig.wire->hold = true;
  rig.call(1, {.writes = {rig.exposed(kMebibyte)}});
  rig.answer(1, rig.payload(pattern(kMebibyte)));
  CHECK(rig.wait([&] { return rig.service->closed.has_value(); }) == shortage);
}

TEST_CASE("answers that are not taken end the connection in time") {
  Rig rig({.send_deadline = Milliseconds{40}});
  rig.start();
  rig.wire->hold = true;
  rig.call(1);
  rig.answer(1);
  CHECK(rig.channel->queued_bytes() > 0);
  CHECK(rig.wait([&] { return rig.service->closed.has_value(); }));
  CHECK(rig.service->closed == Errc::kTimedOut);
}

TEST_CASE("who says nothing is given up") {
  Rig rig({.idle_deadline = Milliseconds{40}});
  rig.start();
  CHECK(rig.wait([&] { return rig.service->closed.has_value(); }));
  CHECK(rig.service->closed == Errc::kTimedOut);
}

TEST_CASE("who waits for an answer is not idle, and is again when it has it") {
  Rig rig({.idle_deadline = Milliseconds{40}});
  rig.service->awaited = true;
  rig.start();
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  CHECK(rig.wait([&] { return std::chrono::steady_clock::now() > end; }));
  CHECK_FALSE(rig.service->closed);
  rig.service->awaited = false;
  CHECK(rig.wait([&] { return rig.service->closed.has_value(); }));
  CHECK(rig.service->closed == Errc::kTimedOut);
}

TEST_CASE("without memory calls and answers wait, and go on when there is some") {
  Rig rig({}, 8 * kMebibyte);
  rig.start();
  std::vector<Buffer> all;
  const auto fill = [&] {
    while (auto more = rig.pool.allocate(4096)) all.push_back(std::move(*more));
  };
  SECTION("a call") {
    fill();
    rig.call(1, {.reads = {{12, {{rig.wire->expose(pattern(4096))}}}}}, {4096});
    CHECK(rig.service->records.empty());
    all.clear();
    CHECK(rig.wait([&] { return rig.service->records.size() == 1; }));
  }
  SECTION("an answer, be there some for a call meanwhile or not") {
    const std::uint32_t size = GENERATE(4096U, 1U << 20);
    rig.call(1, {.writes = {rig.exposed(size)}});
    fill();
    if (size > 4096) all.resize(all.size() - 16);
    Payload payload;
    payload.append(ZeroRange{size});
    rig.answer(1, std::move(payload));
    if (size > 4096) rig.call(2);
    CHECK((rig.wire->sent.empty() && rig.service->records.size() == (size > 4096 ? 2 : 1)));
    all.clear();
    CHECK(rig.wait([&] { return rig.wire->sent.size() == 1; }));
    CHECK(rig.reply().chunks.writes.at(0).size() == size);
  }
}

TEST_CASE("memory that does not come in time ends the connection") {
  Rig rig({.memory_deadline = Milliseconds{40}}, 8 * kMebibyte);
  rig.start();
  std::vector<Buffer> all;
  while (auto more = rig.pool.allocate(4096)) all.push_back(std::move(*more));
  rig.call(1);
  CHECK(rig.wait([&] { return rig.service->closed.has_value(); }));
  CHECK(rig.service->closed == Errc::kBusy);
}

TEST_CASE("closing with a drain sends what is queued, closing without does not") {
  Rig rig;
  rig.start();
  rig.call(1);
  Message out;
  out.bytes().u32(1);
  out.bytes().u32(1);
  rig.channel->send(std::move(out));
  SECTION("with") {
    rig.channel->close({Errc::kClosed, "down"}, true);
    rig.turn();
    CHECK(rig.wire->sent.size() == 1);
  }
  SECTION("without") {
    rig.channel->close({Errc::kClosed, "down"}, false);
    rig.turn();
    CHECK(rig.wire->sent.empty());
  }
  CHECK(rig.service->closed == Errc::kClosed);
  CHECK(rig.wire->ended());
}

TEST_CASE("nobody waits for an answer without bulk data to be sent, but a few at a time") {
  Rig rig({.send_deadline = Milliseconds{400}});
  rig.wire->max_work = 16;  // four of them
  rig.start();
  const std::size_t idle = rig.pool.in_use_bytes();
  for (std::uint32_t xid = 1; xid <= 4; ++xid) {
    rig.call(xid);
    rig.answer(xid);
    rig.reply();
  }
  CHECK(rig.wire->told == 0);
  CHECK(rig.wire->untold() == 4);
  SECTION("until there are many") {
    rig.call(5);
    rig.answer(5);
    CHECK(rig.wire->told == 1);
  }
  SECTION("until there is bulk data") {
    rig.call(5, {.writes = {rig.exposed(4096)}});
    rig.answer(5, rig.payload(pattern(4096)));
    CHECK(rig.wire->told == 2);  // the Write, too
  }
  SECTION("until the next second") {
    rig.service->records.clear();
    CHECK(rig.wait([&] { return rig.wire->untold() == 0; }));
    CHECK(rig.wire->told == 1);
    CHECK(rig.pool.in_use_bytes() == idle);
    CHECK(rig.channel->queued_bytes() == 0);
  }
  SECTION("until it is closed") {
    rig.channel->close({Errc::kClosed, "down"}, true);
    rig.turn();
    CHECK(rig.service->closed == Errc::kClosed);
    CHECK(rig.wire->told == 1);
  }
  SECTION("until the client closes, which is no failure of theirs") {
    rig.wire->disconnect();
    rig.turn();
    CHECK(rig.service->closed == Errc::kClosed);
    CHECK(rig.wire->told == 0);
  }
  CHECK(rig.wire->untold() == 0);
}

TEST_CASE("a drain that the client does not take ends in time") {
  Rig rig({.drain_deadline = Milliseconds{40}});
  rig.start();
  rig.wire->hold = true;
  rig.call(1);
  rig.answer(1);
  rig.channel->close({Errc::kClosed, "down"}, true);
  CHECK(rig.wait([&] { return rig.service->closed.has_value(); }));
}

TEST_CASE("what a call brings is looked at before anything of it is read") {
  Glance glance = Glance::kTake;
  Limits limits{.standing = Standing::kStranger};
  limits.look = [&glance](std::span<const std::byte>, Standing) { return glance; };
  Rig rig(limits);
  rig.start();
  const Segment segment = rig.wire->expose(pattern(8192));
  const Chunks chunks{.reads = {{.position = 12, .chunk = {{segment}}}}};
  SECTION("taken") {
    const auto standing = GENERATE(Standing::kStranger, Standing::kClient, Standing::kServer);
    if (standing == Standing::kClient) glance = Glance::kRefuse;
    if (standing == Standing::kServer) glance = Glance::kSkip;
    REQUIRE(rig.channel->promote(standing));
    rig.call(1, chunks, {8192});
    REQUIRE(rig.service->bulk.size() == 1);
    CHECK(rig.service->bulk[0].size() == 8192);
  }
  SECTION("skipped") {
    glance = Glance::kSkip;
    REQUIRE(rig.channel->promote(GENERATE(Standing::kStranger, Standing::kClient)));
    rig.call(1, chunks, {8192});
    REQUIRE(rig.service->skipped.size() == 1);
    CHECK(rig.service->skipped[0].size() == 12);
    CHECK(rig.wire->read == 0);
    rig.service->skipped.clear();
  }
  SECTION("refused") {
    glance = Glance::kRefuse;
    rig.call(1, chunks, {8192});
    CHECK(rig.service->closed == Errc::kTooLarge);
    CHECK(rig.wire->read == 0);
  }
}

TEST_CASE("a call that cannot be looked at is read of a server, or if it is small") {
  Limits limits{.standing = Standing::kStranger};
  limits.look = [](std::span<const std::byte>, Standing) { return Glance::kTake; };
  Rig rig(limits);
  rig.start();
  const auto standing = GENERATE(Standing::kStranger, Standing::kClient, Standing::kServer);
  REQUIRE(rig.channel->promote(standing));
  const auto exposed = [&](const xdr::Encoder& whole) {
    return ReadChunk{.position = 0, .chunk = {{rig.wire->expose(bytes_of(whole))}}};
  };
  const auto send = [&](std::uint32_t xid, std::vector<ReadChunk> reads) {
    rig.send({.xid = xid, .credits = 1, .procedure = kNoMessage}, {.reads = std::move(reads)}, {});
  };
  send(1, {exposed(message(1, {5, 6}))});
  REQUIRE(rig.service->records.size() == 1);
  const std::size_t read = rig.wire->read;

  xdr::Encoder large = message(2);
  large.raw(pattern(8192));
  send(2, {exposed(large)});
  const Segment bulk = rig.wire->expose(pattern(4096));
  send(3, {exposed(message(3, {4096})), {.position = 12, .chunk = {{bulk}}}});
  const bool server = standing == Standing::kServer;
  CHECK(rig.service->records.size() == (server ? 3 : 1));
  CHECK((rig.wire->read > read) == server);
  for (const std::uint32_t xid : {2, 3}) {
    if (server) continue;
    const Reply reply = rig.reply();
    CHECK(reply.start.xid == xid);
    CHECK(reply.refused == Refused::kChunk);
  }
  CHECK_FALSE(rig.service->closed);
  if (server) return;
  rig.call(4);  // the connection goes on
  CHECK(rig.service->records.size() == 2);
}

TEST_CASE(
    "while memory is short a stranger's small call is taken, and the head of what is skipped") {
  Limits limits{.standing = Standing::kStranger};
  limits.look = [](std::span<const std::byte>, Standing) { return Glance::kSkip; };
  Rig rig(limits, 16 * kMebibyte);
  rig.place.host = std::make_shared<HostShare>();
  rig.start();
  std::vector<Buffer> others;
  const auto fill = [&](PoolShare share) {
    while (has_room(rig.pool, share, 0)) others.push_back(rig.pool.allocate(kMebibyte).value());
  };
  const auto skipped = [&](std::uint32_t xid) {
    const Segment segment = rig.wire->expose(pattern(8192));
    rig.call(xid, {.reads = {{.position = 12, .chunk = {{segment}}}}}, {8192});
    return std::exchange(rig.service->skipped, {}).size() == 1;
  };
  fill(PoolShare::kStrangers);
  rig.call(1);
  CHECK(rig.service->records.size() == 1);
  CHECK(skipped(2));
  REQUIRE(rig.channel->promote(Standing::kClient));
  fill(PoolShare::kClients);
  CHECK(skipped(3));
}

TEST_CASE("a stranger that stays one is given up") {
  Rig rig({.standing = Standing::kStranger, .stranger_deadline = Milliseconds{40}});
  rig.start();
  CHECK(rig.wait([&] { return rig.service->closed.has_value(); }));
  CHECK(rig.service->closed == Errc::kTimedOut);
}

TEST_CASE("a connection leaves its place once, and is promoted if the place allows it") {
  int gone = 0;
  {
    Rig rig({.standing = Standing::kStranger});
    rig.place = {.gone = [&gone] { ++gone; },
                 .promoted = [](Standing to) { return to == Standing::kClient; }};
    rig.start();
    CHECK(rig.channel->promote(Standing::kClient));
    CHECK_FALSE(rig.channel->promote(Standing::kServer));
    CHECK(gone == 0);
    rig.wire->disconnect();
    rig.turn();
    CHECK(gone == 1);
  }
  CHECK(gone == 1);
}

TEST_CASE("what goes by a connection is counted") {
  Rig rig;
  rig.start();
  const Segment segment = rig.wire->expose(pattern(8192));
  rig.call(1, {.reads = {{.position = 12, .chunk = {{segment}}}}, .writes = {rig.exposed(4096)}},
           {8192});
  rig.answer(1, rig.payload(pattern(1000)));
  rig.call(2);
  CHECK(rig.counts->calls == 2);
  CHECK(rig.counts->bytes_in == 8192);
  CHECK(rig.counts->bytes_out == 1000);
}

TEST_CASE("what is kept for receiving is beside the pool, as far as it goes") {
  std::optional<BufferPool> receives;
  Rig rig({.credits = 32});
  rig.limits.receives = &receives.emplace(std::size_t{16} * 4096, rig.pool.arena());
  rig.start();
  CHECK(rig.pool.in_use_bytes() == std::size_t{16} * 4096);
}

TEST_CASE("while memory is short a host's connections hold no more than its share of it") {
  const auto host = std::make_shared<HostShare>();
  Rig rig({.credits = 4, .standing = Standing::kClient}, 16 * kMebibyte);
  rig.place.host = host;
  rig.start();
  std::vector<Buffer> others;
  while (!is_short(rig.pool)) others.push_back(rig.pool.allocate(kMebibyte).value());
  // They count until they are delivered, which these never are: the device does nothing.
  rig.wire->hold = true;
  const std::size_t size = rig.pool.limit_bytes() / HostShare::kPart - 4096;
  for (std::uint32_t xid = 1; xid <= 2; ++xid) {
    const Segment segment = rig.wire->expose(pattern(size));
    rig.call(xid, {.reads = {{.position = 12, .chunk = {{segment}}}}},
             {static_cast<std::uint32_t>(size)});
  }
  CHECK(host->bytes >= size);
  CHECK(host->bytes < 2 * size);  // the other waits
  rig.wire->disconnect();
  rig.turn();
  CHECK(host->bytes == 0);
}
