#include "rpc/transport/rdma/devices.h"

#include <cerrno>
#include <filesystem>
#include <string>

namespace weft::rpc::rdma {

Result<std::shared_ptr<Device>> Device::open(ibv_context* verbs,
                                             std::shared_ptr<SharedMemory> memory, Reach reach) {
  const std::string name = ::ibv_get_device_name(verbs->device);
  if (verbs->device->transport_type != IBV_TRANSPORT_IB) {
    return fail(Errc::kNotSupported, name + " is neither InfiniBand nor RoCE");
  }
  std::shared_ptr<Device> device(new Device(verbs, std::move(memory)));
  if (const int error = ::ibv_query_device(verbs, &device->limits_); error != 0) {
    return fail_errno(error, "ask " + name + " for its limits");
  }
  device->domain_ = ::ibv_alloc_pd(verbs);
  if (device->domain_ == nullptr) return fail_errno(errno, "a protection domain of " + name);
  const int access = reach == Reach::kOwn ? IBV_ACCESS_LOCAL_WRITE
                                          : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                                IBV_ACCESS_REMOTE_WRITE;
  device->region_ =
      ::ibv_reg_mr(device->domain_, device->memory_->base(), device->memory_->size(), access);
  if (device->region_ == nullptr) {
    return fail_errno(errno, "register " + std::to_string(device->memory_->size() >> 20) +
                                 " MiB with " + name + " (see ulimit -l)");
  }
  return device;
}

Device::~Device() {
  if (region_ != nullptr) ::ibv_dereg_mr(region_);
  if (domain_ != nullptr) ::ibv_dealloc_pd(domain_);
}

bool Devices::any() {
  std::error_code failed;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", failed);
  return !failed && devices != std::filesystem::directory_iterator();
}

Result<std::shared_ptr<Device>> Devices::of(ibv_context* verbs) {
  const MutexLock lock(mutex_);
  std::erase_if(devices_, [](const auto& one) { return one.second.expired(); });
  if (const auto known = devices_.find(verbs); known != devices_.end()) {
    if (auto device = known->second.lock()) return device;
  }
  auto device = Device::open(verbs, memory_);
  if (device) devices_.insert_or_assign(verbs, *device);
  return device;
}

}  // namespace weft::rpc::rdma
