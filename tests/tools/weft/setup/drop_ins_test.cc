#include "tools/weft/setup/drop_ins.h"

#include <catch2/catch_test_macros.hpp>

namespace weft::cli {

TEST_CASE("a machine without CAP_SYS_RESOURCE is known by its bounding set", "[setup]") {
  CHECK_FALSE(lacks_sys_resource("Name:\tinit\nCapBnd:\t000001ffffffffff\nCapAmb:\t0\n"));
  CHECK(lacks_sys_resource("Name:\tinit\nCapBnd:\t000001fffeffffff\nCapAmb:\t0\n"));
  CHECK(lacks_sys_resource("Name:\tinit\nCapBnd:\t0000000000000000"));
  CHECK_FALSE(lacks_sys_resource("Name:\tinit\n"));
  CHECK_FALSE(lacks_sys_resource("Name:\tinit\nCapBnd:\t"));
}

}  // namespace weft::cli
