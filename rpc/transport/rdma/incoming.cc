#include "rpc/transport/rdma/incoming.h"

namespace weft::rpc::rdma {
namespace {

constexpr std::size_t kXdrUnit = 4;

// Sorts the Read chunks into what they are for. False: they are for nothing we know.
bool sort_reads(Incoming& incoming, std::vector<ReadChunk> reads, bool is_inline) {
  for (ReadChunk& read : reads) {
    if (read.position == 0) {
      if (is_inline) return false;
      incoming.whole = std::move(read.chunk);
    } else if (incoming.bulk || read.position % kXdrUnit != 0) {
      return false;
    } else if (read.chunk.size() > 0) {
      incoming.bulk = std::move(read);
    }
  }
  if (!is_inline && (!incoming.whole || incoming.whole->size() == 0)) return false;
  return !incoming.bulk || incoming.bulk->position <= incoming.message_bytes();
}

}  // namespace

Result<Incoming> read_incoming(std::span<const std::byte> received) {
  xdr::Decoder in(received);
  const auto start = decode_start(in);
  if (!start) return std::unexpected(start.error());
  Incoming incoming{.xid = start->xid};
  const auto refused = [&incoming](Refused why) {
    return Incoming{.xid = incoming.xid, .refused = why};
  };
  // The start is the same in all versions (RFC 8166 section 4.2).
  if (start->version != kVersion) return refused(Refused::kVersion);
  const auto procedure = static_cast<Procedure>(start->procedure);
  // A server has asked for nothing that these could answer.
  if (procedure == Procedure::kDone || procedure == Procedure::kError) {
    incoming.ignored = true;
    return incoming;
  }
  const bool is_inline = procedure == Procedure::kMessage;
  if (!is_inline && procedure != Procedure::kNoMessage) return refused(Refused::kChunk);
  auto chunks = decode_chunks(in);
  if (!chunks) return refused(Refused::kChunk);
  if (is_inline) incoming.message = received.subspan(in.position());
  if (!sort_reads(incoming, std::exchange(chunks->reads, {}), is_inline)) {
    return refused(Refused::kChunk);
  }
  incoming.places = std::move(*chunks);
  return incoming;
}

}  // namespace weft::rpc::rdma
