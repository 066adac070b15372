#include "layout/layout_servers.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <set>

#include "layout/device_table.h"
#include "layout/files_layout.h"
#include "layout/read_choice.h"

using namespace weft;
using namespace weft::layout;

namespace {

using Ids = std::vector<std::uint32_t>;

// Stripes 0, 1, 2; servers 1 to 3, 11 to 13, 21 to 23.
LayoutMap mirrored(std::uint32_t copies, std::uint32_t stripes = 3, std::uint32_t first = 0) {
  LayoutMap map;
  map.stripe_unit = 64;
  map.duplication = Duplication::kServerSync;
  for (std::uint32_t copy = 0; copy < copies; ++copy) {
    Ids ids;
    for (std::uint32_t i = 1; i <= stripes; ++i) ids.push_back(copy * 10 * stripes / 3 + i);
    map.copies.push_back({CopyState::kCurrent, first, ids});
  }
  return map;
}

bool always(std::size_t, std::size_t) { return true; }

// Of all copies that are current and usable, nothing being known of loads.
Result<LayoutServers> all_of_each(const LayoutMap& map, const Usable& usable, std::size_t most) {
  const ReaderView idle;
  std::set<std::uint32_t> here;
  for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
    const auto& ids = map.copies[copy].ds_ids;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (usable(copy, i)) here.insert(ids[i]);
    }
  }
  auto spares =
      spares_of(map, [&](std::uint32_t id) { return here.contains(id) ? &idle : nullptr; }, 0);
  if (!spares) return pass(spares);
  return servers_in_turn(map, share_reads(*spares, most));
}

}  // namespace

TEST_CASE("a layout of one server of each stripe") {
  const LayoutMap map = mirrored(2, 3, 2);
  const std::uint8_t mixed[] = {0, 1, 0};
  const auto servers = one_of_each(map, mixed);
  REQUIRE(servers);
  CHECK(servers->ds_ids == Ids{1, 12, 3});
  CHECK(servers->first_index == 2);
  const std::uint8_t none[] = {0, 2, 0};
  CHECK(one_of_each(map, none).error() == Errc::kInvalid);
  CHECK(one_of_each(map, std::span(mixed).first(2)).error() == Errc::kInvalid);
}

TEST_CASE("a doubled read names both copies, in turn from unit to unit of a stripe") {
  const auto servers = all_of_each(mirrored(2), always, 58);
  REQUIRE(servers);
  CHECK(servers->ds_ids == Ids{1, 12, 3, 11, 2, 13});
}

TEST_CASE("one copy, or no room for more, is a plain layout") {
  CHECK(all_of_each(mirrored(1), always, 58)->ds_ids == Ids{1, 2, 3});
  CHECK(all_of_each(mirrored(2), always, 5)->ds_ids == Ids{1, 12, 3});
  CHECK(all_of_each(mirrored(3), always, 8)->ds_ids.size() == 6);
  CHECK(all_of_each(mirrored(3), always, 9)->ds_ids.size() == 9);
}

TEST_CASE("copies that are stale, being repaired, or not to be used are not read") {
  LayoutMap map = mirrored(2);
  map.copies[1].set_state(0, CopyState::kStale);
  map.copies[0].set_state(1, CopyState::kResyncing);
  const auto not_third = [](std::size_t copy, std::size_t stripe) {
    return copy != 0 || stripe != 2;
  };
  const auto servers = all_of_each(map, not_third, 58);
  REQUIRE(servers);
  CHECK(servers->ds_ids == Ids{1, 12, 13});
  map.copies[0].set_state(0, CopyState::kStale);
  CHECK(all_of_each(map, always, 58).error() == Errc::kLayoutUnavailable);
}

TEST_CASE("every byte maps to a usable server that holds it, and load is spread") {
  CHECK(rc::check([] {
    const auto copies = *rc::gen::inRange<std::uint32_t>(1, 4);
    const auto stripes = *rc::gen::inRange<std::uint32_t>(1, 20);
    const auto first = *rc::gen::inRange<std::uint32_t>(0, stripes);
    LayoutMap map = mirrored(copies, 3 * stripes, first);
    const std::size_t width = map.copies[0].ds_ids.size();
    std::vector<std::vector<bool>> up(copies, std::vector<bool>(width, true));
    bool whole = true;
    for (std::size_t i = 0; i < width && *rc::gen::arbitrary<bool>(); ++i) {
      const auto copy = *rc::gen::inRange<std::uint32_t>(0, copies);
      const auto stripe = *rc::gen::inRange<std::size_t>(0, width);
      whole = false;
      if (*rc::gen::arbitrary<bool>())
        up[copy][stripe] = false;
      else
        map.copies[copy].set_state(stripe, CopyState::kStale);
    }
    const auto usable = [&](std::size_t copy, std::size_t stripe) { return up[copy][stripe]; };
    const auto servers = all_of_each(map, usable, kMaxServers);
    if (!servers) {
      RC_ASSERT(!whole);
      return;
    }
    const auto listed = static_cast<std::uint32_t>(servers->ds_ids.size());
    const auto striping = Striping::make(map.stripe_unit, listed, servers->first_index);
    RC_ASSERT(striping.has_value());
    std::map<std::uint32_t, int> units;
    for (std::uint64_t unit = 0; unit < listed; ++unit) {
      const std::uint64_t offset = unit * map.stripe_unit + unit % map.stripe_unit;
      const std::uint32_t server = servers->ds_ids[striping->server_of(offset)];
      const std::uint32_t stripe = map.striping().server_of(offset);
      bool holds = false;
      for (std::size_t copy = 0; copy < copies; ++copy) {
        holds |= map.copies[copy].ds_ids[stripe] == server && up[copy][stripe] &&
                 map.copies[copy].state_of(stripe) == CopyState::kCurrent;
      }
      RC_ASSERT(holds);
      ++units[server];
    }
    if (!whole) return;
    // All copies at once: each server reads one unit where the servers of one copy read `copies`.
    RC_ASSERT(listed == width * std::min<std::size_t>(copies, kMaxServers / width));
    for (const auto& [server, count] : units) RC_ASSERT(count == 1);
  }));
}

TEST_CASE("a doubled read is an ordinary device and layout on the wire") {
  const auto servers = all_of_each(mirrored(2, 3, 1), always, 58);
  REQUIRE(servers);
  Device device{1, {}};
  FilesLayout files;
  files.stripe_unit = 64;
  files.first_stripe_index = servers->first_index;
  for (const std::uint32_t id : servers->ds_ids) {
    device.members.push_back(
        {id, 1, {make_address("192.0.2.1", static_cast<std::uint16_t>(id)).value()}});
    files.handles.push_back(seal({.ds_id = id}, {}));
  }
  xdr::Encoder device_body;
  REQUIRE(encode(device_body, files_device(device)));
  const auto indices = decode_files_device(device_body.bytes())->stripe_indices;
  CHECK(indices == Ids{0, 1, 2, 3, 4, 5});
  xdr::Encoder layout_body;
  REQUIRE(encode(layout_body, files));
  CHECK(decode_files_layout(layout_body.bytes()).value() == files);
}

TEST_CASE("flexfiles mirrors begin at the file's first unit") {
  const LayoutMap map = mirrored(2, 3, 2);
  using Mirrors = std::vector<Ids>;
  CHECK(flex_mirrors(map, always, false).value() == Mirrors{{3, 1, 2}, {13, 11, 12}});
  CHECK(flex_mirrors(mirrored(1, 3, 1), always, true).value() == Mirrors{{2, 3, 1}});
}

TEST_CASE("clients write the copies themselves of flexfiles all of whose copies are current") {
  LayoutMap map = mirrored(2, 1);
  CHECK_FALSE(written_by_clients(map));
  map.type = LayoutType::kFlexFiles;
  CHECK(written_by_clients(map));
  for (const CopyState state : {CopyState::kStale, CopyState::kResyncing, CopyState::kVacant}) {
    map.copies[1].state = state;
    CHECK_FALSE(written_by_clients(map));
  }
}

TEST_CASE("a flexfiles mirror that lacks a server names another copy's in its place") {
  using Mirrors = std::vector<Ids>;
  LayoutMap map = mirrored(2);
  map.copies[1].set_state(1, CopyState::kStale);
  map.copies[0].set_state(2, CopyState::kResyncing);
  CHECK(flex_mirrors(map, always, true).value() == Mirrors{{1, 2, 3}, {11, 2, 13}});
  CHECK(flex_mirrors(map, always, false).value() == Mirrors{{1, 2, 13}, {11, 2, 13}});
  const auto first_only = [](std::size_t copy, std::size_t stripe) {
    return copy == 0 || stripe == 2;
  };
  CHECK(flex_mirrors(map, first_only, false).value() == Mirrors{{1, 2, 13}});
  map.copies[0].set_state(1, CopyState::kResyncing);
  CHECK(flex_mirrors(map, always, true).error() == Errc::kLayoutUnavailable);
}

TEST_CASE("every unit of every flexfiles mirror is at a server that holds it") {
  CHECK(rc::check([] {
    const auto copies = *rc::gen::inRange<std::uint32_t>(1, 4);
    const auto stripes = 3 * *rc::gen::inRange<std::uint32_t>(1, 8);
    LayoutMap map = mirrored(copies, stripes, *rc::gen::inRange<std::uint32_t>(0, stripes));
    for (Copy& copy : map.copies) {
      for (std::size_t i = 0; i < stripes; ++i) {
        copy.set_state(
            i, *rc::gen::weightedElement<CopyState>(
                   {{6, CopyState::kCurrent}, {1, CopyState::kStale}, {1, CopyState::kResyncing}}));
      }
    }
    const bool writing = *rc::gen::arbitrary<bool>();
    const auto mirrors = flex_mirrors(map, always, writing);
    bool readable = true;
    for (std::uint32_t unit = 0; unit < stripes; ++unit) {
      const std::uint32_t stripe = map.striping().server_of(std::uint64_t{unit} * map.stripe_unit);
      std::set<std::uint32_t> needed;   // the servers a write has to reach
      std::set<std::uint32_t> allowed;  // those a layout may name
      for (const Copy& copy : map.copies) {
        const CopyState state = copy.state_of(stripe);
        if (state == CopyState::kCurrent || (writing && state == CopyState::kResyncing)) {
          allowed.insert(copy.ds_ids[stripe]);
        }
        if (state == CopyState::kCurrent) needed.insert(copy.ds_ids[stripe]);
      }
      readable &= !needed.empty();
      if (!mirrors) continue;
      std::set<std::uint32_t> named;
      for (const Ids& mirror : *mirrors) named.insert(mirror[unit]);
      RC_ASSERT(named == allowed);
    }
    RC_ASSERT(mirrors.has_value() == readable);
  }));
}

TEST_CASE("partners are all other copies, stale ones too") {
  LayoutMap map = mirrored(3);
  CHECK(partners_of(map, 0, 1).value() == std::array{12U, 22U});
  CHECK(partners_of(map, 2, 0).value() == std::array{1U, 11U});
  map.copies[1].set_state(1, CopyState::kStale);
  map.copies[2].set_state(1, CopyState::kResyncing);
  CHECK(partners_of(map, 0, 1).value() == std::array{12U, 22U});
  CHECK(partners_of(map, 0, 0).value() == std::array{11U, 21U});
  CHECK(partners_of(mirrored(1), 0, 0).value() == std::array{0U, 0U});
  CHECK(partners_of(mirrored(4), 0, 0).error() == Errc::kNotSupported);
}

TEST_CASE("who writes through a copy holds what it has to bring to the others") {
  LayoutMap map = mirrored(2);
  map.object_epoch = 7;
  map.duplication = Duplication::kServerAsync;
  const Handle handle = leading_handle(map, 1, 0).value();
  CHECK(handle.ds_id == 11);
  CHECK(handle.object_epoch == 7);
  CHECK(handle.access == Access::kReadWrite);
  CHECK(handle.duplication == Duplication::kServerAsync);
  CHECK(handle.partners == std::array{1U, 0U});
  CHECK(validate(handle));
  map.duplication = Duplication::kClientSync;
  CHECK(leading_handle(map, 1, 0)->duplication == Duplication::kNone);
  CHECK(leading_handle(map, 1, 0)->partners == std::array{0U, 0U});
  LayoutMap alone = mirrored(1);
  alone.duplication = Duplication::kServerSync;
  CHECK(leading_handle(alone, 0, 0)->duplication == Duplication::kNone);
}
