// What becomes of a data server's calls while it has no memory for what its target answers.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/dataserver/targets/target_rig.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;
using test::by_tcp;
using test::quick_link;
using test::RemoteRunner;
using test::TargetRig;

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1};
constexpr std::uint32_t kSize = 100'000;

// An object of kSize; and all that the write took is back.
void make_object(RemoteRunner& runner) {
  REQUIRE(runner.eventually([&] { return runner.view().connected.load() == 1; }));
  REQUIRE(runner.write(kObject, 0, std::string(kSize, 'x'), Stability::kFileSync));
  REQUIRE(runner.eventually([&] { return runner.pool().in_use_bytes() == 0; }));
}

std::vector<Buffer> take_all(BufferPool& pool) {
  std::vector<Buffer> taken;
  for (std::size_t size = std::size_t{16} << 20; size >= 4096; size /= 2) {
    while (auto more = pool.allocate(size)) taken.push_back(std::move(*more));
  }
  return taken;
}

TEST_CASE("a target is not late while there is no memory here for what it answers") {
  const TargetRig rig;
  const auto target = rig.start();
  LinkOptions options = quick_link();
  options.silence = options.patience = 1000ms;
  options.prefer_shared_memory = GENERATE(true, false);
  const auto address = options.prefer_shared_memory ? rig.local() : by_tcp(*target);
  RemoteRunner runner(rig, address, options, 1, 'a', false, 0);  // not past the target
  make_object(runner);
  const std::uint64_t connections = runner.view().connections.load();
  std::optional<Result<ReadResult>> read;
  runner.any().read(kObject, 0, kSize,
                    [&](Result<ReadResult> result) { read = std::move(result); });
  std::vector<Buffer> hog = take_all(runner.pool());
  runner.run_for(3500ms);
  CHECK_FALSE(read);
  hog.clear();
  REQUIRE(runner.eventually([&] { return read.has_value(); }));
  CHECK(read->has_value());
  CHECK(runner.view().timed_out.load() == 0);
  CHECK(runner.view().connections.load() == connections);
}

TEST_CASE("for want of memory a read is busy in the end, and what else was asked is sent again") {
  const TargetRig rig;
  const auto target = rig.start();
  LinkOptions options = quick_link();
  options.shm.memory_deadline = 300ms;
  RemoteRunner runner(rig, rig.local(), options, 1, 'a', false, 0);
  make_object(runner);
  std::optional<Result<ReadResult>> read;
  std::optional<Result<WriteVerifier>> committed;
  runner.any().read(kObject, 0, kSize,
                    [&](Result<ReadResult> result) { read = std::move(result); });
  runner.any().commit(kObject, [&](Result<WriteVerifier> result) { committed = result; });
  std::vector<Buffer> hog = take_all(runner.pool());
  REQUIRE(runner.eventually([&] { return read.has_value(); }));
  REQUIRE_FALSE(read->has_value());
  CHECK(read->error() == Errc::kBusy);
  CHECK_FALSE(committed);
  hog.clear();
  REQUIRE(runner.eventually([&] { return committed.has_value(); }));
  CHECK(committed->has_value());
  CHECK(runner.view().timed_out.load() == 0);
  CHECK(runner.view().connections.load() > 1);
  CHECK(runner.eventually([&] { return runner.pool().in_use_bytes() == 0; }));
}

}  // namespace
}  // namespace weft::ds
