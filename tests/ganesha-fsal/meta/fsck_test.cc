// Each kind of damage is found, and named.
#include "ganesha-fsal/meta/fsck.h"

#include <ctime>
#include <map>

#include "ganesha-fsal/meta/schema/journal.h"
#include "ganesha-fsal/meta/schema/keys.h"
#include "ganesha-fsal/meta/schema/records.h"
#include "layout/device_table.h"
#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

class FsckTest : public NamespaceTest {
 public:
  FsckTest() {
    d = dir(kRootFileId, "d");
    f = file(d, "f");
    sub = dir(d, "sub");
    layout_of(f, {1, 2});
    REQUIRE(names->set_xattr(f, "user.a", "1", Namespace::XattrHow::kEither));
    check_clean();
  }

  // Changes keys behind the namespace's back.
  void put(const std::string& key, const std::string& value) {
    REQUIRE(store.run([&](Transaction& transaction) -> Result<> {
      transaction.put(key, value);
      return {};
    }));
  }
  void erase(const std::string& key) {
    REQUIRE(store.run([&](Transaction& transaction) -> Result<> {
      transaction.erase(key);
      return {};
    }));
  }
  template <class Change>
  void edit_inode(FileId id, Change change) {
    auto inode = decode_inode(**store.latest().peek(keys::inode(id)));
    REQUIRE(inode);
    change(*inode);
    put(keys::inode(id), encode(*inode));
  }
  bool finds(ProblemKind kind, FileId id) {
    auto report = fsck(store.latest());
    REQUIRE(report);
    CHECK_FALSE(report->clean());
    for (const Problem& problem : report->problems) {
      if (problem.kind == kind && problem.id == id) return true;
      UNSCOPED_INFO(to_string(problem.kind) << " inode " << problem.id << ": " << problem.text);
    }
    return false;
  }

  FileId d = 0;
  FileId f = 0;
  FileId sub = 0;
};

}  // namespace

TEST_CASE_METHOD(FsckTest, "a clean store is counted") {
  REQUIRE(names->hold(f));
  REQUIRE(names->remove(kSuperuser, d, "f"));
  auto report = fsck(store.latest());
  REQUIRE(report);
  CHECK(report->clean());
  CHECK(report->inodes == 4);
  CHECK(report->directories == 3);
  CHECK(report->entries == 2);
  CHECK(report->orphans == 1);
  CHECK(report->layouts == 1);
  CHECK(report->xattrs == 1);
}

TEST_CASE_METHOD(FsckTest, "policies of what may have none, and malformed ones") {
  const std::string policy = encode(layout::Policy{.copies = 2});
  put(keys::policy(sub), policy);
  put(keys::policy(f), policy);
  check_clean();
  CHECK(fsck(store.latest())->policies == 2);
  put(keys::policy(777), policy);
  CHECK(finds(ProblemKind::kPolicy, 777));
  const auto link = names->symlink(kSuperuser, d, "l", "target", {});
  REQUIRE(link);
  put(keys::policy(link->attributes.id), policy);
  CHECK(finds(ProblemKind::kPolicy, link->attributes.id));
  put(keys::policy(f), "copies=2");
  CHECK(finds(ProblemKind::kMalformed, f));
  put("Yx", policy);
  CHECK(finds(ProblemKind::kMalformed, 0));
}

TEST_CASE_METHOD(FsckTest, "data servers that are none, and malformed devices") {
  const std::string salt(4, '\1');
  const auto server = [](char id) { return std::string("S\0\0\0", 4) + id; };
  put("Wd", salt);
  CHECK(finds(ProblemKind::kServer, f));
  put(server(1), "");
  CHECK(finds(ProblemKind::kServer, f));
  put(server(2), "");
  check_clean();
  const auto address = layout::make_address("192.0.2.7", 2049).value();
  const std::string device = layout::encode_device({7, {{1, 1, {address}}}});
  const std::string key = std::string("D") + std::string(7, '\0');
  put(key + '\7', device);
  check_clean();
  put(key + '\6', device);
  CHECK(finds(ProblemKind::kMalformed, 0));
  erase(key + '\6');
  put(key + '\7', device.substr(4));
  CHECK(finds(ProblemKind::kMalformed, 0));
  erase(key + '\7');
  put("S1", "");
  CHECK(finds(ProblemKind::kMalformed, 0));
}

TEST_CASE("what is no store of ours is said to be none") {
  const MemoryKv empty;
  CHECK(fsck(empty.latest()).error() == Errc::kNotFound);
}

TEST_CASE_METHOD(FsckTest, "entries and inodes") {
  SECTION("missing inode") {
    erase(keys::inode(f));
    CHECK(finds(ProblemKind::kDanglingEntry, f));
  }
  SECTION("missing entry") {
    erase(keys::entry(d, "f"));
    CHECK(finds(ProblemKind::kUnreachable, f));
    CHECK(finds(ProblemKind::kDirectorySize, d));
    CHECK(finds(ProblemKind::kCookieIndex, d));
  }
  SECTION("missing cookie") {
    erase(keys::cookie(d, kFirstCookie));
    CHECK(finds(ProblemKind::kCookieIndex, d));
  }
  SECTION("cookie without entry") {
    put(keys::cookie(d, 1000), encode(CookieRecord{f, FileType::kRegular, "ghost"}));
    CHECK(finds(ProblemKind::kCookieIndex, d));
  }
  SECTION("cookie not yet given") {
    edit_inode(d, [](InodeRecord& inode) { inode.next_cookie = kFirstCookie; });
    CHECK(finds(ProblemKind::kCookieIndex, d));
  }
  SECTION("entry in a file") {
    put(keys::entry(f, "x"), encode(EntryRecord{3, d, FileType::kDirectory}));
    CHECK(finds(ProblemKind::kDanglingEntry, f));
  }
  SECTION("wrong type") {
    put(keys::entry(d, "f"), encode(EntryRecord{kFirstCookie, f, FileType::kFifo}));
    CHECK(finds(ProblemKind::kWrongType, f));
  }
}

TEST_CASE_METHOD(FsckTest, "counts") {
  SECTION("links of a file") {
    edit_inode(f, [](InodeRecord& inode) { inode.attributes.nlink = 2; });
    CHECK(finds(ProblemKind::kLinkCount, f));
  }
  SECTION("links of a directory") {
    edit_inode(d, [](InodeRecord& inode) { inode.attributes.nlink = 2; });
    CHECK(finds(ProblemKind::kLinkCount, d));
  }
  SECTION("entries of a directory") {
    edit_inode(d, [](InodeRecord& inode) { ++inode.attributes.size; });
    CHECK(finds(ProblemKind::kDirectorySize, d));
  }
  SECTION("bytes of extended attributes") {
    edit_inode(f, [](InodeRecord& inode) { inode.xattr_bytes = 0; });
    CHECK(finds(ProblemKind::kXattr, f));
  }
  SECTION("the file number counter") {
    put(keys::next_fileid(), encode_counter(f));
    CHECK(finds(ProblemKind::kCounter, f));
  }
}

TEST_CASE_METHOD(FsckTest, "the tree") {
  SECTION("missing parent") {
    erase(keys::parent(sub));
    CHECK(finds(ProblemKind::kUnreachable, sub));
  }
  SECTION("wrong parent") {
    put(keys::parent(sub), encode(ParentRecord{kRootFileId, "sub"}));
    CHECK(finds(ProblemKind::kParent, sub));
  }
  SECTION("a circle") {
    put(keys::parent(d), encode(ParentRecord{sub, "d"}));
    auto report = fsck(store.latest());
    REQUIRE(report);
    bool circle = false;
    for (const Problem& p : report->problems) circle |= p.kind == ProblemKind::kUnreachable;
    CHECK(circle);
  }
  SECTION("no root") {
    erase(keys::inode(kRootFileId));
    CHECK(finds(ProblemKind::kUnreachable, kRootFileId));
  }
  SECTION("an orphan with links") {
    put(keys::orphan(f), "");
    CHECK(finds(ProblemKind::kOrphan, f));
  }
  SECTION("an orphan of nothing") {
    put(keys::orphan(999), "");
    CHECK(finds(ProblemKind::kOrphan, 999));
  }
}

TEST_CASE_METHOD(FsckTest, "depth costs no more than width: each directory is walked over once") {
  constexpr FileId kFirst = 1 << 20;
  constexpr FileId kDepth = 150'000;
  const auto like = decode_inode(**store.latest().peek(keys::inode(sub)));
  REQUIRE(store.run([&](Transaction& transaction) -> Result<> {
    for (FileId id = kFirst; id < kFirst + kDepth; ++id) {
      auto inode = *like;
      inode.attributes.id = id;
      transaction.put(keys::inode(id), encode(inode));
      const FileId above = id == kFirst ? sub : id - 1;
      transaction.put(keys::parent(id), encode(ParentRecord{above, "d"}));
    }
    return {};
  }));
  // Of the processor, which others use as well.
  const std::clock_t begun = std::clock();
  const auto report = fsck(store.latest());
  const auto took_s = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
  REQUIRE(report);
  CHECK(report->directories == kDepth + 3);
  CHECK(took_s < 10);  // comparing each with all above it takes longer
}

TEST_CASE_METHOD(FsckTest, "what the registry of data servers keeps is shown to who knows it") {
  put("Wx", "1");
  put(std::string("S\0\0\0\1", 5), "2");
  CHECK(fsck(store.latest())->problem_count == 0);
  std::map<std::string, std::string> seen;
  const auto report = fsck(store.latest(), [&](auto key, auto value) -> Result<> {
    seen.emplace(key, value);
    if (value == "1") return fail(Errc::kCorrupt, "bad");
    return {};
  });
  REQUIRE(report);
  CHECK(seen ==
        std::map<std::string, std::string>{{"Wx", "1"}, {std::string("S\0\0\0\1", 5), "2"}});
  REQUIRE(report->problem_count == 1);
  CHECK(report->problems.front().kind == ProblemKind::kMalformed);
}

TEST_CASE_METHOD(FsckTest, "layouts and the reverse index") {
  SECTION("not listed") {
    erase(keys::reverse(2, f, 1));
    CHECK(finds(ProblemKind::kReverseIndex, f));
  }
  SECTION("listed for no reason") {
    put(keys::reverse(3, f, 1), "");
    CHECK(finds(ProblemKind::kReverseIndex, f));
  }
  SECTION("a layout of nothing") {
    put(keys::layout(999), **store.latest().peek(keys::layout(f)));
    CHECK(finds(ProblemKind::kLayout, 999));
  }
  SECTION("objects in use queued for removal") {
    put(keys::removal(f, 1), encode(RemovalRecord{{1, 2}}));
    CHECK(finds(ProblemKind::kLayout, f));
  }
  SECTION("a truncate without layout") {
    put(keys::truncate(d), encode(TruncateRecord{0, 1}));
    CHECK(finds(ProblemKind::kLayout, d));
  }
}

TEST_CASE_METHOD(FsckTest, "the journal") {
  const FileId g = file(d, "g");
  const auto map = layout_of(g, {1, 2}, {3, 4});
  REQUIRE(names->begin_writing(g, no_layout));
  REQUIRE(names->mark_stale({.id = g, .copy = 1, .ds_id = 3, .dirty = {{0, 5}}}));
  check_clean();
  auto report = fsck(store.latest());
  REQUIRE(report);
  CHECK(report->written == 1);
  CHECK(report->stale == 1);
  const std::string stale = encode(StaleRecord{1, 0, 1, {{0, kDirtyGranule}}});
  SECTION("written without layout") {
    put(keys::writers(d), encode(WritersRecord{1, 0}));
    CHECK(finds(ProblemKind::kJournal, d));
  }
  SECTION("written in a run to come") {
    put(keys::writers(g), encode(WritersRecord{99, 0}));
    CHECK(finds(ProblemKind::kJournal, g));
  }
  SECTION("a stale copy that misses nothing") {
    erase(keys::stale(3, g, 1));
    CHECK(finds(ProblemKind::kJournal, g));
  }
  SECTION("current in the map") {
    put(keys::layout(g), layout::encode_layout_map(map));
    CHECK(finds(ProblemKind::kJournal, g));
  }
  SECTION("no such copy") {
    put(keys::stale(3, g, 2), stale);
    CHECK(finds(ProblemKind::kJournal, g));
  }
  SECTION("of a data server that holds nothing of it") {
    put(keys::stale(1, g, 1), stale);
    CHECK(finds(ProblemKind::kJournal, g));
  }
  SECTION("of other objects") {
    put(keys::stale(3, g, 1), encode(StaleRecord{2, 0, 1, {{0, kDirtyGranule}}}));
    CHECK(finds(ProblemKind::kJournal, g));
  }
}

TEST_CASE_METHOD(FsckTest, "keys and values of no form") {
  SECTION("a value") {
    put(keys::inode(f), "not an inode");
    CHECK(finds(ProblemKind::kMalformed, f));
  }
  SECTION("a key") {
    put("I123", "");
    CHECK(finds(ProblemKind::kMalformed, 0));
  }
  SECTION("a key of the journal") {
    put("J", "");
    CHECK(finds(ProblemKind::kMalformed, 0));
  }
  SECTION("a value of the journal") {
    put(keys::writers(f), "?");
    CHECK(finds(ProblemKind::kMalformed, f));
  }
  SECTION("of a restore") {
    for (const auto& key : {keys::restore(), keys::restored_grown(), keys::skipped_fileids()}) {
      put(key, "?");
      CHECK(finds(ProblemKind::kMalformed, 0));
      erase(key);
      check_clean();
    }
  }
  SECTION("of no kind") {
    put("?", "");
    CHECK(finds(ProblemKind::kUnknownKey, 0));
  }
  SECTION("but the cluster's are left alone") {
    put("W1", "whatever");
    check_clean();
  }
}
