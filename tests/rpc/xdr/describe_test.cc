#include "rpc/xdr/describe.h"

#include <catch2/catch_test_macros.hpp>

using namespace weft;

namespace {

struct Point {
  std::uint32_t x = 0;
  std::uint64_t y = 0;
  friend bool operator==(const Point&, const Point&) = default;
};
template <class Io>
void describe(Io& io, Point& r) {
  io("x", r.x);
  io("y", r.y);
  io.check(r.x != 13);
}

struct Everything {
  enum class Kind : std::uint8_t { kFirst = 1, kSecond = 2 };
  Kind kind = Kind::kFirst;
  bool yes = false;
  std::int64_t below = 0;
  std::array<std::byte, 3> fixed{};
  std::string name;
  std::string cut;
  std::vector<std::uint8_t> bytes;
  Point point;
  std::vector<Point> points;
  std::vector<std::string> names;
  friend bool operator==(const Everything&, const Everything&) = default;
};
template <class Io>
void describe(Io& io, Everything& r) {
  io("kind", r.kind, among(Everything::Kind::kFirst, Everything::Kind::kSecond));
  io("yes", r.yes);
  io("below", r.below);
  io("fixed", r.fixed);
  io("name", r.name, at_most(4));
  io("cut", r.cut, cut_at(4));
  io("bytes", r.bytes, at_most(4));
  io("point", r.point);
  io("points", r.points, at_most(2));
  io("names", r.names, cut_at(2, 4));
}

Everything everything() {
  Everything all;
  all.kind = Everything::Kind::kSecond;
  all.yes = true;
  all.below = -2;
  all.fixed = {std::byte{1}, std::byte{2}, std::byte{3}};
  all.name = "name";
  all.cut = "cut";
  all.bytes = {9, 8};
  all.point = {5, UINT64_MAX};
  all.points = {{6, 7}, {8, 9}};
  all.names = {"a", "bc"};
  return all;
}

std::vector<std::byte> wire_of(const auto& record) {
  xdr::Encoder out;
  xdr::put(out, record);
  return out.take();
}

Result<Everything> read(std::span<const std::byte> wire) {
  return xdr::read_whole<Everything>(wire, "record");
}

}  // namespace

TEST_CASE("a described record survives the wire, cut short or longer it does not") {
  auto wire = wire_of(everything());
  CHECK(read(wire).value() == everything());
  for (std::size_t size = 0; size < wire.size(); ++size) {
    CHECK(read(std::span(wire).first(size)).error() == Errc::kProtocol);
  }
  wire.resize(wire.size() + 4);
  CHECK(read(wire).error() == Errc::kProtocol);
}

TEST_CASE("a described record is its fields in their order, as XDR has them") {
  xdr::Encoder out;
  out.u32(2);
  out.boolean(true);
  out.i64(-2);
  out.fixed(everything().fixed);
  out.string("name");
  out.string("cut");
  const auto bytes = std::to_array<std::uint8_t>({9, 8});
  out.opaque(std::as_bytes(std::span(bytes)));
  out.u32(5);
  out.u64(UINT64_MAX);
  out.u32(2);
  out.u32(6);
  out.u64(7);
  out.u32(8);
  out.u64(9);
  out.u32(2);
  out.string("a");
  out.string("bc");
  CHECK(wire_of(everything()) == out.take());
}

TEST_CASE("what is longer than its limit is not read, and written whole or cut, as described") {
  const auto good = [](auto change) {
    Everything all = everything();
    change(all);
    return read(wire_of(all)).has_value();
  };
  CHECK_FALSE(good([](Everything& all) { all.name = "12345"; }));
  CHECK_FALSE(good([](Everything& all) { all.bytes.assign(5, 1); }));
  CHECK_FALSE(good([](Everything& all) { all.points.resize(3); }));
  Everything all = everything();
  all.cut = "12345";
  all.names = {"12345", "6", "7"};
  const auto back = read(wire_of(all)).value();
  CHECK(back.cut == "1234");
  CHECK(back.names == std::vector<std::string>{"1234", "6"});
}

TEST_CASE("values that are none of an enumeration's, and what a check forbids, are not read") {
  for (const std::uint32_t kind : {0U, 3U, 0x102U}) {
    auto wire = wire_of(everything());
    wire[0] = {};
    wire[2] = static_cast<std::byte>(kind >> 8);
    wire[3] = static_cast<std::byte>(kind);
    CHECK_FALSE(read(wire));
  }
  CHECK(xdr::read_whole<Point>(wire_of(Point{12, 0}), "point"));
  CHECK_FALSE(xdr::read_whole<Point>(wire_of(Point{13, 0}), "point"));
}
