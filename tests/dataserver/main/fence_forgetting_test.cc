#include "dataserver/main/fence_forgetting.h"

#include <catch2/catch_test_macros.hpp>

namespace weft::ds {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

constexpr TimePoint kStart{hours(100)};

TEST_CASE("fences are forgotten an hour after the keys changed, once") {
  FenceForgetting forgetting;
  forgetting.keys_changed(kStart);
  CHECK_FALSE(forgetting.due(kStart + minutes(59), true));
  CHECK(forgetting.due(kStart + hours(1), true));
  CHECK_FALSE(forgetting.due(kStart + hours(9), true));
  forgetting.keys_changed(kStart + hours(9));
  CHECK_FALSE(forgetting.due(kStart + hours(9) + minutes(59), true));
  CHECK(forgetting.due(kStart + hours(10), true));
}

TEST_CASE("who has other keys than the metadata server forgets no fence") {
  FenceForgetting forgetting;
  forgetting.keys_changed(kStart);
  forgetting.keys_changed(kStart + minutes(5));  // the one that the metadata server uses is gone
  CHECK_FALSE(forgetting.due(kStart + hours(8), false));
  forgetting.keys_changed(kStart + hours(8));  // and is back
  CHECK_FALSE(forgetting.due(kStart + hours(8), false));
  CHECK_FALSE(forgetting.due(kStart + hours(8) + minutes(1), true));
  CHECK(forgetting.due(kStart + hours(9), true));
}

}  // namespace
}  // namespace weft::ds
