#include "dataserver/main/store_chain.h"

#include <sys/stat.h>

#include "dataserver/main/folder_chain.h"
#include "dataserver/main/group_chain.h"
#include "dataserver/main/target_chain.h"
#include "rpc/base/shared_memory.h"

namespace weft::ds {

Result<std::shared_ptr<Arena>> arena_for(const DsConfig& config) {
  const bool shared = config.target || !config.parity.empty();
  if (!shared && config.listen_rdma.empty()) return std::shared_ptr<Arena>{};
  return Arena::create(config.memory_limit_bytes, !config.listen_rdma.empty());
}

Result<std::unique_ptr<StoreChain>> StoreChain::open(const DsConfig& config, BufferPool& pool) {
  const auto has = [&config](const char* name) {
    struct stat found{};
    return ::stat((config.store.path + name).c_str(), &found) == 0;
  };
  const bool of_target = has("/target");
  const bool of_group = has("/parity");
  if (of_target && !config.target) {
    return fail(Errc::kInvalid,
                config.store.path + " belongs to a target, but store.target is not set");
  }
  if (of_group && config.parity.empty()) {
    return fail(Errc::kInvalid,
                config.store.path + " belongs to a parity group, but store.parity is not set");
  }
  std::unique_ptr<BlockCache> cache;
  if (config.cache_bytes > 0) {
    auto made = BlockCache::create(config.cache_bytes);
    if (!made) return pass(made);
    cache = std::move(*made);
  }
  if (!config.target && config.parity.empty()) {
    return FolderChain::open(config, pool, std::move(cache));
  }
  auto folder = StoreDirectory::open(config.store.path, config.store.create, system_random());
  if (!folder) return pass(folder);
  if (!of_target && !of_group && (*folder)->identity().ds_id != 0) {
    return fail(Errc::kInvalid, config.store.path +
                                    " has objects of its own: store.target and store.parity need "
                                    "a new folder");
  }
  if (config.parity.empty()) {
    return std::make_unique<TargetChain>(config, pool, std::move(cache), std::move(*folder));
  }
  return std::make_unique<GroupChain>(config, pool, std::move(cache), std::move(*folder));
}

Result<> StoreChain::scrub(const rpc::control::Scrub& /*request*/) {
  return fail(Errc::kNotSupported, "no parity group");
}

Result<> StoreChain::give_up(const rpc::control::GiveUp& /*request*/) {
  return fail(Errc::kNotSupported, "no parity group");
}

Result<> StoreChain::close() {
  cached_.reset();
  return close_links();
}

}  // namespace weft::ds
