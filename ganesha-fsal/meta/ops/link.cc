// LINK.
#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/meta/ops/rights.h"
#include "ganesha-fsal/meta/ops/tree.h"

namespace weft::mds {

Result<Linked> Namespace::link(const Credentials& who, FileId file, FileId dir,
                               std::string_view name) {
  if (auto good = check_name(name); !good) return pass(good);
  Linked out;
  auto done = change_told(locks_.lock({file, dir}), [&](Tree& tree) -> Result<> {
    auto parent = tree.directory(dir);
    if (!parent) return pass(parent);
    if (auto good = may_search(who, parent->attributes); !good) return good;
    auto inode = tree.inode(file);
    if (!inode) return pass(inode);
    InodeAttributes& attributes = inode->attributes;
    if (attributes.type == FileType::kDirectory) return fail(Errc::kIsDirectory);
    if (attributes.nlink == 0) return fail(Errc::kStale, "its last name is gone");
    auto entry = tree.entry(dir, name);
    if (!entry) return pass(entry);
    if (*entry) return fail(Errc::kExists);
    if (auto good = may_add(who, parent->attributes); !good) return good;
    if (attributes.nlink >= options_.max_links) return fail(Errc::kTooManyLinks);
    if (auto room = store_.room(); !room) return room;
    out.parent.before = parent->attributes;
    if (auto added = tree.add_entry(*parent, name, file, attributes.type); !added) return added;
    ++attributes.nlink;
    tree.touch_ctime(*inode);
    tree.touch_mtime(*parent);
    tree.store(*inode);
    tree.store(*parent);
    out.attributes = attributes;
    out.parent.after = parent->attributes;
    return {};
  });
  if (!done) return pass(done);
  return out;
}

}  // namespace weft::mds
