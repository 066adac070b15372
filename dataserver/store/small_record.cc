#include "dataserver/store/small_record.h"

#include <xxhash.h>

namespace weft::ds {

namespace {

constexpr std::size_t kFrontBytes = 8;
constexpr std::size_t kSumBytes = 8;

}  // namespace

std::vector<std::byte> RecordWriter::seal() {
  body.u64(XXH64(body.bytes().data(), body.size(), 0));
  return body.take();
}

std::unexpected<Error> damaged(const RecordKind& kind) {
  return fail(Errc::kCorrupt, std::string(kind.name) + " is damaged");
}

Result<RecordReader> open_record(std::span<const std::byte> bytes, const RecordKind& kind) {
  if (bytes.size() < kFrontBytes + kSumBytes) return damaged(kind);
  xdr::Decoder front(bytes.first(kFrontBytes));
  const std::uint32_t magic = front.u32();
  const std::uint32_t version = front.u32();
  const auto summed = bytes.first(bytes.size() - kSumBytes);
  xdr::Decoder sum(bytes.last(kSumBytes));
  // The version counts only once the checksum says that it was written so.
  if (magic != kind.magic || sum.u64() != XXH64(summed.data(), summed.size(), 0)) {
    return damaged(kind);
  }
  if (version < kind.oldest || version > kind.newest) {
    return fail(Errc::kNotSupported,
                std::string(kind.name) + " is of another version, " + std::to_string(version));
  }
  return RecordReader{version, xdr::Decoder(summed.subspan(kFrontBytes))};
}

}  // namespace weft::ds
