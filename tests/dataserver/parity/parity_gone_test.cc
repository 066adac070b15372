// An object that a member has lost as a whole: data and checksums, as when a file system was
// repaired beneath it.
#include <catch2/catch_test_macros.hpp>

#include "tests/dataserver/parity/parity_rig.h"

using namespace weft;
using namespace weft::test;

namespace {

constexpr layout::ObjectId kObject{.fileid = 5, .generation = 1};
constexpr std::size_t kSize = 100'000;

// Written in two goes, so that its header is not the first.
std::string fill(ParityRig& rig) {
  const std::string bytes = pattern(kSize);
  REQUIRE(rig.write(kObject, 0, bytes.substr(0, 5000)).has_value());
  rig.commit(kObject).value();
  REQUIRE(rig.write(kObject, 5000, bytes.substr(5000)).has_value());
  rig.commit(kObject).value();
  return bytes;
}

void take_files(ParityRig& rig, unsigned member) {
  rig.member[member]->files.erase(kObject);
  rig.member[member]->files.erase(ds::sums_of(kObject));
}

void lose(ParityRig& rig, unsigned member) {
  REQUIRE(rig.close());
  take_files(rig, member);
  rig.open();
  REQUIRE(rig.eventually([&] { return rig.whole(); }));
}

// By the scrub that began when it was found, or, if that ended with an earlier process, another.
bool mended(ParityRig& rig) {
  (void)rig.group().begin_scrub(false);
  return rig.eventually([&] { return rig.view().scrub.rounds.load() > 0; }) &&
         rig.view().scrub.lost.load() == 0 && rig.bad_rows(kObject) == 0;
}

}  // namespace

TEST_CASE("what a member lost of an object is computed, and brought back", "[parity][gone]") {
  for (const auto& [members, which] : {std::pair{2U, 0U}, {2, 1}, {3, 0}, {3, 1}, {3, 2}}) {
    ParityRig rig(members, 4096);
    std::string bytes = fill(rig);
    lose(rig, which);
    CHECK(rig.view().objects_gone.load() == 0);
    CHECK(rig.text(kObject, 0, kSize) == bytes);
    CHECK(rig.view().objects_gone.load() > 0);
    CHECK(mended(rig));
    for (unsigned other = 0; other < members; ++other) {
      if (other == which) continue;
      rig.restart();
      rig.member[other]->failing = true;
      CHECK(rig.text(kObject, 0, kSize) == bytes);
      rig.member[other]->failing = false;
      REQUIRE(rig.eventually([&] { return rig.whole(); }));
    }
  }
}

TEST_CASE("an object that a member has lost can be written, cut and removed", "[parity][gone]") {
  for (const auto& [members, which] : {std::pair{2U, 0U}, {2, 1}, {3, 0}, {3, 1}, {3, 2}}) {
    ParityRig rig(members, 4096);
    std::string bytes = fill(rig);
    lose(rig, which);
    for (const std::size_t at : {0U, 7U, 9000U, 40'960U, 99'000U}) {
      const std::string part = pattern(3000, at + 2);
      REQUIRE(rig.write(kObject, at, part).has_value());
      if (bytes.size() < at + part.size()) bytes.resize(at + part.size());
      bytes.replace(at, part.size(), part);
    }
    CHECK(rig.text(kObject, 0, 2 * kSize) == bytes);
    rig.commit(kObject).value();
    rig.restart();
    CHECK(rig.text(kObject, 0, 2 * kSize) == bytes);
    bytes.resize(33'333);
    REQUIRE(rig.truncate(kObject, bytes.size()).has_value());
    rig.restart();
    CHECK(rig.text(kObject, 0, 2 * kSize) == bytes);
    CHECK(mended(rig));
    CHECK(rig.text(kObject, 0, 2 * kSize) == bytes);
    REQUIRE(rig.remove(kObject).has_value());
    REQUIRE(rig.write(kObject, 1 << 20, "far").has_value());
    rig.commit(kObject).value();
    rig.restart();
    CHECK(rig.text(kObject, 0, 4096) == std::string(4096, '\0'));
  }
}

TEST_CASE("a crash leaves it known that a member has lost an object", "[parity][gone]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    ParityRig rig(3, 4096, seed);
    std::string bytes = fill(rig);
    rig.options.patience = 50ms;  // nothing is answered without power
    lose(rig, static_cast<unsigned>(seed % 3));
    rig.options.patience = 1000ms;
    rig.power.cut_after = seed % 20 + 1;
    // Of the crash's own rows nothing is said: a member's part of them is lost as well.
    (void)rig.write(kObject, 0, pattern(4096, 9), ds::Stability::kUnstable);
    (void)rig.commit(kObject);
    rig.lose_power();
    REQUIRE(rig.eventually([&] { return rig.whole(); }));
    const std::string now = rig.text(kObject, 0, kSize);
    CHECK(now.substr(8192) == bytes.substr(8192));
    CHECK(mended(rig));
    CHECK(rig.text(kObject, 0, kSize) == now);
  }
}

// Its target was away, and came back with another file system than it had.
TEST_CASE("an object that a member has lost while it was out is noticed when it is back",
          "[parity][gone]") {
  for (unsigned which = 0; which < 3; ++which) {
    for (const bool written : {false, true}) {
      INFO("which " << which << " written " << written);
      ParityRig rig(3, 4096);
      std::string bytes = fill(rig);
      CHECK((rig.text(kObject, 0, kSize) == bytes));  // it is known
      rig.member[which]->failing = true;
      CHECK(rig.text(object_of(1000 + which), 0, 10).starts_with("error: not found"));
      REQUIRE(rig.degraded());
      if (written) {
        REQUIRE(rig.write(kObject, 0, pattern(3000, 7)).has_value());
        bytes.replace(0, 3000, pattern(3000, 7));
      }
      take_files(rig, which);
      rig.member[which]->failing = false;
      REQUIRE(rig.whole());
      // Whole stripes are written without looking at what is there.
      REQUIRE(rig.write(kObject, 40'960, pattern(8192, 8)).has_value());
      bytes.replace(40'960, 8192, pattern(8192, 8));
      CHECK((rig.text(kObject, 0, kSize) == bytes));
      rig.commit(kObject).value();
      CHECK(mended(rig));
      CHECK((rig.text(kObject, 0, kSize) == bytes));
    }
  }
}

// Neither the data server nor the group is restarted, nor was the member out.
TEST_CASE("an object that a member loses while the group runs is noticed", "[parity][gone]") {
  for (const auto& [members, which] : {std::pair{2U, 0U}, {2, 1}, {3, 0}, {3, 1}, {3, 2}}) {
    INFO("members " << members << " which " << which);
    ParityRig rig(members, 4096);
    const std::string bytes = fill(rig);
    CHECK((rig.text(kObject, 0, kSize) == bytes));  // it is known
    take_files(rig, which);
    CHECK((rig.text(kObject, 0, kSize) == bytes));
    CHECK(rig.view().objects_gone.load() == 1);
    CHECK(rig.view().corrupt_blocks.load() > 0);
    CHECK(mended(rig));
    CHECK(rig.view().objects_gone.load() == 1);
    rig.restart();
    CHECK((rig.text(kObject, 0, kSize) == bytes));
    CHECK(rig.view().objects_gone.load() == 0);
  }
}

TEST_CASE("a write to an object that a member has lost does not hide that", "[parity][gone]") {
  for (unsigned which = 0; which < 3; ++which) {
    // Whole stripes, which are written without a look at what is there; a part; behind the end.
    for (const auto& [at, size] : {std::pair{40'960U, 8192U}, {5000, 3000}, {98'304, 8192}}) {
      for (const auto how : {ds::Stability::kUnstable, ds::Stability::kFileSync}) {
        INFO("which " << which << " at " << at);
        ParityRig rig(3, 4096);
        std::string bytes = fill(rig);
        take_files(rig, which);
        const std::string part = pattern(size, 8);
        REQUIRE(rig.write(kObject, at, part, how).has_value());
        bytes.resize(std::max<std::size_t>(kSize, at + size));
        bytes.replace(at, size, part);
        rig.commit(kObject).value();
        CHECK((rig.text(kObject, 0, 2 * kSize) == bytes));
        CHECK(rig.view().objects_gone.load() == 1);
        CHECK(mended(rig));
        CHECK((rig.text(kObject, 0, 2 * kSize) == bytes));
      }
    }
  }
}

TEST_CASE("an object that all members lose is an error, and no zeros", "[parity][gone]") {
  ParityRig rig(3, 4096);
  (void)fill(rig);
  for (unsigned member = 0; member < 3; ++member) take_files(rig, member);
  CHECK(rig.text(kObject, 0, kSize).starts_with("error: "));
  REQUIRE(rig.write(kObject, 0, pattern(8192), ds::Stability::kUnstable).has_value());
  REQUIRE(rig.write(kObject, 106'496, pattern(8192), ds::Stability::kUnstable).has_value());
  CHECK_FALSE(rig.commit(kObject).has_value());
  CHECK(rig.remove(kObject).has_value());
}

TEST_CASE("what a member lost is computed while the group is broken and not recovered yet",
          "[parity][gone]") {
  for (unsigned which = 0; which < 3; ++which) {
    INFO("which " << which);
    ParityRig rig(3, 4096);
    rig.options.retry_every = 2s;
    rig.restart();
    std::string bytes = fill(rig);
    take_files(rig, which);
    rig.disk.fail_appends = true;
    CHECK_FALSE(rig.write(object_of(77), 0, "x").has_value());
    rig.disk.fail_appends = false;
    for (std::size_t at = 0; at < kSize; at += 4096) {
      const auto found = rig.text(kObject, at, 4096);
      CHECK((found.starts_with("error: busy") || found == bytes.substr(at, 4096)));
    }
    for (const std::size_t at : {9U, 4105U, 8201U}) {  // one block is that member's
      (void)rig.write(kObject, at, "part");
      bytes.replace(at, 4, "part");
    }
    REQUIRE(rig.whole());
    for (const std::size_t at : {9U, 4105U, 8201U}) REQUIRE(rig.write(kObject, at, "part"));
    CHECK((rig.text(kObject, 0, kSize) == bytes));
    rig.commit(kObject).value();
    CHECK(mended(rig));
    CHECK((rig.text(kObject, 0, kSize) == bytes));
  }
}

TEST_CASE("a hole is read without an alarm", "[parity][gone]") {
  ParityRig rig(3, 4096);
  REQUIRE(rig.write(kObject, 1 << 20, "far").has_value());
  CHECK(rig.text(kObject, 0, 4096) == std::string(4096, '\0'));
  rig.commit(kObject).value();
  REQUIRE(rig.write(kObject, 70'000, "nearer").has_value());
  CHECK(rig.text(kObject, 0, 4096) == std::string(4096, '\0'));
  CHECK(rig.view().objects_gone.load() == 0);
}

TEST_CASE("a member that goes out does not hide that another one has lost an object",
          "[parity][gone]") {
  for (unsigned which = 0; which < 3; ++which) {
    for (const unsigned next : {1U, 2U}) {
      const unsigned out = (which + next) % 3;
      INFO("which " << which << " out " << out);
      ParityRig rig(3, 4096);
      const std::string bytes = fill(rig);
      CHECK((rig.text(kObject, 0, kSize) == bytes));  // it is known
      take_files(rig, which);
      // Whole stripes behind the end, which are written without a look at what is there.
      REQUIRE(rig.write(kObject, 106'496, pattern(8192, 8)).has_value());
      rig.member[out]->failing = true;
      (void)rig.write(kObject, 114'688, pattern(8192, 9));
      REQUIRE(rig.degraded());
      for (const bool restarted : {false, true}) {
        if (restarted) rig.restart();
        REQUIRE(rig.degraded());
        for (std::size_t at = 0; at + 4096 <= kSize; at += 4096) {
          INFO("at " << at);
          const auto found = rig.text(kObject, at, 4096);
          CHECK((found.starts_with("error: ") || found == bytes.substr(at, 4096)));
        }
      }
    }
  }
}
