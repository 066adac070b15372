// A call that a member was late for, and is carried out there when its caller has long been told
// that it failed.
#include <catch2/catch_test_macros.hpp>

#include "tests/dataserver/parity/parity_rig.h"

using namespace weft;
using namespace weft::test;

namespace {

constexpr std::size_t kSize = std::size_t{64} << 10;
const layout::ObjectId kObject = object_of(1);

std::string fill(ParityRig& rig) {
  const auto content = pattern(kSize);
  REQUIRE(rig.write(kObject, 0, content).has_value());
  rig.commit(kObject).value();
  return content;
}

// The group has asked the member some times whether it is there.
template <class Check>
void until_probed(ParityRig& rig, unsigned member, Check or_else) {
  const auto before = rig.member[member]->stats;
  REQUIRE(rig.eventually([&] { return rig.member[member]->stats >= before + 3 || or_else(); }));
}

}  // namespace

TEST_CASE("a late write or cut is not carried out over what a rebuild has written",
          "[parity][late]") {
  for (const bool cut : {false, true}) {
    for (unsigned member = 0; member < 3; ++member) {
      INFO("cut " << cut << " member " << member);
      ParityRig rig;
      auto content = fill(rig);
      rig.member[member]->late = true;
      if (cut) {
        REQUIRE(rig.truncate(kObject, 9000).has_value());
        content.resize(9000);
      } else {
        REQUIRE(rig.write(kObject, 0, pattern(kSize, 2)).has_value());
      }
      rig.member[member]->late = false;
      CHECK(rig.view().put_out.load() == 1);
      const auto fresh = pattern(kSize, 3);
      REQUIRE(rig.write(kObject, 0, fresh).has_value());
      until_probed(rig, member, [&] { return rig.view().rebuilds.load() > 0; });
      CHECK(rig.view().rebuilds.load() == 0);
      rig.member[member]->carry_out_late();
      REQUIRE(rig.whole());
      CHECK((rig.text(kObject, 0, kSize) == fresh));
      CHECK(rig.bad_rows(kObject) == 0);
    }
  }
}

TEST_CASE("recovery waits while a late write may be carried out after it", "[parity][late]") {
  ParityRig rig;
  fill(rig);
  for (unsigned member : {0U, 1U}) rig.member[member]->late = true;
  const auto before = rig.view().recoveries.load();
  CHECK_FALSE(rig.write(kObject, 0, pattern(kSize, 2)).has_value());
  for (unsigned member : {0U, 1U}) rig.member[member]->late = false;
  until_probed(rig, 0, [&] { return rig.view().recoveries.load() > before; });
  CHECK(rig.view().recoveries.load() == before);
  CHECK(rig.view().awaited.load() == 0b011);
  rig.member[0]->carry_out_late();
  rig.member[1]->carry_out_late();
  REQUIRE(rig.whole());
  CHECK(rig.view().awaited.load() == 0);
  const auto fresh = pattern(kSize, 3);
  REQUIRE(rig.write(kObject, 0, fresh).has_value());
  CHECK((rig.text(kObject, 0, kSize) == fresh));
  CHECK(rig.bad_rows(kObject) == 0);
}
