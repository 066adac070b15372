// Removing names, files that are held, and the queue of objects to remove.
#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

TEST_CASE_METHOD(NamespaceTest, "the last name takes the file, and not before") {
  const FileId f = file(kRootFileId, "f");
  REQUIRE(names->link(f, kRootFileId, "g"));
  now_ns = 9'000;
  auto removed = names->remove(kRootFileId, "f");
  REQUIRE(removed);
  CHECK(removed->attributes.nlink == 1);
  CHECK(removed->attributes.ctime_ns == 9'000);
  CHECK(removed->parent.after.mtime_ns == 9'000);
  CHECK(attributes(f).nlink == 1);
  REQUIRE(names->remove(kRootFileId, "g"));
  CHECK(names->getattr(f).error() == Errc::kStale);
  CHECK(names->remove(kRootFileId, "g").error() == Errc::kNotFound);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "directories go only when empty") {
  const FileId d = dir(kRootFileId, "d");
  file(d, "f");
  CHECK(names->remove(kRootFileId, "d").error() == Errc::kNotEmpty);
  CHECK(names->remove(kRootFileId, "d", RemoveWhat::kFile).error() == Errc::kIsDirectory);
  CHECK(names->remove(d, "f", RemoveWhat::kDirectory).error() == Errc::kNotDirectory);
  REQUIRE(names->remove(d, "f", RemoveWhat::kFile));
  REQUIRE(names->remove(kRootFileId, "d", RemoveWhat::kDirectory));
  CHECK(attributes(kRootFileId).nlink == 2);
  CHECK(names->getattr(d).error() == Errc::kStale);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "a held file outlives its last name") {
  const FileId f = file(kRootFileId, "f");
  REQUIRE(names->hold(f));
  REQUIRE(names->hold(f));
  auto removed = names->remove(kRootFileId, "f");
  REQUIRE(removed);
  CHECK(removed->orphaned);
  CHECK(attributes(f).nlink == 0);
  CHECK(names->link(f, kRootFileId, "back").error() == Errc::kStale);
  CHECK(names->setattr(f, {.mode = 0600}));
  check_clean();
  REQUIRE(names->release(f));
  CHECK(names->getattr(f));
  REQUIRE(names->release(f));
  CHECK(names->getattr(f).error() == Errc::kStale);
  CHECK(names->release(f));
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "what was open at a crash is reclaimed unless held again") {
  const FileId f = file(kRootFileId, "f");
  const FileId g = file(kRootFileId, "g");
  layout_of(f);
  REQUIRE(names->hold(f));
  REQUIRE(names->hold(g));
  REQUIRE(names->remove(kRootFileId, "f"));
  REQUIRE(names->remove(kRootFileId, "g"));
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
  REQUIRE(names->remove(kRootFileId, "f"));
  REQUIRE(names->remove(kRootFileId, "bare"));
  CHECK(names->getattr(bare).error() == Errc::kStale);
  auto pending = names->pending_removals({}, 10);
  REQUIRE(pending);
  REQUIRE(pending->size() == 1);
  CHECK((*pending)[0].object == object);
  CHECK((*pending)[0].ds_ids == std::vector<std::uint32_t>{1, 2, 3});
  CHECK(names->pending_removals(object, 10)->empty());
  check_clean();

  const std::uint32_t first[] = {2};
  REQUIRE(names->finish_removal(object, first));
  CHECK(names->objects_of(2, {}, 10)->empty());
  CHECK(names->objects_of(1, {}, 10)->size() == 1);
  CHECK(names->pending_removals({}, 10)->front().ds_ids == std::vector<std::uint32_t>{1, 3});
  check_clean();
  const std::uint32_t rest[] = {1, 2, 3, 99};
  REQUIRE(names->finish_removal(object, rest));
  REQUIRE(names->finish_removal(object, rest));
  CHECK(names->pending_removals({}, 10)->empty());
  CHECK(names->objects_of(1, {}, 10)->empty());
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "a file goes with all that hung on it") {
  const FileId f = file(kRootFileId, "f");
  layout_of(f);
  REQUIRE(names->set_xattr(f, "user.a", "1", Namespace::XattrHow::kEither));
  REQUIRE(names->setattr(f, {.size = 100}));
  REQUIRE(names->setattr(f, {.size = 10}));
  REQUIRE(names->remove(kRootFileId, "f"));
  CHECK(names->pending_truncates(10)->empty());
  check_clean();
  const std::uint32_t all[] = {1, 2, 3};
  REQUIRE(names->finish_removal({f, 1, 7}, all));
  // The root, the counter, the superblock: as new.
  CHECK(store.size() == 3);
}

TEST_CASE_METHOD(NamespaceTest, "a remove that cannot be committed changed nothing") {
  const FileId f = file(kRootFileId, "f");
  store.fail_commits(Errc::kNoSpace, 0, 1);
  CHECK(names->remove(kRootFileId, "f").error() == Errc::kNoSpace);
  CHECK(names->lookup(kRootFileId, "f")->id == f);
  check_clean();
}
