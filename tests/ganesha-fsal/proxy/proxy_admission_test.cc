#include "ganesha-fsal/proxy/proxy_admission.h"

#include <catch2/catch_test_macros.hpp>
#include <optional>

using namespace weft;
using namespace weft::mds;

TEST_CASE("calls and bytes of one data server are bounded, and leave the others theirs") {
  ProxyAdmission admission({.calls = 2, .server_bytes = 100, .bytes = 150});
  auto first = admission.admit({{1, 60}});
  REQUIRE(first);
  SECTION("bytes of a server") {
    CHECK(admission.admit({{1, 41}}).error() == Errc::kBusy);
    CHECK(admission.admit({{1, 40}}));
  }
  SECTION("calls of a server") {
    const auto second = admission.admit({{1, 0}});
    REQUIRE(second);
    CHECK(admission.admit({{1, 0}}).error() == Errc::kBusy);
    CHECK(admission.admit({{2, 0}, {2, 0}}));
  }
  SECTION("bytes altogether") {
    CHECK(admission.admit({{2, 91}}).error() == Errc::kBusy);
    CHECK(admission.admit({{2, 90}}));
  }
  SECTION("all calls of an operation or none") {
    CHECK(admission.admit({{2, 10}, {1, 41}}).error() == Errc::kBusy);
    const auto all = admission.admit({{2, 90}});  // nothing of it was left behind
    CHECK(all);
  }
}

TEST_CASE("what ended makes room, and an operation alone is admitted whatever its size") {
  ProxyAdmission admission({.calls = 1, .server_bytes = 100, .bytes = 150});
  {
    const auto large = admission.admit({{1, 1000}, {1, 1000}});
    REQUIRE(large);
    CHECK(admission.admit({{2, 1}}).error() == Errc::kBusy);
  }
  const auto after = admission.admit({{1, 100}});
  REQUIRE(after);
  CHECK(admission.admit({{2, 50}}));
}
