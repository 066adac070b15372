#include "layout/client_network.h"

#include <catch2/catch_test_macros.hpp>

#include "layout/device_table.h"
#include "layout/files_layout.h"

using namespace weft;
using namespace weft::layout;

namespace {

NetAddress at(std::string_view ip, std::uint16_t port = 0) {
  return make_address(ip, port).value();
}
AddressRange range(std::string_view text) { return parse_range(text).value(); }

std::vector<ClientNetwork> two_networks() {
  return {{.name = "office",
           .addresses = {at("192.0.2.1", 2051)},
           .clients = {range("192.0.2.0/24"), range("2001:db8:1::/48")}},
          {.name = "storage",
           .addresses = {{at("10.0.0.1", 20049), Transport::kRdma}, at("10.0.0.1", 2051)},
           .clients = {range("10.0.0.0/8")}}};
}

const std::string* name_for(const std::vector<ClientNetwork>& networks, std::string_view client) {
  const ClientNetwork* found = network_for(networks, at(client));
  return found == nullptr ? nullptr : &found->name;
}

}  // namespace

TEST_CASE("a range of addresses reads as people write it, and holds what it says") {
  CHECK(to_string(range("10.1.0.0/16")) == "10.1.0.0/16");
  CHECK(to_string(range("192.0.2.7")) == "192.0.2.7/32");
  CHECK(to_string(range("2001:db8::/33")) == "2001:db8::/33");
  CHECK(contains(range("10.1.0.0/16"), at("10.1.255.255")));
  CHECK_FALSE(contains(range("10.1.0.0/16"), at("10.2.0.0")));
  CHECK(contains(range("10.128.0.0/9"), at("10.200.0.1")));
  CHECK_FALSE(contains(range("10.128.0.0/9"), at("10.127.0.1")));
  CHECK(contains(range("0.0.0.0/0"), at("203.0.113.9")));
  CHECK_FALSE(contains(range("0.0.0.0/0"), at("2001:db8::1")));
  CHECK(contains(range("::/0"), at("2001:db8::1")));
  CHECK(contains(range("2001:db8::/33"), at("2001:db8:7fff::1")));
  CHECK_FALSE(contains(range("2001:db8::/33"), at("2001:db8:8000::1")));
  CHECK(contains(range("192.0.2.7"), at("192.0.2.7", 800)));
  CHECK_FALSE(contains(range("192.0.2.7"), at("192.0.2.6")));
}

TEST_CASE("what is no range is refused, and the message says how one looks") {
  for (const char* text : {"", "/", "/24", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x",
                           "10.0.0.0/08/8", "10.0.0/8", "2001:db8::/129", "host/8", "10.0.0.1/24",
                           "2001:db8::1/64", "10.0.0.0/99999999999"}) {
    INFO(text);
    CHECK_FALSE(parse_range(text));
  }
  CHECK(parse_range("10.0.0.1/24").error().text.contains("10.0.0.0/24 would do"));
}

TEST_CASE("a client is told the addresses of the narrowest range it is in") {
  auto networks = two_networks();
  CHECK(*name_for(networks, "192.0.2.9") == "office");
  CHECK(*name_for(networks, "2001:db8:1::9") == "office");
  CHECK(*name_for(networks, "10.9.9.9") == "storage");
  CHECK(name_for(networks, "203.0.113.1") == nullptr);
  CHECK(name_for(networks, "2001:db8:2::9") == nullptr);
  CHECK(network_for(networks, std::nullopt) == nullptr);
  // Ganesha's sockets are of IPv6.
  CHECK(*name_for(networks, "::ffff:10.9.9.9") == "storage");
  networks[0].clients.push_back(range("10.9.0.0/16"));
  CHECK(*name_for(networks, "10.9.9.9") == "office");
  CHECK(*name_for(networks, "10.8.9.9") == "storage");
}

TEST_CASE("networks that do not go together are refused") {
  CHECK(validate(two_networks()));
  CHECK(validate(std::vector<ClientNetwork>{}));
  const auto refused = [](const auto& spoil) {
    auto networks = two_networks();
    spoil(networks);
    const auto outcome = validate(networks);
    return outcome ? std::string() : outcome.error().text;
  };
  CHECK(refused([](auto& n) { n[1].name = "office"; }) == "two networks are named 'office'");
  CHECK(refused([](auto& n) { n[1].name = ""; }).contains("needs a name"));
  CHECK(refused([](auto& n) { n[1].addresses.clear(); }).contains("'storage' needs 1 to 8"));
  CHECK(refused([](auto& n) { n[1].clients.clear(); }).contains("'storage' needs 1 to 32"));
  CHECK(refused([](auto& n) { n[0].addresses[0].address.port = 0; }).contains("cannot connect"));
  CHECK(refused([](auto& n) { n[0].addresses[0] = at("0.0.0.0", 2051); }).contains("cannot conn"));
  CHECK(refused([](auto& n) { n[1].addresses[0].address.port = 2051; }).contains("both for"));
  CHECK(refused([](auto& n) {
          n[1].clients.push_back(range("192.0.2.0/24"));
        }).contains("192.0.2.0/24 are of two networks, 'office' and 'storage'"));
  CHECK(refused([](auto& n) { n.resize(kMaxNetworks + 1, n[0]); }).contains("at most 8"));
}

TEST_CASE("a device has for each client the addresses of its network") {
  Device device{.number = 1,
                .members = {{1, 1, {at("192.0.2.1", 2051)}, two_networks()},
                            {2, 1, {at("192.0.2.2", 2051)}, {}}}};
  REQUIRE(validate(device));
  const auto told = [&device](std::string_view client) {
    return files_device(device, at(client)).servers;
  };
  CHECK(told("192.0.2.9")[0] == std::vector<DeviceAddress>{at("192.0.2.1", 2051)});
  CHECK(told("10.9.9.9")[0] == two_networks()[1].addresses);
  CHECK(told("203.0.113.1")[0].empty());
  CHECK(told("203.0.113.1")[1].size() == 1);
  CHECK(files_device(device).servers[0].empty());
  xdr::Encoder out;
  CHECK_FALSE(encode(out, files_device(device, at("203.0.113.1"))));

  const std::string kept = encode_device(device);
  CHECK(decode_device(std::as_bytes(std::span(kept))).value() == device);
  for (std::size_t size = 0; size < kept.size(); ++size) {
    CHECK_FALSE(decode_device(std::as_bytes(std::span(kept)).first(size)));
  }
  device.members[0].networks[1].name = "office";
  CHECK_FALSE(validate(device));
}

TEST_CASE("a device without networks is kept as it was before there were any") {
  const Device device{.number = 1, .members = {{1, 1, {at("192.0.2.1", 2051)}, {}}}};
  const std::string kept = encode_device(device);
  CHECK(std::string_view(kept).substr(0, 4) == std::string_view("\0\0\0\1", 4));
}
