// A file as Ganesha sees it: fsal_obj_handle with our file number in it. Its bytes:
// server/file_handle.h.
//
// Exports of one store share handles: Ganesha's cache finds a handle by its key, whichever export
// it was made through, and keeps it while any of them is there. So a handle knows nothing of an
// export: an operation's export is this_export() (export.h).
//
// Ownership: Ganesha's cache owns handles; release() deletes one, possibly after the last export
// and its store are gone. A handle holds no lock and no file. What belongs to the file and not to
// the handle is in OpenFile.
#pragma once

#include <string>
#include <string_view>

#include "ganesha-fsal/glue/ganesha.h"
#include "ganesha-fsal/glue/open_files.h"
#include "ganesha-fsal/meta/schema/types.h"
#include "ganesha-fsal/server/file_handle.h"

namespace weft::mds {

struct Export;

struct Handle : fsal_obj_handle {
  FileId file = 0;
  WireHandle wire{};
  std::shared_ptr<OpenFile> open;  // regular files only
  // Where a regular file was found last, in Ganesha's cache or by it: 0 for what has been found by
  // its number only. A guess: names may have changed since.
  FileId dir = 0;
  std::string name;
};

// A new handle for Ganesha's cache to own.
[[nodiscard]] Handle* make_handle(Export& through, const InodeAttributes& attributes);
// The same of what was found in `dir` under this name.
[[nodiscard]] Handle* make_handle(Export& through, const InodeAttributes& attributes, FileId dir,
                                  std::string_view name);
void destroy_handle(Handle* handle);

[[nodiscard]] inline Handle& of(fsal_obj_handle* handle) { return *static_cast<Handle*>(handle); }
[[nodiscard]] inline const Handle& of(const fsal_obj_handle* handle) {
  return *static_cast<const Handle*>(handle);
}

}  // namespace weft::mds
