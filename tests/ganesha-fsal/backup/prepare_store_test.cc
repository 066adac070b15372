// A store that came back from a backup: nothing that was given out since is given out again.
#include "ganesha-fsal/backup/prepare_store.h"

#include "ganesha-fsal/cluster/records.h"
#include "ganesha-fsal/cluster/registry.h"
#include "ganesha-fsal/meta/ops/tree.h"
#include "ganesha-fsal/meta/schema/records.h"
#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

constexpr std::int64_t kBeginning = 1'767'225'600;
constexpr std::int64_t kSecond = 1'000'000'000;

std::int64_t at(std::uint32_t stamp) { return (kBeginning + stamp) * kSecond; }

struct PrepareTest : NamespaceTest {
  Result<Prepared> prepare(std::uint32_t stamp = 1'000'000) {
    names.reset();
    auto prepared =
        prepare_restored(store, {.made_ns = at(10), .now_ns = at(stamp), .device_salt = 99});
    open();
    return prepared;
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
  CHECK(decode_u32(**store.latest().peek(cluster_keys::next_server())) == 1002U);
  CHECK(names->restore()->first_lost == 2);
  CHECK(names->restore()->first_fresh == 1002);
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

TEST_CASE_METHOD(PrepareTest, "a data server that joined after the backup keeps its number") {
  layout_of(file(kRootFileId, "f"));
  REQUIRE(prepare());
  RegistryOptions options;
  options.cluster = names->superblock().cluster_uuid;
  options.first_lost = names->restore()->first_lost;
  options.first_fresh = names->restore()->first_fresh;
  auto registry = Registry::open(store, options);
  REQUIRE(registry);
  const auto address = layout::make_address("127.0.0.1", 3001).value();
  control::Register request;
  request.store.fill(std::byte{1});
  request.cluster = options.cluster;
  request.ds_id = 17;
  request.boot = 3;
  request.addresses = {address};
  request.state = {4, 3};
  const auto registered = (*registry)->register_server(address, request);
  REQUIRE(registered);
  CHECK(registered->ds_id == 17);
  control::Register other = request;
  other.store.fill(std::byte{2});
  CHECK((*registry)->register_server(address, other).error() == Errc::kInvalid);
  other.ds_id = 1500;
  CHECK((*registry)->register_server(address, other).error() == Errc::kInvalid);
  other.ds_id = 0;
  other.cluster = {};
  other.state = {};
  const auto fresh = (*registry)->register_server(address, other);
  REQUIRE(fresh);
  CHECK(fresh->ds_id == options.first_fresh);
}
