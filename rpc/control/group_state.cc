#include "rpc/control/group_state.h"

#include <charconv>

namespace weft::rpc::control {

std::string_view to_string(GroupState state) {
  switch (state) {
    case GroupState::kNone: return "none";
    case GroupState::kStarting: return "starting";
    case GroupState::kWhole: return "whole";
    case GroupState::kDegraded: return "degraded";
    case GroupState::kRebuilding: return "rebuilding";
  }
  return "none";
}

// "parity", perhaps followed by ", " and the state, and by ", " and more.
TellGroup read_group_words(std::string_view store) {
  constexpr std::string_view kGroup = "parity";
  constexpr std::string_view kRebuilding = ", rebuilding ";  // and how far: "40 %"
  if (!store.starts_with(kGroup)) return {};
  const std::string_view rest = store.substr(kGroup.size());
  if (!rest.empty() && rest.front() != ',') return {};
  if (rest == ", stopped") return {};
  if (rest == ", starting" || rest.starts_with(", waits for target ")) {
    return {.state = GroupState::kStarting};
  }
  if (rest.starts_with(", degraded")) return {.state = GroupState::kDegraded};
  if (!rest.starts_with(kRebuilding)) return {.state = GroupState::kWhole};
  TellGroup told{.state = GroupState::kRebuilding};
  const std::string_view percent = rest.substr(kRebuilding.size());
  std::uint32_t number = 0;
  const auto read = std::from_chars(percent.data(), percent.data() + percent.size(), number);
  if (read.ec == std::errc() && number <= 100) told.rebuilt_permille = number * 10;
  return told;
}

}  // namespace weft::rpc::control
