#include "ganesha-fsal/meta/name_page.h"

#include <catch2/catch_test_macros.hpp>
#include <set>

namespace weft::mds {
namespace {

using Names = std::vector<std::string>;

Names numbered(int count) {
  Names names;
  for (int i = 0; i < count; ++i) names.push_back("user.number" + std::to_string(i));
  return names;
}

// All that a caller is told who comes back until the end. `between` changes the names after each
// page.
template <class Between>
std::multiset<std::string> told(Names names, const NamePageLimits& limits, Between between) {
  std::multiset<std::string> all;
  std::uint64_t cookie = 0;
  for (int pages = 0; pages < 10'000; ++pages) {
    const auto page = name_page(names, cookie, limits);
    REQUIRE(page);
    CHECK(page->names.size() <= limits.names);
    all.insert(page->names.begin(), page->names.end());
    if (page->end) return all;
    CHECK(page->cookie > cookie);
    cookie = page->cookie;
    between(names);
  }
  FAIL("no end");
  return all;
}

TEST_CASE("pages together have every name once") {
  const Names names = numbered(1000);
  for (const std::size_t most : {1U, 7U, 1000U, 5000U}) {
    const auto all = told(names, {.names = most, .bytes = 1 << 20}, [](Names&) {});
    CHECK(all == std::multiset<std::string>(names.begin(), names.end()));
  }
  CHECK(told({}, {.names = 1, .bytes = 100}, [](Names&) {}).empty());
}

TEST_CASE("names that come and go meanwhile neither hide nor double others") {
  int made = 0;
  const auto all = told(numbered(100), {.names = 3, .bytes = 1 << 20}, [&](Names& names) {
    names.erase(names.begin());  // of the first hundred, until all are gone
    names.push_back("user.new" + std::to_string(made++ % 20));
    std::set<std::string> once(names.begin(), names.end());
    names.assign(once.begin(), once.end());
  });
  for (const std::string& name : std::set<std::string>(all.begin(), all.end())) {
    CHECK(all.count(name) == 1);
  }
  // What was there all the while is told.
  const auto stayed = told(numbered(100), {.names = 3, .bytes = 1 << 20}, [&](Names& names) {
    std::erase(names, "user.number" + std::to_string(made++ % 50));
  });
  for (int i = 50; i < 100; ++i) CHECK(stayed.contains("user.number" + std::to_string(i)));
}

TEST_CASE("a page is within the bytes its caller takes") {
  const Names names = {"user.a", "user.b", "user.c"};  // 4 + 8 bytes each
  CHECK(name_page(names, 0, {.names = 10, .bytes = 11}).error() == Errc::kTooLarge);
  CHECK(name_page(names, 0, {.names = 10, .bytes = 12})->names.size() == 1);
  CHECK(name_page(names, 0, {.names = 10, .bytes = 35})->names.size() == 2);
  CHECK_FALSE(name_page(names, 0, {.names = 10, .bytes = 35})->end);
  CHECK(name_page(names, 0, {.names = 10, .bytes = 36})->end);
}

}  // namespace
}  // namespace weft::mds
