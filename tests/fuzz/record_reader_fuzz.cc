// Record marking: any bytes in any portions. Memory stays within the limits, records within theirs,
// and how the bytes were cut into portions changes nothing.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "rpc/nfs4/payload_locator.h"
#include "rpc/onc/record_reader.h"

using namespace weft;
using namespace weft::rpc;

namespace {

constexpr RecordReader::Limits kLimits{.max_record_bytes = 64 << 10, .max_fragments = 8};

struct Outcome {
  std::vector<std::vector<std::byte>> records;
  bool failed = false;
  bool operator==(const Outcome&) const = default;
};

// Takes records out until more bytes are needed; false when the reader gave up.
bool drain(RecordReader& reader, BufferPool& pool, Outcome& out) {
  for (;;) {
    auto record = reader.next();
    if (!record) {
      if (record.error() == Errc::kBusy) std::abort();
      out.failed = true;
      return false;
    }
    if (!*record) return true;
    if ((*record)->size() > kLimits.max_record_bytes) std::abort();
    out.records.emplace_back((*record)->span().begin(), (*record)->span().end());
    if (pool.in_use_bytes() > (std::size_t{1} << 20)) std::abort();
  }
}

Outcome feed(std::span<const std::byte> bytes, std::span<const std::uint8_t> portions) {
  Outcome out;
  BufferPool pool(std::size_t{1} << 20);
  RecordReader reader(pool, kLimits, nfs4::locate_payload);
  std::size_t turn = 0;
  while (!bytes.empty()) {
    std::size_t want = bytes.size();
    if (!portions.empty())
      want = std::min<std::size_t>(want, portions[turn++ % portions.size()] + 1U);
    const auto targets = reader.targets();
    std::size_t got = 0;
    for (std::size_t i = 0; i < targets.count && got < want; ++i) {
      const std::size_t part = std::min(targets.parts[i].iov_len, want - got);
      std::memcpy(targets.parts[i].iov_base, bytes.data() + got, part);
      got += part;
    }
    if (got == 0) std::abort();
    reader.received(got);
    bytes = bytes.subspan(got);
    if (!drain(reader, pool, out)) break;
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  const auto bytes = std::as_bytes(std::span(data + 4, size - 4));
  const Outcome whole = feed(bytes, {});
  const Outcome portions = feed(bytes, std::span(data, 4));
  if (whole != portions) std::abort();
  return 0;
}
