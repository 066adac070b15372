#include "ganesha-fsal/files/layout_maps.h"

#include <atomic>
#include <thread>

#include "layout/relocation.h"
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

  FileTable files{system_clock()};
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
  REQUIRE(files.map(f).map != nullptr);
  CHECK(*files.map(f).map == bumped);
  CHECK(map().value().value() == bumped);
  REQUIRE(names->bump_object_epoch(f));
  CHECK(map().value()->object_epoch == bumped.object_epoch + 1);
  SECTION("it is not used any more") {
    use(false);
    CHECK(files.size() == 0);
  }
  SECTION("it is removed") {
    REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
    CHECK(files.map(f).map == nullptr);
    CHECK_FALSE(map().value());
  }
}

TEST_CASE_METHOD(Maps, "the map that a file gets is kept without being read") {
  const FileId g = file(kRootFileId, "g");
  FileTable::Changing(files, g)->phase.uncut = true;
  const auto made = names->begin_writing(g, striped({1, 2}));
  REQUIRE(made);
  REQUIRE(files.map(g).map != nullptr);
  CHECK(*files.map(g).map == *made);
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

// A copy that misses writes and is mended, and a move, which is both: each step is another map.
TEST_CASE_METHOD(Maps, "every change of a copy's state is seen") {
  const FileId g = file(kRootFileId, "g");
  REQUIRE(names->ensure_layout(g, striped({1}, {3})));
  FileTable::Changing(files, g)->phase.uncut = true;
  const auto same = [&] {
    const auto seen = layout_map(files, *names, g);
    return seen.value() == names->layout(g).value();
  };
  const auto mend = [&](std::uint32_t copy, std::uint32_t ds_id) {
    const auto begun = names->begin_resync({.id = g, .copy = copy, .ds_id = ds_id});
    REQUIRE(begun.value());
    CHECK(same());
    CHECK(names->clear_stale((*begun)->object).value());
    CHECK(same());
  };
  CHECK(same());
  REQUIRE(names->mark_stale({.id = g, .copy = 1, .ds_id = 3, .dirty = {{0, 5}}}));
  CHECK(same());
  mend(1, 3);
  const auto moving = names->begin_move(g, 3, 9);
  REQUIRE(moving);
  CHECK(same());
  const auto seat = layout::seat_of(*moving, 9);
  REQUIRE(seat);
  mend(static_cast<std::uint32_t>(seat->copy), 9);
  REQUIRE(names->mark_stale({.id = g, .copy = 1, .ds_id = 3, .dirty = {{0, kMaxFileSize}}}));
  CHECK(same());
  REQUIRE(names->finish_move(g));
  CHECK(same());
  REQUIRE(names->end_moves({&g, 1}));
  CHECK(same());
}

}  // namespace weft::mds
