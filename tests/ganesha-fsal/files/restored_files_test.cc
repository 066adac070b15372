// Files of a store that came back from a backup: what is served of them.
#include <catch2/catch_test_macros.hpp>

#include "ganesha-fsal/backup/prepare_store.h"
#include "ganesha-fsal/server/admin_backup.h"
#include "ganesha-fsal/server/admin_reports.h"
#include "tests/ganesha-fsal/server/server_fixture.h"
#include "tests/rpc/log_lines.h"

namespace weft::mds {
namespace {

using State = RestoredRecord::State;

constexpr std::uint32_t kUnit = 64 * 1024;
constexpr std::int64_t kMade = 1'780'000'000'000'000'000;  // when the backup was made
constexpr std::int64_t kHour = 3'600'000'000'000;

struct Restored : ServerTest {
  Restored() {
    policy.stripe_unit = kUnit;
    policy.stripe_count = 2;
    start();
    connect();
  }
  ~Restored() {
    servers.clear();
    stop();
  }
  void connect() {
    for (std::uint8_t id = 1; id <= 2; ++id) {
      if (servers.size() < id) servers.push_back(std::make_unique<FakeServer>(id, port()));
      await_up(id);
    }
  }
  // With `size` bytes, all of them at the data servers.
  FileId put(std::string_view name, std::uint64_t size, FileId folder = kRootFileId) {
    const FileId made = file(folder, name);
    const auto map = names->ensure_layout(made, [&](const InodeAttributes&) {
      layout::LayoutMap map;
      map.stripe_unit = kUnit;
      map.copies = {{layout::CopyState::kCurrent, 0, {1, 2}}};
      if (policy.copies == 2) {
        map.copies = {{layout::CopyState::kCurrent, 0, {1}}, {layout::CopyState::kCurrent, 0, {2}}};
        map.duplication = layout::Duplication::kServerSync;
      }
      return Result<layout::LayoutMap>(map);
    });
    REQUIRE(map);
    REQUIRE(names->grow_size({.id = made, .end = size}));
    for (std::uint32_t at = 0; at < 2; ++at) {
      servers[at]->hold(made, policy.copies == 2 ? size : map->striping().object_end(at, size));
    }
    return made;
  }
  // The metadata server ends, and a backup of now is brought back.
  void restore(std::int64_t now_ns = 1'790'000'000'000'000'000) {
    stop();
    REQUIRE(prepare_restored(store, {.made_ns = kMade, .now_ns = now_ns}));
    start();
    connect();
  }
  void gone(std::size_t at, FileId file) {
    const std::lock_guard lock(servers[at]->mutex);
    servers[at]->sizes.erase(file);
  }
  std::optional<State> state(FileId file) {
    const auto record = names->restored_file(file);
    REQUIRE(record);
    return *record ? std::optional((*record)->state) : std::nullopt;
  }
  Result<InodeAttributes> cut(FileId file, std::uint64_t size) {
    AttributeChange change;
    change.size = size;
    return server->data().set_attributes(kSuperuser, file, change, 5);
  }
  // A cut that the backup was made in the middle of.
  void begin_cut(FileId file, std::uint64_t size) {
    AttributeChange change;
    change.size = size;
    REQUIRE(names->setattr(kSuperuser, file, change)->truncate);
  }
  std::uint64_t held(std::size_t at, FileId file) {
    const std::lock_guard lock(servers[at]->mutex);
    return servers[at]->sizes[file];
  }
  // What is told of files that were written since.
  std::vector<std::string> told(rpc::test::LogLines& log) {
    server->data().changed_since_backup().tell([] { return false; });
    std::vector<std::string> lines = log.take();
    std::erase_if(lines, [](const auto& line) { return !line.contains("=changed_since_backup"); });
    return lines;
  }
  std::vector<std::unique_ptr<FakeServer>> servers;
};

}  // namespace

TEST_CASE_METHOD(Restored, "restored: a file whose objects are as they were is served, at once") {
  const FileId f = put("f", 3 * kUnit);
  restore();
  CHECK(state(f) == State::kUnchecked);
  REQUIRE(grant(f, 5, layout::Access::kRead));
  CHECK(state(f) == std::nullopt);
  CHECK(attributes(f).size == 3 * kUnit);
  // Who had a layout of before is fenced.
  for (const auto& one : servers) {
    const std::lock_guard lock(one->mutex);
    CHECK(one->epochs[f] == (*names->layout(f))->object_epoch);
  }
  check_clean();
}

TEST_CASE_METHOD(Restored, "restored: what is gone is an error, not zeros") {
  const FileId removed = put("removed", 3 * kUnit);
  const FileId half = put("half", 3 * kUnit);
  const FileId cut_since = put("cut", 3 * kUnit);
  restore();
  gone(0, removed);
  gone(1, removed);
  gone(1, half);
  servers[0]->hold(cut_since, kUnit);
  for (const FileId file : {removed, half, cut_since}) {
    CHECK(read_at(file, 0, 10).error() == Errc::kIo);
    CHECK(state(file) == State::kDamaged);
    CHECK(grant(file, 5, layout::Access::kRead).error() == Errc::kIo);
    CHECK(grant(file, 5, layout::Access::kReadWrite).error() == Errc::kIo);
    const std::array<std::byte, 3> data{};
    CHECK(write_at(file, 0, data).error() == Errc::kIo);
    CHECK(cut(file, 10).error() == Errc::kIo);
    CHECK(server->data().begin_move(file, 1, 3).error() == Errc::kIo);
    CHECK(server->data().commit({.id = file, .end = 4 * kUnit}, 5).error() == Errc::kIo);
    CHECK(server->data().seek(file, 0, false, 3 * kUnit).error() == Errc::kIo);
  }
  CHECK((*names->restored_file(removed))->missing == 2);
  CHECK((*names->restored_file(half))->missing == 1);
  CHECK((*names->restored_file(cut_since))->cut == 1);
  check_clean();

  // Cut to nothing it has lost nothing.
  REQUIRE(cut(half, 0));
  CHECK(state(half) == std::nullopt);
  CHECK(grant(half, 5, layout::Access::kReadWrite));
  // Or it is wanted as it is.
  REQUIRE(server->data().accept_restored(removed));
  CHECK(state(removed) == std::nullopt);
  CHECK(grant(removed, 5, layout::Access::kRead));
  CHECK(server->data().accept_restored(removed).error() == Errc::kInvalid);
  REQUIRE(names->remove(kSuperuser, kRootFileId, "cut"));
  CHECK(names->restored_files(0, 10)->empty());
  check_clean();
}

TEST_CASE_METHOD(Restored,
                 "restored: one that cannot be accepted now does not keep others from it") {
  const std::array files{put("f", 3 * kUnit), put("g", 3 * kUnit), put("h", 3 * kUnit)};
  restore();
  for (const FileId file : files) {
    gone(0, file);
    CHECK(server->data().fit(file).error() == Errc::kIo);
  }
  const admin::Table table = make_admin_table(*server);
  {
    const auto held = be_alone(server->files(), files[0], Phase::Alone::kMoving, kDoNotWait);
    REQUIRE(held);
    const auto accepted = table.ask(admin::AcceptRestored{});
    CHECK(accepted.error() == Errc::kBusy);
    CHECK(accepted.error().text.starts_with("2 files are served as they are, 1 is not: file "));
    CHECK(state(files[0]) == State::kDamaged);
    CHECK(state(files[1]) == std::nullopt);
    CHECK(state(files[2]) == std::nullopt);
  }
  const auto accepted = table.ask(admin::AcceptRestored{});
  REQUIRE(accepted);
  CHECK(accepted->files == 1U);
}

TEST_CASE_METHOD(Restored, "restored: a data server makes no zeros of what may be gone") {
  const FileId f = put("f", 3 * kUnit);
  restore();
  NamespaceSizes sizes(*names, server->files(), server->journal(), [](FileId) {});
  const auto object = names->object_of(f, **names->layout(f));
  CHECK(sizes.size_of(object).error() == Errc::kBusy);
  REQUIRE(server->data().fit(f));
  CHECK(sizes.size_of(object) == 3 * kUnit);
}

TEST_CASE_METHOD(Restored, "restored: what was written since is there") {
  const FileId f = put("f", kUnit);
  restore();
  servers[1]->hold(f, 2 * kUnit);
  REQUIRE(server->data().fit(f));
  CHECK(attributes(f).size == 2 * kUnit);
  restart();
  CHECK(names->restored_grown() == 1);
  restore(1'790'000'010'000'000'000);
  CHECK(names->restored_grown() == 0);
}

TEST_CASE_METHOD(Restored, "restored: what was written since is told by name") {
  const FileId grown = put("gro\"wn", kUnit);
  const FileId written = put("written", 3 * kUnit, dir(kRootFileId, "d"));
  const FileId before = put("before", 3 * kUnit);
  const FileId removed = put("removed", kUnit);
  const FileId accepted = put("accepted", 3 * kUnit);
  restore();
  rpc::test::LogLines log;
  servers[1]->hold(grown, 2 * kUnit, kMade - kHour);  // by its clock that is of before
  servers[1]->hold(written, 2 * kUnit, kMade + 1);
  servers[0]->hold(before, 3 * kUnit, kMade);
  servers[0]->hold(removed, kUnit, kMade + 1);
  servers[0]->hold(accepted, kUnit, kMade + 1);
  for (const FileId file : {grown, written, before, removed}) REQUIRE(server->data().fit(file));
  CHECK(server->data().fit(accepted).error() == Errc::kIo);
  REQUIRE(names->remove(kSuperuser, kRootFileId, "removed"));
  CHECK(told(log) ==
        std::vector<std::string>{
            fmt::format("info event=changed_since_backup fileid={} path=\"/gro\\x22wn\" "
                        "what=\"grew from 65536 to 131072 bytes\"",
                        grown),
            fmt::format("info event=changed_since_backup fileid={} path=\"/d/written\" "
                        "what=\"was written\"",
                        written),
            fmt::format("info event=changed_since_backup fileid={} path=\"a file without a name\" "
                        "what=\"was written\"",
                        removed)});
  CHECK(told(log).empty());
  REQUIRE(server->data().accept_restored(accepted));
  CHECK(told(log) ==
        std::vector<std::string>{fmt::format("info event=changed_since_backup fileid={} "
                                             "path=\"/accepted\" what=\"was written\"",
                                             accepted)});
  CHECK(server->data().changed_since_backup().told() == 4);
}

TEST_CASE_METHOD(Restored, "restored: of many that were written since some are told by name") {
  constexpr std::size_t kMost = ChangedSinceBackup::kMostNamed;
  std::vector<FileId> files;
  for (std::size_t at = 0; at < kMost + 3; ++at) files.push_back(put(std::to_string(at), kUnit));
  restore();
  rpc::test::LogLines log;
  for (const FileId file : files) {
    servers[0]->hold(file, kUnit, kMade + 1);
    REQUIRE(server->data().fit(file));
  }
  // Whose search for names ends too soon is told later.
  server->data().changed_since_backup().tell([] { return true; });
  CHECK(server->data().changed_since_backup().told() == 0);
  const auto lines = told(log);
  REQUIRE(lines.size() == kMost + 1);
  CHECK(lines[kMost - 1].contains("path=\"/99\""));
  CHECK(lines[kMost] == "info event=changed_since_backup_more files=3");
  CHECK(told(log).empty());
}

TEST_CASE_METHOD(Restored, "restored: what was written since, and is gone, is no hole") {
  const FileId f = put("f", kUnit);
  restore();
  gone(1, f);
  servers[0]->hold(f, 5 * kUnit);
  CHECK(server->data().fit(f).error() == Errc::kIo);
  CHECK(state(f) == State::kDamaged);
  CHECK((*names->restored_file(f))->missing == 1);
  CHECK(attributes(f).size == kUnit);
  REQUIRE(server->data().accept_restored(f));
  CHECK(attributes(f).size == 5 * kUnit);
  check_clean();
}

TEST_CASE_METHOD(Restored, "restored: what one of two copies has is not gone") {
  policy.copies = 2;
  const FileId f = put("f", 0);
  restore();
  gone(0, f);
  servers[1]->hold(f, 5 * kUnit);
  REQUIRE(server->data().fit(f));
  CHECK((**names->layout(f)).copies[0].state != layout::CopyState::kCurrent);
  CHECK(attributes(f).size == 5 * kUnit);
}

TEST_CASE_METHOD(Restored, "restored: a cut is not made again over what was written since") {
  const FileId emptied = put("emptied", 2 * kUnit);
  const FileId longer = put("longer", 2 * kUnit);
  const FileId half = put("half", 4 * kUnit);
  begin_cut(emptied, 0);
  begin_cut(longer, 100 * kUnit);
  begin_cut(half, 2 * kUnit);
  restore();
  servers[1]->hold(emptied, 3 * kUnit, kMade + kHour);
  servers[0]->hold(emptied, kUnit);  // by its clock that is of before
  for (const auto& one : servers) one->hold(longer, 60 * kUnit, kMade + 1);
  servers[0]->hold(half, kUnit, kMade + kHour);
  servers[1]->hold(half, 4 * kUnit, kMade - 1);  // its clock is behind
  for (const FileId file : {emptied, longer, half}) {
    REQUIRE(grant(file, 5, layout::Access::kRead));
    CHECK(state(file) == std::nullopt);
    CHECK_FALSE(*names->pending_truncate(file));
  }
  CHECK(held(0, emptied) == kUnit);
  CHECK(held(1, emptied) == 3 * kUnit);
  CHECK(held(0, longer) == 60 * kUnit);
  CHECK(held(1, half) == 4 * kUnit);
  CHECK(attributes(emptied).size == 3 * kUnit);
  CHECK(attributes(longer).size == 100 * kUnit);
  CHECK(attributes(half).size == 4 * kUnit);
  CHECK(names->restored_grown() == 2);
  CHECK(grant(emptied, 5, layout::Access::kReadWrite));
  check_clean();
}

// Whatever of it the crash leaves out. Fences are committed, too.
TEST_CASE_METHOD(Restored, "restored: a crash while files are looked at damages none") {
  constexpr std::uint64_t kCommits = 10;
  std::vector<FileId> cut;
  std::vector<FileId> grown;
  for (std::uint64_t at = 0; at < kCommits; ++at) {
    cut.push_back(put("cut" + std::to_string(at), 4 * kUnit));
    begin_cut(cut.back(), kUnit);
    begin_cut(cut.back(), 4 * kUnit);
    grown.push_back(put("grown" + std::to_string(at), kUnit));
  }
  restore();
  for (std::uint64_t at = 0; at < kCommits; ++at) {
    for (const FileId file : {cut[at], grown[at]}) {
      servers[0]->hold(file, kUnit);
      servers[1]->hold(file, file == cut[at] ? 2 * kUnit : 4 * kUnit, kMade + kHour);
      store.fail_commits(Errc::kIo, at, 1000);
      static_cast<void>(server->data().fit(file));
      store.fail_commits(Errc::kIo, 0, 0);
    }
    restart();
    connect();
    for (const FileId file : {cut[at], grown[at]}) {
      CHECK(server->data().fit(file));
      CHECK(attributes(file).size == 4 * kUnit);
    }
    CHECK_FALSE(*names->pending_truncate(cut[at]));
  }
  CHECK(names->restored_grown() == kCommits);
  check_clean();
}

TEST_CASE_METHOD(Restored, "restored: a crash leaves no file damaged that was cut to nothing") {
  constexpr std::uint64_t kCommits = 4;
  std::vector<FileId> files;
  for (std::uint64_t at = 0; at < kCommits; ++at) {
    files.push_back(put(std::to_string(at), 4 * kUnit));
  }
  restore();
  for (std::uint64_t at = 0; at < kCommits; ++at) {
    const FileId file = files[at];
    gone(0, file);
    CHECK(server->data().fit(file).error() == Errc::kIo);
    store.fail_commits(Errc::kIo, at, 1000);
    const auto done = cut(file, 0);
    store.fail_commits(Errc::kIo, 0, 0);
    restart();
    connect();
    const bool to_be_cut = attributes(file).size > 0 || names->pending_truncate(file)->has_value();
    CHECK(to_be_cut == (state(file) == State::kDamaged));
    if (done) CHECK_FALSE(to_be_cut);
    REQUIRE(cut(file, 0));
    CHECK(state(file) == std::nullopt);
  }
  check_clean();
}

TEST_CASE_METHOD(Restored, "restored: a cut that was not made everywhere is made") {
  const FileId f = put("f", 4 * kUnit);
  const FileId done = put("done", 4 * kUnit);
  for (const FileId file : {f, done}) begin_cut(file, kUnit);
  restore();
  servers[1]->hold(f, 0, kMade + kHour);
  servers[0]->hold(done, kUnit, kMade + kHour);
  servers[1]->hold(done, 0, kMade + kHour);
  for (const FileId file : {f, done}) {
    REQUIRE(grant(file, 5, layout::Access::kRead));
    CHECK(held(0, file) == kUnit);
    CHECK(held(1, file) == 0);
    CHECK(attributes(file).size == kUnit);
    CHECK_FALSE(*names->pending_truncate(file));
  }
  CHECK(names->restored_grown() == 0);
  check_clean();
}

TEST_CASE_METHOD(Restored, "restored: one copy stays, and others are compared with it") {
  policy.copies = 2;
  const FileId f = put("f", 3 * kUnit);
  const FileId g = put("g", 3 * kUnit);
  const FileId h = put("h", 3 * kUnit);
  restore();
  gone(0, g);
  gone(0, h);
  gone(1, h);
  REQUIRE(server->data().fit(f));
  auto map = **names->layout(f);
  CHECK((map.copies[0].state == layout::CopyState::kCurrent) !=
        (map.copies[1].state == layout::CopyState::kCurrent));
  REQUIRE(server->data().fit(g));
  map = **names->layout(g);
  CHECK(map.copies[0].state != layout::CopyState::kCurrent);
  CHECK(map.copies[1].state == layout::CopyState::kCurrent);
  const auto stale = names->stale_objects(1, {}, 10);
  REQUIRE(stale);
  CHECK(std::ranges::count(*stale, g, &StaleObject::id) == 1);
  CHECK(server->data().fit(h).error() == Errc::kIo);
  check_clean();
}

TEST_CASE_METHOD(Restored, "restored: one that was to be repaired at the backup never stays") {
  policy.copies = 2;
  const FileId f = put("f", 3 * kUnit);
  const FileId g = put("g", 3 * kUnit);
  const bool under_way = GENERATE(false, true);
  for (const FileId file : {f, g}) {
    const StaleObject missed{.id = file, .copy = 1, .ds_id = 2, .dirty = {{0, kUnit}}};
    REQUIRE(names->mark_stale(missed));
    if (under_way) {
      const auto stale = names->stale_objects(2, {}, 10);
      const auto at = std::ranges::find(*stale, file, &StaleObject::id);
      REQUIRE(names->begin_resync(*at));
    }
  }
  restore();
  // The repair wrote last, and it is longer.
  for (const FileId file : {f, g}) servers[1]->hold(file, 4 * kUnit, kMade + kHour);
  servers[0]->hold(g, kUnit);
  REQUIRE(server->data().fit(f));
  CHECK(attributes(f).size == 3 * kUnit);
  CHECK(server->data().fit(g).error() == Errc::kIo);
  REQUIRE(server->data().accept_restored(g));
  for (const FileId file : {f, g}) {
    const auto map = **names->layout(file);
    CHECK(map.copies[0].state == layout::CopyState::kCurrent);
    CHECK(map.copies[1].state != layout::CopyState::kCurrent);
  }
  const auto stale = names->stale_objects(2, {}, 10);
  for (const StaleObject& one : *stale) {
    CHECK(one.dirty == std::vector{DirtyExtent{0, kMaxFileSize}});
  }
  check_clean();
}

TEST_CASE_METHOD(Restored, "restored: as it is no copy is taken while a longer one may be away") {
  policy.copies = 2;
  const FileId f = put("f", 3 * kUnit);
  restore();
  servers[0]->hold(f, kUnit);
  servers[1]->hold(f, 2 * kUnit);
  CHECK(server->data().fit(f).error() == Errc::kIo);
  servers[1]->disconnect();
  REQUIRE(await_that([&] { return server->mirrors().reach(2) == Reach::kGone; }));
  later = 200s;
  CHECK(server->data().accept_restored(f).error() == Errc::kUnreachable);
  CHECK(state(f) == State::kDamaged);
  CHECK((*names->layout(f))->copies[1].state == layout::CopyState::kCurrent);
}

TEST_CASE_METHOD(Restored, "restored: the other copy's data server is away") {
  policy.copies = 2;
  const FileId f = put("f", 3 * kUnit);
  const FileId g = put("g", 3 * kUnit);
  restore();
  servers[0]->disconnect();
  REQUIRE(await_that([&] { return server->mirrors().reach(1) == Reach::kGone; }));
  later = 200s;  // it has no lease any more
  gone(1, g);
  REQUIRE(await_that([&] { return server->data().fit(f).has_value(); }));
  CHECK((*names->layout(f))->copies[0].state != layout::CopyState::kCurrent);
  // What that one has may be all that there is.
  CHECK(server->data().fit(g).error() == Errc::kUnreachable);
  CHECK(state(g) == State::kUnchecked);
}

// Otherwise a drain leaves out a copy that may have what the others lack.
TEST_CASE_METHOD(Restored, "restored: no copy is moved before its objects were looked at") {
  policy.copies = 2;
  const FileId shorter = put("shorter", 3 * kUnit);
  const FileId whole = put("whole", 3 * kUnit);
  restore();
  servers.push_back(std::make_unique<FakeServer>(3, port()));
  {
    const std::lock_guard lock(servers[2]->mutex);
    servers[2]->space = {.capacity_bytes = 1U << 30, .free_bytes = 1U << 30, .objects = 0};
  }
  std::uint32_t third = 0;
  REQUIRE(await_that([&] {
    for (const layout::Candidate& one : server->cluster().registry().candidates()) {
      if (one.ds_id > 2 && one.free_bytes > 0) third = one.ds_id;
    }
    return third != 0;
  }));
  servers[1]->hold(shorter, kUnit);
  servers[0]->disconnect();
  REQUIRE(await_that([&] { return server->mirrors().reach(1) == Reach::kGone; }));
  later = 200s;  // it has no lease any more
  await_up(2);
  await_up(third);
  REQUIRE(server->cluster().registry().set_duty(1, Duty::kRemoving));
  const auto first = [&](FileId file) { return (*names->layout(file))->copies[0].state; };
  REQUIRE(await_that([&] {
    server->repairs().mover().turn();
    return first(whole) != layout::CopyState::kCurrent;
  }));
  CHECK(state(whole) == std::nullopt);
  for (int i = 0; i < 3; ++i) server->repairs().mover().turn();
  CHECK(first(shorter) == layout::CopyState::kCurrent);
  CHECK(state(shorter) == State::kUnchecked);
}

TEST_CASE_METHOD(Restored, "restored: files that nobody asks for are looked at, too") {
  const FileId f = put("f", 3 * kUnit);
  const FileId g = put("g", 3 * kUnit);
  restore();
  gone(0, g);
  for (const auto& one : servers) one->hold(f, 3 * kUnit, kMade + kHour);
  server->start_background();
  REQUIRE(await_that([&] { return state(f) == std::nullopt && state(g) == State::kDamaged; }));
  REQUIRE(await_that([&] { return server->data().changed_since_backup().told() == 1; }));
  StatusReport report;
  add_restored(*names, report);
  CHECK(report.restored_damaged == 1);
  CHECK(report.restored_unchecked == 0);
  // It goes on to tell of what is accepted later.
  for (const auto& one : servers) one->hold(g, 3 * kUnit, kMade + kHour);
  REQUIRE(server->data().accept_restored(g));
  CHECK(await_that([&] { return server->data().changed_since_backup().told() == 2; }));
}

}  // namespace weft::mds
