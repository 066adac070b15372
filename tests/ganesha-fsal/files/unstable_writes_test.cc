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
  CHECK(writes.last(7) == 0);
  CHECK_FALSE(writes.committed(7, 0, 5));
  writes.written(7, 1, start);
  const auto last = writes.last(7);
  writes.written(7, 1, start + 1s);
  CHECK_FALSE(writes.committed(7, last, 1));
  CHECK(writes.contains(7));
  CHECK(writes.committed(7, last, 2));
  CHECK_FALSE(writes.committed(7, writes.last(7), 2));
  CHECK_FALSE(writes.contains(7));
}

TEST_CASE("unstable writes: due a while after the last, and again a while later") {
  UnstableWrites writes;
  const Clock::time_point start{};
  writes.written(7, 1, start);
  writes.written(8, 1, start + 5s);
  CHECK(writes.take_due(start - 1s, start, 10).empty());
  CHECK(writes.take_due(start, start + 9s, 10) == std::vector<FileId>{7});
  CHECK(writes.take_due(start + 5s, start + 10s, 10) == std::vector<FileId>{8});
  CHECK(writes.take_due(start + 10s, start + 11s, 1) == std::vector<FileId>{7});
  writes.forget(7);
  CHECK(writes.take_due(start + 20s, start + 20s, 10) == std::vector<FileId>{8});
}

}  // namespace weft::mds
