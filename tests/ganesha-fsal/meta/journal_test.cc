// The journal: files being written, copies that missed writes.
#include "ganesha-fsal/meta/schema/journal.h"

#include <rapidcheck.h>

#include <algorithm>

#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

constexpr std::uint64_t kMi = kDirtyGranule;

bool covers(const DirtyExtents& extents, DirtyExtent range) {
  return std::ranges::any_of(extents, [&](const DirtyExtent& extent) {
    return extent.offset <= range.offset && range.end <= extent.end;
  });
}

DirtyExtents dirty(std::initializer_list<DirtyExtent> added) {
  DirtyExtents extents;
  for (const DirtyExtent& extent : added) add_dirty(extents, extent);
  return extents;
}

// Two copies over {1, 2} and {3, 4}.
class MirroredTest : public NamespaceTest {
 public:
  MirroredTest() : f(file(kRootFileId, "f")), map(layout_of(f, {1, 2}, {3, 4})) {}

  StaleObject missed(std::uint32_t ds_id, DirtyExtents extents, std::uint32_t copy = 1) const {
    return {.id = f, .copy = copy, .ds_id = ds_id, .dirty = std::move(extents)};
  }
  StaleObject only_stale(std::uint32_t ds_id) {
    auto found = names->stale_objects(ds_id, {}, 10);
    REQUIRE(found);
    REQUIRE(found->size() == 1);
    return found->front();
  }
  ResyncBegun begun(std::uint32_t ds_id) {
    auto found = names->begin_resync(missed(ds_id, {}));
    REQUIRE(found);
    REQUIRE(found->has_value());
    return **found;
  }
  void lose_power() {
    names.reset();
    store.lose_power();
    open();
  }

  FileId f;
  layout::LayoutMap map;
};

}  // namespace

TEST_CASE("dirty extents are whole granules, joined where they touch") {
  CHECK(dirty({{5, 6}}) == DirtyExtents{{0, kMi}});
  CHECK(dirty({{0, kMi}, {kMi, kMi + 1}}) == DirtyExtents{{0, 2 * kMi}});
  CHECK(dirty({{5 * kMi, 6 * kMi}, {0, 1}}) == DirtyExtents{{0, kMi}, {5 * kMi, 6 * kMi}});
  CHECK(dirty({{0, 1}, {4 * kMi, 5 * kMi}, {8 * kMi, 9 * kMi}, {kMi - 1, 8 * kMi}}) ==
        DirtyExtents{{0, 9 * kMi}});
  CHECK(dirty({{kMaxFileSize - 1, kMaxFileSize}}).front().end == kMaxFileSize);
  CHECK(dirty({{0, kMaxFileSize}}) == DirtyExtents{{0, kMaxFileSize}});
}

TEST_CASE("dirty extents never forget, stay in order, and are bounded") {
  CHECK(rc::check([] {
    DirtyExtents extents;
    DirtyExtents added;
    const auto count = *rc::gen::inRange<std::size_t>(1, 600);
    for (std::size_t i = 0; i < count; ++i) {
      const auto offset = *rc::gen::inRange<std::uint64_t>(0, 4000 * kMi);
      const auto length = *rc::gen::inRange<std::uint64_t>(1, 3 * kMi);
      added.push_back({offset, offset + length});
      add_dirty(extents, added.back());
      RC_ASSERT(well_formed(extents));
    }
    for (const DirtyExtent& range : added) RC_ASSERT(covers(extents, range));
  }));
}

TEST_CASE("too many dirty extents join the nearest ones") {
  DirtyExtents extents;
  for (std::uint64_t i = 0; i < kMaxDirtyExtents; ++i) {
    add_dirty(extents, {100 * i * kMi, (100 * i + 1) * kMi});
  }
  CHECK(extents.size() == kMaxDirtyExtents);
  add_dirty(extents, {2 * kMi, 3 * kMi});
  CHECK(extents.size() == kMaxDirtyExtents);
  CHECK(extents.front() == DirtyExtent{0, 3 * kMi});
}

TEST_CASE("the journal's records come back equal, and nothing else is taken") {
  const WritersRecord writers{3, -4};
  CHECK(*decode_writers(encode(writers)) == writers);
  CHECK(decode_writers(encode(WritersRecord{})).error() == Errc::kCorrupt);
  const StaleRecord stale{2, 5, 6, {{0, kMi}, {2 * kMi, kMaxFileSize}}};
  const std::string good = encode(stale);
  CHECK(*decode_stale(good) == stale);
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK(decode_stale(std::string_view(good).substr(0, size)).error() == Errc::kCorrupt);
  }
  CHECK(decode_stale(good + '\0').error() == Errc::kCorrupt);
  CHECK(decode_stale(encode(StaleRecord{0, 5, 6, {{0, kMi}}})).error() == Errc::kCorrupt);
  CHECK(decode_stale(encode(StaleRecord{1, 5, 0, {{0, kMi}}})).error() == Errc::kCorrupt);
  std::string later = good;
  later[3] = 2;
  CHECK(decode_stale(later).error() == Errc::kNotSupported);
  std::string unordered = good;
  unordered[good.size() - 16 + 5] = 0;  // the second extent now begins at 0
  CHECK(decode_stale(unordered).error() == Errc::kCorrupt);
  for (const DirtyExtents& bad :
       {DirtyExtents{}, DirtyExtents{{1, kMi}}, DirtyExtents{{0, 5}}, DirtyExtents{{kMi, kMi}},
        DirtyExtents{{0, kMi}, {kMi, 2 * kMi}}, DirtyExtents{{0, kMaxFileSize + 1}}}) {
    CHECK_FALSE(well_formed(bad));
  }
}

TEST_CASE_METHOD(NamespaceTest, "a file is in the journal before a layout for writing is out") {
  const FileId f = file(kRootFileId, "f");
  const auto map = names->begin_writing(f, striped({1, 2}));
  REQUIRE(map);
  names.reset();
  store.lose_power();
  open();
  CHECK(**names->layout(f) == *map);
  CHECK(*names->written_files(0, 10) == std::vector<WrittenFile>{{f, 1, now_ns}});
  check_clean();

  SECTION("once, as long as this run lasts") {
    const auto again = names->begin_writing(f, no_layout);
    REQUIRE(again);
    CHECK(again->object_epoch == map->object_epoch + 1);  // above the handles of before
    CHECK(names->begin_writing(f, no_layout)->object_epoch == again->object_epoch);
    CHECK(names->written_files(0, 10)->front().boot_epoch == 2);
  }
  SECTION("until it is ended") {
    REQUIRE(names->end_writing(std::array{f}));
    CHECK(names->written_files(0, 10)->empty());
    CHECK(names->begin_writing(f, no_layout)->object_epoch == map->object_epoch);
  }
  SECTION("until it is removed") {
    REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
    CHECK(names->written_files(0, 10)->empty());
  }
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "the journal is listed in pages and ended in batches") {
  std::vector<FileId> all;
  for (int i = 0; i < 100; ++i) {
    all.push_back(file(kRootFileId, std::to_string(i)));
    REQUIRE(names->begin_writing(all.back(), striped({1})));
  }
  const auto first = names->written_files(0, 60);
  REQUIRE(first);
  REQUIRE(first->size() == 60);
  CHECK(names->written_files(first->back().id, 60)->size() == 40);
  REQUIRE(names->end_writing(all));
  CHECK(names->written_files(0, 60)->empty());
  CHECK(names->begin_writing(kRootFileId, striped({1})).error() == Errc::kInvalid);
  CHECK(names->begin_writing(99'999, striped({1})).error() == Errc::kStale);
  check_clean();
}

TEST_CASE_METHOD(MirroredTest, "what a data server misses is durable with the copy's state") {
  const auto marked = names->mark_stale(missed(3, {{5, 6}}));
  REQUIRE(marked);
  CHECK(marked->copies[1].state == layout::CopyState::kStale);
  CHECK(marked->copies[0].state == layout::CopyState::kCurrent);
  CHECK(marked->object_epoch == map.object_epoch + 1);
  lose_power();
  CHECK(**names->layout(f) == *marked);
  const StaleObject first = only_stale(3);
  CHECK(first.dirty == DirtyExtents{{0, kMi}});
  CHECK(first.since_ns == now_ns);

  now_ns += 50;
  const auto more = names->mark_stale(missed(3, {{9 * kMi, 9 * kMi + 1}}));
  REQUIRE(more);
  CHECK(more->object_epoch == marked->object_epoch);
  const StaleObject second = only_stale(3);
  CHECK(second.since_ns == first.since_ns);
  CHECK(second.dirty == DirtyExtents{{0, kMi}, {9 * kMi, 10 * kMi}});
  CHECK(names->stale_objects(4, {}, 10)->empty());
  CHECK(names->stale_objects(3, second, 10)->empty());
  check_clean();
}

TEST_CASE_METHOD(MirroredTest, "what is known to be missed is not recorded once more") {
  REQUIRE(names->mark_stale(missed(3, {{0, 2 * kMi}})));
  const StaleObject known = only_stale(3);
  const auto commits = store.commits();
  const auto again = names->mark_stale(missed(3, {{5, kMi + 1}}));
  REQUIRE(again);
  CHECK_FALSE(again->fresh);
  CHECK(store.commits() == commits);
  CHECK(only_stale(3).ticket == known.ticket);
  REQUIRE(names->mark_stale(missed(3, {{5, 2 * kMi + 1}})));
  CHECK(only_stale(3).ticket > known.ticket);
  check_clean();
}

TEST_CASE_METHOD(MirroredTest, "what is not current of a file in doubt lacks all of it") {
  REQUIRE(names->mark_stale(missed(3, {{0, 1}})));
  const auto resyncing = begun(3);
  REQUIRE(names->mark_stale(missed(4, {{kMi, kMi + 1}})));
  const auto before = names->layout(f);
  REQUIRE(names->doubt_stale(f));
  CHECK(*names->layout(f) == *before);
  CHECK_FALSE(*names->clear_stale(resyncing.object));  // of some of it
  lose_power();
  for (const std::uint32_t ds_id : {3U, 4U}) {
    CHECK(only_stale(ds_id).dirty == DirtyExtents{{0, kMaxFileSize}});
  }
  const std::uint64_t ticket = only_stale(4).ticket;
  REQUIRE(names->doubt_stale(f));
  CHECK(only_stale(4).ticket == ticket);
  CHECK(*names->clear_stale(begun(3).object));
  check_clean();
}

TEST_CASE_METHOD(MirroredTest, "a copy is current again when all of it is mended") {
  REQUIRE(names->mark_stale(missed(3, {{0, 1}})));
  REQUIRE(names->mark_stale(missed(4, {{kMi, kMi + 1}})));
  CHECK_FALSE(*names->clear_stale(only_stale(3)));  // nothing was begun
  const StaleObject before = begun(3).object;
  REQUIRE(names->mark_stale(missed(3, {{0, 1}})));  // again, while it was being mended
  CHECK_FALSE(*names->clear_stale(before));
  CHECK(*names->clear_stale(begun(3).object));
  CHECK((*names->layout(f))->copies[1].state_of(0) == layout::CopyState::kCurrent);
  CHECK((*names->layout(f))->copies[1].state_of(1) == layout::CopyState::kStale);
  check_clean();
  const StaleObject last = begun(4).object;
  CHECK(*names->clear_stale(last));
  CHECK_FALSE(*names->clear_stale(last));
  CHECK((*names->layout(f))->copies[1].state == layout::CopyState::kCurrent);
  check_clean();
}

TEST_CASE_METHOD(MirroredTest, "objects that missed writes are counted, also after a power loss") {
  using Counts = std::map<std::uint32_t, std::uint64_t>;
  CHECK(names->stale_counts().empty());
  REQUIRE(names->mark_stale(missed(3, {{0, 1}})));
  REQUIRE(names->mark_stale(missed(3, {{kMi, kMi + 1}})));  // the same object
  REQUIRE(names->mark_stale(missed(4, {{0, 1}})));
  CHECK(names->stale_counts() == Counts{{3, 1}, {4, 1}});
  SECTION("not what was not committed") {
    const StaleObject mended = begun(4).object;
    store.fail_commits(Errc::kIo, 0, 1);
    CHECK(names->clear_stale(mended).error() == Errc::kIo);
    CHECK(names->stale_counts() == Counts{{3, 1}, {4, 1}});
  }
  SECTION("each once, however often its transaction was tried") {
    store.conflict_at_random(2);
    for (int round = 0; round < 20; ++round) {
      REQUIRE(*names->clear_stale(begun(3).object));
      CHECK(names->stale_counts() == Counts{{4, 1}});
      REQUIRE(names->mark_stale(missed(3, {{0, 1}})));
      CHECK(names->stale_counts() == Counts{{3, 1}, {4, 1}});
    }
  }
  lose_power();
  CHECK(names->stale_counts() == Counts{{3, 1}, {4, 1}});
  check_clean();
  REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
  CHECK(names->stale_counts().empty());
}

TEST_CASE_METHOD(MirroredTest, "an object that is being mended is in the journal until it is") {
  const auto stale = names->mark_stale(missed(3, {{0, 1}}));
  REQUIRE(stale);
  const auto mending = begun(3);
  CHECK(mending.map.copies[1].state_of(0) == layout::CopyState::kResyncing);
  CHECK(mending.map.copies[1].state_of(1) == layout::CopyState::kCurrent);
  CHECK(mending.map.object_epoch == stale->object_epoch + 1);
  CHECK(mending.object == only_stale(3));
  lose_power();
  CHECK(**names->layout(f) == mending.map);
  check_clean();
  SECTION("and begun again after a restart, at the same epoch") {
    const auto again = begun(3);
    CHECK(again.map == mending.map);
    CHECK(again.object == mending.object);
  }
  SECTION("and mended") {
    CHECK(*names->clear_stale(mending.object));
    CHECK(**names->layout(f) == [&] {
      auto current = map;
      current.object_epoch = mending.map.object_epoch;
      return current;
    }());
    CHECK_FALSE(names->begin_resync(mending.object)->has_value());
  }
  SECTION("or missing writes again") {
    const auto again = names->mark_stale(missed(3, {{kMi, kMi + 1}}));
    REQUIRE(again);
    CHECK(again->copies[1].state_of(0) == layout::CopyState::kStale);
    CHECK(again->object_epoch == mending.map.object_epoch + 1);
    CHECK(only_stale(3).dirty == DirtyExtents{{0, 2 * kMi}});
    CHECK(begun(3).map.object_epoch == again->object_epoch + 1);
  }
  check_clean();
}

// What it sent late may have come to the third copy outside of what that is known to lack.
TEST_CASE_METHOD(NamespaceTest, "what is repaired lacks all when the leader is left out") {
  const FileId f = tripled("f");
  REQUIRE(names->mark_stale({.id = f, .copy = 2, .ds_id = 3, .dirty = {{0, kMi}}}));
  const auto begun = names->begin_resync({.id = f, .copy = 2, .ds_id = 3});
  REQUIRE((begun && *begun));
  const StaleObject left{.id = f, .copy = 0, .ds_id = 1, .dirty = {{0, kMi}}};
  const auto dirty_there = [&] { return names->stale_objects(3, {}, 1)->front().dirty; };
  using Led = Namespace::Led;
  SECTION("if it led") {
    REQUIRE(names->mark_stale(left, {}, Namespace::Durable::kOnReturn, Led::kYes));
    CHECK(dirty_there() == DirtyExtents{{0, kMaxFileSize}});
    CHECK_FALSE(*names->clear_stale((*begun)->object));
  }
  SECTION("else it lacks what it lacked") {
    REQUIRE(names->mark_stale(left, {}, Namespace::Durable::kOnReturn, Led::kNo));
    CHECK(dirty_there() == DirtyExtents{{0, kMi}});
    CHECK(*names->clear_stale((*begun)->object));
  }
  check_clean();
}

TEST_CASE_METHOD(MirroredTest, "the last current copy of a stripe is not marked") {
  REQUIRE(names->mark_stale(missed(3, {{0, 1}}), 1)->fresh);
  CHECK_FALSE(names->mark_stale(missed(3, {{5, 6}}), 1)->fresh);
  const StaleObject last{.id = f, .copy = 0, .ds_id = 1, .dirty = {{0, 1}}};
  CHECK(names->mark_stale(last).error() == Errc::kLayoutTryLater);
  // One that was left out does not say who else is.
  CHECK(names->mark_stale(last, 3).error() == Errc::kFenced);
  CHECK(names->mark_stale(missed(4, {{0, 1}}), 1).error() == Errc::kFenced);  // of another stripe
  CHECK((*names->layout(f))->copies[0].state == layout::CopyState::kCurrent);
  CHECK(names->mark_stale(missed(4, {{0, 1}}), 2)->fresh);
  check_clean();
}

TEST_CASE_METHOD(MirroredTest, "nothing is begun of what misses nothing") {
  CHECK_FALSE(names->begin_resync(missed(3, {}))->has_value());
  CHECK_FALSE(names->begin_resync({.id = 999, .copy = 0, .ds_id = 1})->has_value());
  CHECK((*names->layout(f))->object_epoch == map.object_epoch);
}

TEST_CASE_METHOD(MirroredTest, "marks that cannot be are refused") {
  CHECK(names->mark_stale(missed(3, {})).error() == Errc::kInvalid);
  CHECK(names->mark_stale(missed(3, {{6, 5}})).error() == Errc::kInvalid);
  // Of a map that is not the one any more.
  CHECK(names->mark_stale(missed(1, {{0, 1}})).error() == Errc::kBusy);
  CHECK(names->mark_stale(missed(3, {{0, 1}}, 2)).error() == Errc::kBusy);
  const FileId single = file(kRootFileId, "single");
  layout_of(single, {1, 2});
  const StaleObject only{.id = single, .copy = 0, .ds_id = 1, .dirty = {{0, 1}}};
  CHECK(names->mark_stale(only).error() == Errc::kBusy);
  const StaleObject none{.id = 999, .copy = 0, .ds_id = 1, .dirty = {{0, 1}}};
  CHECK(names->mark_stale(none).error() == Errc::kNotFound);
  check_clean();
}

TEST_CASE_METHOD(MirroredTest, "a copy that is not current from the start lacks everything") {
  const FileId young = file(kRootFileId, "young");
  auto made = map;
  made.copies[1] = {layout::CopyState::kStale, 0, {3, 4}};
  REQUIRE(names->ensure_layout(young, [&](const InodeAttributes&) { return made; }));
  CHECK(only_stale(3).id == young);
  CHECK(only_stale(4).dirty == DirtyExtents{{0, kMaxFileSize}});
  check_clean();
  REQUIRE(names->remove(kSuperuser, kRootFileId, "young"));
  CHECK(names->stale_objects(3, {}, 10)->empty());
  check_clean();
}

TEST_CASE_METHOD(MirroredTest, "the journal goes with the copies") {
  REQUIRE(names->mark_stale(missed(3, {{0, 1}})));
  REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
  CHECK(names->stale_objects(3, {}, 10)->empty());
  check_clean();
}
