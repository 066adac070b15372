#include "dataserver/store/object_files.h"

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

}  // namespace
}  // namespace weft::ds
