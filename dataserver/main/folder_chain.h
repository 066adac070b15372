// A data server's objects in its own folder; for benchmarks, on a slower disk that is emulated.
// With segments (dataserver/segments) their partition is a store of its own in the folder's
// subfolder `segments`, on the same disk. Without, what is left of one is removed before anything
// is served: changes that it does not hear of would make it answer with old bytes later. For the
// same reason the store is of format 2 (store_directory.h) before there is a partition, until it is
// gone, and a partition in a store of format 1 is removed.
//
// Threading and ownership: store_chain.h.
#pragma once

#include <memory>

#include "dataserver/load/sampler.h"
#include "dataserver/main/store_chain.h"
#include "dataserver/store/emulated_disk.h"
#include "dataserver/sums/summed_store.h"

namespace weft::ds {

class FolderChain final : public StoreChain {
 public:
  [[nodiscard]] static Result<std::unique_ptr<StoreChain>> open(const DsConfig& config,
                                                                BufferPool& pool,
                                                                std::unique_ptr<BlockCache> cache);

  [[nodiscard]] Result<> connect(std::shared_ptr<const rpc::peer::Keyring> keys,
                                 std::vector<IoRing*> rings, DialRdma dial_rdma) override;
  [[nodiscard]] StoreDirectory& directory() override { return file_->directory(); }
  [[nodiscard]] bool workers_idle() const override;
  [[nodiscard]] std::string kind() const override { return "folder"; }
  [[nodiscard]] const FileStore* folder() const override { return file_.get(); }
  [[nodiscard]] bool takes_pipes() const override { return file_->takes_pipes(); }
  [[nodiscard]] SegmentStore* segments() const override { return segments_.get(); }
  [[nodiscard]] const EmulatedDisk* emulated() const override { return disk_.get(); }
  [[nodiscard]] const SumView* checksums() const override {
    return summed_ == nullptr ? nullptr : &summed_->view();
  }
  void disconnect() override;

 private:
  using StoreChain::StoreChain;
  [[nodiscard]] Result<> open_segments(const DsConfig& config, BufferPool& pool);
  // The folder's objects, on the disk that is emulated if there is one.
  [[nodiscard]] Store& disk_store();
  // And checked, if they are.
  [[nodiscard]] Store& object_store();
  [[nodiscard]] Store& beneath_cache() override;
  [[nodiscard]] Result<> close_links() override;

  std::unique_ptr<FileStore> file_;
  std::unique_ptr<EmulatedDisk> disk_;       // null: the disk as it is
  std::unique_ptr<EmulatedStore> emulated_;  // over file_, with disk_
  std::unique_ptr<SummedStore> summed_;      // over disk_store(); null without checksums
  // Null without segments; the emulated partition without an emulated disk, too.
  std::unique_ptr<FileStore> partition_;
  std::unique_ptr<EmulatedStore> emulated_partition_;  // over partition_, with disk_
  std::unique_ptr<KernelFiles> kernel_files_;
  std::unique_ptr<SegmentStore> segments_;
};

}  // namespace weft::ds
