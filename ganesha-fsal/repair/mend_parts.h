// What mending, scrubbing and moving copies have in common.
//
// Threading: values and pure functions.
#pragma once

#include <memory>
#include <vector>

#include "layout/layout_map.h"
#include "rpc/base/error.h"
#include "rpc/control/messages.h"

namespace weft::mds {

namespace control = rpc::control;

// A file's map and leaders; while `pin` lives the leaders stay, and all is written through them.
struct PinnedFile {
  layout::LayoutMap map;
  std::vector<std::uint8_t> leads;  // for each stripe the copy
  std::shared_ptr<void> pin;
};

// The data server has a copy, at one stripe, that is current.
[[nodiscard]] bool is_current(const layout::LayoutMap& map, std::uint32_t ds_id);
// The data servers of the stripe's current copies.
[[nodiscard]] std::vector<std::uint32_t> current_at(const layout::LayoutMap& map,
                                                    std::size_t stripe);
// The leader's server, if its copy is current; else kBusy.
[[nodiscard]] Result<std::uint32_t> source_of(const layout::LayoutMap& map,
                                              const std::vector<std::uint8_t>& leads,
                                              std::size_t stripe);
// Says which of the file's bytes the object holds.
void set_striping(control::Resync& job, const layout::LayoutMap& map, std::size_t copy,
                  std::size_t stripe);

}  // namespace weft::mds
