// Truncates, holes and allocations that fail at the disk of one copy, or of all.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <future>

#include "tests/ganesha-fsal/files/file_io_fixture.h"

namespace weft::mds {
namespace {

using layout::CopyState;

struct Change {
  const char* name;
  Result<> (*make)(FileIoTest& on);
};

Result<> truncated(FileIoTest& on) {
  if (auto done = on.truncate(10, 5); !done) return fail(done.error().code, done.error().text);
  return {};
}
Result<> punched(FileIoTest& on) { return on.server->data().punch(on.f, 10, 500); }
Result<> allocated(FileIoTest& on) { return on.server->data().allocate(on.f, 10, 5000, on.policy); }

constexpr Change kTruncate{"truncate", truncated};
constexpr Change kPunch{"punch", punched};
constexpr Change kAllocate{"allocate", allocated};

bool was_told(FileIoTest& on, std::uint32_t id) {
  FakeServer& server = *on.control[id - 1];
  const std::lock_guard lock(server.mutex);
  return server.sizes.contains(on.f) || !server.ranges.empty();
}

}  // namespace

TEST_CASE_METHOD(FileIoTest, "a change that one copy's disk fails goes on without that copy") {
  const Change change = GENERATE(kTruncate, kPunch, kAllocate);
  const Errc fault = GENERATE(Errc::kNoSpace, Errc::kIo, Errc::kReadOnly);
  CAPTURE(change.name, fault);
  REQUIRE(write(0, pattern(1000, 1)));
  const std::uint32_t broken = GENERATE(1U, 2U);
  control[broken - 1]->fault = fault;
  REQUIRE(change.make(*this));
  CHECK(state_at(broken) == CopyState::kStale);
  CHECK(state_at(3 - broken) == CopyState::kCurrent);
  CHECK(was_told(*this, 3 - broken));
  // Nobody reads or writes there any more.
  CHECK(control[broken - 1]->epochs[f] == map().object_epoch);
  const auto stale = names->stale_objects(broken, std::nullopt, 10);
  REQUIRE(stale->size() == 1);
  CHECK(stale->at(0).dirty.front().offset <= 10);
  CHECK(stale->at(0).dirty.back().end >= 1000);
  CHECK_FALSE(server->journal().unsettled(f));
  CHECK(leader() == 3 - broken);
  check_clean();
}

// Nothing is behind the greatest size: no copy could lack a part of such a cut.
TEST_CASE_METHOD(FileIoTest, "a file of the greatest size takes it again while a copy is stale") {
  REQUIRE(write(0, pattern(1000, 1)));
  REQUIRE(truncate(kMaxFileSize, 5));
  control[1]->fault = Errc::kIo;
  REQUIRE(kPunch.make(*this));
  control[1]->fault = std::nullopt;
  REQUIRE(state_at(2) == CopyState::kStale);
  CHECK(truncate(kMaxFileSize, 5));
  CHECK(read(0, 1000).size() == 1000);
}

TEST_CASE_METHOD(FileIoTest, "a change that every copy's disk fails is the client's error") {
  const Change change = GENERATE(kTruncate, kPunch, kAllocate);
  CAPTURE(change.name);
  REQUIRE(write(0, pattern(1000, 1)));
  control[0]->fault = Errc::kNoSpace;
  control[1]->fault = Errc::kNoSpace;
  CHECK(change.make(*this).error() == Errc::kNoSpace);
  CHECK(state_at(1) == CopyState::kCurrent);
  CHECK(state_at(2) == CopyState::kCurrent);
  SECTION("as that of the last one is") {
    control[0]->fault = std::nullopt;
    REQUIRE(change.make(*this));
    CHECK(state_at(2) == CopyState::kStale);
    control[0]->fault = Errc::kIo;
    CHECK(change.make(*this).error() == Errc::kIo);
    CHECK(state_at(1) == CopyState::kCurrent);
  }
}

TEST_CASE_METHOD(FileIoTest, "a hole that no copy's disk made leaves the file to be compared") {
  REQUIRE(write(0, pattern(1000, 1)));
  CHECK_FALSE(server->journal().unsettled(f));
  control[0]->fault = Errc::kIo;
  control[1]->fault = Errc::kIo;
  CHECK_FALSE(server->data().punch(f, 300, 200));
  CHECK(server->journal().unsettled(f));
}

TEST_CASE_METHOD(FileIoTest, "a copy being repaired whose disk fails a change is stale again") {
  const Change change = GENERATE(kTruncate, kPunch, kAllocate);
  CAPTURE(change.name);
  REQUIRE(write(0, pattern(1000, 1)));
  REQUIRE(server->mirrors().exclude(f, 2, Mirrors::Cause::kDisk));
  const auto stale = names->stale_objects(2, std::nullopt, 10);
  REQUIRE(names->begin_resync(stale->at(0)));
  REQUIRE(state_at(2) == CopyState::kResyncing);
  control[1]->fault = Errc::kNoSpace;
  REQUIRE(change.make(*this));
  CHECK(state_at(1) == CopyState::kCurrent);
  CHECK(state_at(2) == CopyState::kStale);
}

TEST_CASE_METHOD(FileIoTest,
                 "a copy that is filled while the file is cut is not as before the cut") {
  REQUIRE(write(0, pattern(1000, 1)));
  REQUIRE(server->mirrors().exclude(f, 2, Mirrors::Cause::kDisk));
  {
    const std::lock_guard lock(control[0]->mutex);
    control[0]->hold_cuts = true;
  }
  auto cut = std::async(std::launch::async, [&] { return truncate(10, 5); });
  REQUIRE(await_that([&] { return control[0]->cuts_held() == 1; }));
  // It is compared with what the other copy has, which is not cut yet.
  const auto begun = names->begin_resync(names->stale_objects(2, std::nullopt, 10)->at(0));
  REQUIRE(begun);
  REQUIRE(*begun);
  const bool filled = GENERATE(false, true);
  if (filled) REQUIRE(*names->clear_stale((*begun)->object));
  {
    const std::lock_guard lock(control[0]->mutex);
    control[0]->hold_cuts = false;
  }
  control[0]->let_go(0);
  REQUIRE(cut.get());
  if (filled) {
    CHECK(state_at(2) == CopyState::kCurrent);
    CHECK(was_told(*this, 2));
  } else {
    CHECK_FALSE(*names->clear_stale((*begun)->object));
    CHECK(state_at(2) == CopyState::kStale);
  }
  check_clean();
}

TEST_CASE_METHOD(FileIoTest, "of a change that a server does not answer the client asks again") {
  const Change change = GENERATE(kTruncate, kPunch, kAllocate);
  CAPTURE(change.name);
  REQUIRE(write(0, pattern(1000, 1)));
  control[0]->fault = Errc::kBusy;
  CHECK(change.make(*this).error() == Errc::kBusy);
  CHECK(state_at(1) == CopyState::kCurrent);
}

}  // namespace weft::mds
