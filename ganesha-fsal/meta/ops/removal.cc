// The queue of objects to be removed at the data servers.
#include <algorithm>

#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/meta/ops/tree.h"
#include "ganesha-fsal/meta/schema/keys.h"

namespace weft::mds {

Result<std::vector<PendingRemoval>> Namespace::pending_removals(
    std::optional<layout::ObjectId> after, std::size_t limit) const {
  std::vector<PendingRemoval> out;
  Result<> bad;
  keys::Range range = keys::all(keys::Prefix::kRemoval);
  if (after) range.begin = keys::after(keys::removal(after->fileid, after->generation));
  const auto visit = [&](std::string_view key, std::string_view value) {
    const auto at = keys::parse_removal(key);
    auto record = decode_removal(value);
    if (!at || !record) {
      bad = record ? Result<>(fail(Errc::kCorrupt, "malformed removal key")) : pass(record);
      return false;
    }
    out.push_back({{at->id, at->generation, superblock_.fsid},
                   std::move(record->ds_ids),
                   record->least_epoch});
    return true;
  };
  auto done = store_.latest().scan(range.begin, range.end, limit, visit);
  if (!done) return pass(done);
  if (!bad) return pass(bad);
  return certain(std::move(out));
}

Result<std::vector<PendingRemoval>> Namespace::pending_removals(
    std::span<const layout::ObjectId> objects) const {
  std::vector<std::string> wanted;
  for (const layout::ObjectId& object : objects) {
    wanted.push_back(keys::removal(object.fileid, object.generation));
  }
  auto values = store_.latest().peek_all(wanted);
  if (!values) return pass(values);
  std::vector<PendingRemoval> out;
  for (std::size_t at = 0; at < objects.size(); ++at) {
    if (!(*values)[at]) continue;
    auto record = decode_removal(*(*values)[at]);
    if (!record) return pass(record);
    out.push_back({objects[at], std::move(record->ds_ids), record->least_epoch});
  }
  return certain(std::move(out));
}

// An object must not go before its file's removal is certain.
Result<std::vector<PendingRemoval>> Namespace::certain(std::vector<PendingRemoval> removals) const {
  CommitSeq seen = 0;
  for (const PendingRemoval& removal : removals) {
    seen = std::max(seen, locks_.seen({removal.object.fileid}));
  }
  if (auto durable = store_.wait_durable(seen); !durable) return pass(durable);
  return removals;
}

namespace {

constexpr std::size_t kBatch = 32;  // so many inodes are locked at once

Result<> finish(Tree& tree, const PendingRemoval& removed) {
  const layout::ObjectId& object = removed.object;
  const std::string key = keys::removal(object.fileid, object.generation);
  auto value = tree.transaction().get(key);
  if (!value) return pass(value);
  if (!*value) return {};
  auto record = decode_removal(**value);
  if (!record) return pass(record);
  for (const std::uint32_t ds_id : removed.ds_ids) {
    if (std::erase(record->ds_ids, ds_id) == 0) continue;
    tree.transaction().erase(keys::reverse(ds_id, object.fileid, object.generation));
  }
  if (record->ds_ids.empty()) {
    tree.transaction().erase(key);
  } else {
    tree.transaction().put(key, encode(*record));
  }
  return {};
}

}  // namespace

Result<> Namespace::finish_removals(std::span<const layout::ObjectId> objects,
                                    std::span<const std::uint32_t> ds_ids) {
  std::vector<PendingRemoval> removed;
  for (const layout::ObjectId& object : objects) {
    removed.push_back({object, {ds_ids.begin(), ds_ids.end()}});
  }
  return finish_removals(removed);
}

Result<> Namespace::finish_removals(std::span<const PendingRemoval> removed) {
  while (!removed.empty()) {
    const auto batch = removed.first(std::min(kBatch, removed.size()));
    removed = removed.subspan(batch.size());
    std::vector<FileId> ids;
    for (const PendingRemoval& removal : batch) ids.push_back(removal.object.fileid);
    auto guard = locks_.lock(ids);
    const auto finish_all = [&](Tree& tree) -> Result<> {
      for (const PendingRemoval& removal : batch) {
        if (auto finished = finish(tree, removal); !finished) return finished;
      }
      return {};
    };
    auto seq = apply(guard, finish_all, Told::kNever);
    if (!seq) return pass(seq);
  }
  return {};
}

Result<std::vector<layout::ObjectId>> Namespace::without_entry(
    std::uint32_t ds_id, std::span<const layout::ObjectId> objects) const {
  std::vector<layout::ObjectId> out;
  for (const layout::ObjectId& object : objects) {
    if (object.fsid == superblock_.fsid) {
      auto entry = store_.latest().peek(keys::reverse(ds_id, object.fileid, object.generation));
      if (!entry) return pass(entry);
      if (*entry) continue;
    }
    out.push_back(object);
  }
  return out;
}

Result<bool> Namespace::was_made(const layout::ObjectId& object) const {
  if (object.fsid != superblock_.fsid) return false;
  auto value = store_.latest().peek(keys::next_fileid());
  if (!value) return pass(value);
  if (!*value) return fail(Errc::kCorrupt, "the metadata store has no file number counter");
  auto next = decode_counter(**value);
  if (!next) return pass(next);
  return object.fileid > kRootFileId && object.fileid < *next;
}

// No handle of a stray may be good any more, and nothing says which epochs its file had. They count
// what happens less often than once a second, from 1 on, or from the stamp of a restore. So what
// would be the stamp of a restore at this moment is above all of them, and not above those that
// begin with a later restore, of a backup that knows the file.
Result<std::uint32_t> Namespace::epoch_above_all() const {
  const auto stamp = restore_stamp(options_.now_ns());
  if (stamp && (!restore_ || *stamp > restore_->stamp)) return *stamp;
  return fail(Errc::kInvalid, restore_ ? "the clock of this machine is wrong, or the store was "
                                         "restored a moment ago"
                                       : "the clock of this machine is wrong");
}

Result<bool> Namespace::queue_stray(std::uint32_t ds_id, const layout::ObjectId& object) {
  auto made = was_made(object);
  if (!made) return pass(made);
  if (!*made) return fail(Errc::kInvalid, "of a file that was never made here");
  bool queued = false;
  auto done = change(locks_.lock({object.fileid}), [&](Tree& tree) -> Result<> {
    queued = false;
    const std::string entry = keys::reverse(ds_id, object.fileid, object.generation);
    auto there = tree.transaction().get(entry);
    if (!there) return pass(there);
    if (*there) return {};
    auto map = tree.layout(object.fileid);
    if (!map) return pass(map);
    // An object that may come to this data server again must not be fenced against that.
    const bool named = *map && (*map)->object_generation == object.generation;
    auto least_epoch = named ? (*map)->object_epoch : epoch_above_all();
    if (!least_epoch) return pass(least_epoch);
    tree.transaction().put(entry, "");
    queued = true;
    return tree.queue_removal(object.fileid, object.generation, {ds_id}, *least_epoch);
  });
  if (!done) return pass(done);
  return queued;
}

}  // namespace weft::mds
