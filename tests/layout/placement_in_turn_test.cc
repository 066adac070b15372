#include <catch2/catch_test_macros.hpp>
#include <map>
#include <set>

#include "layout/placement.h"

using namespace weft;
using namespace weft::layout;

namespace {

std::vector<Candidate> servers(std::uint32_t count) {
  std::vector<Candidate> candidates;
  for (std::uint32_t i = count; i > 0; --i) {  // not in order of id
    candidates.push_back({i, ServerState::kUp, 1ULL << 40, 1ULL << 39, "d"});
  }
  return candidates;
}

PlacementPolicy policy(std::uint32_t stripes) {
  PlacementPolicy policy;
  policy.stripe_count = stripes;
  return policy;
}

}  // namespace

TEST_CASE("files over all servers share their list and begin at each in turn") {
  Placement placement;
  const auto candidates = servers(4);
  std::map<std::uint32_t, int> firsts;
  for (int i = 0; i < 8; ++i) {
    const auto choice = placement.choose(candidates, policy(0));
    REQUIRE(choice);
    REQUIRE(validate(choice->map));
    CHECK(choice->map.copies[0].ds_ids == std::vector<std::uint32_t>{1, 2, 3, 4});
    ++firsts[choice->map.copies[0].first_index];
    CHECK_FALSE(choice->reason.empty());
  }
  CHECK(firsts == std::map<std::uint32_t, int>{{0, 2}, {1, 2}, {2, 2}, {3, 2}});
}

TEST_CASE("files of fewer stripes spread evenly") {
  for (const std::uint32_t stripes : {1U, 2U, 3U}) {
    Placement placement(17);
    std::map<std::uint32_t, int> uses;
    const auto candidates = servers(4);
    for (int i = 0; i < 12; ++i) {
      const auto choice = placement.choose(candidates, policy(stripes));
      REQUIRE(choice);
      const auto& ids = choice->map.copies[0].ds_ids;
      CHECK(ids.size() == stripes);
      CHECK(std::set(ids.begin(), ids.end()).size() == stripes);
      for (const std::uint32_t id : ids) ++uses[id];
    }
    for (std::uint32_t id = 1; id <= 4; ++id) CHECK(uses[id] == static_cast<int>(3 * stripes));
  }
}

TEST_CASE("servers that are not up, or full, are left out") {
  Placement placement;
  auto candidates = servers(5);
  candidates[0].state = ServerState::kSuspect;   // 5
  candidates[1].state = ServerState::kDown;      // 4
  candidates[2].state = ServerState::kDraining;  // 3
  candidates[3].free_bytes = 1000;               // 2
  const auto choice = placement.choose(candidates, policy(0));
  REQUIRE(choice);
  CHECK(choice->map.copies[0].ds_ids == std::vector<std::uint32_t>{1});
  CHECK_FALSE(choice->reason.empty());
}

TEST_CASE("no place is an error that says why") {
  Placement placement;
  CHECK(placement.choose({}, policy(0)).error() == Errc::kLayoutTryLater);
  auto candidates = servers(2);
  for (auto& candidate : candidates) candidate.free_bytes = 0;
  CHECK(placement.choose(candidates, policy(0)).error() == Errc::kNoSpace);
  PlacementPolicy odd = policy(0);
  odd.stripe_unit = 1000;
  CHECK(placement.choose(servers(2), odd).error() == Errc::kInvalid);
}

TEST_CASE("a layout is never wider than a client's LAYOUTGET can carry") {
  Placement placement;
  const auto choice = placement.choose(servers(100), policy(0));
  REQUIRE(choice);
  CHECK(choice->map.copies[0].ds_ids.size() == kMaxLayoutServers);
}
