#include "ganesha-fsal/server/file_handle.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tests/hex.h"

namespace weft::mds {
namespace {

constexpr layout::HandleKey kKey{std::byte{1}, std::byte{2}, std::byte{3}};
constexpr FileId kTop = 77;

std::vector<std::byte> with_seal(const WireHandle& wire, const HandleSeal& seal) {
  std::vector<std::byte> bytes(wire.begin(), wire.end());
  bytes.insert(bytes.end(), seal.begin(), seal.end());
  return bytes;
}

}  // namespace

// Clients keep handles over restarts and new versions.
TEST_CASE("the bytes of a handle, and of its seal, stay as they are") {
  const WireHandle wire = make_wire_handle(0x01020304, 0x0a0b0c0d0e0f1011, 0x2122232425262728);
  CHECK(test::hex(wire) == "01000000010203040a0b0c0d0e0f10112122232425262728");
  CHECK(test::hex(seal_for(kTop, wire, kKey)) == "8f174d518af83846");
}

TEST_CASE("a handle is read back, with a seal or without") {
  const WireHandle wire = make_wire_handle(5, 6, 7);
  for (const bool sealed : {false, true}) {
    const auto bytes = sealed ? with_seal(wire, seal_for(kTop, wire, kKey))
                              : std::vector<std::byte>(wire.begin(), wire.end());
    const auto parts = parse_wire_handle(bytes);
    REQUIRE(parts);
    CHECK(parts->fsid == 5);
    CHECK(parts->file == 6);
    CHECK(parts->store == 7);
  }
}

TEST_CASE("what is no handle is refused") {
  const WireHandle wire = make_wire_handle(5, 6, 7);
  for (std::size_t size = 0; size < wire.size() + kHandleSealBytes + 2; ++size) {
    std::vector<std::byte> bytes(size);
    std::copy_n(wire.begin(), std::min(size, wire.size()), bytes.begin());
    const bool good = size == kWireHandleBytes || size == kWireHandleBytes + kHandleSealBytes;
    CHECK(parse_wire_handle(bytes).has_value() == good);
  }
  for (std::size_t at = 0; at < 4; ++at) {
    WireHandle other = wire;
    other[at] ^= std::byte{2};
    CHECK(parse_wire_handle(other).error() == Errc::kBadHandle);
  }
}

TEST_CASE("a seal is of one directory, one handle and one key") {
  const WireHandle wire = make_wire_handle(5, 6, 7);
  const auto bytes = with_seal(wire, seal_for(kTop, wire, kKey));
  CHECK(has_seal(bytes, kTop, kKey));
  CHECK_FALSE(has_seal(bytes, kTop + 1, kKey));
  CHECK_FALSE(has_seal(bytes, kTop, layout::HandleKey{}));
  CHECK_FALSE(has_seal(wire, kTop, kKey));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    auto changed = bytes;
    changed[at] ^= std::byte{1};
    CHECK_FALSE(has_seal(changed, kTop, kKey));
  }
}

}  // namespace weft::mds
