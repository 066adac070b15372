#include "dataserver/load/learnt_maximum.h"

#include <catch2/catch_test_macros.hpp>

namespace weft::ds {
namespace {

using namespace std::chrono_literals;

TEST_CASE("the greatest rate is learnt at once and forgotten slowly") {
  LearntMaximum maximum(100);
  CHECK(maximum.value() == 100);
  maximum.observe(50, 1s);
  CHECK(maximum.value() == 100);
  maximum.observe(900, 1s);
  CHECK(maximum.value() == 900);
  maximum.observe(0, 1h);
  CHECK(maximum.value() == 500);
  maximum.observe(0, 1h);
  CHECK(maximum.value() == 300);
  for (int i = 0; i < 100; ++i) maximum.observe(0, 1h);
  CHECK(maximum.value() == 100);
}

}  // namespace
}  // namespace weft::ds
