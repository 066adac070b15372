// docs/man/weft-target.toml.5.scd says what dataserver/targets/target_config.cc has.
#include <catch2/catch_test_macros.hpp>

#include "dataserver/targets/target_config.h"
#include "tests/dataserver/process/manual_fields.h"

namespace weft::ds {
namespace {

TEST_CASE("the manual has every key of weft-target, its default and its range") {
  TargetConfig fresh;
  TargetConfig probed;
  check_manual("weft-target.toml.5.scd", target_config_fields(fresh), target_config_fields(probed));
}

}  // namespace
}  // namespace weft::ds
