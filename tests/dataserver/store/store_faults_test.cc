// A disk that fails: every error is told, to whom it concerns, and once told is not forgotten.
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cerrno>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <thread>

#include "dataserver/store/faults.h"
#include "tests/dataserver/store/store_runner.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

using test::StoreRunner;
using test::TempFolder;

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1};
constexpr layout::ObjectId kOther{.fileid = 2, .generation = 1};

class BadDisk final : public Faults {
 public:
  int write_error(const layout::ObjectId& /*object*/, std::uint64_t offset) override {
    return offset >= bad_from ? on_write : 0;
  }
  int sync_error(const layout::ObjectId& object) override {
    if (object != kObject) return 0;
    ++syncs;
    while (on_sync != 0 && !sync_after()) std::this_thread::yield();
    return std::exchange(on_sync, 0);
  }
  int entry_sync_error(const layout::ObjectId& /*object*/) override {
    return std::exchange(on_entry, 0);
  }
  int on_write = 0;
  std::uint64_t bad_from = 0;
  int on_sync = 0;                                         // once, as the kernel reports it
  std::function<bool()> sync_after = [] { return true; };  // what that comes after
  int syncs = 0;                                           // of kObject
  int on_entry = 0;                                        // once
};

struct Rig {
  Rig() {
    FileStoreOptions options;
    options.path = folder.path() + "/store";
    options.mode = GENERATE(IoMode::kBuffered, IoMode::kDirect);
    options.faults = &disk;
    direct = options.mode == IoMode::kDirect;
    runner.emplace(options);
  }
  TempFolder folder;
  BadDisk disk;
  bool direct = false;
  std::optional<StoreRunner> runner;
};

TEST_CASE("a failed sync fails the commit and changes the verifier for everybody") {
  Rig rig;
  const auto before = rig.runner->write(kObject, 0, "lost").value().verifier;
  CHECK(rig.runner->write(kOther, 0, "good").value().verifier == before);
  rig.disk.on_sync = EIO;
  CHECK(rig.runner->commit(kObject).error() == Errc::kIo);
  CHECK(rig.runner->store().verifier() != before);
  // The client of the other object writes again, needlessly but safely.
  CHECK(rig.runner->commit(kOther).value() != before);
  // Nor does the next commit of the failed one pretend that nothing was.
  CHECK(rig.runner->commit(kObject).value() != before);
  const auto again = rig.runner->write(kObject, 0, "kept").value().verifier;
  CHECK(rig.runner->commit(kObject) == again);
}

// What was written past the page cache is read as if it were on the disk. It is when a later flush
// succeeds.
TEST_CASE("what a write left behind a failed sync is synced by the next commit") {
  Rig rig;
  REQUIRE(rig.runner->write(kObject, 0, "kept", Stability::kFileSync));
  REQUIRE(rig.runner->write(kObject, 0, "lost"));
  rig.disk.on_sync = EIO;
  rig.disk.syncs = 0;
  CHECK_FALSE(rig.runner->commit(kObject));
  CHECK(rig.runner->commit(kObject));
  CHECK(rig.disk.syncs == 2);
  CHECK(rig.runner->commit(kObject));
  CHECK(rig.disk.syncs == 2);
}

TEST_CASE("commits that waited for the one that failed do not hide it") {
  Rig rig;
  const auto before = rig.runner->write(kObject, 0, "lost").value().verifier;
  rig.disk.on_sync = EIO;
  std::vector<Result<WriteVerifier>> answers;
  for (int i = 0; i < 3; ++i) {
    rig.runner->store().commit(
        kObject, [&](Result<WriteVerifier> verifier) { answers.push_back(std::move(verifier)); });
  }
  rig.runner->drain();
  REQUIRE(answers.size() == 3);
  for (const auto& answer : answers) CHECK((!answer || *answer != before));
}

// Its own sync has nothing to write, and succeeds.
TEST_CASE("a stable write whose bytes an earlier sync has lost is an error") {
  Rig rig;
  REQUIRE(rig.runner->write(kObject, 0, "lost"));
  rig.disk.on_sync = EIO;
  std::optional<Result<WriteVerifier>> committed;
  rig.runner->store().commit(kObject,
                             [&](Result<WriteVerifier> verifier) { committed = verifier; });
  REQUIRE_FALSE(committed);  // it is under way
  const auto written = rig.runner->write(kObject, 0, "kept", Stability::kFileSync);
  REQUIRE(committed);
  CHECK(committed->error() == Errc::kIo);
  REQUIRE_FALSE(written);
  CHECK(written.error() == Errc::kIo);
}

// They are done by a worker thread: the sync fails when the file shows it.
TEST_CASE("a change of an object's space that an earlier sync has lost is an error") {
  Rig rig;
  REQUIRE(rig.runner->write(kObject, 0, "lost"));
  const auto now = [path = rig.folder.path() + "/store/objects/" + object_path(kObject)] {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  REQUIRE(now() == "lost");
  rig.disk.sync_after = [&] { return now() != "lost"; };
  rig.disk.on_sync = EIO;
  std::optional<Result<WriteVerifier>> committed;
  rig.runner->store().commit(kObject,
                             [&](Result<WriteVerifier> verifier) { committed = verifier; });
  REQUIRE_FALSE(committed);  // it is under way
  Result<> changed;
  SECTION("truncate") {
    const auto cut = rig.runner->truncate(kObject, 2);
    if (!cut) changed = std::unexpected(cut.error());
  }
  SECTION("punch") { changed = rig.runner->punch(kObject, 0, 4); }
  SECTION("allocate") { changed = rig.runner->allocate(kObject, 0, 100); }
  REQUIRE(committed);
  CHECK(committed->error() == Errc::kIo);
  REQUIRE_FALSE(changed);
  CHECK(changed.error() == Errc::kIo);
}

TEST_CASE("being short of something is not a broken disk, and a disk's time-out is one") {
  Rig rig;
  const auto before = rig.runner->write(kObject, 0, "kept").value().verifier;
  for (const int error : {EMFILE, ENFILE, ENOMEM, EINTR, EAGAIN}) {
    rig.disk.on_write = error;
    CHECK(rig.runner->write(kObject, 0, "x").error() == Errc::kBusy);
  }
  for (const int error : {ETIMEDOUT, ETIME, EACCES, ESTALE, ENOTCONN}) {
    rig.disk.on_write = error;
    CHECK(rig.runner->write(kObject, 0, "x").error() == Errc::kIo);
  }
  rig.disk.on_write = 0;
  // Its entry could not be synced just now: nothing was lost, and it is done by the next.
  rig.disk.on_entry = EMFILE;
  CHECK(rig.runner->commit(kObject).error() == Errc::kBusy);
  CHECK(rig.runner->commit(kObject) == before);
  // What could not be synced may be lost.
  REQUIRE(rig.runner->write(kObject, 0, "more"));
  rig.disk.on_sync = ENOMEM;
  CHECK(rig.runner->commit(kObject).error() == Errc::kIo);
  CHECK(rig.runner->store().verifier() != before);
}

// No more descriptors than so many beyond those that are open.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t more) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest = ::dup(0);
    ::close(lowest);
    const rlimit few{static_cast<rlim_t>(lowest) + more, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// UBSan looks at an object's type through a pipe, and takes no descriptor for a bad object.
void skip_under_ubsan() {
#if defined(__has_feature)
#if __has_feature(undefined_behavior_sanitizer)
  SKIP("leaves no descriptor, without which UndefinedBehaviorSanitizer cannot check a type");
#endif
#endif
}

TEST_CASE("more objects are written and not committed than there are descriptors") {
  skip_under_ubsan();
  const TempFolder folder;
  FileStoreOptions options;
  options.path = folder.path() + "/store";
  options.max_open_files = GENERATE(std::size_t{64}, std::size_t{4096});
  StoreRunner runner(options);
  {
    const FewDescriptors few(40);
    for (std::uint64_t i = 1; i <= 200; ++i) {
      REQUIRE(runner.write({.fileid = i, .generation = 1}, 0, "one of many"));
    }
    CHECK(runner.store().open_files() <= 40);
  }
  CHECK(runner.store().descriptor_waits() > 0);
  for (std::uint64_t i = 1; i <= 200; ++i) {
    REQUIRE(runner.text({.fileid = i, .generation = 1}, 0, 20) == "one of many");
  }
}

// Of any object, for as long as `fail` says so.
class NoSyncs final : public Faults {
 public:
  int sync_error(const layout::ObjectId& object) override {
    ++syncs[object];
    return fail ? EIO : 0;
  }
  bool fail = true;
  std::map<layout::ObjectId, int> syncs;
};

TEST_CASE("objects whose syncs fail do not stay open, and are synced by the next commit") {
  const TempFolder folder;
  NoSyncs disk;
  FileStoreOptions options;
  options.path = folder.path() + "/store";
  options.mode = GENERATE(IoMode::kBuffered, IoMode::kDirect);
  options.max_open_files = 64;
  options.faults = &disk;
  StoreRunner runner(options);
  const auto object = [](std::uint64_t id) {
    return layout::ObjectId{.fileid = id, .generation = 1};
  };
  for (std::uint64_t id = 1; id <= 300; ++id) {
    REQUIRE(runner.write(object(id), 0, "x"));
    REQUIRE_FALSE(runner.commit(object(id)));
  }
  CHECK(runner.store().open_files() <= 96);
  REQUIRE(runner.remove(object(2)));
  disk.fail = false;
  disk.syncs.clear();
  for (int times = 0; times < 2; ++times) {
    for (std::uint64_t id = 1; id <= 150; ++id) REQUIRE(runner.commit(object(id)));
  }
  CHECK(disk.syncs.size() == 149);
  for (const auto& [id, count] : disk.syncs) CHECK(count == 1);
  CHECK(runner.store().open_files() <= 96);
  CHECK(runner.store().close());
}

TEST_CASE("a stable write whose sync fails is an error, also of its directory entry") {
  Rig rig;
  rig.disk.on_sync = ENOSPC;
  CHECK(rig.runner->write(kObject, 0, "x", Stability::kFileSync).error() == Errc::kNoSpace);
  const auto before = rig.runner->store().verifier();
  rig.disk.on_entry = EIO;
  CHECK(rig.runner->write(kObject, 0, "x", Stability::kDataSync).error() == Errc::kIo);
  CHECK(rig.runner->store().verifier() != before);
  CHECK(rig.runner->write(kObject, 0, "x", Stability::kFileSync));
}

TEST_CASE("a write that fails is an error and loses nothing that was there") {
  Rig rig;
  REQUIRE(rig.runner->write(kObject, 0, std::string(8192, 'a'), Stability::kFileSync));
  const auto before = rig.runner->store().verifier();
  for (const auto& [error, expected] : {std::pair{EIO, Errc::kIo},
                                        {ENOSPC, Errc::kNoSpace},
                                        {EDQUOT, Errc::kQuota},
                                        {EFBIG, Errc::kFileTooLarge}}) {
    rig.disk.on_write = error;
    CHECK(rig.runner->write(kObject, 4096, std::string(4096, 'b')).error() == expected);
  }
  rig.disk.on_write = 0;
  CHECK(rig.runner->text(kObject, 0, 10000) == std::string(8192, 'a'));
  CHECK(rig.runner->store().verifier() == before);  // nothing answered was lost
}

TEST_CASE("bytes from a pipe are written, synced and refused as others are") {
  Rig rig;
  const std::string text(10'000, 'x');
  const auto written = rig.runner->write_piped(kObject, 77, text, Stability::kFileSync).value();
  CHECK(written.bytes == text.size());
  CHECK(written.stability == Stability::kFileSync);
  CHECK(written.object_end == 77 + text.size());
  CHECK(rig.runner->text(kObject, 77, 20'000) == text);
  CHECK(rig.runner->write_piped(kObject, UINT64_MAX - 5, text).error() == Errc::kFileTooLarge);
  rig.disk.on_write = EIO;
  CHECK(rig.runner->write_piped(kObject, 0, text).error() == Errc::kIo);
  CHECK(rig.runner->text(kObject, 77, 20'000) == text);
  rig.disk.on_write = 0;
  REQUIRE(rig.runner->write_piped(kObject, 0, "good"));
  rig.disk.on_sync = EIO;
  CHECK(rig.runner->commit(kObject).error() == Errc::kIo);
}

TEST_CASE("a truncate whose sync fails is an error") {
  Rig rig;
  REQUIRE(rig.runner->write(kObject, 0, "12345"));
  rig.disk.on_sync = EIO;
  CHECK(rig.runner->truncate(kObject, 2).error() == Errc::kIo);
}

}  // namespace
}  // namespace weft::ds
