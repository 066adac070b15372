#include "dataserver/store/removals.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <set>

namespace weft::ds {
namespace {

using layout::ObjectId;

// Four folders in memory. What was unlinked is durable once its folder was synced.
struct Folders {
  static std::uint32_t folder_of(const ObjectId& object) {
    return static_cast<std::uint32_t>(object.fileid % 4);
  }
  Removals::Parts parts() {
    return {.unlink = [this](const ObjectId& object) -> Result<> {
              if (gate) std::exchange(gate, std::nullopt)->wait();
              if (broken.contains(object)) return fail(Errc::kIo, "unlink");
              unlinked.insert(object);
              return {};
            },
            .sync = [this](std::uint32_t folder) -> Result<> {
              ++syncs[folder];
              if (folder == unsynced) return fail(Errc::kIo, "sync");
              std::ranges::copy_if(unlinked, std::inserter(durable, durable.end()),
                                   [&](const ObjectId& one) { return folder_of(one) == folder; });
              return {};
            },
            .folder_of = folder_of};
  }

  std::optional<std::future<void>> gate;  // the first removal waits for it
  std::set<ObjectId> broken;
  std::optional<std::uint32_t> unsynced;
  std::set<ObjectId> unlinked;
  std::set<ObjectId> durable;
  std::map<std::uint32_t, int> syncs;
};

TEST_CASE("a thousand removals sync each folder once, and are durable when they are answered") {
  Folders folders;
  std::promise<void> open;
  folders.gate = open.get_future();
  std::size_t answered = 0;
  Removals removals(folders.parts());
  const auto add = [&](std::uint64_t id) {
    const ObjectId object{.fileid = id, .generation = 1};
    removals.add(object, [&, object](const Result<>& result) {
      answered += result && folders.durable.contains(object) ? 1 : 0;
    });
  };
  add(0);
  for (std::uint64_t id = 1; id <= 1000; ++id) add(id);
  open.set_value();
  removals.join();
  CHECK(answered == 1001);
  int syncs = 0;
  for (const auto& [folder, times] : folders.syncs) syncs += times;
  CHECK(syncs <= 2 * 4);
}

TEST_CASE("an object that is not unlinked, or a folder that is not synced, fails for itself") {
  Folders folders;
  folders.broken = {{.fileid = 1, .generation = 1}};
  folders.unsynced = 2;
  std::map<std::uint64_t, bool> done;
  Removals removals(folders.parts());
  for (std::uint64_t id = 0; id < 8; ++id) {
    removals.add({.fileid = id, .generation = 1},
                 [&, id](const Result<>& result) { done[id] = result.has_value(); });
  }
  removals.join();
  CHECK(done == std::map<std::uint64_t, bool>{{0, true},
                                              {1, false},
                                              {2, false},
                                              {3, true},
                                              {4, true},
                                              {5, true},
                                              {6, false},
                                              {7, true}});
}

}  // namespace
}  // namespace weft::ds
