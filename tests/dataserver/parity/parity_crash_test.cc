// Power cuts, at any write to members or log: what was committed is there, the rest is old or new.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <set>
#include <thread>

#include "tests/dataserver/parity/parity_rig.h"

using namespace weft;
using namespace weft::test;
using ds::Stability;

namespace {

constexpr std::size_t kSpan = 100'000;
const layout::ObjectId kObject{.fileid = 7, .generation = 1};

// What may be read of an object: for each byte the values it may have, and sizes it may have.
struct Allowed {
  std::vector<std::string> bytes = std::vector<std::string>(kSpan * 2, std::string(1, '\0'));
  std::set<std::uint64_t> sizes{0};
  std::string now;  // as it is if all is well

  void may(std::uint64_t at, char value) {
    if (!bytes[at].contains(value)) bytes[at] += value;
  }
  void put(std::uint64_t offset, const std::string& what) {
    if (now.size() < offset + what.size()) now.resize(offset + what.size(), '\0');
    std::ranges::copy(what, now.begin() + static_cast<std::ptrdiff_t>(offset));
    for (std::size_t i = 0; i < what.size(); ++i) may(offset + i, what[i]);
    sizes.insert(now.size());
  }
  void cut(std::uint64_t size) {
    for (std::uint64_t at = std::min<std::uint64_t>(size, now.size()); at < bytes.size(); ++at) {
      may(at, '\0');
    }
    now.resize(size, '\0');
    sizes.insert(size);
  }
  // All that was done is stable.
  void settled() { *this = of(now); }
  static Allowed of(std::string what) {
    Allowed made;
    made.now = std::move(what);
    made.sizes = {made.now.size()};
    for (std::size_t i = 0; i < made.now.size(); ++i) made.bytes[i] = std::string(1, made.now[i]);
    return made;
  }
  [[nodiscard]] std::string wrong(const std::string& found) const {
    if (!sizes.contains(found.size())) return "size " + std::to_string(found.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!bytes[i].contains(found[i])) return "byte " + std::to_string(i);
    }
    return "";
  }
};

// One random operation. False when it failed, as after the power is gone.
bool step(ParityRig& rig, SeededRandom& random, Allowed& allowed) {
  const std::uint64_t offset = random.below(kSpan);
  switch (random.below(10)) {
    case 0: {
      const bool good = rig.commit(kObject).has_value();
      if (good) allowed.settled();
      return good;
    }
    case 1: {
      allowed.cut(offset);
      const bool good = rig.truncate(kObject, offset).has_value();
      return good;
    }
    case 2: {
      const std::uint64_t size = std::min<std::uint64_t>(
          random.below(40'000), allowed.now.size() > offset ? allowed.now.size() - offset : 0);
      if (size > 0) allowed.put(offset, std::string(size, '\0'));
      return rig.punch(kObject, offset, size).has_value();
    }
    default: {
      const std::size_t sizes[] = {1, 100, 4096, 8192, 33'000, 65'536};
      const std::string bytes(sizes[random.below(6)], static_cast<char>('a' + random.below(26)));
      const bool stable = random.below(4) == 0;
      allowed.put(offset, bytes);
      return rig.write(kObject, offset, bytes, stable ? Stability::kFileSync : Stability::kUnstable)
          .has_value();
    }
  }
}

// A group that has just begun, or whose members are slower than its patience, is asked again.
std::string contents(ParityRig& rig) {
  auto text = rig.text(kObject, 0, 1 << 20);
  for (int i = 0; i < 500 && text.starts_with("error: ") && !text.starts_with("error: not found");
       ++i) {
    std::this_thread::sleep_for(20ms);
    text = rig.text(kObject, 0, 1 << 20);
  }
  return text.starts_with("error: not found") ? "" : text;
}

enum class Out { kNobody, kBefore, kDuring };

std::string run(std::uint64_t seed, bool members_crash, Out out) {
  SeededRandom random(seed);
  const unsigned members = 2 + static_cast<unsigned>(random.below(3));
  ParityRig rig(members, random.below(2) == 0 ? 4096 : 16384, seed);
  rig.options.patience = 20ms;
  Allowed allowed;
  const unsigned victim = static_cast<unsigned>(random.below(members));
  for (int i = 0; i < 6; ++i) step(rig, random, allowed);
  if (!rig.commit(kObject)) return "the first commit failed";
  allowed.settled();
  if (out == Out::kBefore) {
    rig.member[victim]->failing = true;
    const std::string bytes(65'536, 'x');
    if (!rig.write(kObject, 0, bytes)) return "a write without a member failed";
    allowed.put(0, bytes);
    if (!rig.degraded()) return "the member is not out";
  }
  if (out == Out::kDuring) rig.member[victim]->fail_in = 1 + random.below(60);
  rig.power.cut_after = 1 + random.below(120);
  for (int i = 0; i < 20 && rig.power.on; ++i) {
    if (!step(rig, random, allowed)) break;
  }
  if (rig.power.on && out != Out::kNobody) {
    rig.member[victim]->fail_in = 0;
    rig.member[victim]->failing = random.below(2) == 0;
  }
  // One that goes at the same time as the power is two failures; it comes back.
  if (out == Out::kDuring) rig.member[victim]->fail_in = 0;
  if (out == Out::kDuring && rig.view().out.load() < 0) rig.member[victim]->failing = false;
  if (members_crash) {
    rig.lose_power();
  } else {
    rig.restart();
  }
  const auto found = contents(rig);
  if (const auto wrong = allowed.wrong(found); !wrong.empty()) return wrong + " after the cut";
  // Life goes on, and the member comes back.
  allowed = Allowed::of(found);
  for (int i = 0; i < 4; ++i) {
    if (!step(rig, random, allowed)) return "an operation after the cut failed";
  }
  if (contents(rig) != allowed.now) return "contents after the cut";
  for (auto& one : rig.member) one->failing = false;
  if (!rig.whole()) return "not whole again";
  if (contents(rig) != allowed.now) return "contents when whole";
  if (!rig.commit(kObject)) return "the last commit failed";
  if (const int bad = rig.bad_rows(kObject); bad != 0) return std::to_string(bad) + " bad rows";
  if (rig.view().lost_blocks.load() != 0) return "lost blocks";
  return "";
}

void run_seeds(std::uint64_t count, bool members_crash, Out out) {
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    INFO("seed " << seed);
    REQUIRE(run(seed, members_crash, out) == "");
  }
}

}  // namespace

TEST_CASE("the data server dies at any write", "[parity]") { run_seeds(100, false, Out::kNobody); }
TEST_CASE("the power goes at any write, with unstable writes lost in part", "[parity]") {
  run_seeds(100, true, Out::kNobody);
}
TEST_CASE("the power goes at any write while a member is out", "[parity]") {
  run_seeds(100, true, Out::kBefore);
}
TEST_CASE("the data server dies while a member goes or is out", "[parity]") {
  run_seeds(100, false, Out::kDuring);
}

// An object of two chunks, the log without a word of it, and the member that has one of them out.
static void lose_member(ParityRig& rig, const std::string& content, unsigned chunk) {
  rig.options.patience = 20ms;
  rig.restart();
  REQUIRE(rig.whole());
  REQUIRE(rig.write(kObject, 0, content, Stability::kFileSync));
  REQUIRE(rig.commit(kObject));
  rig.member[rig.options.geometry.data_member(0, chunk)]->failing = true;
  REQUIRE(rig.write(kObject, 0, content, Stability::kFileSync));
  REQUIRE(rig.degraded());
  rig.restart();
  REQUIRE(rig.degraded());
}

// The data server has died. The next one recovers, and dies at so many writes if it takes them.
static void recover_until(ParityRig& rig, std::uint64_t writes) {
  rig.close();
  rig.power.on = true;
  rig.power.cut_after = writes;
  rig.open();
  static_cast<void>(rig.eventually(
      [&] { return !rig.power.on || rig.view().state.load() == ds::GroupState::kDegraded; }));
}

// What recovery itself logs, and does not get done, the next one has to find.
TEST_CASE("the data server dies in a cut without a member, and once more in recovery", "[parity]") {
  const std::string content = pattern(8192);
  for (std::uint64_t first = 1; first <= 12; ++first) {
    for (std::uint64_t second = 1; second <= 30; ++second) {
      CAPTURE(first, second);
      ParityRig rig(3, 4096, 100 * first + second);
      lose_member(rig, content, 0);
      rig.power.cut_after = first;
      static_cast<void>(rig.truncate(kObject, 4096));
      recover_until(rig, second);
      rig.restart();
      REQUIRE(rig.degraded());
      const std::string found = contents(rig);
      CHECK((found.size() == 4096 || found == content));
      CHECK(found.substr(0, 4096) == content.substr(0, 4096));
    }
  }
}

// What recovery finds in the log, and acts by, may not have been synced by the one that wrote it.
TEST_CASE("the data server dies in a write without a member, its machine in recovery", "[parity]") {
  const std::string content = pattern(8192);
  for (std::uint64_t first = 1; first <= 8; ++first) {
    for (std::uint64_t second = 1; second <= 20; ++second) {
      CAPTURE(first, second);
      ParityRig rig(3, 4096, 100 * first + second);
      lose_member(rig, content, 1);
      rig.power.cut_after = first;
      static_cast<void>(rig.write(kObject, 0, std::string(4096, 'x'), Stability::kFileSync));
      recover_until(rig, second);
      rig.lose_power();
      REQUIRE(rig.degraded());
      CHECK(contents(rig).substr(4096) == content.substr(4096));
    }
  }
}

// A member fails in the middle of an append, which is tried again without it; then the data server
// dies, at any write.
TEST_CASE("an append that was not answered leaves nothing behind the end", "[parity]") {
  for (const unsigned members : {2U, 3U}) {
    bool over = false;
    for (std::uint64_t cut = 1; !over; ++cut) {
      INFO("members " << members << " cut at " << cut);
      ParityRig rig(members, 4096, cut);
      REQUIRE(rig.write(kObject, 0, std::string(4096, 'a'), Stability::kFileSync).has_value());
      rig.options.patience = 20ms;
      rig.member[0]->fail_in = 2;
      rig.power.cut_after = cut;
      const bool written = rig.write(kObject, 4096, std::string(32'768, 'b')).has_value();
      over = written && rig.power.on;
      rig.member[0]->fail_in = 0;
      // Two failures at once are waited for.
      if (rig.view().out.load() < 0) rig.member[0]->failing = false;
      rig.restart();
      const std::size_t size = contents(rig).size();
      REQUIRE(size >= 4096);
      REQUIRE(rig.write(kObject, 65'535, "z", Stability::kFileSync).has_value());
      const auto behind = [&] { return contents(rig).substr(size, 65'535 - size); };
      CHECK((behind() == std::string(65'535 - size, '\0')));
      rig.member[0]->failing = false;
      REQUIRE(rig.whole());
      CHECK((behind() == std::string(65'535 - size, '\0')));
      CHECK(rig.bad_rows(kObject) == 0);
    }
  }
}

static std::vector<std::map<layout::ObjectId, std::string>> held(const ParityRig& rig) {
  std::vector<std::map<layout::ObjectId, std::string>> all;
  for (const auto& one : rig.member) {
    all.emplace_back();
    for (const auto& [object, file] : one->files) all.back()[object] = file.now;
  }
  return all;
}

// It may be an old copy of the data server that has the targets.
TEST_CASE("a group that may not change its members finds out who is there, and waits", "[parity]") {
  enum class How { kDirty, kOut, kAway, kNew };
  for (const How how : {How::kDirty, How::kOut, How::kAway, How::kNew}) {
    INFO("how " << static_cast<int>(how));
    ParityRig rig(3, 4096);
    REQUIRE(rig.write(kObject, 0, pattern(kSpan)));
    REQUIRE(rig.commit(kObject));
    const bool out = how == How::kOut || how == How::kNew;
    rig.member[1]->failing = out;
    REQUIRE(rig.write(kObject, 5000, "changed"));
    if (how == How::kAway) REQUIRE(rig.commit(kObject));
    if (out) REQUIRE(rig.degraded());
    if (how == How::kAway) {  // with nothing in doubt
      REQUIRE(rig.eventually([&] { return rig.view().dirty_regions.load() == 0; }));
      rig.member[1]->failing = true;
    }
    if (how == How::kNew) rig.member[1]->wipe();
    rig.may_change = false;
    rig.restart();
    if (how == How::kNew) {
      rig.member[1]->failing = false;
      rig.offers.member = 1;
    }
    const auto before = held(rig);
    const auto asked = rig.member[0]->stats;
    REQUIRE(rig.eventually([&] { return rig.member[0]->stats >= asked + 3; }));
    CHECK(held(rig) == before);
    CHECK(rig.view().state.load() == ds::GroupState::kStarting);
    CHECK(rig.view().awaited.load() == 0);
    // As it registers.
    const auto usage = rig.any().usage();
    REQUIRE(usage);
    CHECK(usage->free_bytes > 0);
    rig.group().allow_changes();
    REQUIRE((how == How::kOut || how == How::kAway ? rig.degraded() : rig.whole()));
    auto content = pattern(kSpan);
    content.replace(5000, 7, "changed");
    CHECK((rig.text(kObject, 0, kSpan) == content));
  }
}

TEST_CASE("a member that was found away is not asked again before it can be reached", "[parity]") {
  ParityRig rig(3, 4096);
  REQUIRE(rig.write(kObject, 0, pattern(kSpan)));
  REQUIRE(rig.commit(kObject));
  REQUIRE(rig.eventually([&] { return rig.view().dirty_regions.load() == 0; }));
  auto& away = *rig.member[1];
  away.failing = away.unreachable = true;
  rig.may_change = false;
  rig.restart();
  REQUIRE(rig.eventually([&] { return rig.view().away.load() != 0 || rig.any().usage(); }));
  const auto asked = rig.member[0]->stats;
  const auto before = away.stats;
  REQUIRE(rig.eventually([&] { return rig.member[0]->stats >= asked + 3; }));
  CHECK(away.stats == before);
  const bool comes_back = GENERATE(false, true);
  if (comes_back) away.failing = away.unreachable = false;
  rig.group().allow_changes();
  REQUIRE((comes_back ? rig.whole() : rig.degraded()));
  if (comes_back) CHECK(away.stats > before);
}

// It said whether a member is out.
TEST_CASE("a group whose record is gone and whose log is not does not begin as a whole one",
          "[parity]") {
  ParityRig rig(3, 4096);
  rig.options.patience = 20ms;
  REQUIRE(rig.write(kObject, 0, pattern(kSpan)));
  REQUIRE(rig.commit(kObject));
  rig.member[1]->failing = true;
  REQUIRE(rig.write(kObject, 5000, "changed"));
  REQUIRE(rig.degraded());
  rig.close();
  const auto record = std::exchange(rig.disk.kept.record, {});
  const auto log = rig.disk.kept.log;
  rig.member[1]->failing = false;
  rig.open();
  CHECK(rig.text(kObject, 5000, 7).starts_with("error: busy"));
  CHECK(rig.view().state.load() == ds::GroupState::kStarting);
  CHECK(rig.disk.kept.record.empty());
  CHECK(rig.disk.kept.log == log);
  rig.disk.kept.record = record;
  REQUIRE(rig.whole());
  CHECK(rig.text(kObject, 5000, 7) == "changed");
}
