#include "ganesha-fsal/cluster/gather.h"

#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "ganesha-fsal/cluster/await.h"

using namespace weft;
using namespace weft::mds;

TEST_CASE("all parts together make one outcome") {
  std::optional<Result<>> outcome;
  const auto all = Gather::make(3, [&](Result<> result) { outcome = std::move(result); });
  auto first = all->one();
  auto second = all->one();
  auto third = all->one();
  first({});
  second(fail(Errc::kNoSpace, "first failure"));
  CHECK_FALSE(outcome);
  third(fail(Errc::kIo, "second failure"));
  REQUIRE(outcome);
  CHECK(outcome->error() == Errc::kNoSpace);
}

TEST_CASE("no parts are a success at once") {
  bool done = false;
  (void)Gather::make(0, [&](const Result<>& result) { done = result.has_value(); });
  CHECK(done);
}

TEST_CASE("waiting returns what was completed, at once or from another thread") {
  CHECK(await<int>([](rpc::control::Done<int> done) { done(7); }).value() == 7);
  std::thread other;
  CHECK(await<int>([&](rpc::control::Done<int> done) {
          other = std::thread([done = std::move(done)]() mutable { done(fail(Errc::kIo)); });
        }).error() == Errc::kIo);
  other.join();
}
