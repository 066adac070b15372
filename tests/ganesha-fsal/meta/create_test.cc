// Making names: create, mkdir, symlink, mknod, link; and reading them back.
#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

TEST_CASE_METHOD(NamespaceTest, "a new store has a root and nothing else") {
  const auto root = attributes(kRootFileId);
  CHECK(root.type == FileType::kDirectory);
  CHECK(root.nlink == 2);
  CHECK(root.size == 0);
  CHECK(names->superblock().boot_epoch == 1);
  CHECK(names->superblock().fsid == 7);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "a restart keeps the identity and counts the boot epoch") {
  const auto before = names->superblock();
  open();
  CHECK(names->superblock().cluster_uuid == before.cluster_uuid);
  CHECK(names->superblock().created_ns == before.created_ns);
  CHECK(names->superblock().boot_epoch == 2);
}

TEST_CASE_METHOD(NamespaceTest, "file numbers are not used again after a crash") {
  const FileId first = file(kRootFileId, "a");
  REQUIRE(names->remove(kSuperuser, kRootFileId, "a"));
  names.reset();
  store.lose_power();
  open();
  CHECK(file(kRootFileId, "a") > first);
}

TEST_CASE_METHOD(NamespaceTest, "a created file is found, with the attributes asked for") {
  now_ns = 5'000;
  auto made = names->create(kSuperuser, kRootFileId, "a", {.mode = 0640, .uid = 1, .gid = 2});
  REQUIRE(made);
  CHECK_FALSE(made->existed);
  const InodeAttributes& a = made->attributes;
  CHECK(a.type == FileType::kRegular);
  CHECK(a.mode == 0640);
  CHECK(a.uid == 1);
  CHECK(a.gid == 2);
  CHECK(a.nlink == 1);
  CHECK(a.mtime_ns == 5'000);
  CHECK(a.btime_ns == 5'000);
  CHECK(*names->lookup(kRootFileId, "a") == a);
  CHECK(made->parent.before.size == 0);
  CHECK(made->parent.after.size == 1);
  CHECK(made->parent.after.mtime_ns == 5'000);
  CHECK(made->parent.after.change > made->parent.before.change);
  CHECK(attributes(kRootFileId) == made->parent.after);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "a file is made with the size asked for") {
  const auto made =
      names->create(kSuperuser, kRootFileId, "a", {.mode = 0640, .size = kMaxFileSize});
  REQUIRE(made);
  CHECK(made->attributes.size == kMaxFileSize);
  const auto again =
      names->create(kSuperuser, kRootFileId, "a", {.mode = 0640, .size = 1}, CreateHow::kUnchecked);
  REQUIRE(again);
  CHECK(again->attributes.size == kMaxFileSize);
  const auto beyond =
      names->create(kSuperuser, kRootFileId, "b", {.mode = 0640, .size = kMaxFileSize + 1});
  REQUIRE_FALSE(beyond);
  CHECK(beyond.error().code == Errc::kFileTooLarge);
  CHECK(names->mkdir(kSuperuser, kRootFileId, "d", {.mode = 0750, .size = 5})->attributes.size ==
        0);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "bad names are refused everywhere") {
  const FileId a = file(kRootFileId, "a");
  const std::string_view with_nul("x\0y", 3);
  for (const std::string_view name : {std::string_view(""), std::string_view("."),
                                      std::string_view(".."), std::string_view("x/y"), with_nul}) {
    CHECK(names->create(kSuperuser, kRootFileId, name, {}).error() == Errc::kInvalid);
    CHECK(names->mkdir(kSuperuser, kRootFileId, name, {}).error() == Errc::kInvalid);
    CHECK(names->symlink(kSuperuser, kRootFileId, name, "t", {}).error() == Errc::kInvalid);
    CHECK(names->link(kSuperuser, a, kRootFileId, name).error() == Errc::kInvalid);
    CHECK(names->remove(kSuperuser, kRootFileId, name).error() == Errc::kInvalid);
    CHECK(names->rename(kSuperuser, kRootFileId, name, kRootFileId, "b").error() == Errc::kInvalid);
    CHECK(names->rename(kSuperuser, kRootFileId, "a", kRootFileId, name).error() == Errc::kInvalid);
  }
  const std::string longest(255, 'n');
  CHECK(names->create(kSuperuser, kRootFileId, longest, {}));
  CHECK(names->create(kSuperuser, kRootFileId, longest + "n", {}).error() == Errc::kNameTooLong);
  CHECK(names->lookup(kRootFileId, longest + "n").error() == Errc::kNameTooLong);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "a taken name: guarded, unchecked, exclusive") {
  const CreateVerifier ours{std::byte{1}};
  const CreateVerifier theirs{std::byte{2}};
  auto made = names->create(kSuperuser, kRootFileId, "x", {}, CreateHow::kExclusive, ours);
  REQUIRE(made);
  open();  // the verifier is durable
  auto again = names->create(kSuperuser, kRootFileId, "x", {}, CreateHow::kExclusive, ours);
  REQUIRE(again);
  CHECK(again->existed);
  CHECK(again->attributes == made->attributes);
  CHECK(names->create(kSuperuser, kRootFileId, "x", {}, CreateHow::kExclusive, theirs).error() ==
        Errc::kExists);
  CHECK(names->create(kSuperuser, kRootFileId, "x", {}).error() == Errc::kExists);
  auto unchecked =
      names->create(kSuperuser, kRootFileId, "x", {.mode = 0777}, CreateHow::kUnchecked);
  REQUIRE(unchecked);
  CHECK(unchecked->existed);
  CHECK(unchecked->attributes.mode == 0);
  dir(kRootFileId, "d");
  CHECK(names->create(kSuperuser, kRootFileId, "d", {}, CreateHow::kUnchecked).error() ==
        Errc::kIsDirectory);
  REQUIRE(names->symlink(kSuperuser, kRootFileId, "s", "x", {}));
  CHECK(names->create(kSuperuser, kRootFileId, "s", {}, CreateHow::kUnchecked).error() ==
        Errc::kSymlink);
  file(kRootFileId, "plain");
  CHECK(names->create(kSuperuser, kRootFileId, "plain", {}, CreateHow::kExclusive, {}).error() ==
        Errc::kExists);
}

TEST_CASE_METHOD(NamespaceTest, "nothing is made in a file, or in a directory that is gone") {
  const FileId f = file(kRootFileId, "f");
  CHECK(names->create(kSuperuser, f, "x", {}).error() == Errc::kNotDirectory);
  CHECK(names->lookup(f, "x").error() == Errc::kNotDirectory);
  CHECK(names->lookup(f, ".").error() == Errc::kNotDirectory);
  const FileId d = dir(kRootFileId, "d");
  REQUIRE(names->remove(kSuperuser, kRootFileId, "d"));
  CHECK(names->create(kSuperuser, d, "x", {}).error() == Errc::kStale);
  CHECK(names->mkdir(kSuperuser, d, "x", {}).error() == Errc::kStale);
  CHECK(names->link(kSuperuser, f, d, "x").error() == Errc::kStale);
  CHECK(names->rename(kSuperuser, kRootFileId, "f", d, "x").error() == Errc::kStale);
  CHECK(names->readdir(d, 0, 10, false).error() == Errc::kStale);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "directories count their subdirectories and know their parent") {
  const FileId a = dir(kRootFileId, "a");
  const FileId b = dir(a, "b");
  CHECK(attributes(kRootFileId).nlink == 3);
  CHECK(attributes(a).nlink == 3);
  CHECK(attributes(b).nlink == 2);
  CHECK(names->lookup(b, "..")->id == a);
  CHECK(names->lookup(b, ".")->id == b);
  CHECK(names->lookup(kRootFileId, "..")->id == kRootFileId);
  CHECK(*names->path_of(b) == "/a/b");
  CHECK(*names->path_of(kRootFileId) == "/");
  CHECK(names->lookup_path("//a/b/")->id == b);
  CHECK(names->lookup_path("/")->id == kRootFileId);
  CHECK(names->lookup_path("/a/x").error() == Errc::kNotFound);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "a set-group-id directory hands on its group") {
  auto made =
      names->mkdir(kSuperuser, kRootFileId, "shared", {.mode = 02775, .uid = 1, .gid = 500});
  REQUIRE(made);
  const FileId shared = made->attributes.id;
  const FileId f = file(shared, "f");
  const FileId d = dir(shared, "d");
  CHECK(attributes(f).gid == 500);
  CHECK(attributes(f).mode == 0644);
  CHECK(attributes(d).gid == 500);
  CHECK(attributes(d).mode == 02755);
}

TEST_CASE_METHOD(NamespaceTest, "symbolic links keep their targets") {
  const std::string target(kMaxSymlinkBytes, 't');
  auto made = names->symlink(kSuperuser, kRootFileId, "s", target, {.mode = 0777});
  REQUIRE(made);
  CHECK(made->attributes.size == target.size());
  CHECK(*names->readlink(made->attributes.id) == target);
  CHECK(names->symlink(kSuperuser, kRootFileId, "t", target + "t", {}).error() ==
        Errc::kNameTooLong);
  CHECK(names->symlink(kSuperuser, kRootFileId, "t", "", {}).error() == Errc::kInvalid);
  CHECK(names->readlink(kRootFileId).error() == Errc::kInvalid);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "special files keep type and number") {
  auto made =
      names->mknod(kSuperuser, kRootFileId, "null", FileType::kCharacter, {1, 3}, {.mode = 0666});
  REQUIRE(made);
  CHECK(attributes(made->attributes.id).rdev == DeviceNumber{1, 3});
  CHECK(names->mknod(kSuperuser, kRootFileId, "p", FileType::kFifo, {}, {}));
  CHECK(names->mknod(kSuperuser, kRootFileId, "r", FileType::kRegular, {}, {}).error() ==
        Errc::kInvalid);
  CHECK(names->mknod(kSuperuser, kRootFileId, "d", FileType::kDirectory, {}, {}).error() ==
        Errc::kInvalid);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "links: counted, limited, not of directories") {
  const FileId f = file(kRootFileId, "f");
  now_ns = 9'000;
  auto linked = names->link(kSuperuser, f, kRootFileId, "g");
  REQUIRE(linked);
  CHECK(linked->attributes.nlink == 2);
  CHECK(linked->attributes.ctime_ns == 9'000);
  CHECK(linked->attributes.mtime_ns == 1'000);
  CHECK(names->lookup(kRootFileId, "g")->id == f);
  CHECK(names->link(kSuperuser, f, kRootFileId, "g").error() == Errc::kExists);
  CHECK(names->link(kSuperuser, dir(kRootFileId, "d"), kRootFileId, "e").error() ==
        Errc::kIsDirectory);
  for (const char* name : {"h", "i", "j"}) CHECK(names->link(kSuperuser, f, kRootFileId, name));
  CHECK(names->link(kSuperuser, f, kRootFileId, "k").error() == Errc::kTooManyLinks);
  CHECK(names->link(kSuperuser, 12345, kRootFileId, "k").error() == Errc::kStale);
  check_clean();
}
