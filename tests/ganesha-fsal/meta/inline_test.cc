// Files whose bytes are in the metadata store: written, cut, punched, removed, and on their way to
// objects.
#include <rapidcheck.h>

#include <random>

#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

constexpr std::uint32_t kLimit = 100;

template <class Base>
class WithInline : public Base {
 public:
  Result<std::optional<InodeAttributes>> try_write(FileId id, std::uint64_t offset,
                                                   std::string_view text,
                                                   std::uint32_t limit = kLimit) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
    return this->names->write_inline(id, offset, Namespace::Pieces(&bytes, 1), limit);
  }
  void write(FileId id, std::uint64_t offset, std::string_view text) {
    const auto written = try_write(id, offset, text);
    REQUIRE(written);
    REQUIRE(*written);
  }
  // All of the file, zeros included; nullopt: it is at its objects.
  std::optional<std::string> content(FileId id) {
    auto file = this->names->inline_file(id);
    REQUIRE(file);
    if (!*file) return std::nullopt;
    REQUIRE((*file)->bytes.size() <= (*file)->attributes.size);
    (*file)->bytes.resize((*file)->attributes.size);
    return (*file)->bytes;
  }
  Result<AttributesChanged> cut(FileId id, std::uint64_t size) {
    AttributeChange change;
    change.size = size;
    return this->names->setattr(kSuperuser, id, change);
  }
  [[nodiscard]] bool kept(const std::string& key) const {
    return this->store.latest().peek(key).value().has_value();
  }
};

using InlineTest = WithInline<NamespaceTest>;
using std::string_literals::operator""s;

}  // namespace

TEST_CASE_METHOD(InlineTest, "a small file is written, grows, and is read, over restarts") {
  const FileId f = file(kRootFileId, "f");
  CHECK_FALSE(names->inlines());
  CHECK(content(f) == "");
  const InodeAttributes before = attributes(f);
  now_ns = 5'000;
  const auto written = try_write(f, 0, "hello");
  REQUIRE(written);
  REQUIRE(*written);
  CHECK((*written)->size == 5);
  CHECK((*written)->mtime_ns == 5'000);
  CHECK((*written)->change > before.change);
  write(f, 5, " world");
  CHECK(content(f) == "hello world");
  write(f, 0, "J");
  CHECK(content(f) == "Jello world");
  open();
  CHECK(names->inlines());
  CHECK(content(f) == "Jello world");
  CHECK_FALSE(*names->layout(f));
  check_clean();
}

TEST_CASE_METHOD(InlineTest, "a write takes set-user-id away, as any write") {
  const FileId f = file(kRootFileId, "f");
  AttributeChange change;
  change.mode = 06755;
  REQUIRE(names->setattr(kSuperuser, f, change));
  write(f, 0, "x");
  CHECK(attributes(f).mode == 0755);
}

TEST_CASE_METHOD(InlineTest, "what is between writes, and behind them, is zeros") {
  const FileId f = file(kRootFileId, "f");
  write(f, 5, "x");
  CHECK(content(f) == "\0\0\0\0\0x"s);
  REQUIRE(cut(f, 8));
  CHECK(content(f) == "\0\0\0\0\0x\0\0"s);
  REQUIRE(cut(f, 3));
  REQUIRE(cut(f, 8));
  CHECK(content(f) == std::string(8, '\0'));
  check_clean();
}

TEST_CASE_METHOD(InlineTest, "a write that ends beyond the limit changes nothing") {
  const FileId f = file(kRootFileId, "f");
  write(f, 0, std::string(kLimit, 'a'));
  const InodeAttributes before = attributes(f);
  const auto refused = try_write(f, kLimit - 1, "bc");
  REQUIRE(refused);
  CHECK_FALSE(*refused);
  CHECK_FALSE(*try_write(f, UINT64_MAX, "b"));
  CHECK_FALSE(*try_write(f, 0, "b", 0));
  CHECK(attributes(f) == before);
  CHECK(content(f) == std::string(kLimit, 'a'));
  CHECK(*try_write(f, kLimit - 1, "b"));
}

TEST_CASE_METHOD(InlineTest, "a write of nothing changes no size") {
  const FileId f = file(kRootFileId, "f");
  write(f, 50, "");
  CHECK(attributes(f).size == 0);
  check_clean();
}

TEST_CASE_METHOD(InlineTest, "what is cut or punched is gone") {
  const FileId f = file(kRootFileId, "f");
  write(f, 0, "0123456789");
  const auto punched = names->punch_inline(f, 2, 3);
  REQUIRE(punched);
  REQUIRE(*punched);
  CHECK(content(f) ==
        "01\0\0\0"
        "56789"s);
  REQUIRE(*names->punch_inline(f, 8, UINT64_MAX));
  CHECK(content(f) ==
        "01\0\0\0"
        "567\0\0"s);
  REQUIRE(*names->punch_inline(f, 20, 5));
  CHECK(attributes(f).size == 10);
  REQUIRE(cut(f, 0));
  CHECK(content(f) == "");
  CHECK_FALSE(kept(keys::inline_bytes(f)));
  check_clean();
}

TEST_CASE_METHOD(InlineTest, "a file's bytes go with it") {
  const FileId f = file(kRootFileId, "f");
  const FileId g = file(kRootFileId, "g");
  write(f, 0, "f");
  write(g, 0, "g");
  SECTION("when it is removed") {
    REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
    CHECK(try_write(f, 0, "x").error() == Errc::kStale);
  }
  SECTION("when another takes its name") {
    REQUIRE(names->rename(kSuperuser, kRootFileId, "g", kRootFileId, "f"));
    CHECK(content(g) == "g");
  }
  SECTION("when it is closed, if it was open") {
    REQUIRE(names->hold(f));
    REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
    write(f, 1, "2");
    CHECK(content(f) == "f2");
    REQUIRE(names->release(f));
  }
  SECTION("when it is on its way to objects") {
    REQUIRE(names->begin_growth(f, striped({1, 2})));
    REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
  }
  SECTION("when it was cut to nothing on its way to objects") {
    REQUIRE(names->begin_growth(f, striped({1, 2})));
    REQUIRE(cut(f, 0));
    REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
  }
  CHECK_FALSE(kept(keys::inline_bytes(f)));
  CHECK_FALSE(kept(keys::growing(f)));
  CHECK(kept(keys::inline_bytes(g)));
  check_clean();
}

TEST_CASE_METHOD(InlineTest, "another name is the same bytes") {
  const FileId f = file(kRootFileId, "f");
  write(f, 0, "f");
  REQUIRE(names->link(kSuperuser, f, kRootFileId, "g"));
  REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
  CHECK(content(f) == "f");
  check_clean();
}

TEST_CASE_METHOD(InlineTest, "only a regular file is inline") {
  const FileId d = dir(kRootFileId, "d");
  CHECK(try_write(d, 0, "x").error() == Errc::kInvalid);
  CHECK(names->inline_file(d).error() == Errc::kInvalid);
  CHECK(names->punch_inline(d, 0, 1).error() == Errc::kInvalid);
  CHECK(names->begin_growth(d, striped({1})).error() == Errc::kInvalid);
  CHECK(names->inline_file(999).error() == Errc::kStale);
}

TEST_CASE_METHOD(InlineTest, "a full store takes no inline bytes, and lets them go") {
  const FileId f = file(kRootFileId, "f");
  write(f, 0, "0123");
  store.set_full(true);
  CHECK(try_write(f, 4, "4").error() == Errc::kNoSpace);
  CHECK(content(f) == "0123");
  REQUIRE(cut(f, 2));
  REQUIRE(*names->punch_inline(f, 0, 1));
  CHECK(content(f) ==
        "\0"
        "1"s);
  CHECK(names->begin_growth(f, striped({1})).error() == Errc::kNoSpace);
  CHECK_FALSE(kept(keys::growing(f)));
  check_clean();
}

TEST_CASE_METHOD(InlineTest, "on the way to objects the bytes are those in the store") {
  const FileId f = file(kRootFileId, "f");
  write(f, 0, "bytes");
  // Whoever makes a map in another way would make holes of them.
  CHECK(names->ensure_layout(f, striped({1, 2})).error() == Errc::kBusy);
  CHECK(names->begin_writing(f, striped({1, 2})).error() == Errc::kBusy);
  const auto begun = names->begin_growth(f, striped({1, 2}));
  REQUIRE(begun);
  CHECK(begun->bytes == "bytes");
  CHECK(begun->map == **names->layout(f));
  CHECK(names->growing().value() == std::vector{f});
  CHECK(content(f) == "bytes");
  CHECK_FALSE(*try_write(f, 0, "x"));
  CHECK_FALSE(*names->punch_inline(f, 0, 1));
  check_clean();

  open();  // a crash: it is begun again, with the map there is
  CHECK(names->growing().value() == std::vector{f});
  CHECK(content(f) == "bytes");
  REQUIRE(names->begin_writing(f, no_layout));
  const auto again = names->begin_growth(f, no_layout);
  REQUIRE(again);
  CHECK(again->bytes == "bytes");

  const InodeAttributes before = attributes(f);
  REQUIRE(names->finish_growth(f));
  CHECK(attributes(f) == before);
  CHECK(names->growing().value().empty());
  CHECK(content(f) == std::nullopt);
  CHECK_FALSE(kept(keys::inline_bytes(f)));
  REQUIRE(names->finish_growth(f));  // once more does nothing
  CHECK(names->begin_growth(f, no_layout).value().bytes.empty());
  check_clean();
}

TEST_CASE_METHOD(InlineTest, "a file without bytes has nothing on the way to objects") {
  const FileId f = file(kRootFileId, "f");
  REQUIRE(cut(f, 1000));
  const auto begun = names->begin_growth(f, striped({1, 2}));
  REQUIRE(begun);
  CHECK(begun->bytes.empty());
  CHECK(names->growing().value().empty());
  CHECK(content(f) == std::nullopt);
  check_clean();
}

TEST_CASE_METHOD(InlineTest, "a commit that fails leaves the file as it was") {
  const FileId f = file(kRootFileId, "f");
  write(f, 0, "before");
  const InodeAttributes before = attributes(f);
  store.fail_commits(Errc::kIo, 0, 1);
  SECTION("by a write") { CHECK(try_write(f, 0, "after!").error() == Errc::kIo); }
  SECTION("by a hole") { CHECK(names->punch_inline(f, 0, 3).error() == Errc::kIo); }
  SECTION("by a cut") { CHECK(cut(f, 3).error() == Errc::kIo); }
  SECTION("by the first step to objects") {
    CHECK(names->begin_growth(f, striped({1})).error() == Errc::kIo);
  }
  CHECK(content(f) == "before");
  CHECK(attributes(f) == before);
  CHECK(names->growing().value().empty());
  check_clean();
}

TEST_CASE_METHOD(InlineTest, "what a crash undoes was told to nobody, and the rest is whole") {
  // Size and bytes are of one moment, whatever the crash leaves.
  const FileId f = file(kRootFileId, "f");
  std::string acknowledged;
  for (int round = 0; round < 50; ++round) {
    const std::string next(static_cast<std::size_t>(1 + round),
                           static_cast<char>('a' + round % 26));
    const bool fails = round % 3 == 2;
    if (fails) store.fail_sync(Errc::kIo);
    const auto written = try_write(f, 0, next);
    CHECK(written.has_value() == !fails);
    if (!fails) acknowledged = next;
    if (fails) {
      store.lose_power();
      open();
      const auto there = content(f);
      CHECK((there == acknowledged || there == next));
      acknowledged = there.value();
    }
    check_clean();
  }
}

TEST_CASE("inline files are what a string would be") {
  CHECK(rc::check("random writes, cuts, holes and restarts", [] {
    WithInline<NamespaceTest> test;
    const FileId f = test.file(kRootFileId, "f");
    std::string model;
    std::mt19937 random(*rc::gen::arbitrary<std::uint32_t>());
    const auto below = [&](std::uint64_t n) { return random() % n; };
    test.store.conflict_at_random(5);
    for (int step = 0; step < 60; ++step) {
      const std::uint64_t at = below(kLimit + 10);
      const std::uint64_t length = below(30);
      switch (below(6)) {
        case 0:
        case 1: {
          const std::string text(length, static_cast<char>('a' + step % 26));
          const auto written = test.try_write(f, at, text);
          RC_ASSERT(written.has_value());
          RC_ASSERT(written->has_value() == (at + length <= kLimit));
          if (!*written || length == 0) break;
          if (model.size() < at + length) model.resize(at + length);
          model.replace(at, length, text);
          RC_ASSERT((*written)->size == model.size());
          break;
        }
        case 2:
          RC_ASSERT(test.cut(f, at).has_value());
          model.resize(at);
          break;
        case 3:
          RC_ASSERT(test.names->punch_inline(f, at, length).value().has_value());
          for (std::uint64_t i = at; i < at + length && i < model.size(); ++i) model[i] = '\0';
          break;
        case 4:
          test.store.lose_power();
          test.open();
          break;
        default: RC_ASSERT(test.content(f) == model);
      }
    }
    RC_ASSERT(test.content(f) == model);
    RC_ASSERT(fsck(test.store.latest()).value().clean());
  }));
}

TEST_CASE_METHOD(InlineTest, "fsck holds inline bytes against the files") {
  const FileId f = file(kRootFileId, "f");
  write(f, 0, "12345");
  const auto put = [&](const std::string& key, const std::string& value) {
    REQUIRE(store.run([&](Transaction& transaction) -> Result<> {
      transaction.put(key, value);
      return {};
    }));
  };
  const auto report = [&] { return fsck(store.latest()).value(); };
  CHECK(report().inline_files == 1);
  CHECK(report().inline_bytes == 5);
  ProblemKind wanted = ProblemKind::kInline;
  SECTION("of nothing") { put(keys::inline_bytes(999), encode(InlineRecord{"x"})); }
  SECTION("of a directory") { put(keys::inline_bytes(kRootFileId), encode(InlineRecord{"x"})); }
  SECTION("behind the end") { put(keys::inline_bytes(f), encode(InlineRecord{"123456"})); }
  SECTION("here and at objects") {
    REQUIRE(names->begin_growth(f, striped({1})));
    REQUIRE(store.run([&](Transaction& transaction) -> Result<> {
      transaction.erase(keys::growing(f));
      return {};
    }));
  }
  SECTION("growing without a layout") { put(keys::growing(f), ""); }
  SECTION("growing without its bytes") {
    REQUIRE(names->begin_growth(f, striped({1})));
    REQUIRE(store.run([&](Transaction& transaction) -> Result<> {
      transaction.erase(keys::inline_bytes(f));
      return {};
    }));
  }
  SECTION("malformed") {
    put(keys::inline_bytes(f), "x");
    wanted = ProblemKind::kMalformed;
  }
  const FsckReport found = report();
  REQUIRE(found.problem_count == 1);
  CHECK(found.problems.front().kind == wanted);
}

TEST_CASE("the store counts inline files, and files without bytes leave nothing among them") {
  AnyStore store(Engine::kRocks);
  auto opened = Namespace::open(*store);
  REQUIRE(opened);
  Namespace& names = **opened;
  const auto make = [&](const std::string& name) {
    auto made = names.create(kSuperuser, kRootFileId, name, {.mode = 0644, .uid = 10, .gid = 20});
    REQUIRE(made);
    return made->attributes.id;
  };
  const auto remove = [&](const std::string& name) {
    REQUIRE(names.remove(kSuperuser, kRootFileId, name));
  };
  const std::string text = "text";
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  for (int i = 0; i < 20; ++i) {
    const auto written =
        names.write_inline(make("w" + std::to_string(i)), 0, Namespace::Pieces(&bytes, 1), kLimit);
    REQUIRE(written);
    make("e" + std::to_string(i));
  }
  CHECK(store->health().inline_files == 20);
  for (int i = 0; i < 20; ++i) remove("e" + std::to_string(i));
  CHECK(store->health().inline_files == 20);
  for (int i = 0; i < 5; ++i) remove("w" + std::to_string(i));
  CHECK(store->health().inline_files == 15);
}
