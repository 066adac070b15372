// A data server's objects in its own folder; for benchmarks, on a slower disk that is emulated.
//
// Threading and ownership: store_chain.h.
#pragma once

#include <memory>

#include "dataserver/main/store_chain.h"
#include "dataserver/store/emulated_disk.h"

namespace weft::ds {

class FolderChain final : public StoreChain {
 public:
  [[nodiscard]] static Result<std::unique_ptr<StoreChain>> open(const DsConfig& config,
                                                                BufferPool& pool,
                                                                std::unique_ptr<BlockCache> cache);

  [[nodiscard]] Result<> connect(std::shared_ptr<const rpc::peer::Keyring> /*keys*/,
                                 std::vector<IoRing*> /*rings*/) override {
    return {};
  }
  [[nodiscard]] StoreDirectory& directory() override { return file_->directory(); }
  [[nodiscard]] bool workers_idle() const override { return file_->workers_idle(); }
  [[nodiscard]] std::string kind() const override { return "folder"; }
  [[nodiscard]] const FileStore* folder() const override { return file_.get(); }

 private:
  using StoreChain::StoreChain;
  [[nodiscard]] Store& beneath_cache() override;
  [[nodiscard]] Result<> close_links() override { return file_->close(); }

  std::unique_ptr<FileStore> file_;
  std::unique_ptr<EmulatedDisk> disk_;       // null: the disk as it is
  std::unique_ptr<EmulatedStore> emulated_;  // over file_, with disk_
};

}  // namespace weft::ds
