#include "dataserver/segments/successor_graph.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>

#include "rpc/base/clock.h"

namespace weft::ds {
namespace {

struct Rule {
  unsigned best;
  unsigned recent;
};
constexpr Rule kRules[] = {{1, 2}, {2, 4}, {3, 4}};
constexpr std::uint64_t kClient = 1;
const layout::ObjectId kObject{.fileid = 7, .generation = 1};

using Trace = std::vector<std::uint64_t>;
using Groups = std::set<std::set<std::uint64_t>>;

SuccessorGraph graph_of(Rule rule) {
  return SuccessorGraph({.best = rule.best, .recent = rule.recent});
}
void observe(SuccessorGraph& graph, const Trace& trace, unsigned passes,
             std::uint64_t client = kClient) {
  for (unsigned pass = 0; pass < passes; ++pass) {
    for (const std::uint64_t index : trace) graph.observe(client, {kObject, index});
  }
}
Groups groups_in(const SuccessorGraph& graph) {
  Groups all;
  for (const StripGroup& group : graph.groups()) {
    std::set<std::uint64_t> one;
    for (const Strip& strip : group) one.insert(strip.index);
    CHECK(one.size() == group.size());
    all.insert(std::move(one));
  }
  return all;
}

const Trace kEvery4th{0, 4, 8, 12, 16, 20, 24, 28};
const Trace kOther{8, 10, 12, 14};

// --- The table of the algorithm, a row each; columns are kRules ----------------------------------

TEST_CASE("a row of strips is a group once it came round often enough") {
  for (unsigned rule = 0; rule < 3; ++rule) {
    for (unsigned passes = 1; passes <= 6; ++passes) {
      SuccessorGraph graph = graph_of(kRules[rule]);
      observe(graph, {0, 8, 16, 24}, passes);
      CAPTURE(rule, passes);
      CHECK(groups_in(graph) == (passes >= rule + 2 ? Groups{{0, 8, 16, 24}} : Groups{}));
    }
  }
}

TEST_CASE("what is read once is no group") {
  for (const Rule rule : kRules) {
    SuccessorGraph graph = graph_of(rule);
    observe(graph, {0, 1, 2, 3, 4, 5, 6, 7}, 1);
    CHECK(groups_in(graph).empty());
  }
}

TEST_CASE("a new pattern over strips of an old one takes its place") {
  for (const Rule rule : kRules) {
    SuccessorGraph graph = graph_of(rule);
    observe(graph, kEvery4th, 3);
    observe(graph, kOther, 4);
    CHECK(groups_in(graph) == Groups{{8, 10, 12, 14}});
  }
}

TEST_CASE("the old pattern comes back") {
  for (const Rule rule : kRules) {
    SuccessorGraph graph = graph_of(rule);
    observe(graph, kEvery4th, 3);
    observe(graph, kOther, 4);
    observe(graph, kEvery4th, 3);
    CHECK(groups_in(graph) == Groups{{0, 4, 8, 12, 16, 20, 24, 28}});
  }
}

TEST_CASE("two clients that read by turns have a group each") {
  for (const Rule rule : kRules) {
    SuccessorGraph graph = graph_of(rule);
    for (unsigned pass = 0; pass < 4; ++pass) {
      for (const std::uint64_t i : {0, 1, 2}) {
        graph.observe(1, {kObject, i});
        graph.observe(2, {kObject, 100 + i});
      }
    }
    CHECK(groups_in(graph) == Groups{{0, 1, 2}, {100, 101, 102}});
  }
}

TEST_CASE("the same reads, were they of one client, are one group") {
  for (const Rule rule : kRules) {
    SuccessorGraph graph = graph_of(rule);
    observe(graph, {0, 100, 1, 101, 2, 102}, 4);
    CHECK(groups_in(graph) == Groups{{0, 1, 2, 100, 101, 102}});
  }
}

TEST_CASE("a strip with two successors by turns holds two rows together") {
  const Trace trace{0, 1, 7, 2, 3, 7};  // A B H C D H
  for (unsigned rule = 0; rule < 3; ++rule) {
    SuccessorGraph graph = graph_of(kRules[rule]);
    observe(graph, trace, 4);
    CHECK(groups_in(graph) == (rule < 2 ? Groups{{0, 1, 2, 3, 7}} : Groups{}));
  }
}

// --- What the table does not say -----------------------------------------------------------------

TEST_CASE("programs of one client that read files of their own do not mix") {
  SuccessorGraph graph({});
  SeededRandom random(1);
  std::uint64_t at[2] = {0, 0};
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t file = random.below(2);
    graph.observe(kClient, {{.fileid = file, .generation = 1}, at[file]++ % 10 * 5});
  }
  const auto groups = graph.groups();
  REQUIRE(groups.size() == 2);
  for (const StripGroup& group : groups) {
    CHECK(group.size() == 10);
    CHECK(std::ranges::all_of(
        group, [&](const Strip& strip) { return strip.object == group.front().object; }));
  }
}

TEST_CASE("files of one strip that are read in a row are a group") {
  SuccessorGraph graph({});
  for (int pass = 0; pass < 3; ++pass) {
    for (std::uint64_t file = 1; file <= 5; ++file) {
      // A reader of small pieces reads the same strip several times.
      for (int piece = 0; piece < 4; ++piece) {
        graph.observe(kClient, {{.fileid = file, .generation = 1}, 0});
      }
    }
  }
  const auto groups = graph.groups();
  REQUIRE(groups.size() == 1);
  REQUIRE(groups.front().size() == 5);
  for (std::uint64_t file = 1; file <= 5; ++file) {
    CHECK(groups.front()[file - 1].object.fileid == file);
  }
}

TEST_CASE("random reads make no groups, but where once is enough") {
  for (const Rule rule : kRules) {
    SuccessorGraph graph = graph_of(rule);
    SeededRandom random(7);
    for (int i = 0; i < 100'000; ++i) graph.observe(kClient, {kObject, random.below(4096)});
    std::size_t grouped = 0;
    for (const StripGroup& group : graph.groups()) grouped += group.size();
    if (rule.best > 1) CHECK(grouped == 0);
    if (rule.best == 1) CHECK(grouped > 0);
  }
}

TEST_CASE("a group is in reading order, from its least strip on") {
  SuccessorGraph graph({});
  observe(graph, {40, 10, 30, 20}, 4);
  const auto groups = graph.groups();
  REQUIRE(groups.size() == 1);
  const StripGroup expected{{kObject, 10}, {kObject, 30}, {kObject, 20}, {kObject, 40}};
  CHECK(groups.front() == expected);
}

TEST_CASE("a large group comes in parts that stay the same") {
  SuccessorGraph graph({});
  Trace trace;
  for (std::uint64_t i = 0; i < 2 * kStripsInSegment + 1; ++i) trace.push_back(3 * i);
  observe(graph, trace, 4);
  const auto groups = graph.groups();
  REQUIRE(groups.size() == 2);  // the last strip would be alone
  for (const StripGroup& group : groups) CHECK(group.size() == kStripsInSegment);
  CHECK(groups[1].front().index == 3 * kStripsInSegment);
  observe(graph, trace, 1);
  CHECK(graph.groups() == groups);
}

TEST_CASE("memory is bounded, and what comes in place of another does not inherit its successors") {
  SuccessorGraph graph({.max_strips = 64, .max_streams = 16});
  observe(graph, {0, 8, 16, 24}, 4);
  CHECK(groups_in(graph).size() == 1);
  SeededRandom random(3);
  for (int i = 0; i < 10'000; ++i) {
    graph.observe(random.below(1000),
                  {{.fileid = random.below(50), .generation = 1}, random.below(10'000)});
    REQUIRE(graph.strips() <= 64);
    REQUIRE(graph.streams() <= 16);
  }
  CHECK(groups_in(graph).empty());
  observe(graph, {0, 8, 16, 24}, 4);
  CHECK(groups_in(graph) == Groups{{0, 8, 16, 24}});
}

// Groups are exactly the strongly connected components: checked against reachability.
void check_reachability(std::uint64_t seed) {
  SuccessorGraph graph = graph_of(kRules[seed % 3]);
  SeededRandom random(seed);
  constexpr std::uint64_t kStrips = 24;
  for (int walk = 0; walk < 12; ++walk) {
    Trace trace;
    for (std::uint64_t i = 0; i < 2 + random.below(6); ++i) trace.push_back(random.below(kStrips));
    observe(graph, trace, static_cast<unsigned>(1 + random.below(4)));
  }
  const auto vertices = graph.vertices();
  const std::size_t count = vertices.size();
  std::vector<std::vector<bool>> reach(count, std::vector<bool>(count, false));
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::uint32_t next : vertices[i].next) reach[i][next] = true;
  }
  for (std::size_t k = 0; k < count; ++k) {
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = 0; j < count; ++j) {
        if (reach[i][k] && reach[k][j]) reach[i][j] = true;
      }
    }
  }
  Groups expected;
  for (std::size_t i = 0; i < count; ++i) {
    std::set<std::uint64_t> one{vertices[i].strip.index};
    for (std::size_t j = 0; j < count; ++j) {
      if (reach[i][j] && reach[j][i]) one.insert(vertices[j].strip.index);
    }
    if (one.size() > 1) expected.insert(std::move(one));
  }
  CHECK(groups_in(graph) == expected);
}

TEST_CASE("two strips are in one group if each is reached from the other") {
  for (std::uint64_t seed = 1; seed < 30; ++seed) {
    CAPTURE(seed);
    check_reachability(seed);
  }
}

}  // namespace
}  // namespace weft::ds
