#include "layout/placement.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <set>

using namespace weft;
using namespace weft::layout;

namespace {

constexpr std::uint64_t kMiB = 1u << 20;

// Servers 1, 2, ... in the domains that the letters name, idle.
std::vector<Candidate> servers(std::string_view domains) {
  std::vector<Candidate> list;
  for (const char domain : domains) {
    Candidate candidate{static_cast<std::uint32_t>(list.size() + 1),
                        ServerState::kUp,
                        1000 * kMiB * kMiB,
                        900 * kMiB * kMiB,
                        std::string(1, domain),
                        {}};
    candidate.load.disk = {0, 100 * kMiB, 0};
    candidate.load.network = {0, 100 * kMiB, 0};
    list.push_back(candidate);
  }
  return list;
}

void busy_network(Candidate& candidate) { candidate.load.network.used = 90 * kMiB; }

void busy_cpu(Candidate& candidate) {
  candidate.load.cpu_percent = {100, 100};
  candidate.load.run_queue_milli = 4000;
}

PlacementPolicy mirrored(std::uint32_t stripes = 0, std::uint32_t copies = 2) {
  PlacementPolicy policy;
  policy.stripe_count = stripes;
  policy.copies = copies;
  return policy;
}

PlacementChoice placed(Placement& placement, const std::vector<Candidate>& candidates,
                       const PlacementPolicy& policy) {
  auto choice = placement.choose(candidates, policy);
  REQUIRE(choice);
  return *choice;
}

std::set<std::uint32_t> ids_of(const LayoutMap& map) {
  std::set<std::uint32_t> ids;
  for (const Copy& copy : map.copies) ids.insert(copy.ds_ids.begin(), copy.ds_ids.end());
  return ids;
}

}  // namespace

TEST_CASE("idle pairs: every file over all of them, each server leading as often") {
  Placement placement;
  const auto candidates = servers("abab");
  std::map<std::uint32_t, int> leads;
  std::map<std::uint32_t, int> begins;  // the server with the file's first unit
  for (int i = 0; i < 8; ++i) {
    const auto choice = placed(placement, candidates, mirrored());
    CHECK(ids_of(choice.map) == std::set<std::uint32_t>{1, 2, 3, 4});
    CHECK(choice.map.duplication == Duplication::kServerSync);
    CHECK(choice.map.reads == ReadPolicy::kAllCopies);
    CHECK(choice.map.placed.reasons ==
          std::vector{Reason::kTurn, Reason::kTurn, Reason::kMirror, Reason::kMirror});
    for (const std::uint32_t id : choice.map.copies[0].ds_ids) ++leads[id];
    ++begins[choice.map.copies[0].ds_ids[choice.map.copies[0].first_index]];
  }
  CHECK(leads == std::map<std::uint32_t, int>{{1, 4}, {2, 4}, {3, 4}, {4, 4}});
  CHECK(begins == std::map<std::uint32_t, int>{{1, 2}, {2, 2}, {3, 2}, {4, 2}});
}

TEST_CASE("the reason says what decided") {
  Placement placement;
  auto candidates = servers("ababab");
  busy_network(candidates[0]);
  busy_cpu(candidates[2]);
  busy_cpu(candidates[3]);
  const auto choice = placed(placement, candidates, mirrored());
  CHECK(choice.reason == "load turn=0 groups=2 of 3 skipped=3:cpu leads 2:network 5:turn");
  CHECK(choice.map.placed.reasons ==
        std::vector{Reason::kNetwork, Reason::kTurn, Reason::kMirror, Reason::kMirror});
  CHECK(choice.map.reason_of(0, 0) == Reason::kNetwork);
  CHECK(choice.map.reason_of(1, 1) == Reason::kMirror);
  CHECK(choice.map.reason_of(2, 0) == Reason::kUnknown);
  CHECK(choice.map.placed.skipped_ds == 3);
  CHECK(choice.map.placed.skipped_for == Reason::kCpu);
  CHECK(choice.map.copies[0].ds_ids == std::vector<std::uint32_t>{2, 5});
  CHECK(choice.map.copies[1].ds_ids == std::vector<std::uint32_t>{1, 6});
}

TEST_CASE("one loaded pair at most is skipped, network first, and the same while it is loaded") {
  Placement placement;
  auto candidates = servers("abababab");
  for (const std::size_t i : {0U, 1U}) busy_cpu(candidates[i]);
  for (const std::size_t i : {4U, 5U, 6U, 7U}) busy_network(candidates[i]);
  std::set<std::uint32_t> skipped;
  for (int i = 0; i < 10; ++i) {
    const auto choice = placed(placement, candidates, mirrored());
    CHECK(choice.map.copies[0].ds_ids.size() == 3);
    CHECK(choice.map.placed.skipped_for == Reason::kNetwork);
    skipped.insert(choice.map.placed.skipped_ds);
  }
  CHECK(skipped.size() == 1);
}

TEST_CASE("no pair is skipped where the policy says so, but a narrow file stays away from them") {
  Placement placement;
  auto candidates = servers("abababab");
  for (const std::size_t i : {0U, 1U}) busy_network(candidates[i]);
  PlacementPolicy policy = mirrored();
  policy.skip = false;
  for (int i = 0; i < 10; ++i) {
    const auto choice = placed(placement, candidates, policy);
    CHECK(choice.map.copies[0].ds_ids.size() == 4);
    CHECK(choice.map.placed.skipped_ds == 0);
    policy.stripe_count = 2;
    CHECK(*ids_of(placed(placement, candidates, policy).map).begin() > 2);
    policy.stripe_count = 0;
  }
}

// The server with the file's first unit.
std::uint32_t first_of(const LayoutMap& map) {
  return map.copies[0].ds_ids[map.copies[0].first_index];
}

TEST_CASE("files of one number begin at one group, and those of many at all") {
  Placement placement;
  const auto candidates = servers("aaaaaa");
  for (const std::uint32_t stripes : {0U, 1U, 3U}) {
    PlacementPolicy policy = mirrored(stripes, 1);
    std::map<std::uint32_t, int> begins;
    for (std::uint64_t number = 1; number <= 600; ++number) {
      policy.first = number;
      const std::uint32_t first = first_of(placed(placement, candidates, policy).map);
      for (int i = 0; i < 3; ++i) {
        CHECK(first_of(placed(placement, candidates, policy).map) == first);
      }
      ++begins[first];
    }
    REQUIRE(begins.size() == 6);
    for (const auto& [id, count] : begins) CHECK((count > 60 && count < 140));
  }
}

TEST_CASE("a file of a number goes elsewhere only when its group gets no new files") {
  Placement placement;
  auto candidates = servers("aaaaaa");
  PlacementPolicy policy = mirrored(1, 1);
  std::map<std::uint64_t, std::uint32_t> before;
  for (std::uint64_t number = 1; number <= 100; ++number) {
    policy.first = number;
    before[number] = first_of(placed(placement, candidates, policy).map);
  }
  candidates[2].state = ServerState::kDown;
  std::set<std::uint32_t> elsewhere;
  for (const auto& [number, first] : before) {
    policy.first = number;
    const std::uint32_t now = first_of(placed(placement, candidates, policy).map);
    CHECK(now != 3);
    if (first == 3) {
      elsewhere.insert(now);
    } else {
      CHECK(now == first);
    }
  }
  CHECK(elsewhere.size() > 2);
  candidates[2].state = ServerState::kUp;
  for (const auto& [number, first] : before) {
    policy.first = number;
    CHECK(first_of(placed(placement, candidates, policy).map) == first);
  }
}

TEST_CASE("a narrow file stays away from all loaded pairs while they are few") {
  Placement placement;
  auto candidates = servers("abababab");
  for (const std::size_t i : {0U, 1U, 2U, 3U}) busy_network(candidates[i]);
  for (int i = 0; i < 10; ++i) {
    const auto ids = ids_of(placed(placement, candidates, mirrored(1)).map);
    CHECK(*ids.begin() > 4);
  }
  for (const std::size_t i : {4U, 5U}) busy_network(candidates[i]);
  std::set<std::uint32_t> used;
  for (int i = 0; i < 30; ++i) used.merge(ids_of(placed(placement, candidates, mirrored(1)).map));
  CHECK(used.size() == 6);  // most are loaded: one is skipped, the rest share
}

TEST_CASE("pairs that are all short of the same are all used") {
  Placement placement;
  auto candidates = servers("abab");
  for (auto& candidate : candidates) busy_cpu(candidate);
  const auto choice = placed(placement, candidates, mirrored());
  CHECK(choice.map.copies[0].ds_ids.size() == 2);
  CHECK(choice.map.placed.skipped_ds == 0);
}

TEST_CASE("a lone pair is used however loaded it is") {
  Placement placement;
  auto candidates = servers("ab");
  for (auto& candidate : candidates) busy_network(candidate);
  CHECK(ids_of(placed(placement, candidates, mirrored()).map).size() == 2);
}

TEST_CASE("a full server gets nothing new, its partner stands in elsewhere") {
  Placement placement;
  auto candidates = servers("abab");
  candidates[1].free_bytes = kMiB;
  std::set<std::uint32_t> used;
  for (int i = 0; i < 12; ++i) {
    const auto choice = placed(placement, candidates, mirrored());
    CHECK(choice.map.copies[0].ds_ids.size() == 1);
    const auto ids = ids_of(choice.map);
    CHECK(ids.contains(4));  // the only one left of its domain
    used.insert(ids.begin(), ids.end());
  }
  CHECK(used == std::set<std::uint32_t>{1, 3, 4});
}

TEST_CASE("a filling pair gets less, in proportion") {
  Placement placement;
  auto candidates = servers("abababab");
  candidates[2].free_bytes = candidates[2].capacity_bytes / 20;  // a quarter of kFilling
  std::map<std::uint32_t, int> uses;
  for (int i = 0; i < 4000; ++i) {
    for (const std::uint32_t id : ids_of(placed(placement, candidates, mirrored(1)).map)) {
      ++uses[id];
    }
  }
  CHECK(uses[3] == uses[4]);
  CHECK(uses[3] > uses[1] / 8);
  CHECK(uses[3] < uses[1] / 3);
  // All as full as that: it is no reason to leave any out.
  for (auto& candidate : candidates) candidate.free_bytes = candidate.capacity_bytes / 20;
  CHECK(placed(placement, candidates, mirrored()).map.copies[0].ds_ids.size() == 4);
}

TEST_CASE("narrow files spread evenly") {
  Placement placement(5);
  std::map<std::uint32_t, int> uses;
  for (int i = 0; i < 48; ++i) {
    const auto choice = placed(placement, servers("abababab"), mirrored(1));
    for (const std::uint32_t id : ids_of(choice.map)) ++uses[id];
  }
  for (std::uint32_t id = 1; id <= 8; ++id) CHECK(uses[id] == 12);
}

TEST_CASE("one copy: by load over single servers") {
  Placement placement;
  auto candidates = servers("aaaa");
  busy_network(candidates[2]);
  const auto choice = placed(placement, candidates, mirrored(0, 1));
  CHECK(choice.map.copies.size() == 1);
  CHECK(choice.map.copies[0].ds_ids == std::vector<std::uint32_t>{1, 2, 4});
  CHECK(choice.map.duplication == Duplication::kNone);
  CHECK(choice.map.placed.skipped_ds == 3);
}

TEST_CASE("servers that are down are stood in for, and groups are as before when they return") {
  Placement placement;
  auto candidates = servers("abab");
  const auto before = placed(placement, candidates, mirrored()).map.copies[0].ds_ids;
  candidates[1].state = ServerState::kSuspect;
  candidates[2].state = ServerState::kDraining;
  CHECK(ids_of(placed(placement, candidates, mirrored()).map) == std::set<std::uint32_t>{1, 4});
  candidates[1].state = candidates[2].state = ServerState::kUp;
  std::set<std::set<std::uint32_t>> pairs;
  const auto after = placed(placement, candidates, mirrored());
  for (std::size_t i = 0; i < 2; ++i) {
    pairs.insert({after.map.copies[0].ds_ids[i], after.map.copies[1].ds_ids[i]});
  }
  CHECK(pairs == std::set<std::set<std::uint32_t>>{{1, 2}, {3, 4}});
  CHECK(before.size() == 2);
}

TEST_CASE("no place by load is an error that says why") {
  Placement placement;
  CHECK(placement.choose({}, mirrored()).error() == Errc::kLayoutTryLater);
  CHECK(placement.choose(servers("a"), mirrored()).error() == Errc::kInvalid);
  CHECK(placement.choose(servers("ab"), mirrored(0, 4)).error() == Errc::kInvalid);
  CHECK(placement.choose(servers("ab"), mirrored(0, 0)).error() == Errc::kInvalid);
  auto candidates = servers("ab");
  candidates[0].state = ServerState::kDown;
  CHECK(placement.choose(candidates, mirrored()).error() == Errc::kLayoutTryLater);
  candidates = servers("ab");
  candidates[0].free_bytes = 0;
  CHECK(placement.choose(candidates, mirrored()).error() == Errc::kNoSpace);
  PlacementPolicy odd = mirrored();
  odd.stripe_unit = 1000;
  CHECK(placement.choose(servers("ab"), odd).error() == Errc::kInvalid);
}

TEST_CASE("what an administrator should know of the groups is kept") {
  Placement placement;
  CHECK(placement.warnings(2).empty());
  placed(placement, servers("aaab"), mirrored());
  CHECK(placement.warnings(2).size() == 1);
  CHECK(placement.warnings(1).empty());
}

TEST_CASE("whatever the candidates: a valid map of fit servers, apart where they can be") {
  CHECK(rc::check([] {
    PlacementMemory memory;
    auto candidates = servers(*rc::gen::element<std::string>("a", "ab", "abc", "aabb", "abcabc",
                                                             "aaaab", "abcdefgh", "aabbccdd"));
    const auto wanted = *rc::gen::inRange<std::uint32_t>(0, 5);
    const auto copies = *rc::gen::inRange<std::uint32_t>(1, 4);
    const PlacementPolicy policy = mirrored(wanted, copies);
    for (std::uint64_t turn = 0; turn < 6; ++turn) {
      for (Candidate& candidate : candidates) {
        candidate.state = *rc::gen::weightedElement<ServerState>(
            {{6, ServerState::kUp}, {1, ServerState::kDown}, {1, ServerState::kDraining}});
        candidate.free_bytes = *rc::gen::element<std::uint64_t>(0, kMiB * kMiB, 900 * kMiB * kMiB);
        candidate.load.network.used = *rc::gen::inRange<std::uint64_t>(0, 100) * kMiB;
        candidate.load.disk.streams = *rc::gen::inRange<std::uint32_t>(0, 3);
        candidate.load.memory_free = *rc::gen::element<std::uint64_t>(0, kMiB * kMiB);
      }
      const auto choice = place_by_load(candidates, policy, {}, turn, memory);
      const auto fit = [&](const Candidate& candidate) {
        return candidate.state == ServerState::kUp && candidate.free_bytes > 0;
      };
      const auto usable = static_cast<std::uint32_t>(std::ranges::count_if(candidates, fit));
      RC_ASSERT(choice.has_value() == (usable >= copies));
      if (!choice) continue;
      RC_ASSERT(validate(choice->map).has_value());
      RC_ASSERT(choice->map.copies.size() == copies);
      if (wanted != 0) RC_ASSERT(choice->map.copies[0].ds_ids.size() <= wanted);
      for (const std::uint32_t id : ids_of(choice->map)) RC_ASSERT(fit(candidates[id - 1]));
      const auto& groups = memory.fit[copies - 1].groups.groups;
      for (std::size_t i = 0; i < choice->map.copies[0].ds_ids.size(); ++i) {
        std::set<std::string> domains;
        for (const Copy& copy : choice->map.copies) {
          domains.insert(candidates[copy.ds_ids[i] - 1].domain);
        }
        const std::uint32_t leader = choice->map.copies[0].ds_ids[i];
        const auto group = std::ranges::find_if(groups, [&](const MirrorGroup& one) {
          return std::ranges::find(one.members, leader) != one.members.end();
        });
        RC_ASSERT(group != groups.end());
        if (group->sound) RC_ASSERT(domains.size() == copies);
      }
    }
  }));
}

TEST_CASE("a mirrored layout is no wider than a client's LAYOUTGET can carry") {
  Placement placement;
  std::string domains;
  for (int i = 0; i < 100; ++i) domains += "ab";
  CHECK(placed(placement, servers(domains), mirrored()).map.copies[0].ds_ids.size() ==
        kMaxLayoutServers);
}
