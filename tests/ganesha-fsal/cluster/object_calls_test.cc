// What is asked of the objects of files with several copies, by the copies' states.

#include "ganesha-fsal/cluster/object_calls.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <future>

#include "tests/ganesha-fsal/cluster/cluster_fixture.h"

using namespace weft;
using namespace weft::mds;
using layout::CopyState;

namespace {

// Two stripes, two copies: servers 1 and 2, and 3 and 4.
struct Copies : ClusterFixture {
  Copies() {
    run(4);
    map = map_over({1, 2});
    map.copies.push_back({CopyState::kCurrent, 0, {3, 4}});
  }
  Result<> truncate(std::uint64_t size) {
    return await_change([&](Finished<void> done) {
      cluster->objects().truncate(map, kObject, size, std::move(done));
    });
  }
  Result<ObjectCalls::Stat> stat(ObjectCalls::Silent silent = ObjectCalls::Silent::kFail) {
    return await<ObjectCalls::Stat>([&](Done<ObjectCalls::Stat> done) {
      cluster->objects().stat(map, kObject, std::move(done), silent);
    });
  }
  Result<> punch() {
    return await_change([&](Finished<void> done) {
      cluster->objects().punch(map, kObject, 100, 1500, std::move(done));
    });
  }
  bool late(std::uint32_t id) { return cluster->registry().given_up()->has({id, kObject}); }
  void away(std::uint32_t id) {
    servers[id - 1]->disconnect();
    for (int i = 0; i < 2000 && cluster->registry().reach(id) == Reach::kHere; ++i) {
      std::this_thread::sleep_for(5ms);
    }
  }
  bool told(std::uint32_t id) {
    const std::lock_guard lock(servers[id - 1]->mutex);
    return servers[id - 1]->sizes.contains(7) || !servers[id - 1]->ranges.empty();
  }

  layout::LayoutMap map;
};

}  // namespace

TEST_CASE_METHOD(Copies, "who has no object is told of where another copy has bytes of it") {
  using Ids = std::vector<std::uint32_t>;
  Ids away_now;
  const auto without = [&] {
    std::promise<Ids> told;
    cluster->objects().without(map, kObject, [&](Ids found, Ids unasked) {
      away_now = std::move(unasked);
      told.set_value(std::move(found));
    });
    return told.get_future().get();
  };
  CHECK(without().empty());
  servers[0]->hold(7, 0);
  CHECK(without().empty());
  servers[0]->hold(7, 100);
  CHECK(without() == Ids{3});
  map.copies[1].set_state(0, CopyState::kStale);
  CHECK(without().empty());
  map.copies[1].set_state(0, CopyState::kCurrent);
  CHECK(away_now.empty());
  away(3);
  CHECK(without().empty());
  CHECK(away_now == Ids{3});
}

TEST_CASE_METHOD(Copies,
                 "changes go to current copies and those being repaired, not to stale ones") {
  map.copies[0].set_state(0, CopyState::kStale);
  map.copies[1].set_state(1, CopyState::kResyncing);
  away(1);
  SECTION("truncate") {
    REQUIRE(truncate(1500));
    CHECK(servers[1]->sizes[7] == 1500);
    CHECK(servers[2]->sizes[7] == 1024);
    CHECK(servers[3]->sizes[7] == 1500);
  }
  SECTION("punch") {
    REQUIRE(await_change([&](Finished<void> done) {
      cluster->objects().punch(map, kObject, 100, 1500, std::move(done));
    }));
    CHECK(servers[2]->ranges == std::vector<control::Range>{{kObject, 100, 924}});
    CHECK(servers[3]->ranges == std::vector<control::Range>{{kObject, 1024, 576}});
  }
  SECTION("allocate") {
    REQUIRE(await_change([&](Finished<void> done) {
      cluster->objects().allocate(map, kObject, 0, 3000, std::move(done));
    }));
    CHECK(servers[2]->ranges == std::vector<control::Range>{{kObject, 0, 3000}});
    CHECK(servers[3]->ranges == std::vector<control::Range>{{kObject, 1024, 1024}});
  }
  CHECK_FALSE(told(1));
}

TEST_CASE_METHOD(Copies, "a change fails without a current copy's server") {
  away(3);
  CHECK(truncate(1500).error() == Errc::kUnreachable);
  CHECK_FALSE(late(3));  // it was not sent
}

TEST_CASE_METHOD(Copies,
                 "a change whose connection breaks may come late until a fence is answered") {
  FakeServer& server = *servers[2];
  {
    const std::lock_guard lock(server.mutex);
    server.silent = true;
  }
  auto hole = std::async(std::launch::async, [&] { return punch(); });
  while (!server.holds_range()) std::this_thread::sleep_for(5ms);
  away(3);
  CHECK(hole.get().error() == Errc::kUnreachable);
  CHECK(late(3));
  CHECK_FALSE(late(4));
  {
    const std::lock_guard lock(server.mutex);
    server.silent = false;
    server.hold_fences = true;
    server.held_ranges.clear();
  }
  server.connect(cluster->address().port);
  REQUIRE(await_up(3));
  while (!server.holds_fences()) std::this_thread::sleep_for(5ms);
  CHECK(late(3));
  CHECK(punch().error() == Errc::kBusy);
  CHECK(server.ranges.empty());
  server.let_fences_go();
  while (late(3)) std::this_thread::sleep_for(5ms);
  CHECK(punch());
}

TEST_CASE_METHOD(Copies, "one current copy of a stripe says where its data is") {
  const auto seek = [&] {
    return await<control::SeekAnswer>([&](Done<control::SeekAnswer> done) {
      cluster->objects().seek(map, kObject, 0, false, std::move(done));
    });
  };
  for (const auto& server : servers) {
    server->seek = [](const control::Seek&) { return control::SeekAnswer{700, false}; };
  }
  servers[2]->seek = nullptr;
  CHECK(seek() == control::SeekAnswer{700, false});
  map.copies[0].set_state(0, GENERATE(CopyState::kStale, CopyState::kResyncing));
  CHECK(seek().error() == Errc::kNotSupported);
}

TEST_CASE_METHOD(Copies, "one current copy of a stripe says how far the file goes") {
  servers[0]->hold(7, 500);
  servers[1]->hold(7, 1500);
  servers[2]->hold(7, 700);
  servers[3]->hold(7, 1800);
  CHECK(stat()->size == 1800);  // a writer that died may have reached one copy only
  CHECK(stat()->allocated == 700 + 1800);
  away(4);
  CHECK(stat()->size == 1500);
  CHECK(stat()->complete);
  SECTION("not a stale one, nor one being repaired") {
    map.copies[0].set_state(1, GENERATE(CopyState::kStale, CopyState::kResyncing));
    CHECK(stat().error() == Errc::kUnreachable);
  }
  SECTION("not none") {
    away(2);
    CHECK(stat().error() == Errc::kUnreachable);
    CHECK(stat(ObjectCalls::Silent::kLeaveOut).error() == Errc::kUnreachable);
    later = 70s;  // both have no lease any more
    const auto left = stat(ObjectCalls::Silent::kLeaveOut);
    REQUIRE(left);
    CHECK_FALSE(left->complete);
    CHECK(left->size == 700);
  }
}
