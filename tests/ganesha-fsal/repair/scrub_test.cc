// Scrub: what is compared, which copy is believed, what is told.
#include "tests/ganesha-fsal/repair/fake_copy_servers.h"

using namespace weft;
using namespace weft::mds;
using namespace std::chrono_literals;
using Is = ScrubOutcome::Is;

namespace {

// Data servers hold a value each; what has another value differs.
class ScrubTest : public RepairTest {
 public:
  ScrubTest() {
    servers.differing = [this](std::uint32_t ds_id, const control::Resync& job) -> std::uint64_t {
      const std::uint64_t bytes = held[ds_id] == held[job.source] ? 0 : 4096;
      if (!job.report_only) held[ds_id] = held[job.source];
      return bytes;
    };
    start();
  }
  Scrubber::Parts parts(Scrubber::Limits limits) {
    return {.names = *names,
            .scrub = [this](FileId f, const ScrubHow& how) { return repairer->scrub(f, how); },
            .data_servers = [this] { return data_servers; },
            .limits = limits,
            .clock = system_clock()};
  }
  // As soon as it has ended.
  void scrub_all(Scrubber& scrubber) {
    REQUIRE(scrubber.begin(std::nullopt, false));
    REQUIRE(soon([&] { return !scrubber.state().running; }));
  }
  std::map<std::uint32_t, int> held;  // 0 unless told
  std::vector<layout::GroupServer> data_servers;
};

}  // namespace

TEST_CASE_METHOD(ScrubTest, "copies that are equal are compared, and nothing is changed") {
  const FileId f = mirrored("f");
  const auto outcome = repairer->scrub(f, {});
  REQUIRE(outcome);
  CHECK(outcome->is == Is::kEqual);
  CHECK(outcome->compared_bytes == 200);  // two stripes
  const std::lock_guard lock(servers.mutex);
  CHECK(servers.calls == std::vector<std::string>{"resync", "resync"});
  CHECK(servers.jobs[0].second.report_only);
  CHECK(servers.jobs[0].second.least_epoch == 0);
  CHECK(pins == 0);
}

TEST_CASE_METHOD(ScrubTest, "of two that differ neither is taken: it is told") {
  const FileId f = mirrored("f");
  held[4] = 9;
  for (const bool only_tell : {true, false}) {
    const auto outcome = repairer->scrub(f, {.only_tell = only_tell});
    REQUIRE(outcome);
    CHECK(outcome->is == Is::kDiffered);
    REQUIRE(outcome->findings.size() == 1);
    CHECK(outcome->findings[0] == ScrubFinding{f, 4, 2, 4096, false, false, 1, {{0, 4096}}});
    CHECK(held == std::map<std::uint32_t, int>{{2, 0}, {4, 9}, {1, 0}, {3, 0}});
  }
}

TEST_CASE_METHOD(ScrubTest, "an administrator says which of two is right") {
  const FileId f = mirrored("f");
  held[4] = 9;
  held[1] = 5;
  SECTION("the leader's") {
    const auto outcome = repairer->scrub(f, {.from = 2});
    REQUIRE(outcome);
    CHECK(outcome->findings.size() == 2);
    CHECK(held[4] == 0);
  }
  SECTION("the other") {
    REQUIRE(repairer->scrub(f, {.from = 4}));
    CHECK(held[2] == 9);
    CHECK(held[4] == 9);
  }
  CHECK(held[1] == 5);  // of a stripe that he said nothing of
  CHECK(held[3] == 0);
}

TEST_CASE_METHOD(ScrubTest, "an administrator is believed against two others") {
  const FileId f = tripled("f");
  held[3] = 9;
  REQUIRE(repairer->scrub(f, {.from = 3}));
  CHECK(held == std::map<std::uint32_t, int>{{1, 9}, {2, 9}, {3, 9}});
}

TEST_CASE_METHOD(ScrubTest, "what the administrator's data server has nothing of is not changed") {
  const FileId f = file(kRootFileId, "f");
  REQUIRE(names->ensure_layout(f, [](const InodeAttributes&) -> Result<layout::LayoutMap> {
    layout::LayoutMap made;
    made.stripe_unit = 1 << 20;
    for (const std::uint32_t ds_id : {1U, 3U, 5U}) {
      made.copies.push_back({layout::CopyState::kCurrent, 0, {ds_id, ds_id + 1}, {}});
    }
    return made;
  }));
  held[3] = 5;
  held[6] = 9;
  const auto outcome = repairer->scrub(f, {.from = 1});
  REQUIRE(outcome);
  REQUIRE(outcome->findings.size() == 2);
  CHECK(outcome->findings[0].mended);
  CHECK_FALSE(outcome->findings[1].mended);  // two are equal, and it is told
  CHECK(outcome->findings[1].ds_id == 6);
  CHECK(held[3] == 0);
  CHECK(held[6] == 9);
}

TEST_CASE_METHOD(ScrubTest, "of three copies two that are equal are right") {
  const FileId f = tripled("f");
  SECTION("also against the leader's") {
    held[1] = 9;
    const auto outcome = repairer->scrub(f, {});
    CHECK(outcome->findings ==
          std::vector<ScrubFinding>{{f, 1, 2, 4096, true, true, 0, {{0, 4096}}}});
    CHECK(held[1] == 0);
  }
  SECTION("with the leader's") {
    held[3] = 9;
    const auto outcome = repairer->scrub(f, {});
    CHECK(outcome->findings ==
          std::vector<ScrubFinding>{{f, 3, 1, 4096, true, true, 0, {{0, 4096}}}});
    CHECK(held[3] == 0);
  }
  SECTION("and when all differ nothing says so") {
    held[1] = 5;
    held[3] = 9;
    const auto outcome = repairer->scrub(f, {});
    CHECK(outcome->findings ==
          std::vector<ScrubFinding>{{f, 2, 1, 4096, false, false, 0, {{0, 4096}}},
                                    {f, 3, 1, 4096, false, false, 0, {{0, 4096}}}});
    CHECK(held == std::map<std::uint32_t, int>{{1, 5}, {2, 0}, {3, 9}});
  }
}

TEST_CASE_METHOD(ScrubTest, "two copies that have no object are not right against one that has") {
  const FileId f = tripled("f");
  const std::uint32_t has = GENERATE(1U, 3U);  // the leader's, or another
  held[has] = 9;
  for (const std::uint32_t ds_id : {1U, 2U, 3U}) {
    if (ds_id != has) servers.sizes[ds_id] = std::nullopt;
  }
  const auto outcome = repairer->scrub(f, {});
  REQUIRE(outcome);
  REQUIRE(outcome->findings.size() == 1);
  CHECK(outcome->findings[0].ds_id == has);
  CHECK_FALSE(outcome->findings[0].majority);
  CHECK_FALSE(outcome->findings[0].mended);
  CHECK(held[has] == 9);
}

// Its writes would come to the copy that is mended before they come to the source.
TEST_CASE_METHOD(ScrubTest, "nobody writes while a copy is mended from one that does not lead") {
  const FileId f = tripled("f");
  held[1] = 9;
  ScrubHow how;
  SECTION("which two say") {}
  SECTION("which an administrator says") { how.from = 3; }
  std::vector<std::pair<std::uint32_t, int>> mended;  // from where, and who must not write
  std::vector<control::Extent> extents;
  servers.begun = [&](const control::Resync& job) {
    if (job.report_only) return;
    mended.emplace_back(job.source, kept_unwritten.load());
    extents = job.extents;
  };
  layout_out = true;
  CHECK(repairer->scrub(f, how).error() == Errc::kBusy);
  CHECK(mended.empty());
  CHECK(held[1] == 9);
  layout_out = false;
  REQUIRE(repairer->scrub(f, how));
  REQUIRE(mended.size() == 1);
  CHECK(mended.front() == std::pair{how.from == 3 ? 3U : 2U, 1});
  CHECK(extents == std::vector<control::Extent>{{0, 1U << 20}});  // nor longer than need be
  CHECK(held[1] == 0);
  CHECK(kept_unwritten == 0);
}

TEST_CASE_METHOD(ScrubTest, "of much that differs nobody waits for more than a few pieces") {
  constexpr std::uint64_t kMi = 1U << 20;
  constexpr std::size_t kPlaces = control::kMaxDiffering + 1;
  const FileId f = tripled("f");
  std::set<std::uint64_t> differ;  // where 4 KiB do
  for (std::uint64_t place = 0; place < kPlaces; ++place) differ.insert(place * 2 * kMi);
  const auto of = [&differ](const control::Resync& job) {
    std::vector<std::uint64_t> found;
    for (const control::Extent& extent : job.extents) {
      std::ranges::copy_if(differ, std::back_inserter(found), [&](std::uint64_t at) {
        return at >= extent.offset && at - extent.offset < extent.length;
      });
    }
    return found;
  };
  servers.differing = [&](std::uint32_t ds_id, const control::Resync& job) -> std::uint64_t {
    return ds_id == 1 || job.source == 1 ? of(job).size() * 4096 : 0;
  };
  servers.differing_at = [&](const control::Resync& job) {
    std::vector<control::Extent> extents;
    for (const std::uint64_t at : of(job)) {
      if (extents.size() < control::kMaxDiffering) extents.push_back({at, 4096});
    }
    return extents;
  };
  std::size_t longest = 0;
  servers.begun = [&](const control::Resync& job) {
    if (job.report_only) {
      CHECK(kept_unwritten == 0);
      return;
    }
    CHECK(kept_unwritten == 1);
    for (const std::uint64_t at : of(job)) differ.erase(at);
    std::uint64_t bytes = 0;
    for (const control::Extent& extent : job.extents) bytes += extent.length;
    longest = std::max(longest, static_cast<std::size_t>(bytes));
  };
  const auto outcome = repairer->scrub(f, {});
  REQUIRE(outcome);
  REQUIRE(outcome->findings.size() == 1);
  CHECK(outcome->findings[0].mended);
  CHECK(differ.empty());
  CHECK(longest == control::kMaxDiffering * kMi);
}

TEST_CASE_METHOD(ScrubTest, "what somebody writes is left out, whenever that begins") {
  const FileId f = mirrored("f");
  held[3] = 9;
  SECTION("before") {
    written = true;
    CHECK(repairer->scrub(f, {})->is == Is::kWritten);
    CHECK(servers.begun_jobs() == 0);
  }
  SECTION("a layout, meanwhile") {
    servers.begun = [&](const control::Resync&) { written = true; };
    CHECK(repairer->scrub(f, {})->is == Is::kWritten);
  }
  SECTION("a write that ended meanwhile") {
    servers.begun = [&](const control::Resync&) { std::ignore = names->grow_size({f, 77, {}}); };
    CHECK(repairer->scrub(f, {})->is == Is::kWritten);
  }
  CHECK(held[3] == 9);  // untouched
}

TEST_CASE_METHOD(ScrubTest, "a difference that is gone at the second look is none") {
  const FileId f = mirrored("f");
  held[3] = 9;
  servers.begun = [&](const control::Resync&) { held[3] = 0; };
  CHECK(repairer->scrub(f, {})->is == Is::kEqual);
}

TEST_CASE_METHOD(ScrubTest, "stale copies are not compared, single ones neither") {
  const FileId single = file(kRootFileId, "single");
  layout_of(single, {1, 2});
  CHECK(repairer->scrub(single, {})->is == Is::kSingle);
  CHECK(repairer->scrub(999, {})->is == Is::kSingle);
  const FileId f = mirrored("f");
  {
    const std::lock_guard lock(mutex);
    here = {1, 2};
  }
  mark(f, 3, {0, 1});
  CHECK(repairer->scrub(f, {})->is == Is::kEqual);
  CHECK(servers.begun_jobs() == 1);  // of the other stripe
}

TEST_CASE_METHOD(ScrubTest, "a scrub of all files ends, counts, and can be ended before") {
  std::vector<FileId> files;
  for (int i = 0; i < 150; ++i) files.push_back(mirrored("f" + std::to_string(i)));
  layout_of(file(kRootFileId, "single"), {1, 2});
  Scrubber scrubber(parts({.workers = 2, .page = 16}));
  scrubber.start();
  REQUIRE(scrubber.begin(std::nullopt, false));
  CHECK(scrubber.begin(std::nullopt, false).error() == Errc::kBusy);
  CHECK(soon([&] { return !scrubber.state().running; }));
  auto state = scrubber.state();
  CHECK(state.files == 150);
  CHECK(state.rounds == 1);
  CHECK(state.differing == 0);
  CHECK(state.failed == 0);

  REQUIRE(scrubber.begin(files[7], true));
  CHECK(soon([&] { return !scrubber.state().running; }));
  CHECK(scrubber.state().files == 1);

  servers.finish_at_once = false;
  const std::size_t before = servers.begun_jobs();
  REQUIRE(scrubber.begin(std::nullopt, false));
  CHECK(soon([&] { return servers.begun_jobs() > before; }));
  CHECK(scrubber.end());
  servers.finish_at_once = true;
  CHECK(soon([&] {
    servers.end_all(FakeCopyServers::State::kDone);
    return !scrubber.state().running;
  }));
  CHECK(scrubber.state().files <= 2);
  CHECK_FALSE(scrubber.end());
}

TEST_CASE_METHOD(ScrubTest, "a scrub begins by itself") {
  mirrored("f");
  Scrubber scrubber(parts({.every = 1ms}));
  scrubber.start();
  CHECK(soon([&] { return scrubber.state().rounds > 0; }));
}

TEST_CASE_METHOD(ScrubTest, "findings stay until they are resolved, within bounds") {
  std::vector<FileId> files;
  for (int i = 0; i < 5; ++i) files.push_back(mirrored("f" + std::to_string(i)));
  held[3] = 9;
  Scrubber scrubber(parts({.workers = 1, .most_findings = 3}));
  scrubber.start();
  for (int round = 1; round <= 2; ++round) {  // the same are not counted twice
    REQUIRE(scrubber.begin(std::nullopt, false));
    CHECK(soon([&] { return !scrubber.state().running; }));
    const auto state = scrubber.state();
    CHECK(state.differing == 5);
    CHECK(state.mended == 0);
    CHECK(state.findings.size() == 3);
    CHECK(state.unlisted == 2);
  }
  CHECK(scrubber.open_findings(files[0]).size() == 1);
  CHECK(held[3] == 9);
  REQUIRE(scrubber.resolve(files[0], 1));  // the servers hold one value for all files
  CHECK(soon([&] { return !scrubber.state().resolved.empty(); }));
  CHECK(held[3] == 0);
  const auto state = scrubber.state();
  CHECK(state.resolved.front().find("1 copies made equal") != std::string::npos);
  CHECK(std::ranges::count(state.findings, true, &ScrubFinding::mended) == 1);
  CHECK(scrubber.open_findings(files[0]).empty());
  REQUIRE(scrubber.begin(std::nullopt, false));
  CHECK(soon([&] { return !scrubber.state().running; }));
  CHECK(scrubber.state().unlisted == 0);
  CHECK(scrubber.state().findings.size() == 1);  // what was mended

  written = true;
  REQUIRE(scrubber.resolve(files[0], 1));
  CHECK(soon([&] { return scrubber.state().resolved.size() == 2; }));
  CHECK(scrubber.state().resolved.back().find("nothing was changed") != std::string::npos);
}

TEST_CASE_METHOD(ScrubTest, "files whose copies share a failure domain are counted") {
  data_servers = {{1, "r1"}, {2, "r1"}, {3, "r2"}, {4, "r2"}, {5, "r1"}, {6, "r2"}};
  mirrored("apart");
  layout_of(file(kRootFileId, "single"), {1, 2});
  std::vector<FileId> together;
  for (int i = 0; i < 3; ++i) {
    together.push_back(file(kRootFileId, "t" + std::to_string(i)));
    layout_of(together.back(), {1, 3}, {4, 6});  // of the second stripe
  }
  Scrubber scrubber(parts({.workers = 1, .most_crowded = 2}));
  scrubber.start();
  CHECK(scrubber.crowded() == CrowdedFiles{});
  for (int round = 0; round < 2; ++round) {
    scrub_all(scrubber);
    CHECK(scrubber.crowded() == CrowdedFiles{3, {together[0], together[1]}});
  }
  // A scrub of one file says nothing of the others.
  REQUIRE(scrubber.begin(together[0], false));
  CHECK(soon([&] { return !scrubber.state().running; }));
  CHECK(scrubber.crowded().count == 3);
  SECTION("until they are moved, which is seen at once") {
    data_servers[5].domain = "r1";
    CHECK(scrubber.crowded().count == 1);  // what has no name is known after the next scrub
    scrub_all(scrubber);
    CHECK(scrubber.crowded() == CrowdedFiles{});
  }
  SECTION("or there are too few domains") {
    for (layout::GroupServer& server : data_servers) server.domain = "r1";
    scrub_all(scrubber);
    CHECK(scrubber.crowded() == CrowdedFiles{});
  }
}

TEST_CASE_METHOD(ScrubTest, "what differed of a file that is removed is no finding any more") {
  std::vector<FileId> files;
  for (int i = 0; i < 3; ++i) files.push_back(mirrored("f" + std::to_string(i)));
  held[3] = 9;
  Scrubber scrubber(parts({.workers = 1, .most_findings = 2}));
  scrubber.start();
  scrub_all(scrubber);
  REQUIRE(scrubber.state().findings.size() == 2);
  CHECK(scrubber.state().unlisted == 1);
  REQUIRE(names->remove(kSuperuser, kRootFileId, "f0"));
  REQUIRE(scrubber.state().findings.size() == 1);
  CHECK(scrubber.state().findings[0].file == files[1]);
  SECTION("nor when nobody asks: it leaves room for others") {
    REQUIRE(names->remove(kSuperuser, kRootFileId, "f1"));
    scrub_all(scrubber);
    REQUIRE(scrubber.state().findings.size() == 1);
    CHECK(scrubber.state().findings[0].file == files[2]);
    CHECK(scrubber.state().unlisted == 0);
  }
  SECTION("and what is not known is kept") {
    scrub_all(scrubber);
    CHECK(scrubber.state().findings.size() == 2);
    CHECK(scrubber.state().unlisted == 0);
  }
}
