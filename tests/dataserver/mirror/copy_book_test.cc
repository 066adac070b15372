#include "dataserver/mirror/copy_book.h"

#include <catch2/catch_test_macros.hpp>

namespace weft::ds {
namespace {

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1, .fsid = 1};

ExtentSet one(ByteRange range) {
  ExtentSet set;
  set.add(range);
  return set;
}

TEST_CASE("what was missed holds for its epoch, until it is forgotten") {
  CopyBook book;
  CHECK_FALSE(book.missed(kObject, 2, 1, {0, 10}));
  book.mark_missed(kObject, 2, 1, one({0, 100}));
  CHECK(book.missed(kObject, 2, 1, {0, 10}));
  CHECK_FALSE(book.missed(kObject, 2, 1, {90, 110}));
  CHECK_FALSE(book.missed(kObject, 3, 1, {0, 10}));
  CHECK(book.missed(kObject, 2, 0, {0, 10}));  // an older handle
  CHECK_FALSE(book.missed(kObject, 2, 2, {0, 10}));
  book.mark_missed(kObject, 2, 2, one({0, 100}));
  book.forget(kObject, 2);
  CHECK_FALSE(book.missed(kObject, 2, 2, {0, 10}));
  CHECK(book.size() == 0);
}

TEST_CASE("a COMMIT settles what was there when it began, and no more") {
  CopyBook book;
  book.add_uncommitted(kObject, 2, {0, 10});
  const auto first = book.owed(kObject, 2);
  CHECK(first.uncommitted == one({0, 10}));
  book.add_uncommitted(kObject, 2, {50, 60});
  const auto second = book.owed(kObject, 2);  // one that begins before the first is over
  CHECK(second.uncommitted.covers({0, 10}));
  CHECK(second.uncommitted.covers({50, 60}));
  book.settled(kObject, 2, first.generation);
  CHECK(book.owed(kObject, 2).uncommitted == one({50, 60}));
  book.settled(kObject, 2, second.generation);
  CHECK(book.owed(kObject, 2).uncommitted.empty());
  CHECK(book.size() == 0);
}

TEST_CASE("a late settling does not touch what came after an entry was gone") {
  CopyBook book;
  book.add_uncommitted(kObject, 2, {0, 10});
  const auto late = book.owed(kObject, 2);
  book.settled(kObject, 2, late.generation);
  book.add_uncommitted(kObject, 2, {20, 30});
  book.settled(kObject, 2, late.generation);
  CHECK(book.owed(kObject, 2).uncommitted == one({20, 30}));
}

TEST_CASE("a book that is full forgets what may be forgotten, and nothing that is owed") {
  CopyBook book;
  book.add_uncommitted(kObject, 2, {0, 10});
  for (std::uint64_t i = 2; i < 200'000; ++i) {
    book.mark_missed({i, 1, 1}, 2, 1, one({0, 10}));
  }
  CHECK(book.size() < 100'000);
  CHECK_FALSE(book.owed(kObject, 2).uncommitted.empty());
}

}  // namespace
}  // namespace weft::ds
