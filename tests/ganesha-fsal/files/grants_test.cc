#include "ganesha-fsal/files/grants.h"

#include <catch2/catch_test_macros.hpp>

namespace weft::mds {
namespace {

using layout::Access;
using std::chrono::seconds;

const Clock::time_point kStart{};

TEST_CASE("a client holds a file until it gave back every segment") {
  GrantTable table;
  table.add(7, 1, Access::kRead, kStart);
  table.add(7, 1, Access::kReadWrite, kStart + seconds(1));
  REQUIRE(table.find(7, 1, Access::kRead));
  CHECK(table.find(7, 1, Access::kRead)->since == kStart);
  CHECK(table.any_writer(7));

  CHECK_FALSE(table.remove_segment(7, 1, Access::kReadWrite));
  CHECK_FALSE(table.any_writer(7));
  CHECK(table.any_of_file(7));
  CHECK(table.remove_segment(7, 1, Access::kRead));
  CHECK_FALSE(table.any_of_file(7));
  CHECK(table.size() == 0);
}

TEST_CASE("returning what nobody remembers is no error") {
  GrantTable table;
  CHECK(table.remove_segment(7, 1, Access::kRead));
  CHECK_FALSE(table.remove(7, 1));
}

TEST_CASE("files and clients do not mix") {
  GrantTable table;
  table.add(6, 9, Access::kReadWrite, kStart);
  table.add(7, 1, Access::kRead, kStart);
  table.add(7, UINT64_MAX, Access::kRead, kStart);
  table.add(8, 0, Access::kReadWrite, kStart);
  CHECK(table.of_file(7).size() == 2);
  CHECK_FALSE(table.any_writer(7));
  CHECK(table.any_writer(8));
  CHECK(table.all(3).size() == 3);
  CHECK(table.remove(7, UINT64_MAX));
  CHECK(table.of_file(7).size() == 1);
}

TEST_CASE("a recall asks each holder once and keeps the earliest deadline") {
  GrantTable table;
  table.add(7, 1, Access::kReadWrite, kStart);
  CHECK(table.recall(7, kStart, seconds(30), "moved") ==
        std::vector<Recalled>{{1, Access::kReadWrite}});
  table.add(7, 2, Access::kRead, kStart);
  CHECK(table.recall(7, kStart, seconds(60), "moved again") ==
        std::vector<Recalled>{{2, Access::kRead}});
  CHECK(table.recall(7, kStart, seconds(90), "and again").empty());

  CHECK(table.overdue(kStart + seconds(29)).empty());
  const auto late = table.overdue(kStart + seconds(30));
  REQUIRE(late.size() == 1);
  CHECK(late[0].client == 1);
  CHECK(late[0].reason == "moved");
  CHECK(table.overdue(kStart + seconds(60)).size() == 2);

  CHECK(table.remove(7, 1));
  CHECK(table.overdue(kStart + seconds(60)).size() == 1);
}

TEST_CASE("a segment granted during a recall is covered by it") {
  GrantTable table;
  table.add(7, 1, Access::kRead, kStart);
  REQUIRE(table.recall(7, kStart, seconds(5), "x").size() == 1);
  table.add(7, 1, Access::kRead, kStart + seconds(1));
  CHECK(table.find(7, 1, Access::kRead)->state == GrantState::kRecalled);
  CHECK_FALSE(table.remove_segment(7, 1, Access::kRead));
  CHECK(table.overdue(kStart + seconds(5)).size() == 1);
}

}  // namespace
}  // namespace weft::mds
