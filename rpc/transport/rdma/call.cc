#include "rpc/transport/rdma/call.h"

#include <cstring>

#include "rpc/base/assert.h"
#include "rpc/base/payload_copy.h"

namespace weft::rpc::rdma {
namespace {

Segment segment_of(const Buffer& memory, std::uint32_t handle) {
  return {.handle = handle,
          .length = static_cast<std::uint32_t>(memory.size()),
          .offset = reinterpret_cast<std::uintptr_t>(memory.data())};
}

Chunk chunk_of(const Buffer& memory, std::uint32_t handle) {
  return {{segment_of(memory, handle)}};
}

Result<Buffer> copied(std::span<const std::byte> bytes, BufferPool& pool) {
  auto out = pool.allocate(bytes.size());
  if (out) std::memcpy(out->data(), bytes.data(), bytes.size());
  return out;
}

// A call while it is made.
struct Draft {
  CallMemory memory;
  Chunks chunks;
  std::vector<std::byte> inline_part;  // the message, without what is in chunks

  [[nodiscard]] std::size_t bytes() const {
    return kStartBytes + encoded_size(chunks) + inline_part.size();
  }
};

Result<> bring_places(Draft& draft, const Message& message, std::uint32_t handle,
                      BufferPool& stage) {
  const std::size_t bulk = message.expected_bulk();
  auto room = stage.allocate(bulk > 0 ? bulk : kReplyRoom);
  if (!room) return pass(room);
  if (bulk > 0) {
    draft.chunks.writes.push_back(chunk_of(*room, handle));
    draft.memory.write = std::move(*room);
  } else {
    draft.chunks.reply = chunk_of(*room, handle);
    draft.memory.reply = std::move(*room);
  }
  return {};
}

// Its one payload is read from a chunk, and its padding from nowhere (RFC 8166 section 3.4.5).
Result<> take_payload_out(Draft& draft, const Message& message, std::uint32_t handle,
                          BufferPool& stage) {
  const auto& [at, payload] = message.splices().front();
  auto bulk = stage.allocate(payload.size());
  if (!bulk) return pass(bulk);
  if (auto read = copy_payload(payload, bulk->span()); !read) return pass(read);
  draft.chunks.reads.push_back(
      {.position = static_cast<std::uint32_t>(at), .chunk = chunk_of(*bulk, handle)});
  draft.memory.bulk = std::move(*bulk);
  const auto bytes = message.bytes().bytes();
  const std::size_t padding = xdr::padded(payload.size()) - payload.size();
  WEFT_ASSERT(padding <= bytes.size() - at);
  const auto middle = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  draft.inline_part.assign(bytes.begin(), middle);
  draft.inline_part.insert(draft.inline_part.end(), middle + static_cast<std::ptrdiff_t>(padding),
                           bytes.end());
  return {};
}

// What an answer says of a chunk that was brought for it: as it was, with what was written of each
// segment (RFC 8166 section 4.3.2).
Result<std::size_t> filled(const Buffer& memory, const Chunk& said, std::uint32_t handle) {
  if (memory.empty() || said.segments.size() != 1) {
    return fail(Errc::kProtocol, "an answer with a chunk that its call did not bring");
  }
  const Segment& segment = said.segments.front();
  const Segment brought = segment_of(memory, handle);
  if (segment.handle != brought.handle || segment.offset != brought.offset) {
    return fail(Errc::kProtocol, "an answer in memory of another call");
  }
  if (segment.length > brought.length) {
    return fail(Errc::kProtocol, "an answer larger than its place");
  }
  return std::size_t{segment.length};
}

Error refusal(xdr::Decoder& in) {
  const auto why = decode_refused(in);
  if (!why) return why.error();
  return {Errc::kProtocol, *why == Refused::kVersion
                               ? "version 1 of RPC over RDMA is refused"
                               : "a call's header is refused, or its place is too small"};
}

}  // namespace

Result<OutgoingCall> make_call(std::uint32_t credits, const Message& message,
                               const QueuePair& queue_pair, BufferPool& stage) {
  const std::uint32_t handle = queue_pair.exposed().handle;
  const std::size_t most = queue_pair.max_send_bytes();
  Start start{.xid = word_at(message.bytes().bytes(), 0), .credits = credits};
  Draft draft;
  if (auto brought = bring_places(draft, message, handle, stage); !brought) return pass(brought);
  // With several payloads it could not be told which one is the chunk's.
  if (draft.bytes() + message.size() > most && message.splices().size() == 1) {
    auto taken = take_payload_out(draft, message, handle, stage);
    if (!taken) return pass(taken);
  } else {
    auto flat = message.flatten();
    if (!flat) return pass(flat);
    draft.inline_part = std::move(*flat);
  }
  if (draft.bytes() > most) {
    auto whole = copied(draft.inline_part, stage);
    if (!whole) return pass(whole);
    draft.chunks.reads.insert(draft.chunks.reads.begin(),
                              {.position = 0, .chunk = chunk_of(*whole, handle)});
    draft.memory.whole = std::move(*whole);
    draft.inline_part.clear();
    start.procedure = static_cast<std::uint32_t>(Procedure::kNoMessage);
  }
  xdr::Encoder out;
  encode(out, start);
  encode(out, draft.chunks);
  out.raw(draft.inline_part);
  if (out.size() > most) return fail(Errc::kTooLarge, "a header that the peer does not take");
  auto send = copied(out.bytes(), stage);
  if (!send) return pass(send);
  return OutgoingCall{
      .memory = std::move(draft.memory),
      .send = {.kind = Work::Kind::kSend, .memory = std::move(*send), .remote = {}}};
}

Result<Answered> read_answer(const Start& start, xdr::Decoder& in,
                             std::span<const std::byte> received, const CallMemory& memory,
                             std::uint32_t handle) {
  if (start.version != kVersion) return fail(Errc::kProtocol, "an answer of another version");
  const auto procedure = static_cast<Procedure>(start.procedure);
  if (procedure == Procedure::kError) return std::unexpected(refusal(in));
  const bool is_inline = procedure == Procedure::kMessage;
  if (!is_inline && procedure != Procedure::kNoMessage) {
    return fail(Errc::kProtocol, "neither an answer nor an error");
  }
  const auto chunks = decode_chunks(in);
  if (!chunks) return std::unexpected(chunks.error());
  if (!chunks->reads.empty()) return fail(Errc::kProtocol, "an answer to be read from the peer");
  Answered answered;
  for (const Chunk& write : chunks->writes) {
    const auto bytes = filled(memory.write, write, handle);
    if (!bytes) return std::unexpected(bytes.error());
    answered.bulk_bytes = *bytes;
  }
  if (chunks->reply) {
    const auto bytes = filled(memory.reply, *chunks->reply, handle);
    if (!bytes) return std::unexpected(bytes.error());
    answered.reply_bytes = *bytes;
  }
  // One place or the other; some say that they did not use the second.
  if (is_inline == (answered.reply_bytes > 0)) {
    return fail(Errc::kProtocol, "an answer in two places, or in none");
  }
  if (is_inline) answered.message = received.subspan(in.position());
  return answered;
}

Result<Delivery> copy_answer(std::uint32_t xid, const Answered& answered, const CallMemory& memory,
                             BufferPool& pool) {
  const auto message = answered.message.value_or(memory.reply.span().first(answered.reply_bytes));
  if (message.size() < kLeastMessage) {
    return fail(Errc::kProtocol, "an answer without an RPC message");
  }
  auto record = copied(message, pool);
  if (!record) return pass(record);
  // Not before: the peer may change what it is copied from.
  if (word_at(record->span(), 0) != xid) {
    return fail(Errc::kProtocol, "an RPC message of another number than its header");
  }
  Delivery out{.record = std::move(*record), .bulk = {}};
  if (answered.bulk_bytes == 0) return out;
  // Its length is in front of it; some servers have padding in the chunk.
  std::size_t size = answered.bulk_bytes;
  const std::size_t length = word_at(out.record.span(), (out.record.size() - 4) / 4 * 4);
  if (size == xdr::padded(length)) size = length;
  auto bulk = copied(memory.write.span().first(size), pool);
  if (!bulk) return pass(bulk);
  out.bulk.push_back(std::move(*bulk));
  return out;
}

}  // namespace weft::rpc::rdma
