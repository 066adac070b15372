#include "dataserver/main/target_chain.h"

#include "dataserver/main/target_told.h"

namespace weft::ds {

Result<> TargetChain::connect(std::shared_ptr<const rpc::peer::Keyring> keys,
                              std::vector<IoRing*> rings) {
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
                                   .bypass = past ? config_.store.max_open_files : 0});
  if (!remote) return pass(remote);
  remote_ = std::move(*remote);
  begin_caching();
  return {};
}

std::string TargetChain::kind() const {
  const TargetTransport transport =
      remote_ == nullptr ? TargetTransport::kNone : remote_->view().transport.load();
  return std::string(transport == TargetTransport::kNone ? "no target" : to_string(transport));
}

std::vector<rpc::control::TargetKeys> TargetChain::target_keys() const {
  if (remote_ == nullptr) return {};
  return {keys_of(*remote_)};
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
