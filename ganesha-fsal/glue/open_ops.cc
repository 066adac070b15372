#include "ganesha-fsal/glue/attributes.h"
#include "ganesha-fsal/glue/convert.h"
#include "ganesha-fsal/glue/export.h"
#include "ganesha-fsal/glue/guard.h"
#include "ganesha-fsal/glue/handle.h"
#include "ganesha-fsal/glue/later.h"
#include "ganesha-fsal/glue/object_ops.h"
#include "ganesha-fsal/glue/open_files.h"
#include "ganesha-fsal/glue/timed.h"

namespace weft::mds {
namespace {

OpenState* of(state_t* state) { return static_cast<OpenState*>(state); }

CreateVerifier to_verifier(const char* verifier) {
  CreateVerifier ours{};
  static_assert(sizeof(fsal_verifier_t) == sizeof(CreateVerifier));
  std::memcpy(ours.data(), verifier, ours.size());
  return ours;
}

bool closed(const OpenState* state) { return state != nullptr && state->flags == FSAL_O_CLOSED; }

// Takes the share reservation. A state's open holds the inode, so that an unlinked file lives on
// until its last close; if the file was made for it, it does already.
fsal_status_t open_handle(Handle& handle, OpenState* state, fsal_openflags_t flags,
                          bool held_already = false) {
  MetadataServer& server = this_export().server();
  const bool first = closed(state);
  if (server.layouts().blocked(handle.file)) {
    if (held_already) server.release(handle.file);
    return to_fsal(Errc::kBusy);
  }
  if (first && !held_already) {
    const auto held = [&] {
      const Later later;  // a hold is in memory only
      return this_export().names().hold(handle.file);
    }();
    if (!held) return to_fsal(held.error());
  }
  const fsal_status_t status = take_share(*handle.open, state, flags, caller());
  if (FSAL_IS_ERROR(status)) {
    if (first) server.release(handle.file);
    return status;
  }
  if (state != nullptr && (flags & FSAL_O_RECLAIM) != 0 && (flags & FSAL_O_WRITE) != 0) {
    state->reclaimed = true;
    server.data().relearn_size(handle.file);
  }
  if (state != nullptr && (flags & FSAL_O_RDWR) == FSAL_O_READ && handle.dir != 0) {
    server.prefetcher().opened(caller(), handle.dir, handle.name, handle.file);
  }
  return kFsalOk;
}

fsal_status_t close_handle(Handle& handle, OpenState& state) {
  if (state.flags == FSAL_O_CLOSED) return fsalstat(ERR_FSAL_NOT_OPENED, 0);
  drop_share(*handle.open, state);
  // A server that stops closes what is open, but its clients go on with it at the next one.
  if (nfs_rpc_stopping()) return kFsalOk;
  // Writes that were on their way under the old layout have arrived by now.
  if (state.reclaimed) this_export().server().data().relearn_size(handle.file);
  this_export().server().release(handle.file);
  return kFsalOk;
}

fsal_status_t truncate_if_asked(const Handle& handle, fsal_openflags_t flags) {
  if ((flags & FSAL_O_TRUNC) == 0) return kFsalOk;
  return to_fsal(this_export().server().data().empty_soon(credentials(), handle.file, caller()));
}

// As the file is after it was opened, and perhaps truncated.
fsal_status_t fill_opened(const Handle& handle, fsal_attrlist* attrs) {
  if (attrs == nullptr) return kFsalOk;
  const Later later;
  const auto attributes = this_export().names().getattr(handle.file);
  if (attributes) fill_found(this_export(), *attributes, attrs);
  return to_fsal(attributes);
}

fsal_status_t open_by_handle(Handle& handle, OpenState* state, fsal_openflags_t flags,
                             fsal_create_mode mode, const char* verifier, fsal_attrlist* attrs) {
  Namespace& names = this_export().names();
  if (mode == FSAL_GUARDED) return to_fsal(Errc::kExists);
  if (mode >= FSAL_EXCLUSIVE) {
    const auto same = [&] {
      const Later later;
      return names.made_with(handle.file, to_verifier(verifier));
    }();
    if (!same) return to_fsal(same.error());
    if (!*same) return to_fsal(Errc::kExists);
  }
  fsal_status_t status = open_handle(handle, state, flags);
  if (FSAL_IS_ERROR(status)) return status;
  status = truncate_if_asked(handle, flags);
  if (!FSAL_IS_ERROR(status)) status = fill_opened(handle, attrs);
  if (FSAL_IS_ERROR(status) && state != nullptr) static_cast<void>(close_handle(handle, *state));
  return status;
}

Result<Created> find_existing(const Handle& dir, const char* name) {
  const Later later;
  auto found = this_export().names().lookup(dir.file, name);
  if (!found) return pass(found);
  if (found->type == FileType::kDirectory) return fail(Errc::kIsDirectory);
  if (found->type != FileType::kRegular) return fail(Errc::kSymlink);
  return Created{.attributes = *found, .existed = true, .parent = {}};
}

// Held if it is made.
Result<Created> create_file(const Handle& dir, const char* name, fsal_create_mode mode,
                            const fsal_attrlist* wanted, const char* verifier, bool hold) {
  CreateRequest request = create_request(wanted);
  request.hold = hold;
  Namespace& names = this_export().names();
  const Later later;
  if (mode >= FSAL_EXCLUSIVE) {
    return names.create(credentials(), dir.file, name, request, CreateHow::kExclusive,
                        to_verifier(verifier));
  }
  const CreateHow how = mode == FSAL_GUARDED ? CreateHow::kGuarded : CreateHow::kUnchecked;
  return names.create(credentials(), dir.file, name, request, how);
}

fsal_status_t open_by_name(const Handle& dir, OpenState* state, fsal_openflags_t flags,
                           fsal_create_mode mode, const char* name, fsal_attrlist* wanted,
                           const char* verifier, fsal_obj_handle** new_obj, fsal_attrlist* attrs,
                           bool* caller_perm_check, fsal_attrlist* before, fsal_attrlist* after) {
  const bool hold = closed(state);
  const auto made = mode == FSAL_NO_CREATE ? find_existing(dir, name)
                                           : create_file(dir, name, mode, wanted, verifier, hold);
  if (!made) return to_fsal(made.error());
  const std::uint32_t fsid = this_export().fsid();
  Handle* handle = make_handle(this_export(), made->attributes, dir.file, name);
  fsal_status_t status = open_handle(*handle, state, flags, hold && !made->existed);
  if (!FSAL_IS_ERROR(status) && made->existed) {
    status = truncate_if_asked(*handle, flags);
    if (!FSAL_IS_ERROR(status)) status = fill_opened(*handle, attrs);
    if (FSAL_IS_ERROR(status) && state != nullptr) {
      static_cast<void>(close_handle(*handle, *state));
    }
  }
  if (FSAL_IS_ERROR(status)) {
    destroy_handle(handle);
    return status;
  }
  if (!made->existed) fill_if_wanted(made->attributes, fsid, attrs);
  if (mode != FSAL_NO_CREATE) fill_directory_change(made->parent, fsid, before, after);
  *caller_perm_check = made->existed;
  *new_obj = handle;
  return kFsalOk;
}

fsal_status_t open2(fsal_obj_handle* obj_hdl, state_t* state, fsal_openflags_t flags,
                    fsal_create_mode mode, const char* name, fsal_attrlist* wanted,
                    fsal_verifier_t verifier, fsal_obj_handle** new_obj, fsal_attrlist* attrs,
                    bool* caller_perm_check, fsal_attrlist* before, fsal_attrlist* after) {
  Handle& handle = mds::of(obj_hdl);
  if (name != nullptr) {
    return open_by_name(handle, of(state), flags, mode, name, wanted, verifier, new_obj, attrs,
                        caller_perm_check, before, after);
  }
  // Ganesha's cache also comes here for an open by name of a file it knows; nobody has checked
  // that one's permissions.
  *caller_perm_check = true;
  return open_by_handle(handle, of(state), flags, mode, verifier, attrs);
}

fsal_status_t reopen2(fsal_obj_handle* obj_hdl, state_t* state, fsal_openflags_t flags) {
  Handle& handle = mds::of(obj_hdl);
  const fsal_openflags_t before = of(state)->flags;
  fsal_status_t status = open_handle(handle, of(state), flags);
  if (FSAL_IS_ERROR(status)) return status;
  status = truncate_if_asked(handle, flags);
  // What is less than before conflicts with nobody.
  if (FSAL_IS_ERROR(status)) {
    static_cast<void>(take_share(*handle.open, of(state), before, caller()));
  }
  return status;
}

fsal_openflags_t status2(fsal_obj_handle* /*obj_hdl*/, state_t* state) { return of(state)->flags; }

// Also called for lock and layout states, which have nothing here.
fsal_status_t close2(fsal_obj_handle* obj_hdl, state_t* state) {
  if (state->state_type != STATE_TYPE_SHARE) return kFsalOk;
  return close_handle(mds::of(obj_hdl), *of(state));
}

// There is no file descriptor of the file itself to close.
fsal_status_t close(fsal_obj_handle* /*obj_hdl*/) { return fsalstat(ERR_FSAL_NOT_OPENED, 0); }

bool check_verifier(fsal_obj_handle* obj_hdl, fsal_verifier_t verifier) {
  const Handle& handle = mds::of(obj_hdl);
  const auto same = this_export().names().made_with(handle.file, to_verifier(verifier));
  return same && *same;
}

}  // namespace

void init_open_ops(fsal_obj_ops& ops) {
  ops.open2 = guarded<timed<TimedOp::kOpen, &open2>>;
  ops.reopen2 = guarded<timed<TimedOp::kOpen, &reopen2>>;
  ops.status2 = guarded<&status2>;
  ops.close2 = guarded<&close2>;
  ops.close = guarded<&close>;
  ops.check_verifier = guarded<&check_verifier>;
}

}  // namespace weft::mds
