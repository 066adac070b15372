#include "rpc/transport/rdma/header.h"

#include "rpc/base/assert.h"

namespace weft::rpc::rdma {
namespace {

constexpr std::size_t kWord = 4;
constexpr std::size_t kSegmentBytes = 16;
constexpr std::size_t kKib = 1024;
constexpr std::uint32_t kPrivateMagic = 0xf6ab'0e18;
constexpr std::byte kPrivateVersion{1};
constexpr std::byte kRemoteInvalidation{1};

void encode(xdr::Encoder& out, const Segment& segment) {
  out.u32(segment.handle);
  out.u32(segment.length);
  out.u64(segment.offset);
}

void encode(xdr::Encoder& out, const Chunk& chunk) {
  out.u32(static_cast<std::uint32_t>(chunk.segments.size()));
  for (const Segment& segment : chunk.segments) encode(out, segment);
}

// Decodes the lists of one header, and counts what they have in all.
class ChunksDecoder {
 public:
  explicit ChunksDecoder(xdr::Decoder& in) : in_(in) {}

  [[nodiscard]] Result<Chunks> decode() {
    Chunks chunks;
    while (in_.boolean() && !failed()) read_segment(chunks.reads);
    while (in_.boolean() && !failed()) {
      if (chunks.writes.size() == kMaxWriteChunks) too_large_ = true;
      if (!failed()) chunks.writes.push_back(chunk());
    }
    if (in_.boolean() && !failed()) chunks.reply = chunk();
    if (too_large_) return fail(Errc::kTooLarge, "more chunks or segments than we take");
    if (auto whole = in_.finish("an RPC-over-RDMA header"); !whole) return pass(whole);
    return chunks;
  }

 private:
  [[nodiscard]] bool failed() const { return too_large_ || !in_.ok(); }

  [[nodiscard]] Segment segment() {
    Segment out;
    out.handle = in_.u32();
    out.length = in_.u32();
    out.offset = in_.u64();
    if (out.length > UINT64_MAX - out.offset) in_.reject();
    if (++segments_ > kMaxSegments) too_large_ = true;
    return out;
  }

  [[nodiscard]] Chunk chunk() {
    Chunk out;
    for (std::uint32_t left = in_.u32(); left > 0 && !failed(); --left) {
      out.segments.push_back(segment());
    }
    return out;
  }

  // Segments of one position are one chunk.
  void read_segment(std::vector<ReadChunk>& reads) {
    const std::uint32_t position = in_.u32();
    const Segment next = segment();
    if (failed()) return;
    if (reads.empty() || reads.back().position < position) {
      if (reads.size() == kMaxReadChunks) {
        too_large_ = true;
        return;
      }
      reads.push_back({.position = position, .chunk = {}});
    } else if (reads.back().position != position) {
      return in_.reject();
    }
    reads.back().chunk.segments.push_back(next);
  }

  xdr::Decoder& in_;
  std::size_t segments_ = 0;
  bool too_large_ = false;
};

}  // namespace

std::uint64_t Chunk::size() const {
  std::uint64_t sum = 0;
  for (const Segment& segment : segments) sum += segment.length;
  return sum;
}

void encode(xdr::Encoder& out, const Start& start) {
  out.u32(start.xid);
  out.u32(start.version);
  out.u32(start.credits);
  out.u32(start.procedure);
}

void encode(xdr::Encoder& out, const Chunks& chunks) {
  for (const ReadChunk& read : chunks.reads) {
    for (const Segment& segment : read.chunk.segments) {
      out.boolean(true);
      out.u32(read.position);
      encode(out, segment);
    }
  }
  out.boolean(false);
  for (const Chunk& chunk : chunks.writes) {
    out.boolean(true);
    encode(out, chunk);
  }
  out.boolean(false);
  out.boolean(chunks.reply.has_value());
  if (chunks.reply) encode(out, *chunks.reply);
}

std::size_t encoded_size(const Chunks& chunks) {
  std::size_t size = 3 * kWord;  // the ends of both lists, and whether there is a Reply chunk
  for (const ReadChunk& read : chunks.reads) {
    size += read.chunk.segments.size() * (2 * kWord + kSegmentBytes);
  }
  for (const Chunk& chunk : chunks.writes) {
    size += 2 * kWord + chunk.segments.size() * kSegmentBytes;
  }
  if (chunks.reply) size += kWord + chunks.reply->segments.size() * kSegmentBytes;
  return size;
}

Result<Start> decode_start(xdr::Decoder& in) {
  Start start;
  start.xid = in.u32();
  start.version = in.u32();
  start.credits = in.u32();
  start.procedure = in.u32();
  if (!in.ok()) return fail(Errc::kProtocol, "less than an RPC-over-RDMA header");
  return start;
}

Result<Chunks> decode_chunks(xdr::Decoder& in) { return ChunksDecoder(in).decode(); }

void encode(xdr::Encoder& out, Refused why) {
  out.u32(static_cast<std::uint32_t>(why));
  if (why != Refused::kVersion) return;
  out.u32(kVersion);  // the lowest that we speak
  out.u32(kVersion);  // and the highest
}

Result<Refused> decode_refused(xdr::Decoder& in) {
  const std::uint32_t why = in.u32();
  if (why == static_cast<std::uint32_t>(Refused::kVersion)) {
    in.skip(2 * kWord);
    if (in.ok()) return Refused::kVersion;
  }
  if (in.ok() && why == static_cast<std::uint32_t>(Refused::kChunk)) return Refused::kChunk;
  return fail(Errc::kProtocol, "not an RPC-over-RDMA error");
}

std::array<std::byte, kPrivateDataBytes> encode(const PrivateData& data) {
  const auto kib_less_one = [](std::size_t bytes) {
    WEFT_ASSERT(bytes >= kKib && bytes <= 256 * kKib);
    return static_cast<std::byte>(bytes / kKib - 1);
  };
  std::array<std::byte, kPrivateDataBytes> out{};
  for (std::size_t i = 0; i < 4; ++i)
    out[i] = static_cast<std::byte>(kPrivateMagic >> (24 - 8 * i));
  out[4] = kPrivateVersion;
  if (data.remote_invalidation) out[5] = kRemoteInvalidation;
  out[6] = kib_less_one(data.send_bytes);
  out[7] = kib_less_one(data.receive_bytes);
  return out;
}

std::optional<PrivateData> decode_private_data(std::span<const std::byte> bytes) {
  if (bytes.size() < kPrivateDataBytes) return std::nullopt;
  xdr::Decoder in(bytes);
  if (in.u32() != kPrivateMagic || bytes[4] != kPrivateVersion) return std::nullopt;
  const auto size = [](std::byte kib) { return (std::to_integer<std::size_t>(kib) + 1) * kKib; };
  return PrivateData{.send_bytes = size(bytes[6]),
                     .receive_bytes = size(bytes[7]),
                     .remote_invalidation = (bytes[5] & kRemoteInvalidation) != std::byte{0}};
}

}  // namespace weft::rpc::rdma
