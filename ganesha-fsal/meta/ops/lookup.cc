// LOOKUP, LOOKUPP, GETATTR, READLINK and paths.
#include <algorithm>

#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/meta/ops/tree.h"

namespace weft::mds {
namespace {

Result<FileId> parent_in(const KvReader& reader, FileId dir) {
  if (dir == kRootFileId) return dir;
  auto parent = peek_parent(reader, dir);
  if (!parent) return pass(parent);
  return parent->dir;
}

// What `name` names, 0 when nothing.
Result<FileId> child_in(const KvReader& reader, FileId dir, std::string_view name) {
  if (name == ".") return dir;
  if (name == "..") return parent_in(reader, dir);
  if (auto good = check_name(name); !good) return pass(good);
  auto entry = peek_entry(reader, dir, name);
  if (!entry) return pass(entry);
  return *entry ? (*entry)->id : 0;
}

}  // namespace

Result<InodeAttributes> Namespace::lookup(FileId dir, std::string_view name) const {
  const KvReader& reader = store_.latest();
  // The inode can go between the entry's reading and its own; the name is then looked up again.
  for (int attempt = 0; attempt < 8; ++attempt) {
    auto id = child_in(reader, dir, name);
    if (!id || *id == 0 || *id == dir) {  // else it has an entry, so it is a directory
      auto directory = peek_directory(reader, dir);
      if (!directory) {
        if (auto noted = told({dir}); !noted) return pass(noted);
        return pass(directory);
      }
    }
    if (!id) return pass(id);
    auto inode = *id == 0 ? Result<InodeRecord>(fail(Errc::kNotFound)) : peek_inode(reader, *id);
    if (auto noted = told({dir, *id}); !noted) return pass(noted);
    if (inode && locks_.untold(*id)) inode = tell_write(*id);
    if (inode) return inode->attributes;
    if (inode.error().code != Errc::kStale) return pass(inode);
  }
  return fail(Errc::kNotFound);
}

Result<InodeAttributes> Namespace::getattr(FileId id) const {
  auto inode = peek_inode(store_.latest(), id);
  if (auto noted = told({id}); !noted) return pass(noted);
  if (inode && locks_.untold(id)) inode = tell_write(id);
  if (!inode) return pass(inode);
  return inode->attributes;
}

Result<std::uint64_t> Namespace::size(FileId id) const {
  auto inode = peek_inode(store_.latest(), id);
  if (auto noted = told({id}); !noted) return pass(noted);
  if (!inode) return pass(inode);
  return inode->attributes.size;
}

Result<InodeRecord> Namespace::tell_write(FileId id) const {
  Result<InodeRecord> out = fail(Errc::kStale);
  auto guard = locks_.lock({id});
  auto seq = store_.apply([&](Transaction& transaction) -> Result<> {
    Tree tree(transaction, locks_, options_.now_ns(), superblock_.boot_epoch,
              {.be_restored = restore_.has_value(), .have_policies = policies_});
    out = tree.inode(id);
    return out ? Result<>() : pass(out);
  });
  if (seq) {
    locks_.forget(id);
    if (*seq != 0) guard.committed(*seq);
  }
  // Nobody need be kept from looking at it: what the store has is told, and the next write counts.
  const bool untouched = !seq && (seq.error() == Errc::kNoSpace || seq.error() == Errc::kBusy);
  if (untouched) {
    locks_.forget(id);
    out = peek_inode(store_.latest(), id);
  }
  const CommitSeq seen = guard.seen();
  guard.unlock();
  if (auto noted = told(seen); !noted) return pass(noted);
  if (!seq && !untouched) return pass(seq);
  return out;
}

Result<bool> Namespace::made_with(FileId id, const CreateVerifier& verifier) const {
  auto inode = peek_inode(store_.latest(), id);
  if (auto noted = told({id}); !noted) return pass(noted);
  if (!inode) return pass(inode);
  return inode->verifier == verifier;
}

Result<bool> Namespace::may_be_below(FileId id, FileId top) const {
  for (int depth = 0; id != top; ++depth) {
    if (id == kRootFileId) return false;
    if (depth == kMaxDepth) return fail(Errc::kCorrupt, "no way up to the root");
    auto directory = peek_directory(store_.latest(), id);
    if (!directory && directory.error() == Errc::kNotDirectory) return true;
    if (!directory) return pass(directory);
    auto parent = parent_in(store_.latest(), id);
    if (auto noted = told({id}); !noted) return pass(noted);
    if (!parent) return pass(parent);
    id = *parent;
  }
  return true;
}

Result<std::string> Namespace::path_of(FileId dir) const {
  std::string path;
  for (int depth = 0; dir != kRootFileId; ++depth) {
    if (depth == kMaxDepth) return fail(Errc::kCorrupt, "no way up to the root");
    auto parent = peek_parent(store_.latest(), dir);
    if (!parent) return pass(parent);
    path.insert(0, "/" + parent->name);
    dir = parent->dir;
  }
  return path.empty() ? "/" : path;
}

Result<InodeAttributes> Namespace::lookup_path(std::string_view path) const {
  auto at = getattr(kRootFileId);
  while (at) {
    path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
    if (path.empty()) break;
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(name.size());
    at = lookup(at->id, name);
  }
  return at;
}

Result<std::string> Namespace::readlink(FileId id) const {
  auto inode = peek_inode(store_.latest(), id);
  if (auto noted = told({id}); !noted) return pass(noted);
  if (!inode) return pass(inode);
  if (inode->attributes.type != FileType::kSymlink) return fail(Errc::kInvalid, "no symbolic link");
  return std::move(inode->target);
}

}  // namespace weft::mds
