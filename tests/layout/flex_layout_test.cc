#include "layout/flex_layout.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>

using namespace weft;
using namespace weft::layout;

namespace {

FlexServer server(std::uint32_t id) {
  FlexServer made;
  made.device = pack({10, 1, 2, id});
  made.efficiency = id * 100;
  made.handle = seal({.ds_id = id}, {});
  made.uid = id;
  made.gid = 65534;
  return made;
}

FlexLayout layout_of(std::uint32_t mirrors, std::uint32_t width) {
  FlexLayout layout;
  layout.stripe_unit = 1 << 20;
  for (std::uint32_t i = 0; i < mirrors; ++i) {
    auto& mirror = layout.mirrors.emplace_back();
    for (std::uint32_t j = 0; j < width; ++j) mirror.push_back(server(i * width + j + 1));
  }
  layout.flags = kFlexNoIoThroughMds;
  layout.stats_seconds = 60;
  return layout;
}

std::vector<std::byte> wire_of(const FlexLayout& layout) {
  xdr::Encoder out;
  REQUIRE(encode(out, layout, true));
  return out.take();
}

std::vector<std::byte> wire_of(const FlexDevice& device) {
  xdr::Encoder out;
  REQUIRE(encode(out, device));
  return out.take();
}

FlexDevice device() {
  FlexDevice made;
  made.addresses = {{make_address("192.0.2.7", 20049).value(), Transport::kRdma},
                    {make_address("192.0.2.7", 2049).value(), Transport::kTcp},
                    {make_address("2001:db8::7", 20049).value(), Transport::kRdma},
                    {make_address("2001:db8::7", 2049).value(), Transport::kTcp}};
  return made;
}

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::ranges::equal(a, b);
}

}  // namespace

TEST_CASE("a flexfiles layout survives the wire, and its size is as computed") {
  CHECK(rc::check([] {
    const auto mirrors = *rc::gen::inRange<std::uint32_t>(1, kMaxFlexMirrors + 1);
    const auto width = *rc::gen::inRange<std::uint32_t>(1, 9);
    FlexLayout layout = layout_of(mirrors, width);
    layout.stripe_unit = *rc::gen::inRange<std::uint64_t>(1, 1 << 20) * 64;
    layout.flags = *rc::gen::inRange<std::uint32_t>(0, 16);
    layout.stats_seconds = *rc::gen::arbitrary<std::uint32_t>();
    for (auto& mirror : layout.mirrors) {
      for (FlexServer& one : mirror) {
        one.uid = *rc::gen::arbitrary<std::uint32_t>();
        one.gid = *rc::gen::inRange<std::uint32_t>(0, 20000);
        one.efficiency = *rc::gen::arbitrary<std::uint32_t>();
        one.stateid[3] = *rc::gen::element(std::byte{0}, std::byte{1});
        one.stateid[15] = std::byte{9};
      }
    }
    xdr::Encoder out;
    RC_ASSERT(encode(out, layout, true).has_value());
    RC_ASSERT(out.size() == flex_layout_bytes(layout));
    const auto back = decode_flex_layout(out.bytes());
    RC_ASSERT(back.has_value());
    RC_ASSERT(*back == layout);
  }));
}

TEST_CASE("the layout's body is laid out as RFC 8435 section 5.1 says") {
  FlexLayout layout = layout_of(1, 1);
  layout.stripe_unit = 0x0102030405060708;
  FlexServer& one = layout.mirrors[0][0];
  for (std::size_t i = 0; i < 16; ++i) one.device[i] = static_cast<std::byte>(0xd0 + i);
  one.efficiency = 7;
  one.stateid[3] = std::byte{5};
  one.stateid[4] = std::byte{0xaa};
  one.handle.fill(std::byte{0x11});
  one.uid = 1000;
  one.gid = 12345;
  auto expected = bytes_of({1, 2, 3, 4, 5, 6, 7, 8,  // ffl_stripe_unit
                            0, 0, 0, 1,              // mirrors
                            0, 0, 0, 1});            // data servers
  for (int i = 0; i < 16; ++i) expected.push_back(static_cast<std::byte>(0xd0 + i));
  const auto head = bytes_of({0, 0, 0, 7,                                         // efficiency
                              0, 0, 0, 5, 0xaa, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  // stateid
                              0, 0, 0, 1, 0,    0, 0, 64});                       // one handle
  expected.insert(expected.end(), head.begin(), head.end());
  expected.insert(expected.end(), 64, std::byte{0x11});
  const auto tail = bytes_of({0, 0, 0, 4, '1', '0', '0', '0',                // user
                              0, 0, 0, 5, '1', '2', '3', '4', '5', 0, 0, 0,  // group
                              0, 0, 0, 2,                                    // ffl_flags
                              0, 0, 0, 60});                                 // stats hint
  expected.insert(expected.end(), tail.begin(), tail.end());
  CHECK(same(wire_of(layout), expected));
}

TEST_CASE("the device's body is laid out as RFC 8435 section 4 says") {
  FlexDevice one;
  one.addresses = {{make_address("192.0.2.7", 20049).value(), Transport::kRdma},
                   {make_address("192.0.2.7", 2049).value(), Transport::kTcp}};
  one.rsize = 0x10000;
  one.wsize = 0x20000;
  const auto expected = bytes_of(
      {0, 0, 0, 2,                       // addresses
       0, 0, 0, 4,  'r', 'd', 'm', 'a',  // netid
       0, 0, 0, 15, '1', '9', '2', '.', '0', '.', '2', '.', '7', '.', '7', '8', '.', '8', '1', 0,
       0, 0, 0, 3,  't', 'c', 'p', 0,  // netid
       0, 0, 0, 13, '1', '9', '2', '.', '0', '.', '2', '.', '7', '.', '8', '.', '1', 0,   0,   0,
       0, 0, 0, 1,  // versions
       0, 0, 0, 4,  0,   0,   0,   1,   0,   1,   0,   0,   0,   2,   0,   0,   0,   0,   0,   1});
  CHECK(same(wire_of(one), expected));
}

TEST_CASE("a flexfiles device survives the wire: IPv4, IPv6, TCP, RDMA, every version") {
  for (const auto& [version, minor] : {std::pair{3U, 0U}, {4U, 0U}, {4U, 1U}, {4U, 2U}}) {
    FlexDevice one = device();
    one.version = version;
    one.minor_version = minor;
    one.tightly_coupled = minor != 0;
    auto wire = wire_of(one);
    CHECK(decode_flex_device(wire).value() == one);
    for (std::size_t size = 0; size < wire.size(); ++size) {
      CHECK_FALSE(decode_flex_device(std::span(wire).first(size)));
    }
    wire.resize(wire.size() + 4);
    CHECK(decode_flex_device(wire).error() == Errc::kProtocol);
  }
}

TEST_CASE("devices that would mislead a client are not encoded") {
  const auto refused = [](auto change) {
    FlexDevice one = device();
    change(one);
    xdr::Encoder out;
    const bool encoded = encode(out, one).has_value();
    return !encoded && out.size() == 0;
  };
  CHECK_FALSE(refused([](FlexDevice&) {}));
  CHECK(refused([](FlexDevice& d) { d.addresses.clear(); }));
  CHECK(refused([](FlexDevice& d) { d.addresses.resize(9); }));
  CHECK(refused([](FlexDevice& d) { d.addresses[0].address = d.addresses[1].address; }));
  CHECK(refused([](FlexDevice& d) { d.rsize = 0; }));
  CHECK(refused([](FlexDevice& d) { d.wsize = 0; }));
  CHECK(refused([](FlexDevice& d) { d.minor_version = 3; }));
  CHECK(refused([](FlexDevice& d) { d.version = 2; }));
  CHECK(refused([](FlexDevice& d) { d.version = 3; }));
}

TEST_CASE("stripes within mirrors go only to clients that decode them") {
  xdr::Encoder out;
  CHECK(encode(out, layout_of(2, 3), false).error() == Errc::kNotSupported);
  CHECK(out.size() == 0);
  CHECK(encode(out, layout_of(2, 1), false));
  CHECK(encode(out, layout_of(2, 3), true));
}

TEST_CASE("layouts that a client would reject or misread are not encoded") {
  const auto refused = [](auto change) {
    FlexLayout layout = layout_of(2, 2);
    change(layout);
    xdr::Encoder out;
    const bool encoded = encode(out, layout, true).has_value();
    return !encoded && out.size() == 0;
  };
  CHECK_FALSE(refused([](FlexLayout&) {}));
  CHECK(refused([](FlexLayout& l) { l.mirrors.clear(); }));
  CHECK(refused([](FlexLayout& l) { l.mirrors.resize(17, l.mirrors[0]); }));
  CHECK(refused([](FlexLayout& l) { l.mirrors[1].pop_back(); }));
  CHECK(refused([](FlexLayout& l) { l.mirrors.assign(2, {}); }));
  CHECK(refused([](FlexLayout& l) { l.stripe_unit = 0; }));
  CHECK(refused([](FlexLayout& l) { l.stripe_unit = 65; }));
  CHECK(refused([](FlexLayout& l) { l.flags = 16; }));
  CHECK(refused([](FlexLayout& l) { l.mirrors[0][0].stateid.fill(std::byte{0xff}); }));
  CHECK(refused([](FlexLayout& l) { l.mirrors[1][1].stateid[3] = std::byte{1}; }));
  CHECK_FALSE(refused([](FlexLayout& l) {  // one server a mirror: the unit says nothing
    for (auto& mirror : l.mirrors) mirror.resize(1);
    l.stripe_unit = 0;
  }));
}

TEST_CASE("flexfiles layouts cut short, longer, or not ours are refused") {
  auto wire = wire_of(layout_of(2, 2));
  for (std::size_t size = 0; size < wire.size(); ++size) {
    CHECK_FALSE(decode_flex_layout(std::span(wire).first(size)));
  }
  const auto with = [&](std::size_t at, int value) {
    auto changed = wire;
    changed[at] = static_cast<std::byte>(value);
    return decode_flex_layout(changed);
  };
  const std::size_t first = 8 + 4 + 4;                           // of the first data server
  CHECK(with(first + 39, 2).error() == Errc::kNotSupported);     // two handles
  CHECK_FALSE(with(first + 43, 60));                             // a handle of 60 bytes
  CHECK(with(first + 112, 'x').error() == Errc::kNotSupported);  // a user by name
  wire.resize(wire.size() + 4);
  CHECK(decode_flex_layout(wire).error() == Errc::kProtocol);
}

TEST_CASE("what a client offers for LAYOUTGET holds some thirty servers") {
  CHECK(flex_layout_bytes(layout_of(16, 1)) <= 4000);
  CHECK(flex_layout_bytes(layout_of(2, 15)) <= 4000);
  CHECK(flex_layout_bytes(layout_of(2, 17)) > 4000);
}

TEST_CASE("efficiency: each mirror is first for its part of the clients, others by spare") {
  const auto firsts = [](std::span<const double> spares) {
    std::vector<int> counts(spares.size());
    for (std::uint64_t client = 0; client < 60; ++client) {
      const auto ranks = efficiencies(spares, UINT64_MAX / 120 * (2 * client + 1));
      REQUIRE(ranks.size() == spares.size());
      ++counts[static_cast<std::size_t>(std::ranges::max_element(ranks) - ranks.begin())];
    }
    return counts;
  };
  const double alike[] = {1, 1, 1};
  CHECK(firsts(alike) == std::vector{20, 20, 20});
  const double half[] = {0.5, 1};
  CHECK(firsts(half) == std::vector{20, 40});
  const double loaded[] = {0.25, 1, 0};
  CHECK(firsts(loaded) == std::vector{0, 60, 0});
  const auto ranks = efficiencies(loaded, 5);
  CHECK(ranks[0] > ranks[2]);
  // All read the best.
  CHECK(efficiencies(half, std::nullopt) == std::vector<std::uint32_t>{500, 2000});
  const double none[] = {0, 0};
  CHECK(efficiencies(none, 1).size() == 2);
  CHECK(efficiencies({}, 1).empty());
}

TEST_CASE("clients are told an address that is configured twice once, and so of the device") {
  const NetAddress first = make_address("192.0.2.1", 2051).value();
  const NetAddress second = make_address("192.0.2.2", 2051).value();
  DeviceMember member{.ds_id = 1, .address_generation = 1, .addresses = {first, second, first}};
  const FlexDevice told = flex_device(member, std::nullopt);
  CHECK(told.addresses == std::vector<DeviceAddress>{first, second});
  xdr::Encoder body;
  REQUIRE(encode(body, told));
  CHECK(decode_flex_device(body.bytes()) == told);

  member.networks = {
      {.name = "n", .addresses = {second, second}, .clients = {parse_range("10.0.0.0/8").value()}}};
  CHECK(flex_device(member, make_address("10.1.1.1", 0).value()).addresses ==
        std::vector<DeviceAddress>{second});
  CHECK(flex_device(member, make_address("203.0.113.1", 0).value()).addresses.empty());
}
