// A member that was out comes back: what it cannot be given is lost and said to be so, and nothing
// that it had before is taken for what is there now.
#include <catch2/catch_test_macros.hpp>
#include <set>

#include "tests/dataserver/parity/parity_rig.h"

using namespace weft;
using namespace weft::test;

namespace {

constexpr std::size_t kBlock = ds::kParityBlock;
constexpr std::size_t kSize = std::size_t{64} << 10;  // 16 blocks, 8 rows of 3 members
const layout::ObjectId kObject = object_of(1);
constexpr ds::ParityGeometry kGeometry{.members = 3, .chunk = kBlock};

enum class Fault { kRotten, kUnreadable };

// A row's block at a member is damaged.
void hurt(ParityRig& rig, unsigned member, std::size_t row, Fault fault) {
  if (fault == Fault::kRotten) {
    rig.member[member]->files[kObject].now[row * kBlock + 17] ^= 1;
    rig.member[member]->files[kObject].durable[row * kBlock + 17] ^= 1;
  } else {
    rig.member[member]->unreadable[kObject].insert(row * kBlock + 17);
  }
}

void go_out(ParityRig& rig, unsigned member) {
  static std::uint64_t unknown = 1000;  // one that nobody has asked for before
  rig.member[member]->failing = true;
  CHECK(rig.text(object_of(++unknown), 0, 10).starts_with("error: not found"));
  REQUIRE(rig.degraded());
}

void come_back(ParityRig& rig, unsigned member) {
  const auto before = rig.view().rebuilds.load();
  rig.member[member]->failing = false;
  REQUIRE(rig.eventually([&] { return rig.view().rebuilds.load() > before; }));
  REQUIRE(rig.whole());
}

std::string fill(ParityRig& rig, std::size_t size = kSize) {
  const auto content = pattern(size);
  REQUIRE(rig.write(kObject, 0, content).has_value());
  rig.commit(kObject).value();
  return content;
}

// Blocks that cannot be read. All others are what they are to be.
std::set<std::size_t> unreadable(ParityRig& rig, const std::string& content) {
  std::set<std::size_t> lost;
  for (std::size_t at = 0; at < content.size(); at += kBlock) {
    INFO("block " << at / kBlock);
    const auto found = rig.text(kObject, at, kBlock);
    if (found.starts_with("error: ")) {
      lost.insert(at / kBlock);
    } else {
      CHECK((found == content.substr(at, kBlock)));
    }
  }
  return lost;
}

// The block of the object that a member has in a row; nothing: it has the parity.
std::optional<std::size_t> block_of(unsigned member, std::size_t row) {
  if (kGeometry.parity_member(row) == member) return std::nullopt;
  return kGeometry.logical(member, row * kBlock) / kBlock;
}

}  // namespace

TEST_CASE("what a member that was out cannot be given is lost, never what it was before",
          "[parity][rebuild]") {
  for (const Fault fault : {Fault::kRotten, Fault::kUnreadable}) {
    for (std::size_t row = 3; row < 6; ++row) {
      for (unsigned bad : {0U, 2U}) {
        INFO("row " << row << " bad " << bad << " fault " << static_cast<int>(fault));
        ParityRig rig;
        auto content = fill(rig);
        go_out(rig, 1);
        const auto fresh = pattern(kSize, 2);
        REQUIRE(rig.write(kObject, 0, fresh).has_value());
        hurt(rig, bad, row, fault);
        come_back(rig, 1);
        std::set<std::size_t> lost;
        for (unsigned member : {bad, 1U}) {
          if (const auto block = block_of(member, row)) lost.insert(*block);
        }
        CHECK(unreadable(rig, fresh) == lost);
        CHECK(rig.view().lost_blocks.load() > 0);
        CHECK(rig.view().given_up.load() == 1);
        // The next process knows it, and so does one after a crash.
        rig.lose_power();
        REQUIRE(rig.whole());
        CHECK(unreadable(rig, fresh) == lost);
        CHECK(rig.view().given_up.load() >= 1);
        // A part of it cannot be written; all of it heals it.
        for (const std::size_t block : lost) {
          CHECK_FALSE(rig.write(kObject, block * kBlock + 9, "part").has_value());
        }
        for (const std::size_t block : lost) {
          REQUIRE(
              rig.write(kObject, block * kBlock, fresh.substr(block * kBlock, kBlock)).has_value());
        }
        rig.commit(kObject).value();
        CHECK(unreadable(rig, fresh).empty());
        CHECK(rig.bad_rows(kObject) == 0);
        REQUIRE(rig.group().begin_scrub(false).has_value());
        REQUIRE(rig.eventually([&] { return rig.view().given_up.load() == 0; }));
      }
    }
  }
}

TEST_CASE("what is proved to be what it was is kept, and mends what is damaged beside it",
          "[parity][rebuild]") {
  for (const Fault fault : {Fault::kRotten, Fault::kUnreadable}) {
    for (std::size_t row = 3; row < 6; ++row) {
      for (unsigned bad : {0U, 2U}) {
        ParityRig rig;
        auto content = fill(rig);
        go_out(rig, 1);
        // The region is dirty, the row is not written.
        REQUIRE(rig.write(kObject, 0, std::string(2 * kBlock, 'x')).has_value());
        std::ranges::fill(std::span(content).first(2 * kBlock), 'x');
        hurt(rig, bad, row, fault);
        come_back(rig, 1);
        CHECK(unreadable(rig, content).empty());
        CHECK(rig.bad_rows(kObject) == 0);
        CHECK(rig.view().lost_blocks.load() == 0);
        CHECK(rig.view().given_up.load() == 0);
        CHECK(rig.view().corrupt_blocks.load() == 1);
      }
    }
  }
}

TEST_CASE("a write that a disk has lost proves nothing", "[parity][rebuild]") {
  // Parity is as before the write, its checksum as after it: with the block that the member had
  // before all of the row fits.
  ParityRig rig;
  fill(rig);
  const std::size_t row = 4;
  const unsigned parity = kGeometry.parity_member(row);
  const unsigned out = (parity + 1) % 3;
  const auto block = block_of(out, row).value();
  const auto before = rig.member[parity]->files[kObject].now.substr(row * kBlock, kBlock);
  go_out(rig, out);
  auto content = pattern(kSize);
  const auto fresh = pattern(kBlock, 5);
  REQUIRE(rig.write(kObject, block * kBlock, fresh).has_value());
  std::ranges::copy(fresh, content.begin() + static_cast<long>(block * kBlock));
  auto& file = rig.member[parity]->files[kObject];
  for (std::string* bytes : {&file.now, &file.durable}) {
    std::ranges::copy(before, bytes->begin() + static_cast<long>(row * kBlock));
  }
  come_back(rig, out);
  CHECK(unreadable(rig, content) == std::set<std::size_t>{block});
}

TEST_CASE("a block that becomes readable again gives back what was lost with it",
          "[parity][rebuild]") {
  for (unsigned bad : {0U, 2U}) {
    ParityRig rig;
    fill(rig);
    go_out(rig, 1);
    const auto fresh = pattern(kSize, 2);
    REQUIRE(rig.write(kObject, 0, fresh).has_value());
    hurt(rig, bad, 4, Fault::kUnreadable);
    come_back(rig, 1);
    CHECK_FALSE(unreadable(rig, fresh).empty());
    rig.member[bad]->unreadable.clear();
    CHECK(unreadable(rig, fresh).empty());
    REQUIRE(rig.group().begin_scrub(false).has_value());  // of a parity, which nobody reads
    REQUIRE(rig.eventually([&] { return rig.view().scrub.rounds.load() == 1; }));
    CHECK(rig.bad_rows(kObject) == 0);
  }
}

TEST_CASE("a rebuild that is ended at any write leaves nothing that was before",
          "[parity][rebuild]") {
  bool over = false;
  for (std::uint64_t cut = 1; !over; ++cut) {
    INFO("cut at " << cut);
    ParityRig rig(3, 4096, cut);
    fill(rig);
    go_out(rig, 1);
    const auto fresh = pattern(kSize, 2);
    REQUIRE(rig.write(kObject, 0, fresh).has_value());
    rig.restart();  // the log has no contents any more that would mend it
    REQUIRE(rig.degraded());
    hurt(rig, 0, 4, Fault::kUnreadable);
    hurt(rig, 2, 5, Fault::kRotten);
    rig.power.cut_after = cut;
    const auto rebuilds = rig.view().rebuilds.load();
    rig.member[1]->failing = false;
    REQUIRE(rig.eventually([&] { return !rig.power.on || rig.view().rebuilds.load() > rebuilds; }));
    over = rig.power.on;
    rig.lose_power();
    REQUIRE(rig.whole());
    std::set<std::size_t> lost;
    for (const auto& [member, row] : {std::pair{0U, 4U}, {1U, 4U}, {2U, 5U}, {1U, 5U}}) {
      if (const auto block = block_of(member, row)) lost.insert(*block);
    }
    CHECK(unreadable(rig, fresh) == lost);
    CHECK(rig.view().given_up.load() >= 2);
  }
}

TEST_CASE("what a crash leaves of a write over a lost block is not taken for bytes",
          "[parity][rebuild]") {
  for (std::uint64_t cut = 1; cut <= 12; ++cut) {
    INFO("cut at " << cut);
    ParityRig rig(3, 4096, cut);
    fill(rig);
    go_out(rig, 1);
    const auto fresh = pattern(kSize, 2);
    REQUIRE(rig.write(kObject, 0, fresh).has_value());
    const std::size_t row = 4;
    const unsigned parity = kGeometry.parity_member(row);
    hurt(rig, parity == 1 ? 0 : parity, row, Fault::kRotten);
    come_back(rig, 1);
    const auto lost = unreadable(rig, fresh);
    REQUIRE(lost.size() == 1);
    const std::size_t block = *lost.begin();
    const auto anew = pattern(kBlock, 9);
    rig.options.patience = 20ms;
    rig.power.cut_after = cut;
    (void)rig.write(kObject, block * kBlock, anew);
    (void)rig.commit(kObject);
    rig.options.patience = 1000ms;
    rig.lose_power();
    REQUIRE(rig.whole());
    const auto found = rig.text(kObject, block * kBlock, kBlock);
    const bool told = found.starts_with("error: ");
    CHECK((told || found == anew));
  }
}

TEST_CASE("of a row that was given up the other blocks outlast another absence",
          "[parity][rebuild]") {
  for (unsigned second = 0; second < 3; ++second) {
    INFO("second " << second);
    ParityRig rig;
    fill(rig);
    go_out(rig, 1);
    const auto fresh = pattern(kSize, 2);
    REQUIRE(rig.write(kObject, 0, fresh).has_value());
    hurt(rig, 0, 4, Fault::kRotten);
    hurt(rig, 2, 4, Fault::kRotten);
    come_back(rig, 1);
    auto content = fresh;
    // A part of another block of the row: the row is marked as the format has it.
    const auto lost = unreadable(rig, content);
    go_out(rig, second);
    REQUIRE(rig.write(kObject, 0, std::string(kBlock, 'y')).has_value());
    std::ranges::fill(std::span(content).first(kBlock), 'y');
    come_back(rig, second);
    CHECK(unreadable(rig, content) == lost);
  }
}

TEST_CASE("what was cut off while a member was out does not come back with it",
          "[parity][rebuild]") {
  constexpr std::size_t kLong = std::size_t{512} << 10;  // 8 regions
  for (const bool removed : {false, true}) {
    for (const bool crash : {false, true}) {
      for (unsigned member = 0; member < 3; ++member) {
        INFO("removed " << removed << " crash " << crash << " member " << member);
        ParityRig rig;
        std::string content = fill(rig, kLong);
        go_out(rig, member);
        const std::size_t keep = removed ? 0 : 70'000;
        if (removed) {
          REQUIRE(rig.remove(kObject).has_value());
        } else {
          REQUIRE(rig.truncate(kObject, keep).has_value());
        }
        content.resize(keep);
        REQUIRE(rig.write(kObject, kLong - 10, "0123456789").has_value());
        content.resize(kLong - 10);
        content += "0123456789";
        if (crash) {
          rig.lose_power();
          REQUIRE(rig.degraded());
        }
        come_back(rig, member);
        CHECK(unreadable(rig, content).empty());
        CHECK(rig.bad_rows(kObject) == 0);
        // Nor is it taken off once more, at the next that is out.
        const std::string part = pattern(kBlock, 4);
        REQUIRE(rig.write(kObject, 300'000, part).has_value());
        content.replace(300'000, part.size(), part);
        rig.commit(kObject).value();
        go_out(rig, (member + 1) % 3);
        REQUIRE(rig.write(kObject, 0, "again").has_value());
        content.replace(0, 5, "again");
        come_back(rig, (member + 1) % 3);
        CHECK(unreadable(rig, content).empty());
        CHECK(rig.bad_rows(kObject) == 0);
      }
    }
  }
}

TEST_CASE("a member goes out in the middle of a cut, and the data server dies there",
          "[parity][rebuild]") {
  constexpr std::size_t kLong = std::size_t{512} << 10;
  for (std::uint64_t at = 1; at <= 10; ++at) {
    for (std::uint64_t cut = 1; cut <= 30; cut += 3) {
      INFO("fails at " << at << ", power at " << cut);
      ParityRig rig(3, 4096, at * 100 + cut);
      std::string content = fill(rig, kLong);
      rig.options.patience = 20ms;
      rig.member[1]->fail_in = at;
      rig.power.cut_after = cut;
      (void)rig.truncate(kObject, 70'000);
      rig.options.patience = 1000ms;
      const bool out = rig.view().out.load() == 1;
      rig.member[1]->fail_in = 0;
      rig.member[1]->failing = out;
      rig.lose_power();
      REQUIRE((out ? rig.degraded() : rig.whole()));
      const auto found = rig.stat(kObject).value().size;
      REQUIRE((found == kLong || found == 70'000));
      content.resize(found);
      REQUIRE(rig.truncate(kObject, kLong).has_value());
      content.resize(kLong);
      if (out) come_back(rig, 1);
      CHECK(unreadable(rig, content).empty());
      CHECK(rig.bad_rows(kObject) == 0);
    }
  }
}

TEST_CASE("what was removed while a member was out is not dirty when it is back",
          "[parity][rebuild]") {
  ParityRig rig(3);
  REQUIRE(rig.whole());
  for (std::uint64_t i = 0; i < 10; ++i) {
    REQUIRE(rig.write(object_of(i), 0, pattern(9000), ds::Stability::kFileSync));
  }
  rig.member[1]->failing = true;
  REQUIRE(rig.write(object_of(0), 0, pattern(9000), ds::Stability::kFileSync));
  REQUIRE(rig.degraded());
  for (std::uint64_t i = 0; i < 10; ++i) REQUIRE(rig.remove(object_of(i)));
  rig.member[1]->failing = false;
  REQUIRE(rig.whole());
  CHECK(rig.eventually([&] { return rig.view().dirty_regions.load() == 0; }));
}

TEST_CASE("a log that what is dirty fills alone is written anew no sooner than it has doubled",
          "[parity][rebuild]") {
  ParityRig rig(3);
  rig.options.log_limit = 4096;
  rig.restart();
  REQUIRE(rig.whole());
  rig.member[1]->failing = true;
  for (std::uint64_t i = 0; i < 200; ++i) {
    REQUIRE(rig.write(object_of(i), 0, pattern(100), ds::Stability::kFileSync));
  }
  REQUIRE(rig.degraded());
  rig.member[1]->failing = false;
  REQUIRE(rig.whole());
  REQUIRE(rig.write(object_of(1), 0, pattern(100), ds::Stability::kFileSync));
}

// Or no start would read it, as it has the bytes of all writes.
TEST_CASE("a log is written anew while a member is asked whether it is there",
          "[parity][rebuild]") {
  ParityRig rig(3);
  rig.options.log_limit = 4096;
  rig.restart();
  REQUIRE(rig.whole());
  rig.member[1]->failing = true;
  REQUIRE(rig.write(object_of(0), 0, pattern(9000), ds::Stability::kFileSync));
  REQUIRE(rig.degraded());
  rig.member[1]->silent = true;
  REQUIRE(rig.eventually([&] { return rig.member[1]->is_asked(); }));
  for (std::uint64_t i = 0; i < 100; ++i) {
    REQUIRE(rig.write(object_of(i), 0, pattern(9000), ds::Stability::kFileSync));
  }
  CHECK(rig.eventually([&] { return rig.disk.kept.log.size() < 50'000; }));
  CHECK(rig.member[1]->is_asked());
  rig.member[1]->failing = false;
  rig.member[1]->speak();
  REQUIRE(rig.whole());
  CHECK((rig.text(object_of(99), 0, 9000) == pattern(9000)));
}

TEST_CASE("what became zeros while a member was out does so at one that has no header of it",
          "[parity][rebuild]") {
  for (const bool punched : {true, false}) {
    for (unsigned member = 0; member < 3; ++member) {
      INFO("punched " << punched << " member " << member);
      ParityRig rig;
      REQUIRE(rig.write(kObject, 0, pattern(kSize)).has_value());  // and no commit: no header
      go_out(rig, member);
      const std::string zeros(kSize, '\0');
      if (punched) {
        REQUIRE(rig.punch(kObject, 0, kSize).has_value());
      } else {
        REQUIRE(rig.write(kObject, 0, zeros).has_value());
      }
      come_back(rig, member);
      CHECK((rig.text(kObject, 0, kSize) == zeros));
      CHECK(rig.bad_rows(kObject) == 0);
    }
  }
}

TEST_CASE("what is removed or cut while it is rebuilt is not brought back to the member",
          "[parity][rebuild]") {
  constexpr std::size_t kLong = std::size_t{4} << 20;
  for (const bool header : {true, false}) {  // at the member
    for (const std::size_t keep : {0U, 9000U}) {
      INFO("header " << header << " keep " << keep);
      ParityRig rig;
      rig.options.rates.rebuild = std::uint64_t{8} << 20;
      rig.restart();
      std::string content = pattern(kLong);
      REQUIRE(rig.write(kObject, 0, content).has_value());
      if (header) rig.commit(kObject).value();
      go_out(rig, 1);
      content = pattern(kLong, 2);
      REQUIRE(rig.write(kObject, 0, content).has_value());
      rig.member[1]->failing = false;
      REQUIRE(rig.eventually([&] { return rig.view().rebuilt_bytes.load() > 0; }));
      if (keep == 0) {
        REQUIRE(rig.remove(kObject).has_value());
      } else {
        REQUIRE(rig.truncate(kObject, keep).has_value());
      }
      content.resize(keep);
      REQUIRE(rig.whole());
      CHECK(unreadable(rig, content).empty());
      CHECK(rig.bad_rows(kObject) == 0);
      for (const auto& one : {kObject, ds::sums_of(kObject)}) {
        CHECK(rig.member[1]->files[one].now.size() == rig.member[0]->files[one].now.size());
      }
      REQUIRE(rig.group().begin_scrub(false).has_value());
      REQUIRE(rig.eventually([&] { return rig.view().scrub.rounds.load() == 1; }));
      CHECK(rig.view().scrub.lost.load() == 0);
    }
  }
}

TEST_CASE("a member that restarts where it gets its header does not count as one with the object",
          "[parity][rebuild]") {
  constexpr std::size_t kLong = std::size_t{512} << 10;  // 8 regions, one of them dirty
  for (std::uint64_t at = 1;; ++at) {
    INFO("at " << at);
    ParityRig rig(3, 4096, at);
    std::string content = fill(rig, kLong);
    go_out(rig, 1);
    REQUIRE(rig.write(kObject, 0, "part").has_value());
    content.replace(0, 4, "part");
    rig.member[1]->files.clear();
    rig.member[1]->fail_in = at;
    rig.member[1]->failing = false;
    REQUIRE(
        rig.eventually([&] { return rig.member[1]->failing || rig.view().rebuilds.load() > 0; }));
    if (!rig.member[1]->failing) break;  // it needs no more writes than these
    rig.member[1]->crash();
    rig.member[1]->failing = false;
    REQUIRE(rig.whole());
    CHECK(unreadable(rig, content).empty());
    rig.member[0]->failing = true;
    CHECK(unreadable(rig, content).empty());
  }
}

TEST_CASE("what became zeros does so at a new store that went out in the middle of the object",
          "[parity][rebuild]") {
  constexpr std::size_t kLong = std::size_t{4} << 20;
  for (const bool behind : {false, true}) {  // zeros, and data behind them
    INFO("behind " << behind);
    ParityRig rig;
    rig.options.rates.rebuild = 1;  // so that no more than the first stripes are rebuilt
    rig.restart();
    std::string content = fill(rig, kLong);
    rig.member[1]->wipe();
    rig.member[1]->failing = true;
    rig.offers.on_accept = [&](unsigned which) { rig.member[which]->failing = false; };
    rig.offers.member = 1;
    REQUIRE(rig.eventually([&] { return rig.view().rebuilt_bytes.load() > 0; }));
    REQUIRE_FALSE(rig.member[1]->files[kObject].now.empty());
    rig.member[1]->failing = true;  // it is written, but not read
    REQUIRE(rig.write(object_of(7), 0, "x").has_value());
    REQUIRE(rig.degraded());
    const std::size_t gone = behind ? kLong / 2 : kLong;
    REQUIRE(rig.punch(kObject, 0, gone).has_value());
    std::ranges::fill(std::span(content).first(gone), '\0');
    rig.options.rates.rebuild = 0;
    rig.restart();
    rig.member[1]->failing = false;
    REQUIRE(rig.whole());
    CHECK(unreadable(rig, content).empty());
    CHECK(rig.bad_rows(kObject) == 0);
  }
}
