#include "ganesha-fsal/meta/ops/tree.h"

#include <algorithm>

#include "ganesha-fsal/meta/schema/journal.h"
#include "ganesha-fsal/meta/schema/keys.h"
#include "rpc/base/assert.h"

namespace weft::mds {
namespace {

using Value = Result<std::optional<std::string>>;

Error stale(FileId id) { return {Errc::kStale, "no inode " + std::to_string(id)}; }

Result<InodeRecord> to_inode(Value value, FileId id) {
  if (!value) return pass(value);
  if (!*value) return std::unexpected(stale(id));
  auto inode = decode_inode(**value);
  if (inode && inode->attributes.id != id) {
    return fail(Errc::kCorrupt, "inode " + std::to_string(id) + " holds another's number");
  }
  return inode;
}

Result<InodeRecord> to_directory(Result<InodeRecord> inode) {
  if (inode && inode->attributes.type != FileType::kDirectory) return fail(Errc::kNotDirectory);
  return inode;
}

Result<std::optional<EntryRecord>> to_entry(Value value) {
  if (!value) return pass(value);
  if (!*value) return std::nullopt;
  auto entry = decode_entry(**value);
  if (!entry) return pass(entry);
  return *entry;
}

Result<std::optional<layout::LayoutMap>> to_layout(Value value) {
  if (!value) return pass(value);
  if (!*value) return std::nullopt;
  auto map = layout::decode_layout_map(std::string_view(**value));
  if (!map) return pass(map);
  return std::move(*map);
}

Result<std::string> to_inline(Value value) {
  if (!value) return pass(value);
  if (!*value) return std::string();
  auto record = decode_inline(**value);
  if (!record) return pass(record);
  return std::move(record->bytes);
}

struct Behind {
  std::uint32_t copy;
  std::uint32_t ds_id;
};

// Who holds something of a copy that is not current.
std::vector<Behind> behind(const layout::LayoutMap& map) {
  std::vector<Behind> found;
  for (std::uint32_t copy = 0; copy < map.copies.size(); ++copy) {
    const layout::Copy& servers = map.copies[copy];
    for (std::size_t at = 0; at < servers.ds_ids.size(); ++at) {
      if (servers.state_of(at) == layout::CopyState::kCurrent || !servers.holds(at)) continue;
      found.push_back({copy, servers.ds_ids[at]});
    }
  }
  return found;
}

constexpr std::uint32_t kSetUid = 04000;
constexpr std::uint32_t kSetGid = 02000;
constexpr std::uint32_t kGroupExecute = 010;

// What a write takes away: set-user-id, and set-group-id unless it only marks mandatory locking.
std::uint32_t mode_after_write(std::uint32_t mode) {
  mode &= ~kSetUid;
  if ((mode & kGroupExecute) != 0) mode &= ~kSetGid;
  return mode;
}

}  // namespace

Result<> check_name(std::string_view name) {
  if (is_entry_name(name)) return {};
  if (name.size() > kMaxNameBytes) return fail(Errc::kNameTooLong);
  return fail(Errc::kInvalid, "not a name for an entry");
}

Result<InodeRecord> peek_inode(const KvReader& reader, FileId id) {
  return to_inode(reader.peek(keys::inode(id)), id);
}

Result<std::vector<std::optional<InodeRecord>>> peek_inodes(const KvReader& reader,
                                                            std::span<const FileId> ids) {
  std::vector<std::string> wanted;
  wanted.reserve(ids.size());
  for (const FileId id : ids) wanted.push_back(keys::inode(id));
  auto values = reader.peek_all(wanted);
  if (!values) return pass(values);
  std::vector<std::optional<InodeRecord>> inodes(ids.size());
  for (std::size_t at = 0; at < ids.size(); ++at) {
    if (!(*values)[at]) continue;
    auto inode = to_inode(std::move((*values)[at]), ids[at]);
    if (!inode) return pass(inode);
    inodes[at] = std::move(*inode);
  }
  return inodes;
}

Result<InodeRecord> peek_directory(const KvReader& reader, FileId id) {
  return to_directory(peek_inode(reader, id));
}

Result<std::optional<EntryRecord>> peek_entry(const KvReader& reader, FileId dir,
                                              std::string_view name) {
  return to_entry(reader.peek(keys::entry(dir, name)));
}

Result<ParentRecord> peek_parent(const KvReader& reader, FileId dir) {
  auto value = reader.peek(keys::parent(dir));
  if (!value) return pass(value);
  if (!*value) return std::unexpected(stale(dir));
  return decode_parent(**value);
}

Result<std::optional<layout::LayoutMap>> peek_layout(const KvReader& reader, FileId id) {
  return to_layout(reader.peek(keys::layout(id)));
}

Result<std::string> peek_inline(const KvReader& reader, FileId id) {
  return to_inline(reader.peek(keys::inline_bytes(id)));
}

std::vector<std::uint32_t> holders(const layout::LayoutMap& map) {
  std::vector<std::uint32_t> ids;
  for (const auto& copy : map.copies) ids.insert(ids.end(), copy.ds_ids.begin(), copy.ds_ids.end());
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (!ids.empty() && ids.front() == 0) ids.erase(ids.begin());  // of vacant places
  return ids;
}

Result<InodeRecord> Tree::inode(FileId id) {
  auto inode = to_inode(transaction_.get(keys::inode(id)), id);
  if (!inode) return inode;
  const auto write = locks_.untold_write(id);
  if (!write) return inode;
  if (std::ranges::find(told_, id) != told_.end()) return inode;
  told_.push_back(id);
  if (write->written_ns == write->stored_ns) return inode;
  inode->attributes.mtime_ns = inode->attributes.ctime_ns = write->written_ns;
  store(*inode);
  return inode;
}

Result<InodeRecord> Tree::directory(FileId id) { return to_directory(inode(id)); }

void Tree::store(const InodeRecord& inode) {
  transaction_.put(keys::inode(inode.attributes.id), encode(inode));
}

Result<std::optional<EntryRecord>> Tree::entry(FileId dir, std::string_view name) {
  return to_entry(transaction_.get(keys::entry(dir, name)));
}

Result<std::optional<layout::LayoutMap>> Tree::layout(FileId id) {
  return to_layout(transaction_.get(keys::layout(id)));
}

Result<layout::LayoutMap> Tree::layout_or(FileId id, const MakeLayout& make) {
  auto inode = this->inode(id);
  if (!inode) return pass(inode);
  if (inode->attributes.type != FileType::kRegular) return fail(Errc::kInvalid, "no regular file");
  auto now = layout(id);
  if (!now) return pass(now);
  if (*now) return std::move(**now);
  if (auto free = check_not_inline(id); !free) return pass(free);
  auto made = make(inode->attributes);
  if (!made) return made;
  if (auto good = layout::validate(*made); !good) return pass(good);
  put_layout(id, *made);
  for (const auto& [copy, ds_id] : behind(*made)) {
    const StaleRecord whole{made->object_generation, now_ns_, 1, {{0, kMaxFileSize}}};
    if (auto put = put_stale(ds_id, id, copy, whole); !put) return pass(put);
  }
  return made;
}

// With a map its bytes would be taken for those at its objects.
Result<> Tree::check_not_inline(FileId id) {
  auto growing = transaction_.get(keys::growing(id));
  if (!growing) return pass(growing);
  if (*growing) return {};
  auto bytes = transaction_.get(keys::inline_bytes(id));
  if (!bytes) return pass(bytes);
  if (*bytes) return fail(Errc::kBusy, "the file is inline");
  return {};
}

void Tree::change_layout(FileId id, const layout::LayoutMap& map) {
  changed_maps_.insert_or_assign(id, map);
  transaction_.put(keys::layout(id), layout::encode_layout_map(map));
}

void Tree::put_layout(FileId id, const layout::LayoutMap& map) {
  change_layout(id, map);
  for (const std::uint32_t ds_id : holders(map)) put_reverse(ds_id, id, map.object_generation);
}

void Tree::put_reverse(std::uint32_t ds_id, FileId id, std::uint32_t generation) {
  transaction_.put(keys::reverse(ds_id, id, generation), "");
}

Result<> Tree::give_up_objects(FileId id, const layout::LayoutMap& map) {
  if (map.object_epoch == UINT32_MAX) return fail(Errc::kTooLarge, "out of object epochs");
  changed_maps_.insert_or_assign(id, std::nullopt);
  transaction_.erase(keys::layout(id));
  for (const auto& [copy, ds_id] : behind(map)) {
    if (auto erased = erase_stale(ds_id, id, copy); !erased) return erased;
  }
  return queue_removal(id, map.object_generation, holders(map), map.object_epoch + 1);
}

Result<> Tree::bump_object_epoch(FileId id, layout::LayoutMap& map) {
  if (map.object_epoch == UINT32_MAX) return fail(Errc::kTooLarge, "out of object epochs");
  ++map.object_epoch;
  change_layout(id, map);
  return {};
}

Result<> Tree::put_stale(std::uint32_t ds_id, FileId id, std::uint32_t copy,
                         const StaleRecord& record) {
  const std::string key = keys::stale(ds_id, id, copy);
  auto before = transaction_.get(key);
  if (!before) return pass(before);
  if (!*before) ++stale_changes_[ds_id];
  transaction_.put(key, encode(record));
  return {};
}

Result<> Tree::erase_stale(std::uint32_t ds_id, FileId id, std::uint32_t copy) {
  const std::string key = keys::stale(ds_id, id, copy);
  auto before = transaction_.get(key);
  if (!before) return pass(before);
  if (*before) --stale_changes_[ds_id];
  transaction_.erase(key);
  return {};
}

Result<std::string> Tree::inline_bytes(FileId id) {
  return to_inline(transaction_.get(keys::inline_bytes(id)));
}

void Tree::put_inline(FileId id, std::string bytes) {
  if (bytes.empty()) {
    transaction_.erase(keys::inline_bytes(id));
  } else {
    transaction_.put(keys::inline_bytes(id), encode(InlineRecord{std::move(bytes)}));
  }
}

Result<> Tree::cut_inline(FileId id, std::uint64_t size) {
  auto bytes = inline_bytes(id);
  if (!bytes) return pass(bytes);
  if (bytes->size() <= size) return {};
  bytes->resize(size);
  put_inline(id, std::move(*bytes));
  return {};
}

void Tree::touch_written(InodeRecord& inode, std::uint64_t end) const {
  InodeAttributes& attributes = inode.attributes;
  attributes.size = std::max(attributes.size, end);
  touch_mtime(inode);
  attributes.mode = mode_after_write(attributes.mode);
}

void Tree::touch_ctime(InodeRecord& inode) const {
  inode.attributes.ctime_ns = now_ns_;
  ++inode.attributes.change;
}

void Tree::touch_mtime(InodeRecord& inode) const {
  inode.attributes.mtime_ns = now_ns_;
  touch_ctime(inode);
}

Result<> Tree::add_entry(InodeRecord& dir, std::string_view name, FileId id, FileType type) {
  const FileId dir_id = dir.attributes.id;
  if (dir.next_cookie >> 63 != 0) return fail(Errc::kTooLarge, "directory out of cookies");
  const EntryRecord entry{dir.next_cookie++, id, type};
  transaction_.put(keys::entry(dir_id, name), encode(entry));
  transaction_.put(keys::cookie(dir_id, entry.cookie),
                   encode(CookieRecord{id, type, std::string(name)}));
  ++dir.attributes.size;
  if (type == FileType::kDirectory) {
    if (dir.attributes.nlink == UINT32_MAX) return fail(Errc::kTooManyLinks);
    ++dir.attributes.nlink;
    transaction_.put(keys::parent(id), encode(ParentRecord{dir_id, std::string(name)}));
  }
  return {};
}

void Tree::replace_entry(InodeRecord& dir, std::string_view name, const EntryRecord& old, FileId id,
                         FileType type) {
  const FileId dir_id = dir.attributes.id;
  transaction_.put(keys::entry(dir_id, name), encode(EntryRecord{old.cookie, id, type}));
  transaction_.put(keys::cookie(dir_id, old.cookie),
                   encode(CookieRecord{id, type, std::string(name)}));
  if (old.type == FileType::kDirectory) {
    --dir.attributes.nlink;
    transaction_.erase(keys::parent(old.id));
  }
  if (type == FileType::kDirectory) {
    ++dir.attributes.nlink;
    transaction_.put(keys::parent(id), encode(ParentRecord{dir_id, std::string(name)}));
  }
}

void Tree::drop_entry(InodeRecord& dir, std::string_view name, const EntryRecord& entry) {
  const FileId dir_id = dir.attributes.id;
  transaction_.erase(keys::entry(dir_id, name));
  transaction_.erase(keys::cookie(dir_id, entry.cookie));
  --dir.attributes.size;
  if (entry.type == FileType::kDirectory) {
    --dir.attributes.nlink;
    transaction_.erase(keys::parent(entry.id));
  }
}

Result<bool> Tree::drop_link(InodeRecord& inode, bool held) {
  InodeAttributes& attributes = inode.attributes;
  touch_ctime(inode);
  const bool directory = attributes.type == FileType::kDirectory;
  if (!directory && attributes.nlink == 0) {
    return fail(Errc::kCorrupt,
                "a name of an inode without links, " + std::to_string(attributes.id));
  }
  attributes.nlink = directory ? 0 : attributes.nlink - 1;
  if (attributes.nlink > 0) {
    store(inode);
    return false;
  }
  if (directory || !held) {
    if (auto done = destroy(inode); !done) return pass(done);
    return false;
  }
  transaction_.put(keys::orphan(attributes.id), "");
  store(inode);
  return true;
}

Result<> Tree::destroy(const InodeRecord& inode) {
  const FileId id = inode.attributes.id;
  transaction_.erase(keys::inode(id));
  if (may_.have_policies) transaction_.erase(keys::policy(id));
  if (inode.xattr_bytes > 0) {
    const keys::Range names = keys::under(keys::Prefix::kXattr, id);
    std::vector<std::string> found;
    auto done = transaction_.scan(names.begin, names.end, SIZE_MAX,
                                  [&](std::string_view key, std::string_view) {
                                    found.emplace_back(key);
                                    return true;
                                  });
    if (!done) return done;
    for (const std::string& key : found) transaction_.erase(key);
  }
  if (inode.attributes.type != FileType::kRegular) return {};
  auto map = layout(id);
  if (!map) return pass(map);
  // One that is empty, and has not begun to grow, has no bytes in the store to be erased.
  if (inode.attributes.size > 0 || map->has_value()) {
    if (auto gone = erase_inline(id, map->has_value()); !gone) return gone;
  }
  if (!*map) return {};
  transaction_.erase(keys::truncate(id));
  // Who wrote it in an earlier run may do so still, under handles that nobody can ask back.
  auto writers = transaction_.get(keys::writers(id));
  if (!writers) return pass(writers);
  std::uint32_t least_epoch = 0;
  if (*writers) {
    auto record = decode_writers(**writers);
    if (!record) return pass(record);
    if (record->boot_epoch != boot_epoch_) least_epoch = (*map)->object_epoch + 1;
  }
  if (may_.be_restored) {
    // Nobody has fenced those of before the restore yet.
    auto unchecked = transaction_.get(keys::restored(id));
    if (!unchecked) return pass(unchecked);
    if (*unchecked) least_epoch = (*map)->object_epoch + 1;
    transaction_.erase(keys::restored(id));
  }
  changed_maps_.insert_or_assign(id, std::nullopt);
  transaction_.erase(keys::layout(id));
  transaction_.erase(keys::writers(id));
  // Of a copy that is not current, or has left, nobody has waited for what was sent to it: a write
  // that its leader brings, or a job that fills it, may come later than the removal.
  const auto doubtful = behind(**map);
  if (!doubtful.empty()) least_epoch = (*map)->object_epoch + 1;
  for (const auto& [copy, ds_id] : doubtful) {
    if (auto erased = erase_stale(ds_id, id, copy); !erased) return erased;
  }
  // The reverse entries stay until the data servers have removed their objects.
  auto gone = holders(**map);
  auto moved = transaction_.get(keys::move(id));
  if (!moved) return pass(moved);
  if (*moved) {
    auto record = decode_move(**moved);
    if (!record) return pass(record);
    least_epoch = (*map)->object_epoch + 1;
    gone.push_back(record->from);
    transaction_.erase(keys::move(id));
  }
  return queue_removal(id, (*map)->object_generation, std::move(gone), least_epoch);
}

// With a map there are bytes only while the file is growing.
Result<> Tree::erase_inline(FileId id, bool has_map) {
  if (has_map) {
    auto growing = transaction_.get(keys::growing(id));
    if (!growing) return pass(growing);
    if (!*growing) return {};
    transaction_.erase(keys::growing(id));
  }
  transaction_.erase(keys::inline_bytes(id));
  return {};
}

Result<> Tree::queue_removal(FileId id, std::uint32_t generation, std::vector<std::uint32_t> ds_ids,
                             std::uint32_t least_epoch) {
  const std::string key = keys::removal(id, generation);
  auto waiting = transaction_.get(key);
  if (!waiting) return pass(waiting);
  if (*waiting) {
    auto record = decode_removal(**waiting);
    if (!record) return pass(record);
    ds_ids.insert(ds_ids.end(), record->ds_ids.begin(), record->ds_ids.end());
    least_epoch = std::max(least_epoch, record->least_epoch);
  }
  std::ranges::sort(ds_ids);
  ds_ids.erase(std::unique(ds_ids.begin(), ds_ids.end()), ds_ids.end());
  transaction_.put(key, encode(RemovalRecord{std::move(ds_ids), least_epoch}));
  removals_queued_.emplace_back(id, generation);
  return {};
}

std::vector<layout::ObjectId> Tree::removals_queued(std::uint32_t fsid) const {
  std::vector<layout::ObjectId> objects;
  for (const auto& [id, generation] : removals_queued_) objects.push_back({id, generation, fsid});
  return objects;
}

}  // namespace weft::mds
