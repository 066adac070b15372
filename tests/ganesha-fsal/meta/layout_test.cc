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
