#include "layout/striping.h"

#include "rpc/base/assert.h"

namespace weft::layout {

Result<Striping> Striping::make(std::uint32_t unit_bytes, std::uint32_t count,
                                std::uint32_t first_index) {
  if (unit_bytes == 0 || unit_bytes % kStripeUnitMultiple != 0) {
    return fail(Errc::kInvalid, "stripe unit must be a multiple of 64 bytes");
  }
  if (count == 0 || count > kMaxServers) {
    return fail(Errc::kInvalid, "a layout has 1 to 256 data servers");
  }
  if (first_index >= count) return fail(Errc::kInvalid, "first stripe index out of range");
  return Striping(unit_bytes, count, first_index);
}

Extent Striping::first_extent(std::uint64_t offset, std::uint64_t length) const {
  WEFT_ASSERT(length > 0 && offset <= kMaxFileSize && length <= kMaxFileSize - offset);
  if (count_ == 1) return {0, offset, length};
  const std::uint64_t left_in_unit = unit_ - offset % unit_;
  return {server_of(offset), offset, std::min(length, left_in_unit)};
}

std::uint64_t Striping::object_end(std::uint32_t server, std::uint64_t file_size) const {
  WEFT_ASSERT(server < count_);
  if (file_size == 0) return 0;
  const std::uint64_t last_unit = (file_size - 1) / unit_;
  const std::uint32_t last_server = server_of(file_size - 1);
  if (last_server == server) return file_size;
  const std::uint32_t units_back = (last_server + count_ - server) % count_;
  return last_unit < units_back ? 0 : (last_unit - units_back + 1) * unit_;
}

std::uint64_t Striping::held_below(std::uint32_t server, std::uint64_t end) const {
  const std::uint64_t row = std::uint64_t{unit_} * count_;
  const std::uint64_t first = next_held(server, 0);
  const std::uint64_t rest = end % row;
  return end / row * unit_ + (rest <= first ? 0 : std::min<std::uint64_t>(unit_, rest - first));
}

std::uint64_t Striping::next_held(std::uint32_t server, std::uint64_t offset) const {
  WEFT_ASSERT(server < count_ && offset <= kMaxFileSize);
  const std::uint32_t units_ahead = (server + count_ - server_of(offset)) % count_;
  if (units_ahead == 0) return offset;
  return (offset / unit_ + units_ahead) * unit_;
}

}  // namespace weft::layout
