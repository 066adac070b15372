#include "dataserver/main/store_chain.h"

#include <sys/stat.h>

#include "rpc/base/shared_memory.h"

namespace weft::ds {

Result<std::shared_ptr<Arena>> arena_for(const DsConfig& config) {
  if (!config.target) return std::shared_ptr<Arena>{};
  // Room for all that may be in use, and as much for what is idle or does not fit together.
  auto memory = SharedMemory::create(2 * config.memory_limit_bytes, "weft-arena");
  if (!memory) return pass(memory);
  return std::make_shared<Arena>(std::move(*memory));
}

Result<std::unique_ptr<StoreChain>> StoreChain::open(const DsConfig& config, BufferPool& pool) {
  std::unique_ptr<StoreChain> chain(new StoreChain(config, pool));
  const std::string mark = config.store.path + "/target";
  struct stat found{};
  const bool of_target = ::stat(mark.c_str(), &found) == 0;
  if (!config.target) {
    if (of_target) {
      return fail(Errc::kInvalid,
                  config.store.path + " belongs to a target, but store.target is not set");
    }
    auto store = FileStore::open(config.store, pool);
    if (!store) return pass(store);
    chain->file_ = std::move(*store);
    return chain;
  }
  auto folder = StoreDirectory::open(config.store.path, config.store.create, system_random());
  if (!folder) return pass(folder);
  chain->folder_ = std::move(*folder);
  if (!of_target && chain->folder_->identity().ds_id != 0) {
    return fail(Errc::kInvalid,
                config.store.path + " has objects of its own: store.target needs a new folder");
  }
  return chain;
}

Result<> StoreChain::connect(const rpc::control::ClusterKey& key, std::vector<IoRing*> rings) {
  if (file_ != nullptr) return {};
  LinkOptions options;
  options.patience = config_.target_patience;
  auto remote = RemoteStore::open({.address = *config_.target,
                                   .space = folder_->identity().uuid,
                                   .key = key,
                                   .options = options,
                                   .pool = pool_,
                                   .random = system_random(),
                                   .rings = std::move(rings),
                                   .folder = folder_->root()});
  if (!remote) return pass(remote);
  remote_ = std::move(*remote);
  return {};
}

Store& StoreChain::store() {
  if (file_ != nullptr) return *file_;
  return *remote_;
}

StoreDirectory& StoreChain::directory() { return file_ != nullptr ? file_->directory() : *folder_; }

std::string_view StoreChain::kind() const {
  if (remote_ == nullptr) return "folder";
  const TargetTransport transport = remote_->view().transport;
  return transport == TargetTransport::kNone ? "no target" : to_string(transport);
}

void StoreChain::disconnect() {
  if (remote_ != nullptr) remote_->close();
}

Result<> StoreChain::close() { return file_ != nullptr ? file_->close() : Result<>{}; }

}  // namespace weft::ds
