// What is left of the metadata store's logs when a machine or a process dies, as RocksDB opens the
// store: which logs count, and that what is lost is the end of all of them.
#include "ganesha-fsal/meta/kv/log_opening.h"

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <algorithm>
#include <atomic>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kBeforeKey = 39;  // of a record, up to the first key's bytes

std::string key(int number) { return fmt::format("key{:06}", number); }

CommitSeq put(KvStore& store, const std::string& key, const std::string& value) {
  const auto seq = store.apply([&](Transaction& transaction) -> Result<> {
    transaction.put(key, value);
    return {};
  });
  REQUIRE(seq);
  return *seq;
}

struct Log {
  std::filesystem::path path;
  std::string bytes;

  [[nodiscard]] std::size_t record_of(int number) const {
    const std::size_t at = bytes.find(key(number));
    REQUIRE(at != std::string::npos);
    return at - kBeforeKey;
  }
  [[nodiscard]] std::size_t end() const { return bytes.find_last_not_of('\0') + 1; }
  void write(const std::string& changed) const {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << changed;
  }
  void write_zeros(std::size_t at, std::size_t size) const {
    std::string changed = bytes;
    changed.replace(at, size, size, '\0');
    write(changed);
  }
};

// A copy of a store's folder while it is in use.
class Left {
 public:
  explicit Left(const std::string& living) {
    std::filesystem::copy(living, path(), std::filesystem::copy_options::recursive);
    for (const auto& file : std::filesystem::directory_iterator(path())) {
      if (!log_number(file.path().string())) continue;
      std::ifstream opened(file.path(), std::ios::binary);
      logs_.push_back({file.path(), {std::istreambuf_iterator<char>(opened), {}}});
    }
    std::ranges::sort(logs_, {}, &Log::path);
  }
  [[nodiscard]] std::string path() const { return folder_->path(); }
  [[nodiscard]] const std::vector<Log>& logs() const { return logs_; }

 private:
  std::unique_ptr<TempFolder> folder_ = std::make_unique<TempFolder>();
  std::vector<Log> logs_;
};

RocksOptions options_for(const std::string& path, bool read_only = false) {
  RocksOptions options = small_rocks(path);
  options.read_only = read_only;
  return options;
}

// How many keys it has, which are the first ones.
int keys_in(const std::string& path, bool read_only = false) {
  auto store = open_rocks_kv(options_for(path, read_only));
  REQUIRE(store);
  int seen = 0;
  REQUIRE((*store)->latest().scan("key", "kez", SIZE_MAX, [&](auto name, auto) {
    REQUIRE(name == key(seen));
    return ++seen > 0;
  }));
  return seen;
}

constexpr int kStable = 60;
constexpr int kKeys = 300;

// Of values, so that eight records are a block.
constexpr std::size_t kEighth = LogReader::kBlock / 8 - kBeforeKey - 11;

// A log that is stable up to kStable, and has all keys.
Left one_log(std::size_t size) {
  const TempFolder living;
  auto store = open_rocks_kv(small_rocks(living.path()));
  REQUIRE(store);
  const std::string value(size, 'v');
  for (int i = 0; i < kStable; ++i) REQUIRE((*store)->wait_durable(put(**store, key(i), value)));
  CommitSeq last = 0;
  for (int i = kStable; i < kKeys; ++i) last = put(**store, key(i), value);
  REQUIRE((*store)->wait_durable(last));
  return Left(living.path());
}

// Tables are not written until they may be.
class NoTables final : public rocksdb::FileSystemWrapper {
 public:
  NoTables() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "NoTables"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* out,
                                    rocksdb::IODebugContext* debug) override {
    if (name.ends_with(".sst")) may_.wait(false);
    return FileSystemWrapper::NewWritableFile(name, options, out, debug);
  }
  void allow() {
    may_ = true;
    may_.notify_all();
  }

 private:
  std::atomic<bool> may_{false};
};

// Two that count, of which the second holds from key `second` on. Nothing of them is stable unless
// `sync`.
Left two_logs(bool sync, int& second) {
  const TempFolder living;
  const auto files = std::make_shared<NoTables>();
  const auto env = rocksdb::NewCompositeEnv(files);
  RocksOptions options = small_rocks(living.path());
  options.env = env.get();
  options.sync = sync;
  auto store = open_rocks_kv(options);
  REQUIRE(store);
  const std::string value(3000, 'v');
  for (int i = 0; i < 2000; ++i) {
    const CommitSeq last = put(**store, key(i), value);
    if (i % 500 == 499) REQUIRE((*store)->wait_durable(last));
  }
  Left left(living.path());
  files->allow();
  REQUIRE(left.logs().size() == 2);
  for (second = 0; left.logs().back().bytes.find(key(second)) == std::string::npos;) ++second;
  REQUIRE(second > 100);
  return left;
}

// Of the first log, a key near its end whose record is in one piece.
int near_the_end(const Log& log, int second) {
  for (int number = second - 10;; --number) {
    if (log.record_of(number) % LogReader::kBlock + 3100 < LogReader::kBlock) return number;
  }
}

}  // namespace

TEST_CASE("a log that lacks its end breaks the next one") {
  int second = 0;
  const Left left = two_logs(false, second);
  const Log& first = left.logs().front();
  const int lost = near_the_end(first, second);
  const std::size_t at = first.record_of(lost);
  SECTION("the file is not longer") { first.write(first.bytes.substr(0, at)); }
  SECTION("its last pages have not reached the disk") {
    first.write_zeros(at, first.bytes.size() - at);
  }
  SECTION("nor has a part of the next") {
    first.write(first.bytes.substr(0, at));
    left.logs().back().write_zeros(left.logs().back().record_of(second + 3), 500);
  }
  CHECK(keys_in(left.path(), true) == lost);
  CHECK(keys_in(left.path()) == lost);
  CHECK(keys_in(left.path()) == lost);
}

TEST_CASE("a log that lacks its end, which was stable, is damage") {
  int second = 0;
  const Left left = two_logs(true, second);
  const Log& first = left.logs().front();
  first.write(first.bytes.substr(0, first.record_of(near_the_end(first, second))));
  const auto opened = open_rocks_kv(options_for(left.path()));
  REQUIRE(!opened);
  CHECK(opened.error() == Errc::kCorrupt);
  CHECK(opened.error().text.find("is damaged at byte") != std::string::npos);
}

TEST_CASE("logs that do not count any more are not looked at") {
  const Left before = one_log(700);
  const Log& old = before.logs().front();
  const TempFolder living;
  std::filesystem::copy(before.path(), living.path());
  auto store = open_rocks_kv(small_rocks(living.path()));
  REQUIRE(store);
  CommitSeq last = 0;
  for (int i = kKeys; i < kKeys + 20; ++i) {
    last = put(**store, key(i), "v");
    REQUIRE((*store)->wait_durable(last));
  }
  const Left after(living.path());
  REQUIRE(after.logs().front().path.filename() != old.path.filename());
  const std::string name = after.path() + "/" + old.path.filename().string();
  SECTION("one that was removed is back, in part") {
    Log{name, old.bytes}.write_zeros(old.record_of(kStable / 2), kPage);
  }
  SECTION("or its end has not reached the disk") {
    Log{name, old.bytes}.write(old.bytes.substr(0, old.record_of(kStable / 2)));
  }
  CHECK(keys_in(after.path(), true) == kKeys + 20);
  CHECK(keys_in(after.path()) == kKeys + 20);
}

TEST_CASE("a log with a hole ends there, whoever opens the store") {
  const Left left = one_log(kEighth);
  const Log& log = left.logs().back();
  REQUIRE(log.record_of(kStable + 8) % LogReader::kBlock == 4 * LogReader::kBlock / 8);
  const std::size_t at = log.record_of(kStable + 7);
  const std::size_t block = at / LogReader::kBlock * LogReader::kBlock;
  log.write_zeros(at, block + LogReader::kBlock - at);
  SECTION("to read it, which leaves it as it is") {
    CHECK(keys_in(left.path(), true) == kStable + 7);
    CHECK(std::filesystem::file_size(log.path) == log.bytes.size());
  }
  SECTION("a copy, without RocksDB's lock file") {
    std::filesystem::remove(left.path() + "/LOCK");
    CHECK(keys_in(left.path()) == kStable + 7);
  }
}

TEST_CASE("whatever pages reach the disk, a store opens, with the first of the keys") {
  const auto seed = GENERATE(Catch::Generators::range(0U, 6U));
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto lose = [&](const Log& log, std::size_t stable, unsigned of) {
    std::string changed = log.bytes;
    for (std::size_t page = stable / kPage * kPage; page < log.end(); page += kPage) {
      if (random() % of != 0) continue;
      const std::size_t begin = std::max(page, stable);
      const std::size_t size = std::min(page + kPage, changed.size()) - begin;
      changed.replace(begin, size, size, '\0');
    }
    if (random() % 3 == 0) {
      changed.resize(std::max<std::size_t>(stable, random() % log.end() / kPage * kPage));
    }
    log.write(changed);
  };
  SECTION("of one log") {
    const Left left = one_log(seed % 2 == 0 ? kEighth : 700);
    lose(left.logs().back(), left.logs().back().record_of(kStable), 2 + random() % 20);
    const int keys = keys_in(left.path(), true);
    CHECK(keys >= kStable);
    CHECK(keys_in(left.path()) == keys);
    CHECK(keys_in(left.path()) == keys);
  }
  SECTION("of two") {
    int second = 0;
    const Left left = two_logs(false, second);
    for (const Log& log : left.logs()) lose(log, 0, 2 + random() % 2000);
    const int keys = keys_in(left.path(), true);
    CHECK(keys_in(left.path()) == keys);
    CHECK(keys_in(left.path()) == keys);
  }
}
