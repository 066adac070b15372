#include "layout/copy_choice.h"

#include <algorithm>
#include <string>

namespace weft::layout {
namespace {

std::vector<MemberView> views_of(const LayoutMap& map, std::size_t stripe, const LoadOf& load_of) {
  std::vector<MemberView> views;
  for (const Copy& copy : map.copies) {
    MemberView& view = views.emplace_back();
    const ServerLoad* load = load_of(copy.ds_ids[stripe]);
    view.eligible = load != nullptr && copy.state_of(stripe) == CopyState::kCurrent;
    if (load != nullptr) view.load = *load;
  }
  return views;
}

void prefer_room(std::vector<MemberView>& views, const LayoutMap& map, std::size_t stripe,
                 const HasRoom& has_room) {
  std::vector<bool> room;
  bool any = false;
  for (std::size_t copy = 0; copy < views.size(); ++copy) {
    room.push_back(views[copy].eligible && has_room(map.copies[copy].ds_ids[stripe]));
    any |= room.back();
  }
  for (std::size_t copy = 0; copy < views.size() && any; ++copy) {
    views[copy].eligible = room[copy];
  }
}

}  // namespace

Result<Leads> choose_leads(const LayoutMap& map, const LoadOf& load_of, const ChoiceRules& rules,
                           std::span<const std::uint8_t> before, const HasRoom& has_room) {
  const std::size_t stripes = map.copies.front().ds_ids.size();
  const auto foreign = [&](std::uint8_t copy) { return copy >= map.copies.size(); };
  if (!before.empty() && (before.size() != stripes || std::ranges::any_of(before, foreign))) {
    return fail(Errc::kInvalid, "leads that are not of this map");
  }
  Leads leads;
  for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
    auto views = views_of(map, stripe, load_of);
    prefer_room(views, map, stripe, has_room);
    if (std::ranges::none_of(views, &MemberView::eligible)) {
      return fail(Errc::kLayoutUnavailable,
                  "no copy of stripe " + std::to_string(stripe) + " is current and usable");
    }
    GroupMemory memory;
    if (!before.empty()) memory.leader = before[stripe];
    const MemberChoice choice = choose_member(views, rules, memory, 0);
    leads.copies.push_back(choice.member);
    leads.reasons.push_back(choice.reason);
  }
  return leads;
}

}  // namespace weft::layout
