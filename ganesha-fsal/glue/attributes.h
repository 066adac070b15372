// Between the namespace's attributes and Ganesha's.
#pragma once

#include "ganesha-fsal/glue/ganesha.h"
#include "ganesha-fsal/meta/schema/credentials.h"
#include "ganesha-fsal/meta/schema/types.h"
#include "rpc/base/error.h"

namespace weft::mds {

struct Export;

[[nodiscard]] object_file_type_t to_ganesha_type(FileType type);
// kWrongType for what is no inode type.
[[nodiscard]] Result<FileType> from_ganesha_type(object_file_type_t type);

// Fills in everything we know; `out->request_mask` and references in it are left as they are.
void fill_attributes(const InodeAttributes& from, std::uint32_t fsid, fsal_attrlist* out);
// The same for optional out parameters: nothing when null.
void fill_if_wanted(const InodeAttributes& from, std::uint32_t fsid, fsal_attrlist* out);
void fill_directory_change(const DirectoryChange& change, std::uint32_t fsid, fsal_attrlist* before,
                           fsal_attrlist* after);

// What a name or a handle led to, for Ganesha's cache. If getattrs() would ask the data servers,
// for a size that is in doubt or what a large file uses, the cache is told that it has no
// attributes.
void fill_found(Export& exp, const InodeAttributes& from, fsal_attrlist* out);
// The same of an entry of a directory. Names are listed whether data servers answer or not: a size
// that is in doubt is told, and stays in the cache for a moment only.
void fill_listed(Export& exp, const InodeAttributes& from, fsal_attrlist* out);
inline constexpr time_t kExpiresSoon = 1;  // seconds

// The caller of the request under way, as the export squashes it. Good while the request is.
[[nodiscard]] Credentials credentials();
// Mode, owner and times to create an object with. What the caller does not say comes from op_ctx.
[[nodiscard]] CreateRequest create_request(const fsal_attrlist* wanted);
[[nodiscard]] AttributeChange attribute_change(const fsal_attrlist& wanted);

}  // namespace weft::mds
