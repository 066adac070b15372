// A namespace whose store has no room: nothing is added, and all that makes room goes on.
#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

constexpr const auto& kWho = kSuperuser;

}  // namespace

TEST_CASE("without room nothing is added, and nothing is written for it") {
  NamespaceTest test;
  const FileId file = test.file(kRootFileId, "file");
  test.store.set_full(true);
  const auto commits = test.store.commits();
  Namespace& names = *test.names;
  CHECK(names.create(kWho, kRootFileId, "a", {}).error() == Errc::kNoSpace);
  CHECK(names.mkdir(kWho, kRootFileId, "b", {}).error() == Errc::kNoSpace);
  CHECK(names.symlink(kWho, kRootFileId, "c", "to", {}).error() == Errc::kNoSpace);
  CHECK(names.mknod(kWho, kRootFileId, "d", FileType::kFifo, {}, {}).error() == Errc::kNoSpace);
  CHECK(names.link(kWho, file, kRootFileId, "e").error() == Errc::kNoSpace);
  CHECK(names.set_xattr(file, "user.a", "1", Namespace::XattrHow::kEither).error() ==
        Errc::kNoSpace);
  CHECK(names.ensure_layout(file, NamespaceTest::striped({1, 2})).error() == Errc::kNoSpace);
  CHECK(names.begin_writing(file, NamespaceTest::striped({1, 2})).error() == Errc::kNoSpace);
  CHECK(names.set_policy(kRootFileId, {.copies = 2}).error() == Errc::kNoSpace);
  CHECK(test.store.commits() == commits);
  CHECK(names.set_policy(kRootFileId, {}));

  test.store.set_full(false);
  CHECK(names.create(kWho, kRootFileId, "a", {}));
  test.check_clean();
}

TEST_CASE("without room what is there already is said first") {
  NamespaceTest test;
  const FileId file = test.file(kRootFileId, "file");
  test.store.set_full(true);
  Namespace& names = *test.names;
  CHECK(names.mkdir(kWho, kRootFileId, "file", {}).error() == Errc::kExists);
  CHECK(names.link(kWho, file, kRootFileId, "file").error() == Errc::kExists);
  const auto opened = names.create(kWho, kRootFileId, "file", {}, CreateHow::kUnchecked);
  REQUIRE(opened);
  CHECK(opened->existed);
}

TEST_CASE("without room files are removed, renamed, truncated, written and repaired") {
  NamespaceTest test;
  const FileId dir = test.dir(kRootFileId, "dir");
  const FileId file = test.file(dir, "file");
  test.file(dir, "other");
  test.layout_of(file, {1, 2}, {3, 4});
  Namespace& names = *test.names;
  REQUIRE(names.set_xattr(file, "user.a", "1", Namespace::XattrHow::kEither));
  test.store.set_full(true);
  CHECK(names.ensure_layout(file, NamespaceTest::no_layout));
  CHECK(names.begin_writing(file, NamespaceTest::no_layout));
  CHECK(names.grow_size({.id = file, .end = 1 << 20}));
  CHECK(names.mark_stale({.id = file, .copy = 1, .ds_id = 3, .dirty = {{0, 4096}}}));
  const StaleObject stale{.id = file, .copy = 1, .ds_id = 3};
  const auto begun = names.begin_resync(stale);
  REQUIRE(begun);
  REQUIRE(*begun);
  const auto cleared = names.clear_stale((*begun)->object);
  REQUIRE(cleared);
  CHECK(*cleared);
  CHECK(names.end_writing(std::span(&file, 1)));
  const auto cut = names.setattr(kWho, file, {.size = 0});
  REQUIRE(cut);
  REQUIRE(cut->truncate);
  CHECK(names.finish_truncate(*cut->truncate));
  CHECK(names.remove_xattr(file, "user.a"));
  CHECK(names.rename(kWho, dir, "file", kRootFileId, "moved"));
  CHECK(names.bump_client_epoch(1));
  CHECK(names.hold(file));
  CHECK(names.remove(kWho, kRootFileId, "moved"));
  CHECK(names.release(file));
  const auto removals = names.pending_removals({}, 10);
  REQUIRE(removals);
  REQUIRE(removals->size() == 1);
  CHECK(names.finish_removals(std::span(&removals->front().object, 1), removals->front().ds_ids));
  CHECK(names.remove(kWho, dir, "other"));
  CHECK(names.remove(kWho, kRootFileId, "dir"));
  test.check_clean();
}
