// An object of which no header can be read: it is an I/O error, nothing takes it for one that is
// not there, and all else goes on.
#include <catch2/catch_test_macros.hpp>

#include "tests/dataserver/parity/parity_rig.h"

using namespace weft;
using namespace weft::test;

namespace {

constexpr std::size_t kSize = std::size_t{64} << 10;
const layout::ObjectId kObject = object_of(1);
const layout::ObjectId kOther = object_of(2);

enum class Fault { kRotten, kUnreadable };

void hurt_header(ParityRig& rig, unsigned member, Fault fault) {
  if (fault == Fault::kUnreadable) {
    rig.member[member]->unreadable[ds::sums_of(kObject)].insert(5);
    return;
  }
  auto& file = rig.member[member]->files[ds::sums_of(kObject)];
  file.now[9] ^= 1;
  file.durable[9] ^= 1;
}

void mend_header(ParityRig& rig, unsigned member, Fault fault) {
  if (fault == Fault::kRotten) return hurt_header(rig, member, fault);
  rig.member[member]->unreadable.clear();
}

void fill(ParityRig& rig, std::uint64_t seed) {
  for (const auto& object : {kObject, kOther}) {
    REQUIRE(rig.write(object, 0, pattern(kSize, seed)).has_value());
  }
}

void commit(ParityRig& rig) {
  for (const auto& object : {kObject, kOther}) rig.commit(object).value();
}

// The one is an error, the other is served.
void check_error(ParityRig& rig, const std::string& content) {
  CHECK(rig.text(kObject, 0, 10).starts_with("error: "));
  CHECK_FALSE(rig.text(kObject, 0, 10).starts_with("error: not found"));
  CHECK_FALSE(rig.write(kObject, 9, "part").has_value());
  CHECK((rig.text(kOther, 0, kSize) == content));
  CHECK(rig.write(kOther, 0, content).has_value());
}

}  // namespace

TEST_CASE("without a member a bad header at the only other one is an error of that object",
          "[parity][header]") {
  for (const Fault fault : {Fault::kRotten, Fault::kUnreadable}) {
    for (const bool crash : {false, true}) {
      INFO("fault " << static_cast<int>(fault) << " crash " << crash);
      ParityRig rig(2);
      fill(rig, 1);
      commit(rig);
      rig.member[1]->failing = true;
      fill(rig, 2);
      REQUIRE(rig.degraded());
      rig.restart();  // the log has no contents any more
      REQUIRE(rig.degraded());
      hurt_header(rig, 0, fault);
      if (crash) {
        rig.lose_power();
      } else {
        rig.restart();
      }
      REQUIRE(rig.degraded());
      check_error(rig, pattern(kSize, 2));
      mend_header(rig, 0, fault);
      rig.restart();
      REQUIRE(rig.degraded());
      CHECK((rig.text(kObject, 0, kSize) == pattern(kSize, 2)));
      rig.member[1]->failing = false;
      REQUIRE(rig.whole());
      CHECK((rig.text(kObject, 0, kSize) == pattern(kSize, 2)));
      CHECK(rig.bad_rows(kObject) == 0);
    }
  }
}

TEST_CASE("an object without a good header can be removed, and the group goes on",
          "[parity][header]") {
  for (const Fault fault : {Fault::kRotten, Fault::kUnreadable}) {
    for (const bool out : {false, true}) {
      INFO("fault " << static_cast<int>(fault) << " out " << out);
      ParityRig rig(2);
      fill(rig, 1);
      commit(rig);
      rig.member[1]->failing = out;
      if (out) fill(rig, 2);
      REQUIRE((out ? rig.degraded() : rig.whole()));
      rig.restart();
      REQUIRE((out ? rig.degraded() : rig.whole()));
      for (unsigned member : {0U, 1U}) hurt_header(rig, member, fault);
      rig.restart();
      REQUIRE((out ? rig.degraded() : rig.whole()));
      CHECK_FALSE(rig.text(kObject, 0, 10).starts_with("error: not found"));
      REQUIRE(rig.remove(kObject).has_value());
      CHECK(rig.text(kObject, 0, 10).starts_with("error: not found"));
      rig.member[1]->failing = false;
      REQUIRE(rig.whole());
      for (const unsigned member : {0U, 1U}) {
        CHECK_FALSE(rig.member[member]->files.contains(kObject));
        CHECK_FALSE(rig.member[member]->files.contains(ds::sums_of(kObject)));
      }
      CHECK((rig.text(kOther, 0, kSize) == pattern(kSize, out ? 2 : 1)));
      REQUIRE(rig.write(kObject, 0, pattern(kSize, 3)).has_value());
      CHECK((rig.text(kObject, 0, kSize) == pattern(kSize, 3)));
      CHECK(rig.bad_rows(kObject) == 0);
    }
  }
}

TEST_CASE("a dirty object without a good header does not hold up recovery", "[parity][header]") {
  for (const Fault fault : {Fault::kRotten, Fault::kUnreadable}) {
    INFO("fault " << static_cast<int>(fault));
    ParityRig rig(2);
    fill(rig, 1);
    commit(rig);
    fill(rig, 2);
    for (unsigned member : {0U, 1U}) hurt_header(rig, member, fault);
    for (int times = 0; times < 2; ++times) {  // it stays dirty
      rig.restart();
      REQUIRE(rig.whole());
      check_error(rig, pattern(kSize, 2));
    }
    for (unsigned member : {0U, 1U}) mend_header(rig, member, fault);
    rig.restart();
    REQUIRE(rig.whole());
    CHECK((rig.text(kObject, 0, kSize) == pattern(kSize, 2)));
    CHECK(rig.bad_rows(kObject) == 0);
  }
}
