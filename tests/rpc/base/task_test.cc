#include "rpc/base/task.h"

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <memory>
#include <vector>

namespace weft {
namespace {

using Calls = std::vector<std::move_only_function<void(int)>>;

Task<int> sum_of_two(Calls& calls, std::shared_ptr<int> held, Flow::Self self) {
  int sum = *held;
  Callbacks answers(self);
  for (int i = 0; i < 2; ++i) {
    calls.emplace_back(answers.make([&sum](int value) { sum += value; }));
  }
  co_await answers;
  co_return sum;
}

Flow add(Calls& calls, std::shared_ptr<int> held, int& result) {
  const Flow::Self self = co_await Flow::self();
  result = co_await sum_of_two(calls, held, self);
}

TEST_CASE("a flow goes on when all callbacks were called, and goes with the last") {
  Calls calls;
  auto held = std::make_shared<int>(1);
  int result = 0;
  add(calls, held, result).start();
  REQUIRE(calls.size() == 2);
  calls[1](20);
  CHECK(result == 0);
  calls[0](300);
  CHECK(result == 321);
  calls.clear();
  CHECK(held.use_count() == 1);
}

TEST_CASE("a flow whose callbacks are dropped goes where it waits, with all it holds") {
  Calls calls;
  auto held = std::make_shared<int>(1);
  int result = 0;
  add(calls, held, result).start();
  calls[0](20);
  CHECK(held.use_count() > 1);
  calls.clear();
  CHECK(held.use_count() == 1);
  CHECK(result == 0);
}

TEST_CASE("a callback may be called before it is waited for") {
  int result = 0;
  const auto at_once = [](int& into) -> Flow {
    const Flow::Self self = co_await Flow::self();
    Callbacks answers(self);
    answers.make([&into](int value) { into = value; })(7);
    co_await answers;
    into += 1;
  };
  at_once(result).start();
  CHECK(result == 8);
}

TEST_CASE("a call goes on with the value of its callback, at once or later") {
  Calls calls;
  auto held = std::make_shared<int>(1);
  int result = 0;
  const auto twice = [](Calls& later, std::shared_ptr<int> kept, int& into) -> Flow {
    const Flow::Self self = co_await Flow::self();
    into = *kept + co_await call<int>(self, [](auto done) { done(20); });
    into += co_await call<int>(self, [&](auto done) { later.emplace_back(std::move(done)); });
  };
  twice(calls, held, result).start();
  CHECK(result == 21);
  REQUIRE(calls.size() == 1);
  SECTION("called") {
    calls[0](300);
    CHECK(result == 321);
  }
  SECTION("dropped") {
    calls.clear();
    CHECK(result == 21);
  }
  calls.clear();
  CHECK(held.use_count() == 1);
}

TEST_CASE("a callback may make another one, which is waited for as well") {
  Calls calls;
  int result = 0;
  const auto again = [](Calls& later, int& into) -> Flow {
    const Flow::Self self = co_await Flow::self();
    Callbacks answers(self);
    later.emplace_back(answers.make(
        [&](int) { later.emplace_back(answers.make([&into](int value) { into = value; })); }));
    co_await answers;
    into += 1;
  };
  again(calls, result).start();
  calls.reserve(2);
  calls[0](1);
  CHECK(result == 0);
  REQUIRE(calls.size() == 2);
  calls[1](7);
  CHECK(result == 8);
}

}  // namespace
}  // namespace weft
