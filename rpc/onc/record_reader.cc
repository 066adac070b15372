#include "rpc/onc/record_reader.h"

#include <algorithm>
#include <cstring>

#include "rpc/base/assert.h"

namespace weft::rpc {
namespace {

constexpr std::size_t kMark = 4;
constexpr std::uint32_t kLastFragment = 0x80000000;
constexpr std::size_t kPage = 4096;

std::uint32_t be32(const std::byte* at) {
  return std::to_integer<std::uint32_t>(at[0]) << 24 | std::to_integer<std::uint32_t>(at[1]) << 16 |
         std::to_integer<std::uint32_t>(at[2]) << 8 | std::to_integer<std::uint32_t>(at[3]);
}

}  // namespace

RecordReader::Targets RecordReader::targets() {
  Targets out;
  if (in_body_) {
    WEFT_ASSERT(begin_ == end_ && body_left_ > 0);
    out.parts[out.count++] = {block_.data() + filled_, body_left_};
    begin_ = end_ = 0;
  } else if (begin_ > 0) {
    // Less than a small record is left over: moving it is cheap and keeps the room in one piece.
    std::memmove(staging_.data(), staging_.data() + begin_, staged());
    end_ -= begin_;
    begin_ = 0;
  }
  WEFT_ASSERT(end_ < kStaging);
  out.parts[out.count++] = {staging_.data() + end_, kStaging - end_};
  return out;
}

void RecordReader::received(std::size_t size) {
  if (in_body_) {
    const std::size_t to_body = std::min(size, body_left_);
    filled_ += to_body;
    body_left_ -= to_body;
    size -= to_body;
  }
  WEFT_ASSERT(size <= kStaging - end_);
  end_ += size;
}

Result<std::optional<Buffer>> RecordReader::next() {
  for (;;) {
    if (!in_body_) {
      if (staged() < kMark) return std::nullopt;
      const std::uint32_t mark = be32(staging_.data() + begin_);
      const std::size_t size = mark & ~kLastFragment;
      if (size > limits_.max_record_bytes - filled_) {
        return fail(Errc::kTooLarge, "record of " + std::to_string(filled_ + size) + " bytes");
      }
      if (fragments_ >= limits_.max_fragments) return fail(Errc::kProtocol, "too many fragments");
      // Enough of it to see where its payload begins, or all of it.
      if (staged() - kMark < std::min(size, kHead)) return std::nullopt;
      if (auto opened = open_fragment(); !opened) return pass(opened);
    }
    if (body_left_ > 0) return std::nullopt;
    in_body_ = false;
    if (last_fragment_) return emit();
  }
}

Result<> RecordReader::open_fragment() {
  const std::uint32_t mark = be32(staging_.data() + begin_);
  const std::size_t size = mark & ~kLastFragment;
  // kBusy here leaves everything as it was.
  if (auto placed = place(size); !placed) return placed;
  begin_ += kMark;
  ++fragments_;
  last_fragment_ = (mark & kLastFragment) != 0;
  body_left_ = size;
  in_body_ = true;
  take_staged();
  return {};
}

// Makes room in block_ for `size` more bytes.
Result<> RecordReader::place(std::size_t size) {
  if (filled_ + size <= block_.size()) return {};
  if (filled_ == 0) {
    const auto head = std::span(staging_).subspan(begin_ + kMark, std::min(size, kHead));
    const std::size_t payload = locate_ == nullptr ? 0 : locate_(head);
    const bool aligned = payload > 0 && payload < size && size - payload >= kPage;
    const std::size_t pad = aligned ? (kPage - payload % kPage) % kPage : 0;
    auto block = pool_.allocate(pad + size);
    if (!block) return pass(block);
    auto record = block->share(pad, size);
    WEFT_ASSERT(record.has_value());
    block_ = std::move(*record);
    return {};
  }
  // A further fragment: rare, so growing by copying is good enough; doubling bounds the copying.
  const std::size_t room =
      std::min(std::max(filled_ + size, 2 * filled_), limits_.max_record_bytes);
  auto block = pool_.allocate(room);
  if (!block) return pass(block);
  std::memcpy(block->data(), block_.data(), filled_);
  block_ = std::move(*block);
  return {};
}

void RecordReader::take_staged() {
  const std::size_t size = std::min(staged(), body_left_);
  if (size > 0) std::memcpy(block_.data() + filled_, staging_.data() + begin_, size);
  begin_ += size;
  filled_ += size;
  body_left_ -= size;
}

Buffer RecordReader::emit() {
  block_.truncate(filled_);
  filled_ = 0;
  fragments_ = 0;
  last_fragment_ = false;
  return std::exchange(block_, Buffer{});
}

std::array<std::byte, 4> record_mark(std::size_t size) {
  WEFT_ASSERT(size < kLastFragment);
  const std::uint32_t mark = static_cast<std::uint32_t>(size) | kLastFragment;
  return {static_cast<std::byte>(mark >> 24), static_cast<std::byte>(mark >> 16),
          static_cast<std::byte>(mark >> 8), static_cast<std::byte>(mark)};
}

}  // namespace weft::rpc
