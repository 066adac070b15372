// An export: one EXPORT block with FSAL { Name = WEFT; ... }.
//
// Ownership: made by create_export, owned by Ganesha, deleted by its release operation, which comes
// after the last operation through the export. Exports whose Metadata_Path is the same share one
// ServedStore, and the handles in Ganesha's cache; how new files are laid out is each export's own,
// and so is the directory that it exports.
//
// While ganesha.nfsd starts, an export whose options are wrong, or that cannot be opened, ends the
// process, with one line that says why: the server would run, and its clients find nothing. Later,
// at a reload, it is refused, and the others go on; so is one whose directory is gone at any time,
// as a client may have removed it.
//
// What comes from a client is looked at in wire_to_host, always: where the cache knows a file,
// create_handle is not asked. Of an export of a directory below the root it takes a handle only
// with this export's seal, and a directory only while it is below the export's. A file that was
// moved elsewhere by others stays within reach of those who had its handle, as an open file does.
#pragma once

#include "ganesha-fsal/config/options.h"
#include "ganesha-fsal/glue/exports.h"
#include "ganesha-fsal/glue/ganesha.h"
#include "ganesha-fsal/glue/handle.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

struct Export : fsal_export {
  weft_options options{};  // constant: as they were when the export was made
  // What of them changed since, when the file was read again; of the thread that reads it. Texts
  // are those of `options`.
  weft_options now{};
  std::string path;
  FileId root = kRootFileId;  // the directory that Path named when the export was made
  std::shared_ptr<ServedStore> store;
  layouttype4 layout_type = LAYOUT4_NFSV4_1_FILES;

  // What the options say about new files, until they are read again.
  [[nodiscard]] layout::PlacementPolicy policy() const {
    const MutexLock lock(policy_mutex_);
    return policy_;
  }
  void set_policy(const layout::PlacementPolicy& policy) {
    const MutexLock lock(policy_mutex_);
    policy_ = policy;
  }
  [[nodiscard]] bool whole() const { return root == kRootFileId; }
  // What its seals are made with (server/file_handle.h). Unless whole().
  [[nodiscard]] layout::HandleKey seal_key() const {
    return store->server->cluster().registry().seal_key();
  }
  [[nodiscard]] MetadataServer& server() { return *store->server; }
  [[nodiscard]] Namespace& names() { return store->server->names(); }
  [[nodiscard]] std::uint32_t fsid() const { return store->server->fsid(); }
  [[nodiscard]] std::uint64_t store_id() const { return store->server->store_id(); }

 private:
  mutable Mutex policy_mutex_;
  layout::PlacementPolicy policy_ WEFT_GUARDED_BY(policy_mutex_);
};

[[nodiscard]] inline Export& of(fsal_export* exp) { return *static_cast<Export*>(exp); }
// The export that the running operation on an object came through: Ganesha's cache puts it there
// for the call, and the operation's reference keeps it. Not in the release of an object, which may
// come with any export or none.
[[nodiscard]] inline Export& this_export() { return of(op_ctx->fsal_export); }

fsal_status_t create_export(fsal_module* fsal, void* parse_node, config_error_type* err_type,
                            const fsal_up_vector* up_ops);
fsal_status_t update_weft_export(fsal_module* fsal, void* parse_node, config_error_type* err_type,
                                 fsal_export* original, fsal_module* updated_super);

}  // namespace weft::mds
