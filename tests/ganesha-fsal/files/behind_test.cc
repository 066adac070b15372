#include "ganesha-fsal/files/behind.h"

#include <catch2/catch_test_macros.hpp>
#include <future>
#include <vector>

namespace weft::mds {
namespace {

using namespace std::chrono_literals;

struct Fixture {
  std::promise<void> open;
  std::shared_future<void> gate{open.get_future().share()};
  Behind behind;

  Result<> hold(FileId file) {
    return behind.run(file, 1ms, [gate = gate]() -> Result<> {
      gate.wait_for(30s);
      return {};
    });
  }
};

TEST_CASE_METHOD(Fixture, "what ends in time has a result") {
  CHECK(behind.run(1, 1min, []() -> Result<> { return {}; }));
  const auto failed =
      behind.run(1, 1min, []() -> Result<> { return fail(Errc::kNoSpace, "full"); });
  CHECK(failed.error() == Errc::kNoSpace);
}

TEST_CASE_METHOD(Fixture, "what takes long goes on, once for each file") {
  CHECK(hold(1).error() == Errc::kBusy);
  CHECK(behind.run(1, 1min, []() -> Result<> { return {}; }).error() == Errc::kBusy);
  CHECK(behind.run(2, 1min, []() -> Result<> { return {}; }));
  open.set_value();
  Result<> again = fail(Errc::kBusy);
  while (!again) again = behind.run(1, 1min, []() -> Result<> { return {}; });
}

TEST_CASE_METHOD(Fixture, "what is too much is refused") {
  FileId file = 0;
  while (hold(++file).error().text != "too much waits for data servers") REQUIRE(file < 1000);
  CHECK(hold(file).error() == Errc::kBusy);  // and is not under way
  open.set_value();
  Result<> after = fail(Errc::kBusy);
  while (!after) after = behind.run(file, 1min, []() -> Result<> { return {}; });
  behind.stop();
  CHECK(behind.run(1, 1min, []() -> Result<> { return {}; }).error() == Errc::kBusy);
}

}  // namespace
}  // namespace weft::mds
