#include "layout/flex_report.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

using namespace weft;
using namespace weft::layout;

namespace {

FlexLatency latency(std::uint64_t base) {
  return {base, base + 1, base + 2, base + 3, base + 4, {5, 6}, {7, 8}};
}

FlexUpdate update() {
  return {"tcp6",      "2001:db8::7.8.1", {std::byte{1}, std::byte{2}},
          latency(10), latency(20),       {9, 999'999'999},
          true};
}

FlexReturn sample() {
  FlexReturn report;
  report.errors.push_back({1, 2, {}, {{pack({1, 2, 3, 4}), 70, 38}, {pack({1, 2, 3, 5}), 5, 25}}});
  report.errors.push_back({3, UINT64_MAX, {}, {}});
  report.stats.push_back({4, 5, {}, 6, 7, 8, 9, pack({1, 2, 3, 4}), update()});
  return report;
}

std::vector<std::byte> wire_of(const auto& value) {
  xdr::Encoder out;
  encode(out, value);
  return out.take();
}

}  // namespace

TEST_CASE("what a flexfiles client returns survives the wire") {
  auto wire = wire_of(sample());
  CHECK(decode_flex_return(wire).value() == sample());
  for (std::size_t size = 1; size < wire.size(); ++size) {
    CHECK_FALSE(decode_flex_return(std::span(wire).first(size)));
  }
  wire.resize(wire.size() + 4);
  CHECK(decode_flex_return(wire).error() == Errc::kProtocol);
  CHECK(decode_flex_return({}).value() == FlexReturn{});
  CHECK(decode_flex_return(wire_of(FlexReturn{})).value() == FlexReturn{});
}

TEST_CASE("the report is laid out as RFC 8435 section 9 says") {
  const auto wire = wire_of(sample());
  xdr::Decoder in(wire);
  CHECK(in.u32() == 2);   // fflr_ioerr_report
  CHECK(in.u64() == 1);   // ffie_offset
  CHECK(in.u64() == 2);   // ffie_length
  in.skip(16);            // ffie_stateid
  CHECK(in.u32() == 2);   // ffie_errors
  in.skip(16);            // de_deviceid
  CHECK(in.u32() == 70);  // de_status
  CHECK(in.u32() == 38);  // de_opnum
  in.skip(16 + 8);
  in.skip(8 + 8 + 16 + 4);
  CHECK(in.u32() == 1);  // fflr_iostats_report
  CHECK(in.u64() == 4);  // ffis_offset
  CHECK(in.u64() == 5);  // ffis_length
  in.skip(16);           // ffis_stateid
  for (const std::uint64_t count : {6U, 7U, 8U, 9U}) CHECK(in.u64() == count);
  in.skip(16);  // ffis_deviceid
  CHECK(in.string(16) == "tcp6");
  CHECK(in.string(64) == "2001:db8::7.8.1");
  CHECK(in.opaque(128).size() == 2);
  for (const std::uint64_t base : {10U, 20U}) {
    for (std::uint64_t i = 0; i < 5; ++i) CHECK(in.u64() == base + i);
    CHECK(in.i64() == 5);
    CHECK(in.u32() == 6);
    CHECK(in.i64() == 7);
    CHECK(in.u32() == 8);
  }
  CHECK(in.i64() == 9);
  CHECK(in.u32() == 999'999'999);
  CHECK(in.boolean());
  CHECK(in.remaining() == 0);
}

TEST_CASE("reports over their limits are refused") {
  xdr::Encoder many;
  many.u32(kMaxFlexErrors + 1);
  CHECK_FALSE(decode_flex_return(many.bytes()));
  FlexReturn late = sample();
  late.stats[0].update.duration.nanoseconds = 1'000'000'000;
  CHECK_FALSE(decode_flex_return(wire_of(late)));
  xdr::Encoder errors;  // one error, of too many devices
  errors.u32(1);
  for (int i = 0; i < 4; ++i) errors.u64(0);
  errors.u32(kMaxFlexDeviceErrors + 1);
  for (std::size_t i = 0; i <= kMaxFlexDeviceErrors; ++i) {
    errors.fixed(std::array<std::byte, 16>{});
    errors.u64(0);
  }
  errors.u32(0);
  CHECK_FALSE(decode_flex_return(errors.bytes()));
}

TEST_CASE("rubbish reports are refused without harm") {
  CHECK(rc::check([](const std::vector<std::uint8_t>& rubbish) {
    const auto bytes = std::as_bytes(std::span(rubbish));
    if (const auto report = decode_flex_return(bytes); report && !rubbish.empty()) {
      RC_ASSERT(wire_of(*report).size() == bytes.size());
    }
    (void)decode_flex_layout(bytes);
    (void)decode_flex_device(bytes);
  }));
}
