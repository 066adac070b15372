#include "rpc/base/units.h"

#include <catch2/catch_test_macros.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;

TEST_CASE("units: sizes") {
  CHECK(parse_bytes("0") == 0);
  CHECK(parse_bytes("12B") == 12);
  CHECK(parse_bytes("64K") == 65536);
  CHECK(parse_bytes("64 KiB") == 65536);
  CHECK(parse_bytes("1.5 MiB") == 3 << 19);
  CHECK(parse_bytes("0.125K") == 128);
  CHECK(parse_bytes("3 PiB") == std::int64_t{3} << 50);
  CHECK(parse_bytes("4095 PiB") == std::int64_t{4095} << 50);
  CHECK(parse_bytes("1.000 KiB") == 1024);
  for (const char* bad :
       {"",       "K",      " 1",    "-1",      "+1",  "1 MB",   "1k",
        "1 KiB ", "1.",     ".5K",   "0.1 KiB", "0.5", "017",    "0x10",
        "00",     "1 K iB", "1,5 K", "1.5.5",   "1e3", "4096 P", "99999999999999999999"}) {
    INFO(bad);
    CHECK_FALSE(parse_bytes(bad).has_value());
  }
}

TEST_CASE("units: durations") {
  CHECK(parse_duration("30") == 30s);
  CHECK(parse_duration("3.8ms") == 3800us);
  CHECK(parse_duration("1.5 h") == 90min);
  CHECK(parse_duration("5 min") == 5min);
  CHECK(parse_duration("7d") == 168h);
  CHECK(parse_duration("2 y") == 24h * 730);
  CHECK_FALSE(parse_duration("0.0001 ms").has_value());
  CHECK_FALSE(parse_duration("1 m").has_value());
  CHECK_FALSE(parse_duration("40000 y").has_value());
  CHECK(parse_seconds("0.5 min") == 30);
  CHECK(parse_seconds("2000 ms") == 2);
  CHECK_FALSE(parse_seconds("500 ms").has_value());
}

TEST_CASE("units: what is printed is read as the same") {
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1000}, std::uint64_t{65536},
                                    std::uint64_t{3} << 41, std::uint64_t{5} << 50}) {
    CHECK(parse_bytes(bytes_text(bytes)) == bytes);
  }
}

}  // namespace
}  // namespace weft
