#include "ganesha-fsal/cluster/namesakes.h"

#include <catch2/catch_test_macros.hpp>

namespace weft::mds {
namespace {

ServerView server(std::uint32_t id, std::string name, std::vector<std::string> addresses) {
  ServerView view;
  view.record.id = id;
  view.record.name = std::move(name);
  for (const std::string& text : addresses) {
    view.record.addresses.push_back(layout::parse_address(text).value());
  }
  view.connected = true;
  return view;
}

TEST_CASE("data servers that can be told apart are no namesakes", "[cluster]") {
  CHECK(namesakes({}).empty());
  CHECK(namesakes(std::vector{server(1, "a", {"192.0.2.1:2051", "192.0.3.1:2051"}),
                              server(2, "b", {"192.0.2.1:2052"}),
                              server(3, "c", {"[2001:db8::1]:2051"})})
            .empty());
}

TEST_CASE("of those that cannot it is said which, and what is to be changed", "[cluster]") {
  std::vector<ServerView> servers{server(1, "a", {"192.0.2.1:2051"}),
                                  server(2, "a", {"192.0.3.1:2051", "192.0.2.1:2051"}),
                                  server(5, "a", {"192.0.2.5:2051"})};
  CHECK(namesakes(servers) ==
        std::vector<std::string>{
            "Data servers 1, 2 say that they are at 192.0.2.1:2051: a client may reach only "
            "one of them. Change server.listen, server.advertise or network.addresses "
            "(weft-ds.toml(5)).",
            "Data servers 1, 2, 5 are all called a: change server.name (weft-ds.toml(5))."});
  // A new one where one is that is gone.
  servers[0].connected = false;
  servers[2].connected = false;
  CHECK(namesakes(servers).empty());
}

TEST_CASE("addresses of networks and of RDMA are told apart, too", "[cluster]") {
  std::vector<ServerView> servers{server(1, "a", {"192.0.2.1:2051"}),
                                  server(2, "b", {"192.0.2.2:2051"})};
  const layout::NetAddress one = layout::parse_address("198.51.100.1:2051").value();
  SECTION("a network that was copied") {
    for (ServerView& view : servers) view.record.networks = {{"storage", {{one}}, {}}};
  }
  SECTION("an address for RDMA") {
    for (ServerView& view : servers) view.record.rdma = {one};
  }
  SECTION("one of each") {
    servers[0].record.networks = {{"storage", {{one}}, {}}};
    servers[1].record.rdma = {one};
  }
  REQUIRE(namesakes(servers).size() == 1);
  CHECK(namesakes(servers)[0].contains("1, 2 say that they are at 198.51.100.1:2051"));
}

TEST_CASE("one data server may name an address for several networks", "[cluster]") {
  ServerView view = server(1, "a", {"192.0.2.1:2051"});
  view.record.networks = {{"storage", {{view.record.addresses[0]}}, {}},
                          {"office", {{view.record.addresses[0]}}, {}}};
  CHECK(namesakes(std::vector{view}).empty());
}

}  // namespace
}  // namespace weft::mds
