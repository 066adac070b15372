// COMPOUND, both directions: whatever decodes encodes again, and then decodes to the same bytes.
#include <cstdlib>
#include <cstring>

#include "rpc/nfs4/compound.h"

using namespace weft;
using namespace weft::rpc;

namespace {

Buffer buffer_of(BufferPool& pool, std::span<const std::byte> bytes) {
  auto buffer = pool.allocate(bytes.size());
  if (!buffer) std::abort();
  if (!bytes.empty()) std::memcpy(buffer->data(), bytes.data(), bytes.size());
  return std::move(*buffer);
}

// The encoding of every operation that decodes; OP_ILLEGAL and the like end it.
std::vector<std::byte> recode_ops(BufferPool& pool, std::span<const std::byte> bytes) {
  const Buffer record = buffer_of(pool, bytes);
  xdr::Decoder in(record.span());
  Message out;
  for (std::size_t i = 0; i < nfs4::kMaxOpsPerCompound && in.remaining() > 0; ++i) {
    nfs4::OpArgs op = nfs4::decode_op(in, record);
    if (!in.ok() || std::holds_alternative<nfs4::UnknownArgs>(op.args)) break;
    if (const auto* exchange = std::get_if<nfs4::ExchangeIdArgs>(&op.args);
        exchange != nullptr && exchange->protection != nfs4::StateProtect::SP4_NONE) {
      break;  // decoded to be refused, never encoded
    }
    nfs4::encode(out, std::move(op));
  }
  return *out.flatten();
}

std::vector<std::byte> recode_results(BufferPool& pool, std::span<const std::byte> bytes) {
  const Buffer record = buffer_of(pool, bytes);
  xdr::Decoder in(record.span());
  Message out;
  auto result = nfs4::decode_compound_result(in, record);
  if (!result) return {};
  out.bytes().u32(static_cast<std::uint32_t>(result->status));
  out.bytes().string(result->tag);
  out.bytes().u32(static_cast<std::uint32_t>(result->results.size()));
  for (nfs4::OpResult& one : result->results) nfs4::encode(out, std::move(one));
  return *out.flatten();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  BufferPool pool(std::size_t{64} << 20);
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto ops = recode_ops(pool, bytes);
  if (recode_ops(pool, ops) != ops) std::abort();
  const auto results = recode_results(pool, bytes);
  if (!results.empty() && recode_results(pool, results) != results) std::abort();
  return 0;
}
