// The files after one, in the orders a directory has.
#include "ganesha-fsal/meta/following.h"

#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

struct FollowingTest : NamespaceTest {
  std::vector<std::string> after(std::string_view name, FileOrder order, std::size_t limit = 100) {
    std::vector<std::string> names_found;
    const auto found = files_after(store.latest(), folder, name, order, limit);
    REQUIRE(found);
    for (const NamedFile& next : *found) {
      CHECK(names->lookup(folder, next.name)->id == next.id);
      names_found.push_back(next.name);
    }
    return names_found;
  }
  FileId folder = dir(kRootFileId, "dir");
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE_METHOD(FollowingTest, "files follow as listed, by name, and by number") {
  for (const char* const name : {"f10", "f9", "a", "f11", "f8"}) file(folder, name);
  dir(folder, "f12");
  file(folder, "f13");
  file(dir(kRootFileId, "other"), "z");
  CHECK(after("f9", FileOrder::kListing) == Names{"a", "f11", "f8", "f13"});
  CHECK(after("f9", FileOrder::kListing, 2) == Names{"a", "f11"});
  CHECK(after("a", FileOrder::kNames) == Names{"f10", "f11", "f13", "f8", "f9"});
  CHECK(after("f8", FileOrder::kNumbers) == Names{"f9", "f10", "f11"});  // a directory ends it
  CHECK(after("f8", FileOrder::kNumbers, 2) == Names{"f9", "f10"});
  CHECK(after("f13", FileOrder::kListing).empty());
  CHECK(after("f9", FileOrder::kNames).empty());
  CHECK(after("a", FileOrder::kNumbers).empty());
  CHECK(after("gone", FileOrder::kListing).empty());
  CHECK(after("c", FileOrder::kNames, 1) == Names{"f10"});
}

TEST_CASE("the next number in a name") {
  CHECK(next_in_numbers("img9.png") == "img10.png");
  CHECK(next_in_numbers("a009") == "a010");
  CHECK(next_in_numbers("a999") == "a1000");
  CHECK(next_in_numbers("7") == "8");
  CHECK(next_in_numbers("v2-part3.tar") == "v2-part4.tar");
  CHECK(next_in_numbers("readme").empty());
  CHECK(next_in_numbers("").empty());
  CHECK(next_in_numbers("1234567890123456789").empty());
  CHECK(next_in_numbers("x999999999999999999") == "x1000000000000000000");
}
