#include "ganesha-fsal/server/signs_of_life.h"

#include <catch2/catch_test_macros.hpp>
#include <future>
#include <vector>

#include "tests/ganesha-fsal/server/server_fixture.h"

namespace weft::mds {
namespace {

struct Signs {
  // What a thread that hangs leaves undone.
  SignsOfLife::Part part() {
    return {.ask = [this](std::function<void()> give) { asked.push_back(std::move(give)); },
            .store_waits = [this] { return store_waits; }};
  }
  void give() {
    for (const auto& one : std::exchange(asked, {})) one();
  }
  std::vector<std::function<void()>> asked;
  bool store_waits = false;
  bool at_disk = false;
  SignsOfLife signs{[this] { return at_disk; }};
};

}  // namespace

TEST_CASE_METHOD(Signs, "signs of life: marks come as long as each part gives its sign") {
  const auto first = signs.add(part());
  auto second = signs.add(part());
  CHECK(signs.look());
  CHECK(asked.size() == 2);
  give();
  CHECK(signs.look());
  asked.front()();
  asked.erase(asked.begin());
  CHECK_FALSE(signs.look());
  CHECK(asked.size() == 2);  // who owes a sign is not asked for another
  CHECK_FALSE(signs.look());
  give();
  CHECK(signs.look());

  SECTION("and of those that have gone nothing is expected") {
    asked.pop_back();
    give();
    second = {};
    CHECK(signs.look());
    CHECK(asked.size() == 1);
    give();
    CHECK(signs.look());
  }
}

TEST_CASE_METHOD(Signs, "signs of life: a store that waits, or a disk, is an excuse") {
  const auto held = signs.add(part());
  const auto other = signs.add({.ask = [](const std::function<void()>& give) { give(); }});
  CHECK(signs.look());
  store_waits = true;
  CHECK(signs.look());
  CHECK(signs.look());
  store_waits = false;
  CHECK_FALSE(signs.look());
  at_disk = true;
  CHECK(signs.look());
  at_disk = false;
  CHECK_FALSE(signs.look());
}

TEST_CASE_METHOD(ServerTest, "signs of life: of the thread that serves data servers") {
  start();
  {
    SignsOfLife signs([] { return false; });
    const auto held =
        signs.add({.ask = [this](auto give) { sign_of(server->cluster(), std::move(give)); }});
    REQUIRE(await_that([&] { return signs.look(); }));
    std::promise<void> hangs;
    std::promise<void> goes_on;
    sign_of(server->cluster(), [&] {
      hangs.set_value();
      goes_on.get_future().wait();
    });
    hangs.get_future().wait();
    static_cast<void>(signs.look());
    CHECK_FALSE(signs.look());
    CHECK_FALSE(signs.look());
    goes_on.set_value();
    CHECK(await_that([&] { return signs.look(); }));
  }
  stop();
}

}  // namespace weft::mds
