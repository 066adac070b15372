#include "ganesha-fsal/files/kept_layouts.h"

#include <catch2/catch_test_macros.hpp>
#include <set>

namespace weft::mds {
namespace {

using namespace std::chrono_literals;
using Servers = std::vector<std::uint32_t>;
using Files = std::vector<std::pair<FileId, ClientId>>;
using Clients = std::vector<ClientId>;

constexpr ClientId kClient = 5;
const Servers kAll{1, 2, 3, 4};

struct Fixture {
  KeptLayouts::Limits limits = {.per_client = 8,
                                .in_all = 12,
                                .recalls_at_once = 3,
                                .time = 60s,
                                .ask_again = 5s,
                                .forget = 10min};
  KeptLayouts kept{limits};
  Clock::time_point now = Clock::time_point{} + 1h;
  std::set<std::uint32_t> away;

  bool add(FileId file, const Servers& ds_ids, ClientId client = kClient) {
    return kept.add(file, client, ds_ids, now);
  }
  KeptLayouts::Due due() { return kept.due(now, away); }
  void meet(ClientId client) {
    CHECK_FALSE(add(1, kAll, client));
    CHECK(due().asked == Clients{client});
    kept.answered(client, true);
  }
};

TEST_CASE("a client keeps nothing before it has shown that it gives back what it does not use") {
  Fixture f;
  CHECK(f.due().asked.empty());
  CHECK_FALSE(f.add(1, kAll));
  CHECK(f.due().asked == Clients{kClient});
  CHECK(f.due().asked.empty());
  f.now += 5s;
  CHECK(f.due().asked == Clients{kClient});  // no answer yet
  CHECK_FALSE(f.add(1, kAll));
  SECTION("it does") {
    f.kept.answered(kClient, true);
    f.now += 5s;
    CHECK(f.due().asked.empty());
    CHECK(f.add(2, kAll));
    CHECK_FALSE(f.add(3, kAll, kClient + 1));
  }
  SECTION("it does not understand") {
    f.kept.answered(kClient, false);
    f.now += 5s;
    CHECK(f.due().asked.empty());
    CHECK_FALSE(f.add(2, kAll));
  }
}

TEST_CASE("one layout is kept for each data server that no other names") {
  Fixture f;
  f.meet(kClient);
  CHECK(f.add(1, {1, 2}));
  CHECK_FALSE(f.add(2, {2, 1}));
  CHECK_FALSE(f.add(3, {2}));
  CHECK(f.add(4, {2, 3}));
  CHECK_FALSE(f.add(5, {1, 3}));
  CHECK(f.kept.has(1, kClient));
  CHECK_FALSE(f.kept.has(2, kClient));
  CHECK_FALSE(f.kept.has(1, kClient + 1));
  CHECK(f.kept.size() == 2);
  f.kept.remove(1, kClient);
  f.kept.remove(1, kClient);
  f.kept.remove(2, kClient);
  CHECK(f.kept.size() == 1);
  CHECK_FALSE(f.add(6, {2, 3}));
  CHECK(f.add(7, {1}));
}

TEST_CASE("a client that goes on has a successor before the old one is recalled") {
  Fixture f;
  f.meet(kClient);
  REQUIRE(f.add(1, kAll));
  f.now += 29s;
  CHECK_FALSE(f.add(2, kAll));
  f.now += 1s;
  CHECK(f.add(3, kAll));
  CHECK_FALSE(f.add(4, kAll));
  CHECK(f.due().recalled.empty());
  f.now += 30s;
  CHECK(f.due().recalled == Files{{1, kClient}});
  CHECK(f.due().recalled.empty());
  f.now += 30s;
  CHECK(f.due().recalled == Files{{1, kClient}, {3, kClient}});  // the first was in use
  f.kept.remove(1, kClient);
  f.kept.remove(3, kClient);
  f.now += 1h;
  CHECK(f.due().recalled.empty());
}

TEST_CASE("a client is asked for what it does not use as soon as a server it names is away") {
  Fixture f;
  f.meet(kClient);
  f.meet(kClient + 1);
  REQUIRE(f.add(1, {1, 2}));
  REQUIRE(f.add(2, {3}, kClient + 1));
  f.away = {2};
  CHECK(f.due().asked == Clients{kClient});
  CHECK(f.due().recalled.empty());
  f.now += 1s;
  CHECK(f.due().recalled == Files{{1, kClient}});  // what the client was asked for before
  f.now += 3s;
  CHECK(f.due().asked.empty());
  f.now += 1s;
  CHECK(f.due().asked == Clients{kClient});  // it is out still
  f.now += 60s;
  const auto due = f.due();
  CHECK(due.asked == Clients{kClient});
  CHECK(due.recalled == Files{{2, kClient + 1}});
  f.kept.remove(1, kClient);
  f.now += 5s;
  CHECK(f.due().asked.empty());
}

TEST_CASE("what is kept is bounded for each client and in all, and so are recalls at once") {
  Fixture f;
  f.meet(1);
  f.meet(2);
  std::uint32_t server = 0;
  for (FileId file = 1; file <= 8; ++file) CHECK(f.add(file, {++server}, 1));
  CHECK_FALSE(f.add(9, {++server}, 1));
  for (FileId file = 1; file <= 4; ++file) CHECK(f.add(file, {++server}, 2));
  CHECK_FALSE(f.add(5, {++server}, 2));
  CHECK(f.kept.size() == 12);
  f.now += 60s;
  CHECK(f.due().recalled.size() == 3);
  CHECK(f.due().recalled.size() == 3);
  f.kept.remove(1, 1);
  CHECK(f.add(5, {++server}, 2));
}

TEST_CASE("with a bound of 0 nothing is kept, and nobody asked") {
  KeptLayouts kept({.per_client = 0});
  CHECK_FALSE(kept.add(1, kClient, kAll, Clock::time_point{}));
  CHECK(kept.due(Clock::time_point{} + 1h, {}).asked.empty());
}

TEST_CASE("a client that keeps nothing and asks for nothing is forgotten") {
  Fixture f;
  f.meet(1);
  f.meet(2);
  REQUIRE(f.add(1, kAll, 2));
  f.now += 10min;
  static_cast<void>(f.due());
  CHECK_FALSE(f.add(2, kAll, 1));
  CHECK(f.due().asked == Clients{1});
  CHECK(f.add(2, kAll, 2));
}

TEST_CASE("each tick asks for what is due, and no more, however much is kept") {
  Fixture f{.limits = {.per_client = 8, .in_all = 4000, .recalls_at_once = 3}};
  constexpr ClientId kClients = 500;
  for (ClientId client = 1; client <= kClients; ++client) {
    CHECK_FALSE(f.add(1, kAll, client));
    static_cast<void>(f.due());
    f.kept.answered(client, true);
    for (std::uint32_t file = 1; file <= 8; ++file) REQUIRE(f.add(file, {file}, client));
  }
  const auto nothing = [&] {
    const auto due = f.due();
    return due.asked.empty() && due.recalled.empty();
  };
  CHECK(nothing());
  f.now += 60s;
  std::set<std::pair<FileId, ClientId>> recalled;
  while (recalled.size() < kClients * 8) {
    const auto due = f.due();
    REQUIRE_FALSE(due.recalled.empty());  // each is due once
    REQUIRE(due.recalled.size() <= f.limits.recalls_at_once);
    for (const auto& what : due.recalled) REQUIRE(recalled.insert(what).second);
  }
  CHECK(nothing());
  f.away = {3};
  CHECK(f.due().asked.size() == kClients);
  CHECK(nothing());  // it is away still
  f.now += 1s;
  for (int i = 0; i < 2; ++i) {
    const auto due = f.due();
    CHECK(due.recalled.size() == f.limits.recalls_at_once);
    for (const auto& [file, client] : due.recalled) CHECK(file == 3);  // which names it
    f.away = {};
  }
}

TEST_CASE("a client is not asked for what names a server that is back, but for what names others") {
  Fixture f;
  f.meet(kClient);
  REQUIRE(f.add(1, {1}));
  REQUIRE(f.add(2, {2}));
  f.away = {1};
  CHECK(f.due().asked == Clients{kClient});
  f.away = {};
  f.now += 5s;
  CHECK(f.due().asked.empty());
  f.away = {2};
  CHECK(f.due().asked == Clients{kClient});
  f.away = {1, 2};
  CHECK(f.due().asked.empty());  // it was a moment ago
  f.now += 5s;
  CHECK(f.due().asked == Clients{kClient});
  REQUIRE(f.add(3, {1, 3}));
  f.kept.remove(1, kClient);
  f.kept.remove(2, kClient);
  f.now += 5s;
  CHECK(f.due().asked == Clients{kClient});  // named by what was kept since
}

}  // namespace
}  // namespace weft::mds
