// What is written through the metadata server, and never committed by who wrote it.
#include "ganesha-fsal/files/unstable_writes.h"

#include <catch2/generators/catch_generators.hpp>

#include "tests/ganesha-fsal/files/file_io_fixture.h"

namespace weft::mds {
namespace {

// Records that nobody needs go at once, and files are committed as soon as that is looked at.
struct Unstable : FileIoTest {
  Unstable() : FileIoTest({.journal_linger = 0ms, .commit_after = 0ms}) {}
  // What the metadata server does about once a second.
  void second() {
    server->data().commit_left();
    server->data().settle_due(true);
  }
  // Killed and started again, without what was not committed.
  void crash(std::uint32_t id) {
    const std::lock_guard lock(objects(id).mutex);
    objects(id).object.clear();
    ++objects(id).verifier;
  }
};

}  // namespace

TEST_CASE_METHOD(Unstable, "what nobody commits the metadata server does, and forgets it then") {
  const auto written = write(0, pattern(1000, 1));
  REQUIRE(written);
  CHECK(server->data().uncommitted(f));
  server->data().settle_due(true);
  server->data().settle_due(true);
  CHECK(server->journal().size() == 1);  // its copies may come to differ
  second();
  CHECK(objects(1).commits + objects(2).commits == 1);
  CHECK_FALSE(server->data().uncommitted(f));
  CHECK(server->proxy().verifier() == written->verifier);
  second();
  second();
  CHECK(server->journal().size() == 0);
  CHECK(objects(1).commits + objects(2).commits == 1);
}

TEST_CASE_METHOD(Unstable, "a leader that crashed before COMMIT: the copies are compared") {
  for (const auto& one : control) one->hold(f, 0);
  const auto written = write(0, pattern(1000, 1));
  REQUIRE(written);
  crash(leader());
  SECTION("nobody commits") { second(); }
  SECTION("its client commits, and is never heard of again") {
    REQUIRE(server->data().sync(f));
    second();
  }
  CHECK(server->journal().unsettled(f));
  server->repairs().repairer().start();
  await_settled();
  CHECK(control[0]->jobs() + control[1]->jobs() == 1);
  // And should the client commit after all, it writes again.
  CHECK(server->proxy().verifier() != written->verifier);
  REQUIRE(server->data().sync(f));
  CHECK(server->proxy().verifier() != written->verifier);
  CHECK_FALSE(server->journal().unsettled(f));
}

TEST_CASE_METHOD(Unstable, "a leader that is left out before COMMIT: the copies are compared") {
  for (const auto& one : control) one->hold(f, 0);
  const auto written = write(0, pattern(1000, 1));
  REQUIRE(written);
  const std::uint32_t lost = leader();
  lose(lost);
  second();
  CHECK(server->proxy().verifier() != written->verifier);
  CHECK(server->journal().unsettled(f));
  control[lost - 1]->connect(port());
  await_up(lost);
  server->repairs().repairer().start();
  await_settled();
  CHECK(control[0]->jobs() + control[1]->jobs() == 1);
}

TEST_CASE_METHOD(Unstable, "no COMMIT for what is stable, or gone") {
  SECTION("stable") {
    REQUIRE(write_at(f, 0, pattern(100, 1), ProxyIo::Stability::kFileSync));
    CHECK_FALSE(server->data().uncommitted(f));
  }
  SECTION("committed by its client") {
    REQUIRE(write(0, pattern(100, 1)));
    REQUIRE(server->data().sync(f));
    CHECK_FALSE(server->data().uncommitted(f));
  }
  SECTION("removed") {
    REQUIRE(write(0, pattern(100, 1)));
    REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
    second();
    CHECK_FALSE(server->data().uncommitted(f));
    CHECK(objects(1).commits + objects(2).commits == 0);
  }
}

TEST_CASE("unstable writes: a COMMIT speaks for what came before it") {
  UnstableWrites writes;
  const Clock::time_point start{};
  CHECK(writes.idle());
  CHECK_FALSE(writes.committed(0, 5));
  writes.written(1, 10, start, 10s);
  writes.written(1, 11, start + 1s, 10s);
  CHECK_FALSE(writes.committed(10, 1));
  CHECK_FALSE(writes.idle());
  CHECK(writes.committed(10, 2));
  CHECK_FALSE(writes.committed(11, 2));
  CHECK(writes.idle());
}

TEST_CASE("unstable writes: due a while after the last, and again a while later") {
  FileTable files{system_clock()};
  const Clock::time_point start{};
  const auto write = [&](FileId file, Clock::duration at) {
    FileTable::Changing(files, file)->unstable.written(1, files.number(), start + at, 10s);
  };
  const auto due = [&](Clock::duration at) { return take_uncommitted(files, start + at, 10s, 10); };
  write(7, 0s);
  write(8, 0s);
  write(8, 5s);
  CHECK(due(9s).empty());
  CHECK(due(10s) == std::vector<FileId>{7});
  CHECK(due(14s).empty());
  CHECK(due(15s) == std::vector<FileId>{8});
  CHECK(due(20s) == std::vector<FileId>{7});
  FileTable::Changing(files, 7)->unstable = {};
  CHECK(due(30s) == std::vector<FileId>{8});
  FileTable::Changing(files, 8)->unstable = {};
  CHECK(files.size() == 0);
}

}  // namespace weft::mds
