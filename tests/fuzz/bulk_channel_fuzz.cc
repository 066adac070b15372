// A hostile process at the other end of a BulkChannel: heads and loans that do not fit, calls that
// are none, answers into room that was not lent. First the decoders alone, then a session server
// and a session client over a channel whose peer follows the input as a script.
#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstring>

#include "rpc/base/shared_memory.h"
#include "rpc/onc/rpc_header.h"
#include "rpc/session/session_client.h"
#include "rpc/session/session_server.h"
#include "rpc/transport/shm/bulk_channel.h"
#include "tests/fuzz/script.h"

using namespace weft;
using namespace weft::rpc;
using weft::test::must;
using weft::test::Script;

namespace {

// The shared memory that there would be.
class FakeChannel final : public Channel {
 public:
  explicit FakeChannel(boost::asio::io_context& context) : context_(context) {}
  void start(std::shared_ptr<ChannelUser> to) override { user = std::move(to); }
  void send(Message message) override { last = std::move(message); }
  [[nodiscard]] bool lends(const Buffer& buffer) const override { return !buffer.empty(); }
  void pause() override {}
  void resume() override {}
  void close(Error why, bool) override { end(std::move(why)); }
  void end(Error why) {
    if (std::exchange(closed, true)) return;
    boost::asio::post(context_, [to = std::exchange(user, nullptr), why] {
      if (to != nullptr) to->on_closed(why);
    });
  }
  void post(std::move_only_function<void()> work) override {
    boost::asio::post(context_, std::move(work));
  }
  [[nodiscard]] const std::string& peer() const override { return name_; }
  [[nodiscard]] std::size_t queued_bytes() const override { return 0; }

  std::shared_ptr<ChannelUser> user;
  Message last;
  bool closed = false;

 private:
  boost::asio::io_context& context_;
  const std::string name_ = "fuzz";
};

class Handler final : public OpHandler {
 public:
  void execute(Compound& compound, nfs4::OpArgs op, OpDone done) override {
    if (const auto* read = std::get_if<nfs4::ReadArgs>(&op.args)) {
      must(read->count <= compound.max_read);
      nfs4::ReadOk ok;
      ok.data.append(ZeroRange{read->count});
      return done({op.op, nfs4::Status::NFS4_OK, std::move(ok), 0});
    }
    if (auto* write = std::get_if<nfs4::WriteArgs>(&op.args)) {
      std::size_t size = 0;
      for (const Buffer& part : write->data) {
        size += part.size();
        for (const std::byte byte : part.span()) sum += std::to_integer<unsigned>(byte);
      }
      must(write->piped.empty() && size == write->size() && size <= nfs4::kMaxIoBytes);
      const auto count = static_cast<std::uint32_t>(size);
      return done({op.op, nfs4::Status::NFS4_OK, nfs4::WriteOk{count, write->stable, 1}, 0});
    }
    if (op.op == nfs4::Op::OP_PUTFH) return done({op.op, nfs4::Status::NFS4_OK, nfs4::None{}, 0});
    done(nfs4::failed(op.op, nfs4::Status::NFS4ERR_NOTSUPP));
  }
  unsigned sum = 0;
};

struct Stage {
  Buffer buffer(std::span<const std::byte> bytes) {
    auto out = pool.allocate(bytes.size());
    must(out.has_value());
    if (!bytes.empty()) std::memcpy(out->data(), bytes.data(), bytes.size());
    return std::move(*out);
  }
  // Head and message as one record; the head is right when `honest` says so.
  Buffer record(const BulkHead& head, std::span<const std::byte> message) {
    xdr::Encoder out;
    out.raw(std::as_bytes(std::span(&head, 1)));
    out.raw(message);
    return buffer(out.bytes());
  }
  void turn() {
    context.restart();
    for (int i = 0; i < 64 && context.poll_one() > 0; ++i) {
    }
  }

  static inline BufferPool pool{std::size_t{64} << 20};  // kept, so that its blocks are
  boost::asio::io_context context{1};
  std::shared_ptr<BulkCounts> counts = std::make_shared<BulkCounts>();
  std::shared_ptr<FakeChannel> fake = std::make_shared<FakeChannel>(context);
};

// A call of a session: SEQUENCE right, if asked for, then what the script says.
struct ServerStage : Stage {
  ServerStage() : random(1), server({.server_major_id = "fuzz"}, handler, clock, random) {
    server.serve(serve_bulk(fake, {}, counts));
    nfs4::ExchangeIdArgs id;
    id.owner.assign(4, std::byte{1});
    id.flags = nfs4::EXCHGID4_FLAG_USE_PNFS_DS;
    const auto exchanged = ask({nfs4::Op::OP_EXCHANGE_ID, std::move(id)});
    const auto& known = std::get<nfs4::ExchangeIdOk>(exchanged.ok);
    nfs4::CreateSessionArgs create;
    create.client_id = known.client_id;
    create.sequence = known.sequence;
    create.fore = {0, (1 << 20) + 4096, (1 << 20) + 4096, 4096, 8, 4, std::nullopt};
    create.back = {0, 4096, 4096, 0, 2, 1, std::nullopt};
    session =
        std::get<nfs4::CreateSessionOk>(ask({nfs4::Op::OP_CREATE_SESSION, create}).ok).session;
  }
  nfs4::OpResult ask(nfs4::OpArgs op) {
    Message call = header();
    std::vector<nfs4::OpArgs> ops;
    ops.push_back(std::move(op));
    nfs4::encode_compound(call, 1, std::move(ops));
    fake->user->on_record({.bytes = record({}, call.bytes().bytes())});
    const auto answer = fake->last.bytes().bytes().subspan(sizeof(BulkHead));
    const Buffer bytes = buffer(answer);
    xdr::Decoder in(bytes.span());
    must(read_reply_xid(in).has_value() && read_reply_status(in).has_value());
    auto result = nfs4::decode_compound_result(in, bytes);
    must(result.has_value() && result->results.size() == 1);
    return std::move(result->results[0]);
  }
  Message header() {
    Message out;
    encode_call(out.bytes(), ++xid, nfs4::kProgram, nfs4::kVersion, 1, nullptr);
    return out;
  }
  Message call(Script& script) {
    Message out = header();
    const std::uint32_t kind = script.byte() % 4;
    nfs4::encode(out.bytes(), nfs4::CompoundHeader{{}, 1, kind == 3 ? script.byte() % 6U : 3});
    if (script.byte() % 8 != 0) {
      nfs4::encode(out,
                   {nfs4::Op::OP_SEQUENCE, nfs4::SequenceArgs{session, ++sequence, 0, 0, false}});
    }
    if (kind == 3) {
      while (script.left > 0 && script.byte() % 32 != 0)
        out.bytes().raw({{std::byte{script.byte()}}});
      return out;
    }
    nfs4::encode(out, {nfs4::Op::OP_PUTFH, nfs4::PutFhArgs{}});
    if (kind == 0) {
      nfs4::encode(out, {nfs4::Op::OP_READ, nfs4::ReadArgs{{}, 0, script.word() % 20'000}});
    } else {
      out.bytes().u32(static_cast<std::uint32_t>(nfs4::Op::OP_WRITE));
      nfs4::encode(out.bytes(), nfs4::Stateid{});
      out.bytes().u64(script.word());
      out.bytes().u32(script.byte() % 4U);
      out.bytes().u32(script.byte() % 2 == 0 ? 4096U * (script.byte() % 4U) : script.word());
    }
    return out;
  }
  void act(Script& script) {
    const Message sent = call(script);
    BulkHead head{.flags = script.byte() % 4U};
    std::vector<Buffer> lent;
    for (int i = script.byte() % 4; i > 0; --i) {
      lent.push_back(*pool.allocate(script.byte() % 2 == 0 ? 4096 : 1 + script.byte()));
      std::memset(lent.back().data(), 0, lent.back().size());
    }
    const std::size_t data = lent.size() - std::min<std::size_t>(lent.size(), head.flags & 1);
    for (std::size_t i = 0; i < data; ++i) head.bulk += static_cast<std::uint32_t>(lent[i].size());
    if (script.byte() % 16 == 0) head.bulk ^= script.word();
    fake->user->on_record({.bytes = record(head, sent.bytes().bytes()), .loans = std::move(lent)});
  }

  SeededRandom random;
  ManualClock clock;
  Handler handler;
  SessionServer server;
  nfs4::SessionId session{};
  std::uint32_t xid = 0;
  std::uint32_t sequence = 0;
};

void play_server(Script script) {
  ServerStage stage;
  for (int step = 0; step < 100 && script.left > 0 && stage.fake->user != nullptr; ++step) {
    stage.act(script);
    stage.turn();
  }
  stage.fake->end({Errc::kClosed, {}});
  stage.turn();
}

// What a client is answered. It has one call out with room, and others without.
struct Answers : ChannelUser {
  void on_record(ReceivedRecord record) override {
    std::vector<Buffer>& bulk = record.apart.lent;
    must(record.room.empty() && record.loans.empty());
    if (bulk.empty()) return look(record.bytes.span());
    must(bulk.size() == 1 && bulk[0].size() <= 8192 && !bulk[0].empty());
    look(bulk[0].span());
    xdr::Decoder in(record.bytes.span());
    if (!read_reply_xid(in) || !read_reply_status(in)) return;
    static_cast<void>(nfs4::decode_compound_result(in, record.bytes, std::move(bulk)));
  }
  void on_closed(const Error&) override { ++closed; }
  void look(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) sum += std::to_integer<unsigned>(byte);
  }
  unsigned sum = 0;
  int closed = 0;
};

void play_client(Script script) {
  Stage stage;
  std::shared_ptr<Channel> channel;
  connect_bulk(stage.context, Stage::pool, stage.fake, {}, stage.counts,
               [&](Result<std::shared_ptr<Channel>> made) {
                 if (made) channel = std::move(*made);
               });
  BulkHello hello;
  if (script.byte() % 8 == 0) hello.server[script.byte() % 16] = std::byte{script.byte()};
  stage.fake->user->on_record({.bytes = stage.buffer(std::as_bytes(std::span(&hello, 1)))});
  auto answers = std::make_shared<Answers>();
  if (channel != nullptr) channel->start(answers);
  for (int step = 0; step < 100 && script.left > 0 && stage.fake->user != nullptr; ++step) {
    const std::uint32_t xid = script.byte() % 4;
    if (channel != nullptr && script.byte() % 3 == 0) {
      Message call;
      call.bytes().u32(xid);
      call.expect_bulk(xid % 2 == 0 ? 8192 : 0);
      channel->send(std::move(call));
      continue;
    }
    xdr::Encoder message;
    message.u32(xid);
    for (int i = script.byte() % 64; i > 0; --i) message.raw({{std::byte{script.byte()}}});
    BulkHead head{.bulk = script.byte() % 2 == 0 ? 0 : script.word() % 16'384};
    if (script.byte() % 16 == 0) head.flags = script.word();
    stage.fake->user->on_record({.bytes = stage.record(head, message.bytes())});
    stage.turn();
  }
  stage.fake->end({Errc::kClosed, {}});
  stage.turn();
  must(channel == nullptr || answers->closed == 1);
  channel.reset();
  stage.fake->last = {};
}

void decode_all(std::span<const std::byte> bytes) {
  static_cast<void>(decode_bulk_hello(bytes));
  const std::size_t loans[] = {bytes.size(), 4096};
  for (std::size_t count = 0; count <= 2; ++count) {
    if (auto head = decode_call_head(bytes, std::span(loans).first(count))) {
      must((head->flags & BulkHead::kRoom) == 0 || count > 0);
      static_cast<void>(xid_behind_head(bytes));
    }
  }
  if (auto head = decode_answer_head(bytes, 4096)) must(head->bulk <= 4096);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spdlog::set_level(spdlog::level::off);
  if (size < 2) return 0;
  decode_all(std::as_bytes(std::span(data, size)));
  if ((data[0] & 1) != 0) {
    play_server({data + 1, size - 1});
  } else {
    play_client({data + 1, size - 1});
  }
  must(Stage::pool.in_use_bytes() == 0);  // no page is lost, whatever the peer did
  return 0;
}
