// Which data servers a client's layout of a mirrored file names, in stripe order.
//
// A layout of the files type knows no mirrors: it is one list of data servers. For writing it names
// one server of each stripe, which brings the bytes to its partners. For reading it may name
// several copies: with a list k times as long, successive stripe units of one stripe go to k
// servers in turn, so that a large read uses every copy of every stripe at once, and of two copies
// each server reads half of what it would have to alone. One may be named more often than another
// (layout/read_choice.h). Objects are sparse files at file offsets, so any copy serves any
// unit of its stripe.
//
// With n stripes, k turns and u the number of a stripe unit, entry (u + first index) mod nk is of
// stripe (u + first index) mod n: nk is a multiple of n, so every unit meets a server that holds
// it.
//
// The flexible files layout knows mirrors, but no first index (its first unit is at the first data
// server of each mirror) and no mirror with a gap. Where the server of a mirror cannot be used, the
// mirror names another copy's server in its place: what is written there twice does no harm, and
// the mirror's other stripes keep their copies.
//
// Threading: plain values and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "layout/layout_map.h"
#include "rpc/base/error.h"

namespace weft::layout {

struct LayoutServers {
  std::vector<std::uint32_t> ds_ids;  // in stripe order; the device's members
  std::uint32_t first_index = 0;

  friend bool operator==(const LayoutServers&, const LayoutServers&) = default;
};

// Whether the server of this copy and stripe is to be used for what is being decided: it is up, and
// not so loaded that it is better left alone.
using Usable = std::function<bool(std::size_t copy, std::size_t stripe)>;

// The servers of copy_of_stripe[s] at each stripe s. kInvalid unless there is one for each stripe
// and each names a copy.
[[nodiscard]] Result<LayoutServers> one_of_each(const LayoutMap& map,
                                                std::span<const std::uint8_t> copy_of_stripe);

// The mirrors of a flexfiles layout: data servers in the order of the file's stripe units. For
// reading only current servers are named, for writing those being repaired too. A mirror whose
// servers all stand in one before it, at the same stripes, is left out. kLayoutUnavailable: a
// stripe has no current usable server
// (`usable` apart, a write must not go only to copies that are being repaired).
[[nodiscard]] Result<std::vector<std::vector<std::uint32_t>>> flex_mirrors(const LayoutMap& map,
                                                                           const Usable& usable,
                                                                           bool writing);

// Whether clients with layouts for writing bring what they write to every copy themselves: the file
// has flexfiles layouts, and all its copies are current.
[[nodiscard]] bool written_by_clients(const LayoutMap& map);

// The data servers that have to get what is written to `copy` at this stripe as well: those of all
// other copies; 0 where there is none. Of stale ones too: what one of them misses has to be told,
// so that the extents it lacks are known. More than two are kNotSupported: a handle has no room.
[[nodiscard]] Result<std::array<std::uint32_t, 2>> partners_of(const LayoutMap& map,
                                                               std::size_t copy,
                                                               std::size_t stripe);

// What one who writes through `copy` at this stripe holds, but for object, client and key: the
// data server, the map's epoch, and what it has to bring to its partners.
[[nodiscard]] Result<Handle> leading_handle(const LayoutMap& map, std::size_t copy,
                                            std::size_t stripe);

}  // namespace weft::layout
