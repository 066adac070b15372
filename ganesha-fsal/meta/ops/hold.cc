// Files that are open: their inodes outlive their last names.
#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/meta/ops/tree.h"
#include "ganesha-fsal/meta/schema/keys.h"

namespace weft::mds {
namespace {

constexpr std::size_t kBatch = 256;

// Destroys the inode if it is an orphan. Sets `destroyed`.
Result<> destroy_orphan(Tree& tree, FileId id, bool& destroyed) {
  destroyed = false;
  auto orphan = tree.transaction().get(keys::orphan(id));
  if (!orphan) return pass(orphan);
  if (!*orphan) return {};
  auto inode = tree.inode(id);
  if (!inode) return pass(inode);
  if (inode->attributes.nlink != 0) return fail(Errc::kCorrupt, "an orphan with a name");
  destroyed = true;
  tree.transaction().erase(keys::orphan(id));
  return tree.destroy(*inode);
}

}  // namespace

Result<InodeAttributes> Namespace::hold(FileId id) {
  auto guard = locks_.lock({id});
  auto inode = peek_inode(store_.latest(), id);
  if (inode) locks_.hold(id);
  const CommitSeq seen = guard.seen();
  guard.unlock();
  if (auto noted = told(seen); !noted) {
    if (inode) static_cast<void>(release(id));
    return pass(noted);
  }
  if (inode && locks_.untold(id)) {
    inode = tell_write(id);
    if (!inode) static_cast<void>(release(id));
  }
  if (!inode) return pass(inode);
  return inode->attributes;
}

Result<> Namespace::release(FileId id) {
  auto guard = locks_.lock({id});
  if (locks_.release(id) > 0) return {};
  auto orphan = store_.latest().peek(keys::orphan(id));
  if (!orphan) return pass(orphan);
  if (!*orphan) return {};
  return change(std::move(guard), [&](Tree& tree) {
    bool destroyed = false;
    return destroy_orphan(tree, id, destroyed);
  });
}

Result<std::size_t> Namespace::reclaim_orphans() {
  std::size_t reclaimed = 0;
  CommitSeq last = 0;
  std::optional<Error> damaged;
  keys::Range range = keys::all(keys::Prefix::kOrphan);
  for (;;) {
    std::vector<FileId> ids;
    const auto visit = [&](std::string_view key, std::string_view) {
      if (const auto at = keys::parse_number(keys::Prefix::kOrphan, key)) ids.push_back(at->id);
      range.begin = keys::after(key);
      return true;
    };
    if (auto done = store_.latest().scan(range.begin, range.end, kBatch, visit); !done) {
      return pass(done);
    }
    if (ids.empty()) break;
    for (const FileId id : ids) {
      auto guard = locks_.lock({id});
      if (locks_.held(id)) continue;
      bool destroyed = false;
      auto seq = apply(guard, [&](Tree& tree) { return destroy_orphan(tree, id, destroyed); });
      if (!seq) {
        // A record that is damaged keeps no others.
        if (!(seq.error() == Errc::kStale || seq.error() == Errc::kCorrupt)) return pass(seq);
        if (!damaged) damaged = seq.error();
        continue;
      }
      last = std::max(last, *seq);
      reclaimed += destroyed ? 1 : 0;
    }
  }
  if (auto durable = store_.wait_durable(last); !durable) return pass(durable);
  if (damaged) return std::unexpected(*damaged);
  return reclaimed;
}

}  // namespace weft::mds
