// READDIR: cookies that stay.
#include <set>

#include "ganesha-fsal/meta/schema/keys.h"
#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

// All names, page by page.
std::vector<std::string> list(Namespace& names, FileId dir, std::size_t page_size) {
  std::vector<std::string> out;
  std::uint64_t cookie = 0;
  for (;;) {
    auto page = names.readdir(dir, cookie, page_size, false);
    REQUIRE(page);
    for (const auto& entry : page->entries) {
      CHECK(entry.cookie > cookie);
      cookie = entry.cookie;
      out.push_back(entry.name);
    }
    if (page->end) return out;
    REQUIRE_FALSE(page->entries.empty());
  }
}

// A store that remembers where the last scan of what is newest began.
class WatchedStore final : public KvStore {
 public:
  std::unique_ptr<Transaction> begin() override { return store_.begin(); }
  const KvReader& latest() const override { return reader_; }
  std::unique_ptr<KvReader> snapshot() const override { return store_.snapshot(); }
  Result<> wait_durable(CommitSeq seq) override { return store_.wait_durable(seq); }
  [[nodiscard]] const std::string& began() const { return reader_.began; }

 private:
  struct Reader final : KvReader {
    explicit Reader(const KvReader& newest) : newest(newest) {}
    Result<std::optional<std::string>> peek(std::string_view key) const override {
      return newest.peek(key);
    }
    Result<> scan(std::string_view begin, std::string_view end, std::size_t limit,
                  const ScanVisitor& visit) const override {
      began = begin;
      return newest.scan(begin, end, limit, visit);
    }
    const KvReader& newest;
    mutable std::string began;
  };
  MemoryKv store_;
  Reader reader_{store_.latest()};
};

}  // namespace

TEST_CASE_METHOD(NamespaceTest, "pages of any size list every entry once, in order of making") {
  std::vector<std::string> made;
  for (int i = 0; i < 100; ++i) {
    made.push_back("f" + std::to_string(i * 37 % 100));
    file(kRootFileId, made.back());
  }
  for (const std::size_t size : {1U, 7U, 99U, 100U, 101U}) {
    CHECK(list(*names, kRootFileId, size) == made);
  }
  CHECK(names->readdir(kRootFileId, 0, 0, false).error() == Errc::kInvalid);
  CHECK(names->readdir(kRootFileId, UINT64_MAX, 1, false)->end);
}

TEST_CASE_METHOD(NamespaceTest, "an empty directory ends at once") {
  auto page = names->readdir(kRootFileId, 0, 10, true);
  REQUIRE(page);
  CHECK(page->end);
  CHECK(page->entries.empty());
  CHECK(names->readdir(file(kRootFileId, "f"), 0, 10, true).error() == Errc::kNotDirectory);
}

TEST_CASE_METHOD(NamespaceTest, "cookies never start below 3 and come with what was asked for") {
  const FileId f = file(kRootFileId, "f");
  auto page = names->readdir(kRootFileId, 0, 10, true);
  REQUIRE(page->entries.size() == 1);
  CHECK(page->entries[0].cookie >= 3);
  CHECK(page->entries[0].id == f);
  CHECK(page->entries[0].type == FileType::kRegular);
  CHECK(*page->entries[0].attributes == attributes(f));
  CHECK_FALSE(names->readdir(kRootFileId, 0, 10, false)->entries[0].attributes);
}

TEST_CASE_METHOD(NamespaceTest, "removing everything seen so far does not disturb the rest") {
  for (int i = 0; i < 50; ++i) file(kRootFileId, std::to_string(i));
  std::uint64_t cookie = 0;
  std::size_t seen = 0;
  for (;;) {  // as rm -r does
    auto page = names->readdir(kRootFileId, cookie, 7, false);
    REQUIRE(page);
    for (const auto& entry : page->entries) {
      ++seen;
      cookie = entry.cookie;
      REQUIRE(names->remove(kSuperuser, kRootFileId, entry.name));
    }
    if (page->end) break;
  }
  CHECK(seen == 50);
  CHECK(attributes(kRootFileId).size == 0);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest,
                 "cookies survive restarts, and a name's is never given to another") {
  for (int i = 0; i < 10; ++i) file(kRootFileId, std::to_string(i));
  const auto first = *names->readdir(kRootFileId, 0, 5, false);
  const std::uint64_t cookie = first.entries.back().cookie;
  REQUIRE(names->remove(kSuperuser, kRootFileId, "4"));  // the one listing goes on from
  open();
  file(kRootFileId, "new");
  auto rest = names->readdir(kRootFileId, cookie, 100, false);
  REQUIRE(rest->entries.size() == 6);
  CHECK(rest->entries.front().name == "5");
  CHECK(rest->entries.back().name == "new");
}

TEST_CASE_METHOD(NamespaceTest, "a name that is replaced keeps its place") {
  for (const char* name : {"a", "b", "c"}) file(kRootFileId, name);
  const auto before = *names->readdir(kRootFileId, 0, 10, false);
  REQUIRE(names->rename(kSuperuser, kRootFileId, "c", kRootFileId, "a"));
  const auto after = *names->readdir(kRootFileId, 0, 10, false);
  REQUIRE(after.entries.size() == 2);
  CHECK(after.entries[0].name == "a");
  CHECK(after.entries[0].cookie == before.entries[0].cookie);
  CHECK(after.entries[0].id == before.entries[2].id);
}

TEST_CASE("a hundred thousand entries list in pages, over the real engine") {
  const TempFolder folder;
  auto options = small_rocks(folder.path());
  options.sync = false;
  auto store = open_rocks_kv(options);
  REQUIRE(store);
  auto names = Namespace::open(**store);
  REQUIRE(names);
  constexpr int kFiles = 100'000;
  for (int i = 0; i < kFiles; ++i) {
    REQUIRE((*names)->create(kSuperuser, kRootFileId, "file-" + std::to_string(i), {}));
  }
  std::set<std::uint64_t> ids;
  std::uint64_t cookie = 0;
  for (bool end = false; !end;) {
    auto page = (*names)->readdir(kRootFileId, cookie, 1000, true);
    REQUIRE(page);
    for (const auto& entry : page->entries) {
      ids.insert(entry.id);
      cookie = entry.cookie;
    }
    end = page->end;
  }
  CHECK(ids.size() == kFiles);
}

TEST_CASE_METHOD(NamespaceTest,
                 "what was removed at a directory's front is not passed over again") {
  const FileId d = dir(kRootFileId, "d");
  const auto name = [](int number) { return "f" + std::to_string(number); };
  for (int i = 0; i < 200; ++i) file(d, name(i));
  const auto listed = [&] { return list(*names, d, 7); };
  CHECK(listed().size() == 200);
  for (int i = 0; i < 150; ++i) REQUIRE(names->remove(kSuperuser, d, name(i)));
  // Twice each: the second time it is known where entries begin.
  const std::vector<std::string> left = listed();
  CHECK(left.size() == 50);
  CHECK(listed() == left);
  // The first of all is replaced, and keeps its place; another comes at the end.
  file(kRootFileId, "other");
  REQUIRE(names->rename(kSuperuser, kRootFileId, "other", d, name(150)));
  REQUIRE(names->rename(kSuperuser, d, name(199), d, "last"));
  CHECK(listed().front() == name(150));
  CHECK(listed().back() == "last");
  CHECK(listed().size() == 50);
  for (const std::string& one : listed()) REQUIRE(names->remove(kSuperuser, d, one));
  CHECK(listed().empty());
  CHECK(listed().empty());
  file(d, "new");
  CHECK(listed() == std::vector<std::string>{"new"});
}

TEST_CASE("a listing begins where the last one found the first entry") {
  WatchedStore store;
  const auto names = *Namespace::open(store);
  for (int i = 0; i < 300; ++i) {
    REQUIRE(names->create(kSuperuser, kRootFileId, std::to_string(i), {}));
  }
  const auto first = [&] { return names->readdir(kRootFileId, 0, 1, false)->entries.at(0).cookie; };
  const std::uint64_t before = first();
  CHECK(store.began() == keys::cookie(kRootFileId, before));
  for (int i = 0; i < 200; ++i) {
    REQUIRE(names->remove(kSuperuser, kRootFileId, std::to_string(i)));
  }
  const std::uint64_t after = first();
  CHECK(after == before + 200);
  CHECK(store.began() == keys::cookie(kRootFileId, before));
  CHECK(first() == after);
  CHECK(store.began() == keys::cookie(kRootFileId, after));
}

TEST_CASE("first cookies: what is known only grows, and few are not worth it") {
  FirstCookies first;
  CHECK(first.of(7) == 0);
  first.found(7, 3, 40);
  CHECK(first.of(7) == 0);
  first.found(7, 3, 1000);
  CHECK(first.of(7) == 1000);
  first.found(7, 3, 500);  // a listing that began before
  CHECK(first.of(7) == 1000);
  CHECK(first.of(8) == 0);
  for (FileId dir = 100; dir < 10'000; ++dir) first.found(dir, 3, 1000);
  CHECK(first.of(9'999) == 1000);
}
