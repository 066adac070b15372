#include "ganesha-fsal/glue/layout_ops.h"

#include <spdlog/spdlog.h>

#include "ganesha-fsal/files/policies.h"
#include "ganesha-fsal/glue/clients.h"
#include "ganesha-fsal/glue/convert.h"
#include "ganesha-fsal/glue/export.h"
#include "ganesha-fsal/glue/guard.h"
#include "ganesha-fsal/glue/handle.h"
#include "ganesha-fsal/glue/later.h"
#include "ganesha-fsal/glue/module.h"
#include "ganesha-fsal/glue/object_ops.h"
#include "ganesha-fsal/glue/timed.h"
#include "layout/files_layout.h"
#include "layout/flex_report.h"
#include "rpc/base/log_limit.h"

namespace weft::mds {
namespace {

// The client a segment was granted to travels with the segment: op_ctx does not say it on every
// path that ends one.
void* to_segment_data(ClientId client) { return reinterpret_cast<void*>(client); }
ClientId client_of(const void* segment_data) { return reinterpret_cast<ClientId>(segment_data); }

layout::Access to_access(layoutiomode4 mode) {
  return mode == LAYOUTIOMODE4_RW ? layout::Access::kReadWrite : layout::Access::kRead;
}

bool put(XDR* xdr, std::span<const std::byte> bytes) {
  return xdr_opaque_encode(xdr, reinterpret_cast<const char*>(bytes.data()),
                           static_cast<u_int>(bytes.size()));
}

// RFC 8881 section 18.43.3: what a request has to be like whatever the file.
nfsstat4 check_request(const Export& exp, const fsal_layoutget_arg& arg,
                       const pnfs_segment& wanted) {
  if (!exp.options.pnfs) return NFS4ERR_LAYOUTUNAVAILABLE;
  if (arg.type != exp.layout_type) return NFS4ERR_UNKNOWN_LAYOUTTYPE;
  if (wanted.io_mode != LAYOUTIOMODE4_READ && wanted.io_mode != LAYOUTIOMODE4_RW) {
    return NFS4ERR_BADIOMODE;
  }
  if (wanted.length < arg.minlength) return NFS4ERR_INVAL;
  if (arg.minlength != UINT64_MAX && wanted.offset > UINT64_MAX - arg.minlength) {
    return NFS4ERR_INVAL;
  }
  return NFS4_OK;
}

nfsstat4 layoutget(fsal_obj_handle* obj_hdl, XDR* body, const fsal_layoutget_arg* arg,
                   fsal_layoutget_res* res) {
  const Handle& handle = of(obj_hdl);
  MetadataServer& server = this_export().server();
  const nfsstat4 bad = check_request(this_export(), *arg, res->segment);
  if (bad != NFS4_OK) return bad;
  if (op_ctx->clientid == nullptr) return NFS4ERR_SERVERFAULT;
  const ClientId client = *op_ctx->clientid;
  const layout::Access access = to_access(res->segment.io_mode);
  if (!may_use(*handle.open, client, access)) return NFS4ERR_OPENMODE;

  FileData::LayoutRequest request;
  request.file = handle.file;
  request.client = client;
  request.access = access;
  request.type = this_export().policy().type;
  request.max_bytes = arg->maxcount;
  request.fsal = kFsalId;
  request.export_id = this_export().export_id;
  request.with_open = arg->with_open;
  request.from = caller_address();
  const auto policy = placement_for(server.names(), handle.file, this_export().policy());
  if (!policy) return to_nfsstat(policy.error().code);
  // Not later: what is granted is in the journal before anything may come of it, recalls and
  // fences.
  const auto made = server.data().grant(request, *policy);
  if (!made) {
    spdlog::debug("layoutget refused file={:x} error=\"{}\"", handle.file, made.error().describe());
    return to_nfsstat(made.error().code);
  }
  if (!put(body, made->body)) {
    server.layouts().returned(handle.file, client, access);
    return NFS4ERR_TOOSMALL;
  }
  res->segment.offset = 0;
  res->segment.length = NFS4_UINT64_MAX;
  res->fsal_seg_data = to_segment_data(client);
  res->return_on_close = !made->kept;
  res->last_segment = true;
  res->signal_available = false;
  return NFS4_OK;
}

// A file that is as long as the limit is inline yet: what is told is one more. Without the size of
// I/O, a client that writes without its cache would send much of a new file here, since it does not
// know yet that it grows. 0, and no size is small enough.
bool mds_threshold(fsal_obj_handle* obj_hdl, fsal_mds_threshold* hints) {
  Export& exp = this_export();
  const Handle& handle = of(obj_hdl);
  if (!exp.options.pnfs) return false;
  const Later later;
  const auto policy = placement_for(exp.server().names(), handle.file, exp.policy());
  if (!policy) return false;
  const auto limit = exp.server().data().inline_limit(handle.file, *policy);
  if (!limit || !*limit) return false;
  hints->type = exp.layout_type;
  hints->read_size = hints->write_size = hints->write_iosize = **limit == 0 ? 0 : **limit + 1;
  return true;
}

// What is left of a stream that the core made of a body in memory.
std::span<const std::byte> rest_of(XDR* body) {
  return {reinterpret_cast<const std::byte*>(body->x_data), xdr_tail_inline(body)};
}

// What a flexfiles client met at data servers. Taken in before its layout is: only who may write
// is believed.
void take_report(const Handle& handle, XDR* body) {
  const auto report = layout::decode_flex_return(rest_of(body));
  if (!report) {
    static LogLimit& log = *new LogLimit;
    log.warn("layoutreturn of file={:x}: {}", handle.file, report.error().describe());
    return;
  }
  MetadataServer& server = this_export().server();
  server.count_layout_errors(report->errors.size());
  if (op_ctx->clientid == nullptr) return;
  server.data().reports().returned(handle.file, *op_ctx->clientid, *report);
}

// Answers OK whatever happens: Ganesha ends itself after a hundred failed revocations.
nfsstat4 layoutreturn(fsal_obj_handle* obj_hdl, XDR* body, const fsal_layoutreturn_arg* arg) {
  const Handle& handle = of(obj_hdl);
  LayoutService& layouts = this_export().server().layouts();
  if (body != nullptr && arg->lo_type == LAYOUT4_FLEX_FILES) take_report(handle, body);
  if (arg->circumstance == circumstance_reclaim) return NFS4_OK;  // nothing is recorded of it
  if (!arg->dispose) return NFS4_OK;
  // A server that stops lets clients go on writing, as one that dies does: the next one knows from
  // the journal who may, and fences them when it must.
  if (arg->circumstance == circumstance_revoke && nfs_rpc_stopping()) return NFS4_OK;
  const ClientId client = client_of(arg->fsal_seg_data);
  if (arg->circumstance == circumstance_revoke) {
    layouts.revoke(handle.file, client, "lease or backchannel lost");
  } else {
    // Who closes in order returns it ahead of the CLOSE. One that CLOSE finds was dropped, and
    // perhaps a LAYOUTCOMMIT with it.
    const bool forgotten =
        arg->circumstance == circumstance_forgotten || arg->circumstance == circumstance_roc;
    this_export().server().data().layout_ended(handle.file, client,
                                               to_access(arg->cur_segment.io_mode), forgotten);
  }
  return NFS4_OK;
}

void layoutrecall_waits(fsal_obj_handle* obj_hdl, const pnfs_segment* segment) {
  if (op_ctx->clientid == nullptr) return;
  const auto only = segment->io_mode == LAYOUTIOMODE4_ANY
                        ? std::nullopt
                        : std::optional(to_access(segment->io_mode));
  this_export().server().layouts().waits(of(obj_hdl).file, *op_ctx->clientid, only);
}

nfsstat4 layoutcommit(fsal_obj_handle* obj_hdl, XDR* /*body*/, const fsal_layoutcommit_arg* arg,
                      fsal_layoutcommit_res* res) {
  const Handle& handle = of(obj_hdl);
  res->commit_done = true;  // every segment is the whole file
  // The core asks for the oldest segment, which may be one for reading beside one for writing.
  const ClientId client = client_of(arg->fsal_seg_data);
  FileData& data = this_export().server().data();
  if (arg->fsal_seg_data == nullptr) {  // its layout was returned before: patch 0035
    const auto doubted = data.doubt_size(handle.file);
    return doubted ? NFS4_OK : to_nfsstat(doubted.error().code);
  }
  if (arg->segment.io_mode != LAYOUTIOMODE4_RW && !data.may_write(handle.file, client)) {
    const auto doubted = data.doubt_size(handle.file);  // that one was returned before
    return doubted ? NFS4ERR_BADLAYOUT : to_nfsstat(doubted.error().code);
  }
  if (arg->new_offset && arg->last_write >= kMaxFileSize) return NFS4ERR_INVAL;
  Growth growth;
  growth.id = handle.file;
  if (arg->new_offset) growth.end = arg->last_write + 1;
  if (arg->time_changed) {
    growth.mtime_ns = to_ns({.tv_sec = static_cast<std::time_t>(arg->new_time.seconds),
                             .tv_nsec = arg->new_time.nseconds});
  }
  const auto grown = [&] {
    const Later later;  // the data servers hear nothing of it
    return data.commit(growth, client);
  }();
  if (!grown) return to_nfsstat(grown.error().code);
  res->size_supplied = true;
  res->new_size = *grown;
  return NFS4_OK;
}

// Whether the server is well is for its heartbeats to say.
nfsstat4 layouterror(fsal_obj_handle* obj_hdl, const fsal_layouterror_arg* arg) {
  const Handle& handle = of(obj_hdl);
  MetadataServer& server = this_export().server();
  server.count_layout_errors(arg->count);
  if (op_ctx->clientid == nullptr) return NFS4_OK;
  std::vector<layout::DeviceError> errors;
  const std::size_t count = std::min<std::size_t>(arg->count, layout::kMaxFlexDeviceErrors);
  for (const device_error4& error : std::span(arg->errors, count)) {
    layout::DeviceError& one = errors.emplace_back();
    std::memcpy(one.device.data(), error.de_deviceid, one.device.size());
    one.status = static_cast<std::uint32_t>(error.de_status);
    one.op = static_cast<std::uint32_t>(error.de_opnum);
  }
  server.data().reports().errors(handle.file, *op_ctx->clientid, arg->offset, errors);
  return NFS4_OK;
}

nfsstat4 layoutstats(fsal_obj_handle* obj_hdl, XDR* /*body*/, const fsal_layoutstats_arg* arg) {
  const Handle& handle = of(obj_hdl);
  MetadataServer& server = this_export().server();
  if (op_ctx->clientid == nullptr) return NFS4_OK;
  layout::DeviceIdBytes device{};
  std::memcpy(device.data(), arg->deviceid, device.size());
  server.data().reports().stats(
      handle.file, *op_ctx->clientid, device,
      {arg->read->ii_count, arg->read->ii_bytes, arg->write->ii_count, arg->write->ii_bytes, 0});
  return NFS4_OK;
}

void fs_layouttypes(fsal_export* exp_hdl, std::int32_t* count, const layouttype4** types) {
  const Export& exp = of(exp_hdl);
  *count = exp.options.pnfs ? 1 : 0;
  *types = &exp.layout_type;
}

// Layouts are whole files whatever the block size; a client's is its own.
std::uint32_t fs_layout_blocksize(fsal_export* exp_hdl) { return of(exp_hdl).policy().stripe_unit; }
std::uint32_t fs_maximum_segments(fsal_export* exp_hdl) { return of(exp_hdl).options.pnfs ? 1 : 0; }
std::size_t fs_loc_body_size(fsal_export* /*exp_hdl*/) {
  return layout::files_layout_bytes(layout::kMaxServers);  // more than any flexfiles one
}

}  // namespace

void init_layout_ops(fsal_obj_ops& ops) {
  ops.layoutget = guarded<timed<TimedOp::kLayoutGet, &layoutget>>;
  ops.layoutreturn = guarded<timed<TimedOp::kLayoutReturn, &layoutreturn>>;
  ops.layoutcommit = guarded<timed<TimedOp::kLayoutCommit, &layoutcommit>>;
  ops.layouterror = guarded<&layouterror>;
  ops.layoutstats = guarded<&layoutstats>;
  ops.mds_threshold = guarded<&mds_threshold>;
  ops.layoutrecall_waits = guarded<&layoutrecall_waits>;
}

void init_layout_export_ops(export_ops& ops) {
  ops.fs_layouttypes = guarded<&fs_layouttypes>;
  ops.fs_layout_blocksize = guarded<&fs_layout_blocksize>;
  ops.fs_maximum_segments = guarded<&fs_maximum_segments>;
  ops.fs_loc_body_size = guarded<&fs_loc_body_size>;
}

nfsstat4 getdeviceinfo(fsal_module* /*fsal*/, XDR* body, layouttype4 type,
                       const pnfs_deviceid* device) {
  if (type != LAYOUT4_NFSV4_1_FILES && type != LAYOUT4_FLEX_FILES) {
    return NFS4ERR_UNKNOWN_LAYOUTTYPE;
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(device);
  const auto id = layout::unpack(
      std::span<const std::byte, layout::kDeviceIdBytes>(bytes, layout::kDeviceIdBytes));
  if (!id) return NFS4ERR_INVAL;
  const auto store = exports().store_of(id->export_id);
  if (store == nullptr) return NFS4ERR_NOENT;
  const auto encoded = store->server->data().device_body(
      *id, type == LAYOUT4_FLEX_FILES ? layout::LayoutType::kFlexFiles : layout::LayoutType::kFiles,
      caller_address());
  if (!encoded) return to_nfsstat(encoded.error().code);
  return put(body, *encoded) ? NFS4_OK : NFS4ERR_TOOSMALL;
}

// Room for the largest device: 256 servers of 8 addresses, 80 bytes each at most.
std::size_t device_body_size(fsal_module* /*fsal*/) { return std::size_t{256} << 10; }

}  // namespace weft::mds
