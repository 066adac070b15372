// The journal: files with layouts for writing out, and copies that missed writes
// (schema/journal.h).
#include "ganesha-fsal/meta/schema/journal.h"

#include <algorithm>

#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/meta/ops/tree.h"
#include "ganesha-fsal/meta/schema/keys.h"
#include "layout/relocation.h"

namespace weft::mds {
namespace {

constexpr std::size_t kBatch = 32;  // so many inodes are locked at once

template <class Record>
Result<std::optional<Record>> read(Transaction& transaction, const std::string& key,
                                   Result<Record> (*decode)(std::string_view)) {
  auto value = transaction.get(key);
  if (!value) return pass(value);
  if (!*value) return std::nullopt;
  auto record = decode(**value);
  if (!record) return pass(record);
  return std::move(*record);
}

// Where the data server stands in the copy. kBusy: nowhere, so whoever asks knows a map of before.
Result<std::size_t> place_of(const layout::LayoutMap& map, std::uint32_t copy,
                             std::uint32_t ds_id) {
  if (copy >= map.copies.size()) return fail(Errc::kBusy, "there is no such copy any more");
  const auto& ds_ids = map.copies[copy].ds_ids;
  const auto at = std::ranges::find(ds_ids, ds_id);
  if (at == ds_ids.end()) {
    return fail(Errc::kBusy, "the data server has nothing of that copy any more");
  }
  return static_cast<std::size_t>(at - ds_ids.begin());
}

Result<> check_mark(const layout::LayoutMap& map, const StaleObject& missed) {
  if (map.copies.size() < 2) return fail(Errc::kBusy, "there is no other copy any more");
  const auto bad = [](const DirtyExtent& extent) {
    return extent.offset >= extent.end || extent.end > kMaxFileSize;
  };
  if (missed.dirty.empty() || std::ranges::any_of(missed.dirty, bad)) {
    return fail(Errc::kInvalid, "nothing dirty, or not within a file");
  }
  return {};
}

// Whether the server may be marked at its place of its copy.
Result<> check_others(const layout::LayoutMap& map, const StaleObject& missed, std::size_t place,
                      std::optional<std::uint32_t> reporter) {
  bool others = false;
  bool reported = !reporter.has_value();
  for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
    const layout::Copy& other = map.copies[copy];
    if (copy == missed.copy || other.state_of(place) != layout::CopyState::kCurrent) continue;
    others = true;
    reported = reported || other.ds_ids[place] == *reporter;
  }
  if (!reported) return fail(Errc::kFenced, "the reporter's own copy is not current");
  const bool current = map.copies[missed.copy].state_of(place) == layout::CopyState::kCurrent;
  if (current && !others) return fail(Errc::kLayoutTryLater, "the last current copy of its stripe");
  return {};
}

// What is not current gets all of the file. A job that makes less of it equal clears nothing.
Result<> doubt(Tree& tree, FileId id, std::uint32_t copy, std::uint32_t ds_id) {
  auto record = read(tree.transaction(), keys::stale(ds_id, id, copy), decode_stale);
  if (!record) return pass(record);
  const std::vector<DirtyExtent> all{{0, kMaxFileSize}};
  if (!*record || (*record)->dirty == all) return {};
  ++(*record)->ticket;
  (*record)->dirty = all;
  return tree.put_stale(ds_id, id, copy, **record);
}

Result<> doubt_resyncing(Tree& tree, FileId id, const layout::LayoutMap& map, std::size_t place) {
  for (std::uint32_t copy = 0; copy < map.copies.size(); ++copy) {
    const layout::Copy& of = map.copies[copy];
    if (of.state_of(place) != layout::CopyState::kResyncing) continue;
    if (auto doubted = doubt(tree, id, copy, of.ds_ids[place]); !doubted) return doubted;
  }
  return {};
}

// Whether another has taken its place already, but for the map.
Result<bool> is_leaving(Transaction& transaction, const layout::LayoutMap& map,
                        const StaleObject& which) {
  auto move = read(transaction, keys::move(which.id), decode_move);
  if (!move) return pass(move);
  if (!*move || (*move)->stage != MoveStage::kFilling || (*move)->from != which.ds_id) return false;
  const auto to = layout::seat_of(map, (*move)->to);
  return to && map.copies[to->copy].state_of(to->stripe) == layout::CopyState::kCurrent;
}

}  // namespace

Result<layout::LayoutMap> Namespace::begin_writing(FileId id, const MakeLayout& make) {
  layout::LayoutMap out;
  auto done = change(locks_.lock({id}), [&](Tree& tree) -> Result<> {
    auto map = tree.layout_or(id, with_room(make));
    if (!map) return pass(map);
    out = std::move(*map);
    const std::string key = keys::writers(id);
    auto record = read(tree.transaction(), key, decode_writers);
    if (!record) return pass(record);
    if (*record && (*record)->boot_epoch == superblock_.boot_epoch) return {};
    if (*record) {
      if (auto bumped = tree.bump_object_epoch(id, out); !bumped) return bumped;
    }
    tree.transaction().put(key, encode(WritersRecord{superblock_.boot_epoch, tree.now_ns()}));
    return {};
  });
  if (!done) return pass(done);
  return out;
}

Result<> Namespace::end_writing(std::span<const FileId> ids) {
  while (!ids.empty()) {
    const auto batch = ids.first(std::min(kBatch, ids.size()));
    ids = ids.subspan(batch.size());
    auto guard = locks_.lock(std::vector<FileId>(batch.begin(), batch.end()));
    const auto untold = [this](FileId id) { return locks_.untold(id); };
    const bool any_untold = std::ranges::any_of(batch, untold);
    const auto erase = [&](Tree& tree) -> Result<> {
      for (const FileId id : batch) {
        tree.transaction().erase(keys::writers(id));
        if (!untold(id)) continue;
        auto inode = tree.inode(id);  // the time of its last write is stored
        if (!inode && inode.error() != Errc::kStale) return pass(inode);
      }
      return {};
    };
    auto seq = apply(guard, erase, any_untold ? Told::kLater : Told::kNever);
    if (!seq) return pass(seq);
  }
  return {};
}

Result<std::vector<WrittenFile>> Namespace::written_files(FileId after, std::size_t limit) const {
  std::vector<WrittenFile> out;
  Result<> bad;
  keys::Range range = keys::all_writers();
  range.begin = keys::after(keys::writers(after));
  const auto visit = [&](std::string_view key, std::string_view value) {
    const auto at = keys::parse_writers(key);
    auto record = decode_writers(value);
    if (!record) bad = pass(record);
    if (at && record) out.push_back({at->id, record->boot_epoch, record->since_ns});
    return bad.has_value();
  };
  if (auto done = store_.latest().scan(range.begin, range.end, limit, visit); !done) {
    return pass(done);
  }
  if (!bad) return pass(bad);
  return out;
}

Result<Namespace::Marked> Namespace::mark_stale(const StaleObject& missed,
                                                std::optional<std::uint32_t> reporter, Durable when,
                                                Led led) {
  Marked out;
  const auto mark = [&](Tree& tree) -> Result<> {
    auto map = tree.layout(missed.id);
    if (!map) return pass(map);
    if (!*map) return fail(Errc::kNotFound, "no layout");
    out = {std::move(**map)};
    if (auto good = check_mark(out, missed); !good) return good;
    auto place = place_of(out, missed.copy, missed.ds_id);
    if (!place) return pass(place);
    if (auto good = check_others(out, missed, *place, reporter); !good) return good;
    const std::string key = keys::stale(missed.ds_id, missed.id, missed.copy);
    auto before = read(tree.transaction(), key, decode_stale);
    if (!before) return pass(before);
    StaleRecord record{out.object_generation, tree.now_ns(), 0, {}};
    if (*before) record = **before;
    for (const DirtyExtent& extent : missed.dirty) add_dirty(record.dirty, extent);
    const bool stale = out.copies[missed.copy].state_of(*place) == layout::CopyState::kStale;
    // A job that begins later makes all of that equal, and one of before can clear nothing.
    if (stale && *before && record.dirty == (*before)->dirty) return {};
    ++record.ticket;
    auto put = tree.put_stale(missed.ds_id, missed.id, missed.copy, record);
    if (!put) return put;
    if (stale) return {};
    layout::Copy& copy = out.copies[missed.copy];
    if (led == Led::kYes && copy.state_of(*place) == layout::CopyState::kCurrent) {
      if (auto doubted = doubt_resyncing(tree, missed.id, out, *place); !doubted) return doubted;
    }
    copy.set_state(*place, layout::CopyState::kStale);
    out.fresh = true;
    return tree.bump_object_epoch(missed.id, out);
  };
  auto done = when == Durable::kLater ? change_told(locks_.lock({missed.id}), mark)
                                      : change(locks_.lock({missed.id}), mark);
  if (!done) return pass(done);
  return out;
}

Result<> Namespace::doubt_stale(FileId id) {
  return change(locks_.lock({id}), [&](Tree& tree) -> Result<> {
    auto map = tree.layout(id);
    if (!map) return pass(map);
    if (!*map) return {};
    for (std::uint32_t copy = 0; copy < (*map)->copies.size(); ++copy) {
      for (const std::uint32_t ds_id : (*map)->copies[copy].ds_ids) {
        if (auto doubted = doubt(tree, id, copy, ds_id); !doubted) return doubted;
      }
    }
    return {};
  });
}

Result<std::optional<ResyncBegun>> Namespace::begin_resync(const StaleObject& which) {
  std::optional<ResyncBegun> out;
  auto done = change(locks_.lock({which.id}), [&](Tree& tree) -> Result<> {
    out.reset();
    auto record =
        read(tree.transaction(), keys::stale(which.ds_id, which.id, which.copy), decode_stale);
    if (!record) return pass(record);
    if (!*record) return {};
    auto map = tree.layout(which.id);
    if (!map) return pass(map);
    if (!*map) return fail(Errc::kCorrupt, "a stale object without layout");
    const auto place = place_of(**map, which.copy, which.ds_id);
    if (!place) return fail(Errc::kCorrupt, place.error().text);
    auto leaves = is_leaving(tree.transaction(), **map, which);
    if (!leaves) return pass(leaves);
    if (*leaves) return {};
    out.emplace(std::move(**map),
                StaleObject{which.id, which.copy, which.ds_id, (*record)->since_ns,
                            (*record)->ticket, std::move((*record)->dirty)});
    layout::Copy& copy = out->map.copies[which.copy];
    if (copy.state_of(*place) == layout::CopyState::kResyncing) return {};
    copy.set_state(*place, layout::CopyState::kResyncing);
    return tree.bump_object_epoch(which.id, out->map);
  });
  if (!done) return pass(done);
  return out;
}

Result<bool> Namespace::clear_stale(const StaleObject& mended) {
  bool cleared = false;
  auto done = change(locks_.lock({mended.id}), [&](Tree& tree) -> Result<> {
    cleared = false;
    const std::string key = keys::stale(mended.ds_id, mended.id, mended.copy);
    auto record = read(tree.transaction(), key, decode_stale);
    if (!record) return pass(record);
    if (!*record || (*record)->ticket != mended.ticket) return {};
    auto map = tree.layout(mended.id);
    if (!map) return pass(map);
    if (!*map) return fail(Errc::kCorrupt, "a stale object without layout");
    const auto place = place_of(**map, mended.copy, mended.ds_id);
    if (!place) return fail(Errc::kCorrupt, place.error().text);
    if ((*map)->copies[mended.copy].state_of(*place) != layout::CopyState::kResyncing) return {};
    auto erased = tree.erase_stale(mended.ds_id, mended.id, mended.copy);
    if (!erased) return erased;
    cleared = true;
    (*map)->copies[mended.copy].set_state(*place, layout::CopyState::kCurrent);
    tree.change_layout(mended.id, **map);
    return {};
  });
  if (!done) return pass(done);
  return cleared;
}

Result<bool> Namespace::shrink_stale(const StaleObject& mended,
                                     const std::vector<DirtyExtent>& left) {
  bool shrunk = false;
  auto done = change(locks_.lock({mended.id}), [&](Tree& tree) -> Result<> {
    shrunk = false;
    const std::string key = keys::stale(mended.ds_id, mended.id, mended.copy);
    auto record = read(tree.transaction(), key, decode_stale);
    if (!record) return pass(record);
    if (!*record || (*record)->ticket != mended.ticket) return {};
    std::vector<DirtyExtent> dirty;
    for (const DirtyExtent& of : (*record)->dirty) {
      for (const DirtyExtent& rest : left) {
        const DirtyExtent both{std::max(of.offset, rest.offset), std::min(of.end, rest.end)};
        if (both.offset < both.end) add_dirty(dirty, both);
      }
    }
    if (dirty.empty()) return {};
    (*record)->dirty = std::move(dirty);
    shrunk = true;
    return tree.put_stale(mended.ds_id, mended.id, mended.copy, **record);
  });
  if (!done) return pass(done);
  return shrunk;
}

Result<> Namespace::count_stale() {
  StaleChanges found;
  const keys::Range range = keys::all_stale();
  const auto visit = [&found](std::string_view key, std::string_view /*value*/) {
    if (const auto at = keys::parse_stale(key)) ++found[at->ds_id];
    return true;
  };
  if (auto done = store_.latest().scan(range.begin, range.end, SIZE_MAX, visit); !done) return done;
  stale_counts_.add(found);
  return {};
}

Result<std::vector<StaleObject>> Namespace::stale_objects(std::uint32_t ds_id,
                                                          std::optional<StaleObject> after,
                                                          std::size_t limit) const {
  std::vector<StaleObject> out;
  Result<> bad;
  keys::Range range = keys::stale_of(ds_id);
  if (after) range.begin = keys::after(keys::stale(ds_id, after->id, after->copy));
  const auto visit = [&](std::string_view key, std::string_view value) {
    const auto at = keys::parse_stale(key);
    auto record = decode_stale(value);
    if (!record) bad = pass(record);
    if (at && record) {
      out.push_back({at->id, at->copy, at->ds_id, record->since_ns, record->ticket,
                     std::move(record->dirty)});
    }
    return bad.has_value();
  };
  if (auto done = store_.latest().scan(range.begin, range.end, limit, visit); !done) {
    return pass(done);
  }
  if (!bad) return pass(bad);
  CommitSeq seen = 0;
  for (const StaleObject& object : out) seen = std::max(seen, locks_.seen({object.id}));
  if (auto durable = store_.wait_durable(seen); !durable) return pass(durable);
  return out;
}

}  // namespace weft::mds
