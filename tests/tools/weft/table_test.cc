#include "tools/weft/table.h"

#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>

namespace weft::cli {

TEST_CASE("tables align, numbers to the right, no blanks at the end", "[weft]") {
  Table table({"NAME", "SIZE", "NOTE"});
  CHECK(table.empty());
  table.add({"a", "1.00 KiB", "first"});
  table.add({"long name", "12 B"});
  CHECK_FALSE(table.empty());
  CHECK(table.text() ==
        "NAME           SIZE  NOTE\n"
        "a          1.00 KiB  first\n"
        "long name      12 B\n");
}

TEST_CASE("names of several bytes a letter keep the columns", "[weft]") {
  Table table({"NAME", "X"});
  table.add({"gr\xc3\xbc\xc3\x9f", "a"});
  table.add({"abcd", "b"});
  CHECK(table.text() == "NAME  X\ngr\xc3\xbc\xc3\x9f  a\nabcd  b\n");
}

TEST_CASE("a table that is too wide shortens what it may, the widest first") {
  Table table({"ID", "NAME", "DOMAIN"}, {"NAME", "DOMAIN"});
  table.add({"1", "short", std::string(100, 'd') + "1"});
  table.add({"2", "alpha", std::string(100, 'd') + "2"});
  CHECK(table.text() == "ID  NAME   DOMAIN\n 1  short  " + std::string(34, 'd') + "…" +
                            std::string(33, 'd') + "1\n 2  alpha  " + std::string(34, 'd') + "…" +
                            std::string(33, 'd') + "2\n");
  // One that is as narrow as its head keeps no other from it.
  Table narrowest({"ID", "A LONG HEAD", "NAME"}, {"A LONG HEAD", "NAME"});
  narrowest.add({"1" + std::string(60, '2'), std::string(11, 'a'), std::string(11, 'n')});
  CHECK(narrowest.fits());
  CHECK(narrowest.text().ends_with("  " + std::string(11, 'a') + "  nn…n\n"));
  Table stays({"ID", "NAME"}, {"ID"});
  stays.add({"1", std::string(90, 'n')});
  CHECK(stays.text() == "ID  NAME\n 1  " + std::string(90, 'n') + "\n");
}

TEST_CASE("what is shortened keeps begin and end") {
  CHECK(shortened("abcdef", 6) == "abcdef");
  CHECK(shortened("abcdefg", 6) == "abc…fg");
  CHECK(shortened("abcdefg", 1) == "…");
  CHECK(shortened("gr\xc3\xbc\xc3\x9f \xc3\xbcx", 4) == "gr…x");
  CHECK(shortened("\xc3\xbc\xc3\x9f\xc3\xbc\xc3\x9f", 3) == "\xc3\xbc…\xc3\x9f");
}

TEST_CASE("text is wrapped behind its head") {
  CHECK(wrapped("head  ", "one two") == "head  one two\n");
  const std::string word(36, 'w');
  CHECK(wrapped("12345  ", word + " " + word + " x  y") ==
        "12345  " + word + " " + word + "\n       x  y\n");
  CHECK(wrapped("1234  ", word + " " + word + " x") ==
        "1234  " + word + " " + word + "\n      x\n");
  CHECK(wrapped("", std::string(90, 'w') + " x") == std::string(90, 'w') + "\nx\n");
}

TEST_CASE("sizes have three digits that count", "[weft]") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1024) == "1.00 KiB");
  CHECK(human_bytes(std::uint64_t{256} << 20) == "256 MiB");
  CHECK(human_bytes((std::uint64_t{1000} << 20)) == "0.98 GiB");
  CHECK(human_bytes((std::uint64_t{1} << 30) * 12 + (std::uint64_t{1} << 29)) == "12.5 GiB");
  CHECK(human_bytes(~std::uint64_t{0}) == "16.0 EiB");
  CHECK(rc::check("a few characters and a unit",
                  [](std::uint64_t bytes) { RC_ASSERT(human_bytes(bytes).size() <= 8); }));
}

TEST_CASE("durations are read at a glance", "[weft]") {
  CHECK(human_duration(0) == "0 ms");
  CHECK(human_duration(850) == "850 ms");
  CHECK(human_duration(12'345) == "12.3 s");
  CHECK(human_duration(59'999) == "59.9 s");
  CHECK(human_duration(245'000) == "4 min 5 s");
  CHECK(human_duration(3 * 3'600'000 + 120'000) == "3 h 2 min");
  CHECK(human_duration(std::uint64_t{100} * 3'600'000) == "4 d 4 h");
}

TEST_CASE("counts are grouped", "[weft]") {
  CHECK(human_count(0) == "0");
  CHECK(human_count(999) == "999");
  CHECK(human_count(1000) == "1,000");
  CHECK(human_count(1'234'567) == "1,234,567");
}

TEST_CASE("there is a short word for a long time, and a great count") {
  CHECK(short_duration(850) == "850 ms");
  CHECK(short_duration(59'900) == "59.9 s");
  CHECK(short_duration(245'000) == "4 min");
  CHECK(short_duration(119 * 60'000) == "119 min");
  CHECK(short_duration(120 * 60'000) == "2 h");
  CHECK(short_duration(std::uint64_t{48} * 3'600'000) == "2 d");
  CHECK(short_count(999'999) == "999,999");
  CHECK(short_count(1'234'567) == "1.23 M");
  CHECK(short_count(999'700'000) == "1.00 G");
  CHECK(rc::check("seven columns",
                  [](std::uint64_t count) { RC_ASSERT(short_count(count).size() <= 7); }));
}

TEST_CASE("what could disturb a terminal is shown, not sent", "[weft]") {
  CHECK(printable("a\nb\x1b[2J") == "a\\x0ab\\x1b[2J");
  CHECK(printable("gr\xc3\xbc\xc3\x9f") == "gr\xc3\xbc\xc3\x9f");
}

}  // namespace weft::cli
