#include "ganesha-fsal/repair/repairer.h"

#include <catch2/generators/catch_generators.hpp>

#include "tests/ganesha-fsal/repair/fake_copy_servers.h"

using namespace weft;
using namespace weft::mds;
using namespace std::chrono_literals;
using layout::CopyState;

namespace {

constexpr std::uint64_t kMi = 1U << 20;
using State = FakeCopyServers::State;

}  // namespace

TEST_CASE_METHOD(RepairTest, "a copy that missed writes is mended, in this order") {
  const FileId f = mirrored("f");
  mark(f, 4, {5 * kMi, 6 * kMi});
  servers.finish_at_once = false;
  start();
  REQUIRE(soon([&] { return servers.begun_jobs() == 1; }));
  CHECK(state(f, 1, 1) == CopyState::kResyncing);
  CHECK(pins == 1);
  const auto map = **names->layout(f);
  {
    const std::lock_guard lock(servers.mutex);
    CHECK(servers.calls == std::vector<std::string>{"fence", "forget", "resync"});
    CHECK(servers.fenced == std::map<std::uint32_t, std::uint32_t>{{2, map.object_epoch}});
    CHECK(servers.forgotten.front() == std::pair<std::uint32_t, std::uint32_t>{2, 4});
    const auto& [ds_id, job] = servers.jobs.front();
    CHECK(ds_id == 4);
    CHECK(job.object == names->object_of(f, map));
    CHECK(job.source == 2);
    CHECK(job.least_epoch == map.object_epoch);
    CHECK(job.extents == std::vector<control::Extent>{{5 * kMi, kMi}});
    CHECK(job.stripe_unit == map.stripe_unit);
    CHECK(job.servers == 2);
    CHECK(job.server == 1);
  }
  const auto shown = repairer->jobs().running();
  REQUIRE(shown.size() == 1);
  CHECK(shown[0].ds_id == 4);
  CHECK(shown[0].source == 2);
  CHECK(names->stale_counts() == std::map<std::uint32_t, std::uint64_t>{{4, 1}});
  servers.end_all(FakeCopyServers::State::kDone);
  CHECK(soon([&] { return state(f, 1, 1) == CopyState::kCurrent; }));
  CHECK(soon([&] { return pins == 0; }));
  CHECK(repairer->jobs().totals().resynced == 1);
  CHECK(repairer->jobs().totals().copied_bytes == 7);
  check_clean();
}

TEST_CASE_METHOD(RepairTest, "a copy that misses more while it is mended goes round again") {
  const FileId f = mirrored("f");
  mark(f, 3, {0, 1});
  int left = 2;
  servers.begun = [&](const control::Resync&) {
    if (left-- > 0) mark(f, 3, {9 * kMi, 9 * kMi + 1});
  };
  start();
  CHECK(soon([&] { return state(f, 1, 0) == CopyState::kCurrent; }));
  REQUIRE(servers.begun_jobs() == 3);
  const std::lock_guard lock(servers.mutex);
  CHECK(servers.jobs[0].second.extents.size() == 1);
  CHECK(servers.jobs[2].second.extents.size() == 2);
  CHECK(servers.jobs[2].second.least_epoch > servers.jobs[0].second.least_epoch);
  CHECK(servers.jobs[2].second.job != servers.jobs[0].second.job);
}

TEST_CASE_METHOD(RepairTest, "a copy that is stale while its file is in doubt is mended whole") {
  const FileId f = mirrored("f");
  mark(f, 3, {0, 1});
  here.erase(3);
  start();
  REQUIRE(soon([&] { return repairer->compare(f).has_value(); }));
  {
    const std::lock_guard lock(mutex);
    here.insert(3);
  }
  repairer->server_up(3);
  CHECK(soon([&] { return state(f, 1, 0) == CopyState::kCurrent; }));
  const std::lock_guard lock(servers.mutex);
  CHECK(servers.jobs.back().first == 3);
  CHECK(servers.jobs.back().second.extents == std::vector<control::Extent>{{0, kMaxFileSize}});
}

TEST_CASE_METHOD(RepairTest, "comparisons leave workers to what is stale") {
  servers.finish_at_once = false;
  Repairer::Limits limits;
  limits.workers = 4;
  start(limits);
  for (int i = 0; i < 8; ++i) {
    REQUIRE_FALSE(repairer->compare(mirrored("c" + std::to_string(i))));
  }
  REQUIRE(soon([&] { return servers.begun_jobs() >= 2; }));
  const FileId f = mirrored("f");
  mark(f, 3, {0, 1});
  repairer->server_up(3);
  CHECK(soon([&] { return state(f, 1, 0) == CopyState::kResyncing; }));
  servers.finish_at_once = true;
  servers.end_all(State::kDone);
}

TEST_CASE_METHOD(RepairTest, "a job that more misses have fenced off holds up nothing") {
  const FileId f = mirrored("f");
  mark(f, 3, {0, 1});
  servers.finish_at_once = false;
  std::atomic<bool> waited{false};
  servers.begun = [&](const control::Resync& job) {
    const bool first = servers.begun_jobs() == 1;
    if (first) mark(f, 3, {9 * kMi, 9 * kMi + 1});
    if (!first) waited = !repairer->waits_for().empty();
    const std::lock_guard lock(servers.mutex);
    auto& progress = servers.progress[job.job];
    progress.state = first ? State::kFailed : State::kDone;
    progress.error = "fenced: the object is fenced above it";
  };
  start();
  CHECK(soon([&] { return state(f, 1, 0) == CopyState::kCurrent; }));
  CHECK(servers.begun_jobs() == 2);
  CHECK_FALSE(waited.load());
}

TEST_CASE_METHOD(RepairTest, "of what the source cannot read only that is copied again") {
  const FileId f = mirrored("f");
  mark(f, 3, {0, 64 * kMi});
  servers.begun = [&](const control::Resync& job) {
    const std::lock_guard lock(servers.mutex);
    if (!servers.unreadable) return;
    servers.progress[job.job].state = State::kFailed;
    servers.progress[job.job].error = "io: data server 1 cannot read it";
  };
  servers.unreadable = std::vector<control::Extent>{{5 * kMi, kMi}, {70 * kMi, kMi}};
  start();
  REQUIRE(soon([&] { return servers.begun_jobs() >= 3; }));
  CHECK(state(f, 1, 0) == CopyState::kResyncing);
  {
    const std::lock_guard lock(servers.mutex);
    CHECK(servers.jobs[1].second.extents == std::vector<control::Extent>{{5 * kMi, kMi}});
    CHECK(servers.jobs[2].second.extents == std::vector<control::Extent>{{5 * kMi, kMi}});
  }
  CHECK(repairer->waits_for().at(3).find("data server 1 cannot read") != std::string::npos);
  // Others at the same server are not held up, however long this one waits.
  const FileId g = mirrored("g");
  {
    const std::lock_guard lock(servers.mutex);
    servers.unreadable.reset();
  }
  mark(g, 3, {0, 1});
  CHECK(soon([&] { return state(g, 1, 0) == CopyState::kCurrent; }));
  CHECK(soon([&] { return state(f, 1, 0) == CopyState::kCurrent; }));
}

TEST_CASE_METHOD(RepairTest, "what came from a source that is stale by now is not believed") {
  const FileId f = tripled("f");
  mark(f, 3, {0, 1}, 2);
  servers.begun = [&](const control::Resync& job) {
    if (job.source == 1) mark(f, 1, {0, 1}, 0);
  };
  start();
  CHECK(soon([&] { return state(f, 2, 0) == CopyState::kCurrent; }));
  CHECK(soon([&] { return state(f, 0, 0) == CopyState::kCurrent; }));
  const std::lock_guard lock(servers.mutex);
  REQUIRE(servers.jobs.size() >= 3);
  CHECK(servers.jobs[0].second.source == 1);
  CHECK(servers.jobs[1].second.source == 2);
  CHECK(servers.jobs[1].first == 3);
}

TEST_CASE_METHOD(RepairTest, "nothing is done at a server that is away, and all when it is back") {
  const FileId f = mirrored("f");
  mark(f, 3, {0, 1});
  here.erase(3);
  Repairer::Limits limits;
  start(limits);
  std::this_thread::sleep_for(60ms);
  CHECK(servers.begun_jobs() == 0);
  {
    const std::lock_guard lock(mutex);
    here.insert(3);
  }
  repairer->server_up(3);
  CHECK(soon([&] { return state(f, 1, 0) == CopyState::kCurrent; }));
}

// Else a write of before, which the leader sends on, is refused at the other, and that one is taken
// for one that missed it.
TEST_CASE_METHOD(RepairTest, "of several current copies the leader is fenced before the others") {
  const FileId f = tripled("f");
  mark(f, 3, {0, 1}, 2);
  start();
  CHECK(soon([&] { return state(f, 2, 0) == CopyState::kCurrent; }));
  const std::lock_guard lock(servers.mutex);
  CHECK(servers.fence_calls == std::vector<std::vector<std::uint32_t>>{{1}, {2}});
}

// It does not lead, so nobody writes there; it is fenced before it serves again.
TEST_CASE_METHOD(RepairTest, "a third copy whose server is gone does not hold up the second") {
  const FileId f = tripled("f");
  const std::uint32_t gone = GENERATE(2U, 3U);
  const std::uint32_t stale = 5 - gone;
  mark(f, stale, {0, 1}, stale - 1);
  lose(gone);
  start();
  CHECK(soon([&] { return state(f, stale - 1, 0) == CopyState::kCurrent; }));
  CHECK(state(f, gone - 1, 0) == CopyState::kCurrent);
  const std::lock_guard lock(servers.mutex);
  const std::uint32_t epoch = (*names->layout(f))->object_epoch;
  CHECK(servers.fenced == std::map<std::uint32_t, std::uint32_t>{{1, epoch}, {gone, epoch}});
  CHECK(servers.forgotten == std::vector<std::pair<std::uint32_t, std::uint32_t>>{{1, stale}});
}

TEST_CASE_METHOD(RepairTest, "what was never written waits for no copy that is lost for good") {
  const FileId f = tripled("f");
  mark(f, 3, {0, kMaxFileSize}, 2);
  lose(2);
  lost.insert(2);  // it is being removed
  servers.sizes = {{1, std::nullopt}, {3, std::nullopt}};
  start();
  CHECK(soon([&] { return state(f, 2, 0) == CopyState::kCurrent; }));
}

// As a move's new copy, which has nothing in any case.
TEST_CASE_METHOD(RepairTest, "a copy that may have the only bytes is waited for") {
  const FileId f = tripled("f");
  mark(f, 3, {0, kMaxFileSize}, 2);
  lose(2);  // it restarts
  servers.sizes = {{1, std::nullopt}, {2, 4096}, {3, std::nullopt}};
  start();
  REQUIRE(soon([&] {
    const std::lock_guard lock(servers.mutex);
    return std::ranges::count(servers.calls, "forget") > 2;  // it was tried again
  }));
  CHECK(state(f, 2, 0) != CopyState::kCurrent);
  come_back(2);
  for (const std::size_t copy : {0, 2}) {
    CHECK(soon([&] { return state(f, copy, 0) == CopyState::kCurrent; }));
  }
  const std::lock_guard lock(servers.mutex);
  CHECK(servers.sizes[1] == 4096);
  CHECK(servers.sizes[3] == 4096);
}

// It was left out while its server was away, and the other has lost the object.
TEST_CASE_METHOD(RepairTest, "a stale copy that has the only bytes is the others' source") {
  const FileId f = mirrored("f");
  REQUIRE(names->grow_size({.id = f, .end = 4096}));
  mark(f, 3, {0, kMaxFileSize});
  servers.sizes = {{1, std::nullopt}, {3, 4096}};
  start();
  CHECK(soon([&] { return servers.begun_jobs() == 1 && state(f, 0, 0) == CopyState::kCurrent; }));
  CHECK(state(f, 1, 0) == CopyState::kCurrent);
  CHECK(doubted == 1);
  const std::lock_guard lock(servers.mutex);
  CHECK(servers.jobs[0].first == 1);
  CHECK(servers.jobs[0].second.source == 3);
  CHECK(servers.jobs[0].second.extents == std::vector<control::Extent>{{0, kMaxFileSize}});
  CHECK(servers.sizes[1] == 4096);
  CHECK(servers.sizes[3] == 4096);
  check_clean();
}

TEST_CASE_METHOD(RepairTest, "of two such copies it is the one that was written last") {
  const FileId f = tripled("f");
  REQUIRE(names->grow_size({.id = f, .end = 8192}));
  mark(f, 2, {0, kMaxFileSize}, 1);
  mark(f, 3, {0, kMaxFileSize}, 2);
  servers.sizes = {{1, std::nullopt}, {2, 4096}, {3, 8192}};
  servers.mtimes = {{2, 5}, {3, 6}};
  const bool away = GENERATE(true, false);
  if (away) lose(3);
  start();
  if (away) {
    REQUIRE(soon([&] { return !repairer->waits_for().empty(); }));
    CHECK(servers.begun_jobs() == 0);
    come_back(3);
    repairer->server_up(3);
  }
  for (const std::size_t copy : {0, 1, 2}) {
    CHECK(soon([&] { return state(f, copy, 0) == CopyState::kCurrent; }));
  }
  const std::lock_guard lock(servers.mutex);
  for (const std::uint32_t ds_id : {1, 2, 3}) CHECK(servers.sizes[ds_id] == 8192);
}

TEST_CASE_METHOD(RepairTest, "what is cut to nothing where it is current is cut at the other") {
  const FileId f = mirrored("f");
  mark(f, 3, {0, kMaxFileSize});
  servers.sizes = {{1, 0}, {3, 4096}};
  SECTION("the object is there yet") { REQUIRE(names->grow_size({.id = f, .end = 4096})); }
  SECTION("there was none, and the file is empty") { servers.sizes[1].reset(); }
  start();
  CHECK(soon([&] { return state(f, 1, 0) == CopyState::kCurrent; }));
  const std::lock_guard lock(servers.mutex);
  REQUIRE(servers.jobs.size() == 1);
  CHECK(servers.jobs[0].second.source == 1);
}

// Nobody wrote the file when it was found: that it was written since does not say which is right.
TEST_CASE_METHOD(RepairTest, "a comparison leaves what waits for an administrator as it is") {
  const FileId f = mirrored("f");
  constexpr std::uint64_t kBlock = 4096;
  ScrubFinding finding{f, 3, 1, 3 * kBlock, false, false, 0, {{kMi, 2 * kBlock}, {9 * kMi, 100}}};
  const std::uint64_t behind = 9 * kMi + kBlock;
  const std::vector<control::Extent> left{
      {0, kMi}, {kMi + 2 * kBlock, 8 * kMi - 2 * kBlock}, {behind, kMaxFileSize - behind}};
  SECTION("that is listed whole") { finding.differing_bytes = 2 * kBlock + 100; }
  SECTION("of which there is more than is listed") {}  // that is compared
  findings = {finding};
  start();
  REQUIRE(soon([&] { return repairer->compare(f).has_value(); }));
  const std::lock_guard lock(servers.mutex);
  REQUIRE(servers.jobs.size() == 2);
  CHECK(servers.jobs[0].first == 3);
  CHECK(servers.jobs[0].second.extents == left);
  CHECK(servers.jobs[1].second.extents == std::vector<control::Extent>{{0, kMaxFileSize}});
}

TEST_CASE_METHOD(RepairTest, "nor does it hold up that the second is compared") {
  const FileId f = tripled("f");
  const std::uint32_t gone = GENERATE(2U, 3U);
  lose(gone);
  start();
  CHECK(repairer->compare(f).error() == Errc::kBusy);
  REQUIRE(soon([&] { return compared == 1; }));
  {
    const std::lock_guard lock(servers.mutex);
    REQUIRE(servers.jobs.size() == 1);
    CHECK(servers.jobs[0].first == 5 - gone);
  }
  CHECK(repairer->jobs().totals().compared == 1);
  CHECK(repairer->compare(f).error() == Errc::kBusy);  // once more, for the one that is gone
}

TEST_CASE_METHOD(RepairTest, "a job that fails, or is lost with its server, is begun again") {
  const FileId f = mirrored("f");
  mark(f, 3, {0, 1});
  servers.finish_at_once = false;
  servers.refuse = 2;
  start();
  REQUIRE(soon([&] { return servers.begun_jobs() == 1; }));
  servers.end_all(FakeCopyServers::State::kFailed);
  REQUIRE(soon([&] { return servers.begun_jobs() == 2; }));
  servers.end_all(FakeCopyServers::State::kUnknown);
  REQUIRE(soon([&] { return servers.begun_jobs() == 3; }));
  {
    const std::lock_guard lock(servers.mutex);
    servers.away.insert(3);
  }
  REQUIRE(soon([&] { return servers.begun_jobs() == 4; }));
  {
    const std::lock_guard lock(servers.mutex);
    servers.away.clear();
    CHECK(servers.cancelled.size() == 1);
  }
  CHECK(state(f, 1, 0) == CopyState::kResyncing);
  servers.end_all(FakeCopyServers::State::kDone);
  CHECK(soon([&] { return state(f, 1, 0) == CopyState::kCurrent; }));
  CHECK(repairer->jobs().totals().failed == 3);
}

TEST_CASE_METHOD(RepairTest, "a repair that fails waits, says why, and goes on when it can") {
  const FileId f = mirrored("f");
  mark(f, 3, {0, 1});
  servers.finish_at_once = false;
  servers.begun = [&](const control::Resync& job) {
    const std::lock_guard lock(servers.mutex);
    if (full) servers.progress[job.job] = {.state = State::kFailed, .error = "no space: write"};
    if (!full) servers.progress[job.job].state = State::kDone;
  };
  start();
  REQUIRE(soon([&] { return !repairer->waits_for().empty(); }));
  CHECK(repairer->waits_for().at(3).contains("no space"));
  CHECK(state(f, 1, 0) != CopyState::kCurrent);
  full = false;
  CHECK(soon([&] { return state(f, 1, 0) == CopyState::kCurrent; }));
  CHECK(soon([&] { return repairer->waits_for().empty(); }));
}

TEST_CASE_METHOD(RepairTest, "of each copy it is said what its repair waits for") {
  const FileId f = mirrored("f");
  const FileId g = mirrored("g");
  mark(f, 3, {0, 1});
  lose(3);
  servers.finish_at_once = false;
  Repairer::Limits limits;
  limits.per_server = 1;
  limits.small = 0;
  limits.jobs.bytes_per_second = 5 * kMi;
  start(limits);
  CHECK(repairer->state_of(f, 3) == "waits: its data server is away");
  {
    const std::scoped_lock locks(mutex, servers.mutex);
    here.insert(3);
    servers.gone.clear();
  }
  repairer->server_up(3);
  REQUIRE(soon([&] { return servers.begun_jobs() == 1; }));
  CHECK(soon([&] {
    return repairer->state_of(f, 3) ==
           "under way from data server 1, 0 of 0 MiB compared, at most 5 MiB/s at one server";
  }));
  CHECK(repairer->state_of(f, 4) == "waits: its file is being worked at");
  mark(g, 3, {0, 1});
  CHECK(repairer->state_of(g, 3) == "waits: 1 of at most 1 repairs run at its data server");
  CHECK(repairer->state_of(g, 4) == "waits for its turn");
}

TEST_CASE_METHOD(RepairTest, "a repair that fails is told of its copy, with the reason") {
  const FileId f = mirrored("f");
  const FileId stuck = mirrored("stuck");
  mark(f, 3, {0, 1});
  mark(stuck, 4, {0, 1});
  unpinned = stuck;  // no source
  servers.begun = [&](const control::Resync& job) {
    const std::lock_guard lock(servers.mutex);
    servers.progress[job.job] = {.state = State::kFailed, .error = "no space: write"};
  };
  start();
  const auto says = [&](FileId file, std::uint32_t ds_id, std::string_view what) {
    const std::string state = repairer->state_of(file, ds_id);
    return state.starts_with("waits") && state.contains(what);
  };
  CHECK(soon([&] { return says(f, 3, "s more: i/o error: no space: write"); }));
  CHECK(soon([&] { return says(stuck, 4, "s more: layout try later: away"); }));
}

TEST_CASE_METHOD(RepairTest, "an object that cannot be repaired holds up no other") {
  const FileId stuck = mirrored("stuck");
  mark(stuck, 3, {0, 1});
  std::vector<FileId> files;
  for (int i = 0; i < 6; ++i) {
    files.push_back(mirrored("f" + std::to_string(i)));
    mark(files.back(), 3, {0, 1});
  }
  unpinned = stuck;  // a stripe of it has no server
  Repairer::Limits limits;
  limits.per_server = 1;
  limits.small = 0;
  start(limits);
  const auto begun = std::chrono::steady_clock::now();
  CHECK(soon([&] {
    return std::ranges::all_of(files,
                               [&](FileId f) { return state(f, 1, 0) == CopyState::kCurrent; });
  }));
  CHECK(state(stuck, 1, 0) == CopyState::kStale);
  CHECK(refused_pins < 100);  // it rests in between
  CHECK(std::chrono::steady_clock::now() - begun < 3s);
  unpinned = 0;
  CHECK(soon([&] { return state(stuck, 1, 0) == CopyState::kCurrent; }));
}

TEST_CASE_METHOD(RepairTest, "of small objects many are mended at once, and large ones beside") {
  std::vector<FileId> files;
  for (int i = 0; i < 90; ++i) {
    files.push_back(mirrored("f" + std::to_string(i)));
    if (i % 3 == 0) REQUIRE(names->grow_size({.id = files.back(), .end = 2 * kMi}));
    mark(files.back(), 3, {0, 1});
  }
  servers.finish_at_once = false;
  Repairer::Limits limits;
  limits.per_server = 2;
  limits.small_per_server = 30;
  start(limits);
  CHECK(soon([&] { return servers.begun_jobs() == 32; }));
  std::this_thread::sleep_for(50ms);
  CHECK(servers.begun_jobs() == 32);
  servers.finish_at_once = true;
  servers.end_all(State::kDone);
  for (const FileId f : files) {
    CHECK(soon([&] { return (*names->layout(f))->copies[1].state == CopyState::kCurrent; }));
  }
  check_clean();
}

TEST_CASE_METHOD(RepairTest, "many objects: some at once, several servers, none forgotten") {
  std::vector<FileId> files;
  for (int i = 0; i < 150; ++i) {
    files.push_back(mirrored("f" + std::to_string(i)));
    mark(files.back(), i % 2 == 0 ? 3 : 4, {0, 1});
  }
  Repairer::Limits limits;
  limits.per_server = 2;
  limits.small = 0;
  start(limits);
  for (const FileId f : files) {
    CHECK(soon([&] { return (*names->layout(f))->copies[1].state == CopyState::kCurrent; }));
  }
  const std::lock_guard lock(servers.mutex);
  CHECK(servers.most[3] <= 2);
  CHECK(servers.most[4] <= 2);
  check_clean();
}

TEST_CASE_METHOD(RepairTest, "what runs is cancelled when it stops, and begun again after") {
  const FileId f = mirrored("f");
  mark(f, 3, {0, 1});
  servers.finish_at_once = false;
  start();
  REQUIRE(soon([&] { return servers.begun_jobs() == 1; }));
  repairer->stop();
  CHECK(servers.cancelled == std::vector<std::uint64_t>{servers.jobs[0].second.job});
  CHECK(state(f, 1, 0) == CopyState::kResyncing);
  repairer.reset();
  open();  // another run
  servers.finish_at_once = true;
  start();
  CHECK(soon([&] { return state(f, 1, 0) == CopyState::kCurrent; }));
  CHECK(servers.jobs[1].second.job > servers.jobs[0].second.job);
  CHECK(servers.jobs[1].second.least_epoch == servers.jobs[0].second.least_epoch);
}

TEST_CASE_METHOD(RepairTest, "a file that goes while it is mended is no failure") {
  const FileId f = mirrored("f");
  mark(f, 3, {0, 1});
  std::atomic<std::size_t> removals = 1;  // that wait before the job has begun
  servers.begun = [&](const control::Resync&) {
    std::ignore = names->remove(kSuperuser, kRootFileId, "f");
    removals = names->pending_removals({}, 10)->size();
  };
  start();
  CHECK(soon([&] { return servers.begun_jobs() == 1; }));
  CHECK(soon([&] { return names->pending_removals({}, 10)->size() == 1; }));
  CHECK(removals == 0);
  std::this_thread::sleep_for(50ms);
  CHECK(servers.begun_jobs() == 1);
}

// A job that runs on could bring back from one copy what is cut off at the other.
TEST_CASE_METHOD(RepairTest, "an object is copied to a data server that is not in the map") {
  const FileId f = mirrored("f");
  const auto map = **names->layout(f);
  start({.copy_give_up = 200ms});
  const Repairer::CopyJob wanted{.file = f, .map = &map, .source = 2, .to = 6};
  REQUIRE(repairer->copy(wanted));
  {
    const std::lock_guard lock(servers.mutex);
    CHECK(servers.calls == std::vector<std::string>{"resync"});
    const auto& [ds_id, job] = servers.jobs.front();
    CHECK(ds_id == 6);
    CHECK(job.object == names->object_of(f, map));
    CHECK(job.source == 2);
    CHECK(job.epoch == map.object_epoch);
    CHECK(job.least_epoch == 0);
    CHECK(job.extents == std::vector<control::Extent>{{0, kMaxFileSize}});
    CHECK(job.server == 1);
  }
  CHECK(repairer->copy({.file = f, .map = &map, .source = 6, .to = 2}).error() == Errc::kInvalid);
  // One that goes on and on is cancelled in time.
  servers.finish_at_once = false;
  const auto begun = std::chrono::steady_clock::now();
  CHECK(repairer->copy(wanted).error() == Errc::kTimedOut);
  CHECK(std::chrono::steady_clock::now() - begun < 5s);
  const std::lock_guard lock(servers.mutex);
  CHECK(servers.cancelled.size() == 1);
}

TEST_CASE_METHOD(RepairTest, "copies are not compared while the file is cut") {
  const FileId f = mirrored("f");
  servers.finish_at_once = false;
  servers.uncancelled = 2;
  start();
  CHECK(repairer->compare(f).error() == Errc::kBusy);
  REQUIRE(soon([&] { return servers.begun_jobs() == 2; }));
  CHECK(kept_uncut == 1);
  cut_waits = true;
  REQUIRE(soon([&] { return kept_uncut == 0; }));
  CHECK(running_when_cut == 0);
  REQUIRE(soon([&] { return compared == 1; }));
  CHECK(repairer->compare(f).error() == Errc::kBusy);  // it is still being cut
  REQUIRE(soon([&] { return compared == 2; }));
  CHECK(servers.begun_jobs() == 2);
  cut_waits = false;
  servers.finish_at_once = true;
  CHECK(repairer->compare(f).error() == Errc::kBusy);
  REQUIRE(soon([&] { return compared == 3; }));
  CHECK(repairer->compare(f));
}

TEST_CASE_METHOD(RepairTest, "copies that stay current are compared with the leaders'") {
  const FileId f = mirrored("f");
  const FileId single = file(kRootFileId, "single");
  layout_of(single, {1, 2});
  servers.finish_at_once = false;
  start();
  CHECK(repairer->compare(f).error() == Errc::kBusy);
  REQUIRE(soon([&] { return servers.begun_jobs() == 2; }));
  CHECK(repairer->compare(f).error() == Errc::kBusy);
  CHECK(state(f, 1, 0) == CopyState::kCurrent);
  {
    const std::lock_guard lock(servers.mutex);
    CHECK(servers.calls == std::vector<std::string>{"resync", "resync"});
    CHECK(servers.jobs[0].first == 3);
    CHECK(servers.jobs[0].second.source == 1);
    CHECK(servers.jobs[1].first == 4);
    CHECK(servers.jobs[1].second.source == 2);
    CHECK(servers.jobs[0].second.least_epoch == 0);
    CHECK(servers.jobs[0].second.epoch == (*names->layout(f))->object_epoch);
    CHECK(servers.jobs[0].second.extents == std::vector<control::Extent>{{0, kMaxFileSize}});
  }
  servers.end_all(FakeCopyServers::State::kDone);
  REQUIRE(soon([&] { return compared == 1; }));
  CHECK(repairer->compare(f));
  CHECK(repairer->jobs().totals().compared == 2);
  CHECK(repairer->compare(f).error() == Errc::kBusy);  // again
  REQUIRE(soon([&] { return servers.begun_jobs() == 4; }));
  servers.end_all(FakeCopyServers::State::kFailed);
  REQUIRE(soon([&] { return compared == 2; }));
  CHECK(repairer->compare(f).error() == Errc::kBusy);  // failed, so once more
  servers.finish_at_once = true;
  servers.end_all(FakeCopyServers::State::kDone);
  CHECK(repairer->compare(single));
}

// Who has lost an object has nothing to go by.
TEST_CASE_METHOD(RepairTest, "copies are compared with one that has the object") {
  const FileId f = mirrored("f");
  servers.sizes = {{1, std::nullopt}, {3, 4096}};
  start();
  REQUIRE(soon([&] { return repairer->compare(f).has_value(); }));
  REQUIRE(soon([&] { return state(f, 0, 0) == CopyState::kCurrent; }));
  const std::lock_guard lock(servers.mutex);
  CHECK(servers.sizes[1] == 4096);
  CHECK(servers.sizes[3] == 4096);
  const auto mended =
      std::ranges::find(servers.jobs, 1U, [](const auto& job) { return job.first; });
  REQUIRE(mended != servers.jobs.end());
  CHECK(mended->second.source == 3);
  CHECK(mended->second.extents == std::vector<control::Extent>{{0, kMaxFileSize}});
}

TEST_CASE_METHOD(RepairTest, "an object that no copy has, or has bytes of, is equal everywhere") {
  const FileId f = mirrored("f");
  servers.sizes = {{1, std::nullopt}, {3, std::nullopt}};
  SECTION("it was never written") {}
  SECTION("it was cut to nothing where it was") { servers.sizes[3] = 0; }
  start();
  REQUIRE(soon([&] { return repairer->compare(f).has_value(); }));
  CHECK(names->stale_counts().empty());
  const std::lock_guard lock(servers.mutex);
  REQUIRE(servers.jobs.size() == 1);
  CHECK(servers.jobs[0].first == 4);
}

TEST_CASE_METHOD(RepairTest, "a comparison waits while who may have the object is away") {
  const FileId f = mirrored("f");
  servers.sizes = {{1, std::nullopt}, {3, 4096}};
  lose(3);
  start();
  CHECK(repairer->compare(f).error() == Errc::kBusy);
  REQUIRE(soon([&] { return compared == 1; }));
  CHECK(repairer->compare(f).error() == Errc::kBusy);
  REQUIRE(soon([&] { return compared == 2; }));
  CHECK(names->stale_counts().empty());
  come_back(3);
  REQUIRE(soon([&] { return repairer->compare(f).has_value(); }));
  REQUIRE(soon([&] { return state(f, 0, 0) == CopyState::kCurrent; }));
  const std::lock_guard lock(servers.mutex);
  CHECK(servers.sizes[1] == 4096);
}

TEST_CASE_METHOD(RepairTest, "of three copies the one that has the object is the others' source") {
  const FileId f = tripled("f");
  servers.sizes = {{1, std::nullopt}, {2, std::nullopt}, {3, 4096}};
  const bool asked = GENERATE(true, false);  // or one of them is mended, which needs a source, too
  if (!asked) mark(f, 2, {0, 1}, 1);
  start();
  if (asked) REQUIRE(soon([&] { return repairer->compare(f).has_value(); }));
  CHECK(soon([&] {
    return state(f, 0, 0) == CopyState::kCurrent && state(f, 1, 0) == CopyState::kCurrent;
  }));
  if (!asked) REQUIRE(soon([&] { return repairer->compare(f).has_value(); }));
  const std::lock_guard lock(servers.mutex);
  for (const std::uint32_t ds_id : {1, 2, 3}) CHECK(servers.sizes[ds_id] == 4096);
}

TEST_CASE("a job's rate and what remains") {
  std::chrono::steady_clock::time_point now{1s};
  RepairJobs jobs(std::uint64_t{3} << 32, [&] { return now; });
  const auto number = jobs.begin(RepairKind::kResync, 7, 2, 1);
  CHECK(number > std::uint64_t{3} << 32);
  now += 2s;
  CHECK(jobs.running()[0].remaining == 0ms);
  jobs.progress(number, {.total_bytes = 1000, .compared_bytes = 200, .copied_bytes = 50});
  const auto at = jobs.running()[0];
  CHECK(at.bytes_per_second == 100);
  CHECK(at.remaining == 8s);
  CHECK(at.age == 2s);
  jobs.progress(number, {.total_bytes = 1000, .compared_bytes = 300, .copied_bytes = 50});
  jobs.end(number, true);
  CHECK(jobs.running().empty());
  CHECK(jobs.totals().compared_bytes == 300);
  CHECK(jobs.totals().copied_bytes == 50);
  CHECK(jobs.totals().resynced == 1);
}
