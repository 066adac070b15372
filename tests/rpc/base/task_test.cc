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

}  // namespace
}  // namespace weft
