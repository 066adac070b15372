// Which copies of an existing file a layout for writing is to use, stripe by stripe, by what its
// data servers have to spare: layout/member_choice.h applied to a layout map.
//
// For writing, one copy of each stripe leads. Two clients that write the same bytes through
// different leaders at once could leave copies different, so layouts that are out at the same time
// must have the same leaders: the caller passes those on as `leads`, and only when no layout for
// writing is out lets them be chosen anew.
//
// Who is read is chosen by another rule (layout/read_choice.h).
//
// Threading: plain values and pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "layout/layout_map.h"
#include "layout/layout_servers.h"
#include "layout/member_choice.h"
#include "rpc/base/error.h"

namespace weft::layout {

// The load of a data server; null when it cannot be used (down, or not to be reached by the
// client). What it points to lives until the call it was passed to returns.
using LoadOf = std::function<const ServerLoad*(std::uint32_t ds_id)>;

// Whether a data server has room for what is written until more is known of it.
using HasRoom = std::function<bool(std::uint32_t ds_id)>;

struct Leads {
  std::vector<std::uint8_t> copies;  // of each stripe, the index of the leading copy
  std::vector<Reason> reasons;       // of each stripe

  friend bool operator==(const Leads&, const Leads&) = default;
};

// The leading copy of every stripe, of those that are current and usable; of those that have room,
// if any has, since what a leader cannot write its copy has missed. `before`: the leads so far,
// which are kept unless others are clearly better (empty: there are none, and of copies that are
// alike the first one leads, as placement meant). kLayoutUnavailable: a stripe has no such copy.
// kInvalid: `before` is not of this map.
[[nodiscard]] Result<Leads> choose_leads(
    const LayoutMap& map, const LoadOf& load_of, const ChoiceRules& rules,
    std::span<const std::uint8_t> before = {},
    const HasRoom& has_room = [](std::uint32_t) { return true; });

}  // namespace weft::layout
