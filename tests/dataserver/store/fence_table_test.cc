#include "dataserver/store/fence_table.h"

#include <fcntl.h>
#include <rapidcheck.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <filesystem>
#include <map>

#include "dataserver/store/disk.h"
#include "rpc/xdr/xdr.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

using test::TempFolder;

constexpr layout::ObjectId kObject{.fileid = 5, .generation = 1, .fsid = 2};

layout::ObjectId object_of(std::uint64_t fileid) {
  return {.fileid = fileid, .generation = 1, .fsid = 1};
}

layout::Handle handle_at(std::uint32_t object_epoch, std::uint32_t client_epoch) {
  return {.access = layout::Access::kReadWrite,
          .object = kObject,
          .client_id = 77,
          .object_epoch = object_epoch,
          .client_epoch = client_epoch};
}

struct Log {
  std::vector<Fence> fences;
  std::vector<KeyMark> marks;  // of each
  std::uint64_t good_bytes = 0;
};

Result<Log> decode(std::span<const std::byte> bytes, std::size_t piece = 1000) {
  Log log;
  FenceLogDecoder decoder([&](std::span<const Fence> fences, const KeyMark& mark) {
    log.fences.insert(log.fences.end(), fences.begin(), fences.end());
    log.marks.insert(log.marks.end(), fences.size(), mark);
  });
  while (!bytes.empty()) {
    const auto next = bytes.first(std::min(piece, bytes.size()));
    if (auto fed = decoder.feed(next); !fed) return pass(fed);
    bytes = bytes.subspan(next.size());
  }
  auto good = decoder.finish();
  if (!good) return pass(good);
  log.good_bytes = *good;
  return log;
}

// Until the log in use is one that was written anew, and shorter than `bytes`. What is fenced
// meanwhile begins that, should the last one have ended too early.
void wait_shorter(FenceTable& table, Fence fence, std::uint64_t bytes) {
  for (int i = 0; i < 2000 && table.log_bytes() >= bytes; ++i) {
    REQUIRE(table.raise({&fence, 1}));
    ++fence.epoch;
    ::usleep(5000);
  }
  REQUIRE(table.log_bytes() < bytes);
}

std::uint64_t allocated(int directory) {
  struct stat found{};
  REQUIRE(::fstatat(directory, "fences", &found, 0) == 0);
  return static_cast<std::uint64_t>(found.st_blocks) * 512;
}

TEST_CASE("fences hold for what is below them, and over a reopening") {
  const TempFolder folder;
  const auto directory = open_directory(folder.path()).value();
  {
    auto table = FenceTable::open(directory.get()).value();
    CHECK(table->admits(handle_at(0, 0)));
    REQUIRE(table->raise(std::vector<Fence>{{kObject, 3}, {std::uint64_t{77}, 2}}));
    REQUIRE(table->raise(std::vector<Fence>{{kObject, 1}}));  // never down
  }
  const auto table = FenceTable::open(directory.get()).value();
  CHECK_FALSE(table->admits(handle_at(2, 2)));
  CHECK_FALSE(table->admits(handle_at(3, 1)));
  CHECK(table->admits(handle_at(3, 2)));
  auto control = handle_at(3, 0);
  control.access = layout::Access::kControl;
  CHECK_FALSE(table->admits(control));
  control.client_id = 0;
  CHECK(table->admits(control));
  control.object_epoch = 2;
  CHECK_FALSE(table->admits(control));
  auto other = handle_at(0, 2);
  other.object.generation = 2;
  CHECK(table->admits(other));
}

TEST_CASE("a torn last frame is dropped, damage before it is refused") {
  const std::vector<Fence> first{{kObject, 1}};
  const std::vector<Fence> second{{std::uint64_t{9}, 4}, {kObject, 2}};
  auto bytes = fence_log_header();
  for (const auto& fences : {first, second}) {
    const auto frame = encode_fences(fences, {});
    bytes.insert(bytes.end(), frame.begin(), frame.end());
  }
  const std::size_t first_end = fence_log_header().size() + encode_fences(first, {}).size();
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
    CHECK(decode(bytes, piece)->fences.size() == 3);
    for (std::size_t size = first_end; size < bytes.size(); ++size) {
      const auto log = decode(std::span(bytes).first(size), piece);
      REQUIRE(log);
      CHECK(log->fences == first);
      CHECK(log->good_bytes == first_end);
    }
    for (std::size_t at = 0; at < first_end; ++at) {
      auto damaged = bytes;
      damaged[at] ^= std::byte{0x10};
      CHECK(decode(damaged, piece).error() == Errc::kCorrupt);
    }
  }
}

TEST_CASE("the log stays in proportion to what it says") {
  const TempFolder folder;
  const auto directory = open_directory(folder.path()).value();
  auto table = FenceTable::open(directory.get()).value();
  for (std::uint32_t epoch = 1; epoch < 200; ++epoch) {
    std::vector<Fence> fences;
    for (std::uint64_t client = 0; client < 100; ++client) fences.push_back({client, epoch});
    REQUIRE(table->raise(fences));
  }
  wait_shorter(*table, {std::uint64_t{0}, 200}, 6000 * 24);
  CHECK(std::filesystem::file_size(folder.path() + "/fences") < 6000 * 24);
  // What was raised meanwhile may have begun another.
  const std::string written_anew = folder.path() + "/fences.compact";
  for (int i = 0; i < 2000 && std::filesystem::exists(written_anew); ++i) ::usleep(5000);
  CHECK_FALSE(std::filesystem::exists(written_anew));
  table.reset();
  table = FenceTable::open(directory.get()).value();
  CHECK(table->size() == 100);
  CHECK_FALSE(
      table->admits({.access = layout::Access::kRead, .client_id = 50, .client_epoch = 198}));
}

TEST_CASE("what is raised while the log is written anew is in the new one") {
  const TempFolder folder;
  const auto directory = open_directory(folder.path()).value();
  std::map<std::uint64_t, std::uint32_t> model;
  std::size_t during = 0;
  {
    auto table = FenceTable::open(directory.get()).value();
    std::uint64_t next = 16;
    for (int round = 0; round < 400; ++round) {
      std::vector<Fence> fences;
      for (int i = 0; i < 100; ++i) {
        const std::uint64_t fileid = 16 + (next++ * 7919) % 3000;
        fences.push_back({object_of(fileid), ++model[fileid]});
      }
      during += std::filesystem::exists(folder.path() + "/fences.compact") ? 1 : 0;
      REQUIRE(table->raise(fences));
    }
  }  // maybe in the middle of one
  CHECK(during > 0);
  const auto table = FenceTable::open(directory.get()).value();
  CHECK(table->size() == model.size());
  for (const auto& [fileid, epoch] : model) {
    layout::Handle handle{.object = object_of(fileid), .object_epoch = epoch};
    REQUIRE(table->admits(handle));
    --handle.object_epoch;
    REQUIRE_FALSE(table->admits(handle));
  }
}

TEST_CASE("fences of many frames are read back wherever the last one was torn") {
  const TempFolder folder;
  const auto directory = open_directory(folder.path()).value();
  std::vector<Fence> fences;
  for (std::uint64_t i = 0; i < 3000; ++i) fences.push_back({object_of(16 + i), 2});
  REQUIRE(FenceTable::open(directory.get()).value()->raise(fences));
  const std::string file = folder.path() + "/fences";
  for (auto size = std::filesystem::file_size(file); size > 16;
       size -= std::min<std::uint64_t>(size - 16, 4999)) {
    std::filesystem::resize_file(file, size);
    const auto table = FenceTable::open(directory.get()).value();
    CHECK(table->size() <= 3000);
    CHECK(table->size() + 1024 > (size - 16) / 24 - 4);
    CHECK(table->log_bytes() <= size);
    REQUIRE(table->raise(std::vector<Fence>{{kObject, 1}}));  // behind a shorter good part
    CHECK_FALSE(table->admits(handle_at(0, 0)));
  }
}

TEST_CASE("a log of any size is opened, without being written anew") {
  const TempFolder folder;
  const auto directory = open_directory(folder.path()).value();
  constexpr std::uint64_t kMany = 500'000;
  {
    auto bytes = fence_log_header();
    std::vector<Fence> fences;
    for (std::uint64_t i = 0; i < kMany; ++i) fences.push_back({object_of(16 + i), 2});
    const auto frames = encode_fences(fences, {});
    bytes.insert(bytes.end(), frames.begin(), frames.end());
    REQUIRE(replace_file(directory.get(), "fences", bytes));
  }
  struct stat before{};
  REQUIRE(::fstatat(directory.get(), "fences", &before, 0) == 0);
  const auto table = FenceTable::open(directory.get()).value();
  CHECK(table->size() == kMany);
  struct stat after{};
  REQUIRE(::fstatat(directory.get(), "fences", &after, 0) == 0);
  CHECK(after.st_ino == before.st_ino);
  CHECK(after.st_size == before.st_size);
}

void skip_under_sanitizers() {
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  SKIP("reads eleven million fences, which takes a sanitizer long");
#endif
#endif
}

// The same fences again and again: the log is long, and what is in force is little.
TEST_CASE("a log of more than 256 MiB is opened") {
  skip_under_sanitizers();
  const TempFolder folder;
  const auto directory = open_directory(folder.path()).value();
  std::vector<Fence> fences;
  for (std::uint64_t i = 0; i < kFencesInFrame; ++i) fences.push_back({object_of(16 + i), 2});
  const auto frame = encode_fences(fences, {});
  constexpr std::uint64_t kMuch = std::uint64_t{256} << 20;
  {
    const OwnedFd log(::openat(directory.get(), "fences", O_WRONLY | O_CREAT, 0600));
    const auto header = fence_log_header();
    REQUIRE(write_fully(log.get(), header, 0));
    for (std::uint64_t at = header.size(); at <= kMuch; at += frame.size()) {
      REQUIRE(write_fully(log.get(), frame, at));
    }
  }
  REQUIRE(std::filesystem::file_size(folder.path() + "/fences") > kMuch);
  const auto table = FenceTable::open(directory.get());
  REQUIRE(table);
  CHECK((*table)->size() == kFencesInFrame);
  CHECK_FALSE((*table)->admits({.object = object_of(16), .object_epoch = 1}));
  CHECK((*table)->admits({.object = object_of(16), .object_epoch = 2}));
}

// A process before this one may have died between its write and its sync. Here the disk takes
// nothing.
TEST_CASE("a fence found in the log is not said to be kept before it is written again") {
  const TempFolder folder;
  const auto directory = open_directory(folder.path()).value();
  const Fence fence{kObject, 5};
  REQUIRE(FenceTable::open(directory.get()).value()->raise({&fence, 1}));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit nothing{.rlim_cur = 0, .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &nothing) == 0);
  const auto table = FenceTable::open(directory.get());
  const bool refused = !table || !(*table)->raise({&fence, 1});
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(refused);
  REQUIRE(table);
  CHECK_FALSE((*table)->admits(handle_at(4, 0)));
  CHECK((*table)->raise({&fence, 1}));
}

TEST_CASE("space is reserved ahead of the log, however much is fenced, and over a reopening") {
  const TempFolder folder;
  const auto directory = open_directory(folder.path()).value();
  auto table = FenceTable::open(directory.get()).value();
  constexpr std::uint64_t kLeast = std::uint64_t{512} << 10;
  CHECK(allocated(directory.get()) >= table->log_bytes() + kLeast);
  for (std::uint64_t i = 0; i < 60; ++i) {
    std::vector<Fence> fences;
    for (std::uint64_t k = 0; k < 1024; ++k) fences.push_back({object_of(16 + i * 1024 + k), 2});
    REQUIRE(table->raise(fences));
    REQUIRE(allocated(directory.get()) >= table->log_bytes() + kLeast);
  }
  table.reset();
  table = FenceTable::open(directory.get()).value();
  CHECK(allocated(directory.get()) >= table->log_bytes() + kLeast);
}

TEST_CASE("a full disk can still fence") {
  const TempFolder folder;
  if (::mount("weft-test", folder.path().c_str(), "tmpfs", 0, "size=12m") != 0) {
    SKIP("mounting a tmpfs needs root");
  }
  {
    const auto directory = open_directory(folder.path()).value();
    auto table = FenceTable::open(directory.get()).value();
    std::vector<Fence> fences;
    for (std::uint64_t i = 0; i < 60'000; ++i) fences.push_back({object_of(16 + i), 2});
    REQUIRE(table->raise(fences));
    const OwnedFd rest(::openat(directory.get(), "rest", O_WRONLY | O_CREAT, 0600));
    const std::vector<std::byte> page(4096, std::byte{1});
    std::uint64_t at = 0;
    while (write_fully(rest.get(), page, at)) at += page.size();
    for (Fence& fence : fences) fence.epoch = 3;
    REQUIRE(table->raise(std::span(fences).first(20'000)));
    // Beyond the reserve it is an error, and in force all the same.
    CHECK(table->raise(std::span(fences)).error() == Errc::kNoSpace);
    CHECK_FALSE(table->admits({.object = object_of(16 + 59'999), .object_epoch = 2}));
    CHECK(table->raise(std::span(fences).first(1)).error() == Errc::kNoSpace);
    REQUIRE(::unlinkat(directory.get(), "rest", 0) == 0);
    REQUIRE(::ftruncate(rest.get(), 0) == 0);
    REQUIRE(table->raise(std::span(fences).first(1)));
    table.reset();
    table = FenceTable::open(directory.get()).value();
    CHECK_FALSE(table->admits({.object = object_of(16 + 59'999), .object_epoch = 2}));
  }
  ::umount2(folder.path().c_str(), MNT_DETACH);
}

// A log as format 1 had it.
std::vector<std::byte> old_log(std::span<const Fence> fences) {
  auto bytes = fence_log_header();
  bytes[12] = std::byte{'1'};
  const auto frame = encode_fences(fences, {});  // one
  xdr::Encoder old;
  old.raw(std::span(frame).first(8));
  old.raw(std::span(frame).subspan(24, frame.size() - 24 - 8));
  old.u64(XXH64(old.bytes().data(), old.size(), 0));
  bytes.insert(bytes.end(), old.bytes().begin(), old.bytes().end());
  return bytes;
}

TEST_CASE("a log of the format before is read, and written anew in the present one") {
  const TempFolder folder;
  const auto directory = open_directory(folder.path()).value();
  const std::vector<Fence> fences{{kObject, 3}, {std::uint64_t{77}, 2}};
  CHECK(decode(old_log(fences))->fences == fences);
  REQUIRE(replace_file(directory.get(), "fences", old_log(fences)));
  const std::vector<std::uint64_t> old{1};
  {
    const auto table = FenceTable::open(directory.get(), old).value();
    CHECK(table->size() == 2);
    CHECK_FALSE(table->admits(handle_at(2, 2)));
    REQUIRE(table->raise(std::vector<Fence>{{object_of(9), 4}}));
  }
  const auto table = FenceTable::open(directory.get(), std::vector<std::uint64_t>{2}).value();
  CHECK(table->size() == 3);
  CHECK_FALSE(table->admits(handle_at(3, 1)));
  CHECK(table->forget_useless() == 3);  // it was written anew under the key of then
}

TEST_CASE("a fence is kept while a key is accepted that handles below it may be sealed with") {
  const TempFolder folder;
  const auto directory = open_directory(folder.path()).value();
  using Keys = std::vector<std::uint64_t>;
  auto table = FenceTable::open(directory.get(), Keys{1}).value();
  const auto admits = [&](std::uint64_t fileid) {
    return table->admits({.object = object_of(fileid), .object_epoch = 1});
  };
  const auto reopen = [&](const Keys& keys) {
    table.reset();
    table = FenceTable::open(directory.get(), keys).value();
  };
  REQUIRE(table->raise(std::vector<Fence>{{object_of(20), 2}, {object_of(21), 2}}));
  REQUIRE(table->raise(std::vector<Fence>{{std::uint64_t{77}, 2}}));
  table->use_keys(Keys{1, 2});
  REQUIRE(table->raise(std::vector<Fence>{{object_of(22), 2}}));
  REQUIRE(table->raise(std::vector<Fence>{{object_of(21), 1}}));  // said again, it counts from now
  table->use_keys(Keys{2, 1});
  CHECK(table->forget_useless() == 0);
  if (GENERATE(false, true)) reopen({2, 1});
  table->use_keys(Keys{2});
  CHECK(table->size() == 4);
  CHECK_FALSE(admits(20));  // not before it is told to
  CHECK(table->forget_useless() == 2);
  CHECK(table->size() == 2);
  CHECK(admits(20));
  CHECK(table->admits(handle_at(0, 0)));
  CHECK_FALSE(admits(21));
  CHECK_FALSE(admits(22));
  reopen({2});
  CHECK(table->forget_useless() == 2);  // they were in the log still
  CHECK_FALSE(admits(21));
  table->use_keys(Keys{3});
  CHECK(table->forget_useless() == 2);
  CHECK(table->size() == 0);
}

TEST_CASE("what was forgotten leaves the log when that is written anew") {
  const TempFolder folder;
  const auto directory = open_directory(folder.path()).value();
  using Keys = std::vector<std::uint64_t>;
  auto table = FenceTable::open(directory.get(), Keys{1}).value();
  std::vector<Fence> fences;
  for (std::uint64_t i = 0; i < 10'000; ++i) fences.push_back({object_of(16 + i), 2});
  REQUIRE(table->raise(fences));
  table->use_keys(Keys{1, 2});
  REQUIRE(table->raise(std::vector<Fence>{{kObject, 3}}));
  const std::uint64_t before = table->log_bytes();
  table->use_keys(Keys{2});
  CHECK(table->forget_useless() == 10'000);
  wait_shorter(*table, {kObject, 4}, before / 100);
  table.reset();
  table = FenceTable::open(directory.get(), Keys{2}).value();
  CHECK(table->size() == 1);
  CHECK_FALSE(table->admits(handle_at(2, 0)));
}

TEST_CASE("without keys nothing is forgotten") {
  const TempFolder folder;
  const auto directory = open_directory(folder.path()).value();
  const auto table = FenceTable::open(directory.get()).value();
  REQUIRE(table->raise(std::vector<Fence>{{kObject, 3}}));
  table->use_keys(std::vector<std::uint64_t>{2});
  CHECK(table->forget_useless() == 0);
  CHECK(table->size() == 1);
}

TEST_CASE("any fences read back as written") {
  CHECK(rc::check("fence log round trip", [] {
    const auto raw =
        *rc::gen::arbitrary<std::vector<std::tuple<bool, std::uint64_t, std::uint32_t>>>();
    std::vector<Fence> fences;
    for (const auto& [is_object, id, epoch] : raw) {
      if (is_object) {
        fences.push_back({layout::ObjectId{.fileid = id, .generation = epoch, .fsid = 1}, epoch});
      } else {
        fences.push_back({id, epoch});
      }
    }
    auto bytes = fence_log_header();
    const KeyMark mark{*rc::gen::arbitrary<std::uint64_t>(), 7};
    const auto frames = encode_fences(fences, mark);
    bytes.insert(bytes.end(), frames.begin(), frames.end());
    const auto piece = *rc::gen::inRange<std::size_t>(1, 3000);
    const auto log = decode(bytes, piece);
    RC_ASSERT(log->fences == fences);
    RC_ASSERT(std::ranges::count(log->marks, mark) == static_cast<long>(fences.size()));
  }));
}

}  // namespace
}  // namespace weft::ds
