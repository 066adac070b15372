// RENAME, case by case.
#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

TEST_CASE_METHOD(NamespaceTest, "a file moves within a directory") {
  const FileId f = file(kRootFileId, "a");
  now_ns = 9'000;
  auto renamed = names->rename(kSuperuser, kRootFileId, "a", kRootFileId, "b");
  REQUIRE(renamed);
  CHECK(renamed->moved.id == f);
  CHECK(renamed->moved.ctime_ns == 9'000);
  CHECK(renamed->moved.mtime_ns == 1'000);
  CHECK(renamed->from.after == renamed->to.after);
  CHECK(renamed->from.after.change > renamed->from.before.change);
  CHECK(names->lookup(kRootFileId, "a").error() == Errc::kNotFound);
  CHECK(names->lookup(kRootFileId, "b")->id == f);
  CHECK(attributes(kRootFileId).size == 1);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "a file replaces a file") {
  const FileId d = dir(kRootFileId, "d");
  const FileId f = file(kRootFileId, "a");
  const FileId g = file(d, "b");
  layout_of(g);
  auto renamed = names->rename(kSuperuser, kRootFileId, "a", d, "b");
  REQUIRE(renamed);
  REQUIRE(renamed->replaced);
  CHECK(renamed->replaced->id == g);
  CHECK_FALSE(renamed->replaced_orphaned);
  CHECK(names->getattr(g).error() == Errc::kStale);
  CHECK(names->lookup(d, "b")->id == f);
  CHECK(names->pending_removals({}, 10)->size() == 1);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "a replaced file that is held becomes an orphan") {
  file(kRootFileId, "a");
  const FileId g = file(kRootFileId, "b");
  REQUIRE(names->hold(g));
  auto renamed = names->rename(kSuperuser, kRootFileId, "a", kRootFileId, "b");
  REQUIRE(renamed);
  CHECK(renamed->replaced_orphaned);
  CHECK(attributes(g).nlink == 0);
  check_clean();
  REQUIRE(names->release(g));
  CHECK(names->getattr(g).error() == Errc::kStale);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "two names of one file: nothing happens") {
  const FileId f = file(kRootFileId, "a");
  REQUIRE(names->link(kSuperuser, f, kRootFileId, "b"));
  const auto before = attributes(f);
  REQUIRE(names->rename(kSuperuser, kRootFileId, "a", kRootFileId, "b"));
  REQUIRE(names->rename(kSuperuser, kRootFileId, "a", kRootFileId, "a"));
  CHECK(attributes(f) == before);
  CHECK(names->lookup(kRootFileId, "a"));
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "a directory moves with what is below it") {
  const FileId a = dir(kRootFileId, "a");
  const FileId b = dir(kRootFileId, "b");
  const FileId sub = dir(a, "sub");
  const FileId f = file(sub, "f");
  REQUIRE(names->rename(kSuperuser, a, "sub", b, "moved"));
  CHECK(attributes(a).nlink == 2);
  CHECK(attributes(b).nlink == 3);
  CHECK(names->lookup(sub, "..")->id == b);
  CHECK(*names->may_be_below(sub, b));
  CHECK_FALSE(*names->may_be_below(sub, a));
  CHECK(*names->may_be_below(b, b));
  CHECK_FALSE(*names->may_be_below(kRootFileId, b));
  CHECK(*names->may_be_below(f, a));  // nobody knows where a file is
  CHECK(names->may_be_below(12'345, a).error() == Errc::kStale);
  CHECK(names->lookup(sub, "f")->id == f);
  CHECK(*names->path_of(sub) == "/b/moved");
  REQUIRE(names->rename(kSuperuser, kRootFileId, "b", kRootFileId, "c"));
  CHECK(*names->path_of(sub) == "/c/moved");
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "a directory replaces an empty one, over and within directories") {
  const FileId a = dir(kRootFileId, "a");
  const FileId b = dir(kRootFileId, "b");
  const FileId inner = dir(b, "inner");
  file(inner, "f");
  CHECK(names->rename(kSuperuser, kRootFileId, "a", b, "inner").error() == Errc::kNotEmpty);
  REQUIRE(names->remove(kSuperuser, inner, "f"));
  REQUIRE(names->rename(kSuperuser, kRootFileId, "a", b, "inner"));
  CHECK(names->getattr(inner).error() == Errc::kStale);
  CHECK(names->lookup(b, "inner")->id == a);
  CHECK(attributes(kRootFileId).nlink == 3);
  CHECK(attributes(b).nlink == 3);
  dir(b, "other");
  REQUIRE(names->rename(kSuperuser, b, "other", b, "inner"));
  CHECK(attributes(b).nlink == 3);
  CHECK(names->getattr(a).error() == Errc::kStale);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "files and directories do not replace each other") {
  dir(kRootFileId, "d");
  file(kRootFileId, "f");
  CHECK(names->rename(kSuperuser, kRootFileId, "f", kRootFileId, "d").error() ==
        Errc::kIsDirectory);
  CHECK(names->rename(kSuperuser, kRootFileId, "d", kRootFileId, "f").error() ==
        Errc::kNotDirectory);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "no directory gets into or below itself") {
  const FileId a = dir(kRootFileId, "a");
  const FileId b = dir(a, "b");
  const FileId c = dir(b, "c");
  CHECK(names->rename(kSuperuser, kRootFileId, "a", a, "x").error() == Errc::kInvalid);
  CHECK(names->rename(kSuperuser, kRootFileId, "a", c, "x").error() == Errc::kInvalid);
  CHECK(names->rename(kSuperuser, kRootFileId, "a", b, "c").error() == Errc::kInvalid);
  CHECK(names->rename(kSuperuser, a, "b", c, "x").error() == Errc::kInvalid);
  // Over its own parent or grandparent: not empty.
  CHECK(names->rename(kSuperuser, b, "c", kRootFileId, "a").error() == Errc::kNotEmpty);
  CHECK(names->rename(kSuperuser, b, "c", a, "b").error() == Errc::kNotEmpty);
  REQUIRE(names->rename(kSuperuser, b, "c", kRootFileId, "c"));
  REQUIRE(names->rename(kSuperuser, kRootFileId, "a", c, "a"));
  CHECK(*names->path_of(b) == "/c/a/b");
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "renaming what is not there") {
  const FileId f = file(kRootFileId, "f");
  CHECK(names->rename(kSuperuser, kRootFileId, "x", kRootFileId, "y").error() == Errc::kNotFound);
  CHECK(names->rename(kSuperuser, f, "x", kRootFileId, "y").error() == Errc::kNotDirectory);
  CHECK(names->rename(kSuperuser, kRootFileId, "f", f, "y").error() == Errc::kNotDirectory);
  CHECK(names->rename(kSuperuser, kRootFileId, "f", 999, "y").error() == Errc::kStale);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "a rename that cannot be committed changed nothing") {
  const FileId d = dir(kRootFileId, "d");
  file(kRootFileId, "a");
  file(d, "b");
  store.fail_commits(Errc::kIo, 0, 1);
  CHECK(names->rename(kSuperuser, kRootFileId, "a", d, "b").error() == Errc::kIo);
  CHECK(names->lookup(kRootFileId, "a"));
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "what a caller believes of the old name decides nothing") {
  const FileId a = dir(kRootFileId, "a");
  const FileId b = dir(kRootFileId, "b");
  const FileId f = file(a, "f");
  const FileId g = file(a, "g");
  for (const FileId guess : {f, g, FileId{999}}) {
    const auto there = names->rename(kSuperuser, a, "f", b, "f", guess);
    REQUIRE(there);
    CHECK(there->moved.id == f);
    REQUIRE(names->rename(kSuperuser, b, "f", a, "f", guess));
    CHECK(names->rename(kSuperuser, a, "x", b, "y", guess).error() == Errc::kNotFound);
  }
  CHECK(names->lookup(a, "f")->id == f);
  // A name that is not free, of a file that is held.
  REQUIRE(names->hold(g));
  const auto over = names->rename(kSuperuser, a, "f", a, "g", f);
  REQUIRE(over);
  CHECK(over->replaced->id == g);
  CHECK(over->replaced_orphaned);
  REQUIRE(names->release(g));
  // A directory, to another one.
  REQUIRE(names->rename(kSuperuser, kRootFileId, "b", a, "b", b));
  CHECK(names->rename(kSuperuser, kRootFileId, "a", b, "a", a).error() == Errc::kInvalid);
  CHECK(*names->path_of(b) == "/a/b");
  check_clean();
}
