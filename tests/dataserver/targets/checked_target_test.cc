// A target that keeps checksums: what changed at its disk is not read, by any transport.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <fstream>

#include "dataserver/parity/blocks.h"
#include "dataserver/store/object_files.h"
#include "tests/dataserver/store/store_model.h"
#include "tests/dataserver/targets/target_rig.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;
using test::quick_link;
using test::RemoteRunner;
using test::TargetRig;

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1};

std::unique_ptr<Target> start(const TargetRig& rig, bool checksums) {
  TargetConfig config = rig.config();
  config.checksums = checksums;
  return Target::open(config).value();
}

TargetAddress address_of(const TargetRig& rig, const Target& target, bool shm) {
  if (shm) return rig.local();
  return {.inet = layout::make_address("127.0.0.1", target.ports().at(0)).value()};
}

// As a disk would that changes a bit by itself.
void flip(const TargetRig& rig, std::streamoff at) {
  const std::string path = rig.folder.path() + "/objects/" + to_string(test::space_of(1)) +
                           "/objects/" + object_path(kObject);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 4));
  REQUIRE(file.good());
}

TEST_CASE("a target with checksums behaves like strings in memory") {
  const TargetRig rig;
  const auto target = start(rig, true);
  const bool shm = GENERATE(true, false);
  LinkOptions options = quick_link();
  options.prefer_shared_memory = shm;
  RemoteRunner runner(rig, address_of(rig, *target, shm), options);
  CHECK(test::behaves_like_strings(runner));
  CHECK((target->counts().lent_bytes > 0) == shm);
  // Nobody reads or writes past whoever keeps them.
  CHECK(target->counts().readers + target->counts().writers == 0);
  CHECK(runner.eventually([&] { return runner.pool().in_use_bytes() == 0; }));
}

TEST_CASE("a bit that changed at a target is not read, before and after a restart") {
  const TargetRig rig;
  const bool shm = GENERATE(true, false);
  LinkOptions options = quick_link();
  options.prefer_shared_memory = shm;
  const std::string bytes(300'000, 'w');
  {
    const auto target = start(rig, true);
    RemoteRunner runner(rig, address_of(rig, *target, shm), options);
    REQUIRE(runner.write(kObject, 0, bytes));
    const std::size_t blocks = (bytes.size() + kParityBlock - 1) / kParityBlock;
    REQUIRE(runner.eventually([&] { return target->checksums()->sealed_blocks == blocks; }));
    flip(rig, 5000);
    CHECK(runner.text(kObject, 8192, 4096) == bytes.substr(8192, 4096));
    CHECK(runner.read(kObject, 4096, 4096).error() == Errc::kIo);
    CHECK(target->checksums()->bad_blocks > 0);
    CHECK(runner.list(10).value() == std::vector{kObject});
  }
  {
    const auto target = start(rig, true);
    RemoteRunner runner(rig, address_of(rig, *target, shm), options);
    CHECK(runner.read(kObject, 4096, 4096).error() == Errc::kIo);
    REQUIRE(runner.write(kObject, 4096, bytes.substr(0, 4096)));
    CHECK(runner.text(kObject, 0, 300'000) == bytes);
  }
  // Switched off there are none, and so none that are old when they are switched on again.
  {
    const auto target = start(rig, false);
    RemoteRunner runner(rig, address_of(rig, *target, shm), options);
    REQUIRE(runner.write(kObject, 100'000, "other", Stability::kFileSync));
    CHECK_FALSE(target->checksums());
  }
  const auto target = start(rig, true);
  RemoteRunner runner(rig, address_of(rig, *target, shm), options);
  CHECK(runner.text(kObject, 100'000, 5) == "other");
  CHECK(target->checksums()->bad_blocks == 0);
}

TEST_CASE("what a scrub reads through a target is sealed there") {
  const TargetRig rig;
  const std::string bytes(300'000, 'w');
  {
    const auto target = start(rig, false);
    RemoteRunner runner(rig, rig.local());
    REQUIRE(runner.write(kObject, 0, bytes, Stability::kFileSync));
  }
  const auto target = start(rig, true);
  LinkOptions options = quick_link();
  options.prefer_shared_memory = GENERATE(true, false);
  RemoteRunner runner(rig, address_of(rig, *target, options.prefer_shared_memory), options);
  CHECK(runner.text(kObject, 0, 300'000) == bytes);
  const auto read = runner.wait<ReadResult>([&](auto done) {
    runner.any().read({.object = kObject, .count = 300'000, .uncached = true}, std::move(done));
  });
  CHECK(read->payload.size() == bytes.size());
  const std::size_t blocks = (bytes.size() + kParityBlock - 1) / kParityBlock;
  CHECK(runner.eventually([&] { return target->checksums()->sealed_blocks == blocks; }));
}

TEST_CASE("a target with checksums takes no member of a parity group") {
  const TargetRig rig;
  const auto target = start(rig, true);
  RemoteRunner runner(rig, rig.local());
  CHECK(runner.write(sums_of(kObject), 0, "sums").error() == Errc::kInvalid);
}

TEST_CASE("a target that had a member of a parity group does not take its checksums for its own") {
  const TargetRig rig;
  LinkOptions options = quick_link();
  options.patience = 500ms;
  {
    const auto target = start(rig, false);
    RemoteRunner runner(rig, rig.local());
    REQUIRE(runner.write(sums_of(kObject), 0, "sums", Stability::kFileSync));
  }
  {
    const auto target = start(rig, true);
    RemoteRunner runner(rig, rig.local(), options);
    CHECK(runner.stat(kObject).error() == Errc::kTimedOut);  // it is refused
  }
  const auto target = start(rig, false);
  RemoteRunner runner(rig, rig.local());
  CHECK(runner.text(sums_of(kObject), 0, 4) == "sums");
}

}  // namespace
}  // namespace weft::ds
