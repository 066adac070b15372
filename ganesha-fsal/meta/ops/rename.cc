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

namespace {

FileId id_of(const std::optional<EntryRecord>& entry) { return entry ? entry->id : 0; }

}  // namespace

// What is locked besides the directories that have the names. An inode keeps its type: so while the
// names are of the same inodes, the right locks are held.
struct Namespace::RenameLocks {
  FileId from = 0;
  FileId to = 0;
  bool directories = false;  // rename_mutex_, before any inode

  bool operator==(const RenameLocks&) const = default;
};

struct Namespace::RenameNames {
  const Credentials& who;
  FileId from_dir = 0;
  std::string_view from_name;
  FileId to_dir = 0;
  std::string_view to_name;

  [[nodiscard]] RenameLocks locks(const std::optional<EntryRecord>& from,
                                  const std::optional<EntryRecord>& to) const {
    const bool moves = from_dir != to_dir && from && from->type == FileType::kDirectory;
    return {.from = id_of(from), .to = id_of(to), .directories = moves};
  }
};

namespace {

constexpr int kMaxDepth = 1 << 16;

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

Result<Namespace::RenameLocks> Namespace::look_at(const RenameNames& names) const {
  auto from = peek_entry(store_.latest(), names.from_dir, names.from_name);
  if (!from) return pass(from);
  auto to = peek_entry(store_.latest(), names.to_dir, names.to_name);
  if (!to) return pass(to);
  return names.locks(*from, *to);
}

Result<> Namespace::rename_in(Tree& tree, const RenameNames& names, RenameLocks& locks,
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
  if (const RenameLocks needed = names.locks(*from, *to); needed != locks) {
    locks = needed;
    return fail(Errc::kBusy, "others are to be locked");
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
                                  std::string_view to_name, FileId guess) {
  if (auto good = check_name(from_name); !good) return pass(good);
  if (auto good = check_name(to_name); !good) return pass(good);
  const RenameNames names{who, from_dir, from_name, to_dir, to_name};
  auto looked = guess == 0 ? look_at(names) : RenameLocks{.from = guess};
  if (!looked) return pass(looked);
  RenameLocks needed = *looked;
  for (;;) {
    const RenameLocks locks = needed;
    Renamed out;
    CommitSeq seen = 0;
    auto done = [&]() -> Result<> {
      std::unique_ptr<MutexLock> directories;  // unlocked after the inodes
      if (locks.directories) directories = std::make_unique<MutexLock>(rename_mutex_);
      auto guard = locks_.lock({from_dir, to_dir, locks.from, locks.to});
      const bool replaced_held = locks.to != 0 && locks_.held(locks.to);
      std::optional<InheritedPolicies::Change> change;
      if (locks.directories) change.emplace(inherited_);
      auto seq = commit(guard, [&](Tree& tree) {
        needed = locks;
        return rename_in(tree, names, needed, replaced_held, out);
      });
      seen = seq ? *seq : guard.seen();
      if (!seq) return pass(seq);
      return {};
    }();
    if (!done && needed != locks) continue;
    if (auto noted = told(seen); !noted) return pass(noted);
    if (!done) return pass(done);
    return out;
  }
}

}  // namespace weft::mds
