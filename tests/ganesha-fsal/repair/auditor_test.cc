// Audit: which objects are strays, and what becomes of them.
#include "ganesha-fsal/repair/auditor.h"

#include <algorithm>
#include <atomic>

#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;
using namespace std::chrono_literals;

namespace {

// Data servers list what they have, two objects a page, in the order of their names.
class AuditTest : public NamespaceTest {
 public:
  AuditTest() : auditor(parts()) {
    now_ns = 1'790'000'000'000'000'000;
    auditor.start();
  }

  Auditor::Parts parts() {
    return {
        .names = *names,
        .servers =
            [this] {
              std::vector<Auditor::Parts::Server> servers;
              for (const auto& [id, objects] : held) servers.push_back({id, id != away});
              return servers;
            },
        .list = [this](std::uint32_t id, const control::ListFrom& from) { return page(id, from); },
        .stat = [this](std::uint32_t id,
                       const layout::ObjectId& object) -> Result<control::ObjectStat> {
          if (before_stat) before_stat(object);
          const bool there = std::ranges::count(held[id], object) > 0;
          return control::ObjectStat{.exists = there, .size = 10, .allocated = 4096};
        },
        .removals = [this] { ++kicks; },
        .limits = {.most_found = 3, .tries = 2, .between = 1ms},
        .clock = system_clock()};
  }
  Result<control::Listed> page(std::uint32_t id, const control::ListFrom& from) {
    if (failures > 0) {
      --failures;
      return fail(Errc::kTimedOut, "slow");
    }
    std::ranges::sort(held[id]);
    auto at = std::ranges::upper_bound(held[id], from.after);
    control::Listed listed;
    for (; at != held[id].end() && listed.objects.size() < 2; ++at) listed.objects.push_back(*at);
    listed.more = at != held[id].end();
    if (listed.more && !stuck) listed.next = {0, listed.objects.back()};
    return listed;
  }
  layout::ObjectId made(std::string_view name, std::uint32_t ds_id) {
    const FileId f = file(kRootFileId, name);
    const auto object = names->object_of(f, layout_of(f, {ds_id}));
    held[ds_id].push_back(object);
    return object;
  }
  // Its file is removed, and its removal acknowledged; the object is there.
  layout::ObjectId stray(std::string_view name, std::uint32_t ds_id) {
    const auto object = made(name, ds_id);
    REQUIRE(names->remove(kSuperuser, kRootFileId, name));
    REQUIRE(names->finish_removals({&object, 1}, {&ds_id, 1}));
    return object;
  }
  AuditState run(bool only_tell) {
    REQUIRE(auditor.begin(only_tell));
    for (int i = 0; i < 2000; ++i) {
      const AuditState state = auditor.state();
      if (!state.running) return state;
      std::this_thread::sleep_for(1ms);
    }
    FAIL("it does not end");
    return {};
  }

  std::map<std::uint32_t, std::vector<layout::ObjectId>> held;
  std::uint32_t away = 0;
  int failures = 0;
  bool stuck = false;
  std::atomic<int> kicks{0};
  std::function<void(const layout::ObjectId&)> before_stat;
  Auditor auditor;  // last: its thread uses the rest
};

}  // namespace

TEST_CASE_METHOD(AuditTest, "strays are told of, and removed unless they are only to be told of") {
  for (const char* name : {"a", "b", "c", "d", "e"}) made(name, 1);
  const auto left = stray("gone", 1);
  made("f", 2);
  AuditState state = run(true);
  CHECK(state.servers == 2);
  CHECK(state.objects == 7);
  CHECK(state.strays == 1);
  CHECK(state.removed == 0);
  CHECK(state.bytes == 4096);
  CHECK(state.found == std::vector<Stray>{{1, left, 4096, Stray::Is::kLeft}});
  CHECK(names->pending_removals({}, 10)->empty());
  CHECK(kicks == 0);

  state = run(false);
  CHECK(state.strays == 1);
  CHECK(state.removed == 1);
  CHECK(state.found == std::vector<Stray>{{1, left, 4096, Stray::Is::kRemoved}});
  const auto pending = names->pending_removals({}, 10);
  REQUIRE(pending->size() == 1);
  CHECK((*pending)[0].object == left);
  CHECK(kicks == 1);
  // It waits for its removal now.
  CHECK(run(false).strays == 0);
  CHECK(auditor.state().rounds == 3);
}

TEST_CASE_METHOD(AuditTest, "what goes while it is looked at is none") {
  stray("going", 1);
  before_stat = [&](const layout::ObjectId&) { held[1].clear(); };
  const AuditState state = run(false);
  CHECK(state.strays == 0);
  CHECK(names->pending_removals({}, 10)->empty());
}

TEST_CASE_METHOD(AuditTest, "objects of files that were never made here are left, and told of") {
  const layout::ObjectId later{std::uint64_t{1} << 40, 1, 7};
  const layout::ObjectId other{kRootFileId + 1, 1, 8};
  held[1] = {later, other};
  const AuditState state = run(false);
  CHECK(state.strays == 0);
  CHECK(state.foreign == 2);
  CHECK(std::ranges::all_of(state.found,
                            [](const Stray& one) { return one.is == Stray::Is::kForeign; }));
  CHECK(names->pending_removals({}, 10)->empty());
}

TEST_CASE_METHOD(AuditTest, "data servers that cannot be gone through are named, the others are") {
  stray("x", 1);
  made("y", 2);
  made("z", 3);
  away = 2;
  failures = 1;  // and the second time it answers
  AuditState state = run(true);
  CHECK(state.servers == 2);
  CHECK(state.strays == 1);
  REQUIRE(state.failures.size() == 1);
  CHECK(state.failures[0].ds_id == 2);

  failures = 2;
  state = run(true);
  REQUIRE(state.failures.size() == 2);
  CHECK(state.failures[0].ds_id == 1);
}

TEST_CASE_METHOD(AuditTest, "a list that does not go on ends the audit of its data server") {
  for (const char* name : {"a", "b", "c", "d", "e"}) made(name, 1);
  stuck = true;
  CHECK(run(true).failures.size() == 1);
}

TEST_CASE_METHOD(AuditTest, "more strays than are listed are counted, and an audit can be ended") {
  for (const char* name : {"a", "b", "c", "d", "e"}) stray(name, 1);
  AuditState state = run(true);
  CHECK(state.strays == 5);
  CHECK(state.found.size() == 3);

  std::atomic<bool> hold{true};
  before_stat = [&](const layout::ObjectId&) {
    while (hold) std::this_thread::sleep_for(1ms);
  };
  REQUIRE(auditor.begin(false));
  CHECK(auditor.begin(false).error() == Errc::kBusy);
  CHECK(auditor.end());
  hold = false;
  for (int i = 0; i < 2000 && auditor.state().running; ++i) std::this_thread::sleep_for(1ms);
  state = auditor.state();
  CHECK_FALSE(state.running);
  CHECK(state.strays <= 1);
  CHECK_FALSE(auditor.end());
}
