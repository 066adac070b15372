// The queue of objects to be removed at the data servers.
#include <algorithm>

#include "ganesha-fsal/meta/namespace.h"
#include "ganesha-fsal/meta/ops/tree.h"
#include "ganesha-fsal/meta/schema/keys.h"

namespace weft::mds {

Result<std::vector<PendingRemoval>> Namespace::pending_removals(
    std::optional<layout::ObjectId> after, std::size_t limit) const {
  std::vector<PendingRemoval> out;
  Result<> bad;
  CommitSeq seen = 0;
  keys::Range range = keys::all(keys::Prefix::kRemoval);
  if (after) range.begin = keys::after(keys::removal(after->fileid, after->generation));
  const auto visit = [&](std::string_view key, std::string_view value) {
    const auto at = keys::parse_removal(key);
    auto record = decode_removal(value);
    if (!at || !record) {
      bad = record ? Result<>(fail(Errc::kCorrupt, "malformed removal key")) : pass(record);
      return false;
    }
    out.push_back({{at->id, at->generation, superblock_.fsid}, std::move(record->ds_ids)});
    return true;
  };
  auto done = store_.latest().scan(range.begin, range.end, limit, visit);
  if (!done) return pass(done);
  if (!bad) return pass(bad);
  // An object must not go before its file's removal is certain.
  for (const PendingRemoval& removal : out)
    seen = std::max(seen, locks_.seen({removal.object.fileid}));
  if (auto durable = store_.wait_durable(seen); !durable) return pass(durable);
  return out;
}

Result<> Namespace::finish_removal(const layout::ObjectId& object,
                                   std::span<const std::uint32_t> ds_ids) {
  const std::string key = keys::removal(object.fileid, object.generation);
  return change(locks_.lock({object.fileid}), [&](Tree& tree) -> Result<> {
    auto value = tree.transaction().get(key);
    if (!value) return pass(value);
    if (!*value) return {};
    auto record = decode_removal(**value);
    if (!record) return pass(record);
    for (const std::uint32_t ds_id : ds_ids) {
      if (std::erase(record->ds_ids, ds_id) == 0) continue;
      tree.transaction().erase(keys::reverse(ds_id, object.fileid, object.generation));
    }
    if (record->ds_ids.empty()) {
      tree.transaction().erase(key);
    } else {
      tree.transaction().put(key, encode(*record));
    }
    return {};
  });
}

}  // namespace weft::mds
