// RENAME, all POSIX cases.
//
// A directory must not get below itself. Directories move between directories one at a time
// (rename_mutex_), so that the way up from the target stays as it is while it is checked; the
// transaction has read every parent record on it as well, for stores with other writers.
#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/meta/ops/rights.h"
#include "ganesha-fsal/meta/ops/tree.h"
#include "ganesha-fsal/meta/schema/keys.h"

namespace weft::mds {

struct Namespace::RenameNames {
  const Credentials& who;
  FileId from_dir = 0;
  std::string_view from_name;
  FileId to_dir = 0;
  std::string_view to_name;
};

struct Namespace::LockedRename {
  std::unique_ptr<MutexLock> directories;  // before guard: unlocked after it. Null: not needed
  InodeLocks::Guard guard;
  std::optional<EntryRecord> from;
  std::optional<EntryRecord> to;
};

namespace {

constexpr int kMaxDepth = 1 << 16;

FileId id_of(const std::optional<EntryRecord>& entry) { return entry ? entry->id : 0; }

// kInvalid when `dir` is `moving` or below it.
Result<> check_not_below(Tree& tree, FileId dir, FileId moving) {
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    if (dir == moving) return fail(Errc::kInvalid, "a directory into itself");
    if (dir == kRootFileId) return {};
    auto value = tree.transaction().get(keys::parent(dir));
    if (!value) return pass(value);
    if (!*value) return fail(Errc::kStale, "removed meanwhile");
    auto parent = decode_parent(**value);
    if (!parent) return pass(parent);
    dir = parent->dir;
  }
  return fail(Errc::kCorrupt, "no way up to the root");
}

constexpr std::uint32_t kWrite = 02;

// The caller's rights, and whether the one may take the other's place. Its ".." is a directory's to
// write, so to move it elsewhere takes write permission on it.
Result<> check_move(const Credentials& who, const InodeAttributes& from_dir,
                    const InodeAttributes& moved, const InodeAttributes& to_dir,
                    const InodeRecord* replaced) {
  const bool directory = moved.type == FileType::kDirectory;
  if (auto good = may_take(who, from_dir, moved); !good) return good;
  if (replaced == nullptr) {
    if (auto good = may_add(who, to_dir); !good) return good;
  } else {
    const InodeAttributes& old = replaced->attributes;
    if (auto good = may_take(who, to_dir, old); !good) return good;
    const bool over_directory = old.type == FileType::kDirectory;
    if (directory && !over_directory) return fail(Errc::kNotDirectory);
    if (!directory && over_directory) return fail(Errc::kIsDirectory);
  }
  if (directory && from_dir.id != to_dir.id) {
    if (auto good = may_use(who, moved, kWrite); !good) return good;
  }
  if (replaced != nullptr && directory && replaced->attributes.size > 0) {
    return fail(Errc::kNotEmpty);
  }
  return {};
}

}  // namespace

Result<Namespace::LockedRename> Namespace::lock_rename(const RenameNames& names) {
  const KvReader& reader = store_.latest();
  const auto peek = [&](std::optional<EntryRecord>& from, std::optional<EntryRecord>& to) {
    auto found = peek_entry(reader, names.from_dir, names.from_name);
    if (!found) return Result<>(pass(found));
    from = *found;
    found = peek_entry(reader, names.to_dir, names.to_name);
    if (!found) return Result<>(pass(found));
    to = *found;
    return Result<>();
  };
  for (;;) {
    std::optional<EntryRecord> from;
    std::optional<EntryRecord> to;
    if (auto done = peek(from, to); !done) return pass(done);
    const bool moves_directory =
        names.from_dir != names.to_dir && from && from->type == FileType::kDirectory;
    std::unique_ptr<MutexLock> directories;
    if (moves_directory) directories = std::make_unique<MutexLock>(rename_mutex_);
    auto guard = locks_.lock({names.from_dir, names.to_dir, id_of(from), id_of(to)});
    std::optional<EntryRecord> from_now;
    std::optional<EntryRecord> to_now;
    if (auto done = peek(from_now, to_now); !done) return pass(done);
    // An inode keeps its type, so the same inode means that the right locks are held.
    if (id_of(from_now) == id_of(from) && id_of(to_now) == id_of(to)) {
      return LockedRename{std::move(directories), std::move(guard), from_now, to_now};
    }
  }
}

Result<> Namespace::rename_in(Tree& tree, const RenameNames& names, const LockedRename& locked,
                              bool replaced_held, Renamed& out) {
  const bool same_dir = names.from_dir == names.to_dir;
  auto from_dir = tree.directory(names.from_dir);
  if (!from_dir) return pass(from_dir);
  auto other_dir = same_dir ? Result<InodeRecord>(InodeRecord{}) : tree.directory(names.to_dir);
  if (!other_dir) return pass(other_dir);
  InodeRecord& to_dir = same_dir ? *from_dir : *other_dir;
  if (auto good = may_search(names.who, from_dir->attributes); !good) return good;
  if (auto good = may_search(names.who, to_dir.attributes); !good) return good;
  auto from = tree.entry(names.from_dir, names.from_name);
  if (!from) return pass(from);
  auto to = tree.entry(names.to_dir, names.to_name);
  if (!to) return pass(to);
  if (!*from) return fail(Errc::kNotFound);
  if (id_of(*from) != id_of(locked.from) || id_of(*to) != id_of(locked.to)) {
    return fail(Errc::kConflict, "renamed meanwhile");
  }
  auto moved = tree.inode((*from)->id);
  if (!moved) return pass(moved);
  out = {{from_dir->attributes, from_dir->attributes},
         {to_dir.attributes, to_dir.attributes},
         moved->attributes,
         std::nullopt,
         false};
  if (id_of(*to) == id_of(*from)) return {};
  if (!same_dir && (*from)->type == FileType::kDirectory) {
    if (auto good = check_not_below(tree, names.to_dir, (*from)->id); !good) return good;
  }
  std::optional<InodeRecord> replaced;
  if (*to) {
    auto inode = tree.inode((*to)->id);
    if (!inode) return pass(inode);
    replaced = std::move(*inode);
  }
  if (auto good = check_move(names.who, from_dir->attributes, moved->attributes, to_dir.attributes,
                             replaced ? &*replaced : nullptr);
      !good) {
    return good;
  }
  tree.drop_entry(*from_dir, names.from_name, **from);
  if (replaced) {
    tree.replace_entry(to_dir, names.to_name, **to, (*from)->id, (*from)->type);
    auto orphaned = tree.drop_link(*replaced, replaced_held);
    if (!orphaned) return pass(orphaned);
    out.replaced_orphaned = *orphaned;
    out.replaced = replaced->attributes;
  } else if (auto added = tree.add_entry(to_dir, names.to_name, (*from)->id, (*from)->type);
             !added) {
    return added;
  }
  tree.touch_ctime(*moved);
  tree.store(*moved);
  tree.touch_mtime(*from_dir);
  tree.store(*from_dir);
  if (!same_dir) tree.touch_mtime(to_dir);
  if (!same_dir) tree.store(to_dir);
  out.from.after = from_dir->attributes;
  out.to.after = to_dir.attributes;
  out.moved = moved->attributes;
  return {};
}

Result<Renamed> Namespace::rename(const Credentials& who, FileId from_dir,
                                  std::string_view from_name, FileId to_dir,
                                  std::string_view to_name) {
  if (auto good = check_name(from_name); !good) return pass(good);
  if (auto good = check_name(to_name); !good) return pass(good);
  const RenameNames names{who, from_dir, from_name, to_dir, to_name};
  auto locked = lock_rename(names);
  if (!locked) return pass(locked);
  const bool replaced_held = locked->to && locks_.held(locked->to->id);
  std::optional<InheritedPolicies::Change> change;
  if (locked->directories) change.emplace(inherited_);
  Renamed out;
  auto seq = apply(locked->guard,
                   [&](Tree& tree) { return rename_in(tree, names, *locked, replaced_held, out); });
  const CommitSeq seen = seq ? *seq : locked->guard.seen();
  locked->guard.unlock();
  locked->directories.reset();
  if (auto noted = told(seen); !noted) return pass(noted);
  if (!seq) return pass(seq);
  return out;
}

}  // namespace weft::mds
