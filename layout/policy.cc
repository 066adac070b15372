#include "layout/policy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>
#include <vector>

#include "layout/mirror_groups.h"
#include "rpc/base/assert.h"
#include "rpc/base/nearest.h"
#include "rpc/base/units.h"

namespace weft::layout {
namespace {

constexpr std::array<std::string_view, 8> kKeys = {"stripes", "unit",   "copies", "duplication",
                                                   "reads",   "inline", "skip",   "first"};
// The last is understood, but no policy can have it: check() says why.
constexpr std::array<Duplication, 4> kDuplications = {
    Duplication::kServerAsync, Duplication::kServerSync, Duplication::kClientSync,
    Duplication::kClientAsync};

// What a user wrote, fit for a message.
std::string quoted(std::string_view text) {
  constexpr std::size_t kMost = 32;
  std::string shown = "\"";
  for (const char c : text.substr(0, kMost)) shown += c >= ' ' && c < 127 ? c : '?';
  return shown + (text.size() > kMost ? "...\"" : "\"");
}

// "; did you mean "x"?", or a list of what there is when nothing is near.
std::string hint(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view near = nearest(word, known);
  if (edit_distance(word.substr(0, 64), near) <= near.size() / 3 + 1) {
    return "; did you mean \"" + std::string(near) + "\"?";
  }
  std::string list = "; there are ";
  for (const std::string_view one : known) {
    if (one != known.front()) list += one == known.back() ? " and " : ", ";
    list += one;
  }
  return list;
}

std::unexpected<Error> bad_value(std::string_view key, std::string_view value,
                                 std::string_view may_be) {
  return fail(Errc::kInvalid, std::string(key) + "=" + quoted(value) + ": " + std::string(may_be));
}

// A whole decimal number without sign or leading zeros.
template <class T = std::uint32_t>
std::optional<T> number(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (text.size() > 1 && text.front() == '0') return std::nullopt;
  return value;
}

std::optional<std::uint32_t> size(std::string_view text) {
  const auto bytes = parse_bytes(text);
  if (!bytes || *bytes > UINT32_MAX) return std::nullopt;
  return static_cast<std::uint32_t>(*bytes);
}

Result<> set_stripes(Policy& policy, std::string_view value) {
  const auto stripes = value == "all" ? 0 : number(value);
  if (!stripes || (*stripes == 0 && value != "all") || *stripes > kMaxLayoutServers) {
    return bad_value("stripes", value, "1 to 58, or all");
  }
  policy.stripes = *stripes;
  return {};
}

Result<> set_unit(Policy& policy, std::string_view value) {
  const auto unit = size(value);
  if (!unit || *unit < kLeastUnit || *unit > kGreatestUnit || *unit % kStripeUnitMultiple != 0) {
    return bad_value("unit", value, "4KiB to 1GiB, a multiple of 64 bytes");
  }
  policy.unit = *unit;
  return {};
}

Result<> set_copies(Policy& policy, std::string_view value) {
  const auto copies = number(value);
  if (!copies || *copies < 1 || *copies > kMaxMirrors) {
    return bad_value("copies", value, "1, 2 or 3");
  }
  policy.copies = *copies;
  return {};
}

Result<> set_duplication(Policy& policy, std::string_view value) {
  std::array<std::string_view, kDuplications.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = to_string(kDuplications[i]);
  const auto found = std::ranges::find(names, value);
  if (found == names.end()) {
    return fail(Errc::kInvalid, "duplication=" + quoted(value) + " is unknown" +
                                    hint(value, std::span(names).first<3>()));
  }
  policy.duplication = kDuplications[static_cast<std::size_t>(found - names.begin())];
  return {};
}

Result<> set_reads(Policy& policy, std::string_view value) {
  if (value != "one" && value != "all") return bad_value("reads", value, "one or all");
  policy.reads = value == "one" ? ReadPolicy::kOneCopy : ReadPolicy::kAllCopies;
  return {};
}

Result<> set_inline(Policy& policy, std::string_view value) {
  const auto bytes = size(value);
  if (!bytes || *bytes > kGreatestInline) return bad_value("inline", value, "0 to 1MiB");
  policy.inline_bytes = *bytes;
  return {};
}

Result<> set_skip(Policy& policy, std::string_view value) {
  if (value != "new" && value != "never") return bad_value("skip", value, "new or never");
  policy.skip = value == "new";
  return {};
}

Result<> set_first(Policy& policy, std::string_view value) {
  if (value == "turn" || value == "directory") {
    policy.first = value == "turn" ? kFirstByTurn : kFirstByDirectory;
    return {};
  }
  const auto first = number<std::uint64_t>(value);
  if (!first || *first == 0 || *first > kGreatestFirst) {
    return bad_value("first", value, "turn, directory, or 1 to 9223372036854775807");
  }
  policy.first = *first;
  return {};
}

Result<> set(Policy& policy, std::string_view key, std::string_view value) {
  if (key == "stripes") return set_stripes(policy, value);
  if (key == "unit") return set_unit(policy, value);
  if (key == "copies") return set_copies(policy, value);
  if (key == "duplication") return set_duplication(policy, value);
  if (key == "reads") return set_reads(policy, value);
  if (key == "inline") return set_inline(policy, value);
  if (key == "skip") return set_skip(policy, value);
  if (key == "first") return set_first(policy, value);
  return fail(Errc::kInvalid, "no policy has the key " + quoted(key) + hint(key, kKeys));
}

std::string first_text(std::uint64_t first) {
  if (first == kFirstByTurn) return "turn";
  return first == kFirstByDirectory ? "directory" : std::to_string(first);
}

std::string unit_text(std::uint32_t bytes) {
  if (bytes == 0) return "0";
  constexpr std::array<std::pair<unsigned, std::string_view>, 3> kUnits = {
      {{30, "GiB"}, {20, "MiB"}, {10, "KiB"}}};
  for (const auto& [shift, name] : kUnits) {
    if (bytes % (1u << shift) == 0) return std::to_string(bytes >> shift) + std::string(name);
  }
  return std::to_string(bytes);
}

}  // namespace

Result<Policy> parse_policy(std::string_view text) {
  constexpr std::string_view kBetween = " \t\r\n,";
  if (text.size() > kMaxPolicyText) return fail(Errc::kInvalid, "longer than 512 bytes");
  Policy policy;
  std::vector<std::string_view> seen;
  std::size_t at = 0;
  while ((at = text.find_first_not_of(kBetween, at)) != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    const std::string_view item = text.substr(at, end - at);
    at = end;
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      return fail(Errc::kInvalid, quoted(item) + " is not key=value");
    }
    const std::string_view key = item.substr(0, equals);
    if (std::ranges::find(seen, key) != seen.end()) {
      return fail(Errc::kInvalid, "the key " + quoted(key) + " stands twice");
    }
    if (auto fine = set(policy, key, item.substr(equals + 1)); !fine) return pass(fine);
    seen.push_back(key);
  }
  return policy;
}

std::string to_string(const Policy& policy) {
  std::string text;
  const auto add = [&](std::string_view key, std::string_view value) {
    if (!text.empty()) text += ' ';
    text.append(key).append("=").append(value);
  };
  if (policy.stripes)
    add("stripes", *policy.stripes == 0 ? "all" : std::to_string(*policy.stripes));
  if (policy.unit) add("unit", unit_text(*policy.unit));
  if (policy.copies) add("copies", std::to_string(*policy.copies));
  if (policy.duplication) add("duplication", to_string(*policy.duplication));
  if (policy.reads) add("reads", *policy.reads == ReadPolicy::kOneCopy ? "one" : "all");
  if (policy.inline_bytes) add("inline", unit_text(*policy.inline_bytes));
  if (policy.skip) add("skip", *policy.skip ? "new" : "never");
  if (policy.first) add("first", first_text(*policy.first));
  return text;
}

Policy inherit(const Policy& above, const Policy& own) {
  Policy policy = own;
  if (!policy.stripes) policy.stripes = above.stripes;
  if (!policy.unit) policy.unit = above.unit;
  if (!policy.copies) policy.copies = above.copies;
  if (!policy.duplication) policy.duplication = above.duplication;
  if (!policy.reads) policy.reads = above.reads;
  if (!policy.inline_bytes) policy.inline_bytes = above.inline_bytes;
  if (!policy.skip) policy.skip = above.skip;
  if (!policy.first) policy.first = above.first;
  return policy;
}

Policy defaults_for(LayoutType type) {
  Policy policy;
  const bool flex = type == LayoutType::kFlexFiles;
  policy.stripes = flex ? 1 : 0;
  policy.unit = 1u << 20;
  policy.copies = 1;
  policy.duplication = flex ? Duplication::kClientSync : Duplication::kServerSync;
  policy.reads = ReadPolicy::kAllCopies;
  policy.inline_bytes = 0;
  policy.skip = true;
  policy.first = kFirstByTurn;
  return policy;
}

Policy policy_of(const PlacementPolicy& options) {
  Policy policy;
  policy.stripes = std::min<std::uint32_t>(options.stripe_count, kMaxLayoutServers);
  policy.unit = options.stripe_unit;
  policy.copies = options.copies;
  policy.duplication = options.duplication;
  policy.reads = options.reads;
  policy.inline_bytes = options.inline_bytes;
  policy.skip = options.skip;
  policy.first = options.first;
  return policy;
}

Policy policy_of(const LayoutMap& map) {
  Policy policy;
  policy.stripes = static_cast<std::uint32_t>(map.copies.front().ds_ids.size());
  policy.unit = map.stripe_unit;
  policy.copies = static_cast<std::uint32_t>(map.copies.size());
  if (map.copies.size() == 1) return policy;
  if (map.duplication != Duplication::kNone) policy.duplication = map.duplication;
  policy.reads = map.reads;
  return policy;
}

Result<> check(const Policy& policy, LayoutType type) {
  if (type == LayoutType::kFlexFiles && policy.stripes.value_or(1) != 1) {
    return fail(Errc::kInvalid,
                "stripes=" + (*policy.stripes == 0 ? "all" : std::to_string(*policy.stripes)) +
                    " needs the files layout, the export has flexfiles: stripes=1");
  }
  if (!policy.duplication) return {};
  if (*policy.duplication == Duplication::kClientAsync) {
    return fail(Errc::kInvalid,
                std::string("duplication=client-async: a client that writes every copy waits for "
                            "all of them; use ") +
                    (type == LayoutType::kFlexFiles ? "client-sync" : "server-async"));
  }
  const bool clients = *policy.duplication == Duplication::kClientSync;
  if (clients == (type == LayoutType::kFlexFiles)) return {};
  return fail(Errc::kInvalid, "duplication=" + std::string(to_string(*policy.duplication)) +
                                  (clients ? " needs the flexfiles layout, the export has files"
                                           : " needs the files layout, the export has flexfiles"));
}

PlacementPolicy placement_policy(const Policy& policy, LayoutType type,
                                 const PlacementPolicy& base) {
  WEFT_ASSERT(check(policy, type).has_value());
  const Policy whole = inherit(defaults_for(type), policy);
  PlacementPolicy made = base;
  made.type = type;
  made.stripe_count = *whole.stripes;
  made.stripe_unit = *whole.unit;
  made.copies = *whole.copies;
  made.duplication = *whole.duplication;
  made.reads = *whole.reads;
  made.inline_bytes = *whole.inline_bytes;
  made.skip = *whole.skip;
  made.first = *whole.first == kFirstByDirectory ? kFirstByTurn : *whole.first;
  return made;
}

}  // namespace weft::layout
