#include <spdlog/spdlog.h>

#include <optional>
#include <utility>

#include "ganesha-fsal/fsal/convert.h"
#include "ganesha-fsal/fsal/export.h"
#include "ganesha-fsal/fsal/guard.h"
#include "ganesha-fsal/fsal/handle.h"
#include "ganesha-fsal/fsal/object_ops.h"
#include "ganesha-fsal/layouts/policies.h"

// Data through the metadata server, for clients that do not go to the data servers. The worker that
// was given the request waits for the data servers; done_cb is called before the operation returns.
namespace weft::mds {
namespace {

// What the write that this thread has just done is to be answered with. Ganesha asks its export for
// the verifier after the write, on the thread that did it (done_cb is called before write2
// returns): what has become of it meanwhile would hide that the write may have been lost.
thread_local std::optional<std::uint64_t> verifier_of_write;

// I/O without an open of its own must not run against somebody's deny mode.
fsal_status_t may_do(const Handle& handle, const state_t* state, fsal_openflags_t access,
                     bool bypass) {
  if (state != nullptr) return kFsalOk;
  return check_share(*handle.open, access, bypass);
}

Result<> copy_out(const Payload& payload, std::span<const iovec> out) {
  auto bytes = payload.flatten();
  if (!bytes) return pass(bytes);
  std::size_t taken = 0;
  for (const iovec& piece : out) {
    const std::size_t size = std::min(piece.iov_len, bytes->size() - taken);
    std::memcpy(piece.iov_base, bytes->data() + taken, size);
    taken += size;
  }
  return {};
}

fsal_status_t do_read(const Handle& handle, bool bypass, fsal_io_arg& arg) {
  // READ_PLUS: the client then asks with READ.
  if (arg.info != nullptr) return to_fsal(Errc::kNotSupported);
  const fsal_status_t share = may_do(handle, arg.state, FSAL_O_READ, bypass);
  if (FSAL_IS_ERROR(share)) return share;
  const std::span<const iovec> out(arg.iov, static_cast<std::size_t>(arg.iov_count));
  std::size_t room = 0;
  for (const iovec& piece : out) room += piece.iov_len;
  const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(room, UINT32_MAX));

  const auto got = handle.owner->backend->data().read(handle.file, arg.offset, count);
  if (!got) return to_fsal(got.error());
  if (auto copied = copy_out(got->data, out); !copied) return to_fsal(copied.error());
  arg.io_amount = got->data.size();
  arg.end_of_file = got->eof;
  return kFsalOk;
}

fsal_status_t do_write(const Handle& handle, bool bypass, fsal_io_arg& arg) {
  const fsal_status_t share = may_do(handle, arg.state, FSAL_O_WRITE, bypass);
  if (FSAL_IS_ERROR(share)) return share;
  const auto wanted =
      arg.fsal_stable ? ProxyIo::Stability::kFileSync : ProxyIo::Stability::kUnstable;
  const auto policy = placement_for(handle.owner->names(), handle.file, handle.owner->policy);
  if (!policy) return to_fsal(policy.error());
  auto stability = ProxyIo::Stability::kFileSync;
  std::optional<std::uint64_t> verifier;  // the first piece's is the oldest
  std::uint64_t offset = arg.offset;
  arg.io_amount = 0;
  for (const iovec& piece :
       std::span<const iovec>(arg.iov, static_cast<std::size_t>(arg.iov_count))) {
    if (piece.iov_len == 0) continue;
    const auto written = handle.owner->backend->data().write(
        handle.file, offset, {static_cast<const std::byte*>(piece.iov_base), piece.iov_len}, wanted,
        *policy);
    if (!written) return to_fsal(written.error());
    stability = std::min(stability, written->stability);
    if (!verifier) verifier = written->verifier;
    offset += piece.iov_len;
    arg.io_amount += piece.iov_len;
  }
  arg.fsal_stable = stability == ProxyIo::Stability::kFileSync;
  verifier_of_write = verifier;
  return kFsalOk;
}

using Work = fsal_status_t (*)(const Handle&, bool, fsal_io_arg&);

template <Work work>
void io(fsal_obj_handle* obj_hdl, bool bypass, fsal_async_cb done_cb, fsal_io_arg* arg,
        void* caller_arg) {
  fsal_status_t status = to_fsal(Errc::kInternal);
  try {
    status = work(of(obj_hdl), bypass, *arg);
  } catch (...) {
    log_escaped_exception(__PRETTY_FUNCTION__);
  }
  done_cb(obj_hdl, status, arg, caller_arg);
}

fsal_status_t commit2(fsal_obj_handle* obj_hdl, off_t /*offset*/, std::size_t /*length*/) {
  const Handle& handle = of(obj_hdl);
  verifier_of_write.reset();  // COMMIT is answered with what holds after it
  return to_fsal(handle.owner->backend->data().sync(handle.file));
}

fsal_status_t fallocate(fsal_obj_handle* obj_hdl, state_t* state, std::uint64_t offset,
                        std::uint64_t length, bool allocate) {
  const Handle& handle = of(obj_hdl);
  const fsal_status_t share = may_do(handle, state, FSAL_O_WRITE, false);
  if (FSAL_IS_ERROR(share)) return share;
  FileData& data = handle.owner->backend->data();
  if (!allocate) return to_fsal(data.punch(handle.file, offset, length));
  const auto policy = placement_for(handle.owner->names(), handle.file, handle.owner->policy);
  if (!policy) return to_fsal(policy.error());
  return to_fsal(data.allocate(handle.file, offset, length, *policy));
}

// Where the holes are only the data servers know: a file counts as data from end to end, with the
// hole that every file has at its end (RFC 7862 section 15.11.3 allows that). Where the end is,
// they may know better too: a Linux client sends what it has written, but no LAYOUTCOMMIT, before
// SEEK.
fsal_status_t seek2(fsal_obj_handle* obj_hdl, state_t* /*state*/, io_info* info) {
  const Handle& handle = of(obj_hdl);
  Backend& backend = *handle.owner->backend;
  if (backend.layouts().held_for_write(handle.file)) {
    if (const auto learned = backend.data().learn_end(handle.file); !learned) {
      return to_fsal(learned.error());
    }
  }
  const auto attributes = handle.owner->names().getattr(handle.file);
  if (!attributes) return to_fsal(attributes.error());
  const std::uint64_t from = info->io_content.hole.di_offset;
  if (from >= attributes->size) return fsalstat(ERR_FSAL_NXIO, ENXIO);
  const bool hole = info->io_content.what == NFS4_CONTENT_HOLE;
  info->io_eof = hole ? TRUE : FALSE;
  info->io_content.hole.di_offset = hole ? attributes->size : from;  // answered from here for both
  return kFsalOk;
}

}  // namespace

std::optional<std::uint64_t> take_verifier_of_write() {
  return std::exchange(verifier_of_write, std::nullopt);
}

void init_io_ops(fsal_obj_ops& ops) {
  ops.read2 = guarded<&io<&do_read>>;
  ops.write2 = guarded<&io<&do_write>>;
  ops.commit2 = guarded<&commit2>;
  ops.fallocate = guarded<&fallocate>;
  ops.seek2 = guarded<&seek2>;
}

}  // namespace weft::mds
