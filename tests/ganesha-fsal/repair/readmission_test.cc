// Reviews of stores that are not in the state they were accepted in last, over a namespace in
// memory.
#include "ganesha-fsal/repair/readmission.h"

#include <algorithm>

#include "layout/relocation.h"
#include "tests/ganesha-fsal/repair/fake_copy_servers.h"

using namespace weft;
using namespace weft::mds;
using namespace std::chrono_literals;
using layout::CopyState;

namespace {

constexpr control::StoreState kOld{3, 77};

struct ReadmissionTest : RepairTest {
  ReadmissionTest()
      : readmission(
            {.names = *names,
             .foreign =
                 [this] {
                   ++looks;
                   return asks ? std::vector<Registry::Foreign>{{.ds_id = 1,
                                                                 .name = "ds1",
                                                                 .state = kOld,
                                                                 .as_is = as_is}}
                               : std::vector<Registry::Foreign>{};
                 },
             .lapse = [this](std::uint32_t) { return lapsed; },
             .mark = [this](FileId file, std::uint32_t ds_id) { return mark(file, ds_id); },
             .fence =
                 [this](std::uint32_t ds_id, std::span<const control::Fence> recorded) {
                   REQUIRE(ds_id == 1);
                   REQUIRE(recorded.size() <= control::kMaxFences);
                   fences.insert(fences.end(), recorded.begin(), recorded.end());
                   return fence_outcome;
                 },
             .explain = [this](std::uint32_t, std::string text) { why = std::move(text); },
             .admit = [this](std::uint32_t ds_id, const control::StoreState& state) -> Result<> {
               REQUIRE(ds_id == 1);
               admitted = state;
               return {};
             },
             .limits = {.page = 2, .retry = 0ms, .look_again = look_again},
             .clock = clock}) {}

  // As Mirrors does.
  Result<> mark(FileId file, std::uint32_t ds_id) {
    if (mark_outcome && file == fails) return fail(*mark_outcome, "not now");
    const auto map = **names->layout(file);
    const auto seat = layout::seat_of(map, ds_id);
    auto marked = names->mark_stale({.id = file,
                                     .copy = static_cast<std::uint32_t>(seat->copy),
                                     .ds_id = ds_id,
                                     .dirty = {{0, kMaxFileSize}}});
    return marked ? Result<>() : pass(marked);
  }
  FileId make(const std::string& name, std::vector<std::vector<std::uint32_t>> copies) {
    const FileId id = file(kRootFileId, name);
    REQUIRE(names->ensure_layout(id, [&](const InodeAttributes&) -> Result<layout::LayoutMap> {
      layout::LayoutMap map;
      map.stripe_unit = 1 << 20;
      for (auto& servers : copies) map.copies.push_back({CopyState::kCurrent, 0, servers, {}});
      return map;
    }));
    return id;
  }
  CopyState state_of(FileId file) {
    const auto map = **names->layout(file);
    const auto seat = *layout::seat_of(map, 1);
    return map.copies[seat.copy].state_of(seat.stripe);
  }
  bool fenced(FileId file) {
    const auto map = **names->layout(file);
    return std::ranges::any_of(fences, [&](const control::Fence& fence) {
      return fence.what == control::Fence::What::kObject && fence.object.fileid == file &&
             fence.epoch == map.object_epoch;
    });
  }

  bool asks = true;
  bool as_is = false;
  bool lapsed = true;
  int looks = 0;
  FileId fails = 0;
  std::optional<Errc> mark_outcome;
  Result<> fence_outcome;
  Readmission::Clock::duration look_again = 1h;
  ManualClock clock;
  std::vector<control::Fence> fences;
  std::string why;
  std::optional<control::StoreState> admitted;
  Readmission readmission;
};

}  // namespace

TEST_CASE_METHOD(ReadmissionTest,
                 "a store all of whose copies are elsewhere, too, is admitted stale") {
  std::vector<FileId> files;
  for (int i = 0; i < 5; ++i) {
    files.push_back(make("f" + std::to_string(i), {{1, 2}, {3, 4}}));
  }
  const FileId other = make("other", {{2}, {3}});
  REQUIRE(names->bump_client_epoch(900));
  lapsed = false;
  readmission.turn();
  CHECK_FALSE(admitted);
  CHECK(why.contains("lease"));
  CHECK(state_of(files[0]) == CopyState::kCurrent);
  lapsed = true;
  readmission.turn();
  CHECK(admitted == kOld);
  for (const FileId file : files) {
    CHECK(state_of(file) == CopyState::kStale);
    CHECK(fenced(file));
  }
  CHECK(names->stale_objects(1, {}, 100)->size() == 5);
  CHECK((**names->layout(other)).object_epoch == 1);
  CHECK(std::ranges::any_of(fences, [](const control::Fence& fence) {
    return fence.what == control::Fence::What::kClient && fence.client_id == 900 &&
           fence.epoch == 2;
  }));
}

TEST_CASE_METHOD(ReadmissionTest,
                 "with the only copy of anything it is not, unless it is taken as it is") {
  const FileId both = make("both", {{1}, {2}});
  const FileId only = make("only", {{1}});
  readmission.turn();
  CHECK_FALSE(admitted);
  CHECK(why.contains("only copy of 1 objects"));
  CHECK(why.contains("weft ds accept 1 --rolled-back"));
  CHECK(state_of(both) == CopyState::kStale);
  // The other copy misses writes: then this one, as old as it is, is the last.
  as_is = true;
  readmission.turn();
  CHECK(admitted == kOld);
  CHECK(state_of(only) == CopyState::kCurrent);
  CHECK(state_of(both) == CopyState::kStale);
}

TEST_CASE_METHOD(ReadmissionTest, "one with the only copy of anything is looked at now and then") {
  make("only", {{1}});
  readmission.turn();
  CHECK_FALSE(std::exchange(why, {}).empty());
  clock.advance(look_again - 1ms);
  readmission.turn();
  CHECK(why.empty());
  clock.advance(1ms);
  readmission.turn();
  CHECK_FALSE(why.empty());
}

TEST_CASE_METHOD(ReadmissionTest, "a copy whose other copies are not current is the only one") {
  const FileId file = make("f", {{1}, {2}});
  REQUIRE(names->mark_stale({.id = file, .copy = 1, .ds_id = 2, .dirty = {{0, kMaxFileSize}}}));
  readmission.turn();
  CHECK_FALSE(admitted);
  CHECK(state_of(file) == CopyState::kCurrent);
  as_is = true;
  readmission.turn();
  CHECK(admitted == kOld);
  CHECK(fenced(file));  // handles of before the mark are not honoured there either
}

TEST_CASE_METHOD(ReadmissionTest, "who missed a part before the last copy is old gets all of it") {
  const FileId file = make("f", {{1}, {2}});
  const FileId only = make("only", {{1}});
  REQUIRE(names->mark_stale({.id = file, .copy = 1, .ds_id = 2, .dirty = {{0, 1 << 20}}}));
  readmission.turn();
  CHECK(names->stale_objects(2, {}, 10)->front().dirty == std::vector{DirtyExtent{0, 1 << 20}});
  as_is = true;
  readmission.turn();
  CHECK(admitted == kOld);
  CHECK(names->stale_objects(2, {}, 10)->front().dirty ==
        std::vector{DirtyExtent{0, kMaxFileSize}});
  CHECK((**names->layout(only)).object_epoch == 1);
}

TEST_CASE_METHOD(ReadmissionTest, "so it does while another copy's server is away") {
  const FileId file = tripled("f");
  REQUIRE(names->mark_stale({.id = file, .copy = 2, .ds_id = 3, .dirty = {{0, 1 << 20}}}));
  fails = file;
  mark_outcome = Errc::kLayoutTryLater;
  as_is = true;
  readmission.turn();
  CHECK(admitted == kOld);
  CHECK(names->stale_objects(3, {}, 10)->front().dirty ==
        std::vector{DirtyExtent{0, kMaxFileSize}});
}

TEST_CASE_METHOD(ReadmissionTest, "what was stale before is stale from end to end") {
  const FileId file = make("f", {{1}, {2}});
  REQUIRE(names->mark_stale({.id = file, .copy = 0, .ds_id = 1, .dirty = {{0, 1 << 20}}}));
  readmission.turn();
  CHECK(admitted == kOld);
  const auto stale = names->stale_objects(1, {}, 10);
  CHECK(stale->front().dirty == std::vector{DirtyExtent{0, kMaxFileSize}});
  CHECK(fenced(file));
}

TEST_CASE_METHOD(ReadmissionTest,
                 "it waits while other copies' servers are away, and goes on after errors") {
  const FileId first = make("first", {{1}, {2}});
  const FileId second = make("second", {{1}, {2}});
  fails = second;
  mark_outcome = Errc::kLayoutTryLater;
  readmission.turn();
  CHECK_FALSE(admitted);
  CHECK(why.contains("waiting for the data servers"));
  CHECK(state_of(first) == CopyState::kStale);
  mark_outcome = Errc::kIo;
  readmission.turn();
  CHECK_FALSE(admitted);
  CHECK(why.contains("not now"));
  mark_outcome.reset();
  fence_outcome = fail(Errc::kIo, "the disk");
  readmission.turn();
  CHECK_FALSE(admitted);
  fence_outcome = {};
  readmission.turn();
  CHECK(admitted == kOld);
  CHECK(state_of(second) == CopyState::kStale);
}

TEST_CASE_METHOD(ReadmissionTest, "nothing is marked of one that does not ask any more") {
  const FileId file = make("f", {{1}, {2}});
  asks = false;
  readmission.turn();
  CHECK(looks == 1);
  CHECK(state_of(file) == CopyState::kCurrent);
  CHECK_FALSE(admitted);
}
