// Relocation: another data server takes the place of one in an existing file's layout map.
//
// So that no stripe has fewer copies meanwhile, the newcomer is first added: as a further copy, the
// last one, that has a server at this one stripe and is vacant at all others. When it is current it
// takes the leaving server's place, and the further copy is gone. A stripe that has as many copies
// as a handle can name partners for (kMaxSeats) has no room for one more: there the newcomer takes
// the place at once, and fills it.
//
// Who takes it: a server that is up and not in the map, has room, and is in another failure domain
// than the stripe's other copies; unless those share a domain with the leaving one already. Of
// several the one with the least work under way, and then with the most room.
//
// Threading: plain values and pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "layout/candidate.h"
#include "layout/layout_map.h"
#include "rpc/base/error.h"

namespace weft::layout {

constexpr std::size_t kMaxSeats = 3;  // copies of a stripe: a leader and two partners

struct Seat {
  std::size_t copy = 0;
  std::size_t stripe = 0;

  friend bool operator==(const Seat&, const Seat&) = default;
};

[[nodiscard]] std::optional<Seat> seat_of(const LayoutMap& map, std::uint32_t ds_id);
// How many copies the stripe has.
[[nodiscard]] std::size_t seats_at(const LayoutMap& map, std::size_t stripe);
// Whether one more may be added at the stripe.
[[nodiscard]] bool has_room_at(const LayoutMap& map, std::size_t stripe);

// Preconditions: ds_id is not in the map; has_room_at(map, stripe); no copy has a vacant place.
// A file that had one copy gets a duplication, so that writers bring their bytes to both.
void add_seat(LayoutMap& map, std::size_t stripe, std::uint32_t ds_id);
// Undoes add_seat(). Precondition: the server is alone in the last copy.
void drop_seat(LayoutMap& map, std::uint32_t ds_id);
// The newcomer, alone in the last copy, takes the place of `from` with the state that it has.
void take_seat(LayoutMap& map, std::uint32_t from, std::uint32_t to);
// `to`, which is not in the map, takes the place of `from`: stale, since it has nothing yet, or
// current.
void replace_seat(LayoutMap& map, std::uint32_t from, std::uint32_t to,
                  CopyState state = CopyState::kStale);

struct SuccessorRules {
  std::uint64_t reserve_bytes = 64u << 20;  // to be left free
  std::uint64_t wanted_bytes = 0;           // what it is going to hold
  std::function<unsigned(std::uint32_t ds_id)> under_way = [](std::uint32_t) { return 0U; };
  // Bytes that it is going to get besides.
  std::function<std::uint64_t(std::uint32_t ds_id)> coming = [](std::uint32_t) { return 0U; };
};

// kNoSpace: no server that is up and not in the map has room. kLayoutUnavailable: those that have
// are all in failure domains of the stripe's other copies. kInvalid: `from` is not in the map.
[[nodiscard]] Result<std::uint32_t> choose_successor(const LayoutMap& map, std::uint32_t from,
                                                     std::span<const Candidate> candidates,
                                                     const SuccessorRules& rules);

}  // namespace weft::layout
