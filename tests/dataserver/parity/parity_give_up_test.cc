// A member that is lost together with a crash of the data server, and is given up: what only it had
// is lost and said to be so, everything else is there.
#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "tests/dataserver/parity/parity_rig.h"

using namespace weft;
using namespace weft::test;

namespace {

constexpr std::size_t kRegion = std::size_t{64} << 10;  // of the rig
constexpr std::size_t kSize = 4 * kRegion;
const layout::ObjectId kObject = object_of(1);
const layout::ObjectId kOther = object_of(2);

std::string bytes_of(ds::ReadResult read) {
  auto bytes = read.payload.flatten().value();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

constexpr int kPatient = 500;   // tries, 5 ms apart
constexpr int kImpatient = 20;  // where the answer is not to become another

// As a client that is told "later".
std::string text(ParityRig& rig, const layout::ObjectId& object, std::size_t at, std::size_t size,
                 int tries = kPatient) {
  for (int i = 0;; ++i) {
    auto found = rig.read(object, at, static_cast<std::uint32_t>(size));
    if (found || !(found.error() == Errc::kBusy) || i == tries)
      return found ? bytes_of(std::move(*found)) : "error: " + found.error().describe();
    std::this_thread::sleep_for(5ms);
  }
}

// Blocks of an object as a client reads them: what they are, or nothing where it gets an error.
std::vector<std::optional<std::string>> blocks(ParityRig& rig, const layout::ObjectId& object,
                                               std::size_t size, int tries = kPatient) {
  std::vector<std::optional<std::string>> found;
  for (std::size_t at = 0; at < size; at += ds::kParityBlock) {
    const auto block = text(rig, object, at, ds::kParityBlock, tries);
    found.push_back(block.starts_with("error: ") ? std::nullopt : std::optional(block));
  }
  return found;
}

std::size_t unknown(const std::vector<std::optional<std::string>>& found) {
  return static_cast<std::size_t>(
      std::ranges::count_if(found, [](const auto& one) { return !one.has_value(); }));
}

std::size_t first_unknown(const std::vector<std::optional<std::string>>& found) {
  const auto at = std::ranges::find_if(found, [](const auto& one) { return !one.has_value(); });
  return static_cast<std::size_t>(at - found.begin());
}

// Two objects are committed; one is written in its second region, and the data server dies there.
// The member is lost with it.
void lose(ParityRig& rig, unsigned member, const std::string& content, bool crash = false) {
  REQUIRE(rig.write(kObject, 0, content).has_value());
  REQUIRE(rig.write(kOther, 0, content).has_value());
  rig.commit(kObject).value();
  rig.commit(kOther).value();
  REQUIRE(rig.write(kObject, kRegion + 5000, std::string(9000, 'n')).has_value());
  rig.member[member]->failing = true;
  crash ? rig.lose_power() : rig.restart();
  REQUIRE(
      rig.eventually([&] { return rig.view().may_give_up.load() == static_cast<int>(member); }));
}

void give_up(ParityRig& rig, unsigned member) {
  REQUIRE(rig.group().give_up(member).has_value());
  REQUIRE(rig.degraded());
}

// Right where it can be read, and unreadable only within the region that was being written.
std::size_t check_object(ParityRig& rig, const std::string& content, int tries = kPatient) {
  const auto found = blocks(rig, kObject, content.size(), tries);
  auto written = content;
  std::ranges::fill(std::span(written).subspan(kRegion + 5000, 9000), 'n');
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::size_t at = i * ds::kParityBlock;
    INFO("block " << i);
    if (!found[i]) {
      // Stripes are not whole regions.
      CHECK(at + 4 * ds::kParityBlock >= kRegion);
      CHECK(at < 2 * kRegion + 4 * ds::kParityBlock);
      continue;
    }
    bool right = found[i]->size() == ds::kParityBlock;
    for (std::size_t k = 0; right && k < ds::kParityBlock; ++k) {
      right = (*found[i])[k] == content[at + k] || (*found[i])[k] == written[at + k];
    }
    CHECK(right);
  }
  return unknown(found);
}

void replace(ParityRig& rig, unsigned member) {
  rig.member[member]->wipe();
  rig.offers.on_accept = [&rig](unsigned which) { rig.member[which]->failing = false; };
  rig.offers.member = static_cast<int>(member);
  REQUIRE(rig.eventually([&] { return rig.view().replaced.load() == 1; }));
  REQUIRE(rig.whole());
}

}  // namespace

TEST_CASE("a group waits for a member that is lost with the data server until it is given up",
          "[parity]") {
  for (const bool crash : {false, true}) {
    for (unsigned member = 0; member < 3; ++member) {
      INFO("member " << member << " crash " << crash);
      ParityRig rig(3, 4096, 7 + member);
      rig.options.patience = 20ms;
      const auto content = pattern(kSize);
      lose(rig, member, content, crash);
      CHECK(text(rig, kObject, 0, 4096, kImpatient).starts_with("error: "));
      CHECK(rig.group().give_up((member + 1) % 3).error() == Errc::kInvalid);
      CHECK(rig.group().give_up(3).error() == Errc::kInvalid);
      give_up(rig, member);
      const std::size_t lost = check_object(rig, content);
      CHECK(lost > 0);
      CHECK(rig.view().given_up.load() == lost);
      CHECK(text(rig, kOther, 0, 1 << 20) == content);
      // The next process knows it too.
      rig.restart();
      REQUIRE(rig.degraded());
      CHECK(check_object(rig, content) == lost);
      CHECK(rig.view().given_up.load() == lost);
      replace(rig, member);
      CHECK(check_object(rig, content) == lost);
      CHECK(text(rig, kOther, 0, 1 << 20) == content);
      // Also without any other one.
      rig.member[(member + 1) % 3]->failing = true;
      REQUIRE(text(rig, kOther, 0, 1 << 20) == content);
      check_object(rig, content, kImpatient);
    }
  }
}

TEST_CASE("what was given up is there again when it is written anew", "[parity]") {
  for (const bool replaced : {false, true}) {
    for (unsigned members = 2; members <= 4; ++members) {
      INFO("replaced " << replaced << " members " << members);
      ParityRig rig(members, 4096, 3);
      rig.options.patience = 100ms;
      const auto content = pattern(kSize);
      lose(rig, 1, content);
      give_up(rig, 1);
      if (replaced) replace(rig, 1);
      auto before = blocks(rig, kObject, kSize);
      REQUIRE(unknown(before) > 0);
      // A part of a lost block cannot be written, and changes nothing; the others can.
      const auto fresh = pattern(kSize, 9);
      for (std::size_t i = 0; i < before.size(); ++i) {
        const auto part = rig.write(kObject, i * 4096 + 100, std::string(50, 'p'));
        CHECK(part.has_value() == before[i].has_value());
        if (before[i]) std::ranges::fill(std::span(*before[i]).subspan(100, 50), 'p');
      }
      CHECK(blocks(rig, kObject, kSize) == before);
      rig.commit(kObject).value();
      rig.restart();
      CHECK(blocks(rig, kObject, kSize) == before);
      // Whole blocks heal, each by itself.
      for (std::size_t i = 0; i < before.size(); i += 2) {
        REQUIRE(rig.write(kObject, i * 4096, fresh.substr(i * 4096, 4096)).has_value());
        before[i] = fresh.substr(i * 4096, 4096);
      }
      CHECK(blocks(rig, kObject, kSize) == before);
      REQUIRE(rig.write(kObject, 0, fresh).has_value());
      CHECK(text(rig, kObject, 0, kSize) == fresh);
      rig.commit(kObject).value();
      if (!replaced) replace(rig, 1);
      CHECK(rig.bad_rows(kObject) == 0);
      CHECK(text(rig, kObject, 0, kSize) == fresh);
      // A scrub that finds nothing lost says that all is well.
      REQUIRE(rig.group().begin_scrub(false).has_value());
      REQUIRE(rig.eventually([&] { return rig.view().given_up.load() == 0; }));
      CHECK(rig.view().scrub.lost.load() == 0);
    }
  }
}

TEST_CASE("a scrub counts what was given up, and changes nothing of it", "[parity]") {
  ParityRig rig(3, 4096);
  const auto content = pattern(kSize);
  lose(rig, 0, content);
  give_up(rig, 0);
  replace(rig, 0);
  const std::uint64_t lost = rig.view().given_up.load();
  const auto before = blocks(rig, kObject, kSize);
  REQUIRE(rig.group().begin_scrub(false).has_value());
  REQUIRE(rig.eventually([&] { return rig.view().scrub.rounds.load() == 1; }));
  CHECK(rig.view().scrub.lost.load() == lost);
  CHECK(rig.view().given_up.load() == lost);
  CHECK(blocks(rig, kObject, kSize) == before);
  // Nor does a crash while it is written beside.
  REQUIRE(rig.write(kObject, kRegion, std::string(100, 'b')).has_value() ==
          before[kRegion / 4096].has_value());
  rig.restart();
  REQUIRE(rig.whole());
  CHECK(unknown(blocks(rig, kObject, kSize)) == unknown(before));
}

TEST_CASE("an object that was given up in part is cut, grown, punched and removed", "[parity]") {
  for (const bool replaced : {false, true}) {
    ParityRig rig(3, 4096);
    const auto content = pattern(kSize);
    lose(rig, 2, content);
    give_up(rig, 2);
    if (replaced) replace(rig, 2);
    const auto before = blocks(rig, kObject, kSize);
    const auto lost = first_unknown(before);
    REQUIRE(lost < before.size());
    // Into a block that nobody knows: it stays so, what is behind it is zeros.
    REQUIRE(rig.truncate(kObject, lost * 4096 + 77).has_value());
    REQUIRE(rig.truncate(kObject, kSize).has_value());
    auto found = blocks(rig, kObject, kSize);
    CHECK(unknown(found) == 1);
    CHECK_FALSE(found[lost].has_value());
    for (std::size_t i = lost + 1; i < found.size(); ++i) {
      CHECK(found[i] == std::string(4096, '\0'));
    }
    rig.restart();
    found = blocks(rig, kObject, kSize);
    CHECK(unknown(found) == 1);
    REQUIRE(rig.punch(kObject, lost / 2 * 8192, 8192).has_value());
    CHECK(text(rig, kObject, lost / 2 * 8192, 8192) == std::string(8192, '\0'));
    REQUIRE(rig.remove(kObject).has_value());
    CHECK(text(rig, kObject, 0, 10).starts_with("error: not found"));
    CHECK(text(rig, kOther, 0, 1 << 20) == content);
  }
}

TEST_CASE("a member that is given up and comes back is not believed where it was", "[parity]") {
  ParityRig rig(3, 4096);
  const auto content = pattern(kSize);
  lose(rig, 1, content);
  give_up(rig, 1);
  const auto before = blocks(rig, kObject, kSize);
  rig.member[1]->failing = false;
  REQUIRE(rig.whole());
  CHECK(blocks(rig, kObject, kSize) == before);
  CHECK(text(rig, kOther, 0, 1 << 20) == content);
}

TEST_CASE("a member that comes back before it is given up has everything", "[parity]") {
  ParityRig rig(3, 4096);
  const auto content = pattern(kSize);
  lose(rig, 1, content);
  rig.member[1]->failing = false;
  REQUIRE(rig.whole());
  CHECK(rig.group().give_up(1).error() == Errc::kInvalid);
  CHECK(check_object(rig, content) == 0);
}

TEST_CASE("the data server dies at any write of giving a member up", "[parity]") {
  std::uint64_t cut = 1;
  for (bool over = false; !over; cut += 3) {
    INFO("cut at " << cut);
    ParityRig rig(3, 4096, cut);
    rig.options.patience = 100ms;
    const auto content = pattern(kSize);
    lose(rig, 1, content, cut % 2 == 0);
    rig.power.cut_after = cut;
    REQUIRE(rig.group().give_up(1).has_value());
    REQUIRE(rig.eventually(
        [&] { return !rig.power.on || rig.view().state.load() == ds::GroupState::kDegraded; }));
    over = rig.power.on;
    const bool back = cut % 4 == 0;  // it was not lost after all
    rig.lose_power();
    if (back) {
      rig.member[1]->failing = false;
      REQUIRE(rig.whole());
    } else {
      REQUIRE(rig.eventually([&] {
        return rig.view().state.load() == ds::GroupState::kDegraded ||
               rig.view().may_give_up.load() == 1;
      }));
      if (rig.view().state.load() != ds::GroupState::kDegraded) give_up(rig, 1);
    }
    check_object(rig, content);
    CHECK(text(rig, kOther, 0, 1 << 20) == content);
    if (!back) replace(rig, 1);
    check_object(rig, content);
    CHECK(text(rig, kOther, 0, 1 << 20) == content);
  }
  CHECK(cut > 20);
}

TEST_CASE("cutting an object in a block that is lost does not stop the group", "[parity]") {
  ParityRig rig(3, 4096);
  const auto content = pattern(kSize);
  REQUIRE(rig.write(kObject, 0, content).has_value());
  rig.commit(kObject).value();
  for (unsigned member : {0U, 1U, 2U}) rig.member[member]->files[kObject].now[8192 + 3] ^= 1;
  const auto before = blocks(rig, kObject, kSize);
  REQUIRE(unknown(before) == 2);
  const auto lost = first_unknown(before);
  REQUIRE(rig.truncate(kObject, lost * 4096 + 9).has_value());
  CHECK(text(rig, kObject, 0, 4096) == content.substr(0, 4096));
  rig.restart();
  CHECK(unknown(blocks(rig, kObject, lost * 4096 + 9)) == 1);
}

TEST_CASE("a block that is lost at a survivor is lost at a new member too", "[parity]") {
  ParityRig rig(3, 4096);
  const auto content = pattern(kSize);
  REQUIRE(rig.write(kObject, 0, content).has_value());
  rig.commit(kObject).value();
  rig.member[0]->files[kObject].now[100] ^= 1;
  rig.member[1]->failing = true;
  CHECK(text(rig, kOther, 0, 10).starts_with("error: not found"));
  REQUIRE(rig.degraded());
  replace(rig, 1);
  const auto found = blocks(rig, kObject, kSize);
  CHECK(unknown(found) > 0);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i]) CHECK(*found[i] == content.substr(i * 4096, 4096));
  }
}

TEST_CASE("what nobody wrote of an object reads as zeros when a member is given up", "[parity]") {
  for (unsigned member = 0; member < 3; ++member) {
    INFO("member " << member);
    ParityRig rig(3, 4096);
    REQUIRE(rig.write(kObject, 0, pattern(4096)).has_value());
    REQUIRE(rig.write(kObject, kSize - 4096, pattern(4096)).has_value());
    rig.commit(kObject).value();
    // In both regions of these, and in a block's neighbourhood.
    REQUIRE(rig.write(kObject, 100, "a").has_value());
    REQUIRE(rig.write(kObject, kSize - 100, "b").has_value());
    rig.member[member]->failing = true;
    rig.restart();
    REQUIRE(
        rig.eventually([&] { return rig.view().may_give_up.load() == static_cast<int>(member); }));
    give_up(rig, member);
    const auto found = blocks(rig, kObject, kSize);
    CHECK(unknown(found) <= 2);
    for (std::size_t i = 1; i + 1 < found.size(); ++i) {
      INFO("block " << i);
      // Of its stripe, and with one of the others beside it.
      if (found[i]) CHECK(*found[i] == std::string(4096, '\0'));
    }
  }
}

// The other block of its stripe was being made equal to it: that is not there, its parity is.
TEST_CASE("zeros that were written do not say that a member that is given up had zeros",
          "[parity]") {
  ParityRig rig(3, 4096);
  const auto content = pattern(4096);
  const unsigned lost = rig.options.geometry.data_member(0, 0);
  const unsigned other = rig.options.geometry.data_member(0, 1);
  REQUIRE(rig.write(kObject, 0, content).has_value());
  REQUIRE(rig.write(kObject, 40'960, "end").has_value());
  rig.commit(kObject).value();
  REQUIRE(rig.write(kObject, 4096, content).has_value());
  rig.close();
  std::ranges::fill(std::span(rig.member[other]->files[kObject].now).first(4096), '\0');
  auto& sums = rig.member[other]->files[ds::sums_of(kObject)].now;
  std::ranges::fill(std::span(sums).subspan(ds::kSumsAt, ds::kSumBytes), '\0');
  rig.member[other]->files[kObject].blocks.erase(0);
  rig.member[lost]->failing = true;
  rig.open();
  REQUIRE(rig.eventually([&] { return rig.view().may_give_up.load() == static_cast<int>(lost); }));
  give_up(rig, lost);
  CHECK(text(rig, kObject, 0, 4096).starts_with("error: "));
}
