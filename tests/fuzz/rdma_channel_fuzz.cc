// A hostile client of RPC over RDMA: it follows the input as a script. It sends headers that are
// nearly right and bytes that are none, exposes memory and takes it away, does not take answers,
// and goes. The service answers each call with something of the call's choosing.
#include <boost/asio/io_context.hpp>
#include <cstring>
#include <memory>

#include "rpc/base/shared_memory.h"
#include "rpc/transport/rdma/server_channel.h"
#include "tests/fuzz/script.h"
#include "tests/rpc/transport/rdma/fake_device.h"

using namespace weft;
using namespace weft::rpc;
using namespace weft::rpc::rdma;
using weft::test::must;
using weft::test::Script;

namespace {

constexpr std::size_t kCredits = 4;

BufferPool& pool() {
  // Kept, so that its blocks are.
  static BufferPool kept(
      std::size_t{16} << 20,
      std::make_shared<Arena>(SharedMemory::create(std::size_t{32} << 20, "fuzz").value()));
  return kept;
}

// Answers at once, or keeps up to a few calls and answers those first.
struct Service final : ChannelUser {
  void on_record(ReceivedRecord record) override {
    Buffer& head = record.bytes;
    const std::vector<Buffer>& bulk = record.apart.lent;
    must(closed == 0 && head.size() >= 8);
    std::size_t bytes = head.size();
    for (const Buffer& part : bulk) {
      must(!part.empty());
      bytes += part.size();
      for (const std::byte byte : part.span()) sum += std::to_integer<unsigned>(byte);
    }
    must(bytes <= Limits{}.max_record_bytes);
    must(++unanswered <= kCredits);
    calls.push_back(std::move(head));
  }
  void on_closed(const Error& /*why*/) override { ++closed; }

  void answer(Channel& channel) {
    const Buffer call = std::move(calls.front());
    calls.pop_front();
    --unanswered;
    Message out;
    out.bytes().raw(call.span().first(4));
    out.bytes().u32(1);
    const std::size_t wanted = std::to_integer<std::size_t>(call.data()[7]) * 64;
    if (wanted > 0) {
      Payload payload;
      payload.append(ZeroRange{wanted + 1});
      out.splice(std::move(payload));
      out.bytes().raw(std::vector<std::byte>(3));
    }
    channel.send(std::move(out));
  }

  std::deque<Buffer> calls;
  std::size_t unanswered = 0;
  int closed = 0;
  unsigned sum = 0;
};

struct Stage {
  explicit Stage(Script& script) {
    wire->max_work = 1U + script.byte() % 8U;
    wire->may_invalidate = script.byte() % 2 == 0;
    Limits limits{.credits = kCredits};
    const unsigned known = script.byte() % 4;
    if (known < 2) {
      limits.standing = known == 0 ? Standing::kStranger : Standing::kClient;
      limits.look = [](std::span<const std::byte> head, Standing) {
        return static_cast<Glance>(std::to_integer<unsigned>(head[0]) % 3);
      };
    }
    channel = serve(context, pool(), wire->queue_pair(), limits);
    channel->start(service);
    turn();
  }
  void turn() {
    context.restart();
    for (int i = 0; i < 256 && context.poll_one() > 0; ++i) {
    }
    wire->sent.clear();
    must(wire->receives() <= kCredits);
  }

  Segment segment(Script& script) {
    const unsigned kind = script.byte();
    const std::size_t size = kind % 32 == 0 ? script.word() % 70'000 : script.byte() * 4U;
    Segment out = wire->expose(std::vector<std::byte>(std::min<std::size_t>(size, 70'000)));
    if (kind % 8 == 1) out.length = script.word();
    if (kind % 8 == 2) out.offset += script.byte();
    if (kind % 8 == 3) wire->withdraw(out.handle);
    if (kind % 64 == 4) out.offset = UINT64_MAX - out.length;
    return out;
  }
  Chunk chunk(Script& script) {
    Chunk out;
    for (int i = script.byte() % 4; i > 0; --i) out.segments.push_back(segment(script));
    return out;
  }
  void call(Script& script) {
    const std::uint32_t xid = script.byte() % 16;
    Start start{.xid = xid, .credits = 1};
    Chunks chunks;
    const unsigned kind = script.byte();
    xdr::Encoder message;
    message.u32(kind % 61 == 0 ? xid + 1 : xid);
    message.u32(script.byte());
    for (int i = script.byte() % 4; i > 0; --i) message.u32(script.byte());
    if (kind % 4 == 1) {
      start.procedure = 1;
      std::vector<std::byte> bytes(message.bytes().begin(), message.bytes().end());
      chunks.reads.push_back({.position = 0, .chunk = {{wire->expose(std::move(bytes))}}});
    }
    if (kind % 31 == 0) start.procedure = script.byte();
    if (kind % 29 == 0) start.version = script.byte();
    if (script.byte() % 2 == 0) {
      const std::uint32_t at =
          script.byte() % 2 == 0 ? static_cast<std::uint32_t>(message.size()) : script.byte() % 24U;
      if (Chunk bulk = chunk(script); !bulk.segments.empty() && at > 0) {
        chunks.reads.push_back({.position = at, .chunk = std::move(bulk)});
      }
    }
    if (script.byte() % 2 == 0) chunks.writes.push_back(chunk(script));
    if (script.byte() % 2 == 0) chunks.reply = chunk(script);
    xdr::Encoder out;
    encode(out, start);
    encode(out, chunks);
    if (start.procedure != 1) out.raw(message.bytes());
    if (script.byte() % 16 == 0) out.rewind(script.byte() % out.size() / 4 * 4);
    if (out.size() > 0) wire->send(out.bytes());
  }
  void act(Script& script) {
    switch (script.byte() % 16) {
      case 0: {
        std::vector<std::byte> bytes;
        for (int i = script.byte() % 64; i > 0; --i) bytes.push_back(std::byte{script.byte()});
        return wire->send(bytes);
      }
      case 1: wire->hold = true; return;
      case 2: channel->pause(); return;
      case 3: channel->resume(); return;
      case 4:
        if (script.byte() % 8 == 0) channel->close({Errc::kClosed, {}}, script.byte() % 2 == 0);
        return;
      case 5: wire->max_send_bytes = 1024U << (script.byte() % 3U); return;
      case 6: static_cast<void>(channel->promote(Standing::kClient)); return;
      case 7:
      case 8:
      case 9:
        if (!service->calls.empty()) service->answer(*channel);
        return;
      default: return call(script);
    }
  }

  boost::asio::io_context context{1};
  std::shared_ptr<FakeWire> wire = std::make_shared<FakeWire>(context, pool());
  std::shared_ptr<Service> service = std::make_shared<Service>();
  std::shared_ptr<Channel> channel;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  {
    Script script{data, size};
    Stage stage(script);
    for (int step = 0; step < 200 && script.left > 0 && stage.service->closed == 0; ++step) {
      stage.act(script);
      if (script.byte() % 4 != 0) stage.turn();
    }
    stage.wire->disconnect();
    stage.turn();
    must(stage.service->closed == 1);
    stage.service->calls.clear();
  }
  must(pool().in_use_bytes() == 0);  // no memory is lost, whatever the client did
  return 0;
}
