// Who may do what: each rule by itself. The model test mixes them all.
#include <array>

#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

constexpr std::array<std::uint32_t, 2> kGroups{500, 501};
constexpr Credentials kOwner{.uid = 10, .gid = 20};
constexpr Credentials kMember{.uid = 11, .gid = 21, .groups = kGroups};
constexpr Credentials kOther{.uid = 12, .gid = 22};

CreateRequest by(const Credentials& who, std::uint32_t mode = 0644) {
  return {.mode = mode, .uid = who.uid, .gid = who.gid};
}

template <class T>
Errc error_of(const Result<T>& result) {
  return result ? Errc{} : result.error().code;
}

constexpr Errc kFine{};

class RightsTest : public NamespaceTest {
 public:
  // Of kOwner, in group 500, which kMember is in.
  FileId owned_dir(std::string_view name, std::uint32_t mode) {
    auto made = names->mkdir(kSuperuser, kRootFileId, name, {.mode = mode, .uid = 10, .gid = 500});
    REQUIRE(made);
    return made->attributes.id;
  }
  FileId file_of(const Credentials& who, FileId dir, std::string_view name,
                 std::uint32_t mode = 0644) {
    auto made = names->create(kSuperuser, dir, name, by(who, mode));
    REQUIRE(made);
    return made->attributes.id;
  }
  std::uint32_t mode_of(FileId id) { return attributes(id).mode; }
};

}  // namespace

TEST_CASE_METHOD(RightsTest, "making a name takes write and search permission on the directory") {
  struct Row {
    std::uint32_t mode;
    Errc owner, member, other;
  };
  const Row row = GENERATE(Row{0755, kFine, Errc::kAccess, Errc::kAccess},
                           Row{0775, kFine, kFine, Errc::kAccess}, Row{0777, kFine, kFine, kFine},
                           Row{0707, kFine, Errc::kAccess, kFine},  // the first class decides
                           Row{0077, Errc::kAccess, kFine, kFine},
                           Row{0722, kFine, Errc::kAccess, Errc::kAccess},
                           Row{0555, Errc::kAccess, Errc::kAccess, Errc::kAccess});
  const FileId d = owned_dir("d", row.mode);
  const FileId f = file_of(kOther, kRootFileId, "f");
  const auto all = [&](const Credentials& who, const std::string& name, Errc wanted) {
    CHECK(error_of(names->create(who, d, name + "f", by(who))) == wanted);
    CHECK(error_of(names->mkdir(who, d, name + "d", by(who))) == wanted);
    CHECK(error_of(names->symlink(who, d, name + "s", "t", by(who))) == wanted);
    CHECK(error_of(names->mknod(who, d, name + "p", FileType::kFifo, {}, by(who))) == wanted);
    CHECK(error_of(names->link(who, f, d, name + "l")) == wanted);
  };
  all(kOwner, "o", row.owner);
  all(kMember, "m", row.member);
  all(kOther, "x", row.other);
  all(kSuperuser, "r", kFine);
  check_clean();
}

TEST_CASE_METHOD(RightsTest, "what is there, or is not, comes before a lack of write permission") {
  const FileId d = owned_dir("d", 0755);
  const FileId f = file_of(kOwner, d, "f");
  CHECK(error_of(names->create(kOther, d, "f", by(kOther))) == Errc::kExists);
  auto opened = names->create(kOther, d, "f", by(kOther), CreateHow::kUnchecked);
  REQUIRE(opened);
  CHECK(opened->existed);
  CHECK(error_of(names->link(kOther, f, d, "f")) == Errc::kExists);
  CHECK(error_of(names->remove(kOther, d, "g")) == Errc::kNotFound);
  CHECK(error_of(names->rename(kOther, d, "g", d, "h")) == Errc::kNotFound);
  REQUIRE(names->setattr(kSuperuser, d, {.mode = 0700}));
  CHECK(error_of(names->create(kOther, d, "f", by(kOther))) == Errc::kAccess);
  CHECK(error_of(names->remove(kOther, d, "g")) == Errc::kAccess);
  CHECK(error_of(names->rename(kOther, d, "g", kRootFileId, "h")) == Errc::kAccess);
}

TEST_CASE_METHOD(RightsTest, "names are taken away by those who may write the directory") {
  const FileId d = owned_dir("d", 0775);
  file_of(kOwner, d, "a");
  file_of(kSuperuser, d, "b", 0);
  CHECK(error_of(names->remove(kOther, d, "a")) == Errc::kAccess);
  CHECK(names->remove(kMember, d, "a"));
  CHECK(names->remove(kMember, d, "b"));  // whatever the file's own mode is
  CHECK(error_of(names->remove(kOwner, kRootFileId, "d")) == Errc::kAccess);
}

TEST_CASE_METHOD(RightsTest, "in a sticky directory only the owner of either takes names away") {
  const FileId d = owned_dir("d", 01777);
  for (const char* name : {"a", "b", "c", "e"}) file_of(kMember, d, name);
  file_of(kOther, d, "mine");
  CHECK(error_of(names->remove(kOther, d, "a")) == Errc::kPermission);
  CHECK(error_of(names->rename(kOther, d, "a", d, "z")) == Errc::kPermission);
  CHECK(error_of(names->rename(kOther, d, "mine", d, "a")) == Errc::kPermission);
  CHECK(names->remove(kMember, d, "a"));
  CHECK(names->remove(kOwner, d, "b"));  // his is the directory
  CHECK(names->remove(kSuperuser, d, "c"));
  CHECK(names->rename(kOther, d, "mine", d, "free"));
  CHECK(names->rename(kOwner, d, "free", d, "e"));
}

TEST_CASE_METHOD(RightsTest, "renaming takes write permission on both directories") {
  const FileId mine = owned_dir("mine", 0755);
  const FileId open = owned_dir("open", 0777);
  file_of(kOther, mine, "f");
  file_of(kOther, open, "g");
  CHECK(error_of(names->rename(kOther, mine, "f", open, "f")) == Errc::kAccess);
  CHECK(error_of(names->rename(kOther, open, "g", mine, "g")) == Errc::kAccess);
  CHECK(error_of(names->rename(kOther, open, "g", mine, "f")) == Errc::kAccess);
  CHECK(names->rename(kOwner, mine, "f", open, "f"));
  CHECK(names->rename(kOther, open, "f", open, "g"));
}

TEST_CASE_METHOD(RightsTest, "a directory that gets another parent has to be writable itself") {
  const FileId a = owned_dir("a", 0777);
  const FileId b = owned_dir("b", 0777);
  REQUIRE(names->mkdir(kSuperuser, a, "sub", {.mode = 0755, .uid = 10, .gid = 20}));
  CHECK(error_of(names->rename(kOther, a, "sub", b, "sub")) == Errc::kAccess);
  CHECK(names->rename(kOther, a, "sub", a, "other"));  // its ".." stays as it is
  CHECK(names->rename(kOwner, a, "other", b, "sub"));
  check_clean();
}

TEST_CASE_METHOD(RightsTest, "owners, groups and devices") {
  const FileId d = owned_dir("d", 0777);
  CHECK(error_of(names->create(kOther, d, "f", by(kOwner))) == Errc::kPermission);
  CHECK(error_of(names->mkdir(kOther, d, "d", {.mode = 0755, .uid = 0, .gid = 22})) ==
        Errc::kPermission);
  CHECK(error_of(names->symlink(kOther, d, "s", "t", {.uid = 12, .gid = 500})) ==
        Errc::kPermission);
  CHECK(names->symlink(kMember, d, "s", "t", {.uid = 11, .gid = 501}));
  CHECK(names->create(kSuperuser, d, "f", by(kOwner)));
  for (const FileType type : {FileType::kBlock, FileType::kCharacter}) {
    CHECK(error_of(names->mknod(kOther, d, "n", type, {1, 3}, by(kOther))) == Errc::kPermission);
    CHECK(names->mknod(kSuperuser, d, "n", type, {1, 3}, {}));
    CHECK(names->remove(kSuperuser, d, "n"));
  }
  CHECK(names->mknod(kOther, d, "socket", FileType::kSocket, {}, by(kOther)));
}

TEST_CASE_METHOD(RightsTest, "a set-group-id directory of others makes no set-group-id programs") {
  const FileId d = owned_dir("d", 02777);
  const auto made = [&](const Credentials& who, const std::string& name, std::uint32_t mode) {
    auto created = names->create(who, d, name, by(who, mode));
    REQUIRE(created);
    CHECK(created->attributes.gid == 500);
    return created->attributes.mode;
  };
  CHECK(made(kOther, "a", 02755) == 0755);
  CHECK(made(kOther, "b", 06755) == 04755);
  CHECK(made(kOther, "c", 02745) == 02745);  // no program for the group
  CHECK(made(kMember, "d", 02755) == 02755);
  CHECK(made(kSuperuser, "e", 02755) == 02755);
  CHECK(names->mkdir(kOther, d, "sub", by(kOther, 0755))->attributes.mode == 02755);
}

TEST_CASE_METHOD(RightsTest, "mode, owners and explicit times are the owner's to change") {
  const FileId f = file_of(kOwner, kRootFileId, "f", 0666);
  for (const AttributeChange& change :
       {AttributeChange{.mode = 0600}, AttributeChange{.uid = 12}, AttributeChange{.gid = 22},
        AttributeChange{.mtime_ns = 1}, AttributeChange{.atime_ns = 1},
        AttributeChange{.atime_ns = 1, .mtime_now = true}}) {
    CHECK(error_of(names->setattr(kOther, f, change)) == Errc::kPermission);
  }
  CHECK(names->setattr(kOther, f, {.atime_now = true, .mtime_now = true}));
  CHECK(names->setattr(kOther, f, {.size = 3}));
  CHECK(names->setattr(kOther, f, {}));
  CHECK(names->setattr(kOwner, f, {.mode = 0644, .atime_ns = 1, .mtime_ns = 2}));
  CHECK(error_of(names->setattr(kOther, f, {.mtime_now = true})) == Errc::kAccess);
  CHECK(error_of(names->setattr(kOther, f, {.size = 3})) == Errc::kAccess);
  CHECK(names->setattr(kOwner, f, {.mode = 0444}));
  CHECK(names->setattr(kOwner, f, {.size = 4}));
  CHECK(error_of(names->setattr(kOwner, f, {.uid = 12})) == Errc::kPermission);
  CHECK(error_of(names->setattr(kOwner, f, {.gid = 500})) == Errc::kPermission);
  CHECK(names->setattr(kOwner, f, {.uid = 10, .gid = 20}));
  CHECK(attributes(f).size == 4);
}

TEST_CASE_METHOD(RightsTest, "set-user-id and set-group-id go with what others may have changed") {
  const FileId f = file_of(kMember, kRootFileId, "f");
  const auto after = [&](std::uint32_t mode, const Credentials& who,
                         const AttributeChange& change) {
    REQUIRE(names->setattr(kSuperuser, f, {.mode = mode}));
    auto done = names->setattr(who, f, change);
    REQUIRE(done);
    return done->after.mode;
  };
  CHECK(after(06777, kMember, {.size = 0}) == 0777);
  CHECK(after(06777, kOther, {.size = 0}) == 0777);
  CHECK(after(06777, kSuperuser, {.size = 0}) == 06777);
  CHECK(after(06767, kMember, {.size = 0}) == 02767);  // marks mandatory locking
  CHECK(after(06767, kOther, {.size = 0}) == 0767);
  CHECK(after(06755, kMember, {.gid = 500}) == 0755);
  CHECK(after(06755, kSuperuser, {.gid = 500}) == 0755);
  CHECK(after(06745, kSuperuser, {.gid = 500}) == 02745);
  // The group is 500 now.
  CHECK(after(0, kMember, {.mode = 02755}) == 02755);
  REQUIRE(names->setattr(kSuperuser, f, {.gid = 20}));
  CHECK(after(0, kMember, {.mode = 06755}) == 04755);
  CHECK(after(0, kMember, {.mode = 02755, .gid = 501}) == 02755);
}
