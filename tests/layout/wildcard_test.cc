#include "layout/wildcard.h"

#include <catch2/catch_test_macros.hpp>

using namespace weft::layout;

TEST_CASE("a wildcard is the address of all interfaces, with any port") {
  CHECK(is_wildcard(make_address("0.0.0.0", 2049).value()));
  CHECK(is_wildcard(make_address("::", 0).value()));
  CHECK_FALSE(is_wildcard(make_address("0.0.0.1", 2049).value()));
  CHECK_FALSE(is_wildcard(make_address("::1", 2049).value()));
  CHECK_FALSE(is_wildcard(make_address("192.0.2.7", 0).value()));
}
