// Inline files through a metadata server: no data server is asked until one is needed, and then the
// bytes go there whole, whatever fails on the way.
#include <future>

#include "rpc/base/log_limit.h"
#include "tests/ganesha-fsal/files/file_io_fixture.h"
#include "tests/ganesha-fsal/meta/held_sync.h"
#include "tests/rpc/log_lines.h"

namespace weft::mds {
namespace {

constexpr ClientId kClient = 5;
constexpr std::uint32_t kLimit = 1000;

struct InlineFilesTest : FileIoTest {
  InlineFilesTest() { policy.inline_bytes = kLimit; }

  Result<FileData::Granted> layout(bool with_open,
                                   layout::Access access = layout::Access::kReadWrite) {
    return server->data().grant(
        {.file = f, .client = kClient, .access = access, .max_bytes = 4096, .with_open = with_open},
        policy);
  }
  [[nodiscard]] bool inlined() { return !names->layout(f)->has_value(); }
  [[nodiscard]] bool growing() { return !names->growing()->empty(); }
  [[nodiscard]] std::uint64_t grown() { return server->data().counters().grown; }
  int writes() { return objects(1).writes + objects(2).writes; }
  void fail_objects(rpc::nfs4::Status failure) {
    for (std::uint32_t id = 1; id <= 2; ++id) {
      const std::lock_guard lock(objects(id).mutex);
      objects(id).failure = failure;
    }
  }
  Result<layout::LayoutMap> on_server_1() {
    layout::LayoutMap made;
    made.stripe_unit = policy.stripe_unit;
    made.copies.push_back({layout::CopyState::kCurrent, 0, {1}});
    return made;
  }
  // The metadata server dies and comes back, with its data servers.
  void restart() {
    store.fail_commits(Errc::kIo, 0, 0);
    ServerTest::restart();
    for (std::uint32_t id = 1; id <= 2; ++id) await_up(id);
  }
};

struct LateWriterTest : InlineFilesTest {
  LateWriterTest() {
    stop();
    start(held);
    for (std::uint32_t id = 1; id <= 2; ++id) await_up(id);
  }
  ~LateWriterTest() {
    held.let_go();
    if (late.joinable()) late.join();
    stop();
  }
  // Writes on a thread of its own, whose syncs are held from when it has found the file's bytes.
  void write_late(std::uint64_t offset, std::vector<std::byte> data) {
    store.after_peek([this](std::string_view key) {
      if (key == keys::inline_bytes(f) && std::this_thread::get_id() == late_id) {
        held.hold_this_thread();
      }
    });
    late = std::thread([this, offset, data = std::move(data)] {
      late_id = std::this_thread::get_id();
      static_cast<void>(write_at(f, offset, data));
    });
  }

  HeldSync held{store};
  std::atomic<std::thread::id> late_id;
  std::thread late;
};

std::vector<std::byte> joined(std::vector<std::byte> first, const std::vector<std::byte>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

TEST_CASE_METHOD(LateWriterTest, "whether a new file is inline is said before its sync") {
  REQUIRE(file(kRootFileId, "first"));  // reserves file numbers
  held.hold();
  FileId made = 0;
  {
    Owed owed;
    const Owed::Scope scope(owed);
    made = names->create(kSuperuser, kRootFileId, "new", {}).value().attributes.id;
  }
  auto limit = std::async(std::launch::async, [&] {
    Owed owed;
    const Owed::Scope scope(owed);
    return server->data().inline_limit(made, policy);
  });
  auto layout = std::async(std::launch::async, [&] {
    return server->data().grant(
        {.file = made, .client = kClient, .max_bytes = 4096, .with_open = true}, policy);
  });
  CHECK(limit.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
  CHECK(layout.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
  held.let_go();
  CHECK(limit.get().value() == kLimit);
  CHECK(layout.get().error() == Errc::kLayoutUnavailable);
}

TEST_CASE_METHOD(InlineFilesTest, "a small file asks no data server") {
  lose(1);
  lose(2);
  const auto data = pattern(kLimit, 1);
  const auto written = write(0, data);
  REQUIRE(written);
  CHECK(written->bytes == kLimit);
  CHECK(written->stability == ProxyIo::Stability::kFileSync);
  CHECK(read(0, 2 * kLimit) == data);
  CHECK(read(kLimit - 10, 5) == std::vector(data.end() - 10, data.end() - 5));
  CHECK(read_at(f, 0, kLimit)->eof);
  CHECK_FALSE(read_at(f, 0, kLimit - 1)->eof);
  CHECK(read_at(f, kLimit, 1)->eof);
  CHECK(server->data().sync(f));
  CHECK(server->data().punch(f, 0, kLimit - 1));
  REQUIRE(truncate(kLimit + 5, kClient));
  CHECK(read(kLimit - 1, 6) == joined({data.back()}, std::vector<std::byte>(5)));
  CHECK(server->data().allocate(f, 0, kLimit, policy));
  CHECK(inlined());
  CHECK(server->journal().size() == 0);
  check_clean();
}

TEST_CASE_METHOD(InlineFilesTest, "a file of a policy that says 0 is at its objects at once") {
  policy.inline_bytes = 0;
  REQUIRE(write(0, pattern(10, 1)));
  CHECK_FALSE(inlined());
  CHECK(writes() == 1);
  CHECK(grown() == 0);
}

TEST_CASE_METHOD(InlineFilesTest, "and its layout comes with the OPEN, whatever others are") {
  REQUIRE(write(0, pattern(10, 1)));
  REQUIRE(inlined());
  policy.inline_bytes = 0;
  const FileId g = file(kRootFileId, "g");
  CHECK(server->data().grant({.file = g, .client = kClient, .max_bytes = 4096, .with_open = true},
                             policy));
}

TEST_CASE_METHOD(InlineFilesTest, "a write beyond the limit brings all bytes to all copies") {
  const auto first = pattern(600, 1);
  const auto second = pattern(600, 2);
  REQUIRE(write(0, first));
  REQUIRE(write(600, second));
  CHECK_FALSE(inlined());
  CHECK_FALSE(growing());
  CHECK(grown() == 1);
  CHECK(objects(1).object == joined(first, second));
  CHECK(objects(2).object == joined(first, second));
  CHECK(objects(1).commits + objects(2).commits >= 1);
  CHECK(read(0, 5000) == joined(first, second));
  REQUIRE(truncate(0, kClient));
  REQUIRE(write(0, pattern(5, 3)));
  CHECK_FALSE(inlined());  // it stays there
  check_clean();
}

TEST_CASE_METHOD(InlineFilesTest, "so does more space, of one copy, too") {
  policy.copies = 1;
  const auto data = pattern(600, 1);
  REQUIRE(write(0, data));
  CHECK(server->data().allocate(f, 0, kLimit, policy));
  CHECK(inlined());
  CHECK(attributes(f).size == kLimit);
  CHECK(server->data().allocate(f, 0, kLimit + 1, policy));
  CHECK_FALSE(inlined());
  CHECK(objects(map().copies[0].ds_ids[0]).object.size() >= 600);
  CHECK(attributes(f).size == kLimit + 1);
}

TEST_CASE_METHOD(InlineFilesTest,
                 "with an OPEN no layout is granted of what is, or can be, inline") {
  CHECK(layout(true).error() == Errc::kLayoutUnavailable);
  REQUIRE(write(0, pattern(kLimit, 1)));
  CHECK(layout(true).error() == Errc::kLayoutUnavailable);
  CHECK(layout(true, layout::Access::kRead).error() == Errc::kLayoutUnavailable);
  CHECK(inlined());
  CHECK(server->data().counters().layouts_refused == 0);
  // It is longer than the limit, though there are no bytes.
  REQUIRE(truncate(kLimit + 1, kClient));
  CHECK(layout(true));
  CHECK_FALSE(inlined());
}

// Of a file that has one and that nothing is remembered of. A transaction's reads are not counted:
// the journal's looks at the map under its lock.
TEST_CASE_METHOD(InlineFilesTest, "a layout is granted with the map read once") {
  const bool with_copies = GENERATE(true, false);
  const auto access = GENERATE(layout::Access::kRead, layout::Access::kReadWrite);
  const bool inlines = GENERATE(true, false);
  CAPTURE(with_copies, access == layout::Access::kRead, inlines);
  policy.copies = with_copies ? 2 : 1;
  if (!inlines) policy.inline_bytes = 0;
  REQUIRE(names->ensure_layout(f, [&](const auto&) {
    auto made = on_server_1();
    if (with_copies) made->copies.push_back({layout::CopyState::kCurrent, 0, {2}});
    return made;
  }));
  int reads = 0;
  store.after_peek([&, here = std::this_thread::get_id()](std::string_view key) {
    if (key == keys::layout(f) && std::this_thread::get_id() == here) ++reads;
  });
  const auto granted = layout(false, access);
  store.after_peek(nullptr);
  REQUIRE(granted);
  CHECK(reads == (inlines || access == layout::Access::kRead ? 1 : 0));
}

TEST_CASE_METHOD(InlineFilesTest, "clients are told up to what size to read and write here") {
  const auto limit = [&] { return server->data().inline_limit(f, policy).value(); };
  CHECK(limit() == kLimit);
  server->data().set_busy(true);
  CHECK(limit() == 0);  // a new file's bytes go to data servers
  SECTION("as its layout lets them") {
    CHECK(layout(true, layout::Access::kRead).error() == Errc::kLayoutUnavailable);
    CHECK(inlined());
    CHECK(layout(true));
    CHECK_FALSE(inlined());
    CHECK(limit() == std::nullopt);
  }
  SECTION("who writes here all the same is not refused") {
    REQUIRE(write(0, pattern(10, 1)));
    CHECK(inlined());
    CHECK(limit() == kLimit);  // what is here stays
    CHECK(layout(true).error() == Errc::kLayoutUnavailable);
  }
  SECTION("until the store has caught up") {
    server->data().set_busy(false);
    CHECK(limit() == kLimit);
    CHECK(layout(true).error() == Errc::kLayoutUnavailable);
  }
  policy.inline_bytes = 0;
  CHECK(limit() == std::nullopt);
}

TEST_CASE_METHOD(InlineFilesTest, "what goes to the store and comes from it is counted") {
  REQUIRE(write(0, pattern(600, 1)));
  CHECK(read(100, 5000).size() == 500);
  auto counted = server->data().counters();
  CHECK(counted.inline_writes == 1);
  CHECK(counted.inline_written_bytes == 600);
  CHECK(counted.inline_reads == 1);
  CHECK(counted.inline_read_bytes == 500);
  REQUIRE(write(600, pattern(600, 2)));
  CHECK(read(0, 5000).size() == 1200);
  counted = server->data().counters();
  CHECK(counted.grown == 1);
  CHECK(counted.inline_writes == 1);
  CHECK(counted.inline_reads == 1);
  CHECK(counted.writes == 2);
  CHECK(counted.read_bytes == 1700);
}

TEST_CASE_METHOD(InlineFilesTest,
                 "a layout that is asked for later is granted, with the bytes there") {
  const auto access = GENERATE(layout::Access::kRead, layout::Access::kReadWrite);
  const auto data = pattern(100, 1);
  SECTION("of bytes") {
    REQUIRE(write(0, data));
    REQUIRE(layout(false, access));
    CHECK(objects(1).object == data);
    CHECK(objects(2).object == data);
    CHECK(grown() == 1);
  }
  SECTION("of none") {
    REQUIRE(layout(false, access));
    CHECK(writes() == 0);
    CHECK(grown() == 0);
  }
  CHECK_FALSE(inlined());
  CHECK_FALSE(growing());
  check_clean();
}

TEST_CASE_METHOD(InlineFilesTest,
                 "without data servers a file does not grow, and small ones go on") {
  policy.copies = GENERATE(1U, 2U);
  const auto data = pattern(600, 1);
  REQUIRE(write(0, data));
  const bool begun = GENERATE(false, true);
  if (begun) {
    // Its data servers go when there is a map already.
    REQUIRE(names->begin_growth(f, [&](const InodeAttributes&) -> Result<layout::LayoutMap> {
      layout::LayoutMap made;
      made.stripe_unit = policy.stripe_unit;
      made.copies.push_back({layout::CopyState::kCurrent, 0, {1}});
      if (policy.copies == 2) made.copies.push_back({layout::CopyState::kCurrent, 0, {2}});
      return made;
    }));
    restart();
  }
  lose(1);
  lose(2);
  const auto refused = write(600, pattern(600, 2));
  REQUIRE_FALSE(refused);
  const auto later = [](const Error& error) {
    return error == Errc::kBusy || error == Errc::kLayoutTryLater || error == Errc::kNoSpace;
  };
  CHECK(later(refused.error()));
  CHECK(layout(false, layout::Access::kRead).error() == Errc::kLayoutUnavailable);
  const auto to_write = layout(false);
  REQUIRE_FALSE(to_write);
  CHECK((to_write.error() == Errc::kLayoutUnavailable) != begun);
  CHECK(read(0, 5000) == data);
  const FileId other = file(kRootFileId, "other");
  CHECK(write_at(other, 0, data));
  CHECK(read_at(other, 0, 600)->data.flatten().value() == data);
  if (!begun) CHECK(write(0, data));
}

TEST_CASE_METHOD(InlineFilesTest, "the size of a file that grows is known without data servers") {
  const bool written = GENERATE(false, true);
  REQUIRE(write(0, pattern(600, 1)));
  REQUIRE(names->begin_growth(f, [&](const InodeAttributes&) { return on_server_1(); }));
  if (written) REQUIRE(names->begin_writing(f, no_layout));
  restart();
  lose(1);
  lose(2);
  server->data().relearn_size(f);
  REQUIRE(growing());
  CHECK(server->data().size_known(f));
  CHECK(server->data().size_known(f));
  CHECK(attributes(f).size == 600);
}

TEST_CASE_METHOD(InlineFilesTest,
                 "a file on its way to one that is lost and removed goes elsewhere") {
  policy.copies = 1;
  control[1]->space = {.capacity_bytes = 1U << 30, .free_bytes = 1U << 30, .objects = 0};
  const auto stripes = GENERATE(std::vector<std::uint32_t>{1}, std::vector<std::uint32_t>{1, 2});
  const auto data = pattern(600, 1);
  REQUIRE(write(0, data));
  REQUIRE(names->begin_growth(f, [&](const InodeAttributes&) {
    layout::LayoutMap made;
    made.stripe_unit = policy.stripe_unit;
    made.copies.push_back({layout::CopyState::kCurrent, 0, stripes});
    return Result<layout::LayoutMap>(made);
  }));
  restart();
  lose(1);
  const auto before = map();
  server->data().catch_up();
  CHECK(map() == before);  // it may be back
  REQUIRE(server->cluster().registry().set_duty(1, Duty::kRemoving));
  later = 1h;  // it has no lease any more
  SECTION("by itself") {}
  SECTION("whatever a crash leaves of it") {
    for (std::uint64_t commits = 0; commits < 6; ++commits) {
      store.fail_commits(Errc::kIo, commits, 1000);
      server->data().catch_up();
      store.fail_commits(Errc::kIo, 0, 0);
      ServerTest::restart();
      await_up(2);
      later = later.load() + 1h;
      REQUIRE(await_that([&] { return server->mirrors().reach(1) == Reach::kGone; }));
      CHECK(read(0, 5000) == data);
    }
  }
  REQUIRE(await_that([&] {
    server->data().catch_up();
    return !growing();
  }));
  CHECK(map().copies[0].ds_ids == std::vector<std::uint32_t>{2});
  CHECK(map().object_generation > before.object_generation);
  CHECK(map().object_epoch > before.object_epoch);
  CHECK(objects(2).object == data);
  REQUIRE(write(600, data));
  CHECK(read(0, 5000) == joined(data, data));
  const auto removals = names->pending_removals(std::nullopt, 10);
  REQUIRE_FALSE(removals->empty());
  CHECK(removals->front().object.generation == before.object_generation);
  CHECK(std::ranges::find(removals->front().ds_ids, 1U) != removals->front().ds_ids.end());
  check_clean();
}

TEST_CASE_METHOD(InlineFilesTest,
                 "files that grow do not fill the log while a data server is away") {
  for (int i = 0; i < 200; ++i) {
    f = file(kRootFileId, "f" + std::to_string(i));
    REQUIRE(write(0, pattern(10, 1)));
    REQUIRE(names->begin_growth(f, [&](const InodeAttributes&) { return on_server_1(); }));
  }
  restart();
  lose(1);
  rpc::test::LogLines log(spdlog::level::warn);
  const auto since = system_clock().now();
  for (int i = 0; i < 10; ++i) server->data().catch_up();
  const auto later_ones = (system_clock().now() - since) / LogLimit::kForOne;
  const auto lines = std::ranges::count_if(
      log.take(), [](const std::string& line) { return line.contains("event=growth_waits"); });
  CHECK(lines > 0);
  CHECK(lines <= static_cast<int>(LogLimit::kAtOnce) + later_ones + 1);
  CHECK(names->growing()->size() == 200);
}

TEST_CASE_METHOD(InlineFilesTest, "who asks for a layout to read reads here what cannot grow") {
  policy.copies = GENERATE(1U, 2U);
  const auto failure = GENERATE(rpc::nfs4::Status::NFS4ERR_NOSPC, rpc::nfs4::Status::NFS4ERR_IO);
  const auto data = pattern(600, 1);
  REQUIRE(write(0, data));
  fail_objects(failure);
  CHECK_FALSE(write(600, data));
  REQUIRE(growing());
  CHECK(layout(false, layout::Access::kRead).error() == Errc::kLayoutUnavailable);
  CHECK(layout(true, layout::Access::kRead).error() == Errc::kLayoutUnavailable);
  const auto to_write = layout(false);
  REQUIRE_FALSE(to_write);
  CHECK(to_write.error() != Errc::kLayoutUnavailable);  // nor can it be written here
  CHECK(read(0, 5000) == data);
}

TEST_CASE_METHOD(InlineFilesTest, "who gets no layout as data servers are full works here") {
  const bool bytes = GENERATE(false, true);
  if (bytes) REQUIRE(write(0, pattern(600, 1)));
  policy.reserve_bytes = std::numeric_limits<std::int64_t>::max();
  CHECK(layout(false, layout::Access::kRead).error() == Errc::kLayoutUnavailable);
  CHECK(layout(false).error() == Errc::kLayoutUnavailable);
  CHECK(write(10, pattern(600, 2)));
  // Longer than the limit it can be read here, and not be written.
  REQUIRE(truncate(kLimit + 1, kClient));
  CHECK(layout(false, layout::Access::kRead).error() == Errc::kLayoutUnavailable);
  CHECK(layout(false).error() == Errc::kNoSpace);
  CHECK(inlined());
  CHECK_FALSE(growing());
}

TEST_CASE_METHOD(InlineFilesTest, "what failed on the way is gone on with by itself") {
  const auto data = pattern(600, 1);
  REQUIRE(write(0, data));
  policy.copies = 1;
  fail_objects(rpc::nfs4::Status::NFS4ERR_IO);
  CHECK_FALSE(write(600, data));
  CHECK(growing());
  CHECK(read(0, 5000) == data);
  CHECK_FALSE(truncate(5, kClient));
  CHECK_FALSE(server->data().punch(f, 0, 5));
  CHECK(server->data().being_written(f));
  CHECK(server->data().begin_move(f, 1, 2).error() == Errc::kBusy);
  CHECK(server->data().hold_unused(f, map()).error() == Errc::kBusy);
  CHECK(read(0, 5000) == data);
  CHECK(server->data().sync(f));  // what was acknowledged is durable

  fail_objects(rpc::nfs4::Status::NFS4_OK);
  REQUIRE(await_that([&] {
    server->data().catch_up();
    return !growing();
  }));
  CHECK(objects(map().copies[0].ds_ids[0]).object == data);
  REQUIRE(write(600, data));
  CHECK(read(0, 5000) == joined(data, data));
  check_clean();
}

TEST_CASE_METHOD(InlineFilesTest, "a copy that is lost on the way is left out") {
  const auto data = pattern(600, 1);
  REQUIRE(write(0, data));
  // The first to lead is one of the two; the other takes its place.
  hang(1);
  hang(2);
  auto written = std::async(std::launch::async, [&] { return write_at(f, 600, data); });
  std::uint32_t led = 0;
  REQUIRE(await_that([&] {
    for (std::uint32_t id = 1; id <= 2; ++id) {
      const std::lock_guard lock(objects(id).mutex);
      if (!objects(id).held.empty()) led = id;
    }
    return led != 0;
  }));
  CHECK(read(0, 5000) == data);  // meanwhile
  {
    const std::lock_guard lock(objects(3 - led).mutex);
    objects(3 - led).silent = false;
  }
  lose(led);
  REQUIRE(written.get());
  CHECK(state_at(led) == layout::CopyState::kStale);
  CHECK(objects(3 - led).object == joined(data, data));
  CHECK(read(0, 5000) == joined(data, data));
  check_clean();
}

TEST_CASE_METHOD(InlineFilesTest, "a crash at any commit leaves the file as it was, or longer") {
  policy.copies = GENERATE(1U, 2U);
  const auto data = pattern(600, 1);
  const auto more = pattern(600, 2);
  bool whole = false;
  for (std::uint64_t commits = 0; !whole; ++commits) {
    REQUIRE(commits < 50);
    const std::string name = "f" + std::to_string(commits);
    f = file(kRootFileId, name);
    REQUIRE(write(0, data));
    for (const auto& one : nfs) {
      const std::lock_guard lock(one->objects.mutex);
      one->objects.object.clear();  // of the file before
    }
    store.fail_commits(Errc::kIo, commits, 1000);
    whole = write_at(f, 600, more).has_value();
    restart();
    // Of a file that is on its way both are right, and stay so until it is there.
    const auto there = read_at(f, 0, 5000);
    REQUIRE(there);
    const auto bytes = there->data.flatten().value();
    CHECK((whole ? bytes == joined(data, more)
                 : std::ranges::equal(std::span(bytes).first(600), data)));
    REQUIRE(await_that([&] {
      server->data().catch_up();
      server->data().settle_due(true);
      return !growing();
    }));
    REQUIRE(await_that([&] { return write(600, more).has_value(); }));
    CHECK(read(0, 5000) == joined(data, more));
    check_clean();
  }
}

// It has found bytes in the store, and is alone with the file when these are at its objects.
TEST_CASE_METHOD(LateWriterTest, "who comes late to a growth keeps no COMMIT from committing") {
  policy.copies = GENERATE(1U, 2U);
  REQUIRE(write(0, pattern(600, 1)));
  write_late(1200, pattern(600, 3));
  REQUIRE(held.await_held(1));  // with what it has found
  const auto written = write_at(f, 600, pattern(600, 2));
  REQUIRE(written);
  REQUIRE(written->stability == ProxyIo::Stability::kUnstable);
  held.let_go_of_one();
  REQUIRE(held.await_held(2));
  const auto commits = [&] {
    int all = 0;
    for (std::uint32_t id = 1; id <= 2; ++id) {
      const std::lock_guard lock(objects(id).mutex);
      all += objects(id).commits;
    }
    return all;
  };
  const int before = commits();
  REQUIRE(sync_at(f));
  CHECK(commits() > before);
  CHECK(grown() == 1);
}

TEST_CASE_METHOD(LateWriterTest, "who asks for a layout while a file is brought away asks again") {
  REQUIRE(write(0, pattern(600, 1)));
  write_late(600, pattern(600, 2));
  int syncs = 1;
  REQUIRE(held.await_held(syncs));
  while (!growing() && syncs < 9) {  // until it is in the midst of that
    held.let_go_of_one();
    REQUIRE(held.await_held(++syncs));
  }
  REQUIRE(growing());
  CHECK(layout(false, layout::Access::kRead).error() == Errc::kBusy);
  held.let_go();
  late.join();
  CHECK(layout(false, layout::Access::kRead).has_value());
}

TEST_CASE_METHOD(InlineFilesTest,
                 "where no file is to be inline nothing is done here for want of room") {
  REQUIRE(write_at(file(kRootFileId, "other"), 0, pattern(10, 1)));
  policy.inline_bytes = 0;
  policy.reserve_bytes = std::numeric_limits<std::int64_t>::max();
  CHECK(layout(false).error() == Errc::kNoSpace);
}

TEST_CASE_METHOD(InlineFilesTest, "writers and readers of one file as it grows") {
  // Each writer writes its own bytes, the last beyond the limit.
  constexpr std::size_t kWriters = 6;
  constexpr std::size_t kPiece = 250;
  std::vector<std::byte> all;
  for (std::size_t i = 0; i < kWriters; ++i) all = joined(all, pattern(kPiece, i + 1));
  std::atomic<bool> done{false};
  std::atomic<bool> wrong{false};
  std::jthread reader([&] {
    while (!done) {
      const auto got = read_at(f, 0, 5000);
      if (!got) continue;
      const auto bytes = got->data.flatten().value();
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i] != all[i] && bytes[i] != std::byte{0}) wrong = true;
      }
    }
  });
  std::vector<std::jthread> writers;
  for (std::size_t i = 0; i < kWriters; ++i) {
    writers.emplace_back([&, i] {
      const std::span piece = std::span(all).subspan(i * kPiece, kPiece);
      for (int round = 0; round < 20; ++round) {
        if (!await_that([&] { return write_at(f, i * kPiece, piece).has_value(); })) wrong = true;
      }
    });
  }
  writers.clear();
  done = true;
  reader.join();
  CHECK_FALSE(wrong);
  CHECK_FALSE(inlined());
  objects(1).file_size = objects(2).file_size = all.size();
  CHECK(read(0, 5000) == all);
  check_clean();
}

}  // namespace weft::mds
