#include "ganesha-fsal/glue/recaller.h"

#include <spdlog/spdlog.h>

#include "ganesha-fsal/glue/guard.h"
#include "ganesha-fsal/glue/handle.h"

// Of patch 0042. In a server without it no client is asked, so none keeps a layout.
extern "C" bool nfs4_recall_any(clientid4 client, std::uint32_t keep, std::uint32_t type_mask,
                                void (*done)(void* argument, nfsstat4 status), void* argument)
    __attribute__((weak));

namespace weft::mds {
namespace {

// Each takes Ganesha's lock on the state of its file, which another operation may hold for a while:
// Ganesha's four threads for all upcalls would stand still with four such files.
constexpr std::uint32_t kRecallThreads = 64;
constexpr time_t kStopPatience = 30;

fridgethr* recall_threads = nullptr;

thread_local bool giving_up = false;

// May end the export, and what it is the last to use.
void give_up(gsh_export* exp) {
  const bool before = std::exchange(giving_up, true);
  put_gsh_export(exp);
  giving_up = before;
}

struct Unused {
  std::function<void(bool understood)> answered;
};

// Other errors say nothing of what the client can do.
void unused_answered(void* argument, nfsstat4 status) {
  const std::unique_ptr<Unused> asked(static_cast<Unused*>(argument));
  switch (status) {
    case NFS4_OK: return asked->answered(true);
    case NFS4ERR_INVAL:
    case NFS4ERR_NOTSUPP:
    case NFS4ERR_OP_ILLEGAL: return asked->answered(false);
    default: return;
  }
}

}  // namespace

// A reference to an export, and its upcalls.
class UpcallRecaller::Held {
 public:
  Held() = default;
  Held(gsh_export* exp, Upcalls upcalls) : export_(exp), upcalls_(upcalls) {}
  Held(Held&& other) noexcept
      : export_(std::exchange(other.export_, nullptr)), upcalls_(other.upcalls_) {}
  Held& operator=(Held&& other) noexcept {
    std::swap(export_, other.export_);
    std::swap(upcalls_, other.upcalls_);
    return *this;
  }
  ~Held() {
    if (export_ != nullptr) give_up(export_);
  }

  explicit operator bool() const { return export_ != nullptr; }
  [[nodiscard]] const fsal_up_vector* ops() const { return upcalls_.ops; }
  [[nodiscard]] std::uint16_t export_id() const { return upcalls_.export_id; }
  // As Ganesha's cache has it.
  [[nodiscard]] WireHandle key_of(FileId file) const {
    return make_wire_handle(upcalls_.server->fsid(), file, upcalls_.server->store_id());
  }
  // Layouts of a file are all of one type, that of its map.
  [[nodiscard]] layouttype4 type_of(FileId file) const {
    const auto map = upcalls_.server->names().layout(file);
    const bool flex = map && *map && (*map)->type == layout::LayoutType::kFlexFiles;
    return flex ? LAYOUT4_FLEX_FILES : LAYOUT4_NFSV4_1_FILES;
  }

 private:
  gsh_export* export_ = nullptr;
  Upcalls upcalls_;
};

// A recall on its way. While it is, its export is held, and so this object is there.
struct UpcallRecaller::Asked {
  UpcallRecaller* self;
  FileId file;
  ClientId client;
  std::optional<layout::Access> only;
  std::function<void()> none;
  std::vector<std::uint16_t> passed_over;  // exports that could not say
  Held through;
};

bool UpcallRecaller::in_upcall() { return giving_up; }

void UpcallRecaller::start_threads() {
  fridgethr_params params{};
  params.thr_max = kRecallThreads;
  params.thread_delay = 60;
  params.flavor = fridgethr_flavor_worker;
  params.deferment = fridgethr_defer_queue;
  if (fridgethr_init(&recall_threads, "weft_recall", &params) != 0) recall_threads = nullptr;
}

void UpcallRecaller::stop_threads() {
  if (recall_threads == nullptr) return;
  fridgethr* const ended = std::exchange(recall_threads, nullptr);
  if (fridgethr_sync_command(ended, fridgethr_comm_stop, kStopPatience) != 0) {
    fridgethr_cancel(ended);
  }
  fridgethr_destroy(ended);
}

void UpcallRecaller::add(std::uint16_t export_id, const fsal_up_vector* up_ops,
                         MetadataServer& server) {
  const MutexLock lock(mutex_);
  exports_.push_back({export_id, up_ops, &server});
}

void UpcallRecaller::remove(const fsal_up_vector* up_ops) {
  const MutexLock lock(mutex_);
  std::erase_if(exports_, [&](const Upcalls& upcalls) { return upcalls.ops == up_ops; });
}

UpcallRecaller::Held UpcallRecaller::hold(std::span<const std::uint16_t> passed_over) {
  // Given up after the lock: an export that ends here takes it in remove().
  std::vector<Held> others;
  const MutexLock lock(mutex_);
  for (const Upcalls& upcalls : exports_) {
    if (std::ranges::find(passed_over, upcalls.export_id) != passed_over.end()) continue;
    gsh_export* found = get_gsh_export(upcalls.export_id);
    if (found == nullptr) continue;  // being removed
    Held held(found, upcalls);
    // Ours ended, and another one has its number now.
    if (found == upcalls.ops->up_gsh_export) return held;
    others.push_back(std::move(held));
  }
  return {};
}

void UpcallRecaller::recall(FileId file, ClientId client, std::optional<layout::Access> only,
                            std::function<void()> none) {
  ask(std::make_unique<Asked>(Asked{.self = this,
                                    .file = file,
                                    .client = client,
                                    .only = only,
                                    .none = std::move(none),
                                    .passed_over = {},
                                    .through = {}}));
}

void UpcallRecaller::ask(std::unique_ptr<Asked> asked) {
  asked->through = hold(asked->passed_over);
  if (!asked->through) {
    if (!nfs_rpc_stopping()) asked->none();
    return;
  }
  WireHandle key = asked->through.key_of(asked->file);
  gsh_buffdesc handle{.addr = key.data(), .len = key.size()};  // copied by the upcall
  const layoutiomode4 mode = !asked->only                                 ? LAYOUTIOMODE4_ANY
                             : *asked->only == layout::Access::kReadWrite ? LAYOUTIOMODE4_RW
                                                                          : LAYOUTIOMODE4_READ;
  const pnfs_segment whole{.io_mode = mode, .offset = 0, .length = NFS4_UINT64_MAX};
  const layouttype4 type = asked->through.type_of(asked->file);
  layoutrecall_spec spec{};
  spec.how = layoutrecall_howspec_exactly;
  spec.u.client = asked->client;
  const fsal_status_t status = up_async_layoutrecall(
      recall_threads != nullptr ? recall_threads : general_fridge, asked->through.ops(), &handle,
      type, false, &whole, nullptr, &spec, guarded<&UpcallRecaller::answered>, asked.get());
  if (FSAL_IS_ERROR(status)) {
    // The deadline then revokes the layout.
    spdlog::error("layout recall not sent file={:x} client={:x}", asked->file, asked->client);
    return;
  }
  static_cast<void>(asked.release());
}

void UpcallRecaller::answered(void* argument, state_status_t status) {
  std::unique_ptr<Asked> asked(static_cast<Asked*>(argument));
  // Success: the callback is on its way, and what the client does comes as a LAYOUTRETURN.
  if (status == STATE_SUCCESS) return;
  if (status == STATE_NOT_FOUND) {
    // A server that stops has let go of what its clients still have.
    if (!nfs_rpc_stopping()) asked->none();
    return;
  }
  // The export is being removed, or the file is gone. It is held until the next one is: this object
  // may end with it.
  const Held before = std::move(asked->through);
  asked->passed_over.push_back(before.export_id());

  asked->self->ask(std::move(asked));
}

// Of either layout type by the bits of flexible files (RFC 8435 section 11): by those Linux 5.8 and
// later returns the unused layouts of both. Asked for layouts of the files type (RFC 8881 section
// 20.6) it would forget all, those in use too.
void UpcallRecaller::recall_unused(ClientId client, std::function<void(bool understood)> answered) {
  if (nfs4_recall_any == nullptr) return;
  constexpr std::uint32_t kMask =
      1U << RCA4_TYPE_MASK_FF_LAYOUT_MIN | 1U << RCA4_TYPE_MASK_FF_LAYOUT_MAX;
  auto asked = std::make_unique<Unused>(std::move(answered));
  if (nfs4_recall_any(client, 0, kMask, guarded<&unused_answered>, asked.get())) {
    static_cast<void>(asked.release());
  }
}

void UpcallRecaller::invalidate_attributes(FileId file) {
  const Held through = hold({});
  if (!through) return;
  WireHandle key = through.key_of(file);
  gsh_buffdesc handle{.addr = key.data(), .len = key.size()};
  static_cast<void>(through.ops()->invalidate(through.ops(), &handle, FSAL_UP_INVALIDATE_ATTRS));
}

}  // namespace weft::mds
