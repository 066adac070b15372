// Files of a store that came back from a backup, until their objects were found to fit.
#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/meta/ops/tree.h"
#include "ganesha-fsal/meta/schema/keys.h"

namespace weft::mds {
namespace {

Result<std::uint64_t> counted(Result<std::optional<std::string>> value) {
  if (!value) return pass(value);
  return *value ? decode_counter(**value) : 0;
}

}  // namespace

Result<> Namespace::look_for_restored() {
  auto value = store_.latest().peek(keys::restore());
  if (!value) return pass(value);
  if (!*value) return {};
  auto record = decode_restore(**value);
  if (!record) return pass(record);
  restore_ = *record;
  return {};
}

Result<std::optional<RestoredRecord>> Namespace::restored_file(FileId id) const {
  if (!restore_) return std::nullopt;
  auto value = store_.latest().peek(keys::restored(id));
  if (!value) return pass(value);
  if (!*value) return std::nullopt;
  auto record = decode_restored(**value);
  if (!record) return pass(record);
  return *record;
}

Result<std::vector<Namespace::RestoredFile>> Namespace::restored_files(FileId after,
                                                                       std::size_t limit) const {
  std::vector<RestoredFile> out;
  if (!restore_) return out;
  Result<> bad;
  const auto visit = [&](std::string_view key, std::string_view value) {
    const auto at = keys::parse_number(keys::Prefix::kRestored, key);
    auto record = decode_restored(value);
    if (!record) bad = pass(record);
    if (at && record) out.push_back({at->id, *record});
    return bad.has_value();
  };
  const std::string begin = keys::after(keys::restored(after));
  const std::string end = keys::all(keys::Prefix::kRestored).end;
  if (auto done = store_.latest().scan(begin, end, limit, visit); !done) return pass(done);
  if (!bad) return pass(bad);
  return out;
}

Result<std::uint64_t> Namespace::restored_grown() const {
  return counted(store_.latest().peek(keys::restored_grown()));
}

Result<> Namespace::judge_restored(FileId id, const std::optional<RestoredRecord>& found,
                                   const SinceBackup& since) {
  return change(locks_.lock({id}), [&](Tree& tree) -> Result<> {
    auto inode = tree.inode(id);
    if (!inode) return pass(inode);
    const std::string key = keys::restored(id);
    found ? tree.transaction().put(key, encode(*found)) : tree.transaction().erase(key);
    if (since.cut) {
      if (auto done = tree.finish_truncate(*since.cut); !done) return done;
    }
    if (since.end == 0) return {};
    tree.touch_written(*inode, since.end);
    tree.store(*inode);
    auto count = counted(tree.transaction().get(keys::restored_grown()));
    if (!count) return pass(count);
    tree.transaction().put(keys::restored_grown(), encode_counter(*count + 1));
    return {};
  });
}

Result<std::map<FileId, std::string>> Namespace::names_of(const std::set<FileId>& files) const {
  std::map<FileId, std::pair<FileId, std::string>> found;  // directory, name
  if (files.empty()) return std::map<FileId, std::string>{};
  const keys::Range range = keys::all(keys::Prefix::kEntry);
  const auto visit = [&](std::string_view key, std::string_view value) {
    const auto at = keys::parse_named(keys::Prefix::kEntry, key);
    const auto entry = decode_entry(value);
    if (at && entry && files.contains(entry->id)) {
      found.try_emplace(entry->id, at->id, std::string(at->name));
    }
    return found.size() < files.size();
  };
  if (auto done = store_.latest().scan(range.begin, range.end, SIZE_MAX, visit); !done) {
    return pass(done);
  }
  std::map<FileId, std::string> names;
  for (const auto& [id, where] : found) {
    const auto directory = path_of(where.first);
    if (!directory) continue;  // it was moved or removed meanwhile
    names[id] = (*directory == "/" ? "" : *directory) + "/" + where.second;
  }
  return names;
}

}  // namespace weft::mds
