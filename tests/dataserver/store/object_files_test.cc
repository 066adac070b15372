#include "dataserver/store/object_files.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "dataserver/store/store_directory.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

// A removal makes whoever is opening a file of the same shard open it once more, and then the file
// is there. Of some of these objects the shard is that of the one that is removed.
TEST_CASE("an object that was created is unsynced however often its opening begins anew") {
  const test::TempFolder folder;
  const auto store =
      std::move(StoreDirectory::open(folder.path() + "/store", true, system_random()).value());
  ObjectFiles files(store->objects(), 100'000, false, true);
  std::atomic<bool> over{false};
  std::thread remover([&] {
    while (!over) static_cast<void>(files.unlink({.fileid = 1, .generation = 1}));
  });
  unsigned synced = 0;
  for (std::uint64_t fileid = 2; fileid < 3000; ++fileid) {
    const auto file = files.open({.fileid = fileid, .generation = 1}, true);
    if (!file || !(*file)->entry_unsynced.load()) ++synced;
    static_cast<void>(files.unlink({.fileid = fileid, .generation = 1}));
  }
  over = true;
  remover.join();
  CHECK(synced == 0);
}

// Direct mode opens each file twice: the first opening made it, and the second found no descriptor.
TEST_CASE("an object that was created is unsynced when no descriptor was left for it") {
  const test::TempFolder folder;
  const auto store =
      std::move(StoreDirectory::open(folder.path() + "/store", true, system_random()).value());
  ObjectFiles files(store->objects(), 100, true, true);
  const layout::ObjectId object{.fileid = 1, .generation = 1};
  const int lowest = ::dup(store->root());
  ::close(lowest);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit one_more{.rlim_cur = static_cast<rlim_t>(lowest) + 1, .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &one_more) == 0);
  const auto refused = files.open(object, true);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(refused.error() == Errc::kBusy);
  const auto file = files.open(object, true);
  REQUIRE(file);
  CHECK((*file)->entry_unsynced.load());
}

// More are open than are to be, for they were in use: about 31 in each of 64 shards.
TEST_CASE("an open looks at few files for one that can be closed, however many there are") {
  constexpr std::uint64_t kMany = 2000;
  const test::TempFolder folder;
  const auto store =
      std::move(StoreDirectory::open(folder.path() + "/store", true, system_random()).value());
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit enough{.rlim_cur = std::max<rlim_t>(before.rlim_cur, kMany + 500),
                      .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &enough) == 0);
  const auto object = [](std::uint64_t fileid) {
    return layout::ObjectId{.fileid = fileid, .generation = 1};
  };
  {
    ObjectFiles made(store->objects(), 100'000, false, true);
    for (std::uint64_t id = 1; id <= kMany + 1; ++id) REQUIRE(made.open(object(id), true));
  }
  ObjectFiles files(store->objects(), 64, false, true);
  {
    std::vector<ObjectFiles::FilePtr> used;
    for (std::uint64_t id = 1; id <= kMany; ++id) {
      used.push_back(files.open(object(id), false).value());
    }
    CHECK(files.open_count() == kMany);
  }
  REQUIRE(files.open(object(kMany + 1), false));
  CHECK(files.open_count() == kMany + 1 - 16);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
}

}  // namespace
}  // namespace weft::ds
