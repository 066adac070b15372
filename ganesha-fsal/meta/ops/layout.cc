// Layout maps, the reverse index from data servers to objects, and epochs.
#include <algorithm>

#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/meta/ops/tree.h"
#include "ganesha-fsal/meta/schema/keys.h"

namespace weft::mds {
namespace {

Result<std::uint32_t> to_epoch(Result<std::optional<std::string>> value) {
  if (!value) return pass(value);
  if (!*value) return 1U;
  auto counter = decode_counter(**value);
  if (!counter) return pass(counter);
  if (*counter > UINT32_MAX) return fail(Errc::kCorrupt, "epoch out of range");
  return static_cast<std::uint32_t>(*counter);
}

}  // namespace

Result<std::optional<layout::LayoutMap>> Namespace::layout(FileId id, IfNone none) const {
  auto map = peek_layout(store_.latest(), id);
  if (map && !*map && none == IfNone::kSayNow) return map;
  if (auto settled = settle({id}); !settled) return pass(settled);
  return map;
}

Result<bool> Namespace::has_layout(FileId id) const {
  auto value = store_.latest().peek(keys::layout(id));
  if (!value) return pass(value);
  return value->has_value();
}

Namespace::MakeLayout Namespace::with_room(const MakeLayout& make) const {
  return [this, &make](const InodeAttributes& file) -> Result<layout::LayoutMap> {
    if (auto room = store_.room(); !room) return pass(room);
    auto map = make(file);
    if (map && restore_) map->object_generation = restore_->stamp;
    return map;
  };
}

Result<layout::LayoutMap> Namespace::ensure_layout(FileId id, const MakeLayout& make) {
  auto there = layout(id);
  if (!there) return pass(there);
  if (*there) return std::move(**there);
  layout::LayoutMap out;
  auto done = change(locks_.lock({id}), [&](Tree& tree) -> Result<> {
    auto map = tree.layout_or(id, with_room(make));
    if (!map) return pass(map);
    out = std::move(*map);
    return {};
  });
  if (!done) return pass(done);
  return out;
}

Result<std::vector<FileId>> Namespace::laid_out(FileId after, std::size_t limit) const {
  std::vector<FileId> out;
  const std::string begin = keys::after(keys::layout(after));
  const auto visit = [&](std::string_view key, std::string_view) {
    if (const auto at = keys::parse_number(keys::Prefix::kLayout, key)) out.push_back(at->id);
    return true;
  };
  const std::string end = keys::all(keys::Prefix::kLayout).end;
  if (auto done = store_.latest().scan(begin, end, limit, visit); !done) return pass(done);
  return out;
}

Result<layout::LayoutMap> Namespace::bump_object_epoch(FileId id) {
  layout::LayoutMap out;
  auto done = change(locks_.lock({id}), [&](Tree& tree) -> Result<> {
    auto map = tree.layout(id);
    if (!map) return pass(map);
    if (!*map) return fail(Errc::kNotFound, "no layout");
    out = std::move(**map);
    return tree.bump_object_epoch(id, out);
  });
  if (!done) return pass(done);
  return out;
}

Result<std::uint32_t> Namespace::client_epoch(ClientId client) const {
  return to_epoch(store_.latest().peek(keys::client_epoch(client)));
}

Result<std::uint32_t> Namespace::bump_client_epoch(ClientId client) {
  std::uint32_t epoch = 0;
  auto done = store_.run([&](Transaction& transaction) -> Result<> {
    auto now = to_epoch(transaction.get(keys::client_epoch(client)));
    if (!now) return pass(now);
    if (*now == UINT32_MAX) return fail(Errc::kTooLarge, "out of client epochs");
    epoch = *now + 1;
    transaction.put(keys::client_epoch(client), encode_counter(epoch));
    return {};
  });
  if (!done) return pass(done);
  return epoch;
}

Result<std::vector<Namespace::ClientEpoch>> Namespace::client_epochs() const {
  std::vector<ClientEpoch> out;
  Result<> bad;
  const keys::Range range = keys::all(keys::Prefix::kClientEpoch);
  const auto visit = [&](std::string_view key, std::string_view value) {
    const auto at = keys::parse_number(keys::Prefix::kClientEpoch, key);
    auto epoch = to_epoch(std::optional(std::string(value)));
    if (!epoch) bad = pass(epoch);
    if (at && epoch) out.push_back({at->id, *epoch});
    return bad.has_value();
  };
  auto done = store_.latest().scan(range.begin, range.end, SIZE_MAX, visit);
  if (!done) return pass(done);
  if (!bad) return pass(bad);
  return out;
}

Result<std::vector<layout::ObjectId>> Namespace::objects_of(std::uint32_t ds_id,
                                                            std::optional<layout::ObjectId> after,
                                                            std::size_t limit) const {
  std::vector<layout::ObjectId> out;
  keys::Range range = keys::reverse_of(ds_id);
  if (after) range.begin = keys::after(keys::reverse(ds_id, after->fileid, after->generation));
  const auto visit = [&](std::string_view key, std::string_view) {
    if (const auto at = keys::parse_reverse(key)) {
      out.push_back({at->id, at->generation, superblock_.fsid});
    }
    return true;
  };
  auto done = store_.latest().scan(range.begin, range.end, limit, visit);
  if (!done) return pass(done);
  return out;
}

}  // namespace weft::mds
