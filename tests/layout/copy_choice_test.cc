#include "layout/copy_choice.h"

#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>
#include <map>

using namespace weft;
using namespace weft::layout;

namespace {

using Ids = std::vector<std::uint32_t>;
using Copies = std::vector<std::uint8_t>;

// Stripes at servers (1, 11), (2, 12), (3, 13), all idle.
struct System {
  System() {
    map.stripe_unit = 64;
    map.copies = {{CopyState::kCurrent, 0, {1, 2, 3}}, {CopyState::kCurrent, 0, {11, 12, 13}}};
    for (const Copy& copy : map.copies) {
      for (const std::uint32_t id : copy.ds_ids) loads[id].network = loads[id].disk = {0, 100, 0};
    }
  }
  [[nodiscard]] LoadOf load_of() const {
    return [this](std::uint32_t id) {
      const auto found = loads.find(id);
      return found == loads.end() ? nullptr : &found->second;
    };
  }

  LayoutMap map;
  std::map<std::uint32_t, ServerLoad> loads;
};

}  // namespace

TEST_CASE("of idle copies the first leads, as placed; of others the better") {
  System system;
  CHECK(choose_leads(system.map, system.load_of(), {})->copies == Copies{0, 0, 0});
  system.loads[2].network.used = 80;
  const auto leads = choose_leads(system.map, system.load_of(), {});
  CHECK(leads->copies == Copies{0, 1, 0});
  CHECK(leads->reasons == std::vector{Reason::kTurn, Reason::kNetwork, Reason::kTurn});
}

TEST_CASE("leads stay until others are clearly better") {
  System system;
  const Copies before{1, 1, 0};
  CHECK(choose_leads(system.map, system.load_of(), {}, before)->copies == before);
  system.loads[11].network.used = 5;
  system.loads[12].network.used = 30;
  const auto leads = choose_leads(system.map, system.load_of(), {}, before);
  CHECK(leads->copies == Copies{1, 0, 0});
  CHECK(leads->reasons[0] == Reason::kSteady);
  const Copies foreign{0, 0, 2};
  CHECK(choose_leads(system.map, system.load_of(), {}, foreign).error() == Errc::kInvalid);
  const Copies shorter{0, 0};
  CHECK(choose_leads(system.map, system.load_of(), {}, shorter).error() == Errc::kInvalid);
}

TEST_CASE("a copy that lacks bytes never leads, however idle") {
  System system;
  system.map.copies[0].set_state(0, CopyState::kStale);
  system.map.copies[1].set_state(1, CopyState::kResyncing);
  for (const std::uint32_t id : {2U, 11U}) system.loads[id].network.used = 99;
  system.loads.erase(3);  // down
  const auto leads = choose_leads(system.map, system.load_of(), {});
  REQUIRE(leads);
  CHECK(leads->copies == Copies{1, 0, 1});
  CHECK(leads->reasons == std::vector{Reason::kOnly, Reason::kOnly, Reason::kOnly});
  system.loads.erase(13);
  CHECK(choose_leads(system.map, system.load_of(), {}).error() == Errc::kLayoutUnavailable);
}

TEST_CASE("a copy whose server has no room does not lead, unless no other can") {
  System system;
  std::map<std::uint32_t, bool> full;
  const auto choose = [&](const Copies& before = {}) {
    return choose_leads(system.map, system.load_of(), {}, before,
                        [&](std::uint32_t id) { return !full[id]; });
  };
  full[1] = full[2] = full[12] = true;
  system.loads[11].network.used = 80;
  CHECK(choose()->copies == Copies{1, 0, 0});
  CHECK(choose(Copies{0, 1, 0})->copies == Copies{1, 1, 0});  // it led, and is full now
  system.map.copies[1].set_state(0, CopyState::kStale);
  system.map.copies[1].set_state(1, CopyState::kStale);
  CHECK(choose()->copies == Copies{0, 0, 0});
}

TEST_CASE("whatever the loads, leads are current copies that can be used") {
  CHECK(rc::check([] {
    System system;
    for (auto& [id, load] : system.loads) {
      load.network.used = *rc::gen::inRange<std::uint64_t>(0, 101);
      load.memory_free = *rc::gen::element<std::uint64_t>(0, UINT64_MAX);
      load.disk.streams = *rc::gen::inRange<std::uint32_t>(0, 4);
    }
    for (Copy& copy : system.map.copies) {
      for (std::size_t i = 0; i < 3; ++i) {
        if (*rc::gen::inRange(0, 4) == 0) copy.set_state(i, CopyState::kStale);
        if (*rc::gen::inRange(0, 4) == 0) system.loads.erase(copy.ds_ids[i]);
      }
    }
    const auto fine = [&](std::size_t copy, std::size_t stripe) {
      return system.map.copies[copy].state_of(stripe) == CopyState::kCurrent &&
             system.loads.contains(system.map.copies[copy].ds_ids[stripe]);
    };
    const auto leads = choose_leads(system.map, system.load_of(), {});
    bool whole = true;
    for (std::size_t stripe = 0; stripe < 3; ++stripe) {
      const bool any = fine(0, stripe) || fine(1, stripe);
      whole &= any;
      if (leads) RC_ASSERT(fine(leads->copies[stripe], stripe));
    }
    RC_ASSERT(leads.has_value() == whole);
  }));
}
