// Checkpoints for backups: one at a time, and none for ever.
#include "ganesha-fsal/server/backups.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/ganesha-fsal/server/server_fixture.h"

namespace weft::mds {
namespace {

struct BackupsTest {
  TempFolder folder;
  std::unique_ptr<KvStore> store = open_rocks_kv(small_rocks(folder.path())).value();
  TestClock clock;
  Backups backups{*store, clock};
  [[nodiscard]] bool there() const {
    return std::filesystem::exists(folder.path() + "/checkpoint");
  }
};

}  // namespace

TEST_CASE_METHOD(BackupsTest, "a checkpoint is there from begin to end") {
  REQUIRE(backups.begin());
  CHECK(there());
  CHECK(backups.begin().error() == Errc::kBusy);
  REQUIRE(backups.end());
  CHECK_FALSE(there());
  CHECK(backups.end());
  CHECK(backups.begin());
}

TEST_CASE_METHOD(BackupsTest, "a checkpoint that nobody copies goes") {
  const auto made = backups.begin();
  REQUIRE(made);
  backups.look();
  CHECK(there());
  const int copying = ::open(made->c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(::flock(copying, LOCK_SH) == 0);
  clock.later = 3600s;
  backups.look();
  CHECK(there());
  CHECK(backups.begin().error() == Errc::kBusy);
  ::close(copying);
  backups.look();
  CHECK_FALSE(there());
}

TEST_CASE_METHOD(BackupsTest, "one that nobody copies is not in the way of the next") {
  REQUIRE(backups.begin());
  clock.later = 61s;
  REQUIRE(backups.begin());
  CHECK(there());
}

}  // namespace weft::mds
