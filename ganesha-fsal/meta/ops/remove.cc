// REMOVE: unlink and rmdir.
#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/meta/ops/rights.h"
#include "ganesha-fsal/meta/ops/tree.h"

namespace weft::mds {
namespace {

Result<> check_kind(const InodeAttributes& attributes, RemoveWhat what) {
  const bool directory = attributes.type == FileType::kDirectory;
  if (directory && what == RemoveWhat::kFile) return fail(Errc::kIsDirectory);
  if (!directory && what == RemoveWhat::kDirectory) return fail(Errc::kNotDirectory);
  if (directory && attributes.size > 0) return fail(Errc::kNotEmpty);
  return {};
}

}  // namespace

Result<Removed> Namespace::remove(const Credentials& who, FileId dir, std::string_view name,
                                  RemoveWhat what, FileId guess) {
  if (auto good = check_name(name); !good) return pass(good);
  FileId target = guess;
  if (target == 0) {
    auto peeked = peek_entry(store_.latest(), dir, name);
    if (!peeked) return pass(peeked);
    if (*peeked) target = (*peeked)->id;
  }
  Removed out;
  const auto remove = [&](Tree& tree, bool held, FileId& now) -> Result<> {
    auto parent = tree.directory(dir);
    if (!parent) return pass(parent);
    if (auto good = may_search(who, parent->attributes); !good) return good;
    auto entry = tree.entry(dir, name);
    if (!entry) return pass(entry);
    if (!*entry) return fail(Errc::kNotFound);
    now = (*entry)->id;
    if (now != target) return fail(Errc::kBusy, "another inode is to be locked");
    auto inode = tree.inode(target);
    if (!inode) return pass(inode);
    if (auto good = may_take(who, parent->attributes, inode->attributes); !good) return good;
    if (auto good = check_kind(inode->attributes, what); !good) return good;
    out.parent.before = parent->attributes;
    tree.drop_entry(*parent, name, **entry);
    tree.touch_mtime(*parent);
    tree.store(*parent);
    auto orphaned = tree.drop_link(*inode, held);
    if (!orphaned) return pass(orphaned);
    out = {inode->attributes, *orphaned, {out.parent.before, parent->attributes}};
    return {};
  };
  for (;;) {
    auto guard = locks_.lock({dir, target});
    const bool held = target != 0 && locks_.held(target);
    FileId now = target;
    auto done = change_told(std::move(guard), [&](Tree& tree) { return remove(tree, held, now); });
    if (done) return out;
    if (now == target) return pass(done);
    target = now;  // the name's, which it was not, or is no more
  }
}

}  // namespace weft::mds
