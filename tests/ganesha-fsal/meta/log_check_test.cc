// What the end of the metadata store's log may be, and what is damage.
#include "ganesha-fsal/meta/kv/log_check.h"

#include <algorithm>
#include <atomic>
#include <boost/crc.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "tests/ganesha-fsal/meta/meta_fixture.h"
#include "tests/rpc/log_lines.h"

using namespace weft;
using namespace weft::mds;

namespace {

constexpr int kStable = 100;  // keys, each waited for
constexpr int kLast = 50;     // that went into the log in one go

std::string key(int number) { return fmt::format("key{:03}", number); }

// The folder of a store as it is on the disk while it is in use: a log that nobody has closed.
class Crashed {
 public:
  Crashed() {
    const TempFolder living;
    auto store = open_rocks_kv(small_rocks(living.path()));
    REQUIRE(store);
    const auto put = [&](int number) {
      const auto seq = (*store)->apply([&](Transaction& transaction) -> Result<> {
        transaction.put(key(number), std::string(200, 'v'));
        return {};
      });
      REQUIRE(seq);
      return *seq;
    };
    for (int i = 0; i < kStable; ++i) REQUIRE((*store)->wait_durable(put(i)));
    CommitSeq last = 0;
    for (int i = kStable; i < kStable + kLast; ++i) last = put(i);
    REQUIRE((*store)->wait_durable(last));
    std::filesystem::copy(living.path(), path(), std::filesystem::copy_options::recursive);
    for (const auto& file : std::filesystem::directory_iterator(path())) {
      if (file.path().extension() == ".log") log_ = file.path();
    }
    std::ifstream opened(log_, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(opened), {});
  }

  [[nodiscard]] std::string path() const { return folder_.path(); }
  [[nodiscard]] std::size_t at(int number) const { return bytes_.find(key(number)); }
  [[nodiscard]] std::size_t end() const { return bytes_.find_last_not_of('\0') + 1; }
  [[nodiscard]] std::size_t size() const { return std::filesystem::file_size(log_); }
  [[nodiscard]] std::size_t zeros_from() const { return bytes_.size(); }

  // Of the log as it was, with that from `at` on.
  void write(std::size_t at, const std::string& bytes) const {
    std::string changed = bytes_;
    changed.replace(at, bytes.size(), bytes);
    std::ofstream(log_, std::ios::binary | std::ios::trunc) << changed;
  }
  void cut(std::size_t size) const { std::filesystem::resize_file(log_, size); }

 private:
  TempFolder folder_;
  std::filesystem::path log_;
  std::string bytes_;
};

// How many keys it has, which are the first ones. The store is opened, and closed.
int keys_in(const std::string& path) {
  auto store = open_rocks_kv(small_rocks(path));
  REQUIRE(store);
  int seen = 0;
  REQUIRE((*store)->latest().scan("key", "kez", SIZE_MAX, [&](auto name, auto) {
    CHECK(name == key(seen));
    return ++seen > 0;
  }));
  return seen;
}

void add(std::string& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i) & 0xFF);
}

std::string record(char type, std::string_view bytes) {
  const std::string checked = type + std::string(bytes);
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(checked.data(), checked.size());
  const auto plain = static_cast<std::uint32_t>(crc.checksum());
  std::string whole;
  add(whole, ((plain >> 15) | (plain << 17)) + 0xA282EAD8U, 4);
  add(whole, bytes.size(), 2);
  return whole + checked;
}

constexpr std::uint64_t kSalt = 0x1234'5678'9ABC'DEF0;

std::string batch(LogSequence sequence, LogSequence stable, std::uint64_t salt,
                  const std::string& body) {
  std::string bytes;
  add(bytes, sequence, 8);
  add(bytes, 1, 4);
  add(bytes, 3, 1);
  const std::string mark = log_mark(stable, salt);
  add(bytes, mark.size(), 1);
  return bytes + mark + body;
}

// A log as RocksDB writes it, of batches 1, 2 and so on.
struct Written {
  std::string log;
  LogSequence last = 0;

  // Returns where it begins.
  std::size_t add(LogSequence stable, const std::string& body) {
    std::string left = batch(++last, stable, kSalt, body);
    std::size_t began = 0;
    for (bool first = true; first || !left.empty(); first = false) {
      std::size_t room = LogReader::kBlock - log.size() % LogReader::kBlock;
      if (room < 7) log.append(std::exchange(room, LogReader::kBlock), '\0');
      if (first) began = log.size();
      const std::size_t piece = std::min(room - 7, left.size());
      const bool ends = piece == left.size();
      const char type = first ? (ends ? 1 : 2) : (ends ? 4 : 3);
      log += record(type, left.substr(0, piece));
      left.erase(0, piece);
    }
    return began;
  }
  [[nodiscard]] LogReader read() const {
    LogReader reader;
    const auto bytes = std::as_bytes(std::span(log));
    for (std::size_t at = 0; at < bytes.size(); at += LogReader::kBlock) {
      reader.read(bytes.subspan(at, std::min(LogReader::kBlock, bytes.size() - at)));
    }
    static_cast<void>(reader.end());
    return reader;
  }
};

}  // namespace

TEST_CASE("a log that nobody has closed, with zeros at its end, is whole") {
  const Crashed store;
  CHECK(store.end() < store.zeros_from());
  CHECK(check_logs(store.path(), 0, false));
  CHECK(keys_in(store.path()) == kStable + kLast);
}

TEST_CASE("what was written last may have reached the disk in part: it ends there") {
  const Crashed store;
  const auto first = GENERATE(0, 1, 20, kLast - 1);
  const std::size_t at = store.at(kStable + first);
  SECTION("a sector of it has not") { store.write(at, std::string(100, '\0')); }
  SECTION("the rest of a block has not, but what is behind it") {
    const std::size_t begin = at - 39;  // of the record
    const std::size_t block = begin / LogReader::kBlock * LogReader::kBlock;
    store.write(begin, std::string(block + LogReader::kBlock - begin, '\0'));
  }
  SECTION("half of a record has") { store.write(at, std::string(store.end() - at, '\0')); }
  SECTION("the file is not longer") { store.cut(at + 50); }
  SECTION("something else is there") { store.write(at, std::string(100, 'x')); }
  CHECK(keys_in(store.path()) == kStable + first);
  CHECK(keys_in(store.path()) == kStable + first);  // nothing comes back
}

TEST_CASE("what is cut off a log is nothing that a record behind it can bring back") {
  const Crashed store;
  store.write(store.at(kStable + 10), std::string(64, '\0'));
  REQUIRE(check_logs(store.path(), 0, true));
  CHECK(store.size() < store.at(kStable + 10));
  CHECK(check_logs(store.path(), 0, false));
}

TEST_CASE("a log that lacks what was stable is refused, and left as it is") {
  const Crashed store;
  const auto number = GENERATE(0, 1, 50, kStable - 1);
  const auto with = GENERATE('\0', 'x');
  store.write(store.at(number), std::string(32, with));
  const auto size = store.size();
  const auto opened = open_rocks_kv(small_rocks(store.path()));
  REQUIRE(!opened);
  CHECK(opened.error() == Errc::kCorrupt);
  CHECK(opened.error().text.find("is damaged at byte") != std::string::npos);
  RocksOptions reading = small_rocks(store.path());
  reading.read_only = true;
  CHECK(open_rocks_kv(reading).error() == Errc::kCorrupt);
  CHECK(store.size() == size);
}

TEST_CASE("wherever a log is damaged, nothing stable is missing without a word") {
  const Crashed whole;
  for (std::size_t at = 0; at < whole.end(); at += 997) {
    for (const char with : {'\0', 'x'}) {
      CAPTURE(at, with);
      whole.write(at, std::string(24, with));
      if (auto checked = check_logs(whole.path(), 0, false); !checked) {
        CHECK(checked.error() == Errc::kCorrupt);
        continue;
      }
      const TempFolder copy;
      std::filesystem::copy(whole.path(), copy.path());
      CHECK(keys_in(copy.path()) >= kStable);
    }
  }
}

TEST_CASE("a store goes on after its log was cut, and is cut again") {
  const Crashed store;
  store.write(store.at(kStable + 5), std::string(32, '\0'));
  {
    auto opened = open_rocks_kv(small_rocks(store.path()));
    REQUIRE(opened);
    for (int i = kStable + 5; i < kStable + 30; ++i) {
      REQUIRE((*opened)->run([&](Transaction& transaction) -> Result<> {
        transaction.put(key(i), "again");
        return {};
      }));
    }
  }
  CHECK(keys_in(store.path()) == kStable + 30);
}

TEST_CASE("a checkpoint is nothing to warn of") {
  const TempFolder folder;
  auto store = open_rocks_kv(small_rocks(folder.path()));
  REQUIRE(store);
  rpc::test::LogLines lines;
  REQUIRE((*store)->make_checkpoint());
  CHECK(lines.take() == std::vector<std::string>{});
}

TEST_CASE("a checkpoint that is made while others write has a log without holes") {
  const TempFolder folder;
  auto store = open_rocks_kv(small_rocks(folder.path()));
  REQUIRE(store);
  std::atomic<int> written{0};
  std::jthread writer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto put = (*store)->run([&](Transaction& transaction) -> Result<> {
        transaction.put(fmt::format("key{:08}", written.load()), std::string(3000, 'v'));
        return {};
      });
      if (!put) return;
      ++written;
    }
  });
  for (int round = 0; round < 20; ++round) {
    const int before = written;
    while (written < before + 20) std::this_thread::yield();
    const int stable = written;
    const auto checkpoint = (*store)->make_checkpoint();
    REQUIRE(checkpoint);
    REQUIRE(check_logs(*checkpoint, 0, false));
    auto copy = open_rocks_kv(small_rocks(*checkpoint));
    REQUIRE(copy);
    int seen = 0;
    REQUIRE((*copy)->latest().scan("key", "kez", SIZE_MAX, [&](auto name, auto) {
      CHECK(name == fmt::format("key{:08}", seen));
      return ++seen > 0;
    }));
    CHECK(seen >= stable);
    copy->reset();
    REQUIRE((*store)->drop_checkpoint());
  }
}

TEST_CASE("a damaged record is found, whatever is in it, by one behind it in its block") {
  std::mt19937 random(1);
  std::string anything(30'000, '\0');
  std::ranges::generate(anything, [&] { return static_cast<char>(random()); });
  Written log;
  log.add(0, "first");
  const auto at = log.add(1, anything);
  log.add(2, "last");
  REQUIRE(!log.read().broken());
  log.log[at + 100] ^= 1;
  CHECK(log.read().damaged());
}

TEST_CASE("what a client has stored is not taken for records of a log that was cut short") {
  const auto salt = GENERATE(std::uint64_t{0}, kSalt + 1, kSalt);
  CAPTURE(salt);
  Written log;
  for (LogSequence i = 0; i < 10; ++i) log.add(i, "whole");
  std::string body;
  for (LogSequence i = 12; i < 32; ++i) body += record(1, batch(i, i - 1, salt, "forged"));
  const auto at = log.add(10, std::string(1000, 'v') + body);
  log.log.replace(at, 500, 500, '\0');
  const auto reader = log.read();
  CHECK(reader.broken());
  CHECK(reader.damaged() == (salt == kSalt));
}

TEST_CASE("what is too short for a record, at the end of a block, is nobody's") {
  Written log;
  const std::size_t header = 7 + 30;
  log.add(0, std::string(LogReader::kBlock - 5 - header, 'v'));
  REQUIRE(log.add(1, "next") == LogReader::kBlock);
  log.log[LogReader::kBlock - 2] = 'x';
  CHECK(!log.read().broken());
}
