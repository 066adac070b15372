// Layout maps, the reverse index, epochs.
#include <array>

#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

TEST_CASE_METHOD(NamespaceTest, "a layout is made once and kept") {
  const FileId f = file(kRootFileId, "f");
  CHECK_FALSE(names->layout(f)->has_value());
  const auto map = layout_of(f, {1, 2});
  CHECK(layout_of(f, {3, 4}) == map);
  open();
  CHECK(**names->layout(f) == map);
  CHECK(names->objects_of(1, {}, 10)->size() == 1);
  CHECK(names->objects_of(3, {}, 10)->empty());
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "what is no regular file has no layout, and bad maps are refused") {
  const auto bad = [](const InodeAttributes&) -> Result<layout::LayoutMap> {
    return layout::LayoutMap{};
  };
  CHECK(names->ensure_layout(kRootFileId, bad).error() == Errc::kInvalid);
  const FileId f = file(kRootFileId, "f");
  CHECK_FALSE(names->ensure_layout(f, bad));
  const auto unable = [](const InodeAttributes&) -> Result<layout::LayoutMap> {
    return fail(Errc::kLayoutTryLater);
  };
  CHECK(names->ensure_layout(f, unable).error() == Errc::kLayoutTryLater);
  CHECK_FALSE(names->layout(f)->has_value());
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "a replaced layout brings the reverse index with it") {
  const FileId f = file(kRootFileId, "f");
  const auto map = layout_of(f, {1, 2});
  auto moved = map;
  moved.copies[0].ds_ids = {2, 3};
  CHECK(names->replace_layout(f, map, moved).error() == Errc::kInvalid);
  moved.object_generation = 2;
  REQUIRE(names->replace_layout(f, map, moved));
  CHECK(names->replace_layout(f, map, moved).error() == Errc::kBusy);
  check_clean();
  CHECK(*names->objects_of(2, {}, 10) == std::vector<layout::ObjectId>{{f, 1, 7}, {f, 2, 7}});
  CHECK(names->objects_of(2, layout::ObjectId{f, 1, 7}, 10)->size() == 1);
  const std::uint32_t old[] = {1, 2};
  REQUIRE(names->finish_removals(std::array{layout::ObjectId{f, 1, 7}}, old));
  CHECK(names->objects_of(1, {}, 10)->empty());
  check_clean();
  auto wider = moved;
  wider.copies.push_back({layout::CopyState::kStale, 0, {4, 5}});
  REQUIRE(names->replace_layout(f, moved, wider));
  CHECK(names->objects_of(5, {}, 10)->size() == 1);
  check_clean();
}

TEST_CASE_METHOD(NamespaceTest, "epochs count up and are durable") {
  const FileId f = file(kRootFileId, "f");
  CHECK(names->bump_object_epoch(f).error() == Errc::kNotFound);
  layout_of(f);
  CHECK(names->bump_object_epoch(f)->object_epoch == 2);
  CHECK(*names->client_epoch(0xC11E) == 1);
  CHECK(*names->bump_client_epoch(0xC11E) == 2);
  CHECK(*names->bump_client_epoch(0xC11E) == 3);
  names.reset();
  store.lose_power();
  open();
  CHECK((*names->layout(f))->object_epoch == 2);
  CHECK(*names->client_epoch(0xC11E) == 3);
  auto all = names->client_epochs();
  REQUIRE(all);
  REQUIRE(all->size() == 1);
  CHECK(all->front().client == 0xC11E);
  check_clean();
}
