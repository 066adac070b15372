// Who is short of memory or places has not failed, and an error of a disk is a bad block.
#include <catch2/catch_test_macros.hpp>

#include "tests/dataserver/parity/parity_rig.h"

namespace weft {
namespace {

using namespace weft::test;
using ds::Stability;

constexpr std::size_t kRow = 3 * 4096;  // data of a stripe of four members
const layout::ObjectId kObject = object_of(5);

struct FourMembers : ParityRig {
  FourMembers() : ParityRig(4, 4096) {
    REQUIRE(whole());
    REQUIRE(write(kObject, 0, content, Stability::kFileSync));
    REQUIRE(commit(kObject));
    recoveries = view().recoveries.load();
    verifier = any().verifier();
  }
  // Nothing happened to the group.
  void undisturbed() {
    CHECK(view().put_out.load() == 0);
    CHECK(view().recoveries.load() == recoveries);
    CHECK(any().verifier() == verifier);
  }
  const std::string content = pattern(8 * kRow);
  std::uint64_t recoveries = 0;
  ds::WriteVerifier verifier = 0;
};

TEST_CASE("a member that is busy for a moment has not failed", "[parity]") {
  FourMembers rig;
  for (const unsigned calls : {1U, 2U, 7U}) {
    for (unsigned who = 0; who < 4; ++who) {
      rig.member[who]->busy = rig.member[(who + 1) % 4]->busy = calls;
      CHECK(rig.text(kObject, 0, 8 * kRow) == rig.content);
      for (auto& one : rig.member) one->busy = calls;
      const std::string bytes = pattern(5000, calls + who);
      REQUIRE(rig.write(kObject, 3000, bytes, Stability::kUnstable));
      for (auto& one : rig.member) one->busy = calls;
      REQUIRE(rig.commit(kObject));
      for (auto& one : rig.member) one->busy = calls;
      CHECK(rig.text(kObject, 3000, 5000) == bytes);
      REQUIRE(rig.write(kObject, 0, rig.content, Stability::kFileSync));
    }
  }
  for (auto& one : rig.member) one->busy = 3;
  REQUIRE(rig.truncate(kObject, 10'000));
  CHECK(rig.text(kObject, 0, kRow) == rig.content.substr(0, 10'000));
  rig.undisturbed();
  CHECK(rig.bad_rows(kObject) == 0);
  for (auto& one : rig.member) one->busy = 3;
  REQUIRE(rig.remove(kObject));
  rig.undisturbed();
}

TEST_CASE("memory that is short for a while fails no member", "[parity]") {
  FourMembers rig;
  rig.options.patience = 50ms;
  rig.restart();
  REQUIRE(rig.whole());
  rig.recoveries = rig.view().recoveries.load();
  rig.verifier = rig.any().verifier();
  rig.starve();
  const auto read = rig.read(kObject, 0, 8 * kRow);
  REQUIRE(!read);
  CHECK(read.error() == Errc::kBusy);
  rig.feed();
  CHECK(rig.text(kObject, 0, 8 * kRow) == rig.content);
  rig.undisturbed();
}

TEST_CASE("an object is not lost when memory is short at its first commit", "[parity]") {
  FourMembers rig;
  rig.options.patience = 50ms;
  rig.restart();
  REQUIRE(rig.whole());
  const layout::ObjectId fresh = object_of(6);
  REQUIRE(rig.write(fresh, 0, rig.content));
  rig.starve();
  const auto short_of = rig.commit(fresh);
  REQUIRE(!short_of);
  CHECK(short_of.error() == Errc::kBusy);
  rig.feed();
  CHECK(rig.commit(fresh));
  CHECK(rig.view().objects_gone.load() == 0);
  rig.restart();
  CHECK(rig.text(fresh, 0, 8 * kRow) == rig.content);
}

TEST_CASE("a block that cannot be read is computed and written anew", "[parity]") {
  FourMembers rig;
  rig.member[1]->unreadable[kObject] = {4096 + 7, 5 * 4096};
  for (int i = 0; i < 3; ++i) CHECK(rig.text(kObject, 0, 8 * kRow) == rig.content);
  CHECK(rig.member[1]->unreadable[kObject].empty());
  CHECK(rig.view().corrupt_blocks.load() == 2);
  // Its checksum.
  rig.member[2]->unreadable[ds::sums_of(kObject)] = {4096 + 8};
  CHECK(rig.text(kObject, 0, 8 * kRow) == rig.content);
  CHECK(rig.member[2]->unreadable[ds::sums_of(kObject)].empty());
  rig.undisturbed();
  CHECK(rig.bad_rows(kObject) == 0);
}

TEST_CASE("a write finds blocks that cannot be read", "[parity]") {
  FourMembers rig;
  for (unsigned who = 0; who < 4; ++who) {
    rig.member[who]->unreadable[kObject] = {2 * 4096 + 100};
    const std::string bytes = pattern(1000, who);
    REQUIRE(rig.write(kObject, 2 * kRow + 5000, bytes, Stability::kUnstable));
    CHECK(rig.text(kObject, 2 * kRow + 5000, 1000) == bytes);
    CHECK(rig.text(kObject, 2 * kRow, 5000) == rig.content.substr(2 * kRow, 5000));
    rig.member[who]->unreadable.clear();
  }
  REQUIRE(rig.commit(kObject));
  rig.undisturbed();
  CHECK(rig.bad_rows(kObject) == 0);
}

TEST_CASE("without a member, a bad block is an error and nothing else", "[parity]") {
  FourMembers rig;
  rig.member[0]->failing = true;
  CHECK(rig.text(kObject, 0, 8 * kRow) == rig.content);
  REQUIRE(rig.degraded());
  rig.verifier = rig.any().verifier();
  rig.member[1]->unreadable[kObject] = {2 * 4096 + 7};
  for (int i = 0; i < 3; ++i) {
    const auto read = rig.read(kObject, 2 * kRow, kRow);
    REQUIRE(!read);
    CHECK(read.error() == Errc::kIo);
    CHECK(rig.text(kObject, 0, 2 * kRow) == rig.content.substr(0, 2 * kRow));
    CHECK(rig.text(kObject, 3 * kRow, 5 * kRow) == rig.content.substr(3 * kRow));
  }
  CHECK(rig.view().put_out.load() == 1);
  CHECK(rig.view().recoveries.load() == rig.recoveries);
  CHECK(rig.any().verifier() == rig.verifier);
  // The member is back, and its block is there to compute the bad one from.
  rig.member[0]->failing = false;
  REQUIRE(rig.whole());
  CHECK(rig.text(kObject, 0, 8 * kRow) == rig.content);
  CHECK(rig.bad_rows(kObject) == 0);
}

TEST_CASE("a member whose disk refuses everything is put out", "[parity]") {
  FourMembers rig;
  rig.member[3]->disk_fails = true;
  CHECK(rig.text(kObject, 0, 8 * kRow) == rig.content);
  REQUIRE(rig.degraded());
  CHECK(rig.view().put_out.load() == 1);
  CHECK(rig.view().recoveries.load() == rig.recoveries);
}

// A crash, and a block of what was being written cannot be read: never made up.
TEST_CASE("recovery invents no block", "[parity]") {
  for (unsigned who = 0; who < 4; ++who) {
    FourMembers rig;
    const std::string bytes = pattern(kRow, 77);
    REQUIRE(rig.write(kObject, kRow, bytes, Stability::kUnstable));
    rig.lose_power();
    rig.member[who]->unreadable[kObject] = {4096 + 1};
    REQUIRE(rig.whole());
    for (std::size_t at = kRow; at < 2 * kRow; at += 4096) {
      const auto read = rig.read(kObject, at, 4096);
      if (!read) {
        CHECK(read.error() == Errc::kIo);
        continue;
      }
      // Each KiB is from before or from after.
      const std::string block = rig.text(kObject, at, 4096);
      for (std::size_t i = 0; i < 4096; i += 1024) {
        const bool old = block.substr(i, 1024) == rig.content.substr(at + i, 1024);
        const bool now = block.substr(i, 1024) == bytes.substr(at - kRow + i, 1024);
        CHECK((old || now));
      }
    }
    CHECK(rig.text(kObject, 0, kRow) == rig.content.substr(0, kRow));
    REQUIRE(rig.write(kObject, kRow, bytes, Stability::kFileSync));
    CHECK(rig.text(kObject, kRow, kRow) == bytes);
  }
}

}  // namespace
}  // namespace weft
