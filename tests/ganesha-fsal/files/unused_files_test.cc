// Files that nobody uses: who may begin to, and who may not.
#include <catch2/generators/catch_generators.hpp>

#include "tests/ganesha-fsal/files/file_io_fixture.h"

namespace weft::mds {
namespace {

struct UnusedFile : FileIoTest {
  UnusedFile() : FileIoTest(Waits{.journal_linger = 1ms, .commit_after = 1ms}) {
    REQUIRE(write(0, pattern(100, 1)));
  }
  [[nodiscard]] bool unused() { return server->data().hold_unused(f, map()).has_value(); }
  void await_unused() {
    REQUIRE(await_that([&] {
      server->data().commit_left();
      server->mirrors().tick();
      server->journal().sweep();
      return unused();
    }));
  }
};

}  // namespace

TEST_CASE_METHOD(UnusedFile,
                 "while a file is held unused it is read, and nobody gets to write it") {
  CHECK_FALSE(unused());  // it was written a moment ago
  await_unused();
  {
    const auto held = server->data().hold_unused(f, map());
    REQUIRE(held);
    CHECK_FALSE(unused());
    CHECK_FALSE(grant(f, 5, layout::Access::kReadWrite));
    CHECK_FALSE(grant(f, 5, layout::Access::kRead));
    CHECK(write_at(f, 0, pattern(100, 2)).error() == Errc::kBusy);
    CHECK_FALSE(server->data().punch(f, 0, 50));
    CHECK(read(0, 100) == pattern(100, 1));
  }
  REQUIRE(write(0, pattern(100, 3)));
  CHECK(read(0, 100) == pattern(100, 3));
}

TEST_CASE_METHOD(UnusedFile, "a file of which layouts are out is used") {
  await_unused();
  const auto access = GENERATE(layout::Access::kRead, layout::Access::kReadWrite);
  REQUIRE(grant(f, 5, access));
  CHECK_FALSE(unused());
  server->layouts().returned(f, 5, access);
  await_unused();
}

TEST_CASE_METHOD(UnusedFile, "a file that another is alone with is not waited for") {
  await_unused();
  const auto alone = be_alone(server->files(), f, Phase::Alone::kPunching, kDoNotWait);
  REQUIRE(alone);
  CHECK_FALSE(unused());
}

}  // namespace weft::mds
