// A store that came back from a backup: nothing that was given out since is given out again.
#include "ganesha-fsal/backup/prepare_store.h"

#include "ganesha-fsal/cluster/records.h"
#include "ganesha-fsal/cluster/registry.h"
#include "ganesha-fsal/cluster/removed_servers.h"
#include "ganesha-fsal/meta/ops/tree.h"
#include "ganesha-fsal/meta/schema/records.h"
#include "layout/relocation.h"
#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

constexpr std::int64_t kBeginning = 1'767'225'600;
constexpr std::int64_t kSecond = 1'000'000'000;

std::int64_t at(std::uint32_t stamp) { return (kBeginning + stamp) * kSecond; }

const std::string kEnd(16, '\xff');  // behind all keys

void copy(MemoryKv& from, MemoryKv& to) {
  REQUIRE(to.run([&](Transaction& transaction) -> Result<> {
    return from.latest().scan("", kEnd, SIZE_MAX, [&](auto key, auto value) {
      transaction.put(std::string(key), std::string(value));
      return true;
    });
  }));
}

// `store` is what was copied then.
void bring_back(MemoryKv& backup, MemoryKv& store) {
  REQUIRE(store.run([&](Transaction& transaction) -> Result<> {
    return store.latest().scan("", kEnd, SIZE_MAX, [&](auto key, auto) {
      transaction.erase(std::string(key));
      return true;
    });
  }));
  copy(backup, store);
}

struct PrepareTest : NamespaceTest {
  Result<Prepared> prepare(std::uint32_t stamp = 1'000'000) {
    names.reset();
    auto prepared =
        prepare_restored(store, {.made_ns = at(10), .now_ns = at(stamp), .device_salt = 99});
    open();
    return prepared;
  }
  // As a repair does that has ended, and a data server that is left out.
  void make_current(FileId file, std::uint32_t ds_id) {
    auto begun = names->begin_resync({.id = file, .copy = copy_of(file, ds_id), .ds_id = ds_id});
    REQUIRE(begun);
    REQUIRE(names->clear_stale((*begun)->object).value());
  }
  void leave_out(FileId file, std::uint32_t ds_id) {
    REQUIRE(names->mark_stale(
        {.id = file, .copy = copy_of(file, ds_id), .ds_id = ds_id, .dirty = {{0, kMaxFileSize}}}));
  }
  std::uint32_t copy_of(FileId file, std::uint32_t ds_id) {
    return static_cast<std::uint32_t>(layout::seat_of(**names->layout(file), ds_id)->copy);
  }
  // The data servers that the map names, and those where an object may be.
  using Ids = std::vector<std::uint32_t>;
  std::pair<Ids, Ids> where(FileId file) {
    std::pair<Ids, Ids> found{holders(**names->layout(file)), {}};
    for (const std::uint32_t id : {1, 2, 3, 4}) {
      const auto objects = names->objects_of(id, {}, 100);
      if (std::ranges::count(*objects, file, &layout::ObjectId::fileid) > 0) {
        found.second.push_back(id);
      }
    }
    return found;
  }
  // The layouts' data servers are there, which the namespace alone has not made.
  void check_clean() {
    REQUIRE(store.run([](Transaction& transaction) -> Result<> {
      for (const char id : {1, 2, 3, 4}) {
        transaction.put(std::string("S\0\0\0", 4) + id, "");
      }
      return {};
    }));
    NamespaceTest::check_clean();
  }
};

}  // namespace

TEST_CASE_METHOD(PrepareTest, "numbers and epochs are above all that may have been given out") {
  const FileId f = file(kRootFileId, "f");
  layout_of(f);
  const auto boot = names->superblock().boot_epoch;
  const auto uuid = names->superblock().cluster_uuid;
  const auto change = attributes(f).change;
  const auto prepared = prepare();
  REQUIRE(prepared);
  CHECK(prepared->files == 2);
  CHECK(prepared->laid_out == 1);
  CHECK(names->superblock().boot_epoch == 1'000'001);
  CHECK(names->superblock().boot_epoch > boot);
  CHECK(names->superblock().cluster_uuid == uuid);
  CHECK(names->superblock().format == kRestoredFormat);
  CHECK((*names->layout(f))->object_epoch == 1'000'000);
  CHECK((*names->layout(f))->object_generation == 1);
  CHECK(attributes(f).change > change);
  CHECK(attributes(f).change >= std::uint64_t{1'000'000} << 32);
  const FileId g = file(kRootFileId, "g");
  CHECK(g >= FileId{1'000'000} << 20);
  CHECK(layout_of(g).object_generation == 1'000'000);
  CHECK(names->restored_file(f)->has_value());
  CHECK_FALSE(names->restored_file(g)->has_value());
  check_clean();
}

TEST_CASE_METHOD(PrepareTest, "objects of a file that had none have another name than since") {
  const FileId f = file(kRootFileId, "f");
  REQUIRE(prepare());
  CHECK(layout_of(f).object_generation == 1'000'000);
}

TEST_CASE_METHOD(PrepareTest, "a backup is brought back twice, and nothing is given out twice") {
  const FileId f = file(kRootFileId, "f");
  layout_of(f);
  REQUIRE(prepare());
  const FileId first = file(kRootFileId, "first");
  REQUIRE(prepare(1'000'010));
  CHECK(file(kRootFileId, "second") > first + (1 << 20));
  CHECK((*names->layout(f))->object_epoch == 1'000'010);
  CHECK(names->superblock().boot_epoch == 1'000'011);
  CHECK(names->restore()->stamp == 1'000'010);
}

TEST_CASE_METHOD(PrepareTest, "a clock that is wrong changes nothing") {
  const FileId f = file(kRootFileId, "f");
  layout_of(f);
  CHECK(prepare(5).error() == Errc::kInvalid);  // before the backup
  CHECK_FALSE(names->restore());
  REQUIRE(prepare(100));
  CHECK(prepare(100).error() == Errc::kInvalid);
  CHECK(prepare(99).error() == Errc::kInvalid);
  CHECK(names->restore()->stamp == 100);
}

TEST_CASE_METHOD(PrepareTest,
                 "what is a stray after an older backup is written again after a newer one") {
  const FileId h = file(kRootFileId, "h");
  layout_of(h, {1});
  names.reset();
  MemoryKv older;
  copy(store, older);
  open();
  const FileId f = file(kRootFileId, "f");
  layout_of(f, {1});
  for (int i = 0; i < 9; ++i) REQUIRE(names->bump_object_epoch(f));
  const auto before = **names->layout(f);
  const auto of_f = names->object_of(f, before);
  names.reset();
  MemoryKv newer;
  copy(store, newer);

  bring_back(older, store);
  REQUIRE(prepare(1'000'000));
  // A file that is removed, and whose object is written again under a handle of after the restore.
  for (int i = 0; i < 9; ++i) REQUIRE(names->bump_object_epoch(h));
  const auto after = **names->layout(h);
  const auto of_h = names->object_of(h, after);
  REQUIRE(names->remove(kSuperuser, kRootFileId, "h"));
  const std::uint32_t one[] = {1};
  REQUIRE(names->finish_removals({&of_h, 1}, one));
  for (const auto& stray : {of_f, of_h}) {
    now_ns = at(1'000'000);  // the restore's second: handles of after it may be of the same epoch
    CHECK(names->queue_stray(1, stray).error() == Errc::kInvalid);
    now_ns = at(1'000'100);
    CHECK(*names->queue_stray(1, stray));
  }
  const auto queued = names->pending_removals({}, 10);
  REQUIRE(queued);
  REQUIRE(queued->size() == 2);
  std::uint32_t fence = 0;
  for (const PendingRemoval& removal : *queued) {
    // All that were sealed are refused: epochs below the fence are.
    CHECK(removal.least_epoch > before.object_epoch);
    CHECK(removal.least_epoch > after.object_epoch);
    fence = std::max(fence, removal.least_epoch);
  }

  names.reset();
  bring_back(newer, store);
  REQUIRE(prepare(1'000'100));  // at that very moment
  CHECK(names->object_of(f, **names->layout(f)) == of_f);
  CHECK((*names->layout(f))->object_epoch >= fence);
}

TEST_CASE_METHOD(PrepareTest, "copies that missed writes may have missed any") {
  const FileId f = file(kRootFileId, "f");
  layout_of(f, {1}, {2});
  StaleObject missed;
  missed.id = f;
  missed.copy = 1;
  missed.ds_id = 2;
  missed.dirty = {{0, 1 << 20}};
  REQUIRE(names->mark_stale(missed));
  const auto before = names->stale_objects(2, {}, 10);
  REQUIRE(prepare());
  const auto after = names->stale_objects(2, {}, 10);
  REQUIRE(after->size() == 1);
  CHECK(after->front().dirty == std::vector<DirtyExtent>{{0, kMaxFileSize}});
  CHECK(after->front().ticket > before->front().ticket);
  check_clean();
}

TEST_CASE_METHOD(PrepareTest, "a file on its way to its objects is inline again") {
  const FileId f = file(kRootFileId, "f");
  const std::string text = "some bytes";
  const auto bytes = std::as_bytes(std::span(text));
  REQUIRE(names->write_inline(f, 0, {&bytes, 1}, 100));
  REQUIRE(names->begin_growth(f, striped({1, 2}, {3, 4})));
  const auto prepared = prepare();
  REQUIRE(prepared);
  CHECK(prepared->growing == 1);
  CHECK(prepared->laid_out == 0);
  CHECK_FALSE(names->layout(f)->has_value());
  CHECK((*names->inline_file(f))->bytes == text);
  CHECK(names->objects_of(1, {}, 10)->empty());
  check_clean();
}

TEST_CASE_METHOD(PrepareTest, "what left a file's map may be where its bytes are now: it stays") {
  std::map<FileId, Ids> left;
  const auto made = [&](const char* name, const Ids& stay) {
    const FileId f = file(kRootFileId, name);
    layout_of(f, {1});
    left[f] = stay;
    return f;
  };
  // At the backup 2 was being filled directly; it took the place of 1, and that was removed.
  const FileId direct = made("direct", {1});
  const DirectMove move{direct, 1, 2, (*names->layout(direct))->object_epoch};
  REQUIRE(names->begin_direct({&move, 1}));
  const FileId filling = made("filling", {1});
  REQUIRE(names->begin_move(filling, 1, 2));
  const FileId given_up = made("given up", {1});
  REQUIRE(names->begin_move(given_up, 1, 2));
  REQUIRE(names->cancel_move(given_up));
  const FileId filled = made("filled", {2});
  const FileId excluded = made("excluded", {2});
  const FileId finished = made("finished", {2});
  const FileId removed = made("removed", {2});
  for (const FileId f : {filled, excluded, finished, removed}) {
    REQUIRE(names->begin_move(f, 1, 2));
    make_current(f, 2);
    if (f != filled) leave_out(f, 1);
    if (f == finished || f == removed) REQUIRE(names->finish_move(f));
  }
  REQUIRE(names->end_moves({&removed, 1}));
  const FileId gone = file(kRootFileId, "gone");
  layout_of(gone, {1});
  REQUIRE(names->remove(kSuperuser, kRootFileId, "gone"));
  REQUIRE(prepare());
  CHECK(names->moves(0, 10)->empty());
  for (const auto& [f, stay] : left) {
    INFO(f);
    CHECK(where(f) == std::pair(stay, stay));
    CHECK((*names->layout(f))->copies.size() == 1);
    CHECK((*names->layout(f))->copies.front().state == layout::CopyState::kCurrent);
  }
  const auto removals = names->pending_removals(std::nullopt, 10);
  REQUIRE(removals->size() == 1);
  CHECK(removals->front().object.fileid == gone);
  CHECK(names->stale_objects(1, {}, 10)->empty());
  CHECK(names->stale_objects(2, {}, 10)->empty());
  check_clean();
}

TEST_CASE_METHOD(PrepareTest, "a move of one of three copies leaves nothing to be removed") {
  const FileId f = file(kRootFileId, "f");
  REQUIRE(names->ensure_layout(f, [](const InodeAttributes&) -> Result<layout::LayoutMap> {
    layout::LayoutMap map;
    map.stripe_unit = 64 * 1024;
    for (const std::uint32_t id : {1, 2, 3}) map.copies.push_back({.ds_ids = {id}});
    map.duplication = layout::Duplication::kServerSync;
    return map;
  }));
  leave_out(f, 3);
  REQUIRE(names->begin_move(f, 3, 4));
  REQUIRE(prepare());
  CHECK_FALSE(names->move_of(f)->has_value());
  CHECK(where(f) == std::pair(Ids{1, 2, 4}, Ids{1, 2, 4}));
  CHECK(names->stale_objects(4, {}, 10)->size() == 1);
  check_clean();
}

TEST_CASE_METHOD(PrepareTest, "whatever state a data server's store is in is accepted, once") {
  ServerRecord record{.id = 1, .name = "a"};
  record.history = StoreHistory{.accepted = {5, 6}, .before = {}};
  record.review = Review::kAdmitted;
  record.reviewed = {7, 8};
  REQUIRE(store.run([&](Transaction& transaction) -> Result<> {
    transaction.put(cluster_keys::server(1), encode(record));
    transaction.put(cluster_keys::next_server(), encode_u32(2));
    transaction.put(cluster_keys::device_salt(), encode_u32(4));
    return {};
  }));
  REQUIRE(prepare());
  const auto now = decode_server(**store.latest().peek(cluster_keys::server(1)));
  CHECK_FALSE(now->history);
  CHECK(now->review == Review::kNone);
  CHECK(decode_u32(**store.latest().peek(cluster_keys::device_salt())) == 99U);
  const std::uint32_t next = *decode_u32(**store.latest().peek(cluster_keys::next_server()));
  CHECK(next >= 1002U);
  CHECK(next % 1000 == 2);
  CHECK(names->restore()->first_lost == 2);
}

TEST_CASE_METHOD(PrepareTest, "what is found of a file is kept, and goes with it") {
  const FileId f = file(kRootFileId, "f");
  const FileId g = file(kRootFileId, "g");
  const FileId h = file(dir(kRootFileId, "d"), "h");
  for (const FileId one : {f, g, h}) layout_of(one);
  REQUIRE(prepare());
  REQUIRE(names->judge_restored(f, std::nullopt));
  const RestoredRecord damaged{RestoredRecord::State::kDamaged, 2, 1};
  REQUIRE(names->judge_restored(h, damaged));
  open();
  CHECK_FALSE(names->restored_file(f)->has_value());
  CHECK((*names->restored_file(h)) == damaged);
  CHECK(names->restored_files(0, 10)->size() == 2);
  CHECK(names->restored_files(g, 10)->size() == 1);
  CHECK(names->names_of({f, h}) == std::map<FileId, std::string>{{f, "/f"}, {h, "/d/h"}});
  REQUIRE(names->remove(kSuperuser, kRootFileId, "g"));
  CHECK(names->restored_files(0, 10)->size() == 1);
  CHECK(names->judge_restored(g, damaged).error() == Errc::kStale);
  check_clean();
}

namespace {

struct ServersTest : PrepareTest {
  ServersTest() { cluster = names->superblock().cluster_uuid; }
  void open_registry() {
    registry.reset();
    RegistryOptions options;
    options.cluster = cluster;
    options.now = [] { return system_clock().now(); };
    if (names->restore()) options.first_lost = names->restore()->first_lost;
    if (names->restore()) options.first_fresh = names->restore()->first_fresh;
    auto opened = Registry::open(store, options);
    REQUIRE(opened);
    registry = std::move(*opened);
  }
  void restore(std::uint32_t stamp) {
    registry.reset();
    REQUIRE(prepare(stamp));
    open_registry();
  }
  void remove(std::uint32_t ds_id) {
    REQUIRE(registry->set_duty(ds_id, Duty::kRemoving));
    REQUIRE(registry->remove_server(ds_id));
  }
  // Of a data server that has this id; 0: a new one.
  Result<std::uint32_t> come(std::uint8_t number, std::uint32_t ds_id) {
    control::Register request;
    request.store.fill(std::byte{number});
    request.ds_id = ds_id;
    request.boot = 3;
    request.addresses = {layout::make_address("127.0.0.1", 3000 + number).value()};
    if (ds_id != 0) request.cluster = cluster;
    if (ds_id != 0) request.state = {4, 3};
    auto registered = registry->register_server(request.addresses.front(), request);
    if (!registered) return pass(registered);
    return registered->ds_id;
  }
  control::Uuid cluster{};
  std::unique_ptr<Registry> registry;
};

}  // namespace

TEST_CASE_METHOD(ServersTest, "a data server that joined after the backup keeps its number") {
  open_registry();
  CHECK(come(9, 0) == 1U);
  CHECK(come(1, 17).error() == Errc::kInvalid);  // nothing was restored
  restore(1'000'000);
  CHECK(come(1, 17) == 17U);
  CHECK(come(2, 17).error() == Errc::kInvalid);
  CHECK(come(2, 1).error() == Errc::kInvalid);
  CHECK(come(2, layout::kMaxPartnerId + 1).error() == Errc::kInvalid);
  CHECK(come(2, 0).value() > 1000);
}

TEST_CASE_METHOD(ServersTest, "a backup is brought back twice, and no data server is refused") {
  open_registry();
  CHECK(come(9, 0) == 1U);
  MemoryKv backup;
  copy(store, backup);
  restore(1'000'000);
  const std::uint32_t between = come(1, 0).value();
  registry.reset();
  names.reset();
  bring_back(backup, store);
  restore(1'000'060);
  CHECK(come(2, 0).value() != between);
  CHECK(come(1, between) == between);
}

TEST_CASE_METHOD(ServersTest, "a data server that comes after the second restore only is known") {
  open_registry();
  CHECK(come(9, 0) == 1U);
  restore(1'000'000);
  CHECK(come(1, 0).value() > 1000);
  restore(2'000'000);
  CHECK(names->restore()->first_lost == 2);
  CHECK(come(2, 2) == 2U);
}

TEST_CASE_METHOD(ServersTest, "a data server that was removed after a restore stays so") {
  open_registry();
  CHECK(come(9, 0) == 1U);
  restore(1'000'000);
  CHECK(come(1, 17) == 17U);
  const std::uint32_t fresh = come(2, 0).value();
  remove(17);
  remove(fresh);
  CHECK(come(1, 17).error() == Errc::kInvalid);
  open_registry();
  CHECK(come(1, 17).error() == Errc::kInvalid);
  const std::string key = cluster_keys::removed_server(17);
  CHECK(check_record(key, **store.latest().peek(key)));
  CHECK_FALSE(check_record(key, encode_u32(18)));
  restore(2'000'000);
  CHECK(come(1, 17).error() == Errc::kInvalid);
  CHECK(come(2, fresh).error() == Errc::kInvalid);
}

TEST_CASE_METHOD(ServersTest, "a number that somebody came with is not given out") {
  open_registry();
  CHECK(come(9, 0) == 1U);
  restore(1'000'000);
  const std::uint32_t next = *decode_u32(**store.latest().peek(cluster_keys::next_server()));
  CHECK(come(1, next) == next);
  CHECK(come(2, next + 1) == next + 1);
  remove(next + 1);
  CHECK(come(3, 0) == next + 2);
}

TEST_CASE_METHOD(PrepareTest, "a restore makes no files") {
  const FileId f = file(kRootFileId, "f");
  layout_of(f);
  const auto before = names->counts()->next_fileid;
  CHECK(before > 0);
  REQUIRE(prepare());
  CHECK(names->counts()->next_fileid == before);
  REQUIRE(prepare(2'000'000));
  CHECK(names->counts()->next_fileid == before);
  file(kRootFileId, "g");
  CHECK(names->counts()->next_fileid > before);
  CHECK(names->counts()->next_fileid < before + (1 << 20));
}
