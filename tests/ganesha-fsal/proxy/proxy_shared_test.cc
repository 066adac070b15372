// The proxy and data servers of its own machine.
#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "tests/ganesha-fsal/proxy/proxy_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

std::uint64_t to_servers(ProxyFixture& f) {
  std::uint64_t bytes = 0;
  for (const auto& server : f.servers) bytes += server->shared->to_server;
  return bytes;
}

std::uint64_t from_servers(ProxyFixture& f) {
  std::uint64_t bytes = 0;
  for (const auto& server : f.servers) bytes += server->shared->to_client;
  return bytes;
}

}  // namespace

TEST_CASE("data servers of the same machine are written and read through shared memory") {
  ProxyFixture f(3, 1, 5s, true);
  CHECK(f.proxy->route(1).transport == "none");
  const auto data = pattern(20 * kUnit, 1);
  REQUIRE(f.write(0, data));
  REQUIRE(f.commit());
  CHECK(f.bytes(0, 20 * kUnit) == data);
  CHECK(to_servers(f) == data.size());
  CHECK(from_servers(f) == data.size());
  std::uint64_t counted = 0;
  for (std::uint32_t id = 1; id <= 3; ++id) {
    CHECK(f.proxy->route(id).transport == "shared memory");
    counted += f.proxy->route(id).shared_bytes;
  }
  CHECK(counted == 2 * data.size());
}

TEST_CASE("any offset and size is right through shared memory") {
  ProxyFixture f(2, 1, 5s, true);
  const std::size_t sizes[] = {1, 4095, 4097, 5001, kUnit - 1, kUnit + 3, 3 * kUnit + 4099};
  std::vector<std::byte> expected(8 * kUnit);
  std::uint32_t seed = 0;
  for (const std::size_t size : sizes) {
    const std::size_t offset = 7 * size % (3 * kUnit);
    const auto data = pattern(size, ++seed);
    REQUIRE(f.write(offset, data));
    std::ranges::copy(data, expected.begin() + static_cast<std::ptrdiff_t>(offset));
    const auto end = static_cast<std::ptrdiff_t>(f.size);
    CHECK(f.bytes(0, static_cast<std::uint32_t>(f.size)) ==
          std::vector<std::byte>(expected.begin(), expected.begin() + end));
    CHECK(f.bytes(offset, static_cast<std::uint32_t>(size)) == data);
  }
}

TEST_CASE(
    "every copy is written and read through shared memory, and one that dies is done without") {
  ProxyFixture f(1, 2, 5s, true);
  const auto data = pattern(6 * kUnit, 3);
  REQUIRE(f.write(0, data));
  CHECK(f.objects(1).object == data);
  CHECK(f.objects(2).object == data);
  f.kill(2);
  CHECK(f.bytes(0, 6 * kUnit) == data);
  CHECK(f.write(0, data));
}

TEST_CASE("without the socket what is under way goes by TCP, and no call fails") {
  ProxyFixture f(1, 1, 10s, true);
  const auto data = pattern(4 * kUnit, 4);
  REQUIRE(f.write(0, data));
  f.servers[0]->unlisten();
  for (int i = 0; i < 20; ++i) {
    REQUIRE(f.write(0, data));
    REQUIRE(f.bytes(0, 4 * kUnit) == data);
  }
  CHECK(f.proxy->route(1).transport == "tcp");
}

TEST_CASE("a proxy without memory to share goes by TCP") {
  ProxyFixture f(2);
  const auto data = pattern(4 * kUnit, 7);
  REQUIRE(f.write(0, data));
  CHECK(f.bytes(0, 4 * kUnit) == data);
  CHECK(f.proxy->route(1).transport == "tcp");
  CHECK(f.proxy->route(1).shared_bytes == 0);
}
