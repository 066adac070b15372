#include "ganesha-fsal/fsal/recaller.h"

#include <spdlog/spdlog.h>

#include "ganesha-fsal/fsal/guard.h"
#include "ganesha-fsal/fsal/handle.h"

namespace weft::mds {
namespace {

struct Asked {
  std::function<void()> none;
};

void answered(void* argument, state_status_t status) {
  const std::unique_ptr<Asked> asked(static_cast<Asked*>(argument));
  // Success: the callback is on its way, and what the client does comes as a LAYOUTRETURN.
  if (status != STATE_SUCCESS) asked->none();
}

}  // namespace

void UpcallRecaller::add(const fsal_up_vector* up_ops) {
  const std::lock_guard lock(mutex_);
  vectors_.push_back(up_ops);
}

void UpcallRecaller::remove(const fsal_up_vector* up_ops) {
  const std::lock_guard lock(mutex_);
  std::erase(vectors_, up_ops);
}

const fsal_up_vector* UpcallRecaller::any() {
  const std::lock_guard lock(mutex_);
  return vectors_.empty() ? nullptr : vectors_.front();
}

void UpcallRecaller::recall(FileId file, ClientId client, std::optional<layout::Access> only,
                            std::function<void()> none) {
  const fsal_up_vector* up_ops = any();
  if (up_ops == nullptr) return none();
  WireHandle key = make_wire_handle(fsid_, file, store_id_);
  gsh_buffdesc handle{.addr = key.data(), .len = key.size()};  // copied by the upcall
  const layoutiomode4 mode = !only                                 ? LAYOUTIOMODE4_ANY
                             : *only == layout::Access::kReadWrite ? LAYOUTIOMODE4_RW
                                                                   : LAYOUTIOMODE4_READ;
  const pnfs_segment whole{.io_mode = mode, .offset = 0, .length = NFS4_UINT64_MAX};
  const layouttype4 type =
      type_of_(file) == layout::LayoutType::kFlexFiles ? LAYOUT4_FLEX_FILES : LAYOUT4_NFSV4_1_FILES;
  layoutrecall_spec spec{};
  spec.how = layoutrecall_howspec_exactly;
  spec.u.client = client;
  auto asked = std::make_unique<Asked>(std::move(none));
  const fsal_status_t status =
      up_async_layoutrecall(general_fridge, up_ops, &handle, type, false, &whole, nullptr, &spec,
                            guarded<&answered>, asked.get());
  if (FSAL_IS_ERROR(status)) {
    // The deadline then revokes the layout.
    spdlog::error("layout recall not sent file={:x} client={:x}", file, client);
    return;
  }
  static_cast<void>(asked.release());
}

void UpcallRecaller::invalidate_attributes(FileId file) {
  const fsal_up_vector* up_ops = any();
  if (up_ops == nullptr) return;
  WireHandle key = make_wire_handle(fsid_, file, store_id_);
  gsh_buffdesc handle{.addr = key.data(), .len = key.size()};
  static_cast<void>(up_ops->invalidate(up_ops, &handle, FSAL_UP_INVALIDATE_ATTRS));
}

}  // namespace weft::mds
