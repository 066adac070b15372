// Reading objects by descriptors of their own.
#include "dataserver/target/readers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "dataserver/store/page_cache.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1};
constexpr std::uint32_t kMuch = 1U << 20;

struct Files {
  [[nodiscard]] std::string path(const std::string& name) const {
    return folder.path() + "/" + name;
  }
  // A file with `text`, and a descriptor to read it by.
  [[nodiscard]] OwnedFd make(const std::string& name, const std::string& text) const {
    const OwnedFd made(::open(path(name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(::pwrite(made.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    return OwnedFd(::open(path(name).c_str(), O_RDONLY | O_CLOEXEC));
  }
  test::TempFolder folder;
  BufferPool pool{std::size_t{4} << 20};
};

std::string text_of(const Readers::AtHand& at_hand) {
  if (!at_hand.result) return "(not at hand)";
  const auto bytes = at_hand.result->payload.flatten().value();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_CASE("what is in the page cache is read by an object's own descriptor, up to its end") {
  Files files;
  Readers readers(16, files.pool);
  CHECK(readers.read(kObject, 0, kMuch).reader_welcome);
  readers.add(kObject, files.make("a", "0123456789"));
  auto all = readers.read(kObject, 0, kMuch);
  CHECK(text_of(all) == "0123456789");
  CHECK(all.result->object_end == 10);
  CHECK_FALSE(all.reader_welcome);
  CHECK(text_of(readers.read(kObject, 4, 3)) == "456");
  CHECK(text_of(readers.read(kObject, 10, 3)).empty());
  CHECK(text_of(readers.read(kObject, 1000, 3)).empty());
  CHECK(readers.read(kObject, 1000, 3).result->object_end == 10);
  CHECK(text_of(readers.read(kObject, 0, 0)).empty());
  // As the file is now.
  REQUIRE(::truncate(files.path("a").c_str(), 5) == 0);
  CHECK(text_of(readers.read(kObject, 0, kMuch)) == "01234");
}

TEST_CASE("much of an object goes out as a range of its file, little as a copy") {
  Files files;
  Readers readers(16, files.pool);
  readers.add(kObject, files.make("a", std::string(kZeroCopyFrom, 'w')));
  const auto is_range = [&](std::uint32_t count) {
    const auto at_hand = readers.read(kObject, 0, count);
    REQUIRE(at_hand.result);
    return std::holds_alternative<FileRange>(at_hand.result->payload.pieces().front());
  };
  CHECK(is_range(kMuch));
  CHECK_FALSE(is_range(kZeroCopyFrom - 1));
}

TEST_CASE("what is not in the page cache is not at hand") {
  Files files;
  Readers readers(16, files.pool);
  auto file = files.make("a", std::string(kMuch, 'w'));
  REQUIRE(::fsync(file.get()) == 0);
  REQUIRE(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED) == 0);
  if (is_resident(file.get(), 0, kMuch)) SKIP("this file system keeps its files in memory");
  readers.add(kObject, std::move(file));
  CHECK_FALSE(readers.read(kObject, 0, kMuch).result);
  CHECK_FALSE(readers.read(kObject, 0, 100).result);
  CHECK_FALSE(readers.read(kObject, 0, 100).reader_welcome);
}

TEST_CASE("an object that was removed is not read by what is left of it") {
  Files files;
  Readers readers(16, files.pool);
  SECTION("before it is read again") {
    readers.add(kObject, files.make("a", "old"));
    REQUIRE(::unlink(files.path("a").c_str()) == 0);
    const auto at_hand = readers.read(kObject, 0, kMuch);
    CHECK_FALSE(at_hand.result);
    CHECK(at_hand.reader_welcome);
  }
  SECTION("before its descriptor came") {
    auto file = files.make("a", "old");
    REQUIRE(::unlink(files.path("a").c_str()) == 0);
    readers.add(kObject, std::move(file));
  }
  SECTION("because its remover says so") {
    readers.add(kObject, files.make("a", "old"));
    readers.drop(kObject);
  }
  SECTION("because the target went") {
    readers.add(kObject, files.make("a", "old"));
    readers.drop_all();
  }
  CHECK(readers.size() == 0);
}

TEST_CASE("what a target hands over is used when it is a file that cannot be written") {
  Files files;
  Readers readers(16, files.pool);
  const auto offer = [&](OwnedFd fd) {
    readers.add(kObject, std::move(fd));
    return readers.size() == 1;
  };
  static_cast<void>(files.make("a", "x"));
  REQUIRE(::mkfifo(files.path("fifo").c_str(), 0600) == 0);
  CHECK_FALSE(offer(OwnedFd(::open(files.path("a").c_str(), O_RDWR | O_CLOEXEC))));
  CHECK_FALSE(offer(OwnedFd(::open(files.path("a").c_str(), O_PATH | O_CLOEXEC))));
  CHECK_FALSE(offer(OwnedFd(::open(files.path("").c_str(), O_RDONLY | O_CLOEXEC))));
  CHECK_FALSE(
      offer(OwnedFd(::open(files.path("fifo").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC))));
  CHECK(offer(OwnedFd(::open(files.path("a").c_str(), O_RDONLY | O_CLOEXEC))));
}

TEST_CASE("descriptors are bounded in number, and none are kept where none are wanted") {
  Files files;
  Readers some(32, files.pool);
  for (std::uint64_t number = 1; number <= 200; ++number) {
    some.add({.fileid = number, .generation = 1}, files.make("a", "x"));
  }
  CHECK(some.size() <= 32);
  CHECK(some.read({.fileid = 200, .generation = 1}, 0, 1).result);  // the last is there
  Readers none(0, files.pool);
  none.add(kObject, files.make("a", "x"));
  CHECK(none.size() == 0);
  CHECK_FALSE(none.read(kObject, 0, 1).reader_welcome);
}

}  // namespace
}  // namespace weft::ds
