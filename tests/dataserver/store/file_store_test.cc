#include "dataserver/store/file_store.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <spdlog/fmt/fmt.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <thread>

#include "tests/dataserver/store/store_runner.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

using test::StoreRunner;
using test::TempFolder;

constexpr layout::ObjectId kObject{.fileid = 42, .generation = 1, .fsid = 3};

FileStoreOptions options_in(const TempFolder& folder, IoMode mode = IoMode::kBuffered) {
  FileStoreOptions options;
  options.path = folder.path() + "/store";
  options.mode = mode;
  return options;
}

// Throws an object's pages out of the page cache, so that a read has to go to the disk.
void make_cold(const FileStoreOptions& options, const layout::ObjectId& object) {
  const OwnedFd fd(::open((options.path + "/objects/" + object_path(object)).c_str(), O_RDWR));
  REQUIRE(fd);
  REQUIRE(::fdatasync(fd.get()) == 0);
  REQUIRE(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED) == 0);
}

TEST_CASE("a store says what it has, in pages of any size") {
  TempFolder folder;
  const auto options = options_in(folder);
  StoreRunner runner(options);
  std::vector<layout::ObjectId> made;
  for (std::uint64_t id = 1; id <= 300; ++id) {
    made.push_back({.fileid = id, .generation = static_cast<std::uint32_t>(id % 3), .fsid = 1});
    REQUIRE(runner.write(made.back(), 0, "x"));
  }
  REQUIRE(runner.remove(made.back()));
  made.pop_back();
  std::ofstream(options.path + "/objects/000/not-one") << "x";
  std::ranges::sort(made);
  for (const std::uint32_t page : {1U, 7U, 4096U}) {
    auto listed = runner.list(page).value();
    std::ranges::sort(listed);
    CHECK(listed == made);
  }
}

TEST_CASE("a store is open before its objects are counted, and each is counted once") {
  const TempFolder folder;
  auto options = options_in(folder);
  const auto object = [](std::uint64_t id) {
    return layout::ObjectId{.fileid = id, .generation = 1, .fsid = 1};
  };
  {
    StoreRunner runner(options);
    for (std::uint64_t id = 1; id <= 200; ++id) REQUIRE(runner.write(object(id), 0, "x"));
    REQUIRE(runner.store().close());
  }
  // Half of the folders are read, and nothing else before this says so.
  std::promise<void> half;
  std::promise<void> rest;
  options.count_wait = {};
  options.counting = [&, go_on = rest.get_future().share()](unsigned number) {
    if (number != kObjectFolders / 2) return;
    half.set_value();
    go_on.wait();
  };
  StoreRunner runner(options);
  half.get_future().wait();
  const std::uint64_t counted = runner.store().usage()->objects;
  CHECK(counted > 0);
  CHECK(counted < 200);
  CHECK_FALSE(runner.store().usage()->counted);
  std::uint64_t now = 200;
  for (std::uint64_t id = 1; id <= 400; ++id) {
    if (object_folder(object(id)) % 64 == kObjectFolders / 2 % 64) continue;  // would wait
    if (id <= 100) REQUIRE(runner.remove(object(id)));
    if (id > 200) REQUIRE(runner.write(object(id), 0, "x"));
    now = id <= 100 ? now - 1 : now + (id > 200 ? 1 : 0);
  }
  rest.set_value();
  for (int i = 0; i < 5000 && runner.store().usage()->objects != now; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(runner.store().usage()->objects == now);
  CHECK(runner.store().usage()->counted);
}

TEST_CASE("a store that has lost a folder of objects is refused, not served as holes") {
  const TempFolder folder;
  auto options = options_in(folder);
  {
    StoreRunner runner(options);
    REQUIRE(runner.write(kObject, 0, "x"));
    REQUIRE(runner.store().close());
  }
  options.count_wait = {};  // what is counted in the background does not matter
  const std::string all = options.path + "/objects";
  const std::string lost = fmt::format("{:03x}", object_folder(kObject));
  const auto refused = [&]() -> std::string {
    BufferPool pool(std::size_t{1} << 20);
    const auto opened = FileStore::open(options, pool);
    if (opened) return "open";
    CHECK(opened.error() == Errc::kCorrupt);
    return opened.error().text;
  };
  std::filesystem::rename(all + "/" + lost, folder.path() + "/aside");
  CHECK(refused().contains("has lost its folder objects/" + lost));
  std::filesystem::rename(folder.path() + "/aside", all + "/" + lost);
  CHECK(refused() == "open");
  std::filesystem::rename(all, folder.path() + "/aside");
  CHECK(refused().contains("has lost its folder objects,"));
}

TEST_CASE("a folder of objects that cannot be read fails its objects, not the store") {
  const TempFolder folder;
  auto options = options_in(folder);
  {
    const StoreRunner runner(options);
  }
  const std::string damaged =
      fmt::format("{}/objects/{:03x}", options.path, object_folder(kObject));
  std::filesystem::remove(damaged);
  std::ofstream(damaged) << "not a folder";
  options.count_wait = std::chrono::minutes(1);
  StoreRunner runner(options);
  CHECK_FALSE(runner.store().usage()->counted);
  CHECK(runner.stat(kObject).error() != Errc::kNotFound);
  CHECK_FALSE(runner.write(kObject, 0, "x"));
}

TEST_CASE("a store says where its data is, stable or not") {
  const TempFolder folder;
  StoreRunner runner(options_in(folder, GENERATE(IoMode::kBuffered, IoMode::kDirect)));
  constexpr std::uint64_t kFar = std::uint64_t{1} << 42;
  const auto next = [&](std::uint64_t offset) { return runner.next_data(kObject, offset); };
  CHECK(next(0).error() == Errc::kNotFound);
  REQUIRE(runner.write(kObject, 3 << 20, "data"));
  REQUIRE(runner.write(kObject, kFar, std::string(8192, 'x')));
  const auto first = next(0).value();
  CHECK(first.begin > 0);
  CHECK(first.begin <= 3 << 20);
  CHECK((first.end > 3 << 20 && first.end <= kFar));
  CHECK(next((3 << 20) + 1).value().begin == (3 << 20) + 1);
  const auto second = next(first.end).value();
  CHECK(second.begin > first.end);
  CHECK(second.begin <= kFar);
  CHECK(second.end == kFar + 8192);
  CHECK(next(kFar + 8192).value() == DataRun{});
  CHECK(next(std::numeric_limits<std::uint64_t>::max()).value() == DataRun{});
  REQUIRE(runner.punch(kObject, 0, kFar));
  CHECK(next(0).value().begin == kFar);
  REQUIRE(runner.truncate(kObject, 2 * kFar));
  CHECK(next(kFar + 8192).value() == DataRun{});
  REQUIRE(runner.allocate(kObject, kFar + (1 << 20), 1 << 20));
  CHECK(runner.text(kObject, kFar + (1 << 20), 1) == std::string(1, '\0'));
}

TEST_CASE("an object comes to be on its first write and reads back") {
  const TempFolder folder;
  StoreRunner runner(options_in(folder, GENERATE(IoMode::kBuffered, IoMode::kDirect)));
  CHECK(runner.read(kObject, 0, 10).error() == Errc::kNotFound);
  const auto written = runner.write(kObject, 0, "hello, weft");
  REQUIRE(written);
  CHECK(written->bytes == 11);
  CHECK(written->object_end == 11);
  CHECK(written->verifier == runner.store().verifier());
  CHECK(runner.text(kObject, 0, 100) == "hello, weft");
  CHECK(runner.text(kObject, 7, 2) == "we");
  CHECK(runner.store().usage()->objects == 1);
}

TEST_CASE("a read at or past the end is empty and tells the end") {
  const TempFolder folder;
  StoreRunner runner(options_in(folder, GENERATE(IoMode::kBuffered, IoMode::kDirect)));
  REQUIRE(runner.write(kObject, 0, std::string(5000, 'x')));
  const auto at = runner.read(kObject, 5000, 1);
  REQUIRE(at);
  CHECK(at->payload.size() == 0);
  CHECK(at->object_end == 5000);
  CHECK(runner.read(kObject, std::numeric_limits<std::uint64_t>::max(), 1)->payload.size() == 0);
  CHECK(runner.text(kObject, 4999, 4096) == "x");
}

TEST_CASE("holes read as zeros") {
  const TempFolder folder;
  const auto options = options_in(folder, GENERATE(IoMode::kBuffered, IoMode::kDirect));
  StoreRunner runner(options);
  REQUIRE(runner.write(kObject, 1'000'000, "end"));
  make_cold(options, kObject);
  CHECK(runner.text(kObject, 500'000, 100'000) == std::string(100'000, '\0'));
  CHECK(runner.text(kObject, 999'999, 10) == std::string("\0end", 4));
  CHECK(runner.stat(kObject)->allocated < 100'000);
}

TEST_CASE("warm large reads are file ranges, warm small ones and cold ones are buffers") {
  const TempFolder folder;
  const auto options = options_in(folder);
  StoreRunner runner(options);
  const std::string megabyte(1 << 20, 'm');
  REQUIRE(runner.write(kObject, 0, megabyte));
  auto warm = runner.read(kObject, 0, 1 << 20).value();
  REQUIRE(warm.payload.pieces().size() == 1);
  CHECK(std::holds_alternative<FileRange>(warm.payload.pieces()[0]));
  auto wanted = runner.read({.object = kObject, .count = 1 << 20, .to_memory = true}).value();
  CHECK(std::holds_alternative<Buffer>(wanted.payload.pieces()[0]));
  auto small = runner.read(kObject, 4096, 4096).value();
  CHECK(std::holds_alternative<Buffer>(small.payload.pieces()[0]));
  warm = {};
  make_cold(options, kObject);
  auto cold = runner.read(kObject, 0, 1 << 20).value();
  CHECK(std::holds_alternative<Buffer>(cold.payload.pieces()[0]));
  CHECK(runner.text(kObject, 0, 1 << 20) == megabyte);
}

// Bytes that this process had read from disks.
std::uint64_t read_from_disks() {
  std::ifstream file("/proc/self/io");
  for (std::string key; file >> key;) {
    std::uint64_t value = 0;
    file >> value;
    if (key == "read_bytes:") return value;
  }
  return 0;
}

// A large write leaves large pages (folios), of which a part cannot be dropped.
TEST_CASE("what is read uncached comes from the disk, however it is cached") {
  const TempFolder folder;
  struct statfs system{};
  REQUIRE(::statfs(folder.path().c_str(), &system) == 0);
  if (system.f_type == TMPFS_MAGIC) SKIP("the folder is in memory");
  StoreRunner runner(options_in(folder));
  const std::string megabyte(1 << 20, 'm');
  REQUIRE(runner.write(kObject, 0, megabyte, Stability::kFileSync));
  REQUIRE(runner.write(kObject, 1 << 20, "the end"));  // dirty: it is written first
  const std::uint32_t room_bytes = GENERATE(0U, 5000U, 8192U);
  for (const auto& [offset, count] :
       {std::pair{8192U, 4096U}, {8191U, 4098U}, {(1U << 20) - 10, 17U}}) {
    const auto before = read_from_disks();
    const auto read = runner.wait<ReadResult>([&](auto done) {
      StoreRead what{.object = kObject, .offset = offset, .count = count, .uncached = true};
      if (room_bytes >= count) what.room = runner.buffer(std::string(room_bytes, '?'));
      runner.store().read(std::move(what), std::move(done));
    });
    REQUIRE(read);
    CHECK(read_from_disks() >= before + 4096);
    const auto bytes = read->payload.flatten().value();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    CHECK(text == (megabyte + "the end").substr(offset, count));
  }
}

TEST_CASE("a write of many pieces arrives whole") {
  const TempFolder folder;
  StoreRunner runner(options_in(folder, GENERATE(IoMode::kBuffered, IoMode::kDirect)));
  std::vector<Buffer> data;
  std::string expected;
  for (int i = 0; i < 3000; ++i) {  // more than one call takes (IOV_MAX)
    const std::string piece(1 + i % 7, static_cast<char>('a' + i % 26));
    data.push_back(runner.buffer(piece));
    expected += piece;
  }
  const auto written = runner.wait<WriteResult>([&](auto done) {
    runner.store().write(kObject, 12, std::move(data), Stability::kFileSync, std::move(done));
  });
  REQUIRE(written);
  CHECK(written->bytes == expected.size());
  CHECK(written->stability == Stability::kFileSync);
  CHECK(runner.text(kObject, 12, 1 << 20) == expected);
}

TEST_CASE("direct mode mixes whole blocks and odd ranges without losing either") {
  const TempFolder folder;
  StoreRunner runner(options_in(folder, IoMode::kDirect));
  REQUIRE(runner.write(kObject, 0, std::string(16384, 'a')));
  REQUIRE(runner.write(kObject, 4000, std::string(200, 'b')));
  REQUIRE(runner.write(kObject, 8192, std::string(4096, 'c')));
  REQUIRE(runner.write(kObject, 12287, "d"));
  const std::string expected = std::string(4000, 'a') + std::string(200, 'b') +
                               std::string(3992, 'a') + std::string(4095, 'c') + "d" +
                               std::string(4096, 'a');
  CHECK(runner.text(kObject, 0, 16384) == expected);
  CHECK(runner.text(kObject, 4100, 50) == std::string(50, 'b'));
}

TEST_CASE("truncate goes both ways, and makes no object of size zero") {
  const TempFolder folder;
  StoreRunner runner(options_in(folder));
  CHECK(runner.truncate(kObject, 0)->size == 0);
  CHECK(runner.stat(kObject).error() == Errc::kNotFound);
  CHECK(runner.truncate(kObject, 100)->size == 100);
  CHECK(runner.text(kObject, 0, 200) == std::string(100, '\0'));
  REQUIRE(runner.write(kObject, 0, std::string(100, 'x')));
  CHECK(runner.truncate(kObject, 10)->size == 10);
  CHECK(runner.truncate(kObject, 20)->size == 20);
  CHECK(runner.text(kObject, 0, 200) == std::string(10, 'x') + std::string(10, '\0'));
}

TEST_CASE("remove, also of what is not there, and a new object under the same name") {
  const TempFolder folder;
  StoreRunner runner(options_in(folder));
  CHECK(runner.remove(kObject));
  REQUIRE(runner.write(kObject, 0, "old and longer"));
  REQUIRE(runner.remove(kObject));
  CHECK(runner.read(kObject, 0, 1).error() == Errc::kNotFound);
  CHECK(runner.store().usage()->objects == 0);
  REQUIRE(runner.write(kObject, 0, "new"));
  CHECK(runner.text(kObject, 0, 100) == "new");
}

TEST_CASE("removals that take long hold up nobody who opens or syncs an object") {
  const TempFolder folder;
  auto options = options_in(folder);
  options.worker_threads = 1;
  {
    const StoreRunner runner(options);
  }
  // What is removed in a folder that is being counted waits for that.
  std::promise<void> counts;
  std::promise<void> rest;
  options.count_wait = {};
  options.counting = [&counts, go_on = rest.get_future().share()](unsigned number) {
    if (number != 0) return;
    counts.set_value();
    go_on.wait();
  };
  StoreRunner runner(options);
  counts.get_future().wait();
  int asked = 0;
  int removed = 0;
  layout::ObjectId fresh;  // of another folder
  for (std::uint64_t id = 1; asked < 8; ++id) {
    const layout::ObjectId object{.fileid = id, .generation = 1, .fsid = 1};
    if (object_folder(object) % 64 != 0) {
      fresh = object;
      continue;
    }
    ++asked;
    runner.store().remove(object,
                          [&removed](const Result<>& result) { removed += result ? 1 : 0; });
  }
  // Behind them it would be written when they are let go of, and not before.
  std::promise<void> written;
  const auto let_go = std::async(std::launch::async, [&rest, end = written.get_future()] {
    static_cast<void>(end.wait_for(std::chrono::seconds(10)));
    rest.set_value();
  });
  CHECK(runner.write(fresh, 0, "new", Stability::kFileSync));
  CHECK(removed == 0);
  written.set_value();
  let_go.wait();
  runner.drain();
  CHECK(removed == asked);
}

TEST_CASE("punch makes a hole and allocate reserves space") {
  const TempFolder folder;
  StoreRunner runner(options_in(folder));
  CHECK(runner.punch(kObject, 0, 4096));  // no object, nothing to do
  REQUIRE(runner.write(kObject, 0, std::string(3 * 4096, 'x')));
  REQUIRE(runner.punch(kObject, 4096, 4096));
  CHECK(runner.text(kObject, 4095, 4098) == "x" + std::string(4096, '\0') + "x");
  REQUIRE(runner.allocate(kObject, 0, 1 << 20));
  CHECK(runner.stat(kObject)->size == 1 << 20);
  CHECK(runner.stat(kObject)->allocated >= 1 << 20);
}

TEST_CASE("a write beyond what a file can hold is refused") {
  const TempFolder folder;
  StoreRunner runner(options_in(folder));
  constexpr std::uint64_t kTop = std::numeric_limits<std::int64_t>::max();
  CHECK(runner.write(kObject, kTop, "x").error() == Errc::kFileTooLarge);
  CHECK(runner.write(kObject, ~std::uint64_t{0}, "x").error() == Errc::kFileTooLarge);
  CHECK(runner.write(kObject, kTop - 1, "x").error() == Errc::kFileTooLarge);  // ext4's own limit
  CHECK(runner.truncate(kObject, ~std::uint64_t{0}).error() == Errc::kFileTooLarge);
}

TEST_CASE("an object that cannot be as long as its file is cut where the file is longer") {
  const TempFolder folder;
  StoreRunner runner(options_in(folder));
  REQUIRE(runner.write(kObject, 0, "some"));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit low{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  const auto ignored = ::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &low) == 0);  // as ext4 has at 16 TiB
  const auto longer = runner.truncate(kObject, 1 << 20);
  const auto shorter = runner.truncate(kObject, 2);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  ::signal(SIGXFSZ, ignored);
  REQUIRE(longer);
  CHECK(longer->size == 4);
  REQUIRE(shorter);
  CHECK(shorter->size == 2);
}

TEST_CASE("commit of nothing succeeds with the verifier of the writes") {
  const TempFolder folder;
  StoreRunner runner(options_in(folder));
  CHECK(runner.commit(kObject) == runner.store().verifier());
  const auto written = runner.write(kObject, 0, "x");
  CHECK(runner.commit(kObject) == written->verifier);
  CHECK(runner.commit(kObject) == written->verifier);
}

TEST_CASE("commits started together all complete") {
  const TempFolder folder;
  StoreRunner runner(options_in(folder));
  REQUIRE(runner.write(kObject, 0, "x"));
  int completed = 0;
  for (int i = 0; i < 50; ++i) {
    runner.store().commit(kObject, [&](Result<WriteVerifier> verifier) {
      completed += verifier == runner.store().verifier() ? 1 : 0;
    });
  }
  runner.drain();
  CHECK(completed == 50);
}

TEST_CASE("many more objects than may be open, written and read in turns") {
  const TempFolder folder;
  auto options = options_in(folder);
  options.max_open_files = 64;
  StoreRunner runner(options);
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t i = 0; i < 1000; ++i) {
      REQUIRE(runner.write({.fileid = i, .generation = 1}, i, std::to_string(i)));
    }
  }
  for (std::uint64_t i = 0; i < 1000; ++i) {
    REQUIRE(runner.text({.fileid = i, .generation = 1}, i, 100) == std::to_string(i));
  }
}

}  // namespace
}  // namespace weft::ds
