#include "rpc/transport/rdma/answer.h"

#include <algorithm>
#include <cstring>

#include "rpc/base/assert.h"
#include "rpc/base/payload_copy.h"

namespace weft::rpc::rdma {
namespace {

constexpr std::size_t kLittle = 8192;

// When little is sent, more memory is let go of than it takes: what was read for the answer.
Result<Buffer> copied(std::span<const std::byte> bytes, PoolShare share, BufferPool& pool) {
  const bool little = bytes.size() <= kLittle;
  auto out = allocate(pool, little ? PoolShare::kServers : share, bytes.size());
  if (out) std::memcpy(out->data(), bytes.data(), bytes.size());
  return out;
}

// Fills a chunk from its beginning: each run that is written gets the segments that it needs.
class ChunkWriter {
 public:
  ChunkWriter(const Chunk& place, std::vector<Work>& out) : place_(place), out_(out) {}

  // Precondition: there is room.
  void write(const Buffer& run) {
    for (std::size_t done = 0; done < run.size();) {
      const Segment& segment = place_.segments[at_];
      const std::size_t size = std::min<std::size_t>(run.size() - done, segment.length - filled_);
      if (size > 0) {
        auto part = run.share(done, size);
        WEFT_ASSERT(part.has_value());
        out_.push_back({.kind = Work::Kind::kWrite,
                        .memory = std::move(*part),
                        .remote = {.handle = segment.handle,
                                   .length = static_cast<std::uint32_t>(size),
                                   .offset = segment.offset + filled_}});
      }
      done += size;
      filled_ += static_cast<std::uint32_t>(size);
      if (filled_ < segment.length) return;
      ++at_;
      filled_ = 0;
    }
  }

  // The chunk with what was filled of each segment.
  [[nodiscard]] Chunk filled() const {
    Chunk out = place_;
    for (std::size_t i = at_; i < out.segments.size(); ++i) {
      out.segments[i].length = i == at_ ? filled_ : 0;
    }
    return out;
  }

 private:
  const Chunk& place_;
  std::vector<Work>& out_;
  std::size_t at_ = 0;
  std::uint32_t filled_ = 0;
};

// The payload as runs that the device reaches: those it consists of, or one copy.
Result<std::vector<Buffer>> reachable(const Payload& payload, const QueuePair& queue_pair,
                                      PoolShare share, BufferPool& pool) {
  std::vector<Buffer> runs;
  for (const Payload::Piece& piece : payload.pieces()) {
    const auto* buffer = std::get_if<Buffer>(&piece);
    if (buffer == nullptr || !queue_pair.registered(buffer->span())) break;
    auto shared = buffer->share(0, buffer->size());
    WEFT_ASSERT(shared.has_value());
    runs.push_back(std::move(*shared));
  }
  if (runs.size() == payload.pieces().size()) return runs;
  runs.clear();
  auto copy = allocate(pool, share, payload.size());
  if (!copy) return pass(copy);
  if (auto read = copy_payload(payload, copy->span()); !read) return pass(read);
  runs.push_back(std::move(*copy));
  return runs;
}

// An answer while it is made.
struct Answer {
  Chunks chunks;
  std::vector<std::byte> message;  // without what went to the Write chunk
  std::vector<Work> work;
};

// The one payload goes to the Write chunk, and its padding nowhere (RFC 8166 section 3.4.6).
Result<> write_payload(Answer& answer, const Message& message, const Chunk& place,
                       const QueuePair& queue_pair, PoolShare share, BufferPool& pool) {
  const auto& [at, payload] = message.splices().front();
  if (payload.size() > place.size())
    return fail(Errc::kTooLarge, "a Write chunk that is too small");
  auto runs = reachable(payload, queue_pair, share, pool);
  if (!runs) return pass(runs);
  ChunkWriter writer(place, answer.work);
  for (const Buffer& run : *runs) writer.write(run);
  answer.chunks.writes.push_back(writer.filled());
  const auto bytes = message.bytes().bytes();
  const std::size_t padding = xdr::padded(payload.size()) - payload.size();
  WEFT_ASSERT(padding <= bytes.size() - at);
  answer.message.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
  answer.message.insert(answer.message.end(),
                        bytes.begin() + static_cast<std::ptrdiff_t>(at + padding), bytes.end());
  return {};
}

Result<> write_message(Answer& answer, const std::optional<Chunk>& place, PoolShare share,
                       BufferPool& pool) {
  if (!place || place->size() < answer.message.size()) {
    return fail(Errc::kTooLarge, "an answer without a place");
  }
  auto copy = copied(answer.message, share, pool);
  if (!copy) return pass(copy);
  ChunkWriter writer(*place, answer.work);
  writer.write(*copy);
  answer.chunks.reply = writer.filled();
  answer.message.clear();
  return {};
}

}  // namespace

Result<std::vector<Work>> make_answer(AnswerTo to, const Message& message, const Chunks& places,
                                      const QueuePair& queue_pair, BufferPool& pool) {
  Answer answer;
  // With several payloads it could not be told whose place it is: an empty one is none.
  if (!places.writes.empty() && message.splices().size() == 1) {
    auto written =
        write_payload(answer, message, places.writes.front(), queue_pair, to.share, pool);
    if (!written) return pass(written);
  } else {
    auto flat = message.flatten();
    if (!flat) return pass(flat);
    answer.message = std::move(*flat);
    for (const Chunk& unused : places.writes) {
      answer.chunks.writes.push_back(ChunkWriter(unused, answer.work).filled());
    }
  }
  Procedure procedure = Procedure::kMessage;
  const std::size_t most = queue_pair.max_send_bytes();
  if (kStartBytes + encoded_size(answer.chunks) + answer.message.size() > most) {
    procedure = Procedure::kNoMessage;
    if (auto written = write_message(answer, places.reply, to.share, pool); !written)
      return pass(written);
  }
  xdr::Encoder out;
  encode(out, Start{.xid = to.xid,
                    .credits = to.credits,
                    .procedure = static_cast<std::uint32_t>(procedure)});
  encode(out, answer.chunks);
  out.raw(answer.message);
  if (out.size() > most) return fail(Errc::kTooLarge, "more segments than the peer takes back");
  auto send = copied(out.bytes(), to.share, pool);
  if (!send) return pass(send);
  answer.work.push_back({.kind = Work::Kind::kSend, .memory = std::move(*send), .remote = {}});
  return std::move(answer.work);
}

Result<Work> make_refusal(AnswerTo to, Refused why, BufferPool& pool) {
  xdr::Encoder out;
  encode(out, Start{.xid = to.xid,
                    .credits = to.credits,
                    .procedure = static_cast<std::uint32_t>(Procedure::kError)});
  encode(out, why);
  auto send = copied(out.bytes(), to.share, pool);
  if (!send) return pass(send);
  return Work{.kind = Work::Kind::kSend, .memory = std::move(*send), .remote = {}};
}

}  // namespace weft::rpc::rdma
