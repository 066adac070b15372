#include "ganesha-fsal/meta/kv/rocks_kv.h"

#include <rocksdb/db.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/generators/catch_generators.hpp>
#include <fstream>

#include "ganesha-fsal/meta/kv/store_space.h"
#include "tests/ganesha-fsal/meta/meta_fixture.h"
#include "tests/rpc/eventually.h"

using namespace weft;
using namespace weft::mds;
using weft::rpc::test::eventually;

namespace {

std::unique_ptr<KvStore> open_or_die(const std::string& path) {
  auto store = open_rocks_kv(small_rocks(path));
  REQUIRE(store);
  return std::move(*store);
}

void put(KvStore& store, std::string_view key, std::string_view value) {
  REQUIRE(store.run([&](Transaction& transaction) -> Result<> {
    transaction.put(key, value);
    return {};
  }));
}

// Writes over the middle of the file's bytes.
void damage(const std::filesystem::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(20'000);
  file << std::string(64, '\x5a');
}

// Of the column families of a store that is open, as RocksDB's own record of its options has them.
std::vector<std::size_t> write_buffers(const std::string& folder) {
  std::string newest;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string path = file.path().string();
    if (path.contains("/OPTIONS-")) newest = std::max(newest, path);
  }
  std::vector<std::size_t> sizes;
  std::ifstream lines(newest);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kName = "  write_buffer_size=";
    if (line.starts_with(kName)) sizes.push_back(std::stoul(line.substr(kName.size())));
  }
  return sizes;
}

}  // namespace

TEST_CASE("a store closed and opened again has everything") {
  const TempFolder folder;
  {
    auto store = open_or_die(folder.path());
    for (int i = 0; i < 1000; ++i) put(*store, "key" + std::to_string(i), std::to_string(i));
  }
  auto store = open_or_die(folder.path());
  int seen = 0;
  REQUIRE(store->latest().scan("key", "kez", SIZE_MAX, [&](auto, auto) { return ++seen > 0; }));
  CHECK(seen == 1000);
}

TEST_CASE("bytes of inline files are apart, and a transaction over both kinds is one") {
  const TempFolder folder;
  const auto seen = [](const KvReader& reader) {
    std::string keys;
    REQUIRE(reader.scan("A", "C", SIZE_MAX, [&](auto key, auto) {
      keys += key;
      return true;
    }));
    REQUIRE(reader.scan("B", "C", SIZE_MAX, [&](auto key, auto value) {
      keys.append(key).append(value);
      return true;
    }));
    return keys;
  };
  {
    auto store = open_or_die(folder.path());
    REQUIRE(store->run([](Transaction& transaction) -> Result<> {
      transaction.put("A1", "a");
      transaction.put("B1", "b");
      transaction.put("B2", "c");
      return {};
    }));
    const auto before = store->snapshot();
    auto first = store->begin();
    auto second = store->begin();
    CHECK(first->get("B1").value() == "b");
    CHECK(second->get("B1").value() == "b");
    first->put("B1", "1");
    first->erase("B2");
    CHECK(first->get("B2").value() == std::nullopt);
    second->put("B1", "2");
    second->put("A2", "2");
    REQUIRE(first->commit());
    CHECK(second->commit().error() == Errc::kConflict);
    CHECK(seen(store->latest()) == "A1B11");
    CHECK(seen(*before) == "A1B1bB2c");
  }
  auto options = small_rocks(folder.path());
  options.read_only = true;
  const auto reader = open_rocks_kv(options);
  REQUIRE(reader);
  CHECK(seen((*reader)->latest()) == "A1B11");
}

TEST_CASE("a store of before there were inline files opens, also for reading only") {
  const TempFolder folder;
  {
    rocksdb::Options rocks;
    rocks.create_if_missing = true;
    rocksdb::DB* db = nullptr;
    REQUIRE(rocksdb::DB::Open(rocks, folder.path(), &db).ok());
    CHECK(db->Put({}, "A1", "a").ok());
    delete db;
  }
  {
    auto options = small_rocks(folder.path());
    options.read_only = true;
    const auto reader = open_rocks_kv(options);
    REQUIRE(reader);
    CHECK((*reader)->latest().peek("A1").value() == "a");
    CHECK((*reader)->latest().peek("B1").value() == std::nullopt);
    CHECK((*reader)->latest().scan("B", "C", SIZE_MAX, [](auto, auto) { return true; }));
  }
  {
    auto store = open_or_die(folder.path());
    put(*store, "B1", "b");
  }
  CHECK(open_or_die(folder.path())->latest().peek("B1").value() == "b");
}

TEST_CASE("a store tells how much it holds and whether it takes writes") {
  const TempFolder folder;
  auto store = open_or_die(folder.path());
  for (int i = 0; i < 1000; ++i) put(*store, "key" + std::to_string(i), std::string(100, 'v'));
  StoreHealth health = store->health();
  CHECK(health.failure.empty());
  CHECK_FALSE(health.writes_stopped);
  CHECK(health.background_errors == 0);
  CHECK(health.memory_bytes + health.table_bytes > 100'000);
  CHECK(health.syncs == 1000);
  CHECK(health.sync_time.count() > 0);
  CHECK_FALSE(health.writes_slowed);
  CHECK(health.inline_files == 0);
  for (int i = 0; i < 100; ++i) put(*store, "B" + std::to_string(i), std::string(1000, 'v'));
  CHECK(store->health().inline_files == 100);
  CHECK(store->health().inline_bytes > 100'000);
  REQUIRE(store->run([](Transaction& transaction) -> Result<> {
    for (int i = 0; i < 90; ++i) transaction.erase("B" + std::to_string(i));
    return {};
  }));
  CHECK(store->health().inline_files == 10);
  store = nullptr;
  store = open_or_die(folder.path());  // what the log had is written to a table
  CHECK(store->health().table_bytes > 0);
}

TEST_CASE("filters and indexes of new tables stay in the cache, which is bounded") {
  const TempFolder folder;
  auto store = open_or_die(folder.path());
  for (int i = 0; i < 1000; ++i) put(*store, "key" + std::to_string(i), std::string(100, 'v'));
  CHECK(store->health().cache_pinned_bytes < 1000);  // there are no tables
  store = nullptr;
  store = open_or_die(folder.path());  // what the log had is written to a table
  CHECK(store->latest().peek("key1").value());
  const StoreHealth health = store->health();
  CHECK(health.cache_pinned_bytes > 1000);  // ten bits a key for the filter alone
  CHECK(health.cache_bytes >= health.cache_pinned_bytes);
  CHECK(health.cache_most_bytes == small_rocks(folder.path()).block_cache_bytes);
  CHECK(health.cache_bytes <= health.cache_most_bytes);
}

TEST_CASE("write buffers are as large as asked for, if the floor is high enough for them") {
  const auto [asked, floor, buffer] = GENERATE(table<std::size_t, std::size_t, std::size_t>(
      {{8, 24 * 8, 8}, {8, 24 * 16, 8}, {64, 24 * 8, 8}, {64, 24 * 64, 64}}));
  CAPTURE(asked, floor);
  const TempFolder folder;
  auto options = small_rocks(folder.path());
  options.write_buffer_bytes = asked << 20;
  options.floor_bytes = floor << 20;
  options.free_bytes = [] { return std::optional<std::uint64_t>(0); };  // no reserve is made
  const auto store = open_rocks_kv(options);
  REQUIRE(store);
  // Of inline files half as much.
  const std::vector<std::size_t> sizes = {buffer << 20, buffer << 19};
  CHECK(write_buffers(folder.path()) == sizes);
}

TEST_CASE("the floor suits the write buffer, and is a sixteenth of the file system at most") {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  CHECK(StoreSpace::floor_of(8 * kGiB, 42 * kMiB) == kGiB / 2);
  CHECK(StoreSpace::floor_of(100 * kGiB, 1 * kMiB) == kGiB);
  CHECK(StoreSpace::floor_of(100 * kGiB,
                             RocksOptions{.clock = system_clock()}.write_buffer_bytes) == kGiB);
  CHECK(StoreSpace::floor_of(100 * kGiB, 128 * kMiB) == 3 * kGiB);
  CHECK(StoreSpace::floor_of(16 * kGiB, 128 * kMiB) == kGiB);
}

TEST_CASE("the reserve of a much higher floor than there is now is made smaller") {
  const TempFolder folder;
  auto options = small_rocks(folder.path());
  const auto reserve = [&](std::uint64_t floor_bytes) {
    options.floor_bytes = floor_bytes;
    const auto store = open_rocks_kv(options);
    REQUIRE(store);
    CHECK((*store)->health().keeps_bytes == floor_bytes / 2);
    return std::filesystem::file_size(folder.path() + "/RESERVE");
  };
  CHECK(reserve(64U << 20) == 32U << 20);
  CHECK(reserve(16U << 20) == 8U << 20);
  CHECK(reserve(32U << 20) == 16U << 20);
}

TEST_CASE("what was removed in great numbers is compacted away") {
  const TempFolder folder;
  auto store = open_or_die(folder.path());
  const auto change_all = [&](auto change) {
    REQUIRE(store->run([&](Transaction& transaction) -> Result<> {
      for (int i = 0; i < 5000; ++i) change(transaction, "key" + std::to_string(i));
      return {};
    }));
    store = nullptr;
    store = open_or_die(folder.path());  // what the log had is written to a table
  };
  change_all([](Transaction& to, const std::string& key) { to.put(key, std::string(100, 'v')); });
  CHECK(store->health().table_bytes > 50'000);
  change_all([](Transaction& to, const std::string& key) { to.erase(key); });
  CHECK(eventually([&] { return store->health().table_bytes < 10'000; }));
}

TEST_CASE("a store that does not exist is not made when not asked for") {
  const TempFolder folder;
  auto options = small_rocks(folder.path());
  options.create_if_missing = false;
  CHECK(open_rocks_kv(options).error() == Errc::kNotFound);
  options.read_only = true;
  CHECK_FALSE(open_rocks_kv(options));
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/CURRENT"));
}

TEST_CASE("a store open in another process is busy, to read-only openers too") {
  skip_under_tsan();
  const TempFolder folder;
  int ready[2];
  int done[2];
  REQUIRE(::pipe(ready) == 0);
  REQUIRE(::pipe(done) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto store = open_rocks_kv(small_rocks(folder.path()));
    char byte = store ? 'y' : 'n';
    if (::write(ready[1], &byte, 1) != 1 || ::read(done[0], &byte, 1) != 1) ::_exit(1);
    ::_exit(0);
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  CHECK(byte == 'y');
  CHECK(open_rocks_kv(small_rocks(folder.path())).error() == Errc::kBusy);
  auto read_only = small_rocks(folder.path());
  read_only.read_only = true;
  CHECK(open_rocks_kv(read_only).error() == Errc::kBusy);
  REQUIRE(::write(done[1], "x", 1) == 1);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(open_rocks_kv(small_rocks(folder.path())));
}

TEST_CASE("a read-only store reads and refuses to commit") {
  const TempFolder folder;
  put(*open_or_die(folder.path()), "a", "1");
  auto options = small_rocks(folder.path());
  options.read_only = true;
  auto store = open_rocks_kv(options);
  REQUIRE(store);
  CHECK((*store)->latest().peek("a")->value() == "1");
  auto done = (*store)->run([](Transaction& transaction) -> Result<> {
    transaction.put("a", "2");
    return {};
  });
  CHECK(done.error() == Errc::kReadOnly);
}

TEST_CASE("damage in the middle of the log is an error, not a shorter store") {
  skip_under_tsan();
  const TempFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {  // leaves the log behind: a clean close would too, but may be flushed some day
    auto store = open_rocks_kv(small_rocks(folder.path()));
    if (!store) ::_exit(1);
    for (int i = 0; i < 200; ++i) {
      auto put_one = [&](Transaction& transaction) -> Result<> {
        transaction.put("key" + std::to_string(i), std::string(200, 'v'));
        return {};
      };
      if (!(*store)->run(put_one)) ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    if (file.path().extension() == ".log") damage(file.path());
  }
  CHECK(open_rocks_kv(small_rocks(folder.path())).error() == Errc::kCorrupt);
}

TEST_CASE("commits are in the log when they are waited for, all that there are in one go") {
  const TempFolder folder;
  auto store = open_or_die(folder.path());
  const auto log_bytes = [&] {  // without the zeros that are written ahead
    std::size_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
      if (file.path().extension() != ".log") continue;
      std::ifstream opened(file.path(), std::ios::binary);
      const std::string all(std::istreambuf_iterator<char>(opened), {});
      bytes += all.find_last_not_of('\0') + 1;
    }
    return bytes;
  };
  put(*store, "before", "1");
  const auto before = log_bytes();
  const auto syncs = store->health().syncs;
  CommitSeq last = 0;
  for (int i = 0; i < 10; ++i) {
    const auto seq = store->apply([&](Transaction& transaction) -> Result<> {
      transaction.put("key" + std::to_string(i), std::string(100, 'v'));
      return {};
    });
    REQUIRE(seq);
    last = *seq;
  }
  REQUIRE(store->wait_durable(last));
  CHECK(store->durable() == last);
  CHECK(log_bytes() > before + 1000);
  CHECK(store->health().syncs <= syncs + 2);  // one may be of nobody
}

TEST_CASE("what nobody waits for gets into the log all the same") {
  const TempFolder folder;
  auto store = open_or_die(folder.path());
  const auto seq = store->apply([](Transaction& transaction) -> Result<> {
    transaction.put("key", "value");
    return {};
  });
  REQUIRE(seq);
  CHECK(eventually([&] { return store->durable() >= *seq; }));
}

TEST_CASE("what was waited for survives the process, synced or not") {
  skip_under_tsan();
  const bool sync = GENERATE(true, false);
  const TempFolder folder;
  auto options = small_rocks(folder.path());
  options.sync = sync;
  const pid_t child = ::fork();
  if (child == 0) {
    auto store = open_rocks_kv(options);
    const auto put_one = [&](Transaction& transaction) -> Result<> {
      transaction.put("a", "1");
      return {};
    };
    ::_exit(store && (*store)->run(put_one) ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  CHECK(open_or_die(folder.path())->latest().peek("a").value() == "1");
}

TEST_CASE("a checkpoint is the store of one moment, until it is opened again") {
  const TempFolder folder;
  const TempFolder elsewhere;
  auto store = open_or_die(folder.path());
  put(*store, "a", "1");
  put(*store, "B1", "inline");
  const auto made = store->make_checkpoint();
  REQUIRE(made);
  put(*store, "a", "2");
  CHECK(store->make_checkpoint().error() == Errc::kExists);
  std::filesystem::copy(*made, elsewhere.path());
  {
    const auto copy = open_or_die(elsewhere.path());
    CHECK(copy->latest().peek("a").value() == "1");
    CHECK(copy->latest().peek("B1").value() == "inline");
    CHECK(copy->latest().peek("b").value() == std::nullopt);
  }
  REQUIRE(store->drop_checkpoint());
  CHECK_FALSE(std::filesystem::exists(*made));
  REQUIRE(store->make_checkpoint());
  store.reset();
  store = open_or_die(folder.path());
  CHECK_FALSE(std::filesystem::exists(*made));
  CHECK(store->latest().peek("a").value() == "2");
}

TEST_CASE("a folder that is being filled from a backup is not opened") {
  const TempFolder folder;
  open_or_die(folder.path()).reset();
  std::ofstream(folder.path() + "/" + kRestoring).close();
  const auto store = open_rocks_kv(small_rocks(folder.path()));
  REQUIRE_FALSE(store);
  CHECK(store.error() == Errc::kInvalid);
  auto reading = small_rocks(folder.path());
  reading.read_only = true;
  const auto read = open_rocks_kv(reading);
  REQUIRE_FALSE(read);
  CHECK(read.error() == Errc::kInvalid);
  auto filling = small_rocks(folder.path());
  filling.restoring = true;
  CHECK(open_rocks_kv(filling));
}
