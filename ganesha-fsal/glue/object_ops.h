// The object operations Ganesha calls, by family. Each function's contract is Ganesha's
// (fsal_api.h, struct fsal_obj_ops); what is said here is what ours add to it.
//
// Threading: any of Ganesha's worker threads, several at once for one file.
#pragma once

#include <cstdint>
#include <optional>

#include "ganesha-fsal/glue/ganesha.h"

namespace weft::mds {

// Fills in the whole vector, each operation guarded (guard.h).
void init_object_ops(fsal_obj_ops& ops);

// name_ops.cc: names and directories.
void init_name_ops(fsal_obj_ops& ops);
// attribute_ops.cc: attributes, handles.
void init_attribute_ops(fsal_obj_ops& ops);
// open_ops.cc: opens, share reservations.
void init_open_ops(fsal_obj_ops& ops);
// io_ops.cc: data through this server.
void init_io_ops(fsal_obj_ops& ops);
// The verifier that the write which the calling thread has just done is to be answered with; once.
[[nodiscard]] std::optional<std::uint64_t> take_verifier_of_write();
// xattr_ops.cc: extended attributes (RFC 8276).
void init_xattr_ops(fsal_obj_ops& ops);
// layout_ops.cc: layouts.
void init_layout_ops(fsal_obj_ops& ops);

}  // namespace weft::mds
