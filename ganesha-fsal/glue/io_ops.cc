#include <spdlog/spdlog.h>

#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "ganesha-fsal/files/policies.h"
#include "ganesha-fsal/glue/convert.h"
#include "ganesha-fsal/glue/export.h"
#include "ganesha-fsal/glue/guard.h"
#include "ganesha-fsal/glue/handle.h"
#include "ganesha-fsal/glue/later.h"
#include "ganesha-fsal/glue/object_ops.h"
#include "ganesha-fsal/glue/timed.h"

// Data through the metadata server, for clients that do not go to the data servers.
//
// READ, WRITE and COMMIT wait without a worker. read2, write2 and commit_async send what there is
// to send and return; when the data servers have answered, done_cb is called with fsal_resume set,
// on a thread of ours, and Ganesha calls the function again, on a worker, which does the rest and
// calls done_cb for good. The request holds what both need meanwhile: handle, state, export,
// buffers.
namespace weft::mds {
namespace {

// What the write that this thread has just done is to be answered with. Ganesha asks its export for
// the verifier after the write, on the thread that ended it: what has become of it meanwhile would
// hide that the write may have been lost.
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

// Between both calls. fsal_io_arg::fsal_resume; from 1000 on FSALs have their own numbers.
constexpr int kAnswered = 1001;

// The caller of a read2, write2 or commit_async. It is told once: either that the call is to be
// made again, or how it ended.
class Caller {
 public:
  Caller(fsal_obj_handle* obj_hdl, fsal_async_cb done_cb, fsal_io_arg* arg, void* caller_arg)
      : store_(this_export().store),
        obj_hdl_(obj_hdl),
        done_cb_(done_cb),
        arg_(arg),
        caller_arg_(caller_arg),
        export_(op_ctx->ctx_export),
        fsal_export_(op_ctx->fsal_export) {}

  // On the thread that was called.
  void ended(fsal_status_t status) {
    if (!told_.exchange(true)) done_cb_(obj_hdl_, status, arg_, caller_arg_);
  }

  // On any thread. Ganesha's cache, between the caller and us, wants a context to run in, and the
  // request's own may be in use by the worker yet. The request lives until it is told, and its
  // export with it; from then on we need a reference of our own, which may be the last. Only when
  // Ganesha ends itself does it take an export from under its requests, and then has no use for
  // them: nobody is told.
  void answered() noexcept {
    if (told_.exchange(true)) return;
    const Exports::MayEnd here;
    const std::shared_ptr<ServedStore> store = store_.lock();
    if (store == nullptr) return;
    get_gsh_export_ref(export_);
    req_op_context context;
    init_op_context_simple(&context, export_, fsal_export_);
    arg_->fsal_resume = kAnswered;
    done_cb_(obj_hdl_, kFsalOk, arg_, caller_arg_);
    release_op_context();
  }

 private:
  const std::weak_ptr<ServedStore> store_;
  fsal_obj_handle* const obj_hdl_;
  const fsal_async_cb done_cb_;
  fsal_io_arg* const arg_;
  void* const caller_arg_;
  gsh_export* const export_;
  fsal_export* const fsal_export_;
  std::atomic<bool> told_{false};
};

using Pieces = std::vector<std::span<const std::byte>>;

Pieces pieces_of(const fsal_io_arg& arg) {
  Pieces pieces;
  for (const iovec& piece :
       std::span<const iovec>(arg.iov, static_cast<std::size_t>(arg.iov_count))) {
    if (piece.iov_len == 0) continue;
    pieces.emplace_back(static_cast<const std::byte*>(piece.iov_base), piece.iov_len);
  }
  return pieces;
}

// One of the kinds of I/O, in its two steps.
struct ReadCall {
  using Begun = FileData::BegunRead;
  static constexpr fsal_openflags_t kAccess = FSAL_O_READ;
  static constexpr TimedOp kTimed = TimedOp::kRead;

  static Result<std::shared_ptr<Begun>> begin(const Handle& handle, const fsal_io_arg& arg,
                                              FileData::Answered answered) {
    const Later later;  // for the size, and inline bytes; maps that it goes by are durable
    // READ_PLUS: the client then asks with READ.
    if (arg.info != nullptr) return fail(Errc::kNotSupported);
    std::size_t room = 0;
    for (const auto& piece : pieces_of(arg)) room += piece.size();
    const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(room, UINT32_MAX));
    return this_export().server().data().begin_read(handle.file, arg.offset, count,
                                                    std::move(answered));
  }

  static Result<> end(Begun& begun, fsal_io_arg& arg) {
    auto got = this_export().server().data().end_read(begun);
    if (!got) return pass(got);
    const std::span<const iovec> out(arg.iov, static_cast<std::size_t>(arg.iov_count));
    if (auto copied = copy_out(got->data, out); !copied) return copied;
    arg.io_amount = got->data.size();
    this_export().server().traffic().read(caller(), arg.io_amount);
    arg.end_of_file = got->eof;
    return {};
  }
};

struct WriteCall {
  using Begun = FileData::BegunWrite;
  static constexpr fsal_openflags_t kAccess = FSAL_O_WRITE;
  static constexpr TimedOp kTimed = TimedOp::kWrite;

  static Result<std::shared_ptr<Begun>> begin(const Handle& handle, const fsal_io_arg& arg,
                                              FileData::Answered answered) {
    const Later later;  // for inline bytes; maps that it goes by are durable
    const auto wanted =
        arg.fsal_stable ? ProxyIo::Stability::kFileSync : ProxyIo::Stability::kUnstable;
    auto policy = placement_for(this_export().names(), handle.file, this_export().policy());
    if (!policy) return pass(policy);
    return this_export().server().data().begin_write(handle.file, arg.offset, pieces_of(arg),
                                                     wanted, *policy, std::move(answered));
  }

  static Result<> end(Begun& begun, fsal_io_arg& arg) {
    const Later later;  // for the size; maps that it goes by are durable
    auto written = this_export().server().data().end_write(begun, pieces_of(arg));
    if (!written) return pass(written);
    arg.io_amount = written->bytes;
    this_export().server().traffic().wrote(caller(), arg.io_amount);
    arg.fsal_stable = written->stability == ProxyIo::Stability::kFileSync;
    verifier_of_write = written->verifier;
    return {};
  }
};

struct CommitCall {
  using Begun = FileData::BegunSync;
  static constexpr fsal_openflags_t kAccess = FSAL_O_CLOSED;  // whatever others deny
  static constexpr TimedOp kTimed = TimedOp::kCommit;

  static Result<std::shared_ptr<Begun>> begin(const Handle& handle, const fsal_io_arg& /*arg*/,
                                              FileData::Answered answered) {
    return this_export().server().data().begin_sync(handle.file, std::move(answered));
  }

  static Result<> end(Begun& begun, fsal_io_arg& /*arg*/) {
    verifier_of_write.reset();  // it is answered with what holds after it
    return this_export().server().data().end_sync(begun);
  }
};

// What is kept between both calls.
template <class Kind>
struct Slot {
  std::shared_ptr<typename Kind::Begun> begun;
  TimePoint at{};
};

void took(TimedOp op, TimePoint began) {
  MetadataServer& server = this_export().server();
  server.times().add(op, server.environment().clock.now() - began);
}

// The status, if it is known now.
template <class Kind>
std::optional<fsal_status_t> begin(const Handle& handle, bool bypass, fsal_io_arg& arg,
                                   const std::shared_ptr<Caller>& caller) {
  const fsal_status_t share = may_do(handle, arg.state, Kind::kAccess, bypass);
  if (FSAL_IS_ERROR(share)) return share;
  arg.io_amount = 0;
  auto slot = std::make_unique<Slot<Kind>>();
  slot->at = this_export().server().environment().clock.now();
  auto begun = Kind::begin(handle, arg, [caller] { caller->answered(); });
  if (!begun) return to_fsal(begun.error());
  if (!(*begun)->later) {
    const auto ended = Kind::end(**begun, arg);
    took(Kind::kTimed, slot->at);
    return to_fsal(ended);
  }
  slot->begun = std::move(*begun);
  arg.cbi = slot.release();
  return std::nullopt;
}

template <class Kind>
fsal_status_t end(fsal_io_arg& arg) {
  arg.fsal_resume = FSAL_NORESUME;
  const std::unique_ptr<Slot<Kind>> slot(static_cast<Slot<Kind>*>(std::exchange(arg.cbi, nullptr)));
  if (slot == nullptr) return to_fsal(Errc::kInternal);  // begin() failed behind its back
  const auto ended = Kind::end(*slot->begun, arg);
  took(Kind::kTimed, slot->at);
  return to_fsal(ended);
}

template <class Kind>
void io(fsal_obj_handle* obj_hdl, bool bypass, fsal_async_cb done_cb, fsal_io_arg* arg,
        void* caller_arg) {
  const auto caller = std::make_shared<Caller>(obj_hdl, done_cb, arg, caller_arg);
  try {
    if (arg->fsal_resume == kAnswered) return caller->ended(end<Kind>(*arg));
    if (const auto status = begin<Kind>(of(obj_hdl), bypass, *arg, caller)) caller->ended(*status);
  } catch (...) {
    log_escaped_exception(__PRETTY_FUNCTION__);
    caller->ended(to_fsal(Errc::kInternal));
  }
}

void commit_async(fsal_obj_handle* obj_hdl, fsal_async_cb done_cb, fsal_io_arg* arg,
                  void* caller_arg) {
  io<CommitCall>(obj_hdl, true, done_cb, arg, caller_arg);
}

// Of NFSv3.
fsal_status_t commit2(fsal_obj_handle* obj_hdl, off_t /*offset*/, std::size_t /*length*/) {
  verifier_of_write.reset();
  return to_fsal(this_export().server().data().sync(of(obj_hdl).file));
}

fsal_status_t fallocate(fsal_obj_handle* obj_hdl, state_t* state, std::uint64_t offset,
                        std::uint64_t length, bool allocate) {
  const Handle& handle = of(obj_hdl);
  const fsal_status_t share = may_do(handle, state, FSAL_O_WRITE, false);
  if (FSAL_IS_ERROR(share)) return share;
  FileData& data = this_export().server().data();
  if (!allocate) return to_fsal(data.punch(handle.file, offset, length));
  const auto policy = placement_for(this_export().names(), handle.file, this_export().policy());
  if (!policy) return to_fsal(policy.error());
  return to_fsal(data.allocate(handle.file, offset, length, *policy));
}

// Where the end is the data servers may know better: a Linux client sends what it has written, but
// no LAYOUTCOMMIT, before SEEK.
fsal_status_t seek2(fsal_obj_handle* obj_hdl, state_t* /*state*/, io_info* info) {
  const Handle& handle = of(obj_hdl);
  MetadataServer& server = this_export().server();
  if (server.layouts().held_for_write(handle.file)) {
    if (const auto learned = server.data().learn_end(handle.file); !learned) {
      return to_fsal(learned.error());
    }
  }
  if (const auto known = server.data().size_known(handle.file); !known) {
    return to_fsal(known.error());
  }
  const auto attributes = this_export().names().getattr(handle.file);
  if (!attributes) return to_fsal(attributes.error());
  const std::uint64_t from = info->io_content.hole.di_offset;
  if (from >= attributes->size) return fsalstat(ERR_FSAL_NXIO, ENXIO);
  const bool hole = info->io_content.what == NFS4_CONTENT_HOLE;
  const auto found = server.data().seek(handle.file, from, hole, attributes->size);
  if (!found) return to_fsal(found);
  info->io_eof = *found >= attributes->size;
  info->io_content.hole.di_offset = *found;  // answered from here for both
  return kFsalOk;
}

}  // namespace

std::optional<std::uint64_t> take_verifier_of_write() {
  return std::exchange(verifier_of_write, std::nullopt);
}

void init_io_ops(fsal_obj_ops& ops) {
  ops.read2 = guarded<&io<ReadCall>>;
  ops.write2 = guarded<&io<WriteCall>>;
  ops.commit2 = guarded<timed<TimedOp::kCommit, &commit2>>;
  ops.commit_async = guarded<&commit_async>;
  ops.fallocate = guarded<&fallocate>;
  ops.seek2 = guarded<&seek2>;
}

}  // namespace weft::mds
