#include "dataserver/main/target_chain.h"

#include "dataserver/main/target_told.h"

namespace weft::ds {

Result<> TargetChain::connect(std::shared_ptr<const rpc::peer::Keyring> keys,
                              std::vector<IoRing*> rings, DialRdma dial_rdma) {
  LinkOptions options;
  options.patience = config_.target_patience;
  const bool past = config_.target_descriptors && !cache();  // a cache needs the bytes
  auto remote = RemoteStore::open({.address = *config_.target,
                                   .space = folder_->identity().uuid,
                                   .keys = std::move(keys),
                                   .options = options,
                                   .pool = pool_,
                                   .random = system_random(),
                                   .rings = std::move(rings),
                                   .folder = folder_->root(),
                                   .dial_rdma = std::move(dial_rdma),
                                   .bypass = past ? config_.store.max_open_files : 0});
  if (!remote) return pass(remote);
  remote_ = std::move(*remote);
  begin_caching();
  return {};
}

std::string TargetChain::kind() const {
  if (remote_ == nullptr || remote_->view().connected.load() == 0) return "no target";
  return transport_text(remote_->view());
}

std::vector<rpc::control::TargetKeys> TargetChain::target_keys() const {
  if (remote_ == nullptr) return {};
  return {keys_of(*remote_)};
}

rpc::control::AboutTarget TargetChain::about_target(std::uint32_t at) const {
  if (remote_ == nullptr) return {};
  rpc::control::AboutTarget told = at == 0 ? about(*remote_) : rpc::control::AboutTarget{};
  told.targets = 1;
  return told;
}

std::vector<rpc::control::TargetTransports> TargetChain::target_transports() const {
  if (remote_ == nullptr) return {};
  return {transport_of(*remote_)};
}

void TargetChain::disconnect() {
  if (remote_ != nullptr) remote_->close();
}

Result<> TargetChain::close_links() {
  remote_.reset();
  return {};
}

}  // namespace weft::ds
