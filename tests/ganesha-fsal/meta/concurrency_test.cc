// Many threads in one namespace. Run under tsan as well.
#include <catch2/generators/catch_generators.hpp>
#include <functional>
#include <random>
#include <thread>

#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

constexpr int kThreads = 8;

void in_threads(const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&body, i] { body(i); });
}

void check_clean(KvStore& store) {
  auto report = fsck(*store.snapshot());
  REQUIRE(report);
  for (const Problem& problem : report->problems) {
    UNSCOPED_INFO(to_string(problem.kind) << " inode " << problem.id << ": " << problem.text);
  }
  CHECK(report->clean());
}

Engine any_engine() { return GENERATE(Engine::kMemory, Engine::kRocks); }

}  // namespace

TEST_CASE("creates in one directory from many threads all succeed") {
  AnyStore store(any_engine());
  auto names = Namespace::open(*store);
  REQUIRE(names);
  std::atomic<int> failed = 0;
  in_threads([&](int thread) {
    for (int i = 0; i < 100; ++i) {
      const std::string name = std::to_string(thread) + "." + std::to_string(i);
      auto made = (*names)->create(kSuperuser, kRootFileId, name, {});
      if (!made || made->parent.after.size != made->parent.before.size + 1) ++failed;
    }
  });
  CHECK(failed == 0);
  CHECK((*names)->getattr(kRootFileId)->size == kThreads * 100);
  check_clean(*store);
}

TEST_CASE("of many that create the same name one wins, and of many that remove it") {
  AnyStore store(any_engine());
  auto names = Namespace::open(*store);
  REQUIRE(names);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> made = 0;
    std::atomic<int> removed = 0;
    std::atomic<int> wrong = 0;
    in_threads([&](int) {
      auto result = (*names)->create(kSuperuser, kRootFileId, "x", {});
      if (result) ++made;
      if (!result && result.error().code != Errc::kExists) ++wrong;
    });
    in_threads([&](int) {
      auto result = (*names)->remove(kSuperuser, kRootFileId, "x");
      if (result) ++removed;
      if (!result && result.error().code != Errc::kNotFound) ++wrong;
    });
    CHECK(made == 1);
    CHECK(removed == 1);
    CHECK(wrong == 0);
  }
  check_clean(*store);
}

TEST_CASE("directories moved into each other at once never make a circle") {
  AnyStore store(any_engine());
  auto names = Namespace::open(*store);
  REQUIRE(names);
  std::vector<FileId> dirs;
  for (int i = 0; i < 6; ++i) {
    dirs.push_back((*names)->mkdir(kSuperuser, kRootFileId, std::to_string(i), {})->attributes.id);
  }
  std::atomic<int> wrong = 0;
  in_threads([&](int thread) {
    std::mt19937 random(static_cast<unsigned>(thread));
    for (int i = 0; i < 150; ++i) {
      const std::size_t which = random() % dirs.size();
      const std::string name = std::to_string(which);
      auto from = (*names)->lookup(dirs[which], "..");
      if (!from) ++wrong;
      if (!from) continue;
      const FileId to = random() % 3 == 0 ? kRootFileId : dirs[random() % dirs.size()];
      auto moved = (*names)->rename(kSuperuser, from->id, name, to, name);
      // Not found: another moved it away meanwhile.
      if (!moved && moved.error().code != Errc::kInvalid && moved.error().code != Errc::kNotFound) {
        ++wrong;
      }
    }
  });
  CHECK(wrong == 0);
  check_clean(*store);
}

TEST_CASE("everything at once leaves a clean store") {
  AnyStore store(any_engine());
  auto names = Namespace::open(*store);
  REQUIRE(names);
  Namespace& ns = **names;
  const FileId a = ns.mkdir(kSuperuser, kRootFileId, "a", {})->attributes.id;
  const FileId b = ns.mkdir(kSuperuser, kRootFileId, "b", {})->attributes.id;
  std::atomic<int> broken = 0;  // errors that no race explains
  const auto note = [&](const auto& result) {
    if (result) return;
    const Errc code = result.error().code;
    if (code == Errc::kConflict || code == Errc::kCorrupt || code == Errc::kIo ||
        code == Errc::kInternal) {
      ++broken;
    }
  };
  in_threads([&](int thread) {
    std::mt19937 random(static_cast<unsigned>(thread) + 100);
    for (int i = 0; i < 200; ++i) {
      const FileId dir = random() % 2 == 0 ? a : b;
      const FileId other = random() % 2 == 0 ? a : b;
      const std::string name = std::to_string(random() % 8);
      const std::string to = std::to_string(random() % 8);
      auto found = ns.lookup(dir, name);
      note(found);
      const FileId id = found ? found->id : 0;
      switch (random() % 9) {
        case 0: note(ns.create(kSuperuser, dir, name, {}, CreateHow::kUnchecked)); break;
        case 1: note(ns.mkdir(kSuperuser, dir, name, {})); break;
        case 2: note(ns.remove(kSuperuser, dir, name)); break;
        case 3: note(ns.rename(kSuperuser, dir, name, other, to)); break;
        case 4: note(ns.link(kSuperuser, id, other, to)); break;
        case 5: note(ns.readdir(dir, 0, 100, true)); break;
        case 6: note(ns.grow_size({.id = id, .end = 10})); break;
        case 7: note(ns.setattr(kSuperuser, id, {.mode = 0600})); break;
        default:
          if (ns.hold(id)) note(ns.release(id));
      }
    }
  });
  CHECK(broken == 0);
  check_clean(*store);
}

TEST_CASE_METHOD(NamespaceTest, "what is committed and not durable is told to nobody") {
  const FileId d = dir(kRootFileId, "d");
  store.fail_sync(Errc::kIo);
  CHECK(names->create(kSuperuser, d, "a", {}).error() == Errc::kIo);
  CHECK(names->lookup(d, "a").error() == Errc::kIo);
  CHECK(names->getattr(d).error() == Errc::kIo);
  CHECK(names->readdir(d, 0, 10, false).error() == Errc::kIo);
  // What was durable before is still read.
  CHECK(names->getattr(kRootFileId));
}
