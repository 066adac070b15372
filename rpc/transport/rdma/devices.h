// The RDMA devices of this machine, as far as connections come by them, and what of this process
// they can reach: one piece of memory, registered with each device when it is met first, for as
// long as somebody listens or is connected there.
//
// That memory is registered for what this side begins, and for nothing that a peer begins: a peer
// learns no key of it. What a calling connection exposes (queue_pair.h) is registered apart, in a
// protection domain of that connection's own: no other peer reaches it, whatever key it guesses.
// Memory windows over the first, bound for each call, would need no copy. But Soft-RoCE looks a
// window's key up and then lets a peer reach the whole registration that it was bound in.
//
// Threading: any thread. Ownership: a Device keeps the memory; those who listen at a device, its
// queue pairs and its completion channels keep the Device, and let go of it before their
// rdma_cm_id. With the last of these librdmacm may close the verbs of a device that is gone, and
// another one's may have the same address then.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "rpc/base/error.h"
#include "rpc/base/mutex.h"
#include "rpc/base/shared_memory.h"
#include "rpc/transport/rdma/queue_pair.h"

namespace weft::rpc::rdma {

enum class Reach : std::uint8_t {
  kOwn,    // what this side begins
  kPeers,  // and what the peer of a connection begins
};

class Device {
 public:
  // `verbs` is librdmacm's, which keeps it open. kNotSupported: iWARP, where reading needs memory
  // that peers may write. Others: what registering it failed with.
  [[nodiscard]] static Result<std::shared_ptr<Device>> open(ibv_context* verbs,
                                                            std::shared_ptr<SharedMemory> memory,
                                                            Reach reach = Reach::kOwn);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  [[nodiscard]] ibv_context* verbs() const { return verbs_; }
  [[nodiscard]] ibv_pd* domain() const { return domain_; }
  [[nodiscard]] std::uint32_t key() const { return region_->lkey; }
  // For the peer, of Reach::kPeers.
  [[nodiscard]] Exposed exposed() const { return {.memory = memory_, .handle = region_->rkey}; }
  [[nodiscard]] const ibv_device_attr& limits() const { return limits_; }
  [[nodiscard]] bool reaches(std::span<const std::byte> bytes) const {
    return memory_->contains(bytes);
  }

 private:
  Device(ibv_context* verbs, std::shared_ptr<SharedMemory> memory)
      : verbs_(verbs), memory_(std::move(memory)) {}

  ibv_context* const verbs_;
  const std::shared_ptr<SharedMemory> memory_;
  ibv_device_attr limits_{};
  ibv_pd* domain_ = nullptr;
  ibv_mr* region_ = nullptr;
};

class Devices {
 public:
  explicit Devices(std::shared_ptr<SharedMemory> memory) : memory_(std::move(memory)) {}

  // Whether the kernel has any. The libraries say on standard error that there is none.
  [[nodiscard]] static bool any();

  // Precondition: an rdma_cm_id keeps the verbs.
  [[nodiscard]] Result<std::shared_ptr<Device>> of(ibv_context* verbs);

 private:
  const std::shared_ptr<SharedMemory> memory_;
  Mutex mutex_;
  std::map<ibv_context*, std::weak_ptr<Device>> devices_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::rpc::rdma
