// What the cluster asks its data servers, and they it.

#include "ganesha-fsal/cluster/cluster.h"

#include <catch2/catch_test_macros.hpp>
#include <future>

#include "ganesha-fsal/cluster/object_calls.h"
#include "rpc/control/mds_boot.h"
#include "tests/ganesha-fsal/cluster/cluster_fixture.h"

using namespace weft;
using namespace weft::mds;

TEST_CASE("truncating cuts each object to its part of the file") {
  ClusterFixture f;
  f.run(3);
  REQUIRE(await_change([&](Finished<void> done) {
    f.cluster->objects().truncate(map_over({3, 1, 2}), kObject, 1500, std::move(done));
  }));
  CHECK(f.servers[2]->sizes[7] == 1024);
  CHECK(f.servers[0]->sizes[7] == 1500);
  CHECK(f.servers[1]->sizes[7] == 0);
  const auto stat = await<ObjectCalls::Stat>([&](Done<ObjectCalls::Stat> done) {
    f.cluster->objects().stat(map_over({3, 1, 2}), kObject, std::move(done));
  });
  REQUIRE(stat);
  CHECK(stat->size == 1500);
  CHECK(stat->allocated == 2524);
  CHECK(stat->mtime_ns == 5);
}

TEST_CASE("one data server's failure is the call's, and one that is away too") {
  ClusterFixture f;
  f.run(2);
  f.servers[1]->fault = Errc::kNoSpace;
  CHECK(await_change([&](Finished<void> done) {
          f.cluster->objects().truncate(map_over({1, 2}), kObject, 5000, std::move(done));
        }).error() == Errc::kNoSpace);
  CHECK(await_change([&](Finished<void> done) {
          f.cluster->objects().truncate(map_over({1, 9}), kObject, 5000, std::move(done));
        }).error() == Errc::kUnreachable);
}

TEST_CASE("a data server whose store is gone is asked for no change of an object") {
  ClusterFixture f;
  f.run(1);
  {
    const std::lock_guard lock(f.servers[0]->mutex);
    f.servers[0]->trouble = "the disk does not answer";
    f.servers[0]->hold_cuts = true;
  }
  while (!f.cluster->registry().has_stopped(1)) std::this_thread::sleep_for(5ms);
  CHECK(await_change([&](Finished<void> done) {
          f.cluster->objects().truncate(map_over({1}), kObject, 5000, std::move(done));
        }).error() == Errc::kUnreachable);
  CHECK(f.servers[0]->cuts_held() == 0);
}

TEST_CASE("a fence reaches a data server that was away, when it comes back") {
  ClusterFixture f;
  f.run(2);
  f.servers[1]->disconnect();
  const std::uint32_t both[] = {1, 2};
  const std::vector fences{control::Fence{control::Fence::What::kObject, kObject, 0, 9}};
  Result<> outcome =
      await<void>([&](Done<void> done) { f.cluster->fence(both, fences, std::move(done)); });
  CHECK(outcome.error() == Errc::kUnreachable);
  CHECK(f.servers[0]->epochs[7] == 9);
  CHECK(f.cluster->registry().pending_fences(1, 10)->empty());
  CHECK(f.cluster->registry().pending_fences(2, 10)->size() == 1);

  std::promise<std::uint32_t> up;
  f.cluster->on_server_up([&](std::uint32_t id) { up.set_value(id); });
  f.servers[1]->connect(f.cluster->address().port);
  CHECK(up.get_future().get() == 2);
  CHECK(f.servers[1]->epochs[7] == 9);
  CHECK(f.cluster->registry().pending_fences(2, 10)->empty());
}

TEST_CASE("what earlier runs of the metadata server sent is fenced before the lease") {
  ClusterFixture f;
  f.run(1);
  f.servers[0]->disconnect();
  f.cluster.reset();
  f.boot = control::mds_boot(7, 1234);
  f.cluster = f.start();
  std::uint32_t epoch_at_lease = 0;
  std::promise<void> leased;
  f.servers[0]->leased = [&, server = f.servers[0].get(), told = false]() mutable {
    const std::lock_guard lock(server->mutex);
    if (std::exchange(told, true)) return;
    epoch_at_lease = server->client_epochs[control::kOwnClientId];
    leased.set_value();
  };
  f.servers[0]->connect(f.cluster->address().port);
  leased.get_future().get();
  CHECK(epoch_at_lease == 7);
  CHECK(f.cluster->registry().has_fences(1));
}

TEST_CASE("what earlier runs sent does not come after a cut, or into a hole") {
  ClusterFixture f;
  f.run(1);
  f.servers[0]->disconnect();
  f.cluster.reset();
  f.boot = control::mds_boot(7, 1234);
  f.cluster = f.start();
  const auto truncate = [&] {
    return await_change([&](Finished<void> done) {
      f.cluster->objects().truncate(map_over({1}), kObject, 1500, std::move(done));
    });
  };
  const auto punch = [&] {
    return await_change([&](Finished<void> done) {
      f.cluster->objects().punch(map_over({1}), kObject, 0, 100, std::move(done));
    });
  };
  f.servers[0]->hold_fences = true;
  f.servers[0]->connect(f.cluster->address().port);
  while (!f.servers[0]->holds_fences()) std::this_thread::sleep_for(1ms);
  CHECK(truncate().error() == Errc::kUnreachable);
  CHECK(punch().error() == Errc::kUnreachable);
  CHECK(f.cluster->registry().reach(1) == Reach::kWait);
  {
    const std::lock_guard lock(f.servers[0]->mutex);
    CHECK(f.servers[0]->sizes.empty());
    CHECK(f.servers[0]->ranges.empty());
  }
  std::promise<void> up;
  f.cluster->on_server_up([&](std::uint32_t) { up.set_value(); });
  f.servers[0]->let_fences_go();
  up.get_future().get();
  CHECK(f.cluster->registry().reach(1) == Reach::kHere);
  CHECK(truncate());
  CHECK(punch());
}

TEST_CASE("a data server that stays away is fenced when its lease has ended") {
  ClusterFixture f;
  f.run(2);
  for (int i = 0; i < 1000 && f.servers[1]->leases == 0; ++i) std::this_thread::sleep_for(5ms);
  REQUIRE(f.servers[1]->leases > 0);
  f.servers[1]->disconnect();
  const std::uint32_t both[] = {1, 2};
  const std::vector fences{control::Fence{control::Fence::What::kObject, kObject, 0, 9}};
  const auto fence = [&] {
    return await<void>([&](Done<void> done) { f.cluster->fence(both, fences, std::move(done)); });
  };
  f.later = 60s;
  CHECK(fence().error() == Errc::kUnreachable);
  f.later = 70s;
  CHECK(fence());
  CHECK(f.cluster->registry().pending_fences(2, 10)->size() == 1);

  f.servers[1]->leases = 0;
  std::uint32_t epoch_at_lease = 0;
  f.servers[1]->leased = [&, server = f.servers[1].get()] {
    const std::lock_guard lock(server->mutex);
    epoch_at_lease = server->epochs[7];
  };
  f.servers[1]->connect(f.cluster->address().port);
  for (int i = 0; i < 1000 && f.servers[1]->leases == 0; ++i) std::this_thread::sleep_for(5ms);
  CHECK(epoch_at_lease == 9);
  CHECK(f.cluster->registry().pending_fences(2, 10)->empty());
}

// While they are asked for, all threads that could record one are busy.
TEST_CASE("fences that are asked for one by one are recorded and sent together") {
  struct Busy : MissedCopies {
    Result<> copy_missed(std::uint32_t /*from*/, const control::CopyMissed& /*told*/) override {
      ++threads;
      over.wait();
      return {};
    }
    std::atomic<unsigned> threads = 0;
    std::promise<void> end;
    std::shared_future<void> over = end.get_future().share();
  } busy;
  constexpr std::size_t kFences = 100;
  std::atomic<std::size_t> answered = 0;
  ClusterFixture f;
  f.run(1);
  FakeServer& server = *f.servers[0];
  {
    const std::lock_guard lock(server.mutex);
    server.hold_fences = true;
  }
  f.cluster->keep_missed_copies(busy);
  const unsigned threads = Cluster::Config{}.workers;
  const control::CopyMissed missed{kObject, 2, 5, {{0, 4096}}};
  for (unsigned i = 0; i < threads; ++i) {
    server.client().call(missed, 60s, [](const Result<>&) {});
  }
  for (int i = 0; i < 2000 && busy.threads < threads; ++i) std::this_thread::sleep_for(5ms);
  CHECK(busy.threads == threads);
  const auto commits = f.store.commits();
  const std::uint32_t one[] = {1};
  for (std::uint64_t file = 1; file <= kFences; ++file) {
    const control::Fence fence{control::Fence::What::kObject, {file, 1, 1}, 0, 9};
    f.cluster->fence(one, {fence}, [&](const Result<>& told) {
      if (told) ++answered;
    });
  }
  busy.end.set_value();
  std::size_t messages = 0;
  const auto held = [&] {
    const std::lock_guard lock(server.mutex);
    messages = server.held_fences.size();
    std::size_t fences = 0;
    for (const auto& [request, done] : server.held_fences) fences += request.fences.size();
    return fences;
  };
  for (int i = 0; i < 2000 && held() < kFences; ++i) std::this_thread::sleep_for(5ms);
  CHECK(held() == kFences);
  CHECK(messages < 20);
  server.let_fences_go();
  for (int i = 0; i < 2000 && answered < kFences; ++i) std::this_thread::sleep_for(5ms);
  CHECK(answered == kFences);
  CHECK(f.store.commits() - commits < 20);
  f.cluster->stop();
}

TEST_CASE("more fences than one message holds all come before the lease") {
  ClusterFixture f;
  f.run(1);
  f.servers[0]->disconnect();
  constexpr std::uint64_t kCount = 3 * control::kMaxFences;
  const std::uint32_t one[] = {1};
  for (std::uint64_t at = 0; at < kCount; at += control::kMaxFences) {
    std::vector<control::Fence> fences;
    for (std::uint64_t id = at; id < at + control::kMaxFences; ++id) {
      fences.push_back({control::Fence::What::kObject, {id + 100, 1, 1}, 0, 5});
    }
    REQUIRE(f.cluster->registry().add_fences(one, fences));
  }
  std::size_t held = 0;
  f.servers[0]->leases = 0;
  f.servers[0]->leased = [&, server = f.servers[0].get()] {
    const std::lock_guard lock(server->mutex);
    if (held == 0) held = server->epochs.size();
  };
  f.servers[0]->connect(f.cluster->address().port);
  for (int i = 0; i < 2000 && f.servers[0]->leases == 0; ++i) std::this_thread::sleep_for(5ms);
  CHECK(held == kCount);
  f.servers.clear();
}

TEST_CASE("sizes are asked for and reported through the workers") {
  ClusterFixture f;
  f.run(1);
  const auto ask = [&] {
    return await<control::FileSize>([&](Done<control::FileSize> done) {
      f.servers[0]->client().call(control::QuerySize{kObject}, 5s, std::move(done));
    });
  };
  CHECK(ask().error() == Errc::kStale);
  constexpr int kReports = 500;
  std::atomic<int> answered = 0;
  for (int i = 1; i <= kReports; ++i) {
    f.servers[0]->client().call(control::ReportSize{kObject, static_cast<std::uint64_t>(i), 0}, 5s,
                                [&](const Result<>& answer) { answered += answer ? 1 : 0; });
  }
  for (int i = 0; i < 2000 && answered < kReports; ++i) std::this_thread::sleep_for(5ms);
  CHECK(answered == kReports);
  CHECK(ask()->size == kReports);
  CHECK(f.sizes.batches <= kReports);
}

TEST_CASE("a report that changes nothing is answered at once") {
  ClusterFixture f;
  f.run(1);
  f.sizes.again = true;
  const auto told = await<void>([&](Done<void> done) {
    f.servers[0]->client().call(control::ReportSize{kObject, 100, 0}, 5s, std::move(done));
  });
  CHECK(told);
  CHECK(f.sizes.asked == 1);
  CHECK(f.sizes.batches == 0);
}

TEST_CASE("data servers are told where others are") {
  ClusterFixture f;
  f.run(2);
  const auto locate = [&](std::uint32_t ds_id) {
    return await<control::Located>([&](Done<control::Located> done) {
      f.servers[0]->client().call(control::Locate{ds_id}, 5s, std::move(done));
    });
  };
  const auto found = locate(2);
  REQUIRE(found);
  CHECK(found->state == control::Located::State::kUp);
  CHECK(found->addresses == std::vector{layout::make_address("127.0.0.1", 3002).value()});
  CHECK(locate(9).error() == Errc::kNotFound);
}

TEST_CASE("a copy that missed writes is kept, or the data server hears that it is not") {
  struct Keeper : MissedCopies {
    Result<> copy_missed(std::uint32_t from, const control::CopyMissed& told) override {
      reporter = from;
      missed = told;
      return std::move(outcome);
    }
    std::uint32_t reporter = 0;
    control::CopyMissed missed;
    Result<> outcome;
  } keeper;
  ClusterFixture f;
  f.run(1);
  const control::CopyMissed missed{kObject, 2, 5, {{0, 4096}}};
  const auto tell = [&] {
    return await<void>(
        [&](Done<void> done) { f.servers[0]->client().call(missed, 5s, std::move(done)); });
  };
  CHECK(tell().error() == Errc::kNotSupported);  // nobody keeps it: no acknowledgement
  f.cluster->keep_missed_copies(keeper);
  CHECK(tell());
  CHECK(keeper.reporter == 1);
  CHECK(keeper.missed == missed);
  keeper.outcome = fail(Errc::kFenced, "it is yours that is stale");
  CHECK(tell().error() == Errc::kFenced);
  f.cluster->stop();
}

TEST_CASE("punching and allocating send each server one range") {
  ClusterFixture f;
  f.run(2);
  REQUIRE(await_change([&](Finished<void> done) {
    f.cluster->objects().punch(map_over({1, 2}), kObject, 100, 4000, std::move(done));
  }));
  CHECK(f.servers[0]->ranges == std::vector<control::Range>{{kObject, 100, 4000}});
  CHECK(f.servers[1]->ranges == std::vector<control::Range>{{kObject, 1024, 3072}});
  f.servers[0]->ranges.clear();
  f.servers[1]->ranges.clear();
  REQUIRE(await_change([&](Finished<void> done) {
    f.cluster->objects().allocate(map_over({1, 2}), kObject, 100, 2000, std::move(done));
  }));
  CHECK(f.servers[0]->ranges == std::vector<control::Range>{{kObject, 100, 2000}});
  CHECK(f.servers[1]->ranges == std::vector<control::Range>{{kObject, 1024, 1024}});
  CHECK(await_change([&](Finished<void> done) {
          f.cluster->objects().punch(map_over({1, 2}), kObject, UINT64_MAX, 2, std::move(done));
        }).error() == Errc::kFileTooLarge);
}

TEST_CASE("a hundred thousand stripe units are reserved by few requests, and too many are not") {
  ClusterFixture f;
  f.run(2);
  const auto allocate = [&](std::uint64_t offset, std::uint64_t length) {
    return await_change([&](Finished<void> done) {
      f.cluster->objects().allocate(map_over({1, 2}), kObject, offset, length, std::move(done));
    });
  };
  constexpr std::uint64_t kEnd = 100'000 * 1024;
  REQUIRE(allocate(500, kEnd - 500));
  for (const auto& server : f.servers) {
    CHECK(server->ranges.size() < 20);
    CHECK(server->ranges.front().offset == (&server == &f.servers[0] ? 500 : 1024));
    CHECK(server->ranges.back().offset + server->ranges.back().length ==
          (&server == &f.servers[0] ? kEnd - 1024 : kEnd));
  }
  CHECK(allocate(0, std::uint64_t{1} << 40).error() == Errc::kFileTooLarge);
}

TEST_CASE("data and holes are where the nearest server has them") {
  ClusterFixture f;
  f.run(2);
  const auto seek = [&](std::uint64_t from, bool hole) {
    return await<control::SeekAnswer>([&](Done<control::SeekAnswer> done) {
      f.cluster->objects().seek(map_over({1, 2}), kObject, from, hole, std::move(done));
    });
  };
  CHECK(seek(0, false).error() == Errc::kNotSupported);
  control::Seek asked;
  f.servers[0]->seek = [&](const control::Seek& request) {
    asked = request;
    return control::SeekAnswer{5000, true};
  };
  f.servers[1]->seek = [](const control::Seek&) { return control::SeekAnswer{}; };
  CHECK(seek(100, true) == control::SeekAnswer{5000, true});
  CHECK(asked == control::Seek{kObject, 100, {1024, 2, 0, 0}, true});
  f.servers[1]->seek = [](const control::Seek&) { return control::SeekAnswer{1024, false}; };
  CHECK(seek(100, true) == control::SeekAnswer{1024, false});
  CHECK(seek(UINT64_MAX, false).error() == Errc::kFileTooLarge);
}

TEST_CASE("a metadata server that restarts knows its data servers by their ids") {
  ClusterFixture f;
  f.run(2);
  const std::uint16_t port = f.cluster->address().port;
  f.cluster.reset();
  f.cluster = f.start(port);
  CHECK(f.await_up(1));
  CHECK(f.await_up(2));
  CHECK(f.cluster->registry().list().size() == 2);
}

TEST_CASE("a second process with a store waits until the first does not answer any more") {
  ClusterFixture f;
  std::promise<void> go_on;
  std::atomic<bool> stall = false;
  const std::uint16_t port = f.cluster->address().port;
  FakeServer first(1, port);
  REQUIRE(f.await_up(1));
  first.disconnect();
  first.leased = [&, waits = go_on.get_future().share()] {
    if (stall) waits.wait();  // as a process that is stopped, or a machine that lost its power
  };
  first.connect(port);
  REQUIRE(f.await_up(1));
  FakeServer second(first, 12, port);
  const auto refused = [&] { return f.cluster->registry().find(1)->refused; };
  for (int i = 0; i < 6000 && refused().empty(); ++i) std::this_thread::sleep_for(5ms);
  CHECK(refused().contains("alive at 127.0.0.1:3001"));
  CHECK(f.cluster->registry().find(1)->boot == 0);
  stall = true;
  for (int i = 0; i < 6000 && f.cluster->registry().find(1)->boot != 12; ++i) {
    std::this_thread::sleep_for(5ms);
  }
  CHECK(f.cluster->registry().find(1)->boot == 12);
  go_on.set_value();
}
