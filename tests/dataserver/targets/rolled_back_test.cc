// Targets whose stores come back in an earlier state.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>

#include "dataserver/store/state_file.h"
#include "tests/dataserver/targets/target_rig.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;
using test::RemoteRunner;
using test::TargetRig;

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1};

LinkOptions impatient() {
  LinkOptions options = test::quick_link();
  options.patience = 300ms;
  return options;
}

struct Rig : TargetRig {
  // What was noted last, as the data server knows.
  [[nodiscard]] StoreState noted() const { return test::noted_target(folder.path() + "/ds"); }
  bool wait_noted(RemoteRunner& runner, const StoreState& before) const {
    return runner.eventually([&] { return noted().generation > before.generation; });
  }
  // Its objects as they are now, put aside under a name and put back.
  void save(const std::string& name) const {
    std::filesystem::copy(objects(), folder.path() + "/" + name,
                          std::filesystem::copy_options::recursive);
  }
  void bring_back(const std::string& name) const {
    std::filesystem::remove_all(objects());
    std::filesystem::copy(folder.path() + "/" + name, objects(),
                          std::filesystem::copy_options::recursive);
  }
  // Of the only space.
  [[nodiscard]] std::string state_file() const {
    return std::filesystem::directory_iterator(objects())->path().string() + "/state";
  }
  [[nodiscard]] std::string objects() const { return folder.path() + "/objects"; }
  // One run of both, that writes `text`; until it has noted a state.
  void run_once(const std::string& text) const {
    const StoreState before = noted();
    const auto target = start();
    RemoteRunner runner(*this, local());
    REQUIRE(runner.write(kObject, 0, text));
    REQUIRE(wait_noted(runner, before));
    CHECK_FALSE(runner.remote().rolled_back());
  }
};

TEST_CASE("rolled back: a target is only told of, until it is to be served") {
  const Rig rig;
  rig.run_once("old");
  rig.save("old");
  rig.run_once("new");
  rig.save("new");
  rig.bring_back("old");
  const StoreState newest = rig.noted();
  {
    const auto target = rig.start();
    RemoteRunner runner(rig, rig.local());
    CHECK(runner.text(kObject, 0, 10) == "old");
    CHECK(runner.remote().rolled_back());
    CHECK_FALSE(runner.remote().refused());
    runner.run_for(300ms);
    CHECK(rig.noted() == newest);
  }
  SECTION("it is refused") {
    const auto target = rig.start();
    RemoteRunner runner(rig, rig.local(), impatient());
    runner.remote().serve(false);
    CHECK(runner.read(kObject, 0, 10).error() == Errc::kTimedOut);
    CHECK(runner.view().connected == 0);
    CHECK(runner.remote().refused());
  }
  SECTION("the newer one comes back") {
    rig.bring_back("new");
    const auto target = rig.start();
    RemoteRunner runner(rig, rig.local());
    CHECK(runner.text(kObject, 0, 10) == "new");
    CHECK_FALSE(runner.remote().rolled_back());
  }
  SECTION("it is taken as it is, and no second time") {
    auto target = rig.start();
    RemoteRunner runner(rig, rig.local());
    CHECK(runner.text(kObject, 0, 10) == "old");
    runner.remote().serve(true);
    REQUIRE(rig.wait_noted(runner, newest));
    REQUIRE(runner.write(kObject, 0, "newer"));
    target.reset();
    rig.bring_back("old");
    target = rig.start();
    CHECK(runner.eventually([&] { return runner.remote().refused(); }));
  }
  SECTION("it is taken as it is, and from then on the one that was newer is the older one") {
    {
      const auto target = rig.start();
      RemoteRunner runner(rig, rig.local());
      CHECK(runner.text(kObject, 0, 10) == "old");
      runner.remote().serve(true);
      REQUIRE(rig.wait_noted(runner, newest));
      CHECK_FALSE(runner.remote().rolled_back());
    }
    rig.run_once("newer");
    rig.bring_back("new");
    const auto target = rig.start();
    RemoteRunner runner(rig, rig.local());
    CHECK(runner.text(kObject, 0, 10) == "new");
    CHECK(runner.remote().rolled_back());
  }
}

TEST_CASE("rolled back: a target is refused while its data server goes on") {
  const Rig rig;
  auto target = rig.start();
  RemoteRunner runner(rig, rig.local());
  runner.remote().serve(false);
  REQUIRE(runner.write(kObject, 0, "old"));
  REQUIRE(rig.wait_noted(runner, {}));
  target.reset();
  rig.save("old");
  const StoreState before = rig.noted();
  target = rig.start();
  REQUIRE(runner.write(kObject, 0, "new"));
  REQUIRE(rig.wait_noted(runner, before));  // each time that the target has begun anew
  target.reset();
  rig.bring_back("old");
  target = rig.start();
  CHECK(runner.eventually([&] { return runner.remote().refused(); }));
  CHECK(runner.view().connected == 0);
}

TEST_CASE("rolled back: a copy that another data server has noted a state at is refused") {
  const Rig rig;
  rig.run_once("x");
  StoreState other = rig.noted();
  other.boot ^= 1;
  const auto slot = encode_state(other);
  std::fstream file(rig.state_file(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(other.generation % 2 * kStateSlotBytes));
  file.write(reinterpret_cast<const char*>(slot.data()), slot.size());
  file.close();
  const auto target = rig.start();
  RemoteRunner runner(rig, rig.local());
  CHECK(runner.text(kObject, 0, 10) == "x");
  CHECK(runner.remote().rolled_back());
}

TEST_CASE("rolled back: a target that has noted nothing is older than one that had") {
  const Rig rig;
  rig.run_once("x");
  std::filesystem::remove(rig.state_file());
  const auto target = rig.start();
  const bool member = GENERATE(false, true);
  RemoteRunner runner(rig, rig.local(), impatient(), 1, 'a', member);
  CHECK(runner.text(kObject, 0, 10) ==
        (member ? "error: timed out: the target did not answer" : "x"));
  CHECK(runner.remote().rolled_back());
}

TEST_CASE("rolled back: what both have, what only the target was told, or none yet is no sign") {
  const Rig rig;
  rig.run_once("x");
  StoreState before = rig.noted();
  const std::string file = test::noted_file(rig.folder.path() + "/ds");
  const std::string kept = rig.folder.path() + "/kept";
  SECTION("a data server that died before it had noted it") {
    std::filesystem::copy(file, kept);
    {
      const auto target = rig.start();
      RemoteRunner runner(rig, rig.local());
      CHECK(runner.text(kObject, 0, 10) == "x");
      REQUIRE(rig.wait_noted(runner, before));
    }
    std::filesystem::rename(kept, file);
  }
  SECTION("a data server that knew no notes") {
    std::filesystem::remove(file);
    before = {};
  }
  SECTION("a data server that knew no notes, of another store") {
    const std::string other = "target-state-" + std::string(32, '7');
    std::filesystem::rename(file, rig.folder.path() + "/ds/" + other);
    before = {};
  }
  SECTION("nothing between") {}
  const auto target = rig.start();
  RemoteRunner runner(rig, rig.local());
  CHECK(runner.text(kObject, 0, 10) == "x");
  CHECK(rig.wait_noted(runner, before));
  CHECK_FALSE(runner.remote().rolled_back());
}

TEST_CASE("rolled back: a new store in a member's place has nothing noted") {
  const Rig rig;
  rig.run_once("x");
  std::filesystem::remove_all(rig.objects());
  const auto target = rig.start();
  RemoteRunner runner(rig, rig.local(), impatient(), 1, 'a', true);
  REQUIRE(runner.eventually([&] { return runner.remote().offered(); }));
  CHECK_FALSE(runner.remote().rolled_back());
  REQUIRE(runner.remote().accept());
  REQUIRE(runner.eventually([&] { return runner.write(kObject, 0, "anew").has_value(); }));
  CHECK(rig.wait_noted(runner, {}));
}

TEST_CASE("rolled back: connections that are made while a state is noted are taken") {
  const Rig rig;
  auto target = rig.start();
  RemoteRunner runner(rig, rig.local(), impatient(), 1, 'a', false, 64, 4);
  StoreState before;
  for (int round = 0; round < 10; ++round) {
    REQUIRE(rig.wait_noted(runner, before));
    before = rig.noted();
    CHECK_FALSE(runner.remote().rolled_back());
    target.reset();
    target = rig.start();
  }
  CHECK(runner.eventually([&] { return runner.view().connected == 4; }));
}

}  // namespace
}  // namespace weft::ds
