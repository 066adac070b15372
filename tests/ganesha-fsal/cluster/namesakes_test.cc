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
            "Data servers 1, 2 say that they are at 192.0.2.1:2051: clients reach only one of "
            "them. Change server.listen or server.advertise (weft-ds.toml(5)).",
            "Data servers 1, 2, 5 are all called a: change server.name (weft-ds.toml(5))."});
  // A new one where one is that is gone.
  servers[0].connected = false;
  servers[2].connected = false;
  CHECK(namesakes(servers).empty());
}

}  // namespace
}  // namespace weft::mds
