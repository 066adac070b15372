// Any bytes as a fencing log: no crash, and what is accepted reads the same when written again.
// An odd first byte has the header, of the format that it chooses, and, at the length of a frame
// that it chooses, magic number, count and checksum made right, so that the fuzzer gets past them.
#include <xxhash.h>

#include <algorithm>
#include <vector>

#include "dataserver/store/fence_log.h"
#include "rpc/base/assert.h"
#include "rpc/xdr/xdr.h"

namespace {

// The input's entries as frames of 1 to 8, with what follows the last whole one as it is.
std::vector<std::byte> framed(std::span<const std::byte> input, std::size_t entries, bool old) {
  constexpr std::size_t kEntryBytes = 24;
  auto out = weft::ds::fence_log_header();
  if (old) out[12] = std::byte{'1'};
  const std::size_t body = entries * kEntryBytes + (old ? 0 : sizeof(weft::ds::KeyMark));
  while (input.size() >= body) {
    weft::xdr::Encoder frame;
    frame.u32(0x57464e43);
    frame.u32(static_cast<std::uint32_t>(entries));
    frame.raw(input.first(body));
    frame.u64(XXH64(frame.bytes().data(), frame.size(), 0));
    out.insert(out.end(), frame.bytes().begin(), frame.bytes().end());
    input = input.subspan(body);
  }
  out.insert(out.end(), input.begin(), input.end());
  return out;
}

struct Log {
  std::vector<std::pair<weft::ds::KeyMark, std::vector<weft::ds::Fence>>> frames;
  std::uint64_t good_bytes = 0;
  bool good = false;
  friend bool operator==(const Log&, const Log&) = default;
};

Log decode(std::span<const std::byte> bytes, std::size_t piece) {
  Log log;
  weft::ds::FenceLogDecoder decoder(
      [&](std::span<const weft::ds::Fence> fences, const weft::ds::KeyMark& mark) {
        log.frames.emplace_back(mark, std::vector(fences.begin(), fences.end()));
      });
  while (!bytes.empty()) {
    const auto next = bytes.first(std::min(piece, bytes.size()));
    if (!decoder.feed(next)) return {};
    bytes = bytes.subspan(next.size());
  }
  const auto good_bytes = decoder.finish();
  if (!good_bytes) return {};
  log.good_bytes = *good_bytes;
  log.good = true;
  return log;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto bytes = std::as_bytes(std::span(data, size));
  std::vector<std::byte> made;
  if (size > 0 && data[0] % 2 == 1) {
    made = framed(bytes.subspan(1), 1 + data[0] / 2 % 8, data[0] >= 128);
    bytes = made;
  }
  const Log log = decode(bytes, bytes.size() + 1);
  // However it comes, it says the same.
  WEFT_ASSERT(decode(bytes, size > 1 ? 1 + data[1] : 1) == log);
  if (!log.good) return 0;
  WEFT_ASSERT(log.good_bytes <= bytes.size());
  auto again = weft::ds::fence_log_header();
  for (const auto& [mark, fences] : log.frames) {
    const auto frame = weft::ds::encode_fences(fences, mark);
    again.insert(again.end(), frame.begin(), frame.end());
  }
  const Log log_again = decode(again, 4096);
  WEFT_ASSERT(log_again.good && log_again.frames == log.frames);
  return 0;
}
