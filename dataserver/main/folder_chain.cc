#include "dataserver/main/folder_chain.h"

#include <spdlog/spdlog.h>

#include <cstdint>
#include <filesystem>
#include <future>

#include "dataserver/store/disk.h"
#include "dataserver/sums/folder_sums.h"

namespace weft::ds {

namespace {

constexpr const char* kSegments = "/segments";
constexpr std::size_t kSegmentFiles = 64;

// Removes the partition, durably, if there is one.
Result<> clear(const std::string& path, StoreDirectory& directory) {
  std::error_code failed;
  std::filesystem::remove_all(path, failed);
  if (failed) return fail_file(failed.value(), "remove " + path);
  return sync_directory(directory.root());
}

}  // namespace

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
  if (config.checksums) {
    chain->summed_ =
        std::make_unique<SummedStore>(chain->disk_store(), pool, SummedStore::Options{});
  }
  if (auto opened = chain->open_segments(config, pool); !opened) return pass(opened);
  chain->begin_caching();
  return chain;
}

Result<> FolderChain::open_segments(const DsConfig& config, BufferPool& pool) {
  const std::string path = config.store.path + kSegments;
  StoreDirectory& directory = file_->directory();
  // Those that the store does not say it has are of no use: a version that knows no segments may
  // have changed objects since.
  const bool known = config.segments.on() && directory.identity().segments;
  if (!known) {
    if (auto cleared = clear(path, directory); !cleared) return cleared;
  }
  if (!config.segments.on()) {
    // A full disk must not keep a data server from serving. What is said too much does no harm
    // here, and the next start tries again.
    if (auto marked = directory.mark_segments(false); !marked) {
      spdlog::warn("event=store_format error=\"{}\"", marked.error().describe());
    }
    return {};
  }
  if (auto marked = directory.mark_segments(true); !marked) return marked;
  FileStoreOptions options = config.store;
  options.path = path;
  options.create = true;
  options.max_open_files = kSegmentFiles;
  options.worker_threads = 1;
  options.zero_copy_min_bytes = SIZE_MAX;
  auto partition = FileStore::open(options, pool);
  // Also one with folders missing, as a removal of it leaves that was cut short.
  if (!partition && partition.error() == Errc::kCorrupt) {
    spdlog::warn("event=segments_dropped error=\"{}\"", partition.error().describe());
    if (auto cleared = clear(path, directory); !cleared) return cleared;
    partition = FileStore::open(std::move(options), pool);
  }
  if (!partition) return pass(partition);
  partition_ = std::move(*partition);
  Store* files = partition_.get();
  if (disk_ != nullptr) {
    emulated_partition_ = std::make_unique<EmulatedStore>(*partition_, *disk_, system_clock());
    files = emulated_partition_.get();
  }
  kernel_files_ = kernel_files();
  segments_ = std::make_unique<SegmentStore>(
      object_store(), *files, config.segments,
      [&kernel = *kernel_files_, device = kernel_files_->device_of(path)] {
        return disk_queue(kernel, device);
      });
  return {};
}

Result<> FolderChain::connect(std::shared_ptr<const rpc::peer::Keyring> /*keys*/,
                              std::vector<IoRing*> rings, DialRdma /*dial_rdma*/) {
  auto begun = begin_checksums(summed_.get(), disk_store(), directory(), *rings.front());
  if (!begun) return begun;
  if (segments_ == nullptr) return {};
  // Nothing is served before it is known which segments there are: a change must find its own.
  auto opened = std::make_shared<std::promise<Result<>>>();
  auto over = opened->get_future();
  rings.front()->post([this, opened] {
    segments_->open([opened](Result<> result) { opened->set_value(std::move(result)); });
  });
  if (auto result = over.get(); !result) {
    return fail(result.error().code,
                "the segments cannot be read, nor removed: " + result.error().describe());
  }
  segments_->start(*rings.front());
  return {};
}

void FolderChain::disconnect() {
  if (summed_ != nullptr) summed_->stop();
  if (segments_ != nullptr) segments_->stop();
}

bool FolderChain::workers_idle() const {
  return file_->workers_idle() && (partition_ == nullptr || partition_->workers_idle()) &&
         (segments_ == nullptr || segments_->idle()) && (summed_ == nullptr || summed_->idle());
}

Result<> FolderChain::close_links() {
  segments_.reset();
  summed_.reset();
  if (partition_ != nullptr) {
    if (auto closed = partition_->close(); !closed) {
      spdlog::warn("event=segments_close error=\"{}\"", closed.error().describe());
    }
  }
  return file_->close();
}

Store& FolderChain::disk_store() {
  if (emulated_ != nullptr) return *emulated_;
  return *file_;
}

Store& FolderChain::object_store() {
  if (summed_ != nullptr) return *summed_;
  return disk_store();
}

Store& FolderChain::beneath_cache() {
  if (segments_ != nullptr) return *segments_;
  return object_store();
}

}  // namespace weft::ds
