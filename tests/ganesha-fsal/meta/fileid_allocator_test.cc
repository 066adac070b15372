#include "ganesha-fsal/meta/ops/fileid_allocator.h"

#include <future>
#include <set>
#include <thread>

#include "tests/ganesha-fsal/meta/held_sync.h"
#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

TEST_CASE_METHOD(NamespaceTest, "file numbers are handed out once, to many threads") {
  FileIdAllocator ids(store);
  std::mutex mutex;
  std::set<FileId> all;
  constexpr std::uint64_t kEach = FileIdAllocator::kRange / 2 + 100;  // across two ranges
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        std::set<FileId> own;
        for (std::uint64_t n = 0; n < kEach; ++n) own.insert(ids.next().value_or(0));
        const std::lock_guard lock(mutex);
        all.merge(own);
      });
    }
  }
  CHECK(all.size() == 4 * kEach);
  CHECK_FALSE(all.contains(0));
}

TEST_CASE_METHOD(NamespaceTest, "nobody waits for ever for a reservation that hangs") {
  HeldSync held(store);
  FileIdAllocator ids(held, std::chrono::milliseconds(1));
  held.hold();
  auto first = std::async(std::launch::async, [&] { return ids.next(); });
  REQUIRE(held.await_held());
  CHECK(ids.next().error() == Errc::kBusy);
  held.let_go();
  const auto got = first.get();
  REQUIRE(got);
  CHECK(*ids.next() == *got + 1);
}

TEST_CASE_METHOD(NamespaceTest, "a reservation that failed is tried again") {
  FileIdAllocator ids(store);
  store.fail_commits(Errc::kIo, 0, 1);
  CHECK(ids.next().error() == Errc::kIo);
  CHECK(ids.next());
}
