// Objects that are holes for the most part: only what they have is gone through.
#include <catch2/catch_test_macros.hpp>

#include "dataserver/store/file_store.h"
#include "tests/dataserver/parity/parity_rig.h"
#include "tests/dataserver/temp_folder.h"

using namespace weft;
using namespace weft::test;

namespace {

const layout::ObjectId kObject = object_of(1);
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// A group over stores in folders, which know of holes.
class FolderRig : public StoreCalls {
 public:
  FolderRig() {
    for (unsigned i = 0; i < 3; ++i) {
      ds::FileStoreOptions options;
      options.path = folder_.path() + "/member" + std::to_string(i);
      stores_.push_back(std::move(ds::FileStore::open(options, pool_).value()));
    }
    std::vector<ds::Store*> members;
    for (auto& one : stores_) members.push_back(one.get());
    group_ = std::make_unique<ds::ParityStore>(
        ds::ParityStore::Parts{.members = members,
                               .disk = disk_,
                               .pool = pool_,
                               .clock = system_clock(),
                               .random = power_.random,
                               .rings = {ring_.get()},
                               .options = {.geometry = {.members = 3}}});
    group_->start();
    group_->allow_changes();
  }
  ~FolderRig() override {
    group_->close();
    eventually([this] { return group_->idle(); });
    eventually([this] {
      return std::ranges::all_of(stores_, [](const auto& one) { return one->workers_idle(); });
    });
    group_.reset();
    for (auto& one : stores_) static_cast<void>(one->close());
  }
  ds::Store& any() override { return *group_; }
  ds::ParityStore& group() { return *group_; }
  template <class Check>
  bool eventually(Check check) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!check()) {
      if (std::chrono::steady_clock::now() > end) return false;
      context_.restart();
      context_.run_one_for(5ms);
    }
    return true;
  }

 private:
  Power power_{1};
  MemoryDisk disk_{power_};
  const TempFolder folder_;
  std::vector<std::unique_ptr<ds::FileStore>> stores_;
  std::unique_ptr<ds::ParityStore> group_;
};

}  // namespace

TEST_CASE("a byte far behind is found, scrubbed and punched at once", "[parity][holes]") {
  FolderRig rig;
  constexpr std::uint64_t kFar = std::uint64_t{1} << 42;
  REQUIRE(rig.write(kObject, 100, "first").has_value());
  REQUIRE(rig.write(kObject, kFar, "x").has_value());
  rig.commit(kObject).value();
  CHECK(rig.next_data(kObject, 0).value().begin == 0);
  const auto far = rig.next_data(kObject, kMiB * 1024).value().begin;
  CHECK(far <= kFar);
  CHECK(far > kFar - 1024 * kMiB);
  CHECK(rig.next_data(kObject, kFar + 1).value() == ds::DataRun{});
  CHECK(rig.next_data(object_of(2), 0).error() == Errc::kNotFound);
  REQUIRE(rig.group().begin_scrub(false).has_value());
  REQUIRE(rig.eventually([&] { return rig.group().view().scrub.rounds.load() == 1; }));
  CHECK(rig.group().view().scrub.bytes.load() < 256 * kMiB);
  CHECK(rig.group().view().scrub.lost.load() == 0);
  REQUIRE(rig.punch(kObject, 0, kFar).has_value());
  CHECK(rig.text(kObject, 100, 5) == std::string(5, '\0'));
  CHECK(rig.text(kObject, kFar, 10) == "x");
}

TEST_CASE("a rebuild and a scrub read what is there, and not holes", "[parity][holes]") {
  for (const bool tells : {true, false}) {
    ParityRig rig(3, 4096);
    rig.options.region_bytes = 8 * kMiB;
    rig.restart();
    REQUIRE(rig.whole());
    for (auto& one : rig.member) one->tells_holes = tells;
    const auto here = pattern(300'000, 1);
    const auto there = pattern(300'000, 2);
    REQUIRE(rig.write(kObject, 2 * kMiB, here).has_value());
    REQUIRE(rig.write(kObject, 12 * kMiB, there).has_value());
    rig.commit(kObject).value();
    const std::uint64_t before = rig.member[0]->reads;
    REQUIRE(rig.group().begin_scrub(false).has_value());
    REQUIRE(rig.eventually([&] { return rig.view().scrub.rounds.load() == 1; }));
    const std::uint64_t scrubbed = rig.member[0]->reads - before;
    rig.member[1]->wipe();
    rig.member[1]->failing = true;
    rig.offers.on_accept = [&rig](unsigned which) { rig.member[which]->failing = false; };
    rig.offers.member = 1;
    REQUIRE(rig.eventually([&] { return rig.view().replaced.load() == 1; }));
    const std::uint64_t rebuilt = rig.member[0]->reads - before - scrubbed;
    CHECK(rig.bad_rows(kObject) == 0);
    CHECK((rig.text(kObject, 2 * kMiB, 300'000) == here));
    CHECK((rig.text(kObject, 12 * kMiB, 300'000) == there));
    CHECK((scrubbed < 20) == tells);
    CHECK((rebuilt < 20) == tells);
  }
}

TEST_CASE("a hole in a stripe of which a member is out is told by the others", "[parity][holes]") {
  for (unsigned member = 0; member < 3; ++member) {
    ParityRig rig(3, 4096);
    // One block, which is at the member that goes out in one of the cases.
    REQUIRE(rig.write(kObject, 3 * 8192, std::string(4096, 'd')).has_value());
    REQUIRE(rig.truncate(kObject, kMiB).has_value());
    rig.commit(kObject).value();
    rig.member[member]->failing = true;
    CHECK(rig.text(object_of(9), 0, 1).starts_with("error: not found"));
    REQUIRE(rig.degraded());
    CHECK(rig.next_data(kObject, 0).value().begin <= 3 * 8192);
    CHECK(rig.next_data(kObject, 4 * 8192).value() == ds::DataRun{});
  }
}
