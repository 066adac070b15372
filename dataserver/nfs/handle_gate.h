// The gate every file handle passes: is it genuine, for this data server, and above the fences?
//
//   not one of ours: wrong length, altered in any bit, other key    kBadHandle  NFS4ERR_BADHANDLE
//   genuine, but for another data server (or a wiped store)         kStale      NFS4ERR_STALE
//   genuine, but taken back by the metadata server                  kFenced     NFS4ERR_ACCESS
//   a client's, while this server has no lease (lease.h)            kBusy       NFS4ERR_DELAY
//
// Threading: any thread.
#pragma once

#include <atomic>
#include <span>

#include "dataserver/nfs/lease.h"
#include "dataserver/store/fence_table.h"
#include "layout/handle.h"

namespace weft::ds {

class HandleGate {
 public:
  // `fences` outlives the gate. Data server id 0 admits nothing.
  HandleGate(const layout::HandleKey& key, std::uint16_t key_id, std::uint32_t ds_id,
             const FenceTable& fences, const Clock& clock = boottime_clock())
      : key_(key), key_id_(key_id), ds_id_(ds_id), fences_(fences), lease_(clock) {}

  void set_ds_id(std::uint32_t ds_id) { ds_id_.store(ds_id); }
  [[nodiscard]] Result<layout::Handle> admit(std::span<const std::byte> bytes) const {
    auto handle = layout::unseal(bytes, key_, key_id_);
    if (!handle) return handle;
    const std::uint32_t ds_id = ds_id_.load(std::memory_order_relaxed);
    if (ds_id == 0 || handle->ds_id != ds_id) {
      return fail(Errc::kStale, "a handle of another data server");
    }
    if (!may_serve(*handle)) return fail(Errc::kBusy, "not in touch with the metadata server");
    if (!fences_.admits(*handle)) return fail(Errc::kFenced, "a handle below the fence");
    return handle;
  }
  // Asked again before a write is acknowledged, since it may have taken long. Handles of the
  // metadata server's own need no lease.
  [[nodiscard]] bool may_serve(const layout::Handle& handle) const {
    return handle.access == layout::Access::kControl || lease_.held();
  }
  // Of a handle that was admitted: whether no fence has come since.
  [[nodiscard]] bool still_admits(const layout::Handle& handle) const {
    return fences_.admits(handle);
  }
  [[nodiscard]] Lease& lease() { return lease_; }

 private:
  const layout::HandleKey key_;
  const std::uint16_t key_id_;
  std::atomic<std::uint32_t> ds_id_;
  const FenceTable& fences_;
  Lease lease_;
};

}  // namespace weft::ds
