// Members that are full: kNoSpace is the client's, and nothing is in doubt.
#include <catch2/catch_test_macros.hpp>

#include "tests/dataserver/parity/parity_rig.h"

namespace weft {
namespace {

using namespace weft::test;
using ds::Stability;

constexpr std::size_t kRow = 3 * 4096;  // data of a stripe of four members
const layout::ObjectId kObject = object_of(5);

struct SmallMembers : ParityRig {
  explicit SmallMembers(std::uint64_t seed = 1) : ParityRig(4, 4096, seed) {
    options.reserve_bytes = std::uint64_t{64} << 10;
    options.reserve_after = 300ms;
    for (auto& one : member) one->capacity = std::uint64_t{16} << 20;
    restart();
    REQUIRE(whole());
    REQUIRE(reserved());
    recoveries = view().recoveries.load();
    verifier = any().verifier();
  }
  // That capacity's share is the reserve of each.
  bool reserved() {
    return eventually([this] {
      return std::ranges::all_of(member, [](const auto& one) {
        const auto found = one->files.find({.fileid = 0, .generation = 1});
        return found != one->files.end() && found->second.now.size() == std::size_t{64} << 10;
      });
    });
  }
  // Nothing happened to the group.
  void undisturbed() {
    CHECK(view().put_out.load() == 0);
    CHECK(view().recoveries.load() == recoveries);
    CHECK(any().verifier() == verifier);
    CHECK(whole());
  }
  // Only so much is left at one member.
  void leave(unsigned who, std::uint64_t bytes) {
    member[who]->others = 0;
    member[who]->others = member[who]->capacity - member[who]->used() - bytes;
  }
  std::uint64_t recoveries = 0;
  ds::WriteVerifier verifier = 0;
};

TEST_CASE("a write behind what a member's file system holds is refused, and nothing else happens",
          "[parity]") {
  for (unsigned who = 0; who < 4; ++who) {
    SmallMembers rig;
    rig.options.sure_length = std::uint64_t{64} << 10;
    rig.restart();
    REQUIRE(rig.whole());
    REQUIRE(rig.reserved());
    rig.recoveries = rig.view().recoveries.load();
    rig.verifier = rig.any().verifier();
    for (auto& one : rig.member) one->longest = std::uint64_t{2} << 20;
    rig.member[who]->longest = (std::uint64_t{1} << 20) - 4096;
    const std::string content = pattern(kRow);
    const std::uint64_t last = ((std::uint64_t{1} << 20) / 4096 - 2) * kRow;
    REQUIRE(rig.write(kObject, 0, content, Stability::kFileSync));
    for (const std::uint64_t at : {last + kRow, last + 1, std::uint64_t{1} << 60}) {
      const auto refused = rig.write(kObject, at, content, Stability::kUnstable);
      REQUIRE_FALSE(refused);
      CHECK(refused.error() == Errc::kFileTooLarge);
      CHECK(rig.allocate(kObject, at, kRow).error() == Errc::kFileTooLarge);
    }
    REQUIRE(rig.write(kObject, last, content, Stability::kFileSync));
    CHECK(rig.text(kObject, last, kRow) == content);
    CHECK(rig.text(kObject, 0, kRow) == content);
    rig.undisturbed();
    // What is known is not asked again, and nothing is left of the questions.
    std::vector<std::uint64_t> asked;
    for (const auto& one : rig.member) asked.push_back(one->truncates);
    CHECK_FALSE(rig.write(kObject, last + kRow, content, Stability::kUnstable));
    REQUIRE(rig.write(kObject, last - kRow, content, Stability::kFileSync));
    for (unsigned i = 0; i < 4; ++i) {
      CHECK(rig.member[i]->truncates == asked[i]);
      CHECK(rig.member[i]->files.size() == 3);  // with checksums, and the reserve
    }
  }
}

TEST_CASE("a member that is full refuses a write, and nothing else happens", "[parity]") {
  for (unsigned who = 0; who < 4; ++who) {
    SmallMembers rig;
    rig.member[who]->full_as = who % 2 == 0 ? Errc::kNoSpace : Errc::kQuota;
    const std::string content = pattern(16 * kRow);
    REQUIRE(rig.write(kObject, 0, content, Stability::kFileSync));
    REQUIRE(rig.commit(kObject));
    rig.leave(who, 8192);
    for (int i = 0; i < 3; ++i) {
      const auto refused =
          rig.write(kObject, 16 * kRow, pattern(16 * kRow, 2), Stability::kUnstable);
      REQUIRE(!refused);
      CHECK(refused.error() == Errc::kNoSpace);
    }
    // What others gave for it is free again, and the object is what it was.
    CHECK(rig.member[(who + 1) % 4]->files[kObject].blocks.size() == 16);
    CHECK(rig.stat(kObject)->size == content.size());
    CHECK(rig.text(kObject, 0, content.size()) == content);
    // What has its room can be written.
    REQUIRE(rig.write(kObject, 5000, content.substr(5000, 3000), Stability::kUnstable));
    // A new object has none, and leaves nothing.
    rig.leave(who, 0);
    const auto none = rig.write(object_of(6), 0, pattern(100), Stability::kUnstable);
    REQUIRE(!none);
    CHECK(none.error() == Errc::kNoSpace);
    for (auto& one : rig.member) CHECK_FALSE(one->files.contains(object_of(6)));
    rig.undisturbed();
    CHECK(rig.bad_rows(kObject) == 0);
    // Removals work, and then there is room.
    REQUIRE(rig.truncate(kObject, 2 * kRow + 100));
    CHECK(rig.text(kObject, 0, content.size()) == content.substr(0, 2 * kRow + 100));
    REQUIRE(rig.remove(kObject));
    REQUIRE(rig.write(kObject, 0, content.substr(0, 4 * kRow), Stability::kFileSync));
    rig.undisturbed();
    CHECK(rig.bad_rows(kObject) == 0);
  }
}

// Its first stripe would have had room.
TEST_CASE("a write that is refused leaves nothing behind the end", "[parity]") {
  for (unsigned who = 0; who < 4; ++who) {
    SmallMembers rig;
    const std::string content = pattern(16 * kRow);
    REQUIRE(rig.write(kObject, 0, content, Stability::kFileSync));
    rig.leave(who, 8192);
    const auto refused =
        rig.write(kObject, 16 * kRow + 100, pattern(16 * kRow, 2), Stability::kUnstable);
    REQUIRE(!refused);
    CHECK(refused.error() == Errc::kNoSpace);
    rig.member[who]->others = 0;
    REQUIRE(rig.truncate(kObject, 18 * kRow));
    CHECK(rig.text(kObject, 16 * kRow, 2 * kRow) == std::string(2 * kRow, '\0'));
    CHECK(rig.bad_rows(kObject) == 0);
    rig.undisturbed();
  }
}

TEST_CASE("all members that are full refuse writes, and let remove", "[parity]") {
  SmallMembers rig;
  const std::string content = pattern(32 * kRow);
  std::uint64_t count = 0;
  for (;; ++count) {
    const auto written = rig.write(object_of(100 + count), 0, content, Stability::kUnstable);
    if (!written) {
      CHECK(written.error() == Errc::kNoSpace);
      break;
    }
    REQUIRE(count < 200);
  }
  CHECK(count > 100);
  for (std::uint64_t i = 0; i < count; ++i) REQUIRE(rig.commit(object_of(100 + i)));
  rig.undisturbed();
  for (std::uint64_t i = 0; i < count; ++i) {
    CHECK(rig.bad_rows(object_of(100 + i)) == 0);
    REQUIRE(rig.remove(object_of(100 + i)));
  }
  REQUIRE(rig.write(kObject, 0, content, Stability::kFileSync));
  rig.undisturbed();
}

TEST_CASE("a member that runs full between two looks fails nothing", "[parity]") {
  for (unsigned who = 0; who < 4; ++who) {
    SmallMembers rig;
    for (auto& one : rig.member) one->told_free = std::uint64_t{1} << 40;
    REQUIRE(rig.write(kObject, 0, pattern(kRow), Stability::kFileSync));
    rig.leave(who, 4096);
    // Its reserve is there for it.
    REQUIRE(rig.write(kObject, kRow, pattern(4 * kRow, 2), Stability::kUnstable));
    REQUIRE(rig.commit(kObject));
    // From then on it is asked.
    const auto refused = rig.write(kObject, 5 * kRow, pattern(32 * kRow, 3), Stability::kUnstable);
    REQUIRE(!refused);
    CHECK(refused.error() == Errc::kNoSpace);
    CHECK(rig.text(kObject, 0, 6 * kRow) == pattern(kRow) + pattern(4 * kRow, 2));
    CHECK(rig.bad_rows(kObject) == 0);
    rig.undisturbed();
    REQUIRE(rig.remove(kObject));
    rig.member[who]->others = 0;
    CHECK(rig.reserved());
    rig.undisturbed();
  }
}

TEST_CASE("space that cannot be reserved is no member's failure", "[parity]") {
  SmallMembers rig;
  REQUIRE(rig.write(kObject, 0, pattern(kRow), Stability::kFileSync));
  rig.leave(2, std::uint64_t{64} << 10);
  for (auto& one : rig.member) one->told_free = std::uint64_t{1} << 40;
  const auto refused = rig.allocate(kObject, 0, std::uint64_t{1} << 20);
  REQUIRE(!refused);
  CHECK(refused.error() == Errc::kNoSpace);
  CHECK(rig.stat(kObject)->size == kRow);
  for (auto& one : rig.member) CHECK(one->files[kObject].blocks.size() == 1);
  REQUIRE(rig.allocate(kObject, 0, 8 * kRow));
  CHECK(rig.text(kObject, 0, kRow) == pattern(kRow));
  rig.undisturbed();
  CHECK(rig.bad_rows(kObject) == 0);
}

TEST_CASE("space is not said to be short while members are waited for", "[parity]") {
  ParityRig rig(3, 4096);
  rig.options.patience = 50ms;
  rig.restart();
  REQUIRE(rig.whole());
  for (unsigned member : {0U, 1U}) rig.member[member]->failing = true;
  CHECK_FALSE(rig.write(kObject, 0, "x").has_value());
  REQUIRE(rig.eventually([&] { return rig.view().awaited.load() == 0b011; }));
  CHECK(rig.any().usage()->free_bytes == 0);
  CHECK(rig.allocate(kObject, 0, 100'000).error() == Errc::kBusy);
  for (unsigned member : {0U, 1U}) rig.member[member]->failing = false;
  REQUIRE(rig.whole());
  CHECK(rig.allocate(kObject, 0, 100'000));
}

// A crash in the middle of writes, with others taking what was free: recovery has what it needs.
TEST_CASE("full members recover", "[parity]") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SmallMembers rig(seed);
    const std::string content = pattern(8 * kRow);
    REQUIRE(rig.write(kObject, 0, content, Stability::kFileSync));
    REQUIRE(rig.write(object_of(6), 0, content, Stability::kFileSync));
    REQUIRE(rig.commit(kObject));
    rig.power.cut_after = 1 + seed % 20;
    if (seed % 2 == 0) {
      (void)rig.write(kObject, 8 * kRow, pattern(8 * kRow, 2), Stability::kUnstable);
    } else {
      (void)rig.remove(object_of(6));
    }
    rig.close();
    for (unsigned who = 0; who < 4; ++who) {
      rig.member[who]->crash();
      rig.leave(who, 0);
    }
    rig.power.on = true;
    rig.power.cut_after = 0;
    rig.open();
    REQUIRE(rig.whole());
    CHECK(rig.text(kObject, 0, 8 * kRow) == content);
    CHECK(rig.bad_rows(kObject) == 0);
    REQUIRE(rig.remove(kObject));
    CHECK(rig.view().put_out.load() == 0);
  }
}

// What a member missed the removal of goes before it gets what it missed.
TEST_CASE("a full member that was away comes back", "[parity]") {
  SmallMembers rig;
  const std::string content = pattern(64 * kRow);
  REQUIRE(rig.write(object_of(9), 0, content, Stability::kFileSync));
  REQUIRE(rig.commit(object_of(9)));
  rig.member[1]->failing = true;
  REQUIRE(rig.write(object_of(3), 0, content, Stability::kFileSync));
  REQUIRE(rig.degraded());
  REQUIRE(rig.remove(object_of(9)));
  REQUIRE(rig.write(object_of(4), 0, content.substr(0, kRow), Stability::kFileSync));
  rig.leave(1, 0);
  rig.member[1]->failing = false;
  REQUIRE(rig.whole());
  CHECK(rig.text(object_of(3), 0, content.size()) == content);
  CHECK(rig.bad_rows(object_of(3)) == 0);
  CHECK(rig.view().put_out.load() == 1);
}

}  // namespace
}  // namespace weft
