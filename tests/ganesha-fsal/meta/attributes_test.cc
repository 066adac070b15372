// setattr, truncates, growth, extended attributes.
#include "ganesha-fsal/meta/schema/time_ns.h"
#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;
using How = Namespace::XattrHow;

TEST_CASE_METHOD(NamespaceTest, "setattr sets what is given and the times that follow") {
  const FileId f = file(kRootFileId, "f");
  const auto before = attributes(f);
  now_ns = 9'000;
  auto changed = names->setattr(kSuperuser, f, {.mode = 0600, .atime_ns = 5});
  REQUIRE(changed);
  CHECK(changed->before == before);
  CHECK(changed->after.mode == 0600);
  CHECK(changed->after.uid == 10);
  CHECK(changed->after.atime_ns == 5);
  CHECK(changed->after.mtime_ns == 1'000);
  CHECK(changed->after.ctime_ns == 9'000);
  CHECK(changed->after.change > before.change);
  CHECK(attributes(f) == changed->after);
  auto times = names->setattr(kSuperuser, f, {.atime_ns = 1, .mtime_ns = 2, .atime_now = true});
  CHECK(times->after.atime_ns == 9'000);
  CHECK(times->after.mtime_ns == 2);
  CHECK(names->setattr(kSuperuser, f, {.mode = 010000}).error() == Errc::kInvalid);
  CHECK(names->setattr(kSuperuser, 999, {.mode = 0}).error() == Errc::kStale);
}

TEST_CASE_METHOD(NamespaceTest, "a new owner or group takes the set-id bits of files") {
  const FileId f = file(kRootFileId, "f");
  const FileId d = dir(kRootFileId, "d");
  REQUIRE(names->setattr(kSuperuser, f, {.mode = 06755}));
  REQUIRE(names->setattr(kSuperuser, d, {.mode = 02755}));
  CHECK(names->setattr(kSuperuser, f, {.uid = 11})->after.mode == 0755);
  CHECK(names->setattr(kSuperuser, f, {.mode = 06755, .gid = 12})->after.mode == 06755);
  CHECK(names->setattr(kSuperuser, d, {.gid = 12})->after.mode == 02755);
}

TEST_CASE_METHOD(NamespaceTest, "sizes are of regular files, and have a limit") {
  const FileId f = file(kRootFileId, "f");
  CHECK(names->setattr(kSuperuser, kRootFileId, {.size = 0}).error() == Errc::kIsDirectory);
  auto link = names->symlink(kSuperuser, kRootFileId, "s", "t", {});
  CHECK(names->setattr(kSuperuser, link->attributes.id, {.size = 0}).error() == Errc::kInvalid);
  CHECK(names->setattr(kSuperuser, f, {.size = kMaxFileSize + 1}).error() == Errc::kFileTooLarge);
  now_ns = 9'000;
  auto changed = names->setattr(kSuperuser, f, {.size = 100});
  CHECK(changed->after.size == 100);
  CHECK(changed->after.mtime_ns == 9'000);
  CHECK_FALSE(changed->truncate);  // no layout, no objects
}

TEST_CASE_METHOD(NamespaceTest, "a truncate of a file with objects is pending until finished") {
  const FileId f = file(kRootFileId, "f");
  const auto map = layout_of(f);
  REQUIRE(names->grow_size({.id = f, .end = 1000}));
  auto first = names->setattr(kSuperuser, f, {.size = 100});
  REQUIRE(first->truncate);
  CHECK(first->truncate->cut_at == 100);
  CHECK(first->truncate->layout == map);
  auto second = names->setattr(kSuperuser, f, {.size = 500});
  REQUIRE(second->truncate);
  CHECK(second->truncate->cut_at == 100);  // zeros from 100 on
  open();
  REQUIRE(names->pending_truncates(10)->size() == 1);
  REQUIRE(names->finish_truncate(*first->truncate));
  CHECK(names->pending_truncate(f)->has_value());  // the later one is not done
  REQUIRE(names->finish_truncate(*second->truncate));
  CHECK_FALSE(names->pending_truncate(f)->has_value());
  CHECK(attributes(f).size == 500);
  auto up = names->setattr(kSuperuser, f, {.size = 800});
  CHECK(up->truncate->cut_at == 500);  // whatever lies past the old end unreported
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "growth: sizes only grow, and every write is a change") {
  const FileId f = file(kRootFileId, "f");
  now_ns = 5'000;
  auto grown = names->grow_size({.id = f, .end = 100});
  REQUIRE(grown);
  CHECK(grown->size == 100);
  CHECK(grown->mtime_ns == 5'000);
  CHECK(grown->ctime_ns == 5'000);
  auto less = names->grow_size({.id = f, .end = 50, .mtime_ns = 10});
  CHECK(less->size == 100);
  CHECK(less->mtime_ns == 5'000);  // a client does not set it back
  CHECK(less->change == grown->change + 1);
  CHECK(names->grow_size({.id = f, .end = 0, .mtime_ns = 6'000})->mtime_ns == 6'000);
  CHECK(names->grow_size({.id = 999, .end = 1}).error() == Errc::kStale);
  CHECK(names->grow_size({.id = f, .end = UINT64_MAX}).error() == Errc::kFileTooLarge);
}

TEST_CASE_METHOD(NamespaceTest, "a write in place is a change though mtime is ahead of the clock") {
  const FileId f = file(kRootFileId, "f");
  now_ns = 5'000;
  REQUIRE(names->grow_size({.id = f, .end = 100}));
  SECTION("somebody set it") { REQUIRE(names->setattr(kSuperuser, f, {.mtime_ns = 900'000})); }
  SECTION("the clock stepped back") { now_ns = 2'000; }
  const auto before = attributes(f);
  now_ns += 10;
  const auto written = names->grow_size({.id = f, .end = 100});
  REQUIRE(written);
  CHECK(written->size == 100);
  CHECK(written->change == before.change + 1);
  CHECK(written->mtime_ns == now_ns);
  CHECK(written->ctime_ns == now_ns);
}

TEST_CASE_METHOD(NamespaceTest, "many growths at once, the gone left out") {
  std::vector<Growth> growths;
  for (int i = 0; i < 600; ++i) {
    growths.push_back({.id = file(kRootFileId, std::to_string(i)), .end = 10});
  }
  REQUIRE(names->remove(kSuperuser, kRootFileId, "300"));
  growths.push_back({.id = growths[0].id, .end = 20});
  growths.push_back({.id = kRootFileId, .end = 20});
  const auto before = store.commits();
  auto grown = names->grow(growths);
  REQUIRE(grown);
  CHECK(store.commits() - before == 19);  // 32 in each
  REQUIRE(grown->size() == 602);
  CHECK_FALSE((*grown)[300]);
  CHECK((*grown)[599]->size == 10);
  CHECK((*grown)[600]->size == 20);
  CHECK_FALSE((*grown)[601]);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "a write takes set-user-id") {
  const FileId f = file(kRootFileId, "f");
  REQUIRE(names->setattr(kSuperuser, f, {.mode = 06755}));
  CHECK(names->grow_size({.id = f, .end = 1})->mode == 0755);
  REQUIRE(names->setattr(kSuperuser, f, {.mode = 02644}));
  CHECK(names->grow_size({.id = f, .end = 2})->mode == 02644);  // a mark for locks, no right
}

TEST_CASE_METHOD(NamespaceTest, "extended attributes: set, listed, removed") {
  const FileId f = file(kRootFileId, "f");
  now_ns = 9'000;
  auto set = names->set_xattr(f, "b", "2", How::kEither);
  REQUIRE(set);
  CHECK(set->ctime_ns == 9'000);
  CHECK(set->mtime_ns == 1'000);
  REQUIRE(names->set_xattr(f, "a", std::string("\0x", 2), How::kCreate));
  CHECK(names->set_xattr(f, "a", "", How::kCreate).error() == Errc::kExists);
  CHECK(names->set_xattr(f, "c", "", How::kReplace).error() == Errc::kNotFound);
  REQUIRE(names->set_xattr(f, "b", "", How::kReplace));
  CHECK(*names->get_xattr(f, "a") == std::string("\0x", 2));
  CHECK(names->get_xattr(f, "b")->empty());
  CHECK(*names->list_xattrs(f, "", 10) == std::vector<std::string>{"a", "b"});
  CHECK(*names->list_xattrs(f, "a", 10) == std::vector<std::string>{"b"});
  CHECK(*names->list_xattrs(f, "", 1) == std::vector<std::string>{"a"});
  check_clean();
  REQUIRE(names->remove_xattr(f, "a"));
  CHECK(names->remove_xattr(f, "a").error() == Errc::kNotFound);
  CHECK(names->get_xattr(f, "a").error() == Errc::kNotFound);
  CHECK(names->get_xattr(999, "a").error() == Errc::kStale);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "extended attributes have limits") {
  const FileId f = file(kRootFileId, "f");
  CHECK(names->set_xattr(f, "a", std::string(kMaxXattrBytes + 1, 'x'), How::kEither).error() ==
        Errc::kTooLarge);
  CHECK(names->set_xattr(f, std::string(256, 'n'), "", How::kEither).error() == Errc::kNameTooLong);
  CHECK(names->set_xattr(f, "", "", How::kEither).error() == Errc::kInvalid);
  const std::string big(kMaxXattrBytes, 'x');
  for (int i = 0; i < 15; ++i) REQUIRE(names->set_xattr(f, std::to_string(i), big, How::kEither));
  CHECK(names->set_xattr(f, "x", big, How::kEither).error() == Errc::kNoSpace);
  CHECK(names->set_xattr(f, "0", big, How::kEither));
  check_clean();
}

TEST_CASE("times beyond what can be kept are the last, or the first, that can") {
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kFirst = std::numeric_limits<std::int64_t>::min();
  CHECK(time_ns(1, 5) == 1'000'000'005);
  CHECK(time_ns(-1, 5) == -999'999'995);
  CHECK(time_ns(9'223'372'035, 999'999'999) == 9'223'372'035'999'999'999);
  CHECK(time_ns(32'503'680'000, 0) == kLast);  // the year 3000
  CHECK(time_ns(kLast, 999'999'999) == kLast);
  CHECK(time_ns(-32'503'680'000, 0) == kFirst);
  CHECK(time_ns(kFirst, 0) == kFirst);
  CHECK(time_ns(1, 1'000'000'000) == 1'000'000'000);
  CHECK(time_ns(1, -1) == 1'000'000'000);
}
