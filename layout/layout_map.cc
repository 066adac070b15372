#include "layout/layout_map.h"

#include <algorithm>
#include <functional>

#include "rpc/base/assert.h"
#include "rpc/xdr/xdr.h"

namespace weft::layout {
namespace {

constexpr std::uint32_t kFormat = 2;
constexpr std::uint32_t kFormatWithVacant = 3;

bool known(CopyState state) {
  return state == CopyState::kCurrent || state == CopyState::kStale ||
         state == CopyState::kResyncing || state == CopyState::kVacant;
}

int badness(CopyState state) {
  switch (state) {
    case CopyState::kCurrent: return 0;
    case CopyState::kResyncing: return 1;
    case CopyState::kStale: return 2;
    case CopyState::kVacant: break;
  }
  return 3;
}

Result<> validate_states(const Copy& copy) {
  if (!known(copy.state) || !std::ranges::all_of(copy.states, known)) {
    return fail(Errc::kInvalid, "unknown copy state");
  }
  if (copy.states.empty()) return {};
  if (copy.states.size() != copy.ds_ids.size()) {
    return fail(Errc::kInvalid, "one state for each data server");
  }
  if (std::ranges::adjacent_find(copy.states, std::not_equal_to<>{}) == copy.states.end()) {
    return fail(Errc::kInvalid, "states that are all the same are one");
  }
  if (copy.state != *std::ranges::max_element(copy.states, {}, badness)) {
    return fail(Errc::kInvalid, "a copy's state is the worst of its data servers'");
  }
  return {};
}

Result<> validate(const Copy& copy, std::uint32_t stripe_unit) {
  // The count is checked before it is narrowed.
  if (copy.ds_ids.size() > kMaxServers) return fail(Errc::kInvalid, "too many data servers");
  const auto striping =
      Striping::make(stripe_unit, static_cast<std::uint32_t>(copy.ds_ids.size()), copy.first_index);
  if (!striping) return fail(Errc::kInvalid, striping.error().text);
  return validate_states(copy);
}

bool has_vacant(const LayoutMap& map) {
  return std::ranges::any_of(map.copies,
                             [](const Copy& copy) { return copy.state == CopyState::kVacant; });
}

Result<> validate_servers(const LayoutMap& map) {
  std::vector<std::uint32_t> all;
  for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
    const Copy& of = map.copies[copy];
    bool held = false;
    for (std::size_t at = 0; at < of.ds_ids.size(); ++at) {
      if ((of.ds_ids[at] == 0) == of.holds(at)) {
        return fail(Errc::kInvalid, "data server id 0, or one at a vacant place");
      }
      if (!of.holds(at)) continue;
      held = true;
      all.push_back(of.ds_ids[at]);
    }
    // The last copy alone may be filled place by place, and is of something.
    const bool last = copy > 0 && copy + 1 == map.copies.size();
    if (of.state == CopyState::kVacant && (!last || !held)) {
      return fail(Errc::kInvalid, "a vacant place in a copy that is to be whole");
    }
  }
  std::ranges::sort(all);
  if (std::ranges::adjacent_find(all) != all.end()) {
    return fail(Errc::kInvalid, "a data server twice");
  }
  return {};
}

Result<> validate(const Placed& placed, std::size_t copies, std::size_t width) {
  const auto known = [](Reason reason) { return static_cast<std::uint8_t>(reason) <= kLastReason; };
  if (placed.reasons.size() % width != 0 || placed.reasons.size() / width > copies) {
    return fail(Errc::kInvalid, "one reason for each stripe of a copy");
  }
  if (!std::ranges::all_of(placed.reasons, known) || !known(placed.skipped_for)) {
    return fail(Errc::kInvalid, "unknown reason");
  }
  if (placed.skipped_ds == 0 && placed.skipped_for != Reason::kUnknown) {
    return fail(Errc::kInvalid, "a reason to skip nothing");
  }
  return {};
}

void encode_states(xdr::Encoder& out, const Copy& copy) {
  if (copy.states.empty()) {
    const bool current = copy.state == CopyState::kCurrent;
    out.u32(current ? 0 : 1);
    if (!current) out.u32(static_cast<std::uint32_t>(copy.state));
    return;
  }
  out.u32(static_cast<std::uint32_t>(copy.states.size()));
  for (const CopyState state : copy.states) out.u32(static_cast<std::uint32_t>(state));
}

// Rejects states that encode_states would have written shorter.
void decode_states(xdr::Decoder& in, Copy& copy) {
  const std::uint32_t states = in.count(kMaxServers);
  for (std::uint32_t i = 0; i < states && in.ok(); ++i) {
    copy.states.push_back(static_cast<CopyState>(in.u32()));
  }
  if (!in.ok() || copy.states.empty()) return;
  copy.state = *std::ranges::max_element(copy.states, {}, badness);
  if (states == 1) {
    copy.states.clear();
    if (copy.state == CopyState::kCurrent) in.reject();
  }
}

void decode_placed(xdr::Decoder& in, Placed& placed) {
  for (const std::byte reason : in.opaque(kMaxServers)) {
    placed.reasons.push_back(static_cast<Reason>(reason));
  }
  placed.skipped_ds = in.u32();
  const std::uint32_t skipped_for = in.u32();
  if (skipped_for > kLastReason) return in.reject();
  placed.skipped_for = static_cast<Reason>(skipped_for);
}

}  // namespace

std::string_view to_string(CopyState state) {
  switch (state) {
    case CopyState::kCurrent: return "current";
    case CopyState::kStale: return "stale";
    case CopyState::kResyncing: return "resyncing";
    case CopyState::kVacant: return "vacant";
  }
  return "unknown";
}

void Copy::set_state(std::size_t server, CopyState to) {
  WEFT_ASSERT(server < ds_ids.size());
  if (states.empty()) states.assign(ds_ids.size(), state);
  states[server] = to;
  state = *std::ranges::max_element(states, {}, badness);
  const auto differs = std::ranges::adjacent_find(states, std::not_equal_to<>{});
  if (differs == states.end()) states.clear();
}

Reason LayoutMap::reason_of(std::size_t copy, std::size_t server) const {
  const std::size_t at = copy * copies.front().ds_ids.size() + server;
  return at < placed.reasons.size() ? placed.reasons[at] : Reason::kUnknown;
}

void LayoutMap::set_reason(std::size_t copy, std::size_t server, Reason reason) {
  const std::size_t at = copy * copies.front().ds_ids.size() + server;
  if (at < placed.reasons.size()) placed.reasons[at] = reason;
}

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
    if (copy.first_index != map.copies.front().first_index) {
      return fail(Errc::kInvalid, "copies that begin at different stripes");
    }
  }
  if (map.duplication > Duplication::kClientSync) {
    return fail(Errc::kInvalid, "unknown duplication");
  }
  if (map.reads != ReadPolicy::kOneCopy && map.reads != ReadPolicy::kAllCopies) {
    return fail(Errc::kInvalid, "unknown read policy");
  }
  if (auto valid = validate_servers(map); !valid) return valid;
  return validate(map.placed, map.copies.size(), map.copies.front().ds_ids.size());
}

std::string encode_layout_map(const LayoutMap& map) {
  WEFT_ASSERT(validate(map).has_value());
  xdr::Encoder out(64);
  out.u32(has_vacant(map) ? kFormatWithVacant : kFormat);
  out.u32(static_cast<std::uint32_t>(map.type));
  out.u32(map.stripe_unit);
  out.u32(map.object_generation);
  out.u32(map.object_epoch);
  out.u32(static_cast<std::uint32_t>(map.duplication));
  out.u32(static_cast<std::uint32_t>(map.reads));
  out.u32(static_cast<std::uint32_t>(map.copies.size()));
  for (const Copy& copy : map.copies) {
    out.u32(copy.first_index);
    out.u32(static_cast<std::uint32_t>(copy.ds_ids.size()));
    for (const std::uint32_t id : copy.ds_ids) out.u32(id);
    encode_states(out, copy);
  }
  out.opaque(std::as_bytes(std::span(map.placed.reasons)));
  out.u32(map.placed.skipped_ds);
  out.u32(static_cast<std::uint32_t>(map.placed.skipped_for));
  const auto bytes = out.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<LayoutMap> decode_layout_map(std::span<const std::byte> bytes) {
  xdr::Decoder in(bytes);
  const std::uint32_t format = in.u32();
  if (in.ok() && format != kFormat && format != kFormatWithVacant) {
    return fail(Errc::kNotSupported, "layout map format");
  }
  LayoutMap map;
  map.type = static_cast<LayoutType>(in.u32());
  map.stripe_unit = in.u32();
  map.object_generation = in.u32();
  map.object_epoch = in.u32();
  const std::uint32_t duplication = in.u32();
  if (duplication > static_cast<std::uint32_t>(Duplication::kClientSync)) in.reject();
  map.duplication = static_cast<Duplication>(duplication);
  map.reads = static_cast<ReadPolicy>(in.u32());
  const std::uint32_t copies = in.count(kMaxCopies);
  for (std::uint32_t i = 0; i < copies && in.ok(); ++i) {
    Copy& copy = map.copies.emplace_back();
    copy.first_index = in.u32();
    const std::uint32_t servers = in.count(kMaxServers);
    for (std::uint32_t j = 0; j < servers && in.ok(); ++j) copy.ds_ids.push_back(in.u32());
    decode_states(in, copy);
  }
  decode_placed(in, map.placed);
  if (!in.ok() || in.remaining() != 0) return fail(Errc::kCorrupt, "malformed layout map");
  if (const auto valid = validate(map); !valid) {
    return fail(Errc::kCorrupt, "layout map: " + valid.error().text);
  }
  if (has_vacant(map) != (format == kFormatWithVacant)) {
    return fail(Errc::kCorrupt, "layout map: vacant places and format do not fit");
  }
  return map;
}

Result<LayoutMap> decode_layout_map(std::string_view bytes) {
  return decode_layout_map(std::as_bytes(std::span(bytes)));
}

}  // namespace weft::layout
