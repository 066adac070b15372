#include "ganesha-fsal/repair/copy_servers.h"

#include "ganesha-fsal/cluster/await.h"

namespace weft::mds {

Result<> ClusterCopyServers::fence(std::span<const std::uint32_t> ds_ids,
                                   const control::Fence& fence) {
  return await<void>([&](Done<void> done) { cluster_.fence(ds_ids, {fence}, std::move(done)); });
}

Result<> ClusterCopyServers::forget_missed(std::uint32_t ds_id,
                                           const control::ForgetMissed& forget) {
  return await<void>(
      [&](Done<void> done) { cluster_.forget_missed(ds_id, forget, std::move(done)); });
}

Result<> ClusterCopyServers::resync(std::uint32_t ds_id, const control::Resync& job) {
  return await<void>([&](Done<void> done) { cluster_.resync(ds_id, job, std::move(done)); });
}

Result<control::ResyncProgress> ClusterCopyServers::status(std::uint32_t ds_id, std::uint64_t job) {
  return await<control::ResyncProgress>([&](Done<control::ResyncProgress> done) {
    cluster_.resync_status(ds_id, job, std::move(done));
  });
}

Result<> ClusterCopyServers::cancel(std::uint32_t ds_id, std::uint64_t job) {
  return await<void>([&](Done<void> done) { cluster_.resync_cancel(ds_id, job, std::move(done)); });
}

}  // namespace weft::mds
