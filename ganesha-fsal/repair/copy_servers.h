// What repair asks of data servers. Each call waits for its answer, which comes by a deadline.
//
// Threading: any thread that may block.
#pragma once

#include <span>

#include "ganesha-fsal/cluster/cluster.h"

namespace weft::mds {

class CopyServers {
 public:
  CopyServers() = default;
  CopyServers(const CopyServers&) = delete;
  CopyServers& operator=(const CopyServers&) = delete;
  virtual ~CopyServers() = default;

  // As Cluster's.
  [[nodiscard]] virtual Result<> fence(std::span<const std::uint32_t> ds_ids,
                                       const control::Fence& fence) = 0;
  [[nodiscard]] virtual Result<> forget_missed(std::uint32_t ds_id,
                                               const control::ForgetMissed& forget) = 0;
  [[nodiscard]] virtual Result<> resync(std::uint32_t ds_id, const control::Resync& job) = 0;
  [[nodiscard]] virtual Result<control::ResyncProgress> status(std::uint32_t ds_id,
                                                               std::uint64_t job) = 0;
  [[nodiscard]] virtual Result<> cancel(std::uint32_t ds_id, std::uint64_t job) = 0;
};

class ClusterCopyServers final : public CopyServers {
 public:
  explicit ClusterCopyServers(Cluster& cluster) : cluster_(cluster) {}

  Result<> fence(std::span<const std::uint32_t> ds_ids, const control::Fence& fence) override;
  Result<> forget_missed(std::uint32_t ds_id, const control::ForgetMissed& forget) override;
  Result<> resync(std::uint32_t ds_id, const control::Resync& job) override;
  Result<control::ResyncProgress> status(std::uint32_t ds_id, std::uint64_t job) override;
  Result<> cancel(std::uint32_t ds_id, std::uint64_t job) override;

 private:
  Cluster& cluster_;
};

}  // namespace weft::mds
