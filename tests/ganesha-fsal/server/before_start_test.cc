#include "ganesha-fsal/server/before_start.h"

#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>

#include "tests/ganesha-fsal/server/server_fixture.h"

namespace weft::mds {

TEST_CASE_METHOD(ServerTest, "before start: addresses and key are looked at without a store") {
  CHECK(check_before_store(options));
  start();  // it has its control address from now on
  const std::string taken = options.control_address;
  CHECK(check_before_store(options).error().text ==
        "Control_Address: " + taken + ": Address already in use");
  options.control_address = "127.0.0.1:0";
  options.metrics_address = taken;
  CHECK(check_before_store(options).error().text ==
        "Metrics_Address: " + taken + ": Address already in use");
  options.metrics_address.clear();
  options.status_address = taken;
  CHECK(check_before_store(options).error().text ==
        "Status_Address: " + taken + ": Address already in use");
  options.status_address = "127.0.0.1:0";
  CHECK(check_before_store(options));
  REQUIRE(::chmod(options.key_file.c_str(), 0644) == 0);
  CHECK(check_before_store(options).error().text.starts_with("Key_File: "));
  options.key_file.clear();
  CHECK(check_before_store(options).error() == Errc::kInvalid);
}

}  // namespace weft::mds
