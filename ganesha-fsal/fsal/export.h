// An export: one EXPORT block with FSAL { Name = WEFT; ... }.
//
// Ownership: made by create_export, owned by Ganesha, deleted by its release operation. Exports
// whose Metadata_Path is the same share one Backend.
#pragma once

#include "ganesha-fsal/fsal/backend.h"
#include "ganesha-fsal/fsal/ganesha.h"
#include "ganesha-fsal/fsal/options.h"

namespace weft::mds {

struct Export : fsal_export {
  weft_options options{};
  std::string path;
  std::shared_ptr<Backend> backend;
  layout::PlacementPolicy policy;
  layouttype4 layout_type = LAYOUT4_NFSV4_1_FILES;

  [[nodiscard]] Namespace& names() { return backend->names(); }
  [[nodiscard]] std::uint32_t fsid() const { return backend->fsid(); }
  [[nodiscard]] std::uint64_t store_id() const { return backend->store_id(); }
};

[[nodiscard]] inline Export& of(fsal_export* exp) { return *static_cast<Export*>(exp); }

fsal_status_t create_export(fsal_module* fsal, void* parse_node, config_error_type* err_type,
                            const fsal_up_vector* up_ops);
fsal_status_t update_weft_export(fsal_module* fsal, void* parse_node, config_error_type* err_type,
                                 fsal_export* original, fsal_module* updated_super);

}  // namespace weft::mds
