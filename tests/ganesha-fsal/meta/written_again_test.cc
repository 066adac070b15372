// Writes in place, over and over: one change of the file for all between two looks at it.
#include <catch2/generators/catch_generators.hpp>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

class WrittenAgainTest : public NamespaceTest {
 public:
  // A stable write, as the metadata server takes the report of one.
  InodeAttributes write(std::uint64_t end = kSize) {
    const Growth growth{.id = f, .end = end};
    const auto grown = names->grow({&growth, 1}, Namespace::Again::kExpected);
    REQUIRE(grown);
    REQUIRE(grown->front());
    names->settled_write(*grown->front());
    return *grown->front();
  }
  bool again(std::uint64_t end = kSize) { return names->written_again(f, end); }

  static constexpr std::uint64_t kSize = 100;
  FileId f = file(kRootFileId, "f");
};

}  // namespace

TEST_CASE_METHOD(WrittenAgainTest, "writes that nobody looks between are one change") {
  const auto before = attributes(f);
  CHECK_FALSE(again());
  const auto first = write();
  CHECK(first.change == before.change + 1);
  const auto commits = store.commits();
  for (int i = 0; i < 5; ++i) {
    now_ns += 10;
    CHECK(again());
    CHECK(again(kSize / 2));
  }
  CHECK(store.commits() == commits);
  const auto after = attributes(f);
  CHECK(after.change == first.change);
  CHECK(after.mtime_ns == now_ns);  // of the last of them
  CHECK(after.ctime_ns == now_ns);
  CHECK_FALSE(again());
  CHECK(write().change == after.change + 1);
  check_clean();
}

TEST_CASE_METHOD(WrittenAgainTest, "a store that takes no change tells what it has") {
  const auto first = write();
  now_ns += 10;
  REQUIRE(again());
  const Errc code = GENERATE(Errc::kNoSpace, Errc::kBusy);
  store.fail_commits(code, 0, 1000);
  SECTION("by its number") {
    const auto told = names->getattr(f);
    REQUIRE(told);
    CHECK(told->change == first.change);
    CHECK(told->mtime_ns == first.mtime_ns);
  }
  SECTION("by its name") { CHECK(names->lookup(kRootFileId, "f")->change == first.change); }
  SECTION("in a directory") {
    const auto page = names->readdir(kRootFileId, 0, 10, true);
    REQUIRE(page);
    REQUIRE(page->entries.size() == 1);
    CHECK(page->entries.front().attributes->change == first.change);
  }
  SECTION("to who opens it") { CHECK(names->hold(f)->change == first.change); }
  store.fail_commits(code, 0, 0);
  CHECK_FALSE(again());  // it was told: the next write is another change
  CHECK(write().change == first.change + 1);
}

TEST_CASE_METHOD(WrittenAgainTest, "nothing is left out before the first write is known") {
  const Growth growth{.id = f, .end = kSize};
  const auto grown = names->grow({&growth, 1}, Namespace::Again::kExpected);
  REQUIRE(grown);
  CHECK_FALSE(again());
  SECTION("it becomes known") {
    names->settled_write(*grown->front());
    CHECK(again());
  }
  SECTION("after somebody has looked") {
    attributes(f);
    names->settled_write(*grown->front());
    CHECK_FALSE(again());
  }
  SECTION("after another") {
    REQUIRE(names->grow({&growth, 1}, Namespace::Again::kExpected));
    names->settled_write(*grown->front());
    CHECK_FALSE(again());
  }
  SECTION("of who does not say that it goes on") {
    const auto other = write();
    REQUIRE(names->grow_size(growth));
    names->settled_write(other);
    CHECK_FALSE(again());
  }
}

TEST_CASE_METHOD(WrittenAgainTest, "a write that makes the file longer is a change") {
  write();
  CHECK(again());
  CHECK_FALSE(again(kSize + 1));
  const auto longer = write(kSize + 1);
  CHECK(longer.size == kSize + 1);
  CHECK(again(kSize + 1));
  REQUIRE(names->setattr(kSuperuser, f, {.size = kSize}));
  CHECK_FALSE(again(kSize + 1));
  CHECK_FALSE(again());
}

TEST_CASE_METHOD(WrittenAgainTest, "whoever is told of the file ends it, and hears the time") {
  const auto of_page = [&] {
    const auto page = names->readdir(kRootFileId, 0, 10, true);
    REQUIRE(page);
    REQUIRE(page->entries.front().id == f);
    return *page->entries.front().attributes;
  };
  const auto held = [&] {
    const auto got = names->hold(f);
    REQUIRE(got);
    REQUIRE(names->release(f));
    return *got;
  };
  const std::vector<std::function<InodeAttributes()>> ways = {
      [&] { return *names->getattr(f); },
      [&] { return *names->lookup(kRootFileId, "f"); },
      [&] { return *names->lookup_path("/f"); },
      of_page,
      held,
      [&] {
        return names->create(kSuperuser, kRootFileId, "f", {}, CreateHow::kUnchecked)->attributes;
      },
      [&] { return names->setattr(kSuperuser, f, {.mode = 0600})->after; },
      [&] { return names->setattr(kSuperuser, f, {.mode = 0600})->before; },
      [&] { return *names->set_xattr(f, "user.a", "b", Namespace::XattrHow::kEither); },
      [&] { return names->link(kSuperuser, f, kRootFileId, "g")->attributes; },
      [&] { return names->rename(kSuperuser, kRootFileId, "g", kRootFileId, "h")->moved; },
      [&] { return names->remove(kSuperuser, kRootFileId, "h")->attributes; },
      [&] { return *names->grow_size({.id = f, .end = 0, .mtime_ns = 1}); },
  };
  for (std::size_t way = 0; way < ways.size(); ++way) {
    CAPTURE(way);
    const auto first = write();
    now_ns += 10;
    CHECK(again());
    const std::int64_t written = now_ns;
    now_ns += 10;
    const auto told = ways[way]();
    CHECK(told.change >= first.change);
    CHECK(told.mtime_ns >= written);
    CHECK(told.ctime_ns >= written);
    CHECK_FALSE(again());
    // It is durable, too.
    store.lose_power();
    open();
    CHECK(attributes(f).mtime_ns >= written);
    CHECK(attributes(f).change >= told.change);
    CHECK(write().change > told.change);
  }
  check_clean();
}

TEST_CASE_METHOD(WrittenAgainTest, "the server's own question for the size is no look") {
  write();
  CHECK(names->size(f) == kSize);
  CHECK(again());
  CHECK(names->size(999).error() == Errc::kStale);
}

TEST_CASE_METHOD(WrittenAgainTest, "the times in the store are a second old at most") {
  const auto first = write();
  now_ns += 999'999'999;
  CHECK(again());
  now_ns += 1;
  CHECK_FALSE(again());
  CHECK(write().change == first.change + 1);
  now_ns -= 10;
  CHECK_FALSE(again());  // a clock that was set back
}

TEST_CASE_METHOD(WrittenAgainTest, "with the record of writers the time goes into the store") {
  REQUIRE(names->begin_writing(f, striped({1})));
  write();
  now_ns += 10;
  CHECK(again());
  REQUIRE(names->end_writing({&f, 1}));
  CHECK_FALSE(again());
  open();
  CHECK(attributes(f).mtime_ns == now_ns);
}

TEST_CASE_METHOD(WrittenAgainTest, "a file that is removed is forgotten") {
  write();
  CHECK(again());
  REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
  CHECK_FALSE(again());
}

TEST_CASE("a bounded number of files is remembered, and none whose time would be lost") {
  InodeLocks locks;
  constexpr FileId kFiles = 200'000;
  const auto remember = [&](FileId id) {
    locks.remember({.id = id, .change = 1, .size = 10, .stored_ns = 5, .written_ns = 5});
    locks.set_known(id, 1);
  };
  for (FileId id = 1; id <= 100; ++id) {
    remember(id);
    CHECK(locks.write_again(id, 10, 6));
  }
  for (FileId id = 101; id <= kFiles; ++id) remember(id);
  std::size_t left = 0;
  for (FileId id = 1; id <= kFiles; ++id) left += locks.untold(id) ? 1 : 0;
  CHECK(left > 4096);
  CHECK(left <= 4096 * 16);
  for (FileId id = 1; id <= 100; ++id) CHECK(locks.untold(id));
}

// What a client that keeps what it has read relies on: a `change` that it is told again stands for
// what it stood for. The number of the last write is the content.
TEST_CASE("a change is told of one content only, whatever a crash takes back") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    MemoryKv store(seed);
    std::int64_t now = 1'000;
    std::unique_ptr<Namespace> names;
    const auto open = [&] {
      names.reset();
      auto opened = Namespace::open(store, {.now_ns = [&] { return now; }});
      REQUIRE(opened);
      names = std::move(*opened);
    };
    open();
    const auto made = names->create(kSuperuser, kRootFileId, "f", {.mode = 0644});
    REQUIRE(made);
    const FileId f = made->attributes.id;
    std::uint64_t content = 0;
    std::uint64_t size = 0;
    std::map<std::uint64_t, std::uint64_t> contents;  // by change
    std::uint64_t greatest = 0;
    std::uint64_t skipped = 0;
    for (int step = 0; step < 400; ++step) {
      now += static_cast<std::int64_t>(random() % 100'000'000);
      switch (random() % 8) {
        case 0: {
          const auto told = names->getattr(f);
          REQUIRE(told);
          CHECK(told->change >= greatest);
          CHECK(told->size == size);
          CHECK(contents.try_emplace(told->change, content).first->second == content);
          greatest = told->change;
          break;
        }
        case 1:
          if (random() % 4 != 0) break;
          store.lose_power();
          open();
          break;
        default: {
          const Growth growth{.id = f, .end = 1 + (random() % 20 == 0 ? size : size / 2)};
          ++content;
          if (names->written_again(f, growth.end)) {
            ++skipped;
            break;
          }
          const auto grown = names->grow({&growth, 1}, Namespace::Again::kExpected);
          REQUIRE(grown);
          size = grown->front()->size;
          // A server that dies before it answers has told nobody.
          if (random() % 8 != 0) names->settled_write(*grown->front());
        }
      }
    }
    CHECK(skipped > 0);
  }
}

TEST_CASE("whoever looks while others write sees each write that was answered before") {
  MemoryKv store;
  auto opened = Namespace::open(store);
  REQUIRE(opened);
  Namespace& names = **opened;
  const FileId f = names.create(kSuperuser, kRootFileId, "f", {})->attributes.id;
  const Growth growth{.id = f, .end = 10};
  std::atomic<std::uint64_t> begun = 0;
  std::atomic<std::uint64_t> answered = 0;
  std::atomic<std::uint64_t> skipped = 0;
  std::atomic<bool> stop = false;
  std::mutex mutex;
  std::map<std::uint64_t, std::uint64_t> told;  // `change`: writes that had begun
  std::uint64_t wrong = 0;
  std::jthread writer([&] {
    while (!stop) {
      const std::uint64_t write = ++begun;
      if (names.written_again(f, growth.end)) {
        ++skipped;
      } else if (const auto grown = names.grow({&growth, 1}, Namespace::Again::kExpected)) {
        names.settled_write(*grown->front());
      }
      answered = write;
    }
  });
  const auto look = [&](bool by_name) {
    for (int i = 0; i < 2'000; ++i) {
      const std::uint64_t before = answered;
      const auto got = by_name ? names.lookup(kRootFileId, "f") : names.getattr(f);
      const std::uint64_t after = begun;
      const std::lock_guard lock(mutex);
      if (!got || told.try_emplace(got->change, after).first->second < before) ++wrong;
    }
  };
  {
    const std::jthread by_name([&] { look(true); });
    const std::jthread by_number([&] { look(false); });
  }
  while (skipped == 0) std::this_thread::yield();
  stop = true;
  writer.join();
  CHECK(wrong == 0);
}
