// Extended attributes (RFC 8276). A change of them is a change of the inode: ctime and change.
#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/meta/ops/tree.h"
#include "ganesha-fsal/meta/schema/keys.h"

namespace weft::mds {
namespace {

Result<> check_xattr_name(std::string_view name) {
  if (name.size() > kMaxNameBytes) return fail(Errc::kNameTooLong);
  if (name.empty() || name.find('\0') != name.npos) return fail(Errc::kInvalid, "attribute name");
  return {};
}

// The file's bytes of attributes without the old value and with the new one.
Result<> account(InodeRecord& inode, std::size_t old_bytes, std::size_t new_bytes) {
  if (inode.xattr_bytes < old_bytes) return fail(Errc::kCorrupt, "count of attribute bytes");
  const std::size_t total = inode.xattr_bytes - old_bytes + new_bytes;
  if (total > kMaxXattrTotalBytes) return fail(Errc::kNoSpace, "extended attributes of one file");
  inode.xattr_bytes = static_cast<std::uint32_t>(total);
  return {};
}

}  // namespace

Result<std::string> Namespace::get_xattr(FileId id, std::string_view name) const {
  if (auto good = check_xattr_name(name); !good) return pass(good);
  auto value = store_.latest().peek(keys::xattr(id, name));
  auto inode = peek_inode(store_.latest(), id);
  if (auto noted = told({id}); !noted) return pass(noted);
  if (!inode) return pass(inode);
  if (!value) return pass(value);
  if (!*value) return fail(Errc::kNotFound, "no such extended attribute");
  return std::move(**value);
}

Result<InodeAttributes> Namespace::set_xattr(FileId id, std::string_view name,
                                             std::string_view value, XattrHow how) {
  if (auto good = check_xattr_name(name); !good) return pass(good);
  if (value.size() > kMaxXattrBytes) return fail(Errc::kTooLarge, "extended attribute");
  InodeAttributes out;
  auto done = change_told(locks_.lock({id}), [&](Tree& tree) -> Result<> {
    auto inode = tree.inode(id);
    if (!inode) return pass(inode);
    auto old = tree.transaction().get(keys::xattr(id, name));
    if (!old) return pass(old);
    if (*old && how == XattrHow::kCreate) return fail(Errc::kExists);
    if (!*old && how == XattrHow::kReplace) return fail(Errc::kNotFound);
    const std::size_t old_bytes = *old ? name.size() + (*old)->size() : 0;
    auto good = account(*inode, old_bytes, name.size() + value.size());
    if (!good) return good;
    if (auto room = store_.room(); !room) return room;
    tree.transaction().put(keys::xattr(id, name), value);
    tree.touch_ctime(*inode);
    tree.store(*inode);
    out = inode->attributes;
    return {};
  });
  if (!done) return pass(done);
  return out;
}

Result<InodeAttributes> Namespace::remove_xattr(FileId id, std::string_view name) {
  if (auto good = check_xattr_name(name); !good) return pass(good);
  InodeAttributes out;
  auto done = change_told(locks_.lock({id}), [&](Tree& tree) -> Result<> {
    auto inode = tree.inode(id);
    if (!inode) return pass(inode);
    auto old = tree.transaction().get(keys::xattr(id, name));
    if (!old) return pass(old);
    if (!*old) return fail(Errc::kNotFound, "no such extended attribute");
    if (auto good = account(*inode, name.size() + (*old)->size(), 0); !good) return good;
    tree.transaction().erase(keys::xattr(id, name));
    tree.touch_ctime(*inode);
    tree.store(*inode);
    out = inode->attributes;
    return {};
  });
  if (!done) return pass(done);
  return out;
}

Result<std::vector<std::string>> Namespace::list_xattrs(FileId id, std::string_view after,
                                                        std::size_t limit) const {
  auto inode = peek_inode(store_.latest(), id);
  if (!inode) return pass(inode);
  std::vector<std::string> names;
  const keys::Range range = keys::under(keys::Prefix::kXattr, id);
  const std::string begin = after.empty() ? range.begin : keys::after(keys::xattr(id, after));
  const auto visit = [&](std::string_view key, std::string_view) {
    if (const auto at = keys::parse_named(keys::Prefix::kXattr, key)) names.emplace_back(at->name);
    return true;
  };
  auto done = store_.latest().scan(begin, range.end, limit, visit);
  if (auto noted = told({id}); !noted) return pass(noted);
  if (!done) return pass(done);
  return names;
}

}  // namespace weft::mds
