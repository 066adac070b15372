// The session server as a client sees it on the wire: every row of the table of what a data server
// must implement, and every misuse.
#include "rpc/session/session_server.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "rpc/base/log_limit.h"
#include "tests/rpc/log_lines.h"
#include "tests/rpc/session/wire.h"
#include "tests/rpc/transport/silent_channel.h"

using namespace weft;
using namespace weft::rpc;
using nfs4::Op;
using nfs4::Status;
using test::Wire;

namespace {

nfs4::OpArgs none(Op op) { return {op, nfs4::None{}}; }

// Sends raw bytes after the call header of a COMPOUND; returns the answer's first status.
Status ask_raw(Wire& wire, xdr::Encoder arguments) {
  xdr::Encoder call = Wire::call_header(++wire.xid);
  call.raw(arguments.bytes());
  wire.channel->send(Message(std::move(call)));
  auto result = wire.answer();
  REQUIRE(result);
  return result->status;
}

}  // namespace

TEST_CASE("minor versions 1 and 2 are spoken, others are not") {
  Wire wire;
  CHECK(wire.ask(Wire::list(Wire::exchange_id()), 1).status == Status::NFS4_OK);
  CHECK(wire.ask(Wire::list(Wire::exchange_id()), 2).status == Status::NFS4_OK);
  for (const std::uint32_t minor : {0U, 3U, ~0U}) {
    const auto result = wire.ask(Wire::list(Wire::exchange_id()), minor);
    CHECK(result.status == Status::NFS4ERR_MINOR_VERS_MISMATCH);
    CHECK(result.results.empty());
  }
}

TEST_CASE("a data server says so in EXCHANGE_ID, and no other role") {
  Wire wire;
  auto result = wire.ask(Wire::list(Wire::exchange_id()));
  auto* ok = result.get<nfs4::ExchangeIdOk>(0);
  REQUIRE(ok != nullptr);
  CHECK((ok->flags & nfs4::EXCHGID4_FLAG_MASK_PNFS) == nfs4::EXCHGID4_FLAG_USE_PNFS_DS);
}

TEST_CASE("operations without SEQUENCE are refused unless they may stand alone") {
  Wire wire;
  CHECK(wire.ask(Wire::list(Wire::put_fh("a"))).status == Status::NFS4ERR_OP_NOT_IN_SESSION);
  CHECK(wire.ask(Wire::list(Wire::exchange_id(), Wire::put_fh("a"))).status ==
        Status::NFS4ERR_NOT_ONLY_OP);
  CHECK(wire.ask({}).status == Status::NFS4_OK);
}

TEST_CASE("a write is executed once, and its retransmission gets the same answer") {
  Wire wire(1, Wire::defaults(), nullptr, /*piping=*/GENERATE(false, true));
  wire.establish();
  const auto send = [&] {
    --wire.xid;  // a retransmission keeps its xid
    return wire.ask(Wire::list(wire.sequence(0, 1), Wire::put_fh("a"), wire.write(0, 100)));
  };
  REQUIRE(send().status == Status::NFS4_OK);
  const std::vector<std::byte> first(wire.last.span().begin(), wire.last.span().end());
  REQUIRE(send().status == Status::NFS4_OK);
  const std::vector<std::byte> second(wire.last.span().begin(), wire.last.span().end());
  CHECK(first == second);
  CHECK(wire.memory.executed(Op::OP_WRITE) == 1);
  wire.network.cut(wire.network.connections() - 1);
  wire.connect();
  REQUIRE(send().status == Status::NFS4_OK);  // over another connection too
  CHECK(wire.memory.executed(Op::OP_WRITE) == 1);
  CHECK(wire.server.counts().replays == 2);
}

TEST_CASE("a write whose bytes were left in a pipe is as any other") {
  Wire wire(1, Wire::defaults(), nullptr, /*piping=*/true);
  wire.establish();
  const auto write = [&](std::uint32_t number, std::uint64_t offset, std::size_t size) {
    return wire.ask(
        Wire::list(wire.sequence(0, number), Wire::put_fh("a"), wire.write(offset, size)));
  };
  std::uint32_t number = 0;
  for (const std::size_t size : {4, 8192, 16384, 3, 4097}) {  // the last two come in memory
    auto wrote = write(++number, 10, size);
    REQUIRE(wrote.get<nfs4::WriteOk>(2) != nullptr);
    CHECK(wrote.get<nfs4::WriteOk>(2)->count == size);
  }
  auto read =
      wire.ask(Wire::list(wire.sequence(0, ++number), Wire::put_fh("a"), Wire::read(0, 20000)));
  REQUIRE(read.get<nfs4::ReadOk>(2) != nullptr);
  const auto bytes = read.get<nfs4::ReadOk>(2)->data.flatten().value();
  REQUIRE(bytes.size() == 16394);
  CHECK(std::all_of(bytes.begin() + 10, bytes.end(), [](auto b) { return b == std::byte{0x5a}; }));
  // Refused before it, or out of step: what it brought is thrown away, and the connection goes on.
  const auto session = wire.session;
  wire.session[3] ^= std::byte{1};
  CHECK(write(++number, 0, 8192).status == Status::NFS4ERR_BADSESSION);
  wire.session = session;
  CHECK(write(number + 5, 0, 8192).status == Status::NFS4ERR_SEQ_MISORDERED);
  CHECK(write(number, 0, 8192).status == Status::NFS4_OK);
  CHECK(wire.memory.executed(Op::OP_WRITE) == 6);
}

TEST_CASE("bytes in a pipe count as part of their request") {
  Wire wire(1, Wire::defaults(), nullptr, /*piping=*/true);
  wire.largest_request = 12'000;
  wire.establish();
  const auto write = [&](std::size_t size) {
    return wire.ask(Wire::list(wire.sequence(0, 1), Wire::put_fh("a"), wire.write(0, size))).status;
  };
  CHECK(write(12'000) == Status::NFS4ERR_REQ_TOO_BIG);
  CHECK(write(11'000) == Status::NFS4_OK);
}

TEST_CASE("a read's retransmission is told that its answer is gone") {
  Wire wire;
  wire.establish();
  const auto ops = [&](bool cache, std::uint32_t number) {
    return Wire::list(wire.sequence(0, number, cache), Wire::put_fh("a"), Wire::read(0, 64));
  };
  REQUIRE(wire.ask(Wire::list(wire.sequence(1, 1), Wire::put_fh("a"), wire.write(0, 64))).status ==
          Status::NFS4_OK);
  REQUIRE(wire.ask(ops(false, 1)).status == Status::NFS4_OK);
  const auto again = wire.ask(ops(false, 1));
  CHECK(again.status == Status::NFS4ERR_RETRY_UNCACHED_REP);
  REQUIRE(again.results.size() == 2);
  CHECK(again.results[0].status == Status::NFS4_OK);
  CHECK(again.results[1].op == Op::OP_PUTFH);
  // Asked to, the server keeps it.
  REQUIRE(wire.ask(ops(true, 2)).status == Status::NFS4_OK);
  auto kept = wire.ask(ops(true, 2));
  REQUIRE(kept.get<nfs4::ReadOk>(2) != nullptr);
  CHECK(kept.get<nfs4::ReadOk>(2)->data.size() == 64);
}

TEST_CASE("SEQUENCE out of step is refused and changes nothing") {
  Wire wire;
  wire.establish();
  const auto sequence_status = [&](std::uint32_t slot, std::uint32_t number,
                                   std::uint32_t highest) {
    nfs4::SequenceArgs args{wire.session, number, slot, highest, false};
    return wire.ask(Wire::list(nfs4::OpArgs{Op::OP_SEQUENCE, args})).status;
  };
  CHECK(sequence_status(0, 0, 0) == Status::NFS4ERR_SEQ_MISORDERED);
  CHECK(sequence_status(0, 2, 0) == Status::NFS4ERR_SEQ_MISORDERED);
  CHECK(sequence_status(4, 1, 4) == Status::NFS4ERR_BADSLOT);
  CHECK(sequence_status(0, 1, 4) == Status::NFS4ERR_BAD_HIGH_SLOT);
  CHECK(sequence_status(0, 1, 3) == Status::NFS4_OK);
  CHECK(sequence_status(0, 3, 3) == Status::NFS4ERR_SEQ_MISORDERED);
  CHECK(sequence_status(0, 2, 3) == Status::NFS4_OK);
  // The old number with another number of operations is no retransmission.
  CHECK(wire.ask(Wire::list(wire.sequence(0, 2), Wire::put_fh("a"))).status ==
        Status::NFS4ERR_SEQ_FALSE_RETRY);
  wire.session[3] ^= std::byte{1};
  CHECK(sequence_status(0, 3, 0) == Status::NFS4ERR_BADSESSION);
}

TEST_CASE("operations in the wrong place, or unknown, are answered as such") {
  Wire wire;
  wire.establish();
  std::uint32_t number = 0;
  const auto after_sequence = [&](nfs4::OpArgs op) {
    return wire.ask(Wire::list(wire.sequence(0, ++number), std::move(op))).status;
  };
  CHECK(after_sequence(wire.sequence(1, 1)) == Status::NFS4ERR_SEQUENCE_POS);
  CHECK(after_sequence(none(Op::OP_PUTROOTFH)) == Status::NFS4ERR_NOTSUPP);
  CHECK(after_sequence({Op::OP_BIND_CONN_TO_SESSION, nfs4::BindConnArgs{wire.session}}) ==
        Status::NFS4ERR_NOT_ONLY_OP);
  CHECK(after_sequence({Op::OP_RECLAIM_COMPLETE, nfs4::ReclaimCompleteArgs{}}) == Status::NFS4_OK);
  CHECK(after_sequence({Op::OP_RECLAIM_COMPLETE, nfs4::ReclaimCompleteArgs{}}) ==
        Status::NFS4ERR_COMPLETE_ALREADY);
  const auto raw_op = [&](std::uint32_t op) {
    xdr::Encoder out;
    nfs4::encode(out, nfs4::CompoundHeader{{}, 1, 2});
    out.u32(static_cast<std::uint32_t>(Op::OP_SEQUENCE));
    nfs4::encode(out, std::get<nfs4::SequenceArgs>(wire.sequence(0, ++number).args));
    out.u32(op);
    return ask_raw(wire, std::move(out));
  };
  CHECK(raw_op(34) == Status::NFS4ERR_NOTSUPP);     // SETATTR: defined, not for us
  CHECK(raw_op(60) == Status::NFS4ERR_OP_ILLEGAL);  // COPY: not in minor version 1
  CHECK(raw_op(2) == Status::NFS4ERR_OP_ILLEGAL);
  CHECK(raw_op(static_cast<std::uint32_t>(Op::OP_READ)) == Status::NFS4ERR_BADXDR);
}

TEST_CASE("a session's limits are kept") {
  Wire wire;
  wire.establish();
  std::vector<nfs4::OpArgs> many;
  many.push_back(wire.sequence(0, 1));
  for (int i = 0; i < 8; ++i) many.push_back(Wire::put_fh("a"));
  CHECK(wire.ask(std::move(many)).status == Status::NFS4ERR_TOO_MANY_OPS);
  CHECK(
      wire.ask(Wire::list(wire.sequence(0, 1), Wire::put_fh("a"), wire.write(0, 1 << 20))).status ==
      Status::NFS4ERR_REQ_TOO_BIG);
  // Refused by SEQUENCE, so the number is still to be used.
  CHECK(
      wire.ask(Wire::list(wire.sequence(0, 1), Wire::put_fh("a"), wire.write(0, 1000000))).status ==
      Status::NFS4_OK);
  // A read is cut to what the reply may hold.
  auto read =
      wire.ask(Wire::list(wire.sequence(0, 2), Wire::put_fh("a"), Wire::read(0, UINT32_MAX)));
  REQUIRE(read.get<nfs4::ReadOk>(2) != nullptr);
  CHECK(wire.last.size() <= 1 << 20);
  CHECK(read.get<nfs4::ReadOk>(2)->data.size() == 1000000);
  CHECK(wire.ask(Wire::list(wire.sequence(0, 3, true), Wire::put_fh("a"), Wire::read(0, 5000)))
            .status == Status::NFS4ERR_REP_TOO_BIG_TO_CACHE);
}

TEST_CASE("destroying: the session, then the client") {
  Wire wire;
  wire.establish();
  const nfs4::OpArgs client{Op::OP_DESTROY_CLIENTID, nfs4::DestroyClientIdArgs{wire.client_id}};
  const nfs4::OpArgs session{Op::OP_DESTROY_SESSION, nfs4::DestroySessionArgs{wire.session}};
  const auto copy = [](const nfs4::OpArgs& op) {
    nfs4::OpArgs out{op.op, nfs4::None{}};
    if (const auto* c = std::get_if<nfs4::DestroyClientIdArgs>(&op.args)) out.args = *c;
    if (const auto* s = std::get_if<nfs4::DestroySessionArgs>(&op.args)) out.args = *s;
    return out;
  };
  CHECK(wire.ask(Wire::list(copy(client))).status == Status::NFS4ERR_CLIENTID_BUSY);
  CHECK(wire.ask(Wire::list(wire.sequence(0, 1), copy(session), Wire::put_fh("a"))).status ==
        Status::NFS4ERR_NOT_ONLY_OP);
  CHECK(wire.ask(Wire::list(copy(session))).status == Status::NFS4_OK);
  CHECK(wire.ask(Wire::list(copy(session))).status == Status::NFS4ERR_BADSESSION);
  CHECK(wire.ask(Wire::list(wire.sequence(0, 2))).status == Status::NFS4ERR_BADSESSION);
  CHECK(wire.ask(Wire::list(copy(client))).status == Status::NFS4_OK);
  CHECK(wire.ask(Wire::list(copy(client))).status == Status::NFS4ERR_STALE_CLIENTID);
}

TEST_CASE("BIND_CONN_TO_SESSION binds for requests only") {
  Wire wire;
  wire.establish();
  wire.connect();
  nfs4::BindConnArgs args{wire.session, nfs4::BindDirection::FORE_OR_BOTH, false};
  auto bound = wire.ask(Wire::list(nfs4::OpArgs{Op::OP_BIND_CONN_TO_SESSION, args}));
  REQUIRE(bound.get<nfs4::BindConnOk>(0) != nullptr);
  CHECK(bound.get<nfs4::BindConnOk>(0)->direction == 1);
  args.direction = nfs4::BindDirection::BACK;
  CHECK(wire.ask(Wire::list(nfs4::OpArgs{Op::OP_BIND_CONN_TO_SESSION, args})).status ==
        Status::NFS4ERR_INVAL);
  args.session[0] ^= std::byte{1};
  CHECK(wire.ask(Wire::list(nfs4::OpArgs{Op::OP_BIND_CONN_TO_SESSION, args})).status ==
        Status::NFS4ERR_BADSESSION);
}

TEST_CASE("a probe for another program is answered, and the connection stays") {
  Wire wire;
  xdr::Encoder probe;
  encode_call(probe, 77, 400122, 1, 0, nullptr);
  wire.channel->send(Message(std::move(probe)));
  REQUIRE(wire.network.run());
  REQUIRE(wire.inbox->records.size() == 1);
  xdr::Decoder in(wire.inbox->records.front().span());
  CHECK(*read_reply_xid(in) == 77);
  CHECK(read_reply_status(in).error() == Errc::kNotSupported);
  wire.inbox->records.clear();
  CHECK_FALSE(wire.inbox->closed);
  CHECK(wire.ask(Wire::list(Wire::exchange_id())).status == Status::NFS4_OK);
}

TEST_CASE("bytes that are no call end the connection") {
  Wire wire;
  xdr::Encoder junk;
  junk.u32(1);
  junk.u32(1);  // a reply
  wire.channel->send(Message(std::move(junk)));
  REQUIRE(wire.network.run());
  CHECK(wire.inbox->closed);
  CHECK(wire.server.counts().connections == 0);
}

namespace {

// Holds every operation until told to let go.
class HoldingHandler final : public OpHandler {
 public:
  void execute(Compound& compound, nfs4::OpArgs op, OpDone done) override {
    static_cast<void>(compound);
    held.emplace_back(op.op, std::move(done));
  }
  void release_all() {
    for (auto& [op, done] : std::exchange(held, {})) {
      done({op, Status::NFS4_OK, nfs4::None{}, 0});
    }
  }
  std::vector<std::pair<Op, OpDone>> held;
};

}  // namespace

TEST_CASE("a retransmission of a request still running is not run twice") {
  HoldingHandler handler;
  Wire wire(1, Wire::defaults(), &handler);
  wire.establish();
  const auto ops = [&] { return Wire::list(wire.sequence(0, 1), Wire::put_fh("a")); };
  wire.send(ops());
  CHECK_FALSE(wire.answer());
  wire.send(ops());
  CHECK_FALSE(wire.answer());
  CHECK(handler.held.size() == 1);
  CHECK(wire.ask(Wire::list(wire.sequence(0, 2))).status == Status::NFS4ERR_SEQ_MISORDERED);
  handler.release_all();
  for (int transmission = 0; transmission < 2; ++transmission) {
    const auto result = wire.answer();
    REQUIRE(result);
    CHECK(result->status == Status::NFS4_OK);
  }
  CHECK(wire.ask(ops()).status == Status::NFS4_OK);
  CHECK(handler.held.empty());
}

TEST_CASE("a connection is awaited while a request of it runs") {
  HoldingHandler handler;
  Wire wire(1, Wire::defaults(), &handler);
  wire.establish();
  const std::size_t connection = wire.network.connections() - 1;
  CHECK_FALSE(wire.network.awaited(connection));
  wire.send(Wire::list(wire.sequence(0, 1), Wire::put_fh("a")));
  CHECK_FALSE(wire.answer());
  CHECK(wire.network.awaited(connection));
  handler.release_all();
  CHECK(wire.answer());
  CHECK_FALSE(wire.network.awaited(connection));
}

TEST_CASE("a request sent again over another connection while it runs is answered there") {
  HoldingHandler handler;
  Wire wire(1, Wire::defaults(), &handler);
  wire.establish();
  const bool lost = GENERATE(true, false);
  wire.send(Wire::list(wire.sequence(0, 1), Wire::put_fh("a")));
  CHECK_FALSE(wire.answer());
  for (int again = 0; again < 2; ++again) {
    if (lost) wire.network.cut(wire.network.connections() - 1);
    REQUIRE(wire.network.run());
    wire.connect();
    wire.send(Wire::list(wire.sequence(0, 1), Wire::put_fh("a")));
    CHECK_FALSE(wire.answer());
  }
  CHECK(handler.held.size() == 1);
  CHECK(wire.server.counts().running == 3);
  handler.release_all();
  const auto result = wire.answer();
  REQUIRE(result);
  xdr::Decoder reply(wire.last.span());
  CHECK(read_reply_xid(reply).value() == wire.xid);  // the newest one's
  CHECK(result->status == Status::NFS4_OK);
  CHECK(result->results.size() == 2);
  CHECK_FALSE(wire.answer());
  CHECK(wire.server.counts().running == 0);
  CHECK(wire.ask(Wire::list(wire.sequence(0, 2))).status == Status::NFS4_OK);
}

TEST_CASE("a request is answered on its connection though an older one's bytes are read later") {
  HoldingHandler handler;
  Wire wire(1, Wire::defaults(), &handler);
  wire.establish();
  const auto send = [&] {
    wire.send(Wire::list(wire.sequence(0, 1), Wire::put_fh("a")));
    CHECK_FALSE(wire.answer());
  };
  send();
  const auto older = wire.channel;
  const auto older_inbox = wire.inbox;
  wire.connect();
  const auto newest = wire.channel;
  const auto newest_inbox = wire.inbox;
  send();
  wire.channel = older;
  wire.inbox = older_inbox;
  send();
  handler.release_all();
  REQUIRE(wire.network.run());
  CHECK(newest_inbox->records.size() == 1);
  CHECK(older_inbox->records.size() == 2);
  CHECK(wire.server.counts().running == 0);
}

TEST_CASE("what waits for another's reply holds no memory for what it brought") {
  HoldingHandler handler;
  Wire wire(1, Wire::defaults(), &handler);
  wire.establish();
  constexpr std::size_t kSize = 500'000;
  const auto send = [&] {
    wire.send(Wire::list(wire.sequence(0, 1), wire.write(0, kSize)));
    CHECK_FALSE(wire.answer());
  };
  send();
  const std::size_t one = wire.pool.in_use_bytes();
  CHECK(one >= kSize);
  wire.network.cut(0);
  wire.connect();
  send();
  CHECK(wire.pool.in_use_bytes() == one);
  for (auto& [op, done] : std::exchange(handler.held, {})) {
    done(nfs4::failed(op, Status::NFS4ERR_IO));
  }
  const auto result = wire.answer();
  REQUIRE(result);
  CHECK(result->status == Status::NFS4ERR_IO);
}

TEST_CASE("a reply is kept when the connection that took it over is lost as well") {
  HoldingHandler handler;
  Wire wire(1, Wire::defaults(), &handler);
  wire.establish();
  const auto ops = [&] { return Wire::list(wire.sequence(0, 1), Wire::put_fh("a")); };
  wire.send(ops());
  CHECK_FALSE(wire.answer());
  wire.network.cut(0);
  wire.connect();
  wire.send(ops());
  CHECK_FALSE(wire.answer());
  wire.network.cut(1);
  REQUIRE(wire.network.run());
  handler.release_all();
  wire.connect();
  CHECK(wire.ask(ops()).status == Status::NFS4_OK);
  CHECK(wire.server.counts().running == 0);
  CHECK(wire.server.counts().connections == 1);
}

TEST_CASE("a request whose connection went away still ends, and its answer is kept") {
  HoldingHandler handler;
  Wire wire(1, Wire::defaults(), &handler);
  wire.establish();
  wire.send(Wire::list(wire.sequence(0, 1), Wire::put_fh("a")));
  CHECK_FALSE(wire.answer());
  wire.network.cut(0);
  REQUIRE(wire.network.run());
  wire.connect();
  handler.release_all();
  CHECK(wire.ask(Wire::list(wire.sequence(0, 1), Wire::put_fh("a"))).status == Status::NFS4_OK);
  CHECK(handler.held.empty());
  CHECK(wire.server.counts().running == 0);
}

TEST_CASE("a client whose request runs for longer than a lease keeps its session") {
  using std::chrono::seconds;
  HoldingHandler handler;
  SessionServerOptions options = Wire::defaults();
  options.lease = seconds(90);
  Wire wire(1, options, &handler);
  wire.establish();
  const auto ops = [&] { return Wire::list(wire.sequence(0, 1), Wire::put_fh("a")); };
  wire.send(ops());
  CHECK_FALSE(wire.answer());
  wire.clock.advance(seconds(200));
  wire.server.expire();
  CHECK(wire.server.counts().sessions == 1);
  // It is not carried out again, neither while it runs nor after.
  wire.network.cut(wire.network.connections() - 1);
  REQUIRE(wire.network.run());
  wire.connect();
  wire.send(ops());
  CHECK_FALSE(wire.answer());
  wire.clock.advance(seconds(200));
  wire.server.expire();
  handler.release_all();
  REQUIRE(wire.answer());
  // The lease counts from the end.
  wire.clock.advance(seconds(90));
  wire.server.expire();
  CHECK(wire.ask(ops()).status == Status::NFS4_OK);
  CHECK(handler.held.empty());
  wire.clock.advance(seconds(91));
  wire.server.expire();
  CHECK(wire.server.counts().sessions == 0);
  CHECK(wire.server.counts().clients == 0);
}

TEST_CASE("too many running compounds hold back reading, and it goes on after") {
  HoldingHandler handler;
  auto options = Wire::defaults();
  options.max_running_per_connection = 2;
  Wire wire(1, options, &handler);
  wire.establish();
  for (std::uint32_t slot = 0; slot < 4; ++slot) {
    wire.send(Wire::list(wire.sequence(slot, 1), Wire::put_fh("a")));
  }
  CHECK_FALSE(wire.answer());
  CHECK(handler.held.size() == 2);
  int answers = 0;
  for (int i = 0; i < 4; ++i) {
    handler.release_all();
    while (wire.answer()) ++answers;
  }
  CHECK(answers == 4);
}

TEST_CASE("a new connection's large record is a server's if its session is") {
  std::uint64_t key = 0;
  SessionServerOptions options = Wire::defaults();
  options.server_key = [&key](const nfs4::ExchangeIdArgs&) { return key; };
  Wire wire(1, options);
  const auto glance = [&] {
    Message call(Wire::call_header(++wire.xid));
    nfs4::encode_compound(call, 1, Wire::list(wire.sequence(0, 1), Wire::put_fh("a")));
    return wire.server.look_at(call.bytes().bytes(), Standing::kStranger);
  };
  CHECK(glance() == Glance::kSkip);  // nobody's
  wire.establish();
  CHECK(glance() == Glance::kTake);
  key = 1;
  wire.establish("partner");
  CHECK(glance() == Glance::kTakeOfServer);
}

TEST_CASE("a server's session ends with its key, when what runs has been answered") {
  HoldingHandler handler;
  std::uint64_t key = 1;
  SessionServerOptions options = Wire::defaults();
  options.server_key = [&key](const nfs4::ExchangeIdArgs&) { return key; };
  Wire wire(1, options, &handler);
  wire.establish("partner");
  const auto runs = [&] { return Wire::list(wire.sequence(0, 1), Wire::put_fh("a")); };
  const auto asks = [&] { return wire.ask(Wire::list(wire.sequence(1, 1))).status; };
  wire.send(runs());
  CHECK_FALSE(wire.answer());
  key = 2;
  wire.server.keys_changed(std::span(&key, 1));
  CHECK(asks() == Status::NFS4ERR_DELAY);
  wire.send(runs());  // once more
  wire.server.expire();
  CHECK_FALSE(wire.answer());
  CHECK(handler.held.size() == 1);
  handler.release_all();
  for (int transmission = 0; transmission < 2; ++transmission) {
    const auto result = wire.answer();
    REQUIRE(result);
    CHECK(result->status == Status::NFS4_OK);
  }
  CHECK(asks() == Status::NFS4ERR_DELAY);
  CHECK(wire.ask(runs()).status == Status::NFS4_OK);  // its answer is kept
  wire.server.expire();
  CHECK(asks() == Status::NFS4ERR_BADSESSION);
  wire.establish("partner");
  CHECK(asks() == Status::NFS4_OK);
  wire.server.keys_changed(std::span(&key, 1));
  CHECK(wire.ask(Wire::list(wire.sequence(1, 2))).status == Status::NFS4_OK);
}

TEST_CASE("a client whose handle was taken keeps its place, another gives it to who comes") {
  SessionServerOptions options = Wire::defaults();
  options.max_clients = 1;
  Wire wire(1, options);
  wire.establish("first");
  CHECK(wire.ask(Wire::list(wire.sequence(0, 1))).status == Status::NFS4_OK);
  wire.establish("second");
  CHECK(wire.ask(Wire::list(wire.sequence(0, 1), Wire::put_fh("a"))).status == Status::NFS4_OK);
  CHECK(wire.ask(Wire::list(Wire::exchange_id("third"))).status == Status::NFS4ERR_DELAY);
}

TEST_CASE("strangers do not fill the log") {
  test::LogLines log;
  Wire wire;
  const auto introduce = [&wire](int times) {
    for (int i = 0; i < times; ++i) {
      const auto found = wire.ask(Wire::list(Wire::exchange_id("client " + std::to_string(i))));
      CHECK(found.results.size() == 1);
      CHECK(wire.ask(Wire::list(wire.create(4711, 1))).status == Status::NFS4ERR_STALE_CLIENTID);
      wire.network.cut(wire.network.connections() - 1);
      REQUIRE(wire.network.run());
      wire.connect();
    }
  };
  const auto lines_of = [](const std::vector<std::string>& lines, std::string_view event) {
    return std::ranges::count_if(lines,
                                 [&](const std::string& line) { return line.contains(event); });
  };
  introduce(1000);
  const auto lines = log.take();
  for (const auto* event : {"event=exchange_id", "event=create_session", "event=connection_lost"}) {
    INFO(event);
    CHECK(lines_of(lines, event) <= static_cast<std::ptrdiff_t>(LogLimit::kAtOnce));
    CHECK(lines_of(lines, event) >= 1);
  }
  wire.clock.advance(LogLimit::kForOne);
  introduce(1);
  CHECK(lines_of(log.take(), "left_out=900") >= 2);
}

TEST_CASE("what a stranger calls itself stays within its quotes in the log") {
  test::LogLines log;
  Wire wire;
  auto op = Wire::exchange_id();
  std::get<nfs4::ExchangeIdArgs>(op.args).impl =
      nfs4::ImplId{.domain = "test", .name = "a\"\nerror event=all_is_lost b=\"", .date = {}};
  CHECK(wire.ask(Wire::list(std::move(op))).status == Status::NFS4_OK);
  std::vector<std::string> said;
  for (const std::string& line : log.take()) {
    CHECK_FALSE(line.starts_with("error"));
    if (line.contains("event=exchange_id")) said.push_back(line);
  }
  REQUIRE(said.size() == 1);
  CHECK(said[0].ends_with(R"(impl="a\x22\x0aerror event=all_is_lost b=\x22")"));
}

TEST_CASE("who connects while the server goes down is closed, and goes with it") {
  std::weak_ptr<Channel> gone;
  {
    Wire wire;
    wire.server.drain([] {});
    const auto late = std::make_shared<test::SilentChannel>();
    gone = late;
    wire.server.serve(late);
    CHECK(late->closed == Errc::kClosed);
  }
  CHECK(gone.expired());
}

TEST_CASE("what comes by each transport is counted apart") {
  Wire wire;
  wire.establish();
  const auto by = [&wire](Via via) {
    return wire.server.counts().by[static_cast<std::size_t>(via)];
  };
  const auto before = by(Via::kTcp);
  CHECK(before.connections == 1);
  wire.ask(Wire::list(wire.sequence(0, 1), Wire::put_fh("a"), wire.write(0, 5000)));
  const auto after = by(Via::kTcp);
  CHECK(after.calls == before.calls + 1);
  CHECK(after.bytes_in > before.bytes_in + 5000);
  CHECK(after.bytes_out > before.bytes_out);
  CHECK(after.bytes_out < before.bytes_out + 1000);
  CHECK(by(Via::kRdma).connections + by(Via::kRdma).calls == 0);
  wire.server.serve(std::make_shared<test::SilentChannel>(), Via::kRdma);
  CHECK(by(Via::kRdma).connections == 1);
  wire.network.cut(wire.network.connections() - 1);
  CHECK(wire.network.run());
  CHECK(by(Via::kTcp).connections == 0);
}

TEST_CASE("what a client sent before it restarted is not carried out once its new session stands") {
  Wire wire;
  wire.establish();
  const auto first = wire.channel;
  const auto first_inbox = wire.inbox;
  wire.connect();
  auto again = std::make_pair(wire.channel, wire.inbox);
  wire.channel = first;
  wire.inbox = first_inbox;
  std::optional<Status> restarted;
  // The request has its slot when the time is asked for.
  wire.clock.at(1, [&] {
    std::tie(wire.channel, wire.inbox) = again;
    auto exchanged = wire.ask(Wire::list(Wire::exchange_id("client", 2)));
    auto* id = exchanged.get<nfs4::ExchangeIdOk>(0);
    REQUIRE(id != nullptr);
    restarted = wire.ask(Wire::list(wire.create(id->client_id, id->sequence))).status;
    wire.channel = first;
    wire.inbox = first_inbox;
  });
  wire.send(Wire::list(wire.sequence(0, 1), Wire::put_fh("a"), wire.write(0, 10)));
  const auto answer = wire.answer();
  CHECK(restarted == Status::NFS4_OK);
  REQUIRE(answer);
  CHECK(answer->status == Status::NFS4ERR_BADSESSION);
  CHECK(wire.memory.executed(Op::OP_WRITE) == 0);
}
