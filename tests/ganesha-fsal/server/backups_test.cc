// Checkpoints for backups: one at a time, none for ever, and each ends by its id.
#include "ganesha-fsal/server/backups.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/ganesha-fsal/server/server_fixture.h"

namespace weft::mds {
namespace {

struct BackupsTest {
  [[nodiscard]] bool there() const {
    return std::filesystem::exists(folder.path() + "/checkpoint");
  }
  [[nodiscard]] RocksOptions options() const {
    RocksOptions options = small_rocks(folder.path());
    options.floor_bytes = 8U << 20;
    options.free_bytes = [this] { return std::optional(free_bytes.load()); };
    return options;
  }
  // Whoever copies a checkpoint holds its lock.
  static int copy(const std::string& checkpoint) {
    const int copying = ::open(checkpoint.c_str(), O_RDONLY | O_DIRECTORY);
    REQUIRE(::flock(copying, LOCK_SH) == 0);
    return copying;
  }
  std::atomic<std::uint64_t> free_bytes{1U << 30};  // of the store's file system
  TempFolder folder;
  std::unique_ptr<KvStore> store = open_rocks_kv(options()).value();
  TestClock clock;
  Backups backups{*store, clock};
};

}  // namespace

TEST_CASE_METHOD(BackupsTest, "a checkpoint is there from begin to end") {
  const auto made = backups.begin();
  REQUIRE(made);
  CHECK(there());
  CHECK(backups.begin().error() == Errc::kBusy);
  REQUIRE(backups.end(made->id));
  CHECK_FALSE(there());
  CHECK(backups.end(made->id));  // its answer was lost, and it was asked again
  CHECK(backups.begin());
}

TEST_CASE_METHOD(BackupsTest, "a checkpoint that nobody copies goes") {
  const auto made = backups.begin();
  REQUIRE(made);
  backups.look();
  CHECK(there());
  const int copying = copy(made->folder);
  clock.later = 3600s;
  backups.look();
  CHECK(there());
  CHECK(backups.begin().error() == Errc::kBusy);
  ::close(copying);
  backups.look();
  CHECK_FALSE(there());
  CHECK(backups.end(made->id).error() == Errc::kStale);
}

TEST_CASE_METHOD(BackupsTest, "one that nobody copies is not in the way of the next") {
  REQUIRE(backups.begin());
  clock.later = 61s;
  REQUIRE(backups.begin());
  CHECK(there());
}

TEST_CASE_METHOD(BackupsTest, "who ends a checkpoint that has gone does not end another's") {
  const auto first = backups.begin();
  REQUIRE(first);
  clock.later = 61s;
  const auto second = backups.begin();
  REQUIRE(second);
  CHECK(first->folder == second->folder);
  CHECK(first->id != second->id);
  CHECK(backups.end(first->id).error() == Errc::kStale);
  CHECK(there());
  Backups next(*store, clock);  // as another run, which has made none
  CHECK(next.end(second->id).error() == Errc::kStale);
  CHECK(there());
  CHECK(backups.end(second->id));
  CHECK_FALSE(there());
}

TEST_CASE_METHOD(BackupsTest, "who says no id ends none that somebody copies") {
  const auto made = backups.begin();
  REQUIRE(made);
  const int copying = copy(made->folder);
  CHECK(backups.end("").error() == Errc::kBusy);
  CHECK(there());
  ::close(copying);
  CHECK(backups.end(""));
  CHECK_FALSE(there());
  CHECK(backups.end(""));
  // Whose it was does not believe his copy.
  CHECK(backups.end(made->id).error() == Errc::kStale);
}

TEST_CASE_METHOD(BackupsTest, "a checkpoint makes way when the store gets full, copied or not") {
  const auto made = backups.begin();
  REQUIRE(made);
  const int copying = copy(made->folder);
  backups.look();
  CHECK(there());
  free_bytes = 2U << 20;  // under the floor, with the reserve, too
  REQUIRE(await_that([&] { return !store->room().has_value(); }));
  backups.look();
  CHECK_FALSE(there());
  CHECK(backups.end(made->id).error() == Errc::kNoSpace);
  CHECK(backups.begin().error() == Errc::kNoSpace);
  ::close(copying);
  free_bytes = 1U << 30;
  REQUIRE(await_that([&] { return store->room().has_value(); }));
  const auto next = backups.begin();
  REQUIRE(next);
  CHECK(backups.end(next->id));
}

}  // namespace weft::mds
