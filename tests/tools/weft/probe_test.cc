#include "tools/weft/probe.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>

namespace weft::cli {

TEST_CASE("the probe reads back what it wrote and leaves nothing", "[weft]") {
  char name[] = "/var/tmp/weft-probe-test.XXXXXX";
  REQUIRE(::mkdtemp(name) != nullptr);
  const auto done = probe(name, (std::uint64_t{3} << 20) + 4096);
  const bool empty = std::filesystem::is_empty(name);
  std::filesystem::remove_all(name);
  CHECK(empty);
  if (!done && done.error() == Errc::kInvalid) SKIP("no O_DIRECT in /var/tmp");
  CHECK(done);
}

TEST_CASE("the probe says where it could not write", "[weft]") {
  const auto done = probe("/no/such/folder", 4096);
  REQUIRE_FALSE(done);
  CHECK(done.error() == Errc::kNotFound);
}

}  // namespace weft::cli
