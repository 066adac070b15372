#include "ganesha-fsal/glue/handle.h"

#include "ganesha-fsal/glue/attributes.h"
#include "ganesha-fsal/glue/export.h"
#include "ganesha-fsal/glue/module.h"

namespace weft::mds {

Handle* make_handle(Export& through, const InodeAttributes& attributes) {
  auto handle = std::make_unique<Handle>();
  handle->file = attributes.id;
  handle->wire = make_wire_handle(through.fsid(), attributes.id, through.store_id());
  if (attributes.type == FileType::kRegular) {
    handle->open = through.store->open_files.of(attributes.id);
  }
  // Takes the module from the export, and keeps nothing of the export itself.
  fsal_obj_handle_init(handle.get(), &through, to_ganesha_type(attributes.type), false);
  handle->obj_ops = &module().object_ops;
  handle->fsid = {.major = through.fsid(), .minor = 0};
  handle->fileid = attributes.id;
  return handle.release();
}

Handle* make_handle(Export& through, const InodeAttributes& attributes, FileId dir,
                    std::string_view name) {
  Handle* const handle = make_handle(through, attributes);
  if (attributes.type == FileType::kRegular) {
    handle->dir = dir;
    handle->name = name;
  }
  return handle;
}

void destroy_handle(Handle* handle) {
  fsal_obj_handle_fini(handle, false);
  delete handle;
}

}  // namespace weft::mds
