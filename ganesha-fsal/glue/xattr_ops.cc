#include "ganesha-fsal/files/policies.h"
#include "ganesha-fsal/glue/attributes.h"
#include "ganesha-fsal/glue/convert.h"
#include "ganesha-fsal/glue/export.h"
#include "ganesha-fsal/glue/guard.h"
#include "ganesha-fsal/glue/handle.h"
#include "ganesha-fsal/glue/later.h"
#include "ganesha-fsal/glue/object_ops.h"
#include "ganesha-fsal/meta/name_page.h"

namespace weft::mds {
namespace {

std::string_view text(const utf8string& value) {
  return {value.utf8string_val, value.utf8string_len};
}

// A directory's own policy (layout/policy.h), or what a file has. Clients see "user." before it.
constexpr std::string_view kPolicyName = "weft.policy";

template <class T>
fsal_status_t to_xattr_status(const Result<T>& result) {
  if (result) return kFsalOk;
  const Errc code = result.error().code;
  if (code == Errc::kNotFound) return fsalstat(ERR_FSAL_NOXATTR, ENODATA);
  if (code == Errc::kTooLarge) return fsalstat(ERR_FSAL_XATTR2BIG, E2BIG);
  return to_fsal(code);
}

Result<std::string> policy_value(const Handle& handle) {
  return shown_policy(this_export().names(), handle.file, this_export().policy());
}

fsal_status_t change_policy_value(const Handle& handle, std::string_view text,
                                  Namespace::XattrHow how) {
  Export& exp = this_export();
  const auto set = change_policy(exp.names(), credentials(), handle.file, text, how, exp.policy());
  if (set) exp.store->recaller.invalidate_attributes(handle.file);
  return to_xattr_status(set);
}

// Ganesha asks nobody whether the caller may: as for data (xattr(7)), not by who owns the file.
fsal_status_t may(fsal_obj_handle* obj_hdl, fsal_accessflags_t mode) {
  return obj_hdl->obj_ops->test_access(
      obj_hdl, static_cast<fsal_accessflags_t>(FSAL_MODE_MASK_SET(mode)), nullptr, nullptr, false);
}

// As Linux has it: "user." attributes are of files and directories only, and in a sticky directory,
// which everybody may write, the owner's.
fsal_status_t may_change(fsal_obj_handle* obj_hdl) {
  if (obj_hdl->type != REGULAR_FILE && obj_hdl->type != DIRECTORY) {
    return to_fsal(Errc::kPermission);
  }
  if (obj_hdl->type == DIRECTORY) {
    const Handle& handle = of(obj_hdl);
    const auto attributes = this_export().names().getattr(handle.file);
    if (!attributes) return to_fsal(attributes.error());
    const Credentials who = credentials();
    const bool sticky = (attributes->mode & S_ISVTX) != 0;
    if (sticky && !who.superuser && who.uid != attributes->uid) {
      return to_fsal(Errc::kPermission);
    }
  }
  return may(obj_hdl, FSAL_W_OK);
}

// Ganesha offers a buffer; too small a one is answered XATTR2BIG, a null one with the size alone.
fsal_status_t getxattrs(fsal_obj_handle* obj_hdl, xattrkey4* name, xattrvalue4* value) {
  const Later later;
  if (const auto allowed = may(obj_hdl, FSAL_R_OK); FSAL_IS_ERROR(allowed)) return allowed;
  const Handle& handle = of(obj_hdl);
  const auto found = text(*name) == kPolicyName
                         ? policy_value(handle)
                         : this_export().names().get_xattr(handle.file, text(*name));
  if (!found) return to_xattr_status(found);
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
  const Later later;
  const Handle& handle = of(obj_hdl);
  const Namespace::XattrHow how = option == SETXATTR4_CREATE    ? Namespace::XattrHow::kCreate
                                  : option == SETXATTR4_REPLACE ? Namespace::XattrHow::kReplace
                                                                : Namespace::XattrHow::kEither;
  if (text(*name) == kPolicyName) return change_policy_value(handle, text(*value), how);
  if (const auto allowed = may_change(obj_hdl); FSAL_IS_ERROR(allowed)) return allowed;
  return to_xattr_status(
      this_export().names().set_xattr(handle.file, text(*name), text(*value), how));
}

fsal_status_t removexattrs(fsal_obj_handle* obj_hdl, xattrkey4* name) {
  const Later later;
  const Handle& handle = of(obj_hdl);
  if (text(*name) == kPolicyName) {
    return change_policy_value(handle, "", Namespace::XattrHow::kReplace);
  }
  if (const auto allowed = may_change(obj_hdl); FSAL_IS_ERROR(allowed)) return allowed;
  return to_xattr_status(this_export().names().remove_xattr(handle.file, text(*name)));
}

// A directory's own policy with them. That of a file is not listed: every file has one, and
// programs that copy attributes would set it at each.
Result<std::vector<std::string>> names_of(const Handle& handle) {
  auto names = this_export().names().list_xattrs(handle.file, {}, SIZE_MAX);
  if (!names || handle.type != DIRECTORY) return names;
  auto policy = policy_value(handle);
  if (policy) names->emplace_back(kPolicyName);
  if (!policy && policy.error().code != Errc::kNotFound) return pass(policy);
  return names;
}

// Of one answer; Ganesha does not encode more (XDR_ARRAY_MAXLEN).
constexpr std::size_t kMaxNames = 1024;

fsal_status_t listxattrs(fsal_obj_handle* obj_hdl, count4 max_bytes, nfs_cookie4* cookie,
                         bool_t* eof, xattrlist4* list) {
  const Later later;
  auto names = names_of(of(obj_hdl));
  if (!names) return to_fsal(names.error());
  const auto page = name_page(std::move(*names), *cookie, {kMaxNames, max_bytes});
  if (!page) return fsalstat(ERR_FSAL_TOOSMALL, 0);
  const std::size_t count = page->names.size();
  list->xl4_count = static_cast<unsigned>(count);
  list->xl4_entries = static_cast<component4*>(gsh_calloc(count, sizeof(component4)));
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& name = page->names[i];
    list->xl4_entries[i].utf8string_len = static_cast<unsigned>(name.size());
    list->xl4_entries[i].utf8string_val = static_cast<char*>(gsh_memdup(name.data(), name.size()));
  }
  *cookie = page->cookie;
  *eof = page->end;
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
