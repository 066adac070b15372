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

fsal_status_t getattrs(fsal_obj_handle* obj_hdl, fsal_attrlist* out) {
  const Handle& handle = of(obj_hdl);
  if (obj_hdl->type == REGULAR_FILE) {
    const auto known = this_export().server().data().size_known(handle.file);
    if (!known) return to_fsal(known.error());
  }
  const Later later;  // what was learned of the size is durable already
  const auto attributes = this_export().names().getattr(handle.file);
  if (!attributes) {
    if ((out->request_mask & ATTR_RDATTR_ERR) != 0) out->valid_mask = ATTR_RDATTR_ERR;
    return to_fsal(attributes.error());
  }
  fill_attributes(*attributes, this_export().fsid(), out);
  out->expire_time_attr = op_ctx->export_perms.expire_time_attr;
  if (obj_hdl->type != REGULAR_FILE) return kFsalOk;
  const UsedSpace::Answer used = this_export().server().data().space().of(*attributes);
  out->spaceused = used.bytes;
  if (!used.now) out->expire_time_attr = kExpiresSoon;
  return kFsalOk;
}

fsal_status_t setattr2(fsal_obj_handle* obj_hdl, bool bypass, state_t* state,
                       fsal_attrlist* wanted) {
  const Handle& handle = of(obj_hdl);
  const AttributeChange change = attribute_change(*wanted);
  if (change.size) {
    if (obj_hdl->type != REGULAR_FILE) return to_fsal(Errc::kInvalid);
    if (state == nullptr) {
      const fsal_status_t share = check_share(*handle.open, FSAL_O_WRITE, bypass);
      if (FSAL_IS_ERROR(share)) return share;
    }
  }
  FileData& data = this_export().server().data();
  // A size is told to data servers before the client.
  if (change.size) {
    return to_fsal(data.set_attributes(credentials(), handle.file, change, caller()));
  }
  const Later later;
  return to_fsal(data.set_attributes(credentials(), handle.file, change, caller()));
}

// Of what Ganesha's cache tells by itself.
void tell_cached(fsal_obj_handle* obj_hdl) {
  const Later later;
  // Whoever cannot note it waits here. If that fails, the store has, and with it all of us.
  static_cast<void>(this_export().names().tell(of(obj_hdl).file));
}

fsal_status_t handle_to_wire(const fsal_obj_handle* obj_hdl, fsal_digesttype_t /*type*/,
                             gsh_buffdesc* out) {
  const Handle& handle = of(obj_hdl);
  const Export& exp = this_export();
  const std::size_t size = kWireHandleBytes + (exp.whole() ? 0 : kHandleSealBytes);
  if (out->len < size) return to_fsal(Errc::kTooLarge);
  auto* bytes = static_cast<std::byte*>(out->addr);
  std::ranges::copy(handle.wire, bytes);
  if (!exp.whole()) {
    std::ranges::copy(seal_for(exp.root, handle.wire, exp.seal_key()), bytes + kWireHandleBytes);
  }
  out->len = size;
  return kFsalOk;
}

void handle_to_key(fsal_obj_handle* obj_hdl, gsh_buffdesc* out) {
  Handle& handle = of(obj_hdl);
  out->addr = handle.wire.data();
  out->len = handle.wire.size();
}

bool handle_cmp(fsal_obj_handle* a, fsal_obj_handle* b) { return of(a).wire == of(b).wire; }

void release(fsal_obj_handle* obj_hdl) { destroy_handle(&of(obj_hdl)); }

// Two handles of one file share its OpenFile already: nothing is left to merge.
fsal_status_t merge(fsal_obj_handle* /*original*/, fsal_obj_handle* /*duplicate*/) {
  return kFsalOk;
}

}  // namespace

void init_attribute_ops(fsal_obj_ops& ops) {
  ops.getattrs = guarded<timed<TimedOp::kGetattr, &getattrs>>;
  ops.setattr2 = guarded<timed<TimedOp::kSetattr, &setattr2>>;
  ops.handle_to_wire = guarded<&handle_to_wire>;
  ops.handle_to_key = guarded<&handle_to_key>;
  ops.handle_cmp = guarded<&handle_cmp>;
  ops.release = guarded<&release>;
  ops.merge = guarded<&merge>;
  ops.tell_cached = guarded<&tell_cached>;
}

void init_object_ops(fsal_obj_ops& ops) {
  fsal_default_obj_ops_init(&ops);
  init_name_ops(ops);
  init_attribute_ops(ops);
  init_open_ops(ops);
  init_io_ops(ops);
  init_xattr_ops(ops);
  init_layout_ops(ops);
}

}  // namespace weft::mds
