// What is expected of clients that open files in orders that a directory has, or of their own.
#include "ganesha-fsal/files/open_order.h"

#include <catch2/catch_test_macros.hpp>
#include <map>
#include <random>
#include <set>

namespace weft::mds {
namespace {

// A directory of files listed in the order of their numbers; by name they are the other way round.
struct OrderTest {
  static constexpr FileId kDir = 7;
  static constexpr FileId kFiles = 1000;

  static std::string name_of(FileId file) { return std::to_string(9000 - file); }
  std::vector<NamedFile> after(FileId dir, std::string_view name, FileOrder which,
                               std::size_t limit) {
    ++asked;
    REQUIRE(dir == kDir);
    const FileId file = 9000 - std::stoull(std::string(name));
    std::vector<NamedFile> out;
    for (FileId step = 1; step <= limit; ++step) {
      const bool up = which == FileOrder::kListing;
      if (up ? file + step > kFiles : file <= step) break;
      const FileId next = up ? file + step : file - step;
      out.push_back({name_of(next), next});
    }
    return out;
  }
  std::vector<FileId> open(FileId file, ClientId client = 1) {
    return order.observe({client, kDir, name_of(file), file});
  }
  OpenOrder order{[this](FileId dir, std::string_view name, FileOrder which, std::size_t limit) {
    return after(dir, name, which, limit);
  }};
  std::size_t asked = 0;
};

using Files = std::vector<FileId>;

}  // namespace

TEST_CASE_METHOD(OrderTest, "who opens files as they are listed is told of more and more ahead") {
  CHECK(open(10).empty());
  CHECK(open(11).empty());
  CHECK(open(12) == Files{13, 14, 15, 16});
  CHECK(open(13) == Files{17, 18, 19, 20, 21});
  std::set<FileId> named{13, 14, 15, 16, 17, 18, 19, 20, 21};
  for (FileId file = 14; file <= kFiles; ++file) {
    CAPTURE(file);
    CHECK(named.contains(file));
    for (const FileId next : open(file)) {
      CHECK(next > file);
      CHECK(next <= file + OpenOrder::kMostAhead);
      CHECK(named.insert(next).second);  // once
    }
  }
  CHECK(named.size() == kFiles - 12);
  CHECK(asked < 100);
}

TEST_CASE_METHOD(OrderTest, "the same by name, which is the other way here") {
  CHECK(open(500).empty());
  CHECK(open(499).empty());
  CHECK(open(498) == Files{497, 496, 495, 494});
}

TEST_CASE_METHOD(OrderTest, "some may be passed over, and one is not opened twice in a row") {
  CHECK(open(10).empty());
  CHECK(open(10).empty());
  CHECK(open(12).empty());
  CHECK(open(15) == Files{16, 17, 18, 19});
  CHECK(open(15).empty());
  CHECK(open(20) == Files{21, 22, 23, 24, 25, 26, 27, 28});
  // That is too far.
  CHECK(open(60).empty());
  CHECK(open(61).empty());
  CHECK(open(62) == Files{63, 64, 65, 66});
}

TEST_CASE_METHOD(OrderTest, "clients do not mix") {
  for (FileId file = 10; file < 12; ++file) {
    CHECK(open(file, 1).empty());
    CHECK(open(file + 400, 2).empty());
  }
  CHECK(open(12, 1) == Files{13, 14, 15, 16});
  CHECK(open(412, 2) == Files{413, 414, 415, 416});
}

TEST_CASE_METHOD(OrderTest, "what is opened at random names little, and is looked at seldom") {
  std::mt19937 random(1);
  std::size_t named = 0;
  for (int i = 0; i < 10'000; ++i) named += open(1 + random() % kFiles).size();
  CHECK(named < 500);
  CHECK(asked < 10'000 * 3 / 8);
  // Who goes by an order from now on is noticed.
  FileId file = 100;
  while (file < 300 && open(file).empty()) ++file;
  CHECK(file < 200);
}

TEST_CASE_METHOD(OrderTest, "an order of its own is learnt when it comes again") {
  const Files mine{5, 900, 333, 42, 777, 128, 650, 11, 512, 204};
  const auto go = [&] {
    std::map<FileId, Files> named;
    for (const FileId file : mine) named[file] = open(file);
    return named;
  };
  for (auto& [file, next] : go()) CHECK(next.empty());
  for (auto& [file, next] : go()) CHECK(next.empty());
  const auto named = go();
  // All but the first two of this pass, and some of the next one.
  std::multiset<FileId> all;
  for (const auto& [file, next] : named) all.insert(next.begin(), next.end());
  for (std::size_t i = 2; i < mine.size(); ++i) {
    CAPTURE(mine[i]);
    CHECK(all.contains(mine[i]));
    CHECK(all.count(mine[i]) <= 2);
  }
  // Nothing is expected of an order that is no more.
  for (int pass = 0; pass < 3; ++pass) {
    for (auto at = mine.rbegin(); at != mine.rend(); ++at) static_cast<void>(open(*at));
  }
  CHECK(open(900, 2).empty());
  const Files next = open(5, 2);
  REQUIRE_FALSE(next.empty());
  CHECK(next.front() == 204);
}

TEST_CASE_METHOD(OrderTest, "who goes by another order each time is told nothing of the others") {
  constexpr FileId kUsed = 100;
  std::vector<FileId> files(kUsed);
  for (FileId i = 0; i < kUsed; ++i) files[i] = 10 * (i + 1);  // no order of the directory
  std::mt19937 random(1);
  const auto pass = [&] {
    std::size_t named = 0;
    for (const FileId file : files) named += open(file).size();
    return named;
  };
  for (int i = 0; i < 4; ++i) static_cast<void>(pass());
  CHECK(pass() >= kUsed - 5);
  for (int i = 0; i < 3; ++i) {
    std::ranges::shuffle(files, random);
    CHECK(pass() < kUsed / 10);
  }
}

TEST_CASE_METHOD(OrderTest, "an order is noticed soon in a directory that was read in none") {
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) static_cast<void>(open(1 + random() % kFiles));
  FileId file = 100;
  while (file < 200 && open(file).empty()) ++file;
  CHECK(file < 120);
}

TEST_CASE("what was used last is kept") {
  RecentMap<int, int> map(10);
  for (int i = 0; i < 4; ++i) map.of(i) = i;
  for (int i = 4; i < 8; ++i) {
    map.of(i) = i;
    REQUIRE(map.find(0) != nullptr);
  }
  for (int i = 8; i < 100; ++i) {
    map.of(i) = i;
    REQUIRE(map.find(0) != nullptr);
    CHECK(*map.find(0) == 0);
    CHECK(*map.find(i - 1) == i - 1);
    CHECK(map.size() <= 10);
  }
  CHECK(map.find(50) == nullptr);
}

}  // namespace weft::mds
