#include "dataserver/load/streams.h"

#include <catch2/catch_test_macros.hpp>

namespace weft::ds {
namespace {

TEST_CASE("streams are counted, each once, and forgotten") {
  for (const std::uint64_t streams : {0U, 1U, 2U, 5U, 20U, 100U}) {
    StreamSketch sketch;
    for (int repeat = 0; repeat < 3; ++repeat) {
      for (std::uint64_t i = 0; i < streams; ++i) sketch.note(1000 + i / 4, i);
    }
    StreamSketch::Bits bits{};
    sketch.take(bits);
    const auto found = static_cast<double>(StreamSketch::estimate(bits));
    const auto truth = static_cast<double>(streams);
    CHECK(found >= truth * 0.8);
    CHECK(found <= truth * 1.2 + 0.5);
    StreamSketch::Bits none{};
    sketch.take(none);
    CHECK(StreamSketch::estimate(none) == 0);
  }
}

TEST_CASE("a full sketch says many") {
  StreamSketch sketch;
  for (std::uint64_t i = 0; i < 100'000; ++i) sketch.note(i, i);
  StreamSketch::Bits bits{};
  sketch.take(bits);
  CHECK(StreamSketch::estimate(bits) > 1000);
}

}  // namespace
}  // namespace weft::ds
