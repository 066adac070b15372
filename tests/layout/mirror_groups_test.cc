#include "layout/mirror_groups.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <set>

using namespace weft;
using namespace weft::layout;

namespace {

using Ids = std::vector<std::uint32_t>;

// Servers 1, 2, ... in the domains that the letters name.
std::vector<GroupServer> servers(std::string_view domains) {
  std::vector<GroupServer> list;
  for (const char domain : domains) {
    list.push_back({static_cast<std::uint32_t>(list.size() + 1), std::string(1, domain)});
  }
  return list;
}

std::vector<Ids> members(const MirrorGroups& groups) {
  std::vector<Ids> all;
  for (const MirrorGroup& group : groups.groups) all.push_back(group.members);
  return all;
}

MirrorGroups grouped(std::string_view domains, std::uint32_t copies = 2) {
  return form_groups({}, servers(domains), copies);
}

// How many groups of k different domains there can be: the largest g with
// sum over domains of min(servers, g) at least g * k.
std::size_t most_sound(const std::vector<GroupServer>& list, std::size_t k) {
  std::map<std::string, std::size_t> counts;
  for (const auto& server : list) ++counts[server.domain];
  for (std::size_t g = list.size() / k; g > 0; --g) {
    std::size_t sum = 0;
    for (const auto& [domain, count] : counts) sum += std::min(count, g);
    if (sum >= g * k) return g;
  }
  return 0;
}

std::size_t sound(const MirrorGroups& groups) {
  return static_cast<std::size_t>(std::ranges::count_if(groups.groups, &MirrorGroup::sound));
}

void check_form(const MirrorGroups& made, const std::vector<GroupServer>& list, std::size_t k) {
  std::map<std::uint32_t, std::string> domain;
  for (const auto& server : list) domain[server.ds_id] = server.domain;
  std::set<std::uint32_t> seen;
  bool unsound = false;
  for (const MirrorGroup& group : made.groups) {
    RC_ASSERT(group.members.size() >= k);
    std::set<std::string> domains;
    for (std::size_t i = 0; i < k; ++i) domains.insert(domain.at(group.members[i]));
    RC_ASSERT(group.sound == (domains.size() == k));
    unsound |= !group.sound;
    for (const std::uint32_t id : group.members) RC_ASSERT(seen.insert(id).second);
  }
  if (list.size() >= k) RC_ASSERT(seen.size() == list.size());
  RC_ASSERT(unsound || made.warnings.empty() == (list.size() >= k || list.empty()));
  RC_ASSERT(!unsound || !made.warnings.empty());
}

}  // namespace

TEST_CASE("pairs stand across domains, in the order servers joined") {
  CHECK(members(grouped("ab")) == std::vector<Ids>{{1, 2}});
  CHECK(members(grouped("aaaabbbb")) == std::vector<Ids>{{1, 5}, {2, 6}, {3, 7}, {4, 8}});
  CHECK(members(grouped("abcd")) == std::vector<Ids>{{1, 2}, {3, 4}});
  CHECK(grouped("aaaabbbb").warnings.empty());
}

TEST_CASE("a server of an odd number is a further member") {
  const MirrorGroups groups = grouped("abc");
  CHECK(members(groups) == std::vector<Ids>{{1, 2, 3}});
  CHECK(groups.groups[0].sound);
  CHECK(groups.warnings.empty());
}

TEST_CASE("where domains are too few, groups within one are made and said") {
  const MirrorGroups groups = grouped("aaab");
  CHECK(members(groups) == std::vector<Ids>{{1, 4}, {2, 3}});
  CHECK(groups.groups[0].sound);
  CHECK_FALSE(groups.groups[1].sound);
  CHECK(groups.warnings ==
        std::vector<std::string>{
            "Copies at data servers 2 and 3 share a failure domain: too few domains have servers "
            "left."});
}

TEST_CASE("too few servers make no groups") {
  CHECK(grouped("a").groups.empty());
  CHECK(grouped("a").warnings == std::vector<std::string>{"1 data servers cannot hold 2 copies."});
  CHECK(grouped("").groups.empty());
  CHECK(grouped("").warnings.empty());
  CHECK(grouped("ab", 3).groups.empty());
}

TEST_CASE("one copy: every server is a group") {
  const MirrorGroups groups = grouped("aab", 1);
  CHECK(members(groups) == std::vector<Ids>{{1}, {2}, {3}});
  CHECK(sound(groups) == 3);
}

TEST_CASE("three copies") {
  CHECK(members(grouped("abcabc", 3)) == std::vector<Ids>{{1, 2, 3}, {4, 5, 6}});
  const MirrorGroups two_domains = grouped("aabb", 3);
  CHECK(two_domains.groups.size() == 1);
  CHECK_FALSE(two_domains.groups[0].sound);
  CHECK(two_domains.warnings.size() == 1);
}

TEST_CASE("a server of another domain mends what was unsound, at the cost of one pair at most") {
  const MirrorGroups before = grouped("abcc");
  CHECK(sound(before) == 2);  // (1, 2) gave way: 3 and 4 share a domain
  const MirrorGroups unsound = grouped("aaab");
  const MirrorGroups after = form_groups(unsound, servers("aaabb"), 2);
  CHECK(sound(after) == 2);
  CHECK(after.warnings.empty());
  CHECK(after.groups[0].members == Ids{1, 4, 3});
}

TEST_CASE("a server that is gone breaks its own group only") {
  const MirrorGroups before = grouped("aaaabbbb");
  auto left = servers("aaaabbbb");
  std::erase_if(left, [](const GroupServer& server) { return server.ds_id == 6; });
  const MirrorGroups after = form_groups(before, left, 2);
  CHECK(sound(after) == 3);
  for (const Ids& kept : {Ids{1, 5}, Ids{3, 7}, Ids{4, 8}}) {
    CHECK(std::ranges::any_of(after.groups, [&](const MirrorGroup& group) {
      return std::equal(kept.begin(), kept.end(), group.members.begin());
    }));
  }
  left.push_back({9, "b"});
  const MirrorGroups mended = form_groups(after, left, 2);
  CHECK(sound(mended) == 4);
  const auto all = members(mended);
  CHECK(std::ranges::find(all, Ids{2, 9}) != all.end());
}

TEST_CASE("groups are as sound as domains allow, and complete") {
  CHECK(rc::check([] {
    const auto count = *rc::gen::inRange<std::size_t>(0, 14);
    const auto copies = *rc::gen::inRange<std::uint32_t>(1, kMaxMirrors + 1);
    std::string domains;
    for (std::size_t i = 0; i < count; ++i) domains += *rc::gen::inRange('a', 'f');
    const auto list = servers(domains);
    const MirrorGroups made = form_groups({}, list, copies);
    check_form(made, list, copies);
    RC_ASSERT(sound(made) == most_sound(list, copies));
    auto shuffled = list;
    std::ranges::reverse(shuffled);
    RC_ASSERT(form_groups({}, shuffled, copies) == made);
    RC_ASSERT(form_groups(made, list, copies).groups.size() == made.groups.size());
  }));
}

TEST_CASE("one server more changes at most one pair, with or without memory") {
  CHECK(rc::check([] {
    const auto count = *rc::gen::inRange<std::size_t>(2, 20);
    std::string domains;
    for (std::size_t i = 0; i < count; ++i) domains += *rc::gen::inRange('a', 'f');
    const auto list = servers(domains);
    const auto fewer = std::vector(list.begin(), list.end() - 1);
    const MirrorGroups before = form_groups({}, fewer, 2);
    for (const MirrorGroups& after : {form_groups(before, list, 2), form_groups({}, list, 2)}) {
      check_form(after, list, 2);
      RC_ASSERT(sound(after) == most_sound(list, 2));
      std::size_t lost = 0;
      for (const MirrorGroup& group : before.groups) {
        if (!group.sound) continue;
        const bool kept = std::ranges::any_of(after.groups, [&](const MirrorGroup& now) {
          return std::equal(group.members.begin(), group.members.begin() + 2, now.members.begin());
        });
        lost += kept ? 0 : 1;
      }
      RC_ASSERT(lost <= 1U);
    }
  }));
}

TEST_CASE("any loss and any join leaves groups as sound as they can be") {
  CHECK(rc::check([] {
    const auto copies = *rc::gen::inRange<std::uint32_t>(1, kMaxMirrors + 1);
    MirrorGroups groups;
    std::vector<GroupServer> list;
    std::uint32_t next = 1;
    for (int step = 0; step < 20; ++step) {
      if (!list.empty() && *rc::gen::inRange(0, 3) == 0) {
        list.erase(list.begin() +
                   static_cast<std::ptrdiff_t>(*rc::gen::inRange<std::size_t>(0, list.size())));
      } else {
        list.push_back({next++, std::string(1, *rc::gen::inRange('a', 'e'))});
      }
      groups = form_groups(groups, list, copies);
      check_form(groups, list, copies);
      RC_ASSERT(sound(groups) == most_sound(list, copies));
    }
  }));
}

TEST_CASE("copies of a stripe that share a failure domain") {
  const auto map = [](std::vector<Ids> copies) {
    LayoutMap made{.stripe_unit = 4096};
    for (Ids& ids : copies) made.copies.push_back({CopyState::kCurrent, 0, std::move(ids), {}});
    return made;
  };
  CHECK_FALSE(shares_domain(map({{1, 2}, {3, 4}}), servers("aabb")));
  CHECK_FALSE(shares_domain(map({{1, 2}, {3, 4}}), servers("abba")));
  CHECK(shares_domain(map({{1, 2}, {3, 4}}), servers("abbb")));
  CHECK_FALSE(shares_domain(map({{1, 2}}), servers("aa")));
  // There are too few.
  CHECK_FALSE(shares_domain(map({{1}, {2}}), servers("aa")));
  CHECK_FALSE(shares_domain(map({{1}, {2}, {3}}), servers("abb")));
  CHECK(shares_domain(map({{1}, {2}, {3}}), servers("abbc")));
  // One that is stale is to be current; where none is, none is.
  LayoutMap stale = map({{1}, {2}});
  stale.copies[1].set_state(0, CopyState::kStale);
  CHECK(shares_domain(stale, servers("aab")));
  stale.copies[1].set_state(0, CopyState::kVacant);
  CHECK_FALSE(shares_domain(stale, servers("aab")));
  CHECK_FALSE(shares_domain(map({{1}, {9}}), servers("ab")));
}
