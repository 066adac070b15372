#include "ganesha-fsal/files/layout_maps.h"

#include <atomic>
#include <thread>

#include "tests/ganesha-fsal/meta/meta_fixture.h"

namespace weft::mds {
namespace {

struct Maps : NamespaceTest {
  Maps() : f(file(kRootFileId, "f")) {
    keep_maps(files, *names);
    REQUIRE(names->ensure_layout(f, striped({1, 2})));
  }
  ~Maps() { names.reset(); }
  Result<std::optional<layout::LayoutMap>> map() { return layout_map(files, *names, f); }
  // Something of the file is remembered.
  void use(bool on) { FileTable::Changing(files, f)->phase.uncut = on; }

  FileTable files;
  const FileId f;
};

}  // namespace

TEST_CASE_METHOD(Maps, "a map is kept while its file is in use, until it changes") {
  REQUIRE(map());
  CHECK(files.map(f).map == nullptr);
  CHECK(files.size() == 0);
  use(true);
  const auto first = map().value().value();
  REQUIRE(files.map(f).map != nullptr);
  CHECK(*files.map(f).map == first);

  const auto bumped = names->bump_object_epoch(f).value();
  CHECK(files.map(f).map == nullptr);
  CHECK(map().value().value() == bumped);
  REQUIRE(names->replace_layout(f, bumped, [&] {
    auto next = bumped;
    ++next.object_epoch;
    return next;
  }()));
  CHECK(map().value()->object_epoch == bumped.object_epoch + 1);
  SECTION("it is not used any more") {
    use(false);
    CHECK(files.size() == 0);
  }
  SECTION("it is removed") {
    REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
    CHECK_FALSE(map().value());
  }
}

TEST_CASE_METHOD(Maps, "who asks after a change never gets the map of before") {
  use(true);
  std::atomic<bool> stop = false;
  std::vector<std::jthread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop) static_cast<void>(map());
    });
  }
  for (int i = 0; i < 500; ++i) {
    const auto epoch = names->bump_object_epoch(f).value().object_epoch;
    const auto seen = map().value().value().object_epoch;
    if (seen != epoch) {
      stop = true;
      FAIL("a map of before");
    }
  }
  stop = true;
}

}  // namespace weft::mds
