#include "layout/device_table.h"

#include <array>
#include <catch2/catch_test_macros.hpp>

#include "layout/striping.h"

using namespace weft;
using namespace weft::layout;

namespace {

NetAddress address(std::uint16_t port) { return make_address("192.0.2.1", port).value(); }

Device device(std::uint64_t number, std::uint32_t generation = 1) {
  return {number, {{3, generation, {address(2049)}}, {4, 1, {address(2050), address(2051)}}}};
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

TEST_CASE("a device id is 16 bytes that begin with the FSAL's number") {
  const DeviceId id{10, 0x0203, 0x04050607, 0x08090a0b0c0d0e0f};
  const DeviceIdBytes packed = pack(id);
  CHECK(packed[0] == std::byte{10});
  CHECK(unpack(packed).value() == id);
  DeviceIdBytes other = packed;
  other[1] = std::byte{2};
  CHECK(unpack(other).error() == Errc::kInvalid);
}

TEST_CASE("a device is found by number and by members at their generations") {
  DeviceTable table(7);
  CHECK(table.next_number() == 1);
  REQUIRE(table.add(device(1)));
  CHECK(table.next_number() == 2);
  CHECK(table.find(1)->members.size() == 2);
  CHECK(table.find(2) == nullptr);
  const DeviceTable::Key same[] = {{3, 1}, {4, 1}};
  CHECK(table.find(same)->number == 1);
  const DeviceTable::Key newer[] = {{3, 2}, {4, 1}};
  CHECK(table.find(newer) == nullptr);
  const DeviceTable::Key reordered[] = {{4, 1}, {3, 1}};
  CHECK(table.find(reordered) == nullptr);
}

TEST_CASE("a device id never changes its meaning") {
  DeviceTable table(7);
  REQUIRE(table.add(device(1)));
  CHECK(table.add(device(1)));
  CHECK(table.add(device(1, 2)).error() == Errc::kExists);
  REQUIRE(table.add(device(5, 2)));
  CHECK(table.next_number() == 6);
  CHECK(table.size() == 2);
}

TEST_CASE("of devices that nobody has those are kept that were used last") {
  DeviceTable table(7);
  for (std::uint64_t number = 1; number <= 10; ++number) {
    REQUIRE(table.add(device(number, static_cast<std::uint32_t>(number))));
  }
  const auto key = [](std::uint32_t number) {
    return std::array<DeviceTable::Key, 2>{{{3, number}, {4, 1}}};
  };
  using Numbers = std::vector<std::uint64_t>;
  CHECK(table.forgettable(10).empty());
  CHECK(table.forgettable(7) == Numbers{1, 2, 3});
  CHECK(table.use(key(2))->number == 2);
  CHECK(table.forgettable(7) == Numbers{1, 3, 4});
  CHECK(table.find(key(1))->number == 1);
  CHECK(table.find(1)->number == 1);
  CHECK(table.forgettable(7) == Numbers{1, 3, 4});
  {
    const auto had = table.find(3);
    CHECK(table.forgettable(7) == Numbers{1, 4});
  }
  // Not the last one, or its number would be used once more.
  for (const std::uint64_t number : table.forgettable(0)) table.forget(number);
  CHECK(table.size() == 1);
  CHECK(table.next_number() == 11);
  CHECK(table.find(key(9)) == nullptr);
  CHECK(table.use(key(9)) == nullptr);
  CHECK(table.find(key(10))->number == 10);
  table.forget(9);  // once more
  CHECK(table.size() == 1);
  const auto got = table.find(10);
  table.forget(10);
  CHECK(table.find(10) == got);
}

TEST_CASE("devices that make no sense are refused") {
  DeviceTable table(7);
  CHECK_FALSE(table.add({0, device(1).members}));
  CHECK_FALSE(table.add({1, {}}));
  CHECK_FALSE(table.add({1, {{3, 1, {}}}}));
  CHECK_FALSE(table.add({1, std::vector(kMaxServers + 1, device(1).members[0])}));
  CHECK_FALSE(table.add({1, {{3, 1, std::vector<DeviceAddress>(kMaxAddresses + 1, address(1))}}}));
  CHECK_FALSE(table.add({1, {{3, 1, {{address(1), Transport::kRdma}, address(1)}}}}));
  CHECK(table.add({1, {{3, 1, {{address(2), Transport::kRdma}, address(1)}}}}));
}

TEST_CASE("a device's durable form comes back equal and is checked") {
  std::string stored = encode_device(device(9));
  CHECK(decode_device(bytes_of(stored)).value() == device(9));
  for (std::size_t size = 0; size < stored.size(); ++size) {
    CHECK_FALSE(decode_device(bytes_of(stored.substr(0, size))));
  }
  CHECK_FALSE(decode_device(bytes_of(stored + std::string(4, '\0'))));
  stored[3] = 2;  // with addresses for RDMA, which it has not
  CHECK(decode_device(bytes_of(stored)).error() == Errc::kCorrupt);
  stored[3] = 3;  // with networks
  CHECK(decode_device(bytes_of(stored)).error() == Errc::kCorrupt);
  stored[3] = 4;
  CHECK(decode_device(bytes_of(stored)).error() == Errc::kNotSupported);
}

TEST_CASE("a device with RDMA is of a form of its own, and others are as they were") {
  CHECK(encode_device(device(9))[3] == 1);
  const Device both{9, {{3, 1, {{address(20049), Transport::kRdma}, address(2049)}}}};
  std::string stored = encode_device(both);
  CHECK(stored[3] == 2);
  CHECK(decode_device(bytes_of(stored)).value() == both);
  stored[3] = 1;
  CHECK(decode_device(bytes_of(stored)).error() == Errc::kCorrupt);
}
