// What a data server reads and writes past a target of its machine, by the target's descriptors.
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>
#include <optional>
#include <thread>

#include "dataserver/targets/target.h"
#include "tests/dataserver/store/store_model.h"
#include "tests/dataserver/targets/target_rig.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;
using test::by_tcp;
using test::quick_link;
using test::RemoteRunner;
using test::TargetChild;
using test::TargetRig;

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1};

TEST_CASE("what is in the page cache is read past the target, where it can be") {
  const TargetRig rig;
  const auto target = rig.start();
  const bool wanted = GENERATE(true, false);
  LinkOptions options = quick_link();
  options.prefer_shared_memory = GENERATE(true, false);
  const auto address = options.prefer_shared_memory ? rig.local() : by_tcp(*target);
  RemoteRunner runner(rig, address, options, 1, 'a', false, wanted ? 64 : 0);
  CHECK(test::behaves_like_strings(runner));
  const bool past = wanted && options.prefer_shared_memory;
  CHECK((runner.view().past_bytes > 0) == past);
  CHECK((runner.view().past_written > 0) == past);
  CHECK((target->counts().readers + target->counts().writers > 0) == past);

  REQUIRE(runner.remove(kObject));
  REQUIRE(runner.write(kObject, 0, std::string(100'000, 'w')));
  CHECK(runner.text(kObject, 0, 1) == "w");
  const std::uint64_t asked = target->counts().reads;
  CHECK(runner.text(kObject, 99'999, 10) == "w");
  CHECK(runner.text(kObject, 0, 100'000) == std::string(100'000, 'w'));
  CHECK(target->counts().reads - asked == (past ? 0 : 2));

  const std::uint64_t written = target->counts().writes;
  REQUIRE(runner.write(kObject, 50'000, std::string(100'000, 'x')));
  CHECK(target->counts().writes - written == (past ? 0 : 1));
  CHECK(runner.stat(kObject).value().size == 150'000);
  REQUIRE(runner.write(kObject, 0, "stable", Stability::kFileSync));
  CHECK(target->counts().writes - written == (past ? 0 : 2));
}

// Bytes of an object's file that are not at its disk yet; nullopt where the kernel does not tell.
std::optional<std::uint64_t> dirty_bytes(const TargetRig& rig, const layout::ObjectId& object) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(rig.folder.path())) {
    if (entry.path().filename() != layout::to_string(object)) continue;
    const OwnedFd file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    constexpr long kCachestatCall = 451;
    const std::uint64_t range[2] = {0, 0};
    std::uint64_t found[5] = {};
    if (::syscall(kCachestatCall, file.get(), range, found, 0) != 0) return {};
    return (found[1] + found[2]) * 4096;
  }
  return {};
}

// Writes until bytes are seen that are not at the disk: the kernel may have brought them there
// itself.
bool left_dirty(const TargetRig& rig, RemoteRunner& runner, const std::string& bytes) {
  for (int i = 0; i < 10; ++i) {
    if (!runner.write(kObject, 0, bytes)) return false;
    if (dirty_bytes(rig, kObject) > 0) return true;
  }
  return false;
}

TEST_CASE("what was written past a target is synced by its commit, and when the writer leaves") {
  const TargetRig rig;
  const auto target = rig.start();
  auto runner = std::make_unique<RemoteRunner>(rig, rig.local());
  REQUIRE(runner->write(kObject, 0, "weft"));
  REQUIRE(runner->commit(kObject));
  if (!dirty_bytes(rig, kObject)) SKIP("this kernel does not tell what is dirty");
  CHECK(dirty_bytes(rig, kObject) == 0);
  REQUIRE(runner->write(kObject, 0, std::string(100'000, 'w')));
  REQUIRE(runner->view().past_written == 100'000);
  CHECK(left_dirty(rig, *runner, std::string(100'000, 'w')));
  REQUIRE(runner->commit(kObject));
  CHECK(dirty_bytes(rig, kObject) == 0);
  CHECK(left_dirty(rig, *runner, "gone"));
  runner.reset();
  const auto end = std::chrono::steady_clock::now() + 10s;
  while (dirty_bytes(rig, kObject) != 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(10ms);
  }
  CHECK(dirty_bytes(rig, kObject) == 0);
}

TEST_CASE("what must be stable is written past a target, and synced by it") {
  const TargetRig rig;
  const auto target = rig.start();
  RemoteRunner runner(rig, rig.local());
  REQUIRE(runner.write(kObject, 0, "weft", Stability::kFileSync));  // a descriptor comes
  const std::uint64_t writes = target->counts().writes;
  const std::uint64_t commits = target->counts().commits;
  const bool piped = GENERATE(false, true);
  const std::string text(4000, 'x');
  const auto written = piped ? runner.write_piped(kObject, 2, text, Stability::kDataSync)
                             : runner.write(kObject, 2, text, Stability::kDataSync);
  REQUIRE(written);
  CHECK(written->bytes == text.size());
  CHECK(written->stability == Stability::kDataSync);
  CHECK(written->verifier == runner.any().verifier());
  CHECK(written->object_end == text.size() + 2);
  CHECK(runner.view().past_written == text.size());
  CHECK(target->counts().writes == writes);
  CHECK(target->counts().commits == commits + 1);
  CHECK(dirty_bytes(rig, kObject).value_or(0) == 0);
  CHECK(runner.text(kObject, 0, 10'000) == "we" + text);
}

TEST_CASE("what must be stable is written again when its target comes anew before the sync") {
  const TargetRig rig;
  auto child = std::make_unique<TargetChild>(rig);
  RemoteRunner runner(rig, rig.local());
  REQUIRE(runner.write(kObject, 0, "once"));
  REQUIRE(runner.write(kObject, 0, "more"));
  REQUIRE(runner.view().past_written == 4);
  child->tell(SIGSTOP);
  std::optional<Result<WriteResult>> result;
  const auto answered = [&](Result<WriteResult> answer) { result.emplace(std::move(answer)); };
  const bool piped = GENERATE(false, true);
  if (piped) {
    auto pipe = PipedBytes::open(runner.pool()).value();
    const std::string text = "pipe";
    REQUIRE(pipe.put(std::as_bytes(std::span(text))));
    runner.any().write(
        {.object = kObject, .piped = std::move(pipe), .wanted = Stability::kFileSync}, answered);
  } else {
    std::vector<Buffer> data;
    data.push_back(runner.buffer("kept"));
    runner.any().write(kObject, 0, std::move(data), Stability::kFileSync, answered);
  }
  CHECK(runner.view().past_written == 8);
  CHECK_FALSE(result);
  child.reset();
  child = std::make_unique<TargetChild>(rig);
  REQUIRE(runner.eventually([&] { return result.has_value(); }));
  if (piped) {
    CHECK(result->error() == Errc::kBusy);
  } else {
    CHECK(result->value().stability == Stability::kFileSync);
    CHECK(result->value().verifier == runner.any().verifier());
    CHECK(runner.text(kObject, 0, 10) == "kept");
  }
}

// A disk that is slow to sync what was written past the target, and then says that it was lost.
class SlowToSync final : public Faults {
 public:
  [[nodiscard]] bool allows_past() const override { return true; }
  int past_sync_error() override {
    asked = true;
    for (int i = 0; i < 10'000 && !go_on; ++i) std::this_thread::sleep_for(1ms);
    return EIO;
  }
  std::atomic<bool> asked{false};
  std::atomic<bool> go_on{false};
};

TEST_CASE("a data server is greeted when what it wrote past the target before is synced or lost") {
  const TargetRig rig;
  SlowToSync disk;
  ds::TargetConfig config = rig.config();
  config.store.faults = &disk;
  const auto target = Target::open(config).value();
  auto gone = std::make_unique<RemoteRunner>(rig, rig.local());
  REQUIRE(gone->write(kObject, 0, "once"));
  const WriteVerifier before = gone->write(kObject, 0, "more").value().verifier;
  REQUIRE(gone->view().past_written == 4);
  gone.reset();
  RemoteRunner next(rig, rig.local());
  REQUIRE(next.eventually([&] { return disk.asked.load(); }));
  next.run_for(300ms);
  CHECK(next.view().connections == 0);
  disk.go_on = true;
  REQUIRE(next.eventually([&] { return next.view().connections == 1; }));
  CHECK(next.any().verifier() != before);
}

TEST_CASE("a target stopped in order has lost nothing, as far as it knows what was written") {
  const TargetRig rig;
  auto target = rig.start();
  const bool past = GENERATE(true, false);
  RemoteRunner runner(rig, rig.local(), quick_link(), 1, 'a', false, past ? 64 : 0);
  REQUIRE(runner.write(kObject, 0, "once"));
  const WriteVerifier before = runner.write(kObject, 0, "more").value().verifier;
  REQUIRE((runner.view().past_written > 0) == past);
  REQUIRE(target->stop());
  target.reset();
  target = rig.start();
  CHECK((runner.commit(kObject).value() == before) != past);
  CHECK(runner.text(kObject, 0, 10) == "more");
}

// Removed files that are open in this process.
std::size_t removed_and_open() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string file = std::filesystem::read_symlink(entry.path(), gone).string();
    if (file.contains("/objects/") && file.ends_with("(deleted)")) ++count;
  }
  return count;
}

TEST_CASE("an object that is removed keeps no space, though it was read past its target") {
  const TargetRig rig;
  const auto target = rig.start();
  RemoteRunner runner(rig, rig.local());
  REQUIRE(runner.write(kObject, 0, "once"));
  CHECK(runner.text(kObject, 0, 10) == "once");
  REQUIRE(runner.view().past_bytes == 4);
  REQUIRE(runner.remove(kObject));
  // Before it is looked for again, which would find out too.
  CHECK(runner.eventually([] { return removed_and_open() == 0; }));
  CHECK(runner.read(kObject, 0, 10).error() == Errc::kNotFound);
  REQUIRE(runner.write(kObject, 0, "again"));
  CHECK(runner.text(kObject, 0, 10) == "again");
}

TEST_CASE("when a target goes, what it handed over is not read any more") {
  const TargetRig rig;
  auto target = rig.start();
  RemoteRunner runner(rig, rig.local());
  REQUIRE(runner.write(kObject, 0, "weft"));
  CHECK(runner.text(kObject, 0, 10) == "weft");
  const std::uint64_t past = runner.view().past_bytes;
  REQUIRE(past == 4);
  REQUIRE(target->stop());
  target.reset();
  REQUIRE(runner.eventually([&] { return runner.view().connected == 0; }));
  target = rig.start();
  CHECK(runner.text(kObject, 0, 10) == "weft");  // asked for
  CHECK(runner.view().past_bytes == past);
  CHECK(runner.text(kObject, 0, 10) == "weft");
  CHECK(runner.view().past_bytes == past + 4);
}

}  // namespace
}  // namespace weft::ds
