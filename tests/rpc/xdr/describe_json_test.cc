#include "rpc/xdr/describe_json.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace weft;

namespace {

enum class Colour : std::uint8_t { kRed = 1, kGreen = 2 };
std::string_view to_string(Colour colour) { return colour == Colour::kRed ? "red" : "green"; }

struct Point {
  std::uint32_t x = 0;
  std::int64_t y = 0;
  friend bool operator==(const Point&, const Point&) = default;
};
template <class Io>
void describe(Io& io, Point& r) {
  io("x", r.x);
  io("y", r.y);
  io.check(r.x != 13);
}

struct Everything {
  Colour colour = Colour::kRed;
  bool yes = false;
  std::uint64_t many = 0;
  double part = 0;
  std::string name;
  std::string cut;
  std::optional<std::uint32_t> maybe;
  Point point;
  std::vector<Point> points;
  std::vector<std::string> names;
  friend bool operator==(const Everything&, const Everything&) = default;
};
template <class Io>
void describe(Io& io, Everything& r) {
  io("colour", r.colour, among(Colour::kRed, Colour::kGreen));
  io("yes", r.yes);
  io("many", r.many);
  io("part", r.part);
  io("name", r.name, at_most(4));
  io("cut", r.cut, cut_at(4));
  io("maybe", r.maybe);
  io("point", r.point);
  io("points", r.points, at_most(2));
  io("names", r.names, cut_at(2, 4));
}

Everything everything() {
  return {Colour::kGreen,    true,       UINT64_MAX, 0.25, "name", "cut", 7, {5, INT64_MIN},
          {{6, 7}, {8, -9}}, {"a", "bc"}};
}

constexpr const char* kText =
    R"({"colour":"green","yes":true,"many":18446744073709551615,"part":0.25,"name":"name",)"
    R"("cut":"cut","maybe":7,"point":{"x":5,"y":-9223372036854775808},)"
    R"("points":[{"x":6,"y":7},{"x":8,"y":-9}],"names":["a","bc"]})";

Result<Everything> read(std::string_view text) {
  auto document = parse_json(text, 8);
  if (!document) return pass(document);
  return from_json<Everything>(*document, "record");
}

// What reading says after one member was replaced.
std::string refused(const char* pointer, const Json& value) {
  Json document = to_json(everything());
  document[Json::json_pointer(pointer)] = value;
  const auto back = from_json<Everything>(document, "record");
  return back ? "" : back.error().text;
}

}  // namespace

TEST_CASE("a described record as JSON has its fields by name, and comes back") {
  CHECK(write_json(to_json(everything())) == kText);
  CHECK(read(kText).value() == everything());
  Everything without = everything();
  without.maybe.reset();
  CHECK_FALSE(to_json(without).contains("maybe"));
  CHECK(from_json<Everything>(to_json(without), "record").value() == without);
}

TEST_CASE("every member is needed but an optional one, and one not known does no harm") {
  for (const auto& member : to_json(everything()).items()) {
    Json document = to_json(everything());
    document.erase(member.key());
    const auto back = from_json<Everything>(document, "record");
    INFO(member.key());
    CHECK(back.has_value() == (member.key() == "maybe"));
    if (!back) CHECK(back.error().text == "malformed record: " + member.key());
  }
  CHECK(refused("/more", 3).empty());
}

TEST_CASE("members of other types, out of range or too long are refused") {
  CHECK(refused("/colour", "blue") == "malformed record: colour");
  CHECK(refused("/colour", 1) == "malformed record: colour");
  CHECK_FALSE(refused("/yes", 1).empty());
  CHECK_FALSE(refused("/many", -1).empty());
  CHECK_FALSE(refused("/many", 1.5).empty());
  CHECK_FALSE(refused("/many", "1").empty());
  CHECK_FALSE(refused("/part", "1").empty());
  CHECK(refused("/part", 1).empty());
  CHECK_FALSE(refused("/point/x", std::uint64_t{1} << 32).empty());
  CHECK(refused("/point/y", UINT64_MAX) == "malformed record: y");
  CHECK_FALSE(refused("/point/x", 13).empty());  // the check
  CHECK_FALSE(refused("/point", Json::array()).empty());
  CHECK_FALSE(refused("/points", Json::object()).empty());
  CHECK_FALSE(refused("/points/2", to_json(Point{})).empty());
  CHECK_FALSE(refused("/name", "12345").empty());
  CHECK_FALSE(refused("/names/1", "12345").empty());
  CHECK_FALSE(refused("/name", nullptr).empty());
  CHECK_FALSE(from_json<Everything>(Json::array(), "record"));
}

TEST_CASE("what is to be cut is written so short that it is read") {
  Everything all = everything();
  all.cut = "12345";
  all.names = {"12345", "6", "7"};
  const auto back = from_json<Everything>(to_json(all), "record").value();
  CHECK(back.cut == "1234");
  CHECK(back.names == std::vector<std::string>{"1234", "6"});
}

TEST_CASE("texts that are no UTF-8 come over a line as they are") {
  Everything all = everything();
  all.name = "a\xff\n";
  all.names = {std::string("\0\x80", 2)};
  const std::string line = write_json(to_json(all));
  CHECK(line.contains(R"("name":[97,255,10])"));
  CHECK_FALSE(line.contains('\n'));
  CHECK(read(line).value() == all);
  CHECK_FALSE(refused("/name", Json{1, 256}).empty());
  CHECK_FALSE(refused("/name", Json{1, 2, 3, 4, 5}).empty());
}

TEST_CASE("what is no JSON, or too deep, is refused") {
  CHECK(parse_json("[[1]]", 2));
  CHECK(parse_json("[[[1]]]", 2).error() == Errc::kProtocol);
  CHECK(parse_json(R"({"a":[{"b":1}]})", 2).error() == Errc::kProtocol);
  CHECK(parse_json(std::string(1'000'000, '['), 8).error() == Errc::kProtocol);
  const std::string text = GENERATE("", "{", "{} {}", "{\"a\":}", "\"\xff\"", "[1,]", "nul");
  INFO(text);
  CHECK(parse_json(text, 8).error() == Errc::kProtocol);
}
