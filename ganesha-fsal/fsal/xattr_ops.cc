#include "ganesha-fsal/fsal/convert.h"
#include "ganesha-fsal/fsal/export.h"
#include "ganesha-fsal/fsal/guard.h"
#include "ganesha-fsal/fsal/handle.h"
#include "ganesha-fsal/fsal/object_ops.h"

namespace weft::mds {
namespace {

std::string_view text(const utf8string& value) {
  return {value.utf8string_val, value.utf8string_len};
}

fsal_status_t to_xattr_status(Errc code) {
  if (code == Errc::kNotFound) return fsalstat(ERR_FSAL_NOXATTR, ENODATA);
  if (code == Errc::kTooLarge) return fsalstat(ERR_FSAL_XATTR2BIG, E2BIG);
  return to_fsal(code);
}

// Ganesha offers a buffer; too small a one is answered XATTR2BIG, a null one with the size alone.
fsal_status_t getxattrs(fsal_obj_handle* obj_hdl, xattrkey4* name, xattrvalue4* value) {
  const Handle& handle = of(obj_hdl);
  const auto found = handle.owner->names().get_xattr(handle.file, text(*name));
  if (!found) return to_xattr_status(found.error().code);
  const auto size = static_cast<unsigned>(found->size());
  if (value->utf8string_val == nullptr) {
    value->utf8string_len = size;
    return kFsalOk;
  }
  if (size > value->utf8string_len) return fsalstat(ERR_FSAL_XATTR2BIG, ERANGE);
  std::memcpy(value->utf8string_val, found->data(), size);
  value->utf8string_len = size;
  return kFsalOk;
}

fsal_status_t setxattrs(fsal_obj_handle* obj_hdl, setxattr_option4 option, xattrkey4* name,
                        xattrvalue4* value) {
  const Handle& handle = of(obj_hdl);
  const Namespace::XattrHow how = option == SETXATTR4_CREATE    ? Namespace::XattrHow::kCreate
                                  : option == SETXATTR4_REPLACE ? Namespace::XattrHow::kReplace
                                                                : Namespace::XattrHow::kEither;
  const auto set = handle.owner->names().set_xattr(handle.file, text(*name), text(*value), how);
  return set ? kFsalOk : to_xattr_status(set.error().code);
}

fsal_status_t removexattrs(fsal_obj_handle* obj_hdl, xattrkey4* name) {
  const Handle& handle = of(obj_hdl);
  const auto removed = handle.owner->names().remove_xattr(handle.file, text(*name));
  return removed ? kFsalOk : to_xattr_status(removed.error().code);
}

// The cookie is the number of names before; names come in a fixed order.
fsal_status_t listxattrs(fsal_obj_handle* obj_hdl, count4 max_bytes, nfs_cookie4* cookie,
                         bool_t* eof, xattrlist4* list) {
  const Handle& handle = of(obj_hdl);
  const auto names = handle.owner->names().list_xattrs(handle.file, {}, SIZE_MAX);
  if (!names) return to_fsal(names.error());
  if (*cookie > names->size()) return fsalstat(ERR_FSAL_BADCOOKIE, 0);

  std::size_t end = *cookie;
  std::size_t bytes = 0;
  for (; end < names->size(); ++end) {
    const std::size_t more = sizeof(std::uint32_t) + RNDUP((*names)[end].size());
    if (bytes + more > max_bytes) break;
    bytes += more;
  }
  const std::size_t count = end - *cookie;
  if (count == 0 && end < names->size()) return fsalstat(ERR_FSAL_TOOSMALL, 0);
  list->xl4_count = static_cast<unsigned>(count);
  list->xl4_entries = static_cast<component4*>(gsh_calloc(count, sizeof(component4)));
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& name = (*names)[*cookie + i];
    list->xl4_entries[i].utf8string_len = static_cast<unsigned>(name.size());
    list->xl4_entries[i].utf8string_val = static_cast<char*>(gsh_memdup(name.data(), name.size()));
  }
  *cookie = end;
  *eof = end == names->size();
  return kFsalOk;
}

}  // namespace

void init_xattr_ops(fsal_obj_ops& ops) {
  ops.getxattrs = guarded<&getxattrs>;
  ops.setxattrs = guarded<&setxattrs>;
  ops.removexattrs = guarded<&removexattrs>;
  ops.listxattrs = guarded<&listxattrs>;
}

}  // namespace weft::mds
