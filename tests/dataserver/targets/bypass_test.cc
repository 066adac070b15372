// Reading and writing objects by descriptors of their own.
#include "dataserver/targets/bypass.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "dataserver/store/page_cache.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1};
constexpr std::uint32_t kMuch = 1U << 20;
constexpr WriteVerifier kVerifier = 7;

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
  // The same, to write by as well.
  [[nodiscard]] OwnedFd make_writable(const std::string& name, const std::string& text) const {
    static_cast<void>(make(name, text));
    return OwnedFd(::open(path(name).c_str(), O_RDWR | O_CLOEXEC));
  }
  [[nodiscard]] std::string text(const std::string& name) const {
    std::ifstream in(path(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  [[nodiscard]] Buffer buffer(const std::string& text) {
    auto made = pool.allocate(text.size()).value();
    std::memcpy(made.data(), text.data(), text.size());
    return made;
  }
  test::TempFolder folder;
  std::atomic<WriteVerifier> verifier{kVerifier};
  BufferPool pool{std::size_t{4} << 20};
};

void to_read(Bypass& bypass, OwnedFd fd) { bypass.add(kObject, std::move(fd), false, kVerifier); }
void to_write(Bypass& bypass, OwnedFd fd) { bypass.add(kObject, std::move(fd), true, kVerifier); }

std::string text_of(const Bypass::AtHand<ReadResult>& at_hand) {
  if (!at_hand.result) return "(not at hand)";
  const auto bytes = at_hand.result->payload.flatten().value();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_CASE("what is in the page cache is read by an object's own descriptor, up to its end") {
  Files files;
  Bypass bypass(16, files.pool, files.verifier);
  CHECK(bypass.read(kObject, 0, kMuch).welcome);
  to_read(bypass, files.make("a", "0123456789"));
  auto all = bypass.read(kObject, 0, kMuch);
  CHECK(text_of(all) == "0123456789");
  CHECK(all.result->object_end == 10);
  CHECK_FALSE(all.welcome);
  CHECK(text_of(bypass.read(kObject, 4, 3)) == "456");
  CHECK(text_of(bypass.read(kObject, 10, 3)).empty());
  CHECK(text_of(bypass.read(kObject, 1000, 3)).empty());
  CHECK(bypass.read(kObject, 1000, 3).result->object_end == 10);
  CHECK(text_of(bypass.read(kObject, 0, 0)).empty());
  // As the file is now.
  REQUIRE(::truncate(files.path("a").c_str(), 5) == 0);
  CHECK(text_of(bypass.read(kObject, 0, kMuch)) == "01234");
}

TEST_CASE("much of an object goes out as a range of its file, little as a copy") {
  Files files;
  Bypass bypass(16, files.pool, files.verifier);
  to_read(bypass, files.make("a", std::string(kZeroCopyFrom, 'w')));
  const auto is_range = [&](std::uint32_t count) {
    const auto at_hand = bypass.read(kObject, 0, count);
    REQUIRE(at_hand.result);
    return std::holds_alternative<FileRange>(at_hand.result->payload.pieces().front());
  };
  CHECK(is_range(kMuch));
  CHECK_FALSE(is_range(kZeroCopyFrom - 1));
  const auto copied = bypass.read(kObject, 0, kMuch, true);
  REQUIRE(copied.result);
  CHECK(copied.result->payload.size() == kZeroCopyFrom);
  CHECK(std::holds_alternative<Buffer>(copied.result->payload.pieces().front()));
}

// Of a file's first page. is_resident() may have to try to read, and a kernel without cachestat(2)
// then begins to read ahead.
bool begins_in_memory(int fd) {
  void* mapped = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
  REQUIRE(mapped != MAP_FAILED);
  unsigned char resident = 0;
  const int failed = ::mincore(mapped, 4096, &resident);
  ::munmap(mapped, 4096);
  REQUIRE(failed == 0);
  return (resident & 1) != 0;
}

TEST_CASE("what is not in the page cache is not at hand") {
  Files files;
  Bypass bypass(16, files.pool, files.verifier);
  auto file = files.make("a", std::string(kMuch, 'w'));
  REQUIRE(::fsync(file.get()) == 0);
  // The kernel keeps pages that somebody has hold of at that moment.
  for (int tries = 0; begins_in_memory(file.get()); ++tries) {
    if (tries == 500) SKIP("this file system keeps its files in memory");
    REQUIRE(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED) == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  to_read(bypass, std::move(file));
  // One read only: a kernel may begin to read ahead what it did not have, for the next one.
  const auto count = GENERATE(kMuch, std::uint32_t{100});
  const auto at_hand = bypass.read(kObject, 0, count);
  CHECK_FALSE(at_hand.result);
  CHECK_FALSE(at_hand.welcome);
}

TEST_CASE("an object that was removed is not read by what is left of it") {
  Files files;
  Bypass bypass(16, files.pool, files.verifier);
  SECTION("before it is read again") {
    to_read(bypass, files.make("a", "old"));
    REQUIRE(::unlink(files.path("a").c_str()) == 0);
    const auto at_hand = bypass.read(kObject, 0, kMuch);
    CHECK_FALSE(at_hand.result);
    CHECK(at_hand.welcome);
  }
  SECTION("before its descriptor came") {
    auto file = files.make("a", "old");
    REQUIRE(::unlink(files.path("a").c_str()) == 0);
    to_read(bypass, std::move(file));
  }
  SECTION("because its remover says so") {
    to_read(bypass, files.make("a", "old"));
    bypass.drop(kObject);
  }
  SECTION("because the target went") {
    to_read(bypass, files.make("a", "old"));
    bypass.retire_all();
  }
  CHECK(bypass.size() == 0);
}

TEST_CASE("what a target hands over is used when it is a file, opened as it should be") {
  Files files;
  Bypass bypass(16, files.pool, files.verifier);
  const auto offer = [&](OwnedFd fd) {
    to_read(bypass, std::move(fd));
    return bypass.size() == 1;
  };
  static_cast<void>(files.make("a", "x"));
  REQUIRE(::mkfifo(files.path("fifo").c_str(), 0600) == 0);
  CHECK_FALSE(offer(OwnedFd(::open(files.path("a").c_str(), O_RDWR | O_CLOEXEC))));
  CHECK_FALSE(offer(OwnedFd(::open(files.path("a").c_str(), O_PATH | O_CLOEXEC))));
  CHECK_FALSE(offer(OwnedFd(::open(files.path("").c_str(), O_RDONLY | O_CLOEXEC))));
  CHECK_FALSE(
      offer(OwnedFd(::open(files.path("fifo").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC))));
  CHECK(offer(OwnedFd(::open(files.path("a").c_str(), O_RDONLY | O_CLOEXEC))));
  bypass.drop(kObject);
  const auto offer_to_write = [&](int flags) {
    to_write(bypass, OwnedFd(::open(files.path("a").c_str(), flags | O_CLOEXEC)));
    return bypass.size() == 1;
  };
  CHECK_FALSE(offer_to_write(O_RDONLY));
  CHECK_FALSE(offer_to_write(O_WRONLY));
  CHECK_FALSE(offer_to_write(O_RDWR | O_APPEND));
  CHECK(offer_to_write(O_RDWR));
}

TEST_CASE("descriptors are bounded in number, and none are kept where none are wanted") {
  Files files;
  Bypass some(32, files.pool, files.verifier);
  for (std::uint64_t number = 1; number <= 200; ++number) {
    some.add({.fileid = number, .generation = 1}, files.make("a", "x"), false, kVerifier);
  }
  CHECK(some.size() <= 32);
  CHECK(some.read({.fileid = 200, .generation = 1}, 0, 1).result);  // the last is there
  Bypass none(0, files.pool, files.verifier);
  to_read(none, files.make("a", "x"));
  CHECK(none.size() == 0);
  CHECK_FALSE(none.read(kObject, 0, 1).welcome);
}

TEST_CASE("what need not be stable is written by an object's own descriptor") {
  Files files;
  Bypass bypass(16, files.pool, files.verifier);
  CHECK_FALSE(bypass.writes());
  to_write(bypass, files.make_writable("a", "0123456789"));
  CHECK(bypass.writes());
  const std::vector<Buffer> data = [&] {
    std::vector<Buffer> pieces;
    pieces.push_back(files.buffer("ab"));
    pieces.emplace_back();
    pieces.push_back(files.buffer("cd"));
    return pieces;
  }();
  const auto written = bypass.write(kObject, 8, data).result.value().value();
  CHECK(written.bytes == 4);
  CHECK(written.stability == Stability::kUnstable);
  CHECK(written.verifier == kVerifier);
  CHECK(written.object_end == 12);
  CHECK(files.text("a") == "01234567abcd");
  CHECK(text_of(bypass.read(kObject, 8, kMuch)) == "abcd");  // by the same descriptor

  auto pipe = PipedBytes::open(files.pool).value();
  const std::string text = "piped";
  REQUIRE(pipe.put(std::as_bytes(std::span(text))));
  CHECK(bypass.write(kObject, 0, pipe).result.value().value().object_end == 12);
  CHECK(pipe.empty());
  CHECK(files.text("a") == "piped567abcd");

  const auto beyond = bypass.write(kObject, std::uint64_t{1} << 62, data);
  CHECK(beyond.result.value().error() == Errc::kFileTooLarge);
  CHECK_FALSE(bypass.write(kObject, ~std::uint64_t{0}, data).result);
}

TEST_CASE("a descriptor is written by while the target's verifier is the one it came with") {
  Files files;
  Bypass bypass(16, files.pool, files.verifier);
  std::vector<Buffer> data;
  data.push_back(files.buffer("new"));
  const auto written = [&] { return bypass.write(kObject, 0, data).result.has_value(); };
  CHECK(bypass.write(kObject, 0, data).welcome);
  to_read(bypass, files.make("a", "old"));
  CHECK(bypass.write(kObject, 0, data).welcome);  // one to write by is
  CHECK_FALSE(written());
  to_write(bypass, files.make_writable("a", "old"));
  CHECK(written());
  to_read(bypass, files.make("a", "old"));  // does not take its place
  CHECK(written());
  files.verifier = kVerifier + 1;
  CHECK(bypass.write(kObject, 0, data).welcome);
  CHECK_FALSE(written());
  bypass.add(kObject, files.make_writable("a", "old"), true, kVerifier + 1);
  CHECK(bypass.write(kObject, 0, data).result.value().value().verifier == kVerifier + 1);
  REQUIRE(::unlink(files.path("a").c_str()) == 0);
  CHECK(bypass.write(kObject, 0, data).welcome);
  CHECK(bypass.size() == 0);
}

TEST_CASE("what was written by a descriptor keeps it open until a commit covers it") {
  Files files;
  Bypass bypass(1, files.pool, files.verifier);  // one in each shard
  std::vector<Buffer> data;
  data.push_back(files.buffer("x"));
  to_write(bypass, files.make_writable("a", ""));
  REQUIRE(bypass.write(kObject, 0, data).result);
  const std::uint64_t one = bypass.written(kObject);
  REQUIRE(bypass.write(kObject, 1, data).result);
  const std::uint64_t two = bypass.written(kObject);

  SECTION("when others want its place") {
    const auto in_the_way = [&]() -> std::optional<layout::ObjectId> {
      for (std::uint64_t number = 2; number < 100; ++number) {
        const layout::ObjectId other{.fileid = number, .generation = 1};
        auto asked = bypass.add(other, files.make("b", "b"), false, kVerifier);
        if (asked) return asked;
      }
      return {};
    };
    CHECK(in_the_way() == kObject);
    CHECK(bypass.write(kObject, 0, data).result);
    bypass.committed(kObject, bypass.written(kObject));
    CHECK_FALSE(in_the_way());
    CHECK_FALSE(bypass.write(kObject, 0, data).result);
  }
  SECTION("when its target is gone") {
    bypass.retire_all();
    CHECK(bypass.size() == 1);
    CHECK_FALSE(bypass.writes());
    CHECK(bypass.write(kObject, 0, data).welcome);
    CHECK(bypass.read(kObject, 0, kMuch).welcome);
    bypass.committed(kObject, one);
    CHECK(bypass.size() == 1);
    SECTION("and the target is not back") {
      bypass.committed(kObject, two);
      CHECK(bypass.size() == 0);
    }
    SECTION("and the target is back") {
      to_write(bypass, files.make_writable("a", "xx"));
      CHECK(bypass.write(kObject, 0, data).result);
      bypass.retire_all();
      CHECK(bypass.size() == 1);
    }
  }
  SECTION("but not when it was removed") {
    REQUIRE(::unlink(files.path("a").c_str()) == 0);
    bypass.retire_all();
    CHECK(bypass.size() == 0);
  }
}

}  // namespace
}  // namespace weft::ds
