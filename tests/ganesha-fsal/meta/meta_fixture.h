// What the metadata tests share: stores of both kinds, a namespace with a clock of its own.
#pragma once

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "ganesha-fsal/meta/fsck.h"
#include "ganesha-fsal/meta/kv/rocks_kv.h"
#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/meta/schema/keys.h"
#include "tests/ganesha-fsal/meta/memory_kv.h"

namespace weft::mds {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "weft-meta-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string path(std::string_view name = "store") const {
    return path_ + "/" + std::string(name);
  }

 private:
  std::string path_;
};

// Small sizes: tests open many.
inline RocksOptions small_rocks(const std::string& path) {
  return {.path = path,
          .block_cache_bytes = 1U << 20,
          .write_buffer_bytes = 4U << 20,
          .clock = system_clock()};
}

// For tests that fork: ThreadSanitizer cannot follow threads that a forked child starts.
inline void skip_under_tsan() {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  SKIP("forks, which ThreadSanitizer cannot follow");
#endif
#endif
}

enum class Engine { kMemory, kRocks };

// A store of the engine that the test is being run for.
class AnyStore {
 public:
  explicit AnyStore(Engine engine) {
    if (engine == Engine::kMemory) {
      store_ = std::make_unique<MemoryKv>();
      return;
    }
    folder_ = std::make_unique<TempFolder>();
    auto opened = open_rocks_kv(small_rocks(folder_->path()));
    REQUIRE(opened);
    store_ = std::move(*opened);
  }
  [[nodiscard]] KvStore& operator*() { return *store_; }
  [[nodiscard]] KvStore* operator->() { return store_.get(); }

 private:
  std::unique_ptr<TempFolder> folder_;  // goes after the store
  std::unique_ptr<KvStore> store_;
};

// A store in memory, and short forms of what tests do with the namespace over it. `Names` is how
// that is held.
template <class Names>
class NamespaceCalls {
 public:
  FileId file(FileId dir, std::string_view name) {
    auto made = names->create(kSuperuser, dir, name, {.mode = 0644, .uid = 10, .gid = 20});
    REQUIRE(made);
    return made->attributes.id;
  }
  FileId dir(FileId parent, std::string_view name) {
    auto made = names->mkdir(kSuperuser, parent, name, {.mode = 0755, .uid = 10, .gid = 20});
    REQUIRE(made);
    return made->attributes.id;
  }
  InodeAttributes attributes(FileId id) {
    auto got = names->getattr(id);
    REQUIRE(got);
    return *got;
  }
  // One copy, or two.
  static Namespace::MakeLayout striped(std::vector<std::uint32_t> ds_ids,
                                       std::vector<std::uint32_t> mirror = {}) {
    return [=](const InodeAttributes&) -> Result<layout::LayoutMap> {
      layout::LayoutMap made;
      made.stripe_unit = 1 << 20;
      made.copies.push_back({layout::CopyState::kCurrent, 0, ds_ids});
      if (!mirror.empty()) made.copies.push_back({layout::CopyState::kCurrent, 0, mirror});
      return made;
    };
  }
  layout::LayoutMap layout_of(FileId id, std::vector<std::uint32_t> ds_ids = {1, 2, 3},
                              std::vector<std::uint32_t> mirror = {}) {
    auto map = names->ensure_layout(id, striped(std::move(ds_ids), std::move(mirror)));
    REQUIRE(map);
    return *map;
  }
  // A file with one stripe and three copies: at 1, 2 and 3.
  FileId tripled(std::string_view name) {
    const FileId id = file(kRootFileId, name);
    REQUIRE(names->ensure_layout(id, [](const InodeAttributes&) -> Result<layout::LayoutMap> {
      layout::LayoutMap made;
      made.stripe_unit = 1 << 20;
      for (const std::uint32_t ds_id : {1U, 2U, 3U}) {
        made.copies.push_back({layout::CopyState::kCurrent, 0, {ds_id}, {}});
      }
      return made;
    }));
    return id;
  }
  // For files that have a layout.
  static Result<layout::LayoutMap> no_layout(const InodeAttributes&) {
    return fail(Errc::kInternal, "made without need");
  }
  void check_clean() {
    auto report = fsck(store.latest());
    REQUIRE(report);
    for (const Problem& problem : report->problems) {
      UNSCOPED_INFO(to_string(problem.kind) << " inode " << problem.id << ": " << problem.text);
    }
    CHECK(report->clean());
  }

  MemoryKv store;
  Names names{};
};

// The namespace alone; the clock stands unless told.
class NamespaceTest : public NamespaceCalls<std::unique_ptr<Namespace>> {
 public:
  NamespaceTest() { open(); }

  void open() {
    names.reset();
    auto opened = Namespace::open(
        store, {.now_ns = [this] { return now_ns.load(); }, .max_links = 5, .fsid = 7});
    REQUIRE(opened);
    names = std::move(*opened);
  }
  // Also that the journal of stale objects was counted right. No other thread changes it now.
  void check_clean() {
    NamespaceCalls::check_clean();
    std::map<std::uint32_t, std::uint64_t> stale;
    const keys::Range range = keys::all_stale();
    REQUIRE(store.latest().scan(range.begin, range.end, SIZE_MAX, [&](auto key, auto) {
      ++stale[keys::parse_stale(key)->ds_id];
      return true;
    }));
    CHECK(names->stale_counts() == stale);
  }

  std::atomic<std::int64_t> now_ns{1'000};
};

}  // namespace weft::mds
