// What comes of what flexfiles clients report.
#include "ganesha-fsal/files/flex_reports.h"

#include <catch2/catch_test_macros.hpp>

#include "rpc/base/log_limit.h"
#include "tests/rpc/log_lines.h"

using namespace weft;
using namespace weft::mds;
using layout::DeviceError;

namespace {

constexpr std::uint32_t kWrite = 38;
constexpr std::uint32_t kCommit = 5;
constexpr std::uint32_t kRead = 25;
constexpr std::uint32_t kNxio = 6;
constexpr std::uint32_t kNoSpc = 28;
constexpr FileId kFile = 70;
constexpr ClientId kWriter = 5;
constexpr ClientId kReader = 6;

layout::DeviceIdBytes device(std::uint32_t ds_id) { return layout::pack({10, 1, 2, ds_id}); }

struct Rig {
  Rig()
      : reports({.ds_of =
                     [](const layout::DeviceIdBytes& id) {
                       const auto unpacked = layout::unpack(id);
                       return unpacked ? static_cast<std::uint32_t>(unpacked->number) : 0;
                     },
                 .may_write = [](FileId, ClientId client) { return client == kWriter; },
                 .missed = [this](FileId file, std::uint32_t ds_id) -> Result<> {
                   CHECK(file == kFile);
                   missed.push_back(ds_id);
                   return outcome;
                 },
                 .look =
                     [this](FileId, std::uint32_t, std::uint64_t offset,
                            std::function<void(Result<>)> done) {
                       looked_at.push_back(offset);
                       looks.push_back(std::move(done));
                     },
                 .now = [this] { return now; }}) {}

  void report(ClientId client, std::uint32_t ds_id, std::uint32_t op, std::uint32_t status) {
    const DeviceError error{device(ds_id), status, op};
    reports.errors(kFile, client, 4096, {&error, 1});
  }

  std::vector<std::uint32_t> missed;
  Result<> outcome;  // of having missed it
  std::vector<std::uint64_t> looked_at;
  std::vector<std::function<void(Result<>)>> looks;
  mds::Clock::time_point now{};
  FlexReports reports;
};

layout::LayoutMap two_copies() {
  layout::LayoutMap map;
  map.copies = {{.ds_ids = {1}}, {.ds_ids = {2}}};
  return map;
}

}  // namespace

TEST_CASE("a copy that missed a write is marked before the report is answered") {
  Rig rig;
  rig.report(kWriter, 2, kWrite, kNxio);
  CHECK(rig.missed == std::vector<std::uint32_t>{2});
  rig.report(kWriter, 1, kCommit, 5);
  CHECK(rig.missed == std::vector<std::uint32_t>{2, 1});
  CHECK(rig.reports.io_of(kFile).at(2).errors == 1);
}

TEST_CASE("what a report says of a data server many times is recorded once") {
  Rig rig;
  layout::FlexReturn report;
  for (int i = 0; i < 128; ++i) {
    report.errors.push_back({.errors = {16, {device(2), kNxio, kWrite}}});
    report.errors.back().errors.back() = {device(3), kNxio, kCommit};
  }
  rig.reports.returned(kFile, kWriter, report);
  CHECK(rig.missed == std::vector<std::uint32_t>{2, 3});
  CHECK(rig.reports.io_of(kFile).at(2).errors == 128 * 15);
  rig.reports.errors(kFile, kWriter, 0, report.errors.front().errors);
  CHECK(rig.missed == std::vector<std::uint32_t>{2, 3, 2, 3});
}

TEST_CASE("reports fill no log") {
  rpc::test::LogLines log;
  Rig rig;
  for (int i = 0; i < 300; ++i) rig.report(kReader, 2, kRead, kNxio);
  CHECK(log.take().size() <= LogLimit::kAtOnce + 10);  // a few a second
  CHECK(rig.reports.io_of(kFile).at(2).errors == 300);
  rig.outcome = fail(Errc::kLayoutTryLater, "it has the only copy");
  for (int i = 0; i < 300; ++i) rig.report(kWriter, 2, kWrite, kNxio);
  CHECK(rig.missed.size() == 300);
  CHECK(log.take().size() <= LogLimit::kAtOnce + 20);
}

TEST_CASE("who holds no layout for writing cannot have a copy marked") {
  Rig rig;
  rig.report(kReader, 2, kWrite, kNxio);
  rig.report(kReader, 2, kWrite, kNoSpc);
  CHECK(rig.missed.empty());
  CHECK(rig.reports.full_for(kFile).empty());
}

TEST_CASE("refused handles and delays are no fault of the copy") {
  Rig rig;
  for (const std::uint32_t status : {0, 13, 70, 10001, 10008, 10013}) {
    rig.report(kWriter, 1, kWrite, status);
    rig.report(kWriter, 1, kRead, status);
  }
  const DeviceError foreign{{}, kNxio, kWrite};
  rig.reports.errors(kFile, kWriter, 0, {&foreign, 1});
  CHECK(rig.missed.empty());
  CHECK(rig.looks.empty());
}

TEST_CASE("after a failed read we read there ourselves, once at a time, and judge by that") {
  Rig rig;
  rig.report(kReader, 2, kRead, kNxio);
  rig.report(kReader, 2, kRead, kNxio);
  REQUIRE(rig.looks.size() == 1);
  CHECK(rig.looked_at.front() == 4096);
  rig.looks[0]({});
  rig.reports.mend();
  CHECK(rig.missed.empty());

  rig.report(kReader, 2, kRead, kNxio);
  REQUIRE(rig.looks.size() == 2);
  rig.looks[1](fail(Errc::kUnreachable));  // its heartbeats say whether it is there
  rig.reports.mend();
  CHECK(rig.missed.empty());

  rig.report(kReader, 2, kRead, 5);
  REQUIRE(rig.looks.size() == 3);
  rig.looks[2](fail(Errc::kIo));
  CHECK(rig.missed.empty());  // not on the thread that read
  rig.reports.mend();
  CHECK(rig.missed == std::vector<std::uint32_t>{2});
  rig.reports.mend();
  CHECK(rig.missed.size() == 1);
}

TEST_CASE("looks are bounded, and may end after the reports are gone") {
  std::vector<std::function<void(Result<>)>> looks;
  {
    Rig rig;
    for (std::uint32_t ds_id = 1; ds_id <= 500; ++ds_id) rig.report(kReader, ds_id, kRead, 5);
    CHECK(rig.looks.size() == FlexReports::kMaxLooks);
    looks = std::move(rig.looks);
  }
  for (const auto& done : looks) done(fail(Errc::kIo));
}

TEST_CASE("no room is when no current copy has any, for a while") {
  Rig rig;
  const layout::LayoutMap map = two_copies();
  rig.report(kWriter, 1, kWrite, kNoSpc);
  CHECK(rig.missed.empty());
  CHECK(rig.reports.full_for(kFile) == std::set<std::uint32_t>{1});
  CHECK_FALSE(rig.reports.no_room(kFile, map));
  rig.report(kWriter, 2, kWrite, kNoSpc);
  CHECK(rig.reports.no_room(kFile, map));
  CHECK_FALSE(rig.reports.no_room(kFile + 1, map));
  rig.now += FlexReports::kFullFor;
  CHECK_FALSE(rig.reports.no_room(kFile, map));

  rig.report(kWriter, 1, kWrite, kNoSpc);
  layout::LayoutMap degraded = map;
  degraded.copies[1].set_state(0, layout::CopyState::kStale);
  CHECK(rig.reports.no_room(kFile, degraded));
}

TEST_CASE("a LAYOUTRETURN's errors and statistics are taken in") {
  Rig rig;
  layout::FlexReturn report;
  report.errors.push_back({.offset = 0, .length = 1, .errors = {{device(2), 5, kWrite}}});
  layout::FlexStats stats;
  stats.device = device(1);
  stats.reads = 3;
  stats.read_bytes = 4096;
  stats.writes = 2;
  stats.write_bytes = 100;
  report.stats = {stats};
  rig.reports.returned(kFile, kWriter, report);
  CHECK(rig.missed == std::vector<std::uint32_t>{2});
  CHECK(rig.reports.io_of(kFile).at(1) == ClientIo{3, 4096, 2, 100, 0});
}

TEST_CASE("a client's statistics count up, and begin anew with another layout") {
  Rig rig;
  rig.reports.stats(kFile, kReader, device(1), {3, 300, 0, 0, 0});
  rig.reports.stats(kFile, kReader, device(1), {5, 500, 0, 0, 0});
  rig.reports.stats(kFile, kWriter, device(1), {0, 0, 1, 10, 0});
  CHECK(rig.reports.io_of(kFile).at(1) == ClientIo{5, 500, 1, 10, 0});
  rig.reports.stats(kFile, kReader, device(1), {1, 100, 0, 0, 0});
  CHECK(rig.reports.io_of(kFile).at(1) == ClientIo{6, 600, 1, 10, 0});
  for (ClientId client = 100; client < 1000; ++client) {
    rig.reports.stats(kFile, client, device(2), {1, 1, 0, 0, 0});
  }
  CHECK(rig.reports.io_of(kFile).at(2).reads == FlexReports::kMaxReporters - 2);
}

TEST_CASE("statistics of the files heard of last are kept") {
  Rig rig;
  for (FileId file = 1; file <= FlexReports::kMaxFiles; ++file) {
    rig.reports.stats(file, kReader, device(1), {1, 1, 0, 0, 0});
  }
  rig.reports.stats(1, kReader, device(1), {1, 1, 0, 0, 0});  // again
  rig.reports.stats(100'000, kReader, device(1), {1, 1, 0, 0, 0});
  CHECK(rig.reports.io_of(1).size() == 1);
  CHECK(rig.reports.io_of(2).empty());
  CHECK(rig.reports.io_of(3).size() == 1);
  CHECK(rig.reports.io_of(100'000).size() == 1);
}
