// What a data server says of its store, and when.
#include "dataserver/main/store_watch.h"

#include <sys/mount.h>

#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "dataserver/store/disk.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;

struct Rig {
  Rig() : folder(open_directory(temp.path()).value()), disk(folder.get()) {}
  test::TempFolder temp;
  OwnedFd folder;
  DiskWatch disk;
  ManualClock clock;
  Result<StoreStat> usage = StoreStat{100, 50, 3};
  StoreWatch watch{{.usage = [this] { return usage; }, .folder = disk, .clock = clock}};
};

// Once a probe that is due has ended.
template <class Condition>
bool soon(Condition condition) {
  for (int i = 0; i < 300 && !condition(); ++i) std::this_thread::sleep_for(10ms);
  return condition();
}

TEST_CASE("a store that does not answer is waited for, and then told of") {
  Rig rig;
  CHECK(rig.watch.look().usage.free_bytes == 50);
  rig.usage = fail(Errc::kUnreachable, "its target does not answer");
  rig.clock.advance(9s);
  CHECK(rig.watch.look().trouble.empty());
  CHECK(rig.watch.look().usage.free_bytes == 50);
  rig.clock.advance(1s);
  CHECK(rig.watch.look().trouble == "its target does not answer");
  CHECK(rig.watch.look().usage.capacity_bytes == 0);  // nothing is placed there
  rig.usage = StoreStat{100, 40, 3};
  CHECK(rig.watch.look().trouble.empty());
  CHECK(rig.watch.look().usage.free_bytes == 40);
  rig.usage = fail(Errc::kUnreachable, "gone again");
  CHECK(rig.watch.look().trouble.empty());
}

TEST_CASE("a doubt alone is nothing: a disk that takes a probe works") {
  Rig rig;
  rig.disk.doubt();
  CHECK(rig.disk.check());
  CHECK(soon([&] { return read_small_file(rig.folder.get(), "probe", 8192).has_value(); }));
  CHECK(rig.disk.check());
}

TEST_CASE("a fence that could not be noted is told at once, until a probe succeeds") {
  Rig rig;
  rig.disk.failed({Errc::kIo, "no fence can be noted"});
  CHECK(rig.watch.look().trouble == "no fence can be noted");
  CHECK(soon([&] { return rig.watch.look().trouble.empty(); }));
}

TEST_CASE("a file system that becomes read-only is told of at once, and when it ends") {
  const test::TempFolder mount;
  if (::mount("weft-test", mount.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    SKIP("mounting a tmpfs needs root");
  }
  {
    const OwnedFd folder = open_directory(mount.path()).value();
    DiskWatch disk(folder.get());
    CHECK(disk.check());
    REQUIRE(::mount(nullptr, mount.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0);
    CHECK(disk.check().error() == Errc::kReadOnly);
    REQUIRE(::mount(nullptr, mount.path().c_str(), nullptr, MS_REMOUNT, nullptr) == 0);
    CHECK(soon([&] { return disk.check().has_value(); }));
  }
  ::umount2(mount.path().c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace weft::ds
