#include "dataserver/main/folder_chain.h"

#include <spdlog/spdlog.h>

#include <cstdint>

namespace weft::ds {

Result<std::unique_ptr<StoreChain>> FolderChain::open(const DsConfig& config, BufferPool& pool,
                                                      std::unique_ptr<BlockCache> cache) {
  FileStoreOptions options = config.store;
  if (cache != nullptr) options.zero_copy_min_bytes = SIZE_MAX;  // a cache wants the bytes
  auto store = FileStore::open(std::move(options), pool);
  if (!store) return pass(store);
  std::unique_ptr<FolderChain> chain(new FolderChain(std::move(cache)));
  chain->file_ = std::move(*store);
  if (config.emulated_disk.on()) {
    spdlog::warn("event=emulated_disk note=\"answers are late on purpose, for a benchmark\"");
    chain->disk_ = std::make_unique<EmulatedDisk>(config.emulated_disk, system_clock());
    chain->emulated_ =
        std::make_unique<EmulatedStore>(*chain->file_, *chain->disk_, system_clock());
  }
  chain->begin_caching();
  return chain;
}

Store& FolderChain::beneath_cache() {
  if (emulated_ != nullptr) return *emulated_;
  return *file_;
}

}  // namespace weft::ds
