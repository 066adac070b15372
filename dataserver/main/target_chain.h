// A data server's objects at a target, a store in another process (dataserver/targets).
//
// Threading and ownership: store_chain.h.
#pragma once

#include <functional>
#include <memory>

#include "dataserver/main/store_chain.h"
#include "dataserver/targets/remote_store.h"

namespace weft::ds {

class TargetChain final : public StoreChain {
 public:
  // `folder` is the data server's own.
  TargetChain(const DsConfig& config, BufferPool& pool, std::unique_ptr<BlockCache> cache,
              std::unique_ptr<StoreDirectory> folder)
      : StoreChain(std::move(cache)), config_(config), pool_(pool), folder_(std::move(folder)) {}

  [[nodiscard]] Result<> connect(std::shared_ptr<const rpc::peer::Keyring> keys,
                                 std::vector<IoRing*> rings, DialRdma dial_rdma) override;
  [[nodiscard]] StoreDirectory& directory() override { return *folder_; }
  [[nodiscard]] std::string kind() const override;
  [[nodiscard]] bool takes_pipes() const override { return remote_->takes_pipes(); }
  void wait_for_target(bool wait) override { remote_->wait_for_target(wait); }
  [[nodiscard]] bool rolled_back() const override { return remote_->rolled_back(); }
  [[nodiscard]] bool refused() const override { return remote_->refused(); }
  void serve(bool as_it_is) override { remote_->serve(as_it_is); }
  [[nodiscard]] const TargetView* target() const override {
    return remote_ == nullptr ? nullptr : &remote_->view();
  }
  [[nodiscard]] std::vector<rpc::control::TargetKeys> target_keys() const override;
  [[nodiscard]] rpc::control::AboutTarget about_target(std::uint32_t at) const override;
  [[nodiscard]] std::vector<rpc::control::TargetTransports> target_transports() const override;
  void disconnect() override;

 private:
  [[nodiscard]] Store& beneath_cache() override { return *remote_; }
  [[nodiscard]] Result<> close_links() override;

  const DsConfig& config_;
  BufferPool& pool_;
  const std::unique_ptr<StoreDirectory> folder_;
  std::unique_ptr<RemoteStore> remote_;  // from connect() on
};

}  // namespace weft::ds
