#include "ganesha-fsal/cluster/removal_queue.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>

using namespace weft;
using namespace weft::mds;
using namespace std::chrono_literals;

namespace {

// A queue in memory, and data servers that can be away or fail.
struct World : RemovalSource, DataServers {
  std::mutex mutex;
  std::map<layout::ObjectId, std::set<std::uint32_t>> queued;
  std::map<std::uint32_t, std::set<layout::ObjectId>> removed;
  std::set<std::uint32_t> away;
  std::set<std::uint32_t> failing;
  std::set<std::uint32_t> unfenced;  // whose fences fail
  std::set<std::pair<std::uint32_t, layout::ObjectId>> changing;
  std::map<layout::ObjectId, std::uint32_t> least_epochs;
  std::map<layout::ObjectId, std::uint32_t> fences;
  std::size_t read = 0;  // removals, by whoever looks for them
  std::size_t fence_calls = 0;
  std::size_t done_calls = 0;
  std::size_t failures = 0;
  std::size_t largest_batch = 0;
  std::size_t unexpected = 0;
  std::size_t together = 1;                           // so many are asked before any answers
  std::vector<std::move_only_function<void()>> held;  // answers

  ~World() { CHECK(unexpected == 0); }

  // On the queue's threads, where Catch2 must not be asked.
  void expect(bool is) {
    if (!is) ++unexpected;
  }

  Result<std::vector<QueuedRemoval>> pending(std::optional<layout::ObjectId> after,
                                             std::size_t limit) override {
    const std::lock_guard lock(mutex);
    std::vector<QueuedRemoval> found;
    auto at = after ? queued.upper_bound(*after) : queued.begin();
    for (; at != queued.end() && found.size() < limit; ++at) {
      const auto epoch = least_epochs.find(at->first);
      found.push_back({at->first,
                       {at->second.begin(), at->second.end()},
                       epoch == least_epochs.end() ? 0 : epoch->second});
    }
    read += found.size();
    return found;
  }
  Result<std::vector<QueuedRemoval>> pending(std::span<const layout::ObjectId> objects) override {
    const std::lock_guard lock(mutex);
    std::vector<QueuedRemoval> found;
    for (const layout::ObjectId& object : objects) {
      const auto at = queued.find(object);
      if (at == queued.end()) continue;
      const auto epoch = least_epochs.find(object);
      found.push_back({object,
                       {at->second.begin(), at->second.end()},
                       epoch == least_epochs.end() ? 0 : epoch->second});
    }
    read += found.size();
    return found;
  }
  Result<> done(std::span<const QueuedRemoval> acknowledged) override {
    const std::lock_guard lock(mutex);
    ++done_calls;
    for (const QueuedRemoval& one : acknowledged) {
      for (const std::uint32_t ds_id : one.ds_ids) expect(queued[one.object].erase(ds_id) == 1);
      if (queued[one.object].empty()) queued.erase(one.object);
    }
    return {};
  }
  void fence(std::span<const std::uint32_t> ds_ids, std::vector<control::Fence> asked,
             Done<void> done) override {
    bool failed = false;
    {
      const std::lock_guard lock(mutex);
      ++fence_calls;
      failed = unfenced.contains(ds_ids.front());
      for (const control::Fence& fence : asked) {
        if (!failed) fences[fence.object] = fence.epoch;
      }
    }
    done(failed ? Result<>(fail(Errc::kIo, "disk")) : Result<>());
  }
  void send(std::uint32_t id, std::uint32_t verb, rpc::peer::Bytes arguments,
            Done<rpc::peer::Bytes> done) override {
    rpc::peer::Table<> table;
    table.on<control::Remove>([&](const control::Remove& request, Done<void> then) {
      remove(id, request.objects, std::move(then));
    });
    table.serve(verb, arguments, std::move(done));
  }
  void remove(std::uint32_t id, const std::vector<layout::ObjectId>& objects, Done<void> then) {
    bool failed = false;
    {
      const std::lock_guard lock(mutex);
      failed = failing.contains(id);
      if (failed) ++failures;
      largest_batch = std::max(largest_batch, objects.size());
      for (const auto& object : objects) {
        if (least_epochs.contains(object)) expect(fences.contains(object));
        if (!failed) removed[id].insert(object);
      }
    }
    std::vector<std::move_only_function<void()>> answers;
    {
      const std::lock_guard lock(mutex);
      held.push_back([failed, then = std::move(then)]() mutable {
        then(failed ? Result<>(fail(Errc::kIo, "disk")) : Result<>());
      });
      if (held.size() < together) return;
      answers.swap(held);
    }
    for (auto& answer : answers) answer();
  }
  RemovalQueue::Parts parts() {
    return {.source = *this,
            .servers = *this,
            .reachable =
                [this](std::uint32_t id) {
                  const std::lock_guard lock(mutex);
                  return !away.contains(id);
                },
            .may_change =
                [this](const layout::ObjectId& object, std::uint32_t id) {
                  const std::lock_guard lock(mutex);
                  return changing.contains({id, object});
                },
            .period = 10ms};
  }
  // Until it holds, with a deadline that only what never comes true reaches.
  bool await(const std::function<bool()>& holds) {
    for (int i = 0; i < 12'000; ++i) {
      {
        const std::lock_guard lock(mutex);
        if (holds()) return true;
      }
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }
  bool await_queued(std::size_t count) {
    return await([&] { return queued.size() == count; });
  }
  void add(std::uint64_t first, std::uint64_t count, std::set<std::uint32_t> ids) {
    const std::lock_guard lock(mutex);
    for (std::uint64_t i = 0; i < count; ++i) queued[{first + i, 1, 1}] = ids;
  }
};

}  // namespace

TEST_CASE("what is queued is removed at every data server, in batches") {
  World world;
  world.add(1, 3000, {1, 2});
  RemovalQueue queue(world.parts());
  queue.start();
  REQUIRE(world.await_queued(0));
  CHECK(world.removed[1].size() == 3000);
  CHECK(world.removed[2].size() == 3000);
  CHECK(world.largest_batch <= rpc::control::kMaxRemovals);

  world.add(5000, 1, {1});
  queue.queued(std::vector{layout::ObjectId{5000, 1, 1}});
  CHECK(world.await_queued(0));
  queue.stop();
  CHECK(queue.backlog() == 0);
}

TEST_CASE("all data servers of a batch are asked at once") {
  World world;
  world.together = 3;
  world.add(1, 100, {1, 2, 3});
  RemovalQueue queue(world.parts());
  queue.start();
  CHECK(world.await_queued(0));
  const std::lock_guard lock(world.mutex);
  world.together = 1;
  for (auto& answer : world.held) answer();
}

TEST_CASE("what all data servers of a batch have removed is taken off the queue at once") {
  World world;
  world.add(1, 100, {1, 2, 3});
  world.add(101, 100, {2, 4});
  RemovalQueue queue(world.parts());
  queue.start();
  REQUIRE(world.await_queued(0));
  queue.stop();
  CHECK(world.done_calls == 1);
}

TEST_CASE("a data server that is away keeps its removals, the others go on") {
  World world;
  world.away = {2};
  world.add(1, 10, {1, 2});
  world.add(11, 10, {1});
  RemovalQueue queue(world.parts());
  queue.start();
  REQUIRE(world.await_queued(10));
  {
    const std::lock_guard lock(world.mutex);
    CHECK(world.removed[1].size() == 20);
    CHECK(world.removed[2].empty());
    world.away.clear();
  }
  CHECK(world.await_queued(0));
}

TEST_CASE("what waits for a data server that is away is not read for every file that is removed") {
  World world;
  world.away = {2};
  world.add(1, 5000, {2});
  RemovalQueue queue(world.parts());
  queue.start();
  REQUIRE(world.await([&] { return queue.backlog() == 5000; }));
  const auto read = [&] {
    const std::lock_guard lock(world.mutex);
    return world.read;
  };
  const std::size_t before = read();
  for (std::uint64_t id = 10'001; id <= 10'020; ++id) {
    world.add(id, 1, {1, 2});
    queue.queued(std::vector{layout::ObjectId{id, 1, 1}});
    REQUIRE(world.await([&] { return world.removed[1].contains({id, 1, 1}); }));
  }
  CHECK(read() < before + 100);
  CHECK(world.await([&] { return queue.backlog() == 5020; }));
  {
    const std::lock_guard lock(world.mutex);
    world.failing = {1};
  }
  world.add(20'001, 1, {1, 2});
  queue.queued(std::vector{layout::ObjectId{20'001, 1, 1}});
  CHECK(world.await([&] { return world.failures > 5; }));
  CHECK(queue.backlog() == 5022);  // however often it is tried again
  {
    const std::lock_guard lock(world.mutex);
    world.failing.clear();
  }
  {
    const std::lock_guard lock(world.mutex);
    world.away.clear();
  }
  queue.kick();
  CHECK(world.await_queued(0));
  CHECK(world.await([&] { return queue.backlog() == 0; }));
}

TEST_CASE("more removals than are remembered are all made") {
  World world;
  auto parts = world.parts();
  parts.remembered = 2;
  RemovalQueue queue(std::move(parts));
  queue.start();
  SECTION("new ones") {
    world.add(1, 5, {1});
    queue.queued(std::vector<layout::ObjectId>{{1, 1, 1}, {2, 1, 1}, {3, 1, 1}});
  }
  SECTION("or those that failed") {
    {
      const std::lock_guard lock(world.mutex);
      world.failing = {1};
    }
    world.add(1, 5, {1});  // which the first pass may see already
    for (std::uint64_t id = 1; id <= 5; ++id) queue.queued(std::vector{layout::ObjectId{id, 1, 1}});
    REQUIRE(world.await([&] { return queue.backlog() == 5; }));
    const std::lock_guard lock(world.mutex);
    world.failing.clear();
  }
  CHECK(world.await_queued(0));
}

TEST_CASE("what others took off the queue, of a server that is no more, is not counted on") {
  World world;
  world.away = {2};
  world.add(1, 3, {2});
  RemovalQueue queue(world.parts());
  queue.start();
  REQUIRE(world.await([&] { return queue.backlog() == 3; }));
  {
    const std::lock_guard lock(world.mutex);
    world.queued.clear();
  }
  queue.look_again();
  CHECK(world.await([&] { return queue.backlog() == 0; }));
}

TEST_CASE("a removal that failed is tried again") {
  World world;
  world.failing = {1};
  world.add(1, 1, {1});
  RemovalQueue queue(world.parts());
  queue.start();
  std::this_thread::sleep_for(50ms);
  CHECK(queue.backlog() == 1);
  {
    const std::lock_guard lock(world.mutex);
    world.failing.clear();
  }
  CHECK(world.await_queued(0));
}

TEST_CASE("handles of an object are refused before it is removed, where somebody may have some") {
  World world;
  world.unfenced = {1};
  world.add(1, 3, {1});
  world.least_epochs[{2, 1, 1}] = 9;
  RemovalQueue queue(world.parts());
  queue.start();
  std::this_thread::sleep_for(50ms);
  {
    const std::lock_guard lock(world.mutex);
    CHECK(world.removed[1].empty());
    world.unfenced.clear();
  }
  CHECK(world.await_queued(0));
  const std::lock_guard lock(world.mutex);
  CHECK(world.fences == std::map<layout::ObjectId, std::uint32_t>{{{2, 1, 1}, 9}});
}

TEST_CASE("a removal waits for changes that may come yet, unless a fence keeps them off") {
  World world;
  world.add(1, 3, {1, 2});
  world.changing = {{1, {1, 1, 1}}, {2, {1, 1, 1}}, {1, {2, 1, 1}}};
  world.least_epochs[{2, 1, 1}] = 9;
  RemovalQueue queue(world.parts());
  queue.start();
  REQUIRE(world.await_queued(1));
  {
    const std::lock_guard lock(world.mutex);
    CHECK(world.queued.begin()->first == layout::ObjectId{1, 1, 1});
    CHECK_FALSE(world.removed[1].contains({1, 1, 1}));
    CHECK_FALSE(world.removed[2].contains({1, 1, 1}));
  }
  CHECK(queue.backlog() == 2);
  {
    const std::lock_guard lock(world.mutex);
    world.changing.clear();
  }
  CHECK(world.await_queued(0));
}

TEST_CASE("a removal waits for changes at their data server, not at the others") {
  World world;
  world.add(1, 1, {1, 2});
  world.changing = {{1, {1, 1, 1}}};
  world.away = {1};  // and it may never be back
  RemovalQueue queue(world.parts());
  queue.start();
  const auto left = [&] {
    const std::lock_guard lock(world.mutex);
    return world.queued[{1, 1, 1}];
  };
  for (int i = 0; i < 200 && left().size() == 2; ++i) std::this_thread::sleep_for(5ms);
  CHECK(left() == std::set<std::uint32_t>{1});
  const std::lock_guard lock(world.mutex);
  CHECK(world.removed[2].size() == 1);
}
