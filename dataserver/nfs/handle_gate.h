// The gate every file handle passes: is it genuine, for this data server, and above the fences?
//
//   not one of ours: wrong length, altered in any bit, other key    kBadHandle  NFS4ERR_BADHANDLE
//   genuine, but for another data server (or a wiped store)         kStale      NFS4ERR_STALE
//   genuine, but taken back by the metadata server                  kFenced     NFS4ERR_ACCESS
//   a client's, while this server has stopped serving              kFenced     NFS4ERR_ACCESS
//   a client's or another server's, without a lease (lease.h)      kBusy       NFS4ERR_DELAY
//   a client's that has waited for one in vain (lease_wait.h)      kFenced     NFS4ERR_ACCESS
//
// Whose session it comes in is DsHandler's to look at: of who is no server, one that is for servers
// is answered NFS4ERR_ACCESS.
//
// It has stopped serving while its store is not there and the metadata server is told so: clients
// are to ask for other layouts. Other data servers are to wait, and give this one up.
//
// Threading: any thread.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "dataserver/nfs/lease.h"
#include "dataserver/store/fence_table.h"
#include "layout/handle.h"
#include "rpc/peer/keyring.h"

namespace weft::ds {

class HandleGate {
 public:
  // `fences` outlives the gate. Data server id 0 admits nothing.
  HandleGate(std::shared_ptr<const rpc::peer::Keyring> keys, std::uint32_t ds_id,
             const FenceTable& fences, const Clock& clock = boottime_clock())
      : keys_(std::move(keys)), ds_id_(ds_id), fences_(fences), lease_(clock) {}

  void set_ds_id(std::uint32_t ds_id) { ds_id_.store(ds_id); }
  [[nodiscard]] std::uint32_t ds_id() const { return ds_id_.load(); }
  // Whether it is one of ours, for whichever data server.
  [[nodiscard]] bool genuine(std::span<const std::byte> bytes) const {
    return open(bytes).has_value();
  }
  [[nodiscard]] Result<layout::Handle> admit(std::span<const std::byte> bytes,
                                             bool waited = false) const {
    auto handle = open(bytes);
    if (!handle) return handle;
    const std::uint32_t ds_id = ds_id_.load(std::memory_order_relaxed);
    if (ds_id == 0 || handle->ds_id != ds_id) {
      return fail(Errc::kStale, "a handle of another data server");
    }
    if (!fences_.admits(*handle)) return fail(Errc::kFenced, "a handle below the fence");
    if (refuses(*handle)) return fail(Errc::kFenced, "this server has stopped serving");
    if (!may_serve(*handle)) {
      return fail(waited && is_clients(*handle) ? Errc::kFenced : Errc::kBusy,
                  "not in touch with the metadata server");
    }
    return handle;
  }
  // Asked again before a write is acknowledged, since it may have taken long. Handles of the
  // metadata server's own need no lease.
  [[nodiscard]] bool may_serve(const layout::Handle& handle) const {
    return handle.access == layout::Access::kControl || lease_.held();
  }
  // Of a handle that was admitted: whether no fence has come since. A write asks with its token
  // (writes_in_flight.h) in hand.
  [[nodiscard]] bool still_admits(const layout::Handle& handle) const {
    return fences_.admits(handle);
  }
  [[nodiscard]] Lease& lease() { return lease_; }
  // On the thread that renews the lease. It is needed anew after that.
  void stop() {
    if (!stopped_.exchange(true)) stops_.fetch_add(1);
    lease_.end();
  }
  void go_on() { stopped_.store(false); }
  // How often it has stopped. Clients were sent elsewhere with what has waited since before.
  [[nodiscard]] unsigned stops() const { return stops_.load(); }
  [[nodiscard]] bool refuses(const layout::Handle& handle) const {
    return stopped_.load(std::memory_order_relaxed) && is_clients(handle);
  }
  // Of what cannot be done now: it would be refused, or will not be possible soon.
  [[nodiscard]] bool better_elsewhere(const layout::Handle& handle) const {
    return is_clients(handle) && (stopped_.load(std::memory_order_relaxed) || !lease_.in_touch());
  }
  // Who can go elsewhere; our own servers are to wait, and to give this one up.
  [[nodiscard]] static bool is_clients(const layout::Handle& handle) {
    return handle.access == layout::Access::kRead || handle.access == layout::Access::kReadWrite;
  }

 private:
  [[nodiscard]] Result<layout::Handle> open(std::span<const std::byte> bytes) const {
    return layout::unseal(bytes, keys_->now().handle, rpc::peer::kHandleKeyId);
  }

  const std::shared_ptr<const rpc::peer::Keyring> keys_;
  std::atomic<std::uint32_t> ds_id_;
  const FenceTable& fences_;
  Lease lease_;
  std::atomic<bool> stopped_{false};
  std::atomic<unsigned> stops_{0};
};

}  // namespace weft::ds
