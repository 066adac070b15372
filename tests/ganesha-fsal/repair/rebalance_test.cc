// Rebalancing: who gives, who takes, and that it ends.
#include "tests/ganesha-fsal/repair/mover_fixture.h"

using namespace weft;
using namespace weft::mds;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kMi = 1U << 20;

class RebalanceTest : public MoverTest {
 public:
  FileId sized(std::string_view name, std::vector<std::uint32_t> ids, std::uint64_t size,
               std::vector<std::uint32_t> mirror = {}) {
    const FileId id = file(kRootFileId, name);
    layout_of(id, std::move(ids), std::move(mirror));
    REQUIRE(names->grow_size({id, size, {}}));
    return id;
  }
  void use(std::uint32_t ds_id, std::uint64_t used_mi) {
    known[ds_id].candidate.free_bytes = (1000 - used_mi) * kMi;
  }
  void run(int turns = 200) {
    for (int i = 0; i < turns; ++i) {
      mover->turn();
      mend_all();
      remove_queued();
    }
  }
};

}  // namespace

TEST_CASE_METHOD(RebalanceTest, "objects go from the fullest until all are about even") {
  std::vector<FileId> files;
  for (int i = 0; i < 40; ++i) files.push_back(sized("f" + std::to_string(i), {1}, 20 * kMi));
  use(1, 900);
  for (std::uint32_t id = 2; id <= 6; ++id) use(id, 100);
  make();
  const auto plan = mover->plan(0.05);
  REQUIRE(plan);
  CHECK(plan->whole);
  CHECK(plan->spread_before > 0.79);
  CHECK(plan->spread_after <= 0.05);
  CHECK(names->moves(0, 10)->empty());  // a plan is not more

  REQUIRE(mover->begin_rebalance(0.05));
  CHECK(mover->begin_rebalance(0.05).error() == Errc::kBusy);
  run();
  const auto state = mover->rebalance();
  CHECK_FALSE(state.running);
  CHECK(state.spread <= 0.05);
  CHECK(state.bytes == state.objects * 20 * kMi);
  std::uint64_t planned = 0;
  for (const auto& [ends, moves] : plan->moves) {
    CHECK(ends.first == 1);
    planned += moves.objects;
  }
  CHECK(state.objects == planned);
  CHECK(mover->moved() == state.objects);
  CHECK(objects_at(1) == 40 - state.objects);
  for (std::uint32_t id = 2; id <= 6; ++id) CHECK(objects_at(id) > 0);
  check_clean();
}

TEST_CASE_METHOD(RebalanceTest, "small files that nobody uses go directly, many at once") {
  for (int i = 0; i < 200; ++i) sized("f" + std::to_string(i), {1}, 20 << 10);
  for (auto& [id, server] : known) {
    server.candidate.capacity_bytes = 10 * kMi;
    server.candidate.free_bytes = (id == 1 ? 5 : 9) * kMi;
  }
  limits.reserve_bytes = 0;
  unused = true;
  make();
  REQUIRE(mover->begin_rebalance(0.05));
  SECTION("all of them") {
    run(20);
    const MutexLock lock(mutex_of_copies);
    CHECK(copies.size() == mover->moved());
  }
  SECTION("but for what cannot be copied") {
    for (FileId f = 0; f < 100; ++f) uncopied.insert(f);
    run(20);
  }
  const auto state = mover->rebalance();
  CHECK_FALSE(state.running);
  CHECK(state.spread <= 0.05);
  CHECK(state.objects >= 150);
  CHECK(state.bytes == state.objects * (20 << 10));
  CHECK(objects_at(1) == 200 - state.objects);
  CHECK(mover->moved() == state.objects);
  check_clean();
}

TEST_CASE_METHOD(RebalanceTest, "holes of files are not counted") {
  for (int i = 0; i < 40; ++i) sized("f" + std::to_string(i), {1}, 5000 * kMi);
  allocated = 20 * kMi;
  use(1, 900);
  for (std::uint32_t id = 2; id <= 6; ++id) use(id, 100);
  make();
  REQUIRE(mover->begin_rebalance(0.05));
  run();
  const auto state = mover->rebalance();
  CHECK(state.spread <= 0.05);
  CHECK(state.bytes == state.objects * 20 * kMi);
  CHECK(mover->moved() == state.objects);
}

TEST_CASE_METHOD(RebalanceTest, "of striped files what the giver has of them counts") {
  for (const std::uint32_t id : {4U, 5U, 6U}) known.erase(id);
  for (auto& [id, server] : known) server.candidate.capacity_bytes = 100 * kMi;
  limits.reserve_bytes = 0;
  known[1].candidate.free_bytes = 40 * kMi;
  known[2].candidate.free_bytes = 95 * kMi;
  known[3].candidate.free_bytes = 100 * kMi;
  SECTION("all of a file that is no longer than a unit") {
    for (int i = 0; i < 50; ++i) sized("f" + std::to_string(i), {1, 2}, kMi);
    make();
    const auto plan = mover->plan(0.05);
    REQUIRE(plan);
    CHECK(plan->moves.at({1, 3}).objects == 30);
    CHECK(plan->moves.at({1, 3}).bytes == 30 * kMi);
    REQUIRE(mover->begin_rebalance(0.05));
    run();
    CHECK(mover->rebalance().bytes == 30 * kMi);
    CHECK(objects_at(1) == 20);
    CHECK(objects_at(3) == 30);
  }
  SECTION("nothing of one that the other server has") {
    for (int i = 0; i < 50; ++i) sized("f" + std::to_string(i), {2, 1}, kMi);
    make();
    REQUIRE(mover->begin_rebalance(0.05));
    run();
    CHECK(mover->rebalance().objects == 0);
    CHECK(objects_at(3) == 0);
  }
  CHECK_FALSE(mover->rebalance().running);
  check_clean();
}

TEST_CASE_METHOD(RebalanceTest, "a large file is not moved directly for the little it has there") {
  for (int i = 0; i < 200; ++i) sized("f" + std::to_string(i), {2, 1}, kMi + (20 << 10));
  for (auto& [id, server] : known) {
    server.candidate.capacity_bytes = 10 * kMi;
    server.candidate.free_bytes = (id == 1 ? 5 : 9) * kMi;
  }
  limits.reserve_bytes = 0;
  unused = true;
  make();
  REQUIRE(mover->begin_rebalance(0.05));
  run();
  CHECK(mover->moved() > 0);
  CHECK(mover->rebalance().bytes == mover->moved() * (20 << 10));
  const MutexLock lock(mutex_of_copies);
  CHECK(copies.empty());
}

TEST_CASE_METHOD(RebalanceTest, "what a drain brings to the emptier one takes room there") {
  for (const std::uint32_t id : {4U, 5U, 6U}) known.erase(id);
  for (int i = 0; i < 10; ++i) sized("f" + std::to_string(i), {1}, 20 * kMi);
  sized("large", {2}, 800 * kMi);
  use(1, 900);
  use(3, 100);
  drain(2);
  make();
  mover->turn();
  REQUIRE(mover->begin_rebalance(0.05));
  for (int i = 0; i < 5; ++i) mover->turn();
  CHECK(mover->rebalance().objects == 1);
  CHECK(names->moves(0, 100)->size() == 2);
}

TEST_CASE_METHOD(RebalanceTest, "copies stay in different domains, and none doubles up") {
  std::vector<FileId> files;
  for (int i = 0; i < 20; ++i) {
    files.push_back(sized("f" + std::to_string(i), {1}, 20 * kMi, {2}));
  }
  use(1, 500);
  for (std::uint32_t id = 2; id <= 6; ++id) use(id, 100);
  known[3].candidate.domain = known[4].candidate.domain = "d2";  // that of the other copy
  make();
  REQUIRE(mover->begin_rebalance(0.05));
  run();
  CHECK(objects_at(3) == 0);
  CHECK(objects_at(4) == 0);
  CHECK(objects_at(5) > 0);
  CHECK(objects_at(2) == 20);
  for (const FileId f : files) CHECK(current_copies(f, 0) == 2);
  CHECK_FALSE(mover->rebalance().running);
}

TEST_CASE_METHOD(RebalanceTest, "it ends when nothing can go, and when it is told to") {
  use(1, 900);  // by what is not ours
  for (std::uint32_t id = 2; id <= 6; ++id) use(id, 100);
  sized("huge", {1}, 900 * kMi);
  sized("empty", {1}, 0);
  make();
  REQUIRE(mover->begin_rebalance(0.05));
  run(5);
  CHECK_FALSE(mover->rebalance().running);
  CHECK(mover->rebalance().objects == 0);
  CHECK_FALSE(mover->end_rebalance());

  for (int i = 0; i < 40; ++i) sized("f" + std::to_string(i), {1}, 20 * kMi);
  limits.at_once = 2;
  make();
  REQUIRE(mover->begin_rebalance(0.05));
  mover->turn();
  CHECK(mover->end_rebalance());
  run();
  CHECK(mover->moved() == 2);  // what had begun is finished
  check_clean();
}

TEST_CASE_METHOD(RebalanceTest, "it ends when all that it begins fails") {
  for (int i = 0; i < 40; ++i) sized("f" + std::to_string(i), {1}, 20 * kMi);
  use(1, 900);
  for (std::uint32_t id = 2; id <= 6; ++id) use(id, 100);
  immovable = true;
  limits.rest = limits.look_every = Mover::Clock::duration(0);
  SECTION("after a while") {
    limits.patience = Mover::Clock::duration(0);
    make();
    REQUIRE(mover->begin_rebalance(0.05));
    run(20);
    CHECK_FALSE(mover->rebalance().running);
    CHECK(mover->rebalance().objects == 0);
    CHECK(mover->moved() == 0);
  }
  SECTION("and goes on when that passes") {
    make();
    REQUIRE(mover->begin_rebalance(0.05));
    run(20);
    CHECK(mover->rebalance().running);
    CHECK(mover->moved() == 0);
    immovable = false;
    run();
    CHECK_FALSE(mover->rebalance().running);
    CHECK(mover->moved() > 0);
  }
}
