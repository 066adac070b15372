#include "layout/layout_map.h"

#include <algorithm>

#include "rpc/base/assert.h"
#include "rpc/xdr/xdr.h"

namespace weft::layout {
namespace {

constexpr std::uint32_t kFormat = 1;

Result<> validate(const Copy& copy, std::uint32_t stripe_unit) {
  // The count is checked before it is narrowed.
  if (copy.ds_ids.size() > kMaxServers) return fail(Errc::kInvalid, "too many data servers");
  const auto striping =
      Striping::make(stripe_unit, static_cast<std::uint32_t>(copy.ds_ids.size()), copy.first_index);
  if (!striping) return fail(Errc::kInvalid, striping.error().text);
  std::vector<std::uint32_t> sorted = copy.ds_ids;
  std::ranges::sort(sorted);
  if (sorted.front() == 0) return fail(Errc::kInvalid, "data server id 0");
  if (std::ranges::adjacent_find(sorted) != sorted.end()) {
    return fail(Errc::kInvalid, "a data server twice in one copy");
  }
  if (copy.state != CopyState::kCurrent && copy.state != CopyState::kStale) {
    return fail(Errc::kInvalid, "unknown copy state");
  }
  return {};
}

}  // namespace

Striping LayoutMap::striping(std::size_t copy) const {
  WEFT_ASSERT(copy < copies.size());
  const auto made =
      Striping::make(stripe_unit, static_cast<std::uint32_t>(copies[copy].ds_ids.size()),
                     copies[copy].first_index);
  WEFT_ASSERT(made.has_value());
  return *made;
}

Result<> validate(const LayoutMap& map) {
  if (map.type != LayoutType::kFiles && map.type != LayoutType::kFlexFiles) {
    return fail(Errc::kInvalid, "unknown layout type");
  }
  if (map.object_generation == 0) return fail(Errc::kInvalid, "object generation 0");
  if (map.copies.empty() || map.copies.size() > kMaxCopies) {
    return fail(Errc::kInvalid, "a layout map has 1 to 16 copies");
  }
  for (const Copy& copy : map.copies) {
    if (auto valid = validate(copy, map.stripe_unit); !valid) return valid;
    if (copy.ds_ids.size() != map.copies.front().ds_ids.size()) {
      return fail(Errc::kInvalid, "copies of different widths");
    }
  }
  return {};
}

std::string encode_layout_map(const LayoutMap& map) {
  WEFT_ASSERT(validate(map).has_value());
  xdr::Encoder out(64);
  out.u32(kFormat);
  out.u32(static_cast<std::uint32_t>(map.type));
  out.u32(map.stripe_unit);
  out.u32(map.object_generation);
  out.u32(map.object_epoch);
  out.u32(static_cast<std::uint32_t>(map.copies.size()));
  for (const Copy& copy : map.copies) {
    out.u32(static_cast<std::uint32_t>(copy.state));
    out.u32(copy.first_index);
    out.u32(static_cast<std::uint32_t>(copy.ds_ids.size()));
    for (const std::uint32_t id : copy.ds_ids) out.u32(id);
  }
  const auto bytes = out.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<LayoutMap> decode_layout_map(std::span<const std::byte> bytes) {
  xdr::Decoder in(bytes);
  const std::uint32_t format = in.u32();
  if (in.ok() && format != kFormat) return fail(Errc::kNotSupported, "layout map format");
  LayoutMap map;
  map.type = static_cast<LayoutType>(in.u32());
  map.stripe_unit = in.u32();
  map.object_generation = in.u32();
  map.object_epoch = in.u32();
  const std::uint32_t copies = in.count(kMaxCopies);
  for (std::uint32_t i = 0; i < copies && in.ok(); ++i) {
    Copy& copy = map.copies.emplace_back();
    copy.state = static_cast<CopyState>(in.u32());
    copy.first_index = in.u32();
    const std::uint32_t servers = in.count(kMaxServers);
    for (std::uint32_t j = 0; j < servers && in.ok(); ++j) copy.ds_ids.push_back(in.u32());
  }
  if (!in.ok() || in.remaining() != 0) return fail(Errc::kCorrupt, "malformed layout map");
  if (const auto valid = validate(map); !valid) {
    return fail(Errc::kCorrupt, "layout map: " + valid.error().text);
  }
  return map;
}

Result<LayoutMap> decode_layout_map(std::string_view bytes) {
  return decode_layout_map(std::as_bytes(std::span(bytes)));
}

}  // namespace weft::layout
