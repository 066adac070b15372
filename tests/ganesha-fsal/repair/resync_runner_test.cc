// Jobs at data servers: how they begin, and when they are given up.
#include "ganesha-fsal/repair/resync_runner.h"

#include "tests/ganesha-fsal/repair/fake_copy_servers.h"

namespace weft::mds {
namespace {

struct RunnerTest {
  static constexpr std::uint32_t kDs = 2;
  static constexpr FileId kFile = 7;

  static control::Resync whole_object() {
    return {.object = {.fileid = kFile, .generation = 1}, .source = 1, .extents = {{0, 100}}};
  }
  using Ended = ResyncRunner::Ended;
  Result<control::ResyncProgress> run(FileId uncut = 0, Ended ended = Ended::kAsked) {
    control::Resync job = whole_object();
    return runner.run(RepairKind::kResync, kFile, kDs, job, uncut, ended);
  }

  FakeCopyServers servers;
  std::chrono::steady_clock::time_point at;  // each look at the clock takes 10 ms
  RepairJobs jobs{0, [this] { return at; }};
  Result<> kept;
  bool cut_waits = false;
  ResyncRunner runner{{.servers = servers,
                       .jobs = jobs,
                       .keep = [this](FileId) -> Result<std::shared_ptr<void>> {
                         if (!kept) return pass(kept);
                         return nullptr;
                       },
                       .cut_waits = [this](FileId) { return cut_waits; },
                       .now = [this] { return at += std::chrono::milliseconds(10); },
                       .limits = {.bytes_per_second = 5,
                                  .poll_first = std::chrono::milliseconds(1),
                                  .poll_most = std::chrono::milliseconds(1),
                                  .busy_most = std::chrono::milliseconds(8),
                                  .give_up = std::chrono::milliseconds(50)}}};
};

}  // namespace

TEST_CASE_METHOD(RunnerTest, "a job begins when a server that has enough to do has room") {
  servers.refuse = 2;
  const auto at_end = run();
  REQUIRE(at_end);
  CHECK(at_end->copied_bytes == 7);
  REQUIRE(servers.begun_jobs() == 1);
  CHECK(servers.jobs[0].first == kDs);
  CHECK(servers.jobs[0].second.bytes_per_second == 5);
  CHECK(jobs.totals().resynced == 1);
  CHECK(jobs.running().empty());
}

TEST_CASE_METHOD(RunnerTest,
                 "a job does not begin where there is no room, or of a file that went") {
  servers.refuse = 100;
  CHECK(run().error() == Errc::kBusy);
  kept = fail(Errc::kStale, "removed");
  CHECK(run().error() == Errc::kStale);
  CHECK(servers.begun_jobs() == 0);
  CHECK(jobs.totals().failed == 1);
  CHECK(jobs.running().empty());
}

TEST_CASE_METHOD(RunnerTest, "a job of which nothing is heard is given up") {
  servers.finish_at_once = false;
  servers.away.insert(kDs);
  CHECK(run().error() == Errc::kUnreachable);
  CHECK(servers.cancelled.size() == 1);
  CHECK(jobs.totals().failed == 1);
}

TEST_CASE_METHOD(RunnerTest, "one whose going on does harm is over when it is given up") {
  servers.finish_at_once = false;
  servers.uncancelled = 2;
  SECTION("though nothing was heard of it") {
    servers.away.insert(kDs);
    CHECK(run(0, Ended::kSurely).error() == Errc::kUnreachable);
    REQUIRE(servers.begun_jobs() == 1);
    CHECK(servers.cancelled == std::vector{servers.jobs[0].second.job});
  }
  SECTION("nor that it began") {
    servers.unanswered = 1;
    CHECK(run(0, Ended::kSurely).error() == Errc::kTimedOut);
    REQUIRE(servers.begun_jobs() == 1);
    CHECK(servers.cancelled == std::vector{servers.jobs[0].second.job});
  }
  CHECK(servers.uncancelled == 0);
  CHECK(jobs.running().empty());
}

TEST_CASE_METHOD(RunnerTest, "a job makes way for who cuts the file, once it has surely ended") {
  servers.finish_at_once = false;
  servers.uncancelled = 2;
  cut_waits = true;
  CHECK(run(kFile).error() == Errc::kBusy);
  CHECK(servers.cancelled.size() == 1);
  CHECK(servers.uncancelled == 0);
}

TEST_CASE_METHOD(RunnerTest, "a job that takes too long is ended") {
  servers.finish_at_once = false;
  control::Resync job = whole_object();
  const auto number = runner.begin(RepairKind::kCompare, kFile, kDs, job);
  REQUIRE(number);
  CHECK(runner.finish(kDs, *number, 0, at + std::chrono::seconds(1)).error() == Errc::kTimedOut);
  CHECK(servers.cancelled == std::vector<std::uint64_t>{*number});
}

TEST_CASE_METHOD(RunnerTest, "nothing is waited for after stop()") {
  servers.finish_at_once = false;
  runner.set_rate(9);
  runner.stop();
  CHECK(run().error() == Errc::kCancelled);
  CHECK(servers.jobs.at(0).second.bytes_per_second == 9);
  CHECK(servers.cancelled.size() == 1);
}

}  // namespace weft::mds
