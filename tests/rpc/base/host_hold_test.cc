#include "rpc/base/host_hold.h"

#include <catch2/catch_test_macros.hpp>
#include <memory>

#include "rpc/base/buffer.h"

using namespace weft;

TEST_CASE("a host holds its share of memory and no more, but always one request") {
  BufferPool pool(std::size_t{1} << 20);
  const std::size_t share = pool.limit_bytes() / HostShare::kPart;
  const auto host = std::make_shared<HostShare>();
  {
    auto first = HostHold::take(host, pool, share - 1);
    REQUIRE(first);
    CHECK_FALSE(HostHold::take(host, pool, 2));
    CHECK(host->bytes == share - 1);  // what was refused is not counted
    const auto second = HostHold::take(host, pool, 1);
    CHECK(second);
    first.reset();
    CHECK(host->bytes == 1);
  }
  CHECK(host->bytes == 0);
  CHECK(HostHold::take(host, pool, 2 * share));
  CHECK(host->bytes == 0);
}
