#include "layout/net_address.h"

#include <catch2/catch_test_macros.hpp>

using namespace weft;
using namespace weft::layout;

TEST_CASE("universal addresses are written as RFC 5665 says") {
  const auto v4 = make_address("192.0.2.7", 2049).value();
  CHECK(netid(v4) == "tcp");
  CHECK(universal_address(v4) == "192.0.2.7.8.1");
  const auto v6 = make_address("2001:DB8:0::7", 20490).value();
  CHECK(netid(v6) == "tcp6");
  CHECK(universal_address(v6) == "2001:db8::7.80.10");
  CHECK(parse_universal("tcp", "192.0.2.7.8.1").value() == v4);
  CHECK(parse_universal("tcp6", "2001:db8::7.80.10").value() == v6);
}

TEST_CASE("malformed universal addresses are refused") {
  for (const char* text : {"", ".", "..", "1.2", ".1.2", "192.0.2.7", "192.0.2.7.8", "192.0.2.7.8.",
                           "192.0.2.7..1", "192.0.2.7.256.1", "192.0.2.7.8.-1", "192.0.2.7.8.1.1",
                           "2001:db8::7.8.1", "192.0.2.7.8.+1", "192.0.2.7.8.1 "}) {
    INFO(text);
    CHECK_FALSE(parse_universal("tcp", text));
  }
  CHECK_FALSE(parse_universal("tcp6", "192.0.2.7.8.1"));
  CHECK_FALSE(parse_universal("udp", "192.0.2.7.8.1"));
  CHECK_FALSE(parse_universal("rdma", "192.0.2.7.8.1"));
  CHECK_FALSE(parse_universal("tcp6", std::string(1000, ':') + ".8.1"));
}

TEST_CASE("netids of RDMA are told from those of TCP, and read like them") {
  const auto v4 = make_address("192.0.2.7", 20049).value();
  const auto v6 = make_address("2001:db8::7", 20049).value();
  const DeviceAddress by_tcp = v4;
  const DeviceAddress by_rdma(v4, Transport::kRdma);
  CHECK(by_tcp != by_rdma);
  CHECK(netid(by_tcp) == "tcp");
  CHECK(netid(by_rdma) == "rdma");
  CHECK(netid(DeviceAddress(v6, Transport::kRdma)) == "rdma6");
  CHECK(to_string(by_tcp) == "192.0.2.7:20049");
  CHECK(to_string(DeviceAddress(v6, Transport::kRdma)) == "rdma://[2001:db8::7]:20049");
  CHECK(parse_device_address("rdma", "192.0.2.7.78.81").value() == by_rdma);
  CHECK(parse_device_address("tcp", "192.0.2.7.78.81").value() == by_tcp);
  CHECK(parse_device_address("rdma6", "2001:db8::7.78.81")->transport == Transport::kRdma);
  CHECK_FALSE(parse_device_address("rdma6", "192.0.2.7.78.81"));
  CHECK_FALSE(parse_device_address("rdma", "2001:db8::7.78.81"));
  CHECK_FALSE(parse_device_address("rdma7", "192.0.2.7.78.81"));
  const DeviceAddress both[] = {by_rdma, v6};
  CHECK(only(Transport::kTcp, both) == std::vector{v6});
  CHECK(only(Transport::kRdma, both) == std::vector{v4});
}

TEST_CASE("addresses read as people write them") {
  const auto v4 = make_address("192.0.2.7", 2049).value();
  const auto v6 = make_address("2001:db8::7", 2049).value();
  CHECK(to_string(v4) == "192.0.2.7:2049");
  CHECK(to_string(v6) == "[2001:db8::7]:2049");
  CHECK(parse_address("192.0.2.7:2049").value() == v4);
  CHECK(parse_address("[2001:db8::7]:2049").value() == v6);
  for (const char* text : {"", "192.0.2.7", "192.0.2.7:", ":2049", "2001:db8::7:2049",
                           "[192.0.2.7]:2049", "192.0.2.7:65536", "host:2049", "[]:1"}) {
    INFO(text);
    CHECK_FALSE(parse_address(text));
  }
}

TEST_CASE("netaddr4 survives the wire, and cut short it is refused") {
  const auto v6 = make_address("2001:db8::7", 2049).value();
  xdr::Encoder out;
  xdr::put(out, v6);
  xdr::Decoder in(out.bytes());
  NetAddress back;
  xdr::get(in, back);
  CHECK(back == v6);
  CHECK(in.ok());
  for (std::size_t size = 0; size < out.size() - 3; ++size) {
    xdr::Decoder cut(out.bytes().first(size));
    xdr::get(cut, back);
    CHECK_FALSE(cut.ok());
  }
}
