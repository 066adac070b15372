#include "dataserver/nfs/patient_sizes.h"

#include <catch2/catch_test_macros.hpp>
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "dataserver/store/disk.h"
#include "tests/dataserver/io_thread.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

using test::IoThread;
using test::TempFolder;
using namespace std::chrono_literals;

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1};

// Keeps what it was asked until the test answers.
class HeldSizes final : public SizeAuthority {
 public:
  struct Told {
    std::uint64_t end;
    std::int64_t mtime_ns;
    Done<void> done;
  };
  void query(const layout::ObjectId& /*object*/, Done<std::uint64_t> done) override {
    queries.push_back(std::move(done));
  }
  void report(const layout::Handle& /*by*/, std::uint64_t end, std::int64_t mtime_ns,
              Done<void> done) override {
    reports.push_back({end, mtime_ns, std::move(done)});
  }
  void answer(Result<std::uint64_t> size) {
    auto done = std::move(queries.front());
    queries.pop_front();
    done(std::move(size));
  }
  std::deque<Done<std::uint64_t>> queries;
  std::deque<Told> reports;
};

struct Gate {
  TempFolder folder;
  OwnedFd directory = open_directory(folder.path()).value();
  std::unique_ptr<FenceTable> fences = std::move(FenceTable::open(directory.get()).value());
  HandleGate gate{std::make_shared<rpc::peer::Keyring>(rpc::peer::ClusterKey{{std::byte{1}}}), 1,
                  *fences};
};

// A right to write.
layout::Handle handle(std::uint64_t client, std::uint32_t epoch = 1) {
  return {.access = layout::Access::kReadWrite,
          .object = kObject,
          .client_id = client,
          .object_epoch = epoch,
          .client_epoch = 1};
}

struct Asked {
  Asked(PatientSizes& sizes, const layout::ObjectId& object) {
    sizes.query(object, [this](Result<std::uint64_t> got) { size = std::move(got); });
  }
  Asked(const Asked&) = delete;
  std::optional<Result<std::uint64_t>> size;
};

TEST_CASE("who asks while a query is under way is answered by the next one") {
  IoThread thread;
  HeldSizes source;
  Gate gate;
  ManualClock clock;
  PatientSizes sizes(source, gate.gate, {&thread.ring()}, clock, {});
  const Asked first(sizes, kObject);
  const Asked second(sizes, kObject);
  const Asked third(sizes, kObject);
  const Asked other(sizes, {.fileid = 2, .generation = 1});
  CHECK(source.queries.size() == 2);
  source.answer(10);
  thread.poll();
  CHECK(first.size->value() == 10);
  CHECK_FALSE(second.size.has_value());
  source.answer(99);  // the other object's
  source.answer(20);
  thread.poll();
  CHECK(second.size->value() == 20);
  CHECK(third.size->value() == 20);
  CHECK(other.size->value() == 99);
  CHECK(source.queries.empty());
}

TEST_CASE("an unreachable source is asked again, until the deadline") {
  IoThread thread;
  HeldSizes source;
  Gate gate;
  ManualClock clock;
  PatientSizes sizes(source, gate.gate, {&thread.ring()}, clock,
                     {.deadline = 1000ms, .retry_after = 1ms});
  const Asked early(sizes, kObject);
  source.answer(fail(Errc::kUnreachable));
  REQUIRE(thread.run_until([&] { return !source.queries.empty(); }));
  clock.advance(900ms);
  const Asked late(sizes, kObject);
  source.answer(fail(Errc::kTimedOut));
  REQUIRE(thread.run_until([&] { return !source.queries.empty(); }));
  CHECK_FALSE(early.size.has_value());
  clock.advance(200ms);
  source.answer(fail(Errc::kUnreachable));
  REQUIRE(thread.run_until([&] { return !source.queries.empty(); }));
  CHECK(early.size->error() == Errc::kFenced);
  CHECK_FALSE(late.size.has_value());
  source.answer(7);
  thread.poll();
  CHECK(late.size->value() == 7);
}

TEST_CASE("nobody waits for a source that there is no hope of reaching") {
  IoThread thread;
  HeldSizes source;
  Gate gate;
  ManualClock clock;
  bool hopeless = false;
  PatientSizes sizes(source, gate.gate, {&thread.ring()}, clock,
                     {.retry_after = 1ms, .hopeless = [&] { return hopeless; }});
  const Asked first(sizes, kObject);
  const Asked joins(sizes, kObject);
  source.answer(fail(Errc::kTimedOut));
  REQUIRE(thread.run_until([&] { return !source.queries.empty(); }));
  CHECK_FALSE(first.size.has_value());
  hopeless = true;
  source.answer(fail(Errc::kTimedOut));
  thread.poll();
  CHECK(first.size->error() == Errc::kFenced);
  CHECK(joins.size->error() == Errc::kFenced);
  const Asked late(sizes, kObject);
  CHECK(late.size->error() == Errc::kFenced);
  CHECK(source.queries.empty());

  hopeless = false;
  const Asked again(sizes, kObject);
  source.answer(3);
  thread.poll();
  CHECK(again.size->value() == 3);
}

TEST_CASE("a final error is passed on at once, and too many waiters are refused") {
  IoThread thread;
  HeldSizes source;
  Gate gate;
  ManualClock clock;
  PatientSizes sizes(source, gate.gate, {&thread.ring()}, clock, {.max_waiting = 2});
  const Asked first(sizes, kObject);
  const Asked second(sizes, kObject);
  const Asked third(sizes, kObject);
  CHECK(third.size->error() == Errc::kFenced);
  source.answer(fail(Errc::kStale));
  thread.poll();
  CHECK(first.size->error() == Errc::kStale);
  source.answer(5);
  thread.poll();
  CHECK(second.size->value() == 5);
}

TEST_CASE("reports that wait go as one, with the largest end") {
  IoThread thread;
  HeldSizes source;
  Gate gate;
  ManualClock clock;
  PatientSizes sizes(source, gate.gate, {&thread.ring()}, clock, {});
  int told = 0;
  const auto count = [&](Result<> result) { told += result ? 1 : 0; };
  sizes.report(handle(5), 100, 1, count);
  sizes.report(handle(5), 500, 2, count);
  sizes.report(handle(5), 300, 3, count);
  REQUIRE(source.reports.size() == 1);
  CHECK(source.reports.front().end == 100);
  source.reports.front().done({});
  source.reports.pop_front();
  thread.poll();
  CHECK(told == 1);
  REQUIRE(source.reports.size() == 1);
  CHECK(source.reports.front().end == 500);
  CHECK(source.reports.front().mtime_ns == 3);
  source.reports.front().done({});
  source.reports.pop_front();
  thread.poll();
  CHECK(told == 3);
}

// The metadata server has a file cut, and written by others, once its fence is answered.
TEST_CASE("no report is sent for who has been fenced while it waited") {
  IoThread thread;
  HeldSizes source;
  Gate gate;
  ManualClock clock;
  PatientSizes sizes(source, gate.gate, {&thread.ring()}, clock, {.retry_after = 1ms});
  std::map<std::uint64_t, Result<>> told;
  const auto report = [&](std::uint64_t client, std::uint64_t end) {
    sizes.report(handle(client), end, 1,
                 [&told, client](Result<> result) { told.emplace(client, std::move(result)); });
  };
  const auto answer = [&](Result<> result) {
    auto done = std::move(source.reports.front().done);
    source.reports.pop_front();
    done(std::move(result));
    thread.poll();
  };
  report(5, 100);
  report(6, 900);
  report(7, 300);
  SECTION("behind another's") {
    REQUIRE(gate.fences->raise(std::vector<Fence>{{std::uint64_t{6}, 2}}));
    answer({});
  }
  SECTION("to be sent again") {
    answer({});
    REQUIRE(source.reports.size() == 1);
    CHECK(source.reports.front().end == 900);
    answer(fail(Errc::kBusy));
    REQUIRE(gate.fences->raise(std::vector<Fence>{{std::uint64_t{6}, 2}}));
    REQUIRE(thread.run_until([&] { return !source.reports.empty(); }));
  }
  CHECK(told.at(5));
  REQUIRE(source.reports.size() == 1);
  CHECK(source.reports.front().end == 300);
  REQUIRE(told.contains(6));
  CHECK(told.at(6).error() == Errc::kFenced);
  CHECK_FALSE(told.contains(7));
  answer({});
  CHECK(told.at(7));
}

TEST_CASE("a round ends when all who wait have been fenced") {
  IoThread thread;
  HeldSizes source;
  Gate gate;
  ManualClock clock;
  PatientSizes sizes(source, gate.gate, {&thread.ring()}, clock, {.retry_after = 1ms});
  std::optional<Result<>> told;
  sizes.report(handle(5), 100, 1, [&](Result<> result) { told = std::move(result); });
  REQUIRE(gate.fences->raise(std::vector<Fence>{{kObject, 2}}));
  source.reports.front().done(fail(Errc::kBusy));
  source.reports.clear();
  REQUIRE(thread.run_until([&] { return told.has_value() || !source.reports.empty(); }));
  CHECK(source.reports.empty());
  REQUIRE(told);
  CHECK(told->error() == Errc::kFenced);
  sizes.report(handle(5, 2), 400, 1, [](const Result<>&) {});
  REQUIRE(source.reports.size() == 1);
  CHECK(source.reports.front().end == 400);
}

}  // namespace
}  // namespace weft::ds
