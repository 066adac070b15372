// The serving end of RPC over RDMA, and a client that the test plays word by word.
//
// Threading: the test's, which turns the channel's context (turn(), wait()).
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

#include "rpc/base/shared_memory.h"
#include "rpc/transport/rdma/server_channel.h"
#include "tests/rpc/transport/rdma/fake_device.h"

namespace weft::rpc::rdma::test {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

inline std::vector<std::byte> pattern(std::size_t size, unsigned seed = 1) {
  std::vector<std::byte> out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>((i * 31 + seed) >> 3);
  return out;
}

// An RPC message: its number, a call's direction, and some words.
inline xdr::Encoder message(std::uint32_t xid, std::initializer_list<std::uint32_t> words = {}) {
  xdr::Encoder out;
  out.u32(xid);
  out.u32(0);
  for (const std::uint32_t word : words) out.u32(word);
  return out;
}

// What Rig::answer() answers.
inline xdr::Encoder answer_of(std::uint32_t xid) {
  xdr::Encoder out;
  out.u32(xid);
  out.u32(7);
  return out;
}

inline std::vector<std::byte> bytes_of(const xdr::Encoder& out) {
  return {out.bytes().begin(), out.bytes().end()};
}

// A message with bulk data put back in its place, and a word behind it.
inline std::vector<std::byte> with_data(std::uint32_t xid, const std::vector<std::byte>& data) {
  xdr::Encoder out = message(xid);
  out.opaque(data);
  out.u32(0xaaaa);
  return bytes_of(out);
}

struct Service final : ChannelUser {
  void on_record(ReceivedRecord record) override {
    if (record.head_only) return skipped.push_back(std::move(record.bytes));
    std::vector<Buffer>& parts = record.apart.lent;
    records.push_back(std::move(record.bytes));
    bulk.push_back(parts.empty() ? Buffer() : std::move(parts.front()));
  }
  [[nodiscard]] bool is_awaited() const override { return awaited; }
  void on_closed(const Error& why) override { closed = why.code; }
  bool awaited = false;
  std::vector<Buffer> records;
  std::vector<Buffer> bulk;
  std::vector<Buffer> skipped;
  std::optional<Errc> closed;
};

struct Reply {
  Start start;
  Chunks chunks;
  std::optional<Refused> refused;
  std::vector<std::byte> message;
};

struct Rig {
  explicit Rig(Limits of = {}, std::size_t memory = 64 * kMebibyte)
      : pool(memory, std::make_shared<Arena>(SharedMemory::create(2 * memory, "test").value())),
        wire(std::make_shared<FakeWire>(context, pool)),
        limits(std::move(of)) {}
  ~Rig() {
    wire->disconnect();
    turn();
    service->records.clear();
    service->bulk.clear();
    CHECK(service->closed.has_value());
    service.reset();
    channel.reset();
    CHECK(pool.in_use_bytes() == 0);
  }
  void start() {
    channel = serve(context, pool, wire->queue_pair(), limits, std::move(place), counts);
    channel->start(service);
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
  void send(const Start& start, const Chunks& chunks, std::span<const std::byte> inline_part) {
    xdr::Encoder out;
    encode(out, start);
    encode(out, chunks);
    out.raw(inline_part);
    wire->send(out.bytes());
    turn();
  }
  void call(std::uint32_t xid, const Chunks& chunks = {},
            std::initializer_list<std::uint32_t> words = {}) {
    send({.xid = xid, .credits = 32}, chunks, message(xid, words).bytes());
  }
  void answer(std::uint32_t xid, Payload payload = {}, std::size_t words = 1) {
    Message out;
    out.bytes().u32(xid);
    for (std::size_t i = 0; i < words; ++i) out.bytes().u32(7);
    const std::size_t size = payload.size();
    if (size > 0) {
      out.splice(std::move(payload));
      out.bytes().raw(std::vector<std::byte>(xdr::padded(size) - size));
    }
    channel->send(std::move(out));
    turn();
  }
  Payload payload(std::span<const std::byte> bytes) {
    auto data = pool.allocate(bytes.size());
    REQUIRE(data);
    std::memcpy(data->data(), bytes.data(), bytes.size());
    Payload out;
    out.append(std::move(*data));
    return out;
  }
  Reply reply() {
    REQUIRE_FALSE(wire->sent.empty());
    const auto bytes = std::move(wire->sent.front());
    wire->sent.pop_front();
    xdr::Decoder in(bytes);
    Reply out{.start = decode_start(in).value(), .chunks = {}};
    if (out.start.procedure == static_cast<std::uint32_t>(Procedure::kError)) {
      out.refused = decode_refused(in).value();
    } else {
      out.chunks = decode_chunks(in).value();
      out.message.assign(bytes.begin() + static_cast<std::ptrdiff_t>(in.position()), bytes.end());
    }
    return out;
  }
  Chunk exposed(std::size_t size, std::size_t segments = 1) {
    Chunk chunk;
    const std::size_t each = size / segments;
    for (std::size_t i = 0; i < segments; ++i) {
      const std::size_t part = i + 1 < segments ? each : size - each * i;
      chunk.segments.push_back(wire->expose(std::vector<std::byte>(part)));
    }
    return chunk;
  }
  std::vector<std::byte> content(const Chunk& chunk) {
    std::vector<std::byte> out;
    for (const Segment& segment : chunk.segments) {
      const auto& memory = wire->memory(segment.handle);
      out.insert(out.end(), memory.begin(), memory.begin() + segment.length);
    }
    return out;
  }

  boost::asio::io_context context{1};
  BufferPool pool;
  std::shared_ptr<FakeWire> wire;
  std::shared_ptr<Service> service = std::make_shared<Service>();
  std::shared_ptr<Channel> channel;
  ConnectionPlace place;
  std::shared_ptr<Counts> counts = std::make_shared<Counts>();
  Limits limits;
};

inline std::vector<std::byte> copy(const Buffer& buffer) {
  return {buffer.span().begin(), buffer.span().end()};
}

constexpr auto kNoMessage = static_cast<std::uint32_t>(Procedure::kNoMessage);

}  // namespace weft::rpc::rdma::test
