// A data server takes another's place: what is durable at each step.
#include "ganesha-fsal/meta/schema/journal.h"
#include "layout/relocation.h"
#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;
using layout::CopyState;

namespace {

class MoveTest : public NamespaceTest {
 public:
  CopyState state(FileId id, std::uint32_t ds_id) {
    const auto map = **names->layout(id);
    const auto seat = layout::seat_of(map, ds_id);
    REQUIRE(seat);
    return map.copies[seat->copy].state_of(seat->stripe);
  }
  bool in_map(FileId id, std::uint32_t ds_id) {
    return layout::seat_of(**names->layout(id), ds_id).has_value();
  }
  void mend(FileId id, std::uint32_t ds_id) {
    const auto map = **names->layout(id);
    const auto seat = layout::seat_of(map, ds_id);
    REQUIRE(seat);
    auto begun = names->begin_resync(
        {.id = id, .copy = static_cast<std::uint32_t>(seat->copy), .ds_id = ds_id});
    REQUIRE(begun);
    REQUIRE(*begun);
    CHECK(names->clear_stale((*begun)->object).value());
  }
  void mark(FileId id, std::uint32_t ds_id) {
    const auto seat = layout::seat_of(**names->layout(id), ds_id);
    REQUIRE(names->mark_stale({.id = id,
                               .copy = static_cast<std::uint32_t>(seat->copy),
                               .ds_id = ds_id,
                               .dirty = {{0, kMaxFileSize}}}));
  }
  std::size_t objects_at(std::uint32_t ds_id) {
    return names->objects_of(ds_id, std::nullopt, 10)->size();
  }
  std::vector<std::uint32_t> removals(FileId id) {
    const auto pending = names->pending_removals(std::nullopt, 10);
    for (const auto& removal : *pending) {
      if (removal.object.fileid == id) return removal.ds_ids;
    }
    return {};
  }
};

}  // namespace

TEST_CASE_METHOD(MoveTest, "a move, step by step, over restarts") {
  const FileId f = file(kRootFileId, "f");
  const auto before = layout_of(f, {1, 2}, {3, 4});
  auto map = names->begin_move(f, 2, 9);
  REQUIRE(map);
  CHECK(map->object_epoch == before.object_epoch + 1);
  CHECK(state(f, 9) == CopyState::kStale);
  CHECK(state(f, 2) == CopyState::kCurrent);
  CHECK(names->stale_objects(9, std::nullopt, 10)->size() == 1);
  CHECK(objects_at(9) == 1);
  check_clean();
  open();
  CHECK(names->moves(0, 10)->size() == 1);
  CHECK(names->move_of(f)->value().stage == MoveStage::kFilling);
  CHECK(names->begin_move(f, 2, 8).error() == Errc::kBusy);
  CHECK(names->finish_move(f).error() == Errc::kBusy);  // not current
  mend(f, 9);
  CHECK(names->finish_move(f).error() == Errc::kBusy);  // 2 is still used
  CHECK(names->cancel_move(f).error() == Errc::kBusy);
  mark(f, 2);
  // It is not mended any more.
  CHECK_FALSE(names->begin_resync({.id = f, .copy = 0, .ds_id = 2})->has_value());
  check_clean();
  open();
  map = names->finish_move(f);
  REQUIRE(map);
  CHECK(map->copies.size() == 2);
  CHECK(map->copies[0].ds_ids == std::vector<std::uint32_t>{1, 9});
  CHECK(map->copies[0].state == CopyState::kCurrent);
  CHECK(names->stale_objects(2, std::nullopt, 10)->empty());
  CHECK(objects_at(2) == 1);  // until it is removed
  CHECK(removals(f).empty());
  check_clean();
  open();
  CHECK(names->move_of(f)->value().stage == MoveStage::kLeft);
  REQUIRE(names->end_moves({&f, 1}));
  REQUIRE(names->end_moves({&f, 1}));
  CHECK(removals(f) == std::vector<std::uint32_t>{2});
  CHECK_FALSE(names->move_of(f)->has_value());
  check_clean();
  // Not back there before the old object is gone.
  CHECK(names->begin_move(f, 9, 2).error() == Errc::kBusy);
  REQUIRE(
      names->finish_removals(std::array{names->object_of(f, *map)}, std::vector<std::uint32_t>{2}));
  CHECK(objects_at(2) == 0);
  CHECK(names->begin_move(f, 9, 2));
  check_clean();
}

TEST_CASE_METHOD(MoveTest, "a move that is given up leaves the map as it was") {
  const FileId f = file(kRootFileId, "f");
  auto before = layout_of(f, {1});
  REQUIRE(names->begin_move(f, 1, 2));
  CHECK((*names->layout(f))->duplication == layout::Duplication::kServerSync);
  auto map = names->cancel_move(f);
  REQUIRE(map);
  before.object_epoch = map->object_epoch;
  CHECK(*map == before);
  CHECK(names->stale_objects(2, std::nullopt, 10)->empty());
  CHECK(names->move_of(f)->value().from == 2);
  check_clean();
  REQUIRE(names->end_moves({&f, 1}));
  CHECK(removals(f) == std::vector<std::uint32_t>{2});
  check_clean();
}

TEST_CASE_METHOD(MoveTest, "of three copies one that is stale is replaced where it is") {
  const FileId f = tripled("f");
  CHECK(names->begin_move(f, 2, 9).error() == Errc::kInvalid);
  mark(f, 2);
  REQUIRE(names->begin_move(f, 2, 9));
  CHECK_FALSE(in_map(f, 2));
  CHECK(state(f, 9) == CopyState::kStale);
  CHECK(names->move_of(f)->value().stage == MoveStage::kLeft);
  check_clean();
  REQUIRE(names->end_moves({&f, 1}));
  mend(f, 9);
  CHECK(removals(f) == std::vector<std::uint32_t>{2});
  check_clean();
}

TEST_CASE_METHOD(MoveTest, "a file that goes while it is moved leaves no object behind") {
  for (const bool left : {false, true}) {
    const FileId f = file(kRootFileId, "f");
    layout_of(f, {1}, {2});
    REQUIRE(names->begin_move(f, 1, 9));
    if (left) {
      mend(f, 9);
      mark(f, 1);
      REQUIRE(names->finish_move(f));
    }
    const std::uint32_t epoch = (*names->layout(f))->object_epoch;
    REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
    CHECK(removals(f) == std::vector<std::uint32_t>{1, 2, 9});
    // Whoever has a handle that names the one that leaves, or the newcomer, comes too late.
    CHECK(names->pending_removals({}, 10)->back().least_epoch == epoch + 1);
    CHECK_FALSE(names->move_of(f)->has_value());
    CHECK(names->finish_move(f).error() == Errc::kNotFound);
    CHECK(names->end_moves({&f, 1}));
    check_clean();
  }
}

TEST_CASE_METHOD(MoveTest, "removals of one file add up") {
  const FileId f = file(kRootFileId, "f");
  layout_of(f, {1});
  std::uint32_t at = 1;
  for (const std::uint32_t to : {2U, 3U}) {
    REQUIRE(names->begin_move(f, at, to));
    mend(f, to);
    mark(f, at);
    REQUIRE(names->finish_move(f));
    REQUIRE(names->end_moves({&f, 1}));
    at = to;
  }
  CHECK(removals(f) == std::vector<std::uint32_t>{1, 2});
  REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
  CHECK(removals(f) == std::vector<std::uint32_t>{1, 2, 3});
  check_clean();
}

TEST_CASE_METHOD(MoveTest, "what cannot be moved") {
  const FileId f = file(kRootFileId, "f");
  CHECK(names->begin_move(f, 1, 2).error() == Errc::kNotFound);
  layout_of(f, {1, 2});
  CHECK(names->begin_move(f, 3, 4).error() == Errc::kNotFound);
  CHECK(names->begin_move(f, 1, 2).error() == Errc::kExists);
  CHECK(names->begin_move(f, 1, 1).error() == Errc::kInvalid);
  CHECK(names->begin_move(999, 1, 2).error() == Errc::kNotFound);
  CHECK(names->finish_move(f).error() == Errc::kNotFound);
  CHECK(names->cancel_move(f).error() == Errc::kNotFound);
  REQUIRE(names->begin_move(f, 1, 4));
  check_clean();
}

TEST_CASE("a move's record comes back from disk, and nothing else does") {
  const MoveRecord record{3, 1, 2, MoveStage::kFilling, 77};
  CHECK(decode_move(encode(record)).value() == record);
  CHECK(decode_move(encode(MoveRecord{3, 1, 0, MoveStage::kLeft, 7})));
  CHECK(decode_move(encode(MoveRecord{3, 1, 0, MoveStage::kFilling, 7})).error() == Errc::kCorrupt);
  CHECK(decode_move(encode(MoveRecord{3, 1, 1, MoveStage::kLeft, 7})).error() == Errc::kCorrupt);
  CHECK(decode_move(encode(MoveRecord{0, 1, 2, MoveStage::kLeft, 7})).error() == Errc::kCorrupt);
  CHECK(decode_move(encode(record) + "x").error() == Errc::kCorrupt);
}

namespace {

struct DirectMoveTest : MoveTest {
  DirectMove direct(FileId id, std::uint32_t from, std::uint32_t to) {
    return {id, from, to, (*names->layout(id))->object_epoch};
  }
  FileId laid_out(std::string_view name) {
    const FileId id = file(kRootFileId, name);
    layout_of(id, {1, 2}, {3, 4});
    return id;
  }
};

}  // namespace

TEST_CASE_METHOD(DirectMoveTest, "direct moves: many files in two transactions, over restarts") {
  const FileId f = laid_out("f");
  const FileId g = laid_out("g");
  const FileId none = file(kRootFileId, "none");
  const auto before = **names->layout(f);
  const std::vector moves{direct(f, 2, 9), DirectMove{none, 2, 9, 1}, direct(g, 3, 9)};
  const auto begun = names->begin_direct(moves);
  REQUIRE(begun);
  CHECK((*begun)[0]);
  CHECK((*begun)[1].error() == Errc::kNotFound);
  CHECK((*begun)[2]);
  CHECK(**names->layout(f) == before);
  CHECK(objects_at(9) == 2);
  CHECK(names->begin_move(f, 1, 8).error() == Errc::kBusy);
  CHECK((*names->begin_direct(moves))[0].error() == Errc::kBusy);
  check_clean();
  open();
  const auto finished = names->finish_direct(moves);
  REQUIRE(finished);
  CHECK((*finished)[0]);
  CHECK((*finished)[1].error() == Errc::kNotFound);
  CHECK((*finished)[2]);
  const auto map = **names->layout(f);
  CHECK(map.copies[0].ds_ids == std::vector<std::uint32_t>{1, 9});
  CHECK(map.object_epoch == before.object_epoch + 1);
  CHECK(state(f, 9) == CopyState::kCurrent);
  CHECK((*names->layout(g))->copies[1].ds_ids == std::vector<std::uint32_t>{9, 4});
  CHECK(names->stale_counts().empty());
  check_clean();
  open();
  CHECK(names->move_of(f)->value() ==
        Move{f, 2, 9, MoveStage::kLeft, names->move_of(f)->value().since_ns});
  REQUIRE(names->end_moves(std::array{f, none, g}));
  CHECK(removals(f) == std::vector<std::uint32_t>{2});
  CHECK(removals(g) == std::vector<std::uint32_t>{3});
  check_clean();
}

TEST_CASE_METHOD(DirectMoveTest,
                 "of a direct move that ends in between an object is to be removed") {
  const FileId f = laid_out("f");
  const auto move = direct(f, 2, 9);
  REQUIRE((*names->begin_direct({&move, 1}))[0]);
  const auto before = **names->layout(f);
  SECTION("after a restart") {
    open();
    REQUIRE(names->moves(0, 10)->size() == 1);
    REQUIRE(names->end_moves({&f, 1}));
    CHECK(**names->layout(f) == before);
    CHECK(removals(f) == std::vector<std::uint32_t>{9});
    CHECK((*names->finish_direct({&move, 1}))[0].error() == Errc::kNotFound);
    CHECK((*names->begin_direct({&move, 1}))[0].error() == Errc::kBusy);  // to be removed there
  }
  SECTION("since the file is removed") {
    REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
    CHECK((*names->finish_direct({&move, 1}))[0].error() == Errc::kNotFound);
    CHECK(removals(f) == std::vector<std::uint32_t>{1, 2, 3, 4, 9});
  }
  SECTION("since the map has changed") {
    mark(f, 1);
    CHECK((*names->finish_direct({&move, 1}))[0].error() == Errc::kBusy);
    CHECK(in_map(f, 2));
  }
  SECTION("since the one that is to leave is not current") {
    mark(f, 2);
    auto now = direct(f, 2, 9);
    CHECK((*names->finish_direct({&now, 1}))[0].error() == Errc::kBusy);
    CHECK(in_map(f, 2));
  }
  check_clean();
}

TEST_CASE_METHOD(DirectMoveTest, "what cannot be moved directly") {
  const FileId f = laid_out("f");
  const auto refused = [&](DirectMove move) {
    return (*names->begin_direct({&move, 1}))[0].error().code;
  };
  CHECK(refused(direct(f, 8, 9)) == Errc::kNotFound);
  CHECK(refused(direct(f, 2, 0)) == Errc::kInvalid);
  CHECK(refused(direct(f, 2, 4)) == Errc::kExists);
  auto older = direct(f, 2, 9);
  --older.epoch;
  CHECK(refused(older) == Errc::kBusy);
  CHECK(objects_at(9) == 0);
  REQUIRE(names->begin_move(f, 2, 9));
  CHECK(names->end_moves({&f, 1}).error() == Errc::kBusy);
  check_clean();
}
