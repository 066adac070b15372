// Moves: a data server takes another's place in a file's layout map.
#include <algorithm>

#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/meta/ops/tree.h"
#include "ganesha-fsal/meta/schema/journal.h"
#include "ganesha-fsal/meta/schema/keys.h"
#include "layout/relocation.h"

namespace weft::mds {
namespace {

using layout::CopyState;

Result<std::optional<MoveRecord>> read_move(Transaction& transaction, FileId id) {
  auto value = transaction.get(keys::move(id));
  if (!value) return pass(value);
  if (!*value) return std::nullopt;
  auto record = decode_move(**value);
  if (!record) return pass(record);
  return *record;
}

Result<layout::LayoutMap> map_of(Tree& tree, FileId id) {
  auto map = tree.layout(id);
  if (!map) return pass(map);
  if (!*map) return fail(Errc::kNotFound, "no layout");
  return std::move(**map);
}

CopyState state_at(const layout::LayoutMap& map, const layout::Seat& seat) {
  return map.copies[seat.copy].state_of(seat.stripe);
}

// The record and the map of a move that is being filled.
struct Filling {
  MoveRecord record;
  layout::LayoutMap map;
  layout::Seat from;
  layout::Seat to;
};

Result<Filling> filling(Tree& tree, FileId id) {
  auto record = read_move(tree.transaction(), id);
  if (!record) return pass(record);
  if (!*record || (*record)->stage != MoveStage::kFilling) {
    return fail(Errc::kNotFound, "the file is not being moved");
  }
  auto map = map_of(tree, id);
  if (!map) return pass(map);
  const auto from = layout::seat_of(*map, (*record)->from);
  const auto to = layout::seat_of(*map, (*record)->to);
  if (!from || !to || to->copy + 1 != map->copies.size() || to->stripe != from->stripe) {
    return fail(Errc::kCorrupt, "a move that does not fit the layout map");
  }
  return Filling{**record, std::move(*map), *from, *to};
}

Result<> mark_whole(Tree& tree, FileId id, const layout::LayoutMap& map, std::uint32_t ds_id) {
  const auto seat = layout::seat_of(map, ds_id);
  return tree.put_stale(ds_id, id, static_cast<std::uint32_t>(seat->copy),
                        StaleRecord{map.object_generation, tree.now_ns(), 1, {{0, kMaxFileSize}}});
}

// As it was when the move began, and fit for it.
Result<layout::LayoutMap> map_to_change(Tree& tree, const DirectMove& move) {
  auto map = map_of(tree, move.id);
  if (!map) return map;
  const auto seat = layout::seat_of(*map, move.from);
  if (!seat) return fail(Errc::kNotFound, "the data server has nothing of the file");
  if (move.to == 0 || move.to == move.from) return fail(Errc::kInvalid, "no other data server");
  if (layout::seat_of(*map, move.to)) return fail(Errc::kExists, "the data server is in the map");
  if (map->object_epoch != move.epoch) return fail(Errc::kBusy, "the file's map has changed");
  if (state_at(*map, *seat) != CopyState::kCurrent) {
    return fail(Errc::kBusy, "the one that is to leave is not current");
  }
  return map;
}

// Whether an object of this file and generation is still to be removed there.
Result<bool> removal_waits(Tree& tree, FileId id, std::uint32_t generation, std::uint32_t ds_id) {
  auto value = tree.transaction().get(keys::removal(id, generation));
  if (!value) return pass(value);
  if (!*value) return false;
  auto record = decode_removal(**value);
  if (!record) return pass(record);
  return std::ranges::find(record->ds_ids, ds_id) != record->ds_ids.end();
}

}  // namespace

Result<layout::LayoutMap> Namespace::begin_move(FileId id, std::uint32_t from, std::uint32_t to) {
  layout::LayoutMap out;
  auto done = change(locks_.lock({id}), [&](Tree& tree) -> Result<> {
    auto under_way = read_move(tree.transaction(), id);
    if (!under_way) return pass(under_way);
    if (*under_way) return fail(Errc::kBusy, "the file is being moved");
    auto map = map_of(tree, id);
    if (!map) return pass(map);
    out = std::move(*map);
    const auto seat = layout::seat_of(out, from);
    if (!seat) return fail(Errc::kNotFound, "the data server has nothing of the file");
    if (to == 0 || to == from) return fail(Errc::kInvalid, "no other data server");
    if (layout::seat_of(out, to)) return fail(Errc::kExists, "the data server is in the map");
    auto waits = removal_waits(tree, id, out.object_generation, to);
    if (!waits) return pass(waits);
    if (*waits) return fail(Errc::kBusy, "an earlier object is still to be removed there");
    MoveRecord record{out.object_generation, from, to, MoveStage::kFilling, tree.now_ns()};
    if (layout::has_room_at(out, seat->stripe)) {
      layout::add_seat(out, seat->stripe, to);
    } else {
      if (state_at(out, *seat) == CopyState::kCurrent) {
        return fail(Errc::kInvalid, "no room for a further copy, and the server's is current");
      }
      auto erased = tree.erase_stale(from, id, static_cast<std::uint32_t>(seat->copy));
      if (!erased) return erased;
      layout::replace_seat(out, from, to);
      record.stage = MoveStage::kLeft;
    }
    if (auto marked = mark_whole(tree, id, out, to); !marked) return marked;
    tree.transaction().put(keys::move(id), encode(record));
    tree.put_layout(id, out);
    return tree.bump_object_epoch(id, out);
  });
  if (!done) return pass(done);
  return out;
}

Result<layout::LayoutMap> Namespace::finish_move(FileId id) {
  layout::LayoutMap out;
  auto done = change(locks_.lock({id}), [&](Tree& tree) -> Result<> {
    auto now = filling(tree, id);
    if (!now) return pass(now);
    out = std::move(now->map);
    if (state_at(out, now->to) != CopyState::kCurrent) {
      return fail(Errc::kBusy, "the newcomer is not current");
    }
    if (state_at(out, now->from) == CopyState::kCurrent) {
      return fail(Errc::kBusy, "the one that leaves is still read and written");
    }
    const auto copy = static_cast<std::uint32_t>(now->from.copy);
    if (auto erased = tree.erase_stale(now->record.from, id, copy); !erased) return erased;
    layout::take_seat(out, now->record.from, now->record.to);
    now->record.stage = MoveStage::kLeft;
    tree.transaction().put(keys::move(id), encode(now->record));
    return tree.bump_object_epoch(id, out);
  });
  if (!done) return pass(done);
  return out;
}

Result<layout::LayoutMap> Namespace::cancel_move(FileId id) {
  layout::LayoutMap out;
  auto done = change(locks_.lock({id}), [&](Tree& tree) -> Result<> {
    auto now = filling(tree, id);
    if (!now) return pass(now);
    out = std::move(now->map);
    if (state_at(out, now->to) == CopyState::kCurrent) {
      return fail(Errc::kBusy, "the newcomer is current");
    }
    const std::uint32_t to = now->record.to;
    const auto copy = static_cast<std::uint32_t>(now->to.copy);
    if (auto erased = tree.erase_stale(to, id, copy); !erased) return erased;
    layout::drop_seat(out, to);
    tree.transaction().put(
        keys::move(id),
        encode(MoveRecord{out.object_generation, to, 0, MoveStage::kLeft, now->record.since_ns}));
    return tree.bump_object_epoch(id, out);
  });
  if (!done) return pass(done);
  return out;
}

Result<> Namespace::end_moves(std::span<const FileId> ids) {
  return change(locks_.lock(std::vector(ids.begin(), ids.end())), [&](Tree& tree) -> Result<> {
    for (const FileId id : ids) {
      auto record = read_move(tree.transaction(), id);
      if (!record) return pass(record);
      if (!*record) continue;
      if ((*record)->stage != MoveStage::kLeft) return fail(Errc::kBusy, "it has not left");
      tree.transaction().erase(keys::move(id));
      auto queued = tree.queue_removal(id, (*record)->generation, {(*record)->from});
      if (!queued) return queued;
    }
    return {};
  });
}

Result<std::vector<Result<>>> Namespace::for_each(
    std::span<const DirectMove> moves,
    const std::function<Result<>(Tree&, const DirectMove&)>& body) {
  std::vector<FileId> ids;
  for (const DirectMove& move : moves) ids.push_back(move.id);
  std::vector<Result<>> out;
  auto done = change(locks_.lock(ids), [&](Tree& tree) -> Result<> {
    out.clear();
    for (const DirectMove& move : moves) out.push_back(body(tree, move));
    return {};
  });
  if (!done) return pass(done);
  return out;
}

Result<std::vector<Result<>>> Namespace::begin_direct(std::span<const DirectMove> moves) {
  return for_each(moves, [](Tree& tree, const DirectMove& move) -> Result<> {
    auto under_way = read_move(tree.transaction(), move.id);
    if (!under_way) return pass(under_way);
    if (*under_way) return fail(Errc::kBusy, "the file is being moved");
    auto map = map_to_change(tree, move);
    if (!map) return pass(map);
    auto waits = removal_waits(tree, move.id, map->object_generation, move.to);
    if (!waits) return pass(waits);
    if (*waits) return fail(Errc::kBusy, "an earlier object is still to be removed there");
    tree.put_reverse(move.to, move.id, map->object_generation);
    tree.transaction().put(
        keys::move(move.id),
        encode(MoveRecord{map->object_generation, move.to, 0, MoveStage::kLeft, tree.now_ns()}));
    return {};
  });
}

Result<std::vector<Result<>>> Namespace::finish_direct(std::span<const DirectMove> moves) {
  return for_each(moves, [](Tree& tree, const DirectMove& move) -> Result<> {
    auto record = read_move(tree.transaction(), move.id);
    if (!record) return pass(record);
    const bool begun = *record && (*record)->stage == MoveStage::kLeft &&
                       (*record)->from == move.to && (*record)->to == 0;
    if (!begun) return fail(Errc::kNotFound, "the file is not being moved");
    auto map = map_to_change(tree, move);
    if (!map) return pass(map);
    layout::replace_seat(*map, move.from, move.to, CopyState::kCurrent);
    (*record)->from = move.from;
    (*record)->to = move.to;
    tree.transaction().put(keys::move(move.id), encode(**record));
    return tree.bump_object_epoch(move.id, *map);
  });
}

Result<std::optional<Move>> Namespace::move_of(FileId id) const {
  auto value = store_.latest().peek(keys::move(id));
  if (!value) return pass(value);
  if (!*value) return std::nullopt;
  auto record = decode_move(**value);
  if (!record) return pass(record);
  return Move{id, record->from, record->to, record->stage, record->since_ns};
}

Result<std::vector<Move>> Namespace::moves(FileId after, std::size_t limit) const {
  std::vector<Move> out;
  Result<> bad;
  keys::Range range = keys::all_moves();
  range.begin = keys::after(keys::move(after));
  const auto visit = [&](std::string_view key, std::string_view value) {
    const auto at = keys::parse_move(key);
    auto record = decode_move(value);
    if (!record) bad = pass(record);
    if (at && record) {
      out.push_back({at->id, record->from, record->to, record->stage, record->since_ns});
    }
    return bad.has_value();
  };
  if (auto done = store_.latest().scan(range.begin, range.end, limit, visit); !done) {
    return pass(done);
  }
  if (!bad) return pass(bad);
  // What is done next must not be ahead of what a crash leaves.
  CommitSeq seen = 0;
  for (const Move& move : out) seen = std::max(seen, locks_.seen({move.id}));
  if (auto durable = store_.wait_durable(seen); !durable) return pass(durable);
  return out;
}

}  // namespace weft::mds
