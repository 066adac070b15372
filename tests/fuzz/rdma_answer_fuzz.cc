// A hostile server of RPC over RDMA: it follows the input as a script. It answers calls with
// headers that are nearly right and bytes that are none, in any order and number, writes where it
// may and where it may not, changes what it wrote, takes nothing, and goes. The caller sends calls
// of all kinds.
#include <boost/asio/io_context.hpp>
#include <cstring>
#include <deque>
#include <memory>

#include "rpc/transport/rdma/client_channel.h"
#include "rpc/transport/rdma/incoming.h"
#include "tests/fuzz/script.h"
#include "tests/rpc/transport/rdma/fake_pair.h"

using namespace weft;
using namespace weft::rpc;
using namespace weft::rpc::rdma;
using weft::test::must;
using weft::test::Script;

namespace {

constexpr std::size_t kCredits = 4;
constexpr std::size_t kExposed = std::size_t{256} << 10;

BufferPool& pool() {
  // Kept, so that its blocks are.
  static BufferPool kept(
      std::size_t{16} << 20,
      std::make_shared<Arena>(SharedMemory::create(std::size_t{32} << 20, "fuzz").value()));
  return kept;
}

struct Caller final : ChannelUser {
  void on_record(ReceivedRecord record) override {
    const Buffer& head = record.bytes;
    const std::vector<Buffer>& bulk = record.apart.lent;
    must(closed == 0 && !draining && head.size() >= 8);
    must(pool().arena()->memory()->contains(head.span()));
    must(bulk.size() <= 1);
    for (const Buffer& part : bulk) {
      must(!part.empty() && pool().arena()->memory()->contains(part.span()));
      for (const std::byte byte : part.span()) sum += std::to_integer<unsigned>(byte);
    }
    must(++answered <= called);
  }
  void on_closed(const Error& /*why*/) override { ++closed; }
  std::size_t called = 0;
  std::size_t answered = 0;
  bool draining = false;
  int closed = 0;
  unsigned sum = 0;
};

// What the server knows of calls that came.
struct Server final : QueuePairUser {
  void on_completion(Completion completion) override {
    if (completion.work.kind != Work::Kind::kReceive || !completion.done) return;
    auto call = read_incoming(completion.work.memory.span().first(completion.received));
    must(call.has_value() && !call->refused && !call->ignored);
    call->message = {};
    calls.push_back(std::move(*call));
    if (!over) queue->post(std::move(completion.work));
  }
  void on_disconnected(const Error& /*why*/) override { over = true; }
  std::unique_ptr<QueuePair> queue;
  std::deque<Incoming> calls;
  bool over = false;
};

struct Stage {
  explicit Stage(Script& script) {
    pair->max_work = 1U + script.byte() % 8U;
    pair->max_send_bytes = 1024U << (script.byte() % 3U);
    server->queue = pair->serving();
    for (std::size_t i = 0; i < 2 * kCredits; ++i) {
      server->queue->post(
          {.kind = Work::Kind::kReceive, .memory = pool().allocate(4096).value(), .remote = {}});
    }
    server->queue->start(server);
    channel = call_over(context, pool(), pair->calling(), {.credits = kCredits});
    channel->start(caller);
    turn();
  }
  void turn() {
    context.restart();
    for (int i = 0; i < 256 && context.poll_one() > 0; ++i) {
    }
    must(pair->sends <= caller->called);
    must(caller->closed > 0 || pair->sends - caller->answered <= kCredits || caller->draining);
  }

  void call(Script& script) {
    Message out;
    out.bytes().u32(script.byte() % 8);
    out.bytes().u32(0);
    const unsigned kind = script.byte();
    const std::size_t size = kind % 4 == 0 ? script.word() % 70'000 : kind;
    if (kind % 2 == 0 && size > 0) {
      Payload payload;
      payload.append(ZeroRange{size});
      out.splice(std::move(payload));
      out.bytes().raw(std::vector<std::byte>(xdr::padded(size) - size));
    }
    if (kind % 7 == 0) out.bytes().raw(std::vector<std::byte>(8192));
    if (script.byte() % 2 == 0) out.expect_bulk(1 + script.word() % 70'000);
    if (caller->closed == 0 && !caller->draining) ++caller->called;
    channel->send(std::move(out));
  }

  void bend(Script& script, Chunk& chunk) {
    const unsigned kind = script.byte();
    if (chunk.segments.empty()) return;
    Segment& segment = chunk.segments.front();
    if (kind % 8 < 4) segment.length = script.word() % (segment.length + 1);
    if (kind % 32 == 4) segment.length += 1U + script.byte();
    if (kind % 32 == 5) segment.offset += script.byte();
    if (kind % 32 == 6) segment.handle ^= script.byte();
    if (kind % 32 == 7) chunk.segments.push_back(segment);
    if (kind % 64 == 8) chunk.segments.clear();
  }
  void write(Script& script, const Chunk& chunk) {
    if (chunk.segments.empty() || server->over) return;
    Segment to = chunk.segments.front();
    if (to.length == 0 || to.length > 100'000) return;
    auto memory = pool().allocate(to.length);
    must(memory.has_value());
    std::memset(memory->data(), script.byte(), memory->size());
    // Its first words as an answer's.
    if (memory->size() >= 8)
      std::memset(memory->data(), 0, 8), memory->data()[3] = std::byte{script.byte()};
    if (works < pair->max_work) {
      ++works;
      server->queue->post({.kind = Work::Kind::kWrite, .memory = std::move(*memory), .remote = to});
    }
  }
  void send(std::span<const std::byte> bytes) {
    if (bytes.empty() || server->over || works >= pair->max_work) return;
    auto memory = pool().allocate(bytes.size());
    must(memory.has_value());
    std::memcpy(memory->data(), bytes.data(), bytes.size());
    ++works;
    server->queue->post({.kind = Work::Kind::kSend, .memory = std::move(*memory), .remote = {}});
  }
  void answer(Script& script) {
    if (server->calls.empty()) return;
    const std::size_t which = script.byte() % server->calls.size();
    const Incoming call = server->calls[which];
    const bool again = script.byte() % 32 == 0;
    if (!again) server->calls.erase(server->calls.begin() + static_cast<std::ptrdiff_t>(which));
    Start start{.xid = call.xid, .credits = script.byte() % 8U};
    if (start.credits == 0 && script.byte() % 8 != 0) start.credits = 2;
    Chunks chunks{.writes = call.places.writes};
    for (Chunk& chunk : chunks.writes) {
      bend(script, chunk);
      write(script, chunk);
    }
    const unsigned kind = script.byte();
    if (call.places.reply && kind % 2 == 0) {
      chunks.reply = call.places.reply;
      bend(script, *chunks.reply);
      write(script, *chunks.reply);
      start.procedure = 1;
    }
    if (kind % 31 == 0) start.procedure = script.byte() % 6U;
    if (kind % 29 == 0) start.version = script.byte();
    if (kind % 37 == 0) start.xid ^= script.byte();
    xdr::Encoder out;
    encode(out, start);
    if (start.procedure == 4) {
      out.u32(script.byte() % 4U);
    } else {
      encode(out, chunks);
    }
    if (start.procedure == 0) {
      out.u32(kind % 41 == 0 ? start.xid + 1 : start.xid);
      for (int i = script.byte() % 8; i > 0; --i) out.u32(script.byte());
      if (!chunks.writes.empty()) out.u32(static_cast<std::uint32_t>(chunks.writes[0].size()));
    }
    if (script.byte() % 16 == 0) out.rewind(script.byte() % out.size() / 4 * 4);
    send(out.bytes());
  }
  void act(Script& script) {
    switch (script.byte() % 16) {
      case 0: {
        std::vector<std::byte> bytes;
        for (int i = script.byte() % 64; i > 0; --i) bytes.push_back(std::byte{script.byte()});
        return send(bytes);
      }
      case 1:
        if (script.byte() % 8 == 0) pair->hold = true;
        return;
      case 2: channel->pause(); return;
      case 3: channel->resume(); return;
      case 4:
        if (script.byte() % 8 != 0) return;
        caller->draining = true;
        return channel->close({Errc::kClosed, {}}, script.byte() % 2 == 0);
      case 5: {
        // What it wrote changes while it is looked at, as far as a test can do that.
        auto& memory = *pair->exposed().memory;
        std::memset(memory.base() + script.word() % (memory.size() - 64), script.byte(), 64);
        return;
      }
      case 6:
      case 7:
      case 8:
      case 9:
      case 10: return answer(script);
      default: return call(script);
    }
  }

  boost::asio::io_context context{1};
  std::shared_ptr<FakePair> pair = std::make_shared<FakePair>(context, pool(), kExposed);
  std::shared_ptr<Server> server = std::make_shared<Server>();
  std::shared_ptr<Caller> caller = std::make_shared<Caller>();
  std::shared_ptr<Channel> channel;
  std::size_t works = 0;  // of the server, since the last turn
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  {
    Script script{data, size};
    Stage stage(script);
    for (int step = 0; step < 200 && script.left > 0 && stage.caller->closed == 0; ++step) {
      stage.act(script);
      if (script.byte() % 4 == 0 && stage.works < 4) continue;
      stage.turn();
      if (!stage.pair->hold) stage.works = 0;
    }
    stage.pair->cut();
    stage.turn();
    must(stage.caller->closed == 1);
    stage.channel.reset();
    stage.server->queue.reset();
  }
  must(pool().in_use_bytes() == 0);  // no memory is lost, whatever the server did
  return 0;
}
