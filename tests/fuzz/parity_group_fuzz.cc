// Any bytes as the log and the records of a parity group: no crash, and what is accepted reads the
// same when written again. An odd first byte has bodies framed with the right magic number, length
// and checksum, so that the fuzzer gets past them.
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <vector>

#include "dataserver/parity/blocks.h"
#include "dataserver/parity/group_log.h"
#include "dataserver/parity/group_record.h"
#include "dataserver/parity/scrub_record.h"
#include "rpc/base/assert.h"
#include "rpc/xdr/xdr.h"

namespace {

using namespace weft;
using namespace weft::ds;

std::vector<std::byte> sealed(xdr::Encoder out) {
  out.u64(XXH64(out.bytes().data(), out.size(), 0));
  return out.take();
}

// Frames of kinds and lengths that the input says.
std::vector<std::byte> framed(std::span<const std::byte> input) {
  auto log = group_log_header();
  while (input.size() >= 2) {
    const auto kind = static_cast<std::uint32_t>(input[0]) % 8;
    const std::size_t size = std::min(input.size() - 2, static_cast<std::size_t>(input[1]));
    xdr::Encoder frame;
    frame.u32(0x5750464d);
    frame.u32(kind);
    frame.u32(static_cast<std::uint32_t>(size));
    frame.u32(0);
    frame.raw(input.subspan(2, size));
    while (frame.size() % 8 != 0) frame.raw(std::array{std::byte{0}});
    const auto one = sealed(std::move(frame));
    log.insert(log.end(), one.begin(), one.end());
    input = input.subspan(2 + size);
  }
  return log;
}

void check_record(std::span<const std::byte> bytes) {
  static_cast<void>(decode_sum_header(bytes));
  const auto record = decode_group_record(bytes);
  if (record && bytes.size() == GroupRecord::kBytes) {
    WEFT_ASSERT(std::ranges::equal(encode(*record), bytes));
  } else if (record) {  // of the version before
    WEFT_ASSERT(decode_group_record(encode(*record)).has_value());
  }
  const auto scrub = decode_scrub_record(bytes);
  if (scrub) WEFT_ASSERT(std::ranges::equal(encode(*scrub), bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto bytes = std::as_bytes(std::span(data, size));
  check_record(bytes);
  std::vector<std::byte> made;
  if (size > 0 && data[0] % 2 == 1) {
    if (size > ScrubRecord::kBytes - 8) {
      xdr::Encoder record;
      record.raw(bytes.subspan(1, ScrubRecord::kBytes - 8));
      check_record(sealed(std::move(record)));
    }
    for (const std::size_t of : {GroupRecord::kBytes, GroupRecord::kBytes2}) {
      if (size <= of - 8) continue;
      xdr::Encoder record;
      record.raw(bytes.subspan(1, of - 8));
      check_record(sealed(std::move(record)));
    }
    made = framed(bytes.subspan(1));
    bytes = made;
  }
  auto log = decode_group_log(bytes);
  if (!log) return 0;
  WEFT_ASSERT(log->good_bytes <= bytes.size());
  auto again = group_log_header();
  for (const LogFrame& frame : log->frames) {
    const auto one = encode(frame);
    again.insert(again.end(), one.begin(), one.end());
  }
  const auto log_again = decode_group_log(again);
  WEFT_ASSERT(log_again.has_value() && log_again->frames == log->frames);
  const auto state = replay(std::move(log->frames), {.members = 3, .chunk = 4096});
  for (const LogFrame& frame : state.redo) {
    WEFT_ASSERT(std::holds_alternative<LogContent>(frame) ||
                std::holds_alternative<LogPunch>(frame));
  }
  return 0;
}
