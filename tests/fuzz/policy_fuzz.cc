// Policies as people write them: what parses is written in one way, which parses to the same and
// makes a layout's policy; what does not says why in printable words.

#include <algorithm>
#include <cstdlib>

#include "layout/mirror_groups.h"
#include "layout/policy.h"

using namespace weft;
using namespace weft::layout;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto policy = parse_policy(text);
  if (!policy) {
    const auto printable = [](char c) { return c >= ' ' && c < 127; };
    if (policy.error().text.empty() || !std::ranges::all_of(policy.error().text, printable)) {
      std::abort();
    }
    return 0;
  }
  const std::string written = to_string(*policy);
  const auto again = parse_policy(written);
  if (!again || *again != *policy || to_string(*again) != written) std::abort();
  for (const LayoutType type : {LayoutType::kFiles, LayoutType::kFlexFiles}) {
    if (!check(*policy, type)) continue;
    const PlacementPolicy made = placement_policy(*policy, type);
    if (!Striping::make(made.stripe_unit, 1) || made.copies < 1 || made.copies > kMaxMirrors) {
      std::abort();
    }
  }
  return 0;
}
