#include "ganesha-fsal/files/client_traffic.h"

#include <catch2/catch_test_macros.hpp>

namespace weft::mds {

TEST_CASE("what clients move is counted by client") {
  ClientTraffic traffic;
  traffic.read(1, 100);
  traffic.read(1, 0);
  traffic.wrote(1, 7);
  traffic.wrote(2, 5);
  traffic.wrote(0, 5);  // of no client
  const auto all = traffic.all();
  REQUIRE(all.size() == 2);
  CHECK(all.at(1) == ClientTraffic::Counts{2, 100, 1, 7});
  CHECK(all.at(2) == ClientTraffic::Counts{0, 0, 1, 5});
}

TEST_CASE("a client is forgotten at the second look that does not find it") {
  ClientTraffic traffic;
  traffic.read(1, 1);
  traffic.read(2, 1);
  traffic.look({1});
  CHECK(traffic.all().size() == 2);
  traffic.look({1, 2});  // it was only late
  traffic.look({1});
  CHECK(traffic.all().size() == 2);
  traffic.look({1});
  CHECK(traffic.all().size() == 1);
  CHECK(traffic.all().contains(1));
}

TEST_CASE("no more clients are counted than there is room for") {
  ClientTraffic traffic;
  for (ClientId client = 1; client <= ClientTraffic::kMost + 1; ++client) traffic.read(client, 1);
  CHECK(traffic.all().size() == ClientTraffic::kMost);
  traffic.look({});
  traffic.look({});
  traffic.read(ClientTraffic::kMost + 1, 1);
  CHECK(traffic.all().size() == 1);
}

}  // namespace weft::mds
