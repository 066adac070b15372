#include "layout/relocation.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "rpc/base/assert.h"

namespace weft::layout {
namespace {

// The data server's seat, alone in the last copy.
Seat lone_seat(const LayoutMap& map, std::uint32_t ds_id) {
  const auto seat = seat_of(map, ds_id);
  WEFT_ASSERT(seat && map.copies.size() > 1 && seat->copy + 1 == map.copies.size());
  const Copy& last = map.copies.back();
  WEFT_ASSERT(static_cast<std::size_t>(std::ranges::count(last.ds_ids, 0U)) + 1 ==
              last.ds_ids.size());
  return *seat;
}

void drop_last(LayoutMap& map) {
  map.copies.pop_back();
  if (map.copies.size() == 1) map.duplication = Duplication::kNone;
}

bool has_room(const Candidate& server, const SuccessorRules& rules) {
  if (server.free_bytes <= rules.reserve_bytes) return false;
  const std::uint64_t room = server.free_bytes - rules.reserve_bytes;
  const std::uint64_t coming = rules.coming(server.ds_id);
  return coming <= room && rules.wanted_bytes <= room - coming;
}

double free_part(const Candidate& server) {
  if (server.capacity_bytes == 0) return 0;
  return static_cast<double>(server.free_bytes) / static_cast<double>(server.capacity_bytes);
}

}  // namespace

std::optional<Seat> seat_of(const LayoutMap& map, std::uint32_t ds_id) {
  for (std::size_t copy = 0; copy < map.copies.size() && ds_id != 0; ++copy) {
    const auto& ids = map.copies[copy].ds_ids;
    const auto at = std::ranges::find(ids, ds_id);
    if (at != ids.end()) return Seat{copy, static_cast<std::size_t>(at - ids.begin())};
  }
  return std::nullopt;
}

std::size_t seats_at(const LayoutMap& map, std::size_t stripe) {
  return static_cast<std::size_t>(
      std::ranges::count_if(map.copies, [stripe](const Copy& copy) { return copy.holds(stripe); }));
}

bool has_room_at(const LayoutMap& map, std::size_t stripe) {
  return seats_at(map, stripe) < kMaxSeats && map.copies.size() < kMaxCopies;
}

void add_seat(LayoutMap& map, std::size_t stripe, std::uint32_t ds_id) {
  WEFT_ASSERT(!seat_of(map, ds_id) && has_room_at(map, stripe));
  const std::size_t stripes = map.copies.front().ds_ids.size();
  if (map.copies.size() == 1 && map.duplication == Duplication::kNone) {
    map.duplication =
        map.type == LayoutType::kFlexFiles ? Duplication::kClientSync : Duplication::kServerSync;
  }
  Copy added{.state = CopyState::kVacant,
             .first_index = map.copies.front().first_index,
             .ds_ids = std::vector<std::uint32_t>(stripes, 0),
             .states = {}};
  added.ds_ids[stripe] = ds_id;
  added.set_state(stripe, CopyState::kStale);
  map.copies.push_back(std::move(added));
}

void drop_seat(LayoutMap& map, std::uint32_t ds_id) {
  std::ignore = lone_seat(map, ds_id);
  drop_last(map);
}

void take_seat(LayoutMap& map, std::uint32_t from, std::uint32_t to) {
  const Seat newcomer = lone_seat(map, to);
  const auto seat = seat_of(map, from);
  WEFT_ASSERT(seat && seat->stripe == newcomer.stripe && seat->copy != newcomer.copy);
  const CopyState state = map.copies.back().state_of(newcomer.stripe);
  drop_last(map);
  map.copies[seat->copy].ds_ids[seat->stripe] = to;
  map.copies[seat->copy].set_state(seat->stripe, state);
  map.set_reason(seat->copy, seat->stripe, Reason::kMoved);
}

void replace_seat(LayoutMap& map, std::uint32_t from, std::uint32_t to, CopyState state) {
  const auto seat = seat_of(map, from);
  WEFT_ASSERT(seat && !seat_of(map, to));
  map.copies[seat->copy].ds_ids[seat->stripe] = to;
  map.copies[seat->copy].set_state(seat->stripe, state);
  map.set_reason(seat->copy, seat->stripe, Reason::kMoved);
}

Result<std::uint32_t> choose_successor(const LayoutMap& map, std::uint32_t from,
                                       std::span<const Candidate> candidates,
                                       const SuccessorRules& rules) {
  const auto seat = seat_of(map, from);
  if (!seat) return fail(Errc::kInvalid, "the data server is not in the map");
  std::string own_domain;
  std::set<std::string> taken;
  for (const Candidate& server : candidates) {
    if (server.ds_id == from) own_domain = server.domain;
    const auto at = seat_of(map, server.ds_id);
    if (at && at->stripe == seat->stripe && server.ds_id != from) taken.insert(server.domain);
  }
  const bool shared = taken.contains(own_domain);
  const Candidate* best = nullptr;
  bool room = false;
  const auto rank = [&](const Candidate& server) {
    return std::tuple(!taken.contains(server.domain),
                      -static_cast<int>(rules.under_way(server.ds_id)), free_part(server),
                      -static_cast<std::int64_t>(server.ds_id));
  };
  for (const Candidate& server : candidates) {
    if (server.state != ServerState::kUp || seat_of(map, server.ds_id)) continue;
    if (!has_room(server, rules)) continue;
    room = true;
    if (taken.contains(server.domain) && !shared) continue;
    if (best == nullptr || rank(server) > rank(*best)) best = &server;
  }
  if (best != nullptr) return best->ds_id;
  if (room) {
    return fail(Errc::kLayoutUnavailable,
                "the data servers that have room are in the failure domains of the other copies");
  }
  return fail(Errc::kNoSpace, "no other data server that is up has room");
}

}  // namespace weft::layout
