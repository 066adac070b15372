#include "dataserver/mirror/resync.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <future>

#include "dataserver/mirror/resync_job.h"
#include "dataserver/ring/token_bucket.h"
#include "tests/dataserver/mirror/mirror_rig.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;
using rpc::control::Extent;
using rpc::control::ResyncProgress;
using rpc::nfs4::Status;
using test::kFirst;
using test::kMirrored;
using test::kSecond;
using test::MirrorRig;
using State = ResyncProgress::State;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// The second server's copy is to be made equal to the first's.
struct Rig : MirrorRig {
  explicit Rig(std::uint64_t seed = 1) : MirrorRig(seed) {
    Server& s = servers.at(kSecond);
    resyncs.emplace(Resyncs::Parts{
        .store = *s.store,
        .duplicator = *s.duplicator,
        .clock = system_clock(),
        .pool = pool,
        .rings = {&thread.ring()},
        .fence = [&s](const layout::ObjectId& object, std::uint32_t epoch,
                      auto done) { done(s.fences->raise(std::vector<Fence>{{object, epoch}})); },
        .admit = [&s](const layout::ObjectId& object,
                      std::uint32_t epoch) -> Result<WritesInFlight::Token> {
          const layout::Handle handle{
              .access = layout::Access::kMirror, .object = object, .object_epoch = epoch};
          if (!s.fences->admits(handle)) return fail(Errc::kFenced, "fenced");
          return s.writes->enter();
        },
        .own_id = [] { return kSecond; }});
  }
  void put(std::uint32_t id, std::uint64_t offset, const std::string& text) {
    auto buffer = pool.allocate(text.size()).value();
    std::memcpy(buffer.data(), text.data(), text.size());
    std::vector<Buffer> data;
    data.push_back(std::move(buffer));
    bool done = false;
    servers.at(id).store->write(kMirrored, offset, std::move(data), Stability::kUnstable,
                                [&](const Result<WriteResult>& r) { done = r.has_value(); });
    REQUIRE(run_until([&] { return done; }));
  }
  void begin(std::vector<Extent> extents, std::uint64_t rate = 0, std::uint32_t epoch = 0) {
    begin({.least_epoch = epoch, .extents = std::move(extents), .bytes_per_second = rate});
  }
  // Of the second of two stripes in units of 1 MiB.
  void begin_striped(std::vector<Extent> extents) {
    begin({.least_epoch = 1,
           .extents = std::move(extents),
           .stripe_unit = kMiB,
           .servers = 2,
           .server = 1});
  }
  void begin(rpc::control::Resync job) {
    job.job = 1;
    job.object = kMirrored;
    job.source = kFirst;
    resyncs->start(std::move(job), [](const Result<>& answer) { REQUIRE(answer); });
  }
  ResyncProgress finish() {
    run_until([&] { return resyncs->status(1).state != State::kRunning; });
    return resyncs->status(1);
  }
  ObjectStat stat(std::uint32_t id) {
    std::optional<ObjectStat> found;
    servers.at(id).store->stat(
        kMirrored, [&](const Result<ObjectStat>& r) { found = r.value_or(ObjectStat{}); });
    run_until([&] { return found.has_value(); });
    return *found;
  }
  bool exists(std::uint32_t id) {
    std::optional<bool> found;
    servers.at(id).store->stat(kMirrored,
                               [&](const Result<ObjectStat>& r) { found = r.has_value(); });
    run_until([&] { return found.has_value(); });
    return *found;
  }
  void cut(std::uint32_t id, std::uint64_t end) {
    bool done = false;
    servers.at(id).store->truncate(kMirrored, end,
                                   [&](const Result<ObjectStat>& r) { done = r.has_value(); });
    REQUIRE(run_until([&] { return done; }));
  }
  // Of its file, in the midst of an operation too.
  off_t length(std::uint32_t id) {
    const std::string object = "objects/" + object_path(kMirrored);
    struct stat found{};
    const int root = servers.at(id).store->directory().root();
    REQUIRE(::fstatat(root, object.c_str(), &found, 0) == 0);
    return found.st_size;
  }
  std::string read_at(std::uint32_t id, std::uint64_t offset, std::uint32_t size) {
    std::optional<std::string> text;
    servers.at(id).store->read(kMirrored, offset, size, [&](Result<ReadResult> r) {
      text = "";
      if (!r) return;
      const auto bytes = r->payload.flatten().value();
      text->assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    });
    run_until([&] { return text.has_value(); });
    return *text;
  }
  void truncate(std::uint32_t id, std::uint64_t size) {
    bool done = false;
    servers.at(id).store->truncate(kMirrored, size,
                                   [&](const Result<ObjectStat>& r) { done = r.has_value(); });
    REQUIRE(run_until([&] { return done; }));
  }
  // A sync of somebody else's, which finds that the disk did not take what was written.
  bool commit_fails(std::uint32_t id) {
    Server& server = servers.at(id);
    server.disk.at_sync = EIO;
    std::optional<Result<WriteVerifier>> synced;
    server.store->commit(kMirrored, [&](Result<WriteVerifier> r) { synced = std::move(r); });
    REQUIRE(run_until([&] { return synced.has_value(); }));
    server.disk.at_sync = 0;
    return !*synced;
  }
  std::optional<Resyncs> resyncs;
};

std::string pattern(std::size_t size, unsigned seed = 1) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    text[i] = static_cast<char>(1 + (i * 7 + i / 997 + seed) % 250);
  return text;
}

TEST_CASE("only what differs is copied") {
  Rig rig;
  std::string text = pattern(3 * kMiB + 777);
  rig.put(kFirst, 0, text);
  std::string other = text;
  other[5] ^= 1;
  other[kMiB + 4096 * 10] ^= 1;
  rig.put(kSecond, 0, other);
  rig.begin({{0, 8 * kMiB}});
  const auto progress = rig.finish();
  CHECK(progress.state == State::kDone);
  CHECK(progress.copied_bytes == 2 * kSumBlock);
  CHECK(rig.bytes(kSecond) == text);
  CHECK(progress.next_offset >= text.size());
}

TEST_CASE("what cannot be read here is written anew") {
  Rig rig;
  const std::string text = pattern(kMiB + 777);
  rig.put(kFirst, 0, text);
  rig.put(kSecond, 0, text);
  auto& disk = rig.servers.at(kSecond).disk;
  disk.at_read = EIO;
  SECTION("which mends it") {
    disk.writing_heals = true;
    rig.begin({{0, 8 * kMiB}});
    CHECK(rig.finish().state == State::kDone);
    CHECK(rig.resyncs->status(1).copied_bytes >= kMiB);
    CHECK(rig.bytes(kSecond) == text);
  }
  SECTION("unless the disk does not take it") {
    disk.error = EIO;
    rig.begin({{0, 8 * kMiB}});
    CHECK(rig.finish().state == State::kFailed);
  }
}

// A block of which a write replaces a part only is read first, and what is bad there fails it.
TEST_CASE("an end beyond the source's is cut before what is bad there is written") {
  Rig rig;
  const std::string text = pattern(5000);
  rig.put(kFirst, 0, text);
  rig.put(kSecond, 0, pattern(8192));
  Rig::Server& server = rig.servers.at(kSecond);
  server.disk.at_read = EIO;
  server.disk.writing_heals = true;
  server.disk.on_write = [&] { return rig.length(kSecond) > 5000 ? EIO : 0; };
  rig.begin({{0, 8 * kMiB}});
  CHECK(rig.finish().state == State::kDone);
  CHECK(rig.bytes(kSecond) == text);
}

// Nor is it made longer before: what a disk cannot read may be read for that.
TEST_CASE("what is bad at an end before the source's is written before more is there") {
  Rig rig;
  const std::string text = pattern(9000);
  rig.put(kFirst, 0, text);
  rig.put(kSecond, 0, pattern(5000));
  Rig::Server& server = rig.servers.at(kSecond);
  server.disk.at_read = EIO;
  server.disk.writing_heals = true;
  std::optional<off_t> first;
  server.disk.on_write = [&] {
    if (!first) first = rig.length(kSecond);
    return 0;
  };
  rig.begin({{0, 8 * kMiB}});
  CHECK(rig.finish().state == State::kDone);
  CHECK(first == 5000);
  CHECK(rig.bytes(kSecond) == text);
}

// A sync that nobody waits for finds that the disk did not take what the job wrote; the next one
// finds nothing to write.
TEST_CASE("a job fails when what it wrote may be lost") {
  Rig rig;
  const std::string text = pattern(2 * kMiB);
  rig.put(kFirst, 0, text);
  SECTION("before its last write") {}
  SECTION("after its last write") { rig.put(kSecond, kMiB, text.substr(kMiB)); }
  rig.begin({{0, kMaxEnd}});
  REQUIRE(rig.run_until([&] { return rig.resyncs->status(1).copied_bytes == kMiB; }));
  rig.servers.at(kFirst).door->hold = true;
  rig.pass(20ms);
  CHECK(rig.commit_fails(kSecond));
  rig.servers.at(kFirst).door->release();
  CHECK(rig.finish().state == State::kFailed);
  rig.begin({{0, kMaxEnd}});
  CHECK(rig.finish().state == State::kDone);
  CHECK(rig.bytes(kSecond) == text);
}

TEST_CASE("what was lost before a job began does not concern it") {
  Rig rig;
  const std::string text = pattern(2 * kMiB);
  rig.put(kFirst, 0, text);
  rig.put(kSecond, 0, text.substr(0, kMiB));
  SECTION("and was found before") { CHECK(rig.commit_fails(kSecond)); }
  SECTION("and is found by its first sync") {
    auto& second = rig.servers.at(kSecond);
    const WriteVerifier before = second.store->verifier();
    second.disk.at_sync = EIO;
    rig.begin({{0, kMaxEnd}});
    REQUIRE(rig.run_until([&] { return second.store->verifier() != before; }));
    second.disk.at_sync = 0;
  }
  if (rig.resyncs->status(1).state == State::kUnknown) rig.begin({{0, kMaxEnd}});
  CHECK(rig.finish().state == State::kDone);
  CHECK(rig.bytes(kSecond) == text);
}

TEST_CASE("an object that is not there is made, and holes stay holes") {
  Rig rig;
  rig.put(kFirst, 0, pattern(10'000));
  rig.put(kFirst, 12 * kMiB, pattern(5000));
  rig.begin({{0, 16 * kMiB}});
  CHECK(rig.finish().state == State::kDone);
  CHECK(rig.bytes(kSecond) == rig.bytes(kFirst));
  CHECK(rig.stat(kSecond).size == 12 * kMiB + 5000);
  CHECK(rig.stat(kSecond).allocated < kMiB);
}

TEST_CASE("an object that has no bytes is made, too") {
  Rig rig;
  rig.put(kFirst, 0, "x");
  rig.cut(kFirst, 0);
  REQUIRE(rig.exists(kFirst));
  REQUIRE_FALSE(rig.exists(kSecond));
  rig.begin({{0, 4 * kMiB}}, 0, 1);
  CHECK(rig.finish().state == State::kDone);
  CHECK(rig.exists(kSecond));
  CHECK(rig.stat(kSecond).size == 0);
}

TEST_CASE("between current copies nothing is cut for an object that is lost at the source") {
  Rig rig;
  rig.put(kSecond, 0, pattern(5000));
  rig.begin({{0, kMaxEnd}});
  const auto progress = rig.finish();
  CHECK(progress.state == State::kFailed);
  CHECK(progress.error.contains("has no object"));
  CHECK(rig.bytes(kSecond) == pattern(5000));
}

TEST_CASE("zeros at the source become a hole, and an end beyond the source's is cut") {
  Rig rig;
  rig.put(kFirst, 0, std::string(kMiB, '\0') + "end");
  rig.put(kSecond, 0, pattern(5 * kMiB));
  rig.begin({{0, 8 * kMiB}});
  const auto progress = rig.finish();
  CHECK(progress.state == State::kDone);
  CHECK(progress.punched_bytes == kMiB);
  CHECK(progress.copied_bytes < 8192);
  CHECK(rig.bytes(kSecond) == rig.bytes(kFirst));
  CHECK(rig.stat(kSecond).allocated < kMiB);
}

TEST_CASE("a hole at the source's end makes the object as long") {
  Rig rig;
  rig.put(kFirst, 0, "x" + std::string(2 * kMiB, '\0'));
  rig.put(kSecond, 0, "x");
  rig.begin({{0, 8 * kMiB}});
  CHECK(rig.finish().state == State::kDone);
  CHECK(rig.stat(kSecond).size == 2 * kMiB + 1);
  CHECK(rig.bytes(kSecond) == rig.bytes(kFirst));
}

TEST_CASE("a copy that missed something ends up empty where the source has no object") {
  Rig rig;
  rig.put(kSecond, 0, pattern(5000));
  rig.begin({{0, 4 * kMiB}}, 0, 1);
  CHECK(rig.finish().state == State::kDone);
  CHECK(rig.stat(kSecond).size == 0);
}

TEST_CASE("of a striped file an object ends where the source's does") {
  Rig rig;
  struct Case {
    std::uint64_t end_there;
    std::uint64_t dirty_from;
  };
  const auto [end_there, dirty_from] =
      GENERATE(Case{0, 0}, Case{0, 100'000}, Case{2 * kMiB, 2 * kMiB}, Case{5 * kMiB + 777, 0});
  if (end_there > 0) rig.put(kFirst, end_there - 100, pattern(100));
  rig.put(kSecond, kMiB, pattern(1000));
  rig.put(kSecond, 10 * kMiB - 1000, pattern(1000));
  rig.begin_striped({{dirty_from, kMaxEnd - dirty_from}});
  REQUIRE(rig.finish().state == State::kDone);
  CHECK(rig.stat(kSecond).size == end_there);
}

TEST_CASE("so it does behind what the source could not read") {
  Rig rig;
  rig.put(kFirst, 0, pattern(5 * kMiB + 777));
  rig.put(kSecond, 0, pattern(10 * kMiB, 9));
  rig.servers.at(kFirst).disk.bad = {5 * kMiB, 6 * kMiB};
  rig.begin_striped({{0, kMaxEnd}});
  REQUIRE(rig.finish().state == State::kFailed);
  const auto left = rig.resyncs->unreadable(1).extents;
  REQUIRE(left == std::vector<Extent>{{5 * kMiB, kMiB}});
  rig.servers.at(kFirst).disk.bad.reset();
  rig.begin_striped(left);
  REQUIRE(rig.finish().state == State::kDone);
  CHECK(rig.stat(kSecond).size == 5 * kMiB + 777);
}

TEST_CASE("what is outside the extents is left alone") {
  Rig rig;
  rig.put(kFirst, 0, std::string(6 * kMiB, 'a'));
  rig.put(kSecond, 0, std::string(7 * kMiB, 'b'));
  rig.begin({{kMiB, kMiB}, {4 * kMiB, 1000}});
  CHECK(rig.finish().state == State::kDone);
  std::string expected(7 * kMiB, 'b');
  expected.replace(kMiB, kMiB, kMiB, 'a');
  expected.replace(4 * kMiB, 1000, 1000, 'a');
  CHECK(rig.bytes(kSecond) == expected);
}

TEST_CASE("old handles are refused before anything is compared") {
  Rig rig;
  REQUIRE(rig.write(rig.handle(), 0, "old").status == Status::NFS4_OK);
  rig.begin({{0, kMiB}}, 0, 2);
  REQUIRE(rig.finish().state == State::kDone);
  CHECK(rig.write(rig.handle(), 0, "new").status == Status::NFS4ERR_ACCESS);
}

TEST_CASE("a job ends when the object is fenced above it, and is not waited for by the fence") {
  Rig rig;
  rig.put(kFirst, 0, pattern(3 * kMiB));
  rig.put(kSecond, 0, pattern(3 * kMiB, 9));
  rig.servers.at(kFirst).door->hold = true;  // the source does not answer
  rig.resyncs->start(
      {.job = 1, .object = kMirrored, .source = kFirst, .epoch = 4, .extents = {{0, kMaxEnd}}},
      [](const Result<>& answer) { REQUIRE(answer); });
  rig.pass(20ms);
  REQUIRE(rig.servers.at(kSecond).fences->raise(std::vector<Fence>{{kMirrored, 5}}));
  bool drained = false;
  rig.servers.at(kSecond).writes->drain([&] { drained = true; });
  REQUIRE(rig.run_until([&] { return drained; }));
  rig.servers.at(kFirst).door->release();
  const auto progress = rig.finish();
  CHECK(progress.state == State::kFailed);
  CHECK(progress.copied_bytes == 0);
  CHECK(rig.bytes(kSecond) == pattern(3 * kMiB, 9));
}

// So whoever sees the handles on the network cannot use them for longer than the copies' epoch.
TEST_CASE("a job reads its source below the object's fences there") {
  Rig rig;
  rig.put(kFirst, 0, pattern(kMiB));
  REQUIRE(rig.servers.at(kFirst).fences->raise(std::vector<Fence>{{kMirrored, 5}}));
  rig.begin({{0, kMiB}}, 0, 4);
  CHECK(rig.finish().state == State::kFailed);
  CHECK(rig.bytes(kSecond).empty());
}

TEST_CASE("an object has one job: a later one begins when the earlier has ended") {
  Rig rig;
  rig.put(kFirst, 0, pattern(3 * kMiB));
  rig.servers.at(kFirst).door->hold = true;
  rig.begin({{0, 3 * kMiB}});
  rig.pass(20ms);
  bool begun = false;
  rig.resyncs->start({.job = 2, .object = kMirrored, .source = kFirst, .extents = {{0, kMaxEnd}}},
                     [&](const Result<>& answer) { begun = answer.has_value(); });
  rig.pass(20ms);
  CHECK_FALSE(begun);
  rig.servers.at(kFirst).door->release();
  CHECK(rig.finish().state == State::kFailed);
  REQUIRE(rig.run_until([&] { return rig.resyncs->status(2).state == State::kDone; }));
  CHECK(begun);
  CHECK(rig.bytes(kSecond) == rig.bytes(kFirst));
}

// Or it would make the object anew.
TEST_CASE("the job of an object that is removed ends before") {
  Rig rig;
  bool removing = false;
  const auto remove = [&] { rig.resyncs->removing(kMirrored, [&] { removing = true; }); };
  remove();
  CHECK(removing);  // it has no job
  rig.put(kFirst, 0, pattern(3 * kMiB));
  rig.servers.at(kFirst).door->hold = true;
  rig.begin({{0, 3 * kMiB}});
  rig.pass(20ms);
  removing = false;
  rig.resyncs->removing({.fileid = 999, .generation = 1}, [&] { removing = true; });
  CHECK(removing);  // it has another's
  removing = false;
  remove();
  rig.pass(20ms);
  CHECK_FALSE(removing);
  rig.servers.at(kFirst).door->release();
  REQUIRE(rig.run_until([&] { return removing; }));
  CHECK(rig.resyncs->status(1).state == State::kFailed);
  const std::string written = rig.bytes(kSecond);  // what it had begun, and no more
  CHECK(written.size() < 3 * kMiB);
  rig.pass(20ms);
  CHECK(rig.bytes(kSecond) == written);
}

TEST_CASE("stopping waits for what runs, as long as it may") {
  Rig rig;
  rig.put(kFirst, 0, pattern(3 * kMiB));
  rig.servers.at(kFirst).door->hold = true;
  rig.begin({{0, 3 * kMiB}});
  rig.pass(20ms);
  CHECK_FALSE(rig.resyncs->stop(1ms));
  auto stopped = std::async(std::launch::async, [&] { return rig.resyncs->stop(60s); });
  rig.servers.at(kFirst).door->release();
  REQUIRE(rig.run_until([&] { return stopped.wait_for(0s) == std::future_status::ready; }));
  CHECK(stopped.get());
}

TEST_CASE("a rate is kept") {
  TimePoint now{1s};
  TokenBucket bucket(1000, now);
  CHECK(bucket.wait(now) == 0ns);
  bucket.use(500);
  CHECK(bucket.wait(now) >= 500ms);
  now += 499ms;
  CHECK(bucket.wait(now) > 0ns);
  now += 2ms;
  CHECK(bucket.wait(now) == 0ns);
  now += 1h;  // idleness is not saved up
  CHECK(bucket.wait(now) == 0ns);
  bucket.use(1100);
  CHECK(bucket.wait(now) >= 999ms);
  TokenBucket unlimited(0, now);
  unlimited.use(1 << 30);
  CHECK(unlimited.wait(now) == 0ns);
}

TEST_CASE("a job is throttled, cancelled, and not begun twice") {
  Rig rig;
  rig.put(kFirst, 0, pattern(3 * kMiB));
  rig.begin({{0, 3 * kMiB}}, kMiB);
  rig.pass(100ms);
  CHECK(rig.resyncs->status(1).state == State::kRunning);
  CHECK(rig.resyncs->status(1).compared_bytes <= kMiB);
  rig.begin({{0, 3 * kMiB}});  // under way already
  bool cancelled = false;
  rig.resyncs->cancel(1, [&](const Result<>&) { cancelled = true; });
  REQUIRE(rig.run_until([&] { return cancelled; }));
  CHECK(rig.resyncs->status(1).state == State::kFailed);
  CHECK(rig.resyncs->status(7).state == State::kUnknown);
  const std::uint64_t done = rig.resyncs->status(1).next_offset;
  rig.begin({{done, 3 * kMiB - done}});  // goes on where it was
  CHECK(rig.finish().state == State::kDone);
  CHECK(rig.bytes(kSecond) == rig.bytes(kFirst));
}

TEST_CASE("a job goes on behind what its source cannot read") {
  Rig rig;
  const std::string text = pattern(3 * kMiB + 777);
  rig.put(kFirst, 0, text);
  const std::string old = pattern(4 * kMiB, 9);
  rig.put(kSecond, 0, old);
  auto& disk = rig.servers.at(kFirst).disk;
  disk.bad = {kMiB, 2 * kMiB};
  rig.begin({{0, 8 * kMiB}});
  CHECK(rig.finish().state == State::kFailed);
  CHECK(rig.resyncs->status(1).error.find("data server 1 cannot read") != std::string::npos);
  CHECK(rig.resyncs->unreadable(1).extents == std::vector<Extent>{{kMiB, kMiB}});
  CHECK(rig.bytes(kSecond) ==
        text.substr(0, kMiB) + old.substr(kMiB, kMiB) + text.substr(2 * kMiB));

  disk.bad.reset();
  rig.begin({{kMiB, kMiB}});
  CHECK(rig.finish().state == State::kDone);
  CHECK(rig.resyncs->unreadable(1).extents.empty());
  CHECK(rig.bytes(kSecond) == text);
}

TEST_CASE("an end that the source cannot read is not cut away") {
  Rig rig;
  rig.put(kFirst, 0, pattern(kMiB + 777));
  rig.put(kSecond, 0, pattern(4 * kMiB, 9));
  rig.servers.at(kFirst).disk.bad = {kMiB, 2 * kMiB};
  rig.begin({{0, 8 * kMiB}});
  CHECK(rig.finish().state == State::kFailed);
  CHECK(rig.resyncs->unreadable(1).extents == std::vector<Extent>{{kMiB, kMiB}});
  CHECK(rig.stat(kSecond).size == 2 * kMiB);
  rig.servers.at(kFirst).disk.bad.reset();
  rig.begin({{kMiB, kMiB}});
  CHECK(rig.finish().state == State::kDone);
  CHECK(rig.bytes(kSecond) == rig.bytes(kFirst));
}

TEST_CASE("a source that is away for a moment is waited for") {
  Rig rig;
  rig.put(kFirst, 0, pattern(2 * kMiB));
  rig.servers.at(kFirst).reachable = false;
  rig.begin({{0, 2 * kMiB}});
  rig.pass(800ms);
  CHECK(rig.resyncs->status(1).state == State::kRunning);
  rig.servers.at(kFirst).reachable = true;
  CHECK(rig.finish().state == State::kDone);
  CHECK(rig.bytes(kSecond) == rig.bytes(kFirst));
}

// Writes go on while the copy is made equal, and reach the partner in any order: nothing of theirs
// is undone by what was read before.
TEST_CASE("writes during a resync end up on both copies") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    Rig rig(seed);
    SeededRandom random(seed * 31337);
    rig.put(kFirst, 0, pattern(2 * kMiB + 5000));
    rig.put(kSecond, 0, pattern(3 * kMiB, 9));
    rig.servers.at(kSecond).door->shuffle = true;
    rig.begin({{0, 4 * kMiB}});
    std::vector<MirrorRig::Pending> pending;
    for (int i = 0; i < 60; ++i) {
      pending.push_back(
          rig.start_write(rig.handle(), random.below(3 * kMiB),
                          std::string(1 + random.below(20'000), static_cast<char>('a' + i % 26))));
      const auto turns = random.below(12);
      for (std::uint64_t t = 0; t < turns; ++t) rig.turn();
    }
    for (const auto& write : pending) CHECK(rig.wait(write).status == Status::NFS4_OK);
    CHECK(rig.finish().state == State::kDone);
    CHECK(rig.bytes(kFirst) == rig.bytes(kSecond));
  }
}

TEST_CASE("of what is equal only checksums cross the network") {
  Rig rig;
  std::string text = pattern(8 * kMiB);
  rig.put(kFirst, 0, text);
  rig.put(kSecond, 0, text);
  const auto sent = [&] { return rig.servers.at(kFirst).counters->total().partner_read_bytes; };
  rig.begin({{0, kMaxEnd}});
  const auto equal = rig.finish();
  CHECK(equal.state == State::kDone);
  CHECK(equal.total_bytes == text.size());
  CHECK(equal.compared_bytes == text.size());
  CHECK(equal.differing_bytes == 0);
  CHECK(sent() < text.size() / 200);

  // Every third block of a region, and some whole ones: what is fetched is what differs.
  for (std::size_t block = 0; block < 256; block += 3) text[block * kSumBlock + 7] ^= 1;
  for (std::size_t at = 5 * kMiB; at < 6 * kMiB; ++at) text[at] ^= 3;
  rig.put(kFirst, 0, text);
  const std::uint64_t before = sent();
  rig.begin({{0, kMaxEnd}});
  const auto mended = rig.finish();
  const std::uint64_t differing = 86 * kSumBlock + kMiB;
  CHECK(mended.state == State::kDone);
  CHECK(mended.differing_bytes == differing);
  CHECK(mended.copied_bytes == differing);
  CHECK(sent() - before < differing + text.size() / 200);
  CHECK(rig.bytes(kSecond) == text);
}

TEST_CASE("of a striped file only what the object holds is looked at") {
  Rig rig;
  constexpr std::uint64_t kUnit = 2 * kMiB;
  // Unit 1 of 4 servers, and its next, of which the last part is missing.
  const std::string text = pattern(kUnit);
  rig.put(kFirst, kUnit, text);
  rig.put(kFirst, 5 * kUnit, text.substr(0, 100'000));
  rig.put(kSecond, kUnit, text.substr(0, kMiB));
  rig.resyncs->start({.job = 1,
                      .object = kMirrored,
                      .source = kFirst,
                      .extents = {{0, kMaxEnd}},
                      .stripe_unit = kUnit,
                      .servers = 4,
                      .first_index = 3,
                      .server = 0},
                     [](const Result<>& answer) { REQUIRE(answer); });
  const auto progress = rig.finish();
  CHECK(progress.state == State::kDone);
  CHECK(progress.total_bytes == kUnit + 100'000);
  CHECK(progress.compared_bytes == progress.total_bytes);
  CHECK(rig.bytes(kSecond) == rig.bytes(kFirst));
  // Three pieces, and the one with the end asked about twice.
  CHECK(rig.servers.at(kFirst).door->seen[rpc::nfs4::Op::OP_READ] == 3 + 1 + 2);
}

// A file with little in it, far behind: pieces are those with data at either.
TEST_CASE("a hole at both is passed over, however long it is") {
  constexpr std::uint64_t kFar = std::uint64_t{1} << 42;
  for (const bool striped : {false, true}) {
    for (const bool report : {false, true}) {
      INFO("striped " << striped << " report " << report);
      Rig rig;
      rig.put(kFirst, 0, pattern(5000));
      rig.put(kFirst, kFar + 4096, "far");
      rig.put(kSecond, 0, pattern(5000));
      if (striped && !report) rig.put(kSecond, kFar / 2, pattern(70'000));  // a hole there
      rpc::control::Resync job{.job = 1,
                               .object = kMirrored,
                               .source = kFirst,
                               .extents = {{0, kMaxEnd}},
                               .report_only = report};
      if (striped) {
        job.stripe_unit = 4 * kMiB;
        job.servers = 4;
      }
      rig.resyncs->start(job, [](const Result<>& answer) { REQUIRE(answer); });
      const auto progress = rig.finish();
      CHECK(progress.state == State::kDone);
      CHECK(progress.compared_bytes == progress.total_bytes);
      CHECK(rig.servers.at(kFirst).door->seen[rpc::nfs4::Op::OP_READ] < 16);
      if (report) {
        CHECK(progress.differing_bytes > 0);
        CHECK(rig.stat(kSecond).size == 5000);
        continue;
      }
      CHECK(rig.stat(kSecond).size == kFar + 4099);
      CHECK(rig.read_at(kSecond, kFar + 4096, 3) == "far");
      CHECK(rig.read_at(kSecond, kFar / 2, 70'000) == std::string(70'000, '\0'));
      CHECK(rig.stat(kSecond).allocated < kMiB);
    }
  }
}

TEST_CASE("a hole at the source takes what is here, also where nothing follows it") {
  constexpr std::uint64_t kFar = std::uint64_t{1} << 42;
  Rig rig;
  rig.put(kFirst, 0, pattern(5000));
  rig.truncate(kFirst, 2 * kFar);
  rig.put(kSecond, 0, pattern(5000));
  rig.put(kSecond, kFar, pattern(3 * kMiB));
  rig.begin({{0, kMaxEnd}});
  CHECK(rig.finish().state == State::kDone);
  CHECK(rig.stat(kSecond).size == 2 * kFar);
  CHECK(rig.read_at(kSecond, kFar, 4096) == std::string(4096, '\0'));
  CHECK(rig.stat(kSecond).allocated < kMiB);
  CHECK(rig.servers.at(kFirst).door->seen[rpc::nfs4::Op::OP_READ] < 16);
}

TEST_CASE("what is held of a striped file is counted right") {
  for (const std::uint32_t server : {0U, 2U}) {
    const auto striping = layout::Striping::make(64 * 3, 3, 1).value();
    const HeldBytes held(striping, server);
    std::uint64_t count = 0;
    for (std::uint64_t at = 0; at < 2000; ++at) {
      REQUIRE(held.below(at) == count);
      if (striping.server_of(at) == server) ++count;
    }
  }
  CHECK(HeldBytes().below(77) == 77);
}

TEST_CASE("a job that reports counts what differs and changes nothing") {
  Rig rig;
  std::string text = pattern(2 * kMiB + 100);
  rig.put(kFirst, 0, text);
  text[kMiB] ^= 1;
  rig.put(kSecond, 0, text + "more");
  rig.resyncs->start({.job = 1,
                      .object = kMirrored,
                      .source = kFirst,
                      .extents = {{0, kMaxEnd}},
                      .report_only = true},
                     [](const Result<>& answer) { REQUIRE(answer); });
  const auto progress = rig.finish();
  CHECK(progress.state == State::kDone);
  CHECK(progress.differing_bytes == kSumBlock + 4);
  CHECK(progress.copied_bytes == 0);
  CHECK(rig.bytes(kSecond) == text + "more");
}

// It is known which of the two is damaged: this one, and nobody need be asked.
TEST_CASE("a job that reports tells of what cannot be read here, not of a difference") {
  Rig rig;
  const std::string text = pattern(2 * kMiB);
  rig.put(kFirst, 0, text);
  rig.put(kSecond, 0, text);
  rig.servers.at(kSecond).disk.at_read = EIO;
  rig.resyncs->start({.job = 1,
                      .object = kMirrored,
                      .source = kFirst,
                      .epoch = 7,
                      .extents = {{0, kMaxEnd}},
                      .report_only = true},
                     [](const Result<>& answer) { REQUIRE(answer); });
  SECTION("as of a read") {}
  SECTION("and does not wait until that is heard") { rig.authority.hold = true; }
  SECTION("also where there is no other copy to go to") { rig.authority.error = Errc::kNotFound; }
  const auto progress = rig.finish();
  CHECK(progress.state == State::kFailed);
  CHECK(progress.differing_bytes == 0);
  REQUIRE(rig.run_until([&] { return !rig.authority.asked.empty(); }));
  CHECK(rig.authority.asked ==
        std::vector{rpc::control::CopyMissed{kMirrored, kSecond, 7, {{0, kRegionBytes}}}});
  rig.servers.at(kSecond).disk.at_read = 0;
  CHECK(rig.bytes(kSecond) == text);
}

TEST_CASE("jobs share a rate, and what is only compared counts a quarter") {
  TimePoint now{1s};
  SharedRate rate(now);
  rate.use(1 << 30);
  CHECK(rate.wait(now) == 0ns);  // none was set
  rate.set(1000, now);
  rate.use(500);
  rate.set(1000, now);
  CHECK(rate.wait(now) >= 500ms);
  rate.set(0, now);
  CHECK(rate.wait(now) == 0ns);
}

}  // namespace
}  // namespace weft::ds
