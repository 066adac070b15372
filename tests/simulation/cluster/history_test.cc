#include "tests/simulation/cluster/history.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace weft::sim {
namespace {

using Bytes = std::vector<std::byte>;
using Catch::Matchers::ContainsSubstring;

// A file of four blocks, and what a read of block 1 may find.
struct HistoryTest {
  static constexpr std::size_t kBlock = 1;

  // What a read finds that began before, or begins now.
  [[nodiscard]] std::string wrong(const Bytes& bytes, std::uint32_t promised) const {
    return history.wrong(kBlock, bytes, promised);
  }
  [[nodiscard]] std::string wrong(const Bytes& bytes) const {
    return wrong(bytes, history.promised()[kBlock]);
  }
  Bytes write() { return history.next(kBlock); }
  Bytes sync() {
    Bytes bytes = write();
    history.promise(kBlock);
    return bytes;
  }
  // `first` up to a sector, `second` from there on.
  static Bytes join(Bytes first, const Bytes& second, std::size_t sector) {
    const auto at = static_cast<std::ptrdiff_t>(sector * kSectorBytes);
    std::copy(second.begin() + at, second.end(), first.begin() + at);
    return first;
  }

  History history{7, 4};
  const Bytes zeros = Bytes(kBlockBytes);
};

TEST_CASE_METHOD(HistoryTest, "a block nobody wrote is zeros, or nothing at all") {
  CHECK(wrong(zeros).empty());
  CHECK(wrong({}).empty());
}

TEST_CASE_METHOD(HistoryTest, "what was promised must be there") {
  const Bytes first = sync();
  CHECK(wrong(first).empty());
  CHECK_THAT(wrong(zeros), ContainsSubstring("zeros of 0, promised 1"));
  CHECK_FALSE(wrong({}).empty());
  const Bytes second = sync();
  CHECK(wrong(second).empty());
  CHECK_THAT(wrong(first), ContainsSubstring("holds 1, promised 2, tried 2"));
}

TEST_CASE_METHOD(HistoryTest, "what was promised counts for who begins to read later") {
  const Bytes first = sync();
  const std::uint32_t before = history.promised()[kBlock];
  const Bytes second = sync();
  CHECK(wrong(first, before).empty());
  CHECK(wrong(second, before).empty());
  CHECK_FALSE(wrong(zeros, before).empty());
}

TEST_CASE_METHOD(HistoryTest, "what was tried may be there, sector by sector") {
  const Bytes first = sync();
  const Bytes second = write();
  for (std::size_t sector = 0; sector <= kBlockBytes / kSectorBytes; ++sector) {
    CHECK(wrong(join(second, first, sector)).empty());
    CHECK(wrong(join(first, second, sector)).empty());
  }
  CHECK(history.last(kBlock) == second);
  history.promise(kBlock);
  CHECK_THAT(wrong(join(second, first, 5)), ContainsSubstring("sector 5 holds 1, promised 2"));
}

TEST_CASE_METHOD(HistoryTest, "what nobody has written is wrong") {
  const Bytes first = sync();
  History other(7, 4);
  static_cast<void>(other.next(kBlock));
  CHECK_THAT(wrong(other.next(kBlock)), ContainsSubstring("holds 2, promised 1, tried 1"));
}

TEST_CASE_METHOD(HistoryTest, "bytes of another place are wrong") {
  sync();
  CHECK_THAT(wrong(history.next(0)), ContainsSubstring("bytes of file 7 block 0"));
  History other(8, 4);
  CHECK_THAT(wrong(other.next(kBlock)), ContainsSubstring("bytes of file 8 block 1"));
  Bytes moved = history.last(kBlock);
  std::rotate(moved.begin(), moved.begin() + kSectorBytes, moved.end());
  CHECK_FALSE(wrong(moved).empty());
}

TEST_CASE_METHOD(HistoryTest, "a sector is whole") {
  const Bytes first = sync();
  const Bytes second = write();
  Bytes torn = first;
  std::copy_n(second.begin() + 100, 50, torn.begin() + 100);
  CHECK_THAT(wrong(torn), ContainsSubstring("sector 0 is torn"));
  torn = first;
  torn[kBlockBytes - 1] ^= std::byte{1};
  CHECK_THAT(wrong(torn), ContainsSubstring("sector 7 is torn"));
  // Zeros that nobody has made are no end of the file.
  torn = first;
  std::fill(torn.end() - 100, torn.end(), std::byte{0});
  CHECK_THAT(wrong(torn), ContainsSubstring("sector 7 is torn"));
}

TEST_CASE_METHOD(HistoryTest, "where the file was cut are zeros") {
  const Bytes first = sync();
  history.cut(kBlock);
  // Until that is promised either may be there.
  CHECK(wrong(first).empty());
  CHECK(wrong(zeros).empty());
  CHECK(wrong({}).empty());
  CHECK(wrong(join(first, zeros, 3)).empty());
  history.promise(kBlock);
  CHECK(wrong(zeros).empty());
  CHECK_THAT(wrong(first), ContainsSubstring("holds 1, promised 2"));
}

TEST_CASE_METHOD(HistoryTest, "a file that grows again may end anywhere in what was not promised") {
  sync();
  history.cut(kBlock);
  history.promise(kBlock);
  Bytes grown = write();
  CHECK(wrong(grown).empty());
  std::fill(grown.begin() + 1000, grown.end(), std::byte{0});
  CHECK(wrong(grown).empty());
  history.promise(kBlock);
  CHECK_FALSE(wrong(grown).empty());
  CHECK_FALSE(wrong(zeros).empty());
}

TEST_CASE_METHOD(HistoryTest, "a change that is told again has the same bytes behind it") {
  sync();
  CHECK(history.wrong_change(history.look(), 5).empty());
  CHECK(history.wrong_change(history.look(), 5).empty());
  write();
  CHECK(history.wrong_change(history.look(), 5).empty());  // nobody was promised anything
  const History::Look before = history.look();
  history.promise(kBlock);
  CHECK(history.wrong_change(before, 5).empty());
  CHECK_THAT(history.wrong_change(history.look(), 5), ContainsSubstring("as it had before write"));
  CHECK(history.wrong_change(history.look(), 6).empty());
  CHECK_THAT(history.wrong_change(history.look(), 5), ContainsSubstring("has change 5 after 6"));
}

TEST_CASE_METHOD(HistoryTest, "what had begun when a change was told may be behind it") {
  sync();
  write();
  CHECK(history.wrong_change(history.look(), 5).empty());
  history.promise(kBlock);
  CHECK(history.wrong_change(history.look(), 5).empty());
  sync();
  CHECK_FALSE(history.wrong_change(history.look(), 5).empty());
}

}  // namespace
}  // namespace weft::sim
