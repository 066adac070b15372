// Layout maps of files in use: read from the metadata store once, and then a part of the file's
// record until they change.
//
// Threading: any thread.
//
// Invariant: who asks after a change of the map has returned to whoever made it (Namespace) gets
// the map of that change, or a later one.
#pragma once

#include <optional>

#include "ganesha-fsal/files/file_table.h"
#include "ganesha-fsal/meta/ops/namespace.h"

namespace weft::mds {

// Maps are kept in `files` from here on. Before anything else is called; `files` outlives `names`.
void keep_maps(FileTable& files, Namespace& names);

// As Namespace::layout(), which is asked if the record has no map, or none are kept.
[[nodiscard]] Result<std::optional<layout::LayoutMap>> layout_map(
    FileTable& files, const Namespace& names, FileId file,
    Namespace::IfNone none = Namespace::IfNone::kWait);

}  // namespace weft::mds
