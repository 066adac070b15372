#include "layout/policy.h"

#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>

#include "layout/placement.h"

using namespace weft;
using namespace weft::layout;

namespace {

std::string error_of(std::string_view text) {
  const auto policy = parse_policy(text);
  REQUIRE_FALSE(policy);
  CHECK(policy.error() == Errc::kInvalid);
  return policy.error().text;
}

}  // namespace

TEST_CASE("a policy reads as people write it") {
  const Policy policy =
      parse_policy("stripes=4 unit=1MiB copies=2 duplication=server-sync reads=all inline=16KiB")
          .value();
  CHECK(policy == Policy{4, 1 << 20, 2, Duplication::kServerSync, ReadPolicy::kAllCopies, 16384});
  CHECK(parse_policy("").value() == Policy{});
  CHECK(parse_policy(" \n\t, ").value() == Policy{});
  CHECK(parse_policy("copies=3\n,reads=one,\tstripes=all\r\n").value() ==
        Policy{0, {}, 3, {}, ReadPolicy::kOneCopy});
  for (const char* same : {"unit=65536", "unit=64K", "unit=64KiB"}) {
    CHECK(parse_policy(same).value().unit == 65536);
  }
  CHECK(parse_policy("unit=1G").value().unit == 1u << 30);
}

TEST_CASE("up to 1 MiB can be inline") {
  CHECK(parse_policy("inline=0").value().inline_bytes == 0);
  CHECK(to_string(parse_policy("inline=0").value()) == "inline=0");
  CHECK(parse_policy("inline=1M").value().inline_bytes == kGreatestInline);
  CHECK(to_string(parse_policy("inline=5000").value()) == "inline=5000");
  CHECK(error_of("inline=1025K") == "inline=\"1025K\": 0 to 1MiB");
  CHECK(error_of("inline=") == "inline=\"\": 0 to 1MiB");
  CHECK(inherit(Policy{.inline_bytes = 7}, {}).inline_bytes == 7);
  CHECK(inherit(Policy{.inline_bytes = 7}, Policy{.inline_bytes = 0}).inline_bytes == 0);
  CHECK(placement_policy({}, LayoutType::kFiles).inline_bytes == 0);
}

TEST_CASE("whether a loaded group may be left out is said by directories") {
  CHECK(parse_policy("skip=new").value().skip == true);
  CHECK(to_string(parse_policy("skip=never").value()) == "skip=never");
  CHECK(error_of("skip=always") == "skip=\"always\": new or never");
  CHECK_FALSE(inherit(Policy{.skip = true}, Policy{.skip = false}).skip.value());
  CHECK(placement_policy({}, LayoutType::kFiles).skip);
  CHECK_FALSE(placement_policy(Policy{.skip = false}, LayoutType::kFiles).skip);
}

TEST_CASE("where files begin is said by directories") {
  CHECK(parse_policy("first=turn").value().first == kFirstByTurn);
  CHECK(parse_policy("first=directory").value().first == kFirstByDirectory);
  CHECK(to_string(parse_policy("first=directory").value()) == "first=directory");
  CHECK(to_string(parse_policy("first=4711").value()) == "first=4711");
  for (const char* bad : {"0", "9223372036854775808", "18446744073709551615", "-1", "01", "dir"}) {
    CHECK(error_of(std::string("first=") + bad) ==
          "first=\"" + std::string(bad) + "\": turn, directory, or 1 to 9223372036854775807");
  }
  CHECK(inherit(Policy{.first = 7}, {}).first == 7);
  CHECK(placement_policy({}, LayoutType::kFiles).first == kFirstByTurn);
  CHECK(placement_policy(Policy{.first = 7}, LayoutType::kFiles).first == 7);
  // Of no directory: each has its turn.
  CHECK(placement_policy(Policy{.first = kFirstByDirectory}, LayoutType::kFiles).first ==
        kFirstByTurn);
}

TEST_CASE("a policy is written in one way, that reads back") {
  CHECK(to_string(parse_policy("reads=one,unit=65536 stripes=all").value()) ==
        "stripes=all unit=64KiB reads=one");
  CHECK(to_string(Policy{}).empty());
  CHECK(to_string(parse_policy("unit=4160").value()) == "unit=4160");
  CHECK(rc::check([] {
    Policy policy;
    const auto maybe = rc::gen::arbitrary<bool>();
    if (*maybe) policy.stripes = *rc::gen::inRange<std::uint32_t>(0, kMaxLayoutServers + 1);
    if (*maybe) policy.unit = 64 * *rc::gen::inRange(kLeastUnit / 64, kGreatestUnit / 64 + 1);
    if (*maybe) policy.copies = *rc::gen::inRange<std::uint32_t>(1, kMaxMirrors + 1);
    if (*maybe) {
      policy.duplication = *rc::gen::element(Duplication::kServerAsync, Duplication::kServerSync,
                                             Duplication::kClientAsync, Duplication::kClientSync);
    }
    if (*maybe) policy.reads = *rc::gen::element(ReadPolicy::kOneCopy, ReadPolicy::kAllCopies);
    if (*maybe) policy.inline_bytes = *rc::gen::inRange<std::uint32_t>(0, kGreatestInline + 1);
    if (*maybe) policy.skip = *maybe;
    if (*maybe) {
      policy.first = *rc::gen::element(kFirstByTurn, kFirstByDirectory, std::uint64_t{1},
                                       kGreatestFirst, std::uint64_t{4711});
    }
    RC_ASSERT(to_string(policy).size() <= kMaxPolicyText);
    RC_ASSERT(parse_policy(to_string(policy)).value() == policy);
  }));
}

TEST_CASE("a misspelt key is named with the nearest right one") {
  CHECK(error_of("strips=4") == "no policy has the key \"strips\"; did you mean \"stripes\"?");
  CHECK(error_of("copy=2") == "no policy has the key \"copy\"; did you mean \"copies\"?");
  CHECK(error_of("Reads=all") == "no policy has the key \"Reads\"; did you mean \"reads\"?");
  CHECK(error_of("replication=2") ==
        "no policy has the key \"replication\"; did you mean \"duplication\"?");
  CHECK(error_of("color=red") ==
        "no policy has the key \"color\"; there are stripes, unit, copies, duplication, reads, "
        "inline, skip and first");
  CHECK(error_of("=1") ==
        "no policy has the key \"\"; there are stripes, unit, copies, duplication, reads, inline, "
        "skip and first");
}

TEST_CASE("a value that cannot be is named with what can") {
  CHECK(error_of("stripes=0") == "stripes=\"0\": 1 to 58, or all");
  CHECK(error_of("stripes=59") == "stripes=\"59\": 1 to 58, or all");
  CHECK(error_of("copies=4") == "copies=\"4\": 1, 2 or 3");
  CHECK(error_of("copies=0") == "copies=\"0\": 1, 2 or 3");
  CHECK(error_of("reads=both") == "reads=\"both\": one or all");
  CHECK(error_of("duplication=server-synch") ==
        "duplication=\"server-synch\" is unknown; did you mean \"server-sync\"?");
  CHECK(error_of("duplication=none") ==
        "duplication=\"none\" is unknown; there are server-async, server-sync and client-sync");
  for (const char* bad : {"unit=", "unit=1", "unit=4095", "unit=4097", "unit=2G", "unit=1.3M",
                          "unit=-64K", "unit=+64K", "unit=64k", "unit=0x10000", "unit=064K",
                          "unit=99999999999", "unit=4294967295G", "unit=64KB"}) {
    INFO(bad);
    CHECK(error_of(bad).ends_with("4KiB to 1GiB, a multiple of 64 bytes"));
  }
  CHECK(error_of("copies") == "\"copies\" is not key=value");
  CHECK(error_of("copies=2 copies=2") == "the key \"copies\" stands twice");
  CHECK(error_of(std::string(513, ' ')) == "longer than 512 bytes");
  CHECK(error_of("copies=\x1b[31m" + std::string(100, 'x')).find('\x1b') == std::string::npos);
}

TEST_CASE("what a directory does not say it inherits") {
  const Policy exported = parse_policy("copies=2 unit=64K").value();
  const Policy above = parse_policy("stripes=4").value();
  const Policy own = parse_policy("copies=3").value();
  const Policy holds = inherit(inherit(exported, above), own);
  CHECK(to_string(holds) == "stripes=4 unit=64KiB copies=3");
  CHECK(inherit(holds, {}) == holds);
  CHECK(inherit({}, holds) == holds);
  CHECK(inherit(exported, inherit(above, own)) == holds);
}

TEST_CASE("duplication has to suit the export's layout") {
  const Policy servers = parse_policy("duplication=server-async").value();
  const Policy clients = parse_policy("duplication=client-sync").value();
  CHECK(check(servers, LayoutType::kFiles));
  CHECK_FALSE(check(servers, LayoutType::kFlexFiles));
  CHECK_FALSE(check(clients, LayoutType::kFiles));
  CHECK(check(clients, LayoutType::kFlexFiles));
  // No client that is sent somewhere by a layout is content with the first copy's answer.
  const Policy first = parse_policy("duplication=client-async").value();
  constexpr const char* kWhy =
      "duplication=client-async: a client that writes every copy waits for all of them; use ";
  CHECK(check(first, LayoutType::kFlexFiles).error().text == std::string(kWhy) + "client-sync");
  CHECK(check(first, LayoutType::kFiles).error().text == std::string(kWhy) + "server-async");
  CHECK(check({}, LayoutType::kFiles));
  for (const LayoutType type : {LayoutType::kFiles, LayoutType::kFlexFiles}) {
    CHECK(check(defaults_for(type), type));
  }
}

TEST_CASE("placement takes a policy with its defaults") {
  PlacementPolicy base;
  base.reserve_bytes = 5;
  const Policy policy = parse_policy("stripes=3 copies=2").value();
  const PlacementPolicy made = placement_policy(policy, LayoutType::kFiles, base);
  CHECK(made.stripe_count == 3);
  CHECK(made.stripe_unit == 1u << 20);
  CHECK(made.copies == 2);
  CHECK(made.duplication == Duplication::kServerSync);
  CHECK(made.reads == ReadPolicy::kAllCopies);
  CHECK(made.reserve_bytes == 5);
  CHECK(placement_policy({}, LayoutType::kFlexFiles).duplication == Duplication::kClientSync);
  std::vector<Candidate> candidates;
  for (std::uint32_t id = 1; id <= 8; ++id) {
    candidates.push_back({id, ServerState::kUp, 1 << 20, 1 << 20, std::to_string(id), {}});
  }
  Placement placement;
  const auto choice = placement.choose(candidates, made);
  REQUIRE(choice);
  CHECK(choice->map.copies.size() == 2);
  CHECK(choice->map.copies[0].ds_ids.size() == 3);
}

TEST_CASE("an export's options and a layout map as policies") {
  PlacementPolicy options;
  options.stripe_count = 200;
  options.stripe_unit = 64u << 10;
  options.copies = 2;
  CHECK(to_string(policy_of(options)) ==
        "stripes=58 unit=64KiB copies=2 duplication=server-sync reads=all inline=0 skip=new "
        "first=turn");
  const PlacementPolicy same = placement_policy(policy_of(options), LayoutType::kFiles, options);
  CHECK(same.stripe_count == 58);
  CHECK(same.copies == 2);

  LayoutMap map;
  map.stripe_unit = 1u << 20;
  map.copies.push_back({.ds_ids = {1, 2}});
  CHECK(to_string(policy_of(map)) == "stripes=2 unit=1MiB copies=1");
  map.copies.push_back({.ds_ids = {3, 4}});
  map.duplication = Duplication::kServerAsync;
  CHECK(to_string(policy_of(map)) ==
        "stripes=2 unit=1MiB copies=2 duplication=server-async reads=one");
}

TEST_CASE("a flexfiles export has one stripe") {
  CHECK(placement_policy({}, LayoutType::kFlexFiles).stripe_count == 1);
  CHECK(check(parse_policy("stripes=1 copies=2").value(), LayoutType::kFlexFiles));
  for (const char* several : {"stripes=2", "stripes=all"}) {
    const auto refused = check(parse_policy(several).value(), LayoutType::kFlexFiles);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().text.starts_with(several));
    CHECK(check(parse_policy(several).value(), LayoutType::kFiles));
  }
}
