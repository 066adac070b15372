#include "ganesha-fsal/cluster/given_up.h"

#include <catch2/catch_test_macros.hpp>

namespace weft::mds {
namespace {

constexpr GivenUp::Where kThere{3, {.fileid = 5, .generation = 1}};
constexpr GivenUp::Where kElsewhere{4, {.fileid = 5, .generation = 1}};

TEST_CASE("given up: a change that is waited for is in nobody's way") {
  const auto all = std::make_shared<GivenUp>();
  const GivenUp::Change change(all, kThere);
  CHECK_FALSE(all->has(kThere));
}

TEST_CASE("given up: a change is in the way there until it has ended, and nowhere else") {
  const auto all = std::make_shared<GivenUp>();
  auto change = std::make_unique<GivenUp::Change>(all, kThere);
  change->give_up();
  CHECK(all->has(kThere));
  CHECK_FALSE(all->has(kElsewhere));
  change.reset();
  CHECK_FALSE(all->has(kThere));
}

TEST_CASE("given up: of two changes of one object the last one counts") {
  const auto all = std::make_shared<GivenUp>();
  auto first = std::make_unique<GivenUp::Change>(all, kThere);
  auto second = std::make_unique<GivenUp::Change>(all, kThere);
  first->give_up();
  first->give_up();
  second->give_up();
  first.reset();
  CHECK(all->has(kThere));
  second.reset();
  CHECK_FALSE(all->has(kThere));
}

TEST_CASE("given up: a change may outlive whoever looks") {
  auto all = std::make_shared<GivenUp>();
  auto change = std::make_unique<GivenUp::Change>(all, kThere);
  change->give_up();
  all.reset();
  change.reset();
}

}  // namespace
}  // namespace weft::mds
