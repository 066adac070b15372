#include "dataserver/nfs/patient_sizes.h"

#include <catch2/catch_test_macros.hpp>
#include <deque>
#include <optional>

#include "tests/dataserver/io_thread.h"

namespace weft::ds {
namespace {

using test::IoThread;
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
  void report(const layout::ObjectId& /*object*/, std::uint64_t end, std::int64_t mtime_ns,
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
  ManualClock clock;
  PatientSizes sizes(source, {&thread.ring()}, clock, {});
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
  ManualClock clock;
  PatientSizes sizes(source, {&thread.ring()}, clock, {.deadline = 1000ms, .retry_after = 1ms});
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
  ManualClock clock;
  bool hopeless = false;
  PatientSizes sizes(source, {&thread.ring()}, clock,
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
  ManualClock clock;
  PatientSizes sizes(source, {&thread.ring()}, clock, {.max_waiting = 2});
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
  ManualClock clock;
  PatientSizes sizes(source, {&thread.ring()}, clock, {});
  int told = 0;
  const auto count = [&](Result<> result) { told += result ? 1 : 0; };
  sizes.report(kObject, 100, 1, count);
  sizes.report(kObject, 500, 2, count);
  sizes.report(kObject, 300, 3, count);
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

}  // namespace
}  // namespace weft::ds
