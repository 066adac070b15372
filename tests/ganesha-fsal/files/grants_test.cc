#include "ganesha-fsal/files/grants.h"

#include <catch2/catch_test_macros.hpp>

namespace weft::mds {
namespace {

using layout::Access;
using std::chrono::seconds;

const Clock::time_point kStart{};

TEST_CASE("a client holds a file until it gave back every segment") {
  FileGrants grants;
  grants.add(1, Access::kRead, kStart);
  grants.add(1, Access::kReadWrite, kStart + seconds(1));
  REQUIRE(grants.find(1, Access::kRead));
  CHECK(grants.find(1, Access::kRead)->since == kStart);
  CHECK(grants.any_writer());

  CHECK_FALSE(grants.remove_segment(1, Access::kReadWrite));
  CHECK_FALSE(grants.any_writer());
  CHECK_FALSE(grants.empty());
  CHECK(grants.remove_segment(1, Access::kRead));
  CHECK(grants.empty());
}

TEST_CASE("a grant has the devices that its layouts name, as long as it is there") {
  const auto device = [](std::uint64_t number) {
    return std::make_shared<const layout::Device>(layout::Device{.number = number, .members = {}});
  };
  FileGrants grants;
  const auto first = device(1);
  grants.names(1, Access::kRead, first);  // it has no grant
  CHECK(first.use_count() == 1);
  grants.add(1, Access::kRead, kStart);
  grants.names(1, Access::kRead, first);
  grants.names(1, Access::kRead, first);
  CHECK(first.use_count() == 2);
  // A client that asks again and again takes no more memory for that.
  const std::vector later{device(2), device(3), device(4), device(5)};
  for (const auto& one : later) grants.names(1, Access::kRead, one);
  CHECK(first.use_count() == 1);
  for (const auto& one : later) CHECK(one.use_count() == 2);
  CHECK(grants.remove(1));
  for (const auto& one : later) CHECK(one.use_count() == 1);
}

TEST_CASE("returning what nobody remembers is no error") {
  FileGrants grants;
  CHECK(grants.remove_segment(1, Access::kRead));
  CHECK_FALSE(grants.remove(1));
}

TEST_CASE("clients do not mix") {
  FileGrants grants;
  grants.add(1, Access::kRead, kStart);
  grants.add(UINT64_MAX, Access::kReadWrite, kStart);
  CHECK(grants.all().size() == 2);
  CHECK(grants.any_writer());
  CHECK(grants.any_writer(1));
  CHECK_FALSE(grants.any_writer(UINT64_MAX));
  CHECK(grants.remove(UINT64_MAX));
  CHECK_FALSE(grants.any_writer());
  CHECK(grants.all().size() == 1);
  CHECK(grants.segments(1) == 1);
}

TEST_CASE("a recall asks each holder once and keeps the earliest deadline") {
  FileGrants grants;
  grants.add(1, Access::kReadWrite, kStart);
  CHECK(grants.recall(kStart, seconds(30), "moved") ==
        std::vector<Recalled>{{1, Access::kReadWrite}});
  grants.add(2, Access::kRead, kStart);
  CHECK(grants.recall(kStart, seconds(60), "moved again") ==
        std::vector<Recalled>{{2, Access::kRead}});
  CHECK(grants.recall(kStart, seconds(90), "and again").empty());

  CHECK(grants.overdue(kStart + seconds(29)).empty());
  const auto late = grants.overdue(kStart + seconds(30));
  REQUIRE(late.size() == 1);
  CHECK(late[0] == 1);
  CHECK(grants.find(1, Access::kReadWrite)->reason == "moved");
  CHECK(grants.overdue(kStart + seconds(60)).size() == 2);

  CHECK(grants.remove(1));
  CHECK(grants.overdue(kStart + seconds(60)).size() == 1);
}

TEST_CASE("a segment granted during a recall is covered by it") {
  FileGrants grants;
  grants.add(1, Access::kRead, kStart);
  REQUIRE(grants.recall(kStart, seconds(5), "x").size() == 1);
  grants.add(1, Access::kRead, kStart + seconds(1));
  CHECK(grants.find(1, Access::kRead)->state == GrantState::kRecalled);
  CHECK_FALSE(grants.remove_segment(1, Access::kRead));
  CHECK(grants.overdue(kStart + seconds(5)).size() == 1);
}

}  // namespace
}  // namespace weft::mds
