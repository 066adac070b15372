// Removing names, files that are held, and the queue of objects to remove.
#include <array>

#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

TEST_CASE_METHOD(NamespaceTest, "the last name takes the file, and not before") {
  const FileId f = file(kRootFileId, "f");
  REQUIRE(names->link(kSuperuser, f, kRootFileId, "g"));
  now_ns = 9'000;
  auto removed = names->remove(kSuperuser, kRootFileId, "f");
  REQUIRE(removed);
  CHECK(removed->attributes.nlink == 1);
  CHECK(removed->attributes.ctime_ns == 9'000);
  CHECK(removed->parent.after.mtime_ns == 9'000);
  CHECK(attributes(f).nlink == 1);
  REQUIRE(names->remove(kSuperuser, kRootFileId, "g"));
  CHECK(names->getattr(f).error() == Errc::kStale);
  CHECK(names->remove(kSuperuser, kRootFileId, "g").error() == Errc::kNotFound);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "directories go only when empty") {
  const FileId d = dir(kRootFileId, "d");
  file(d, "f");
  CHECK(names->remove(kSuperuser, kRootFileId, "d").error() == Errc::kNotEmpty);
  CHECK(names->remove(kSuperuser, kRootFileId, "d", RemoveWhat::kFile).error() ==
        Errc::kIsDirectory);
  CHECK(names->remove(kSuperuser, d, "f", RemoveWhat::kDirectory).error() == Errc::kNotDirectory);
  REQUIRE(names->remove(kSuperuser, d, "f", RemoveWhat::kFile));
  REQUIRE(names->remove(kSuperuser, kRootFileId, "d", RemoveWhat::kDirectory));
  CHECK(attributes(kRootFileId).nlink == 2);
  CHECK(names->getattr(d).error() == Errc::kStale);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "a held file outlives its last name") {
  const FileId f = file(kRootFileId, "f");
  REQUIRE(names->hold(f));
  REQUIRE(names->hold(f));
  auto removed = names->remove(kSuperuser, kRootFileId, "f");
  REQUIRE(removed);
  CHECK(removed->orphaned);
  CHECK(attributes(f).nlink == 0);
  CHECK(names->link(kSuperuser, f, kRootFileId, "back").error() == Errc::kStale);
  CHECK(names->setattr(kSuperuser, f, {.mode = 0600}));
  check_clean();
  REQUIRE(names->release(f));
  CHECK(names->getattr(f));
  REQUIRE(names->release(f));
  CHECK(names->getattr(f).error() == Errc::kStale);
  CHECK(names->release(f));
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "what a caller believes of a name decides nothing") {
  const FileId d = dir(kRootFileId, "d");
  const FileId f = file(kRootFileId, "f");
  const FileId g = file(kRootFileId, "g");
  REQUIRE(names->hold(g));
  CHECK(names->remove(kSuperuser, kRootFileId, "x", RemoveWhat::kAny, f).error() ==
        Errc::kNotFound);
  CHECK(names->remove(kSuperuser, kRootFileId, "d", RemoveWhat::kFile, f).error() ==
        Errc::kIsDirectory);
  const auto removed = names->remove(kSuperuser, kRootFileId, "g", RemoveWhat::kAny, f);
  REQUIRE(removed);
  CHECK(removed->attributes.id == g);
  CHECK(removed->orphaned);
  REQUIRE(names->release(g));
  REQUIRE(names->remove(kSuperuser, kRootFileId, "d", RemoveWhat::kAny, d));
  REQUIRE(names->remove(kSuperuser, kRootFileId, "f", RemoveWhat::kAny, 999));
  CHECK(names->getattr(f).error() == Errc::kStale);
  CHECK(attributes(kRootFileId).size == 0);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "what was open at a crash is reclaimed unless held again") {
  const FileId f = file(kRootFileId, "f");
  const FileId g = file(kRootFileId, "g");
  layout_of(f);
  REQUIRE(names->hold(f));
  REQUIRE(names->hold(g));
  REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
  REQUIRE(names->remove(kSuperuser, kRootFileId, "g"));
  names.reset();
  store.lose_power();
  open();
  check_clean();
  REQUIRE(names->hold(g));
  CHECK(*names->reclaim_orphans() == 1);
  CHECK(names->getattr(f).error() == Errc::kStale);
  CHECK(names->pending_removals({}, 10)->size() == 1);
  REQUIRE(names->getattr(g));
  REQUIRE(names->release(g));
  CHECK(*names->reclaim_orphans() == 0);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "objects are queued with the unlink and gone when acknowledged") {
  const FileId f = file(kRootFileId, "f");
  const FileId bare = file(kRootFileId, "bare");
  const auto map = layout_of(f, {3, 1, 2});
  const auto object = names->object_of(f, map);
  CHECK(object == layout::ObjectId{f, 1, 7});
  CHECK(*names->objects_of(2, {}, 10) == std::vector{object});
  REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
  REQUIRE(names->remove(kSuperuser, kRootFileId, "bare"));
  CHECK(names->getattr(bare).error() == Errc::kStale);
  auto pending = names->pending_removals({}, 10);
  REQUIRE(pending);
  REQUIRE(pending->size() == 1);
  CHECK((*pending)[0].object == object);
  CHECK((*pending)[0].ds_ids == std::vector<std::uint32_t>{1, 2, 3});
  CHECK(names->pending_removals(object, 10)->empty());
  check_clean();

  const std::uint32_t first[] = {2};
  REQUIRE(names->finish_removals({&object, 1}, first));
  CHECK(names->objects_of(2, {}, 10)->empty());
  CHECK(names->objects_of(1, {}, 10)->size() == 1);
  CHECK(names->pending_removals({}, 10)->front().ds_ids == std::vector<std::uint32_t>{1, 3});
  check_clean();
  const std::uint32_t rest[] = {1, 2, 3, 99};
  REQUIRE(names->finish_removals({&object, 1}, rest));
  REQUIRE(names->finish_removals({&object, 1}, rest));
  CHECK(names->pending_removals({}, 10)->empty());
  CHECK(names->objects_of(1, {}, 10)->empty());
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "objects of many removed files are done with in few commits") {
  constexpr std::uint64_t kMany = 1000;
  for (std::uint64_t i = 0; i < kMany; ++i) {
    const std::string name = "f" + std::to_string(i);
    layout_of(file(kRootFileId, name));
    REQUIRE(names->remove(kSuperuser, kRootFileId, name));
  }
  const auto removals = names->pending_removals({}, kMany);
  REQUIRE(removals);
  REQUIRE(removals->size() == kMany);
  REQUIRE(removals->front().ds_ids.size() > 1);
  const auto before = store.commits();
  const auto syncs = store.syncs();
  REQUIRE(names->finish_removals(*removals));
  CHECK(store.commits() - before <= 32);  // 32 in each, whatever many data servers
  CHECK(store.syncs() == syncs);
  CHECK(names->pending_removals({}, 10)->empty());
  CHECK(names->objects_of(1, {}, 10)->empty());
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "a file goes with all that hung on it") {
  const FileId f = file(kRootFileId, "f");
  layout_of(f);
  REQUIRE(names->set_xattr(f, "user.a", "1", Namespace::XattrHow::kEither));
  REQUIRE(names->setattr(kSuperuser, f, {.size = 100}));
  REQUIRE(names->setattr(kSuperuser, f, {.size = 10}));
  REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
  CHECK(names->pending_truncates(10)->empty());
  check_clean();
  const std::uint32_t all[] = {1, 2, 3};
  REQUIRE(names->finish_removals(std::array{layout::ObjectId{f, 1, 7}}, all));
  // The root, the counter, the superblock: as new.
  CHECK(store.size() == 3);
}

TEST_CASE_METHOD(NamespaceTest, "a held file whose release failed is removed later") {
  const FileId f = file(kRootFileId, "f");
  const FileId g = file(kRootFileId, "g");
  for (const char* const name : {"f", "g"}) {
    const FileId id = name[0] == 'f' ? f : g;
    REQUIRE(names->hold(id));
    REQUIRE(names->remove(kSuperuser, kRootFileId, name));
    store.fail_commits(Errc::kNoSpace, 0, 1);
    CHECK(names->release(id).error() == Errc::kNoSpace);
    CHECK(names->getattr(id));
  }
  SECTION("all of them") {
    CHECK(*names->reclaim_orphans() == 2);
    check_clean();
  }
  SECTION("one is damaged") {
    REQUIRE(store.run([&](Transaction& transaction) -> Result<> {
      transaction.erase(keys::inode(f));
      return {};
    }));
    CHECK(names->reclaim_orphans().error() == Errc::kStale);
    CHECK(names->getattr(g).error() == Errc::kStale);
  }
}

TEST_CASE_METHOD(NamespaceTest, "a remove that cannot be committed changed nothing") {
  const FileId f = file(kRootFileId, "f");
  store.fail_commits(Errc::kNoSpace, 0, 1);
  CHECK(names->remove(kSuperuser, kRootFileId, "f").error() == Errc::kNoSpace);
  CHECK(names->lookup(kRootFileId, "f")->id == f);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "who wrote a file in an earlier run is refused before it goes") {
  const FileId now = file(kRootFileId, "now");
  const FileId before = file(kRootFileId, "before");
  REQUIRE(names->begin_writing(before, striped({1, 2})));
  names.reset();
  open();
  REQUIRE(names->begin_writing(now, striped({1, 2})));
  const auto map = names->layout(before);
  REQUIRE(map);
  REQUIRE(names->remove(kSuperuser, kRootFileId, "now"));
  REQUIRE(names->remove(kSuperuser, kRootFileId, "before"));
  const auto pending = names->pending_removals({}, 10);
  REQUIRE(pending);
  REQUIRE(pending->size() == 2);
  for (const PendingRemoval& removal : *pending) {
    const bool earlier = removal.object.fileid == before;
    CHECK(removal.least_epoch == (earlier ? (*map)->object_epoch + 1 : 0));
  }
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "whoever removes objects is told which are to be") {
  std::vector<layout::ObjectId> told;
  names->watch_removals([&](std::span<const layout::ObjectId> objects) {
    told.insert(told.end(), objects.begin(), objects.end());
  });
  const FileId first = file(kRootFileId, "first");
  const FileId second = file(kRootFileId, "second");
  layout_of(first, {1}, {3});
  layout_of(second, {1}, {3});
  REQUIRE(names->remove(kSuperuser, kRootFileId, "first"));
  REQUIRE(names->remove(kSuperuser, kRootFileId, "second"));
  REQUIRE(told.size() == 2);
  CHECK(told[0].fileid == first);
  const auto pending = names->pending_removals(std::span(told).last(1));
  REQUIRE(pending);
  REQUIRE(pending->size() == 1);
  CHECK(pending->front().object.fileid == second);
  CHECK(pending->front().ds_ids == std::vector<std::uint32_t>{1, 3});
  REQUIRE(names->finish_removals(*pending));
  CHECK(names->pending_removals(told)->size() == 1);
}

// A leader brings its writes to a copy that is left out, too, and nobody waits for those.
TEST_CASE_METHOD(NamespaceTest, "what was sent to a copy that is not current does not come late") {
  const auto epoch_of_removal = [this](std::string_view name) {
    REQUIRE(names->remove(kSuperuser, kRootFileId, name));
    auto pending = names->pending_removals({}, 10);
    REQUIRE(pending);
    REQUIRE(pending->size() == 1);
    REQUIRE(names->finish_removals({&pending->front().object, 1}, pending->front().ds_ids));
    return pending->front().least_epoch;
  };
  const auto missed = [](FileId id) {
    return StaleObject{.id = id, .copy = 1, .ds_id = 3, .dirty = {{0, 1}}};
  };
  const FileId equal = file(kRootFileId, "equal");
  layout_of(equal, {1}, {3});
  CHECK(epoch_of_removal("equal") == 0);

  const FileId stale = file(kRootFileId, "stale");
  layout_of(stale, {1}, {3});
  const auto marked = names->mark_stale(missed(stale));
  REQUIRE(marked);
  CHECK(epoch_of_removal("stale") == marked->object_epoch + 1);

  const FileId filled = file(kRootFileId, "filled");
  layout_of(filled, {1}, {3});
  REQUIRE(names->mark_stale(missed(filled)));
  const auto begun = names->begin_resync(missed(filled));
  REQUIRE(begun);
  CHECK(epoch_of_removal("filled") == (*begun)->map.object_epoch + 1);

  const FileId mended = file(kRootFileId, "mended");
  layout_of(mended, {1}, {3});
  REQUIRE(names->mark_stale(missed(mended)));
  REQUIRE(names->clear_stale((*names->begin_resync(missed(mended)))->object));
  CHECK(epoch_of_removal("mended") == 0);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "what a data server has and no file needs is a stray") {
  const FileId f = file(kRootFileId, "f");
  const auto object = names->object_of(f, layout_of(f, {1, 2}));
  const FileId gone = file(kRootFileId, "gone");
  const auto removed = names->object_of(gone, layout_of(gone, {1, 2}));
  REQUIRE(names->remove(kSuperuser, kRootFileId, "gone"));
  const std::vector<layout::ObjectId> both{object, removed};
  // One that waits for its removal is none.
  CHECK(names->without_entry(1, both)->empty());
  const std::uint32_t servers[] = {1, 2};
  REQUIRE(names->finish_removals({&removed, 1}, servers));
  CHECK(*names->without_entry(1, both) == std::vector{removed});
  CHECK(*names->without_entry(3, both) == both);

  CHECK_FALSE(*names->queue_stray(1, object));
  CHECK(names->pending_removals({}, 10)->empty());
  CHECK(names->queue_stray(1, removed).error() == Errc::kInvalid);  // it is 1970
  CHECK(names->pending_removals({}, 10)->empty());
  now_ns = std::int64_t{1'767'225'600 + 3'000'000} * 1'000'000'000;
  CHECK(*names->queue_stray(1, removed));
  CHECK_FALSE(*names->queue_stray(1, removed));
  // The file lives, and may come to this data server: what it has now must not be refused there.
  CHECK(*names->queue_stray(3, object));
  const auto pending = names->pending_removals({}, 10);
  REQUIRE(pending);
  REQUIRE(pending->size() == 2);
  CHECK((*pending)[0].object == object);
  CHECK((*pending)[0].ds_ids == std::vector<std::uint32_t>{3});
  CHECK((*pending)[0].least_epoch == (*names->layout(f))->object_epoch);
  CHECK((*pending)[1].object == removed);
  CHECK((*pending)[1].least_epoch == 3'000'000);
  check_clean();
  // Until it is gone there, the file does not move there.
  CHECK(names->begin_move(f, 1, 3).error() == Errc::kBusy);
  const std::uint32_t third[] = {3};
  REQUIRE(names->finish_removals({&object, 1}, third));
  CHECK(names->begin_move(f, 1, 3));
}

TEST_CASE_METHOD(NamespaceTest, "objects of files that were never made here are not for removal") {
  file(kRootFileId, "f");
  for (const layout::ObjectId& object :
       {layout::ObjectId{UINT64_MAX, 1, 7}, layout::ObjectId{std::uint64_t{1} << 40, 1, 7},
        layout::ObjectId{kRootFileId, 1, 7}, layout::ObjectId{kRootFileId + 1, 1, 8}}) {
    CHECK(*names->without_entry(1, {&object, 1}) == std::vector{object});
    CHECK_FALSE(*names->was_made(object));
    CHECK(names->queue_stray(1, object).error() == Errc::kInvalid);
  }
  CHECK(names->pending_removals({}, 10)->empty());
}
