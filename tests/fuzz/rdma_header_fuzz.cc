// RPC-over-RDMA headers and private data as a stranger sends them. What is accepted is within the
// limits, and is the same after it was written and read again.
#include "rpc/transport/rdma/header.h"
#include "tests/fuzz/script.h"

using namespace weft;
using namespace weft::rpc::rdma;
using weft::test::must;

namespace {

std::size_t segments(const Chunks& chunks) {
  std::size_t sum = chunks.reply ? chunks.reply->segments.size() : 0;
  for (const ReadChunk& read : chunks.reads) sum += read.chunk.segments.size();
  for (const Chunk& chunk : chunks.writes) sum += chunk.segments.size();
  return sum;
}

void decode_header(std::span<const std::byte> bytes) {
  xdr::Decoder in(bytes);
  const auto start = decode_start(in);
  if (!start) return;
  xdr::Decoder error = in;
  static_cast<void>(decode_refused(error));
  const auto chunks = decode_chunks(in);
  if (!chunks) return;
  must(chunks->reads.size() <= kMaxReadChunks && chunks->writes.size() <= kMaxWriteChunks);
  must(segments(*chunks) <= kMaxSegments);
  xdr::Encoder out;
  encode(out, *start);
  encode(out, *chunks);
  must(out.size() == kStartBytes + encoded_size(*chunks) && out.size() == in.position());
  xdr::Decoder again(out.bytes());
  must(decode_start(again).value() == *start && decode_chunks(again).value() == *chunks);
}

void decode_private(std::span<const std::byte> bytes) {
  const auto data = decode_private_data(bytes);
  if (data) must(decode_private_data(encode(*data)) == data);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  decode_header(bytes);
  decode_private(bytes);
  return 0;
}
