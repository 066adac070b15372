#include <spdlog/spdlog.h>

#include "ganesha-fsal/glue/attributes.h"
#include "ganesha-fsal/glue/convert.h"
#include "ganesha-fsal/glue/export.h"
#include "ganesha-fsal/glue/guard.h"
#include "ganesha-fsal/glue/handle.h"
#include "ganesha-fsal/glue/later.h"
#include "ganesha-fsal/glue/object_ops.h"
#include "ganesha-fsal/glue/timed.h"

namespace weft::mds {
namespace {

// Entries read from the namespace at once: what Ganesha's cache keeps as one chunk.
constexpr std::size_t kPageEntries = 128;

fsal_status_t lookup(fsal_obj_handle* dir_hdl, const char* name, fsal_obj_handle** found,
                     fsal_attrlist* attrs_out) {
  Handle& dir = of(dir_hdl);
  *found = nullptr;
  // Ganesha leaves an export by its root's junction and does not ask; if it does, that is the top.
  if (dir.file == this_export().root && std::string_view(name) == "..") {
    return to_fsal(Errc::kNotFound);
  }
  const Later later;
  const auto attributes = this_export().names().lookup(dir.file, name);
  if (!attributes) return to_fsal(attributes.error());
  if (attrs_out != nullptr) fill_found(this_export(), *attributes, attrs_out);
  *found = make_handle(this_export(), *attributes, dir.file, name);
  return kFsalOk;
}

// Hands one entry to Ganesha. Returns whether it wants more.
bool show_entry(FileId dir, const DirectoryEntry& entry, attrmask_t wanted,
                fsal_readdir_cb callback, void* state) {
  fsal_attrlist attrs;
  fsal_prepare_attrs(&attrs, wanted);
  fill_listed(this_export(), *entry.attributes, &attrs);
  Handle* handle = make_handle(this_export(), *entry.attributes, dir, entry.name);
  const fsal_dir_result result = callback(entry.name.c_str(), handle, &attrs, state, entry.cookie);
  fsal_release_attrs(&attrs);
  return result == DIR_CONTINUE;
}

fsal_status_t readdir(fsal_obj_handle* dir_hdl, fsal_cookie_t* whence, void* state,
                      fsal_readdir_cb callback, attrmask_t wanted, bool* eof) {
  const Handle& dir = of(dir_hdl);
  std::uint64_t after = whence == nullptr ? 0 : *whence;
  *eof = false;
  while (true) {
    const auto page = [&] {
      const Later later;  // entries that are left for later replies are of the cache then
      return this_export().names().readdir(dir.file, after, kPageEntries, true);
    }();
    if (!page) return to_fsal(page.error());
    for (const DirectoryEntry& entry : page->entries) {
      after = entry.cookie;
      if (!entry.attributes) continue;  // removed since its name was read
      if (!show_entry(dir.file, entry, wanted, callback, state)) return kFsalOk;
    }
    if (page->end) {
      *eof = true;
      return kFsalOk;
    }
  }
}

// What mkdir, mknode and symlink have in common once the namespace has answered.
fsal_status_t finish_create(const Result<Created>& created, fsal_obj_handle** new_obj,
                            fsal_attrlist* attrs_out, fsal_attrlist* before, fsal_attrlist* after) {
  *new_obj = nullptr;
  if (!created) return to_fsal(created.error());
  const std::uint32_t fsid = this_export().fsid();
  fill_if_wanted(created->attributes, fsid, attrs_out);
  fill_directory_change(created->parent, fsid, before, after);
  *new_obj = make_handle(this_export(), created->attributes);
  return kFsalOk;
}

fsal_status_t mkdir(fsal_obj_handle* dir_hdl, const char* name, fsal_attrlist* wanted,
                    fsal_obj_handle** new_obj, fsal_attrlist* attrs_out, fsal_attrlist* before,
                    fsal_attrlist* after) {
  const Handle& dir = of(dir_hdl);
  const Later later;
  const auto created =
      this_export().names().mkdir(credentials(), dir.file, name, create_request(wanted));
  return finish_create(created, new_obj, attrs_out, before, after);
}

fsal_status_t mknode(fsal_obj_handle* dir_hdl, const char* name, object_file_type_t type,
                     fsal_attrlist* wanted, fsal_obj_handle** new_obj, fsal_attrlist* attrs_out,
                     fsal_attrlist* before, fsal_attrlist* after) {
  const Handle& dir = of(dir_hdl);
  const auto ours = from_ganesha_type(type);
  if (!ours) return to_fsal(ours.error());
  DeviceNumber device;
  if (*ours == FileType::kBlock || *ours == FileType::kCharacter) {
    device = {static_cast<std::uint32_t>(wanted->rawdev.major),
              static_cast<std::uint32_t>(wanted->rawdev.minor)};
  }
  const Later later;
  const auto created = this_export().names().mknod(credentials(), dir.file, name, *ours, device,
                                                   create_request(wanted));
  return finish_create(created, new_obj, attrs_out, before, after);
}

fsal_status_t symlink(fsal_obj_handle* dir_hdl, const char* name, const char* target,
                      fsal_attrlist* wanted, fsal_obj_handle** new_obj, fsal_attrlist* attrs_out,
                      fsal_attrlist* before, fsal_attrlist* after) {
  const Handle& dir = of(dir_hdl);
  const Later later;
  const auto created =
      this_export().names().symlink(credentials(), dir.file, name, target, create_request(wanted));
  return finish_create(created, new_obj, attrs_out, before, after);
}

fsal_status_t readlink(fsal_obj_handle* obj_hdl, gsh_buffdesc* content, bool /*refresh*/) {
  const Handle& handle = of(obj_hdl);
  const Later later;
  const auto target = this_export().names().readlink(handle.file);
  if (!target) return to_fsal(target.error());
  // Ganesha frees it with gsh_free and wants the terminating zero counted.
  content->len = target->size() + 1;
  content->addr = gsh_malloc(content->len);
  std::memcpy(content->addr, target->c_str(), content->len);
  return kFsalOk;
}

fsal_status_t link(fsal_obj_handle* obj_hdl, fsal_obj_handle* dir_hdl, const char* name,
                   fsal_attrlist* before, fsal_attrlist* after) {
  const Handle& dir = of(dir_hdl);
  const Later later;
  const auto linked = this_export().names().link(credentials(), of(obj_hdl).file, dir.file, name);
  if (!linked) return to_fsal(linked.error());
  fill_directory_change(linked->parent, this_export().fsid(), before, after);
  return kFsalOk;
}

fsal_status_t rename(fsal_obj_handle* obj_hdl, fsal_obj_handle* from_hdl, const char* from_name,
                     fsal_obj_handle* to_hdl, const char* to_name, fsal_attrlist* from_before,
                     fsal_attrlist* from_after, fsal_attrlist* to_before, fsal_attrlist* to_after) {
  const Handle& from = of(from_hdl);
  const Handle& to = of(to_hdl);
  const auto renamed = [&] {
    const Later later;
    return this_export().names().rename(credentials(), from.file, from_name, to.file, to_name,
                                        of(obj_hdl).file);
  }();
  if (!renamed) return to_fsal(renamed.error());
  const std::uint32_t fsid = this_export().fsid();
  fill_directory_change(renamed->from, fsid, from_before, from_after);
  fill_directory_change(renamed->to, fsid, to_before, to_after);
  if (renamed->replaced_orphaned) this_export().server().orphaned(renamed->replaced->id);
  return kFsalOk;
}

fsal_status_t unlink(fsal_obj_handle* dir_hdl, fsal_obj_handle* obj_hdl, const char* name,
                     fsal_attrlist* before, fsal_attrlist* after) {
  const Handle& dir = of(dir_hdl);
  const auto removed = [&] {
    const Later later;
    return this_export().names().remove(credentials(), dir.file, name, RemoveWhat::kAny,
                                        of(obj_hdl).file);
  }();
  if (!removed) return to_fsal(removed.error());
  fill_directory_change(removed->parent, this_export().fsid(), before, after);
  if (removed->orphaned) this_export().server().orphaned(removed->attributes.id);
  return kFsalOk;
}

}  // namespace

void init_name_ops(fsal_obj_ops& ops) {
  ops.lookup = guarded<timed<TimedOp::kLookup, &lookup>>;
  ops.readdir = guarded<timed<TimedOp::kReaddir, &readdir>>;
  ops.mkdir = guarded<timed<TimedOp::kCreate, &mkdir>>;
  ops.mknode = guarded<timed<TimedOp::kCreate, &mknode>>;
  ops.symlink = guarded<timed<TimedOp::kCreate, &symlink>>;
  ops.readlink = guarded<&readlink>;
  ops.link = guarded<timed<TimedOp::kCreate, &link>>;
  ops.rename = guarded<timed<TimedOp::kRename, &rename>>;
  ops.unlink = guarded<timed<TimedOp::kRemove, &unlink>>;
}

}  // namespace weft::mds
