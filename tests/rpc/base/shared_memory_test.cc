#include "rpc/base/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include "rpc/base/clock.h"

using weft::Arena;
using weft::Buffer;
using weft::BufferPool;
using weft::Errc;
using weft::OwnedFd;
using weft::SharedMemory;

namespace {

constexpr std::size_t kPage = SharedMemory::kPage;

OwnedFd again(int fd) { return OwnedFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

}  // namespace

TEST_CASE("shared memory is the same bytes for who adopts it") {
  auto mine = SharedMemory::create(10'000, "test").value();
  CHECK(mine->size() == 3 * kPage);
  auto theirs = SharedMemory::adopt(again(mine->fd()), mine->size()).value();
  std::memcpy(mine->base() + 5000, "weft", 4);
  CHECK(std::memcmp(theirs->base() + 5000, "weft", 4) == 0);
  CHECK(mine->contains({mine->base(), mine->size()}));
  CHECK_FALSE(mine->contains({mine->base() + 1, mine->size()}));
  CHECK_FALSE(mine->contains({theirs->base(), 1}));
  CHECK(::ftruncate(mine->fd(), kPage) != 0);  // the seal holds
}

TEST_CASE("memory that could shrink, or is of another size, is not adopted") {
  OwnedFd open_ended(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(open_ended.get(), 2 * kPage) == 0);
  CHECK(SharedMemory::adopt(again(open_ended.get()), 2 * kPage).error() == Errc::kProtocol);
  REQUIRE(::fcntl(open_ended.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  CHECK(SharedMemory::adopt(again(open_ended.get()), 3 * kPage).error() == Errc::kProtocol);
  CHECK(SharedMemory::adopt(again(open_ended.get()), 0).error() == Errc::kProtocol);
  CHECK(SharedMemory::adopt(again(open_ended.get()), 2 * kPage));
  OwnedFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  CHECK(SharedMemory::adopt(std::move(file), kPage).error() == Errc::kProtocol);
}

TEST_CASE("an arena's runs never overlap, and all of it comes back") {
  Arena arena(SharedMemory::create(64 * kPage, "test").value());
  weft::SeededRandom random(7);
  std::map<std::byte*, std::size_t> out;
  for (int step = 0; step < 4000; ++step) {
    if (random.below(2) == 0 && !out.empty()) {
      auto victim = std::next(out.begin(), static_cast<std::ptrdiff_t>(random.below(out.size())));
      arena.give(victim->first, victim->second);
      out.erase(victim);
      continue;
    }
    const std::size_t size = (1 + random.below(9)) * kPage;
    std::byte* run = arena.take(size);
    if (run == nullptr) continue;
    REQUIRE(arena.memory()->contains({run, size}));
    const auto next = out.upper_bound(run);
    if (next != out.end()) REQUIRE(run + size <= next->first);
    if (next != out.begin()) REQUIRE(std::prev(next)->first + std::prev(next)->second <= run);
    out.emplace(run, size);
  }
  for (const auto& [run, size] : out) arena.give(run, size);
  CHECK(arena.take(64 * kPage) == arena.memory()->base());
}

TEST_CASE("a pool's buffers live in its arena, and blocks of one size make way for another") {
  auto arena = std::make_shared<Arena>(SharedMemory::create(std::size_t{2} << 20, "test").value());
  {
    BufferPool pool(std::size_t{8} << 20, arena);
    {
      std::vector<Buffer> small;
      for (;;) {
        auto buffer = pool.allocate(4096);
        if (!buffer) break;
        CHECK(arena->memory()->contains(buffer->span()));
        small.push_back(std::move(*buffer));
      }
      CHECK(small.size() == 512);
      CHECK(pool.in_use_bytes() == std::size_t{2} << 20);
    }
    CHECK(pool.allocate(std::size_t{1} << 20));  // though all of it is idle blocks of a page
    CHECK(pool.in_use_bytes() == 0);
  }
  CHECK(arena->take(std::size_t{2} << 20) == arena->memory()->base());
}

TEST_CASE("the owner of foreign bytes is told once, when the last handle goes") {
  std::vector<std::byte> bytes(100);
  int told = 0;
  {
    Buffer all = Buffer::foreign(bytes, [&told] { ++told; });
    auto part = all.share(10, 20).value();
    all.reset();
    CHECK(told == 0);
    CHECK(part.data() == bytes.data() + 10);
  }
  CHECK(told == 1);
}

TEST_CASE("memory that was retired is not kept for the next, and other memory is") {
  auto arena = std::make_shared<Arena>(SharedMemory::create(64 * kPage, "test").value());
  BufferPool pool(64 * kPage, arena);
  auto kept = pool.allocate(4 * kPage).value();
  auto retired = pool.allocate(4 * kPage).value();
  std::byte* const first = kept.data();
  std::byte* const second = retired.data();
  std::memset(first, 'a', kept.size());
  std::memset(second, 'b', retired.size());
  // A part of it, and twice: two peers had it.
  arena->retire({second + kPage + 7, 100});
  arena->retire({second + kPage + 7, 10});
  CHECK(arena->is_retired(second, 4 * kPage));
  CHECK_FALSE(arena->is_retired(first, 4 * kPage));
  CHECK(second[0] == std::byte{'b'});
  retired.reset();
  kept.reset();
  CHECK_FALSE(arena->is_retired(second, 4 * kPage));
  auto again = pool.allocate(4 * kPage).value();
  CHECK(again.data() == first);
  CHECK(again.data()[0] == std::byte{'a'});
  auto fresh = pool.allocate(4 * kPage).value();
  CHECK(fresh.data() == second);
  CHECK(fresh.data()[0] == std::byte{0});
  CHECK(fresh.data()[kPage + 7] == std::byte{0});
}

TEST_CASE("pinned memory stays where it is, and what was retired of it is not used again") {
  auto arena = std::make_shared<Arena>(SharedMemory::create(8 * kPage, "test").value());
  arena->pin();
  std::byte* const first = arena->take(4 * kPage);
  std::byte* const second = arena->take(4 * kPage);
  REQUIRE(first != nullptr);
  REQUIRE(second != nullptr);
  // What a device has of it is what this process sees: the same pages.
  std::memset(first, 'a', 4 * kPage);
  arena->give(first, 4 * kPage);
  CHECK(arena->take(4 * kPage) == first);
  CHECK(first[0] == std::byte{'a'});
  arena->retire({second, 1});
  arena->give(second, 4 * kPage);
  CHECK(arena->take(kPage) == nullptr);
}

TEST_CASE("a pinned arena is whole huge pages, in a place for such") {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  for (const std::size_t bytes : {kPage, kHuge / 2, kHuge / 2 + kPage, 5 * kHuge + kPage}) {
    const auto arena = Arena::create(bytes, true).value();
    const auto& memory = *arena->memory();
    CHECK(memory.size() % kHuge == 0);
    CHECK(memory.size() >= 2 * bytes);
    CHECK(memory.size() < 2 * bytes + kHuge);
    CHECK(reinterpret_cast<std::uintptr_t>(memory.base()) % kHuge == 0);
    CHECK(arena->take(memory.size()) == memory.base());
    std::memset(memory.base(), 1, memory.size());
    const auto theirs = SharedMemory::adopt(again(memory.fd()), memory.size()).value();
    CHECK(std::memcmp(memory.base(), theirs->base(), memory.size()) == 0);
  }
  CHECK(Arena::create(kPage, false).value()->memory()->size() == 2 * kPage);
}

TEST_CASE("a pinned arena has huge pages where the kernel gives them") {
  std::string setting;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/shmem_enabled"), setting);
  const auto at = setting.find('[');
  const std::string chosen =
      at == std::string::npos ? "" : setting.substr(at + 1, setting.find(']') - at - 1);
  if (chosen.empty() || chosen == "never" || chosen == "deny") {
    SKIP("needs advise, within_size or always in transparent_hugepage/shmem_enabled");
  }
  const auto arena = Arena::create(std::size_t{16} << 20, true).value();
  std::memset(arena->memory()->base(), 1, arena->memory()->size());
  std::size_t huge = 0;
  std::ifstream maps("/proc/self/smaps");
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with("ShmemPmdMapped:")) huge += std::stoul(line.substr(15));
  }
  CHECK(huge > 0);
}
