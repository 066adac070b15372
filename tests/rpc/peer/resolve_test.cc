#include "rpc/peer/resolve.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <string>

namespace weft::rpc::peer {
namespace {

TEST_CASE("addresses: what is numeric is taken as it is") {
  const std::string text = GENERATE("192.0.2.1:2051", "[2001:db8::1]:0", "127.0.0.1:9", "[::]:1");
  CHECK(check_address(text));
  CHECK(layout::to_string(resolve_address(text).value()) == text);
}

TEST_CASE("addresses: a name is looked up, and its port kept") {
  CHECK(check_address("localhost:2051"));
  const auto address = resolve_address("localhost:2051");
  REQUIRE(address);
  CHECK(address->port == 2051);
  CHECK((layout::ip_text(*address) == "127.0.0.1" || layout::ip_text(*address) == "::1"));
}

TEST_CASE("addresses: a name that nobody has is said in one line") {
  // Two dots in a row: no resolver asks anybody for it.
  const auto address = resolve_address("weft..example:2051");
  REQUIRE_FALSE(address);
  CHECK(address.error() == Errc::kUnreachable);
  CHECK(address.error().text.starts_with("'weft..example:2051' cannot be looked up here: "));
  CHECK(address.error().text.find('\n') == std::string::npos);
}

TEST_CASE("addresses: what is neither is refused without asking anybody") {
  const std::string text =
      GENERATE("", ":", ":2051", "host", "host:", "host:x", "host:65536", "host:-1", "ho st:1",
               "192.0.2.300:1", "192.0.2:1", "1:1", "2001:db8::1:80", "[host]:1", "host.:1",
               "host:1:2", "h\nost:1", "rdma://host:1");
  CAPTURE(text);
  CHECK_FALSE(check_address(text));
  const auto address = resolve_address(text);
  REQUIRE_FALSE(address);
  CHECK(address.error().text.contains("is not an address or a name with a port"));
  CHECK_FALSE(check_address(std::string(254, 'a') + ":1"));
}

}  // namespace
}  // namespace weft::rpc::peer
