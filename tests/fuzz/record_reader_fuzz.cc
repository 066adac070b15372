// Record marking: any bytes in any portions. Memory stays within the limits, records within theirs,
// and how the bytes were cut into portions, and whether bulk data was left in pipes, changes
// nothing. The same of a stranger's, which are small, or looked at, and of a client's, which are
// looked at when they are large.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "rpc/nfs4/payload_locator.h"
#include "rpc/onc/record_reader.h"

using namespace weft;
using namespace weft::rpc;

namespace {

const RecordReader::Limits kLimits{.max_record_bytes = 64 << 10, .max_fragments = 8};
const RecordReader::Limits kPiping{
    .max_record_bytes = 64 << 10, .max_fragments = 8, .pipe_from = 4};

RecordReader::Limits looking(Standing standing) {
  return {.max_record_bytes = 64 << 10,
          .max_fragments = 8,
          .pipe_from = 4,
          .standing = standing,
          .max_stranger_bytes = 1000,
          .look = [](std::span<const std::byte> head, Standing) {
            return nfs4::locate_session(head) ? Glance::kTake
                   : head[0] == std::byte{1}  ? Glance::kRefuse
                                              : Glance::kSkip;
          }};
}
const RecordReader::Limits kStranger = looking(Standing::kStranger);
const RecordReader::Limits kClient = looking(Standing::kClient);

// What stands in for the socket that bytes are spliced from.
struct Source {
  Source() {
    int ends[2];
    if (::pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) std::abort();
    out = OwnedFd(ends[0]);
    in = OwnedFd(ends[1]);
  }
  OwnedFd out;
  OwnedFd in;
};

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
    auto& whole = out.records.emplace_back((*record)->span().begin(), (*record)->span().end());
    if (reader.take_skipped()) {
      if (whole.size() > RecordReader::kHead) std::abort();
      whole.push_back(std::byte{0});  // another record than one of the same bytes
    }
    auto piped = reader.take_piped().to_buffer();
    if (!piped) std::abort();
    whole.insert(whole.end(), piped->span().begin(), piped->span().end());
    if (whole.size() > kLimits.max_record_bytes) std::abort();
    if (pool.in_use_bytes() > (std::size_t{1} << 20)) std::abort();
  }
}

// Through a pipe: up to `want` bytes of a body that is left in the kernel.
std::size_t feed_piped(RecordReader& reader, std::span<const std::byte> bytes, std::size_t want) {
  static const Source source;
  const std::size_t part = std::min<std::size_t>({want, reader.body_left(), 4096});
  if (::write(source.in.get(), bytes.data(), part) != static_cast<ssize_t>(part)) std::abort();
  if (reader.receive_piped(source.out.get()) != static_cast<long>(part)) std::abort();
  if (part % 7 == 0 && reader.piping() && reader.body_left() > 0) reader.pipe_full();
  return part;
}

Outcome feed(std::span<const std::byte> bytes, std::span<const std::uint8_t> portions,
             const RecordReader::Limits& limits) {
  Outcome out;
  BufferPool pool(std::size_t{1} << 20);
  RecordReader reader(pool, limits, nfs4::locate_payload);
  std::size_t turn = 0;
  while (!bytes.empty()) {
    std::size_t want = bytes.size();
    if (!portions.empty())
      want = std::min<std::size_t>(want, portions[turn++ % portions.size()] + 1U);
    if (reader.piping()) {
      bytes = bytes.subspan(feed_piped(reader, bytes, want));
      if (!drain(reader, pool, out)) break;
      continue;
    }
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
  const Outcome whole = feed(bytes, {}, kLimits);
  const Outcome portions = feed(bytes, std::span(data, 4), kLimits);
  const Outcome piped = feed(bytes, std::span(data, 4), kPiping);
  if (whole != portions || whole != piped) std::abort();
  for (const RecordReader::Limits* limits : {&kStranger, &kClient}) {
    if (feed(bytes, {}, *limits) != feed(bytes, std::span(data, 4), *limits)) std::abort();
  }
  return 0;
}
