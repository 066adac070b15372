// The store that a data server's configuration names: objects in its own folder (FolderChain), at a
// target (TargetChain), or at a parity group of targets (GroupChain); with identity and fences in
// its own folder always. Over any of them there may be a cache (CachedStore), and between a folder
// and its cache checksums (SummedStore) and segments (SegmentStore).
//
// A folder is of one kind for ever: with objects of its own a target's would hide them, and the
// other way round. What tells is the file `target`, which the first connection to one leaves, or
// `parity`, the group's record.
//
// Threading: open(), connect(), disconnect() and close() from the program's main thread; between
// connect() and disconnect() all else from any. Ownership: each chain owns its links; the pool
// outlives it; connect()'s rings live until close().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dataserver/main/config.h"
#include "dataserver/parity/parity_view.h"
#include "dataserver/segments/segment_store.h"
#include "dataserver/store/cached_store.h"
#include "dataserver/store/emulated_disk.h"
#include "dataserver/store/file_store.h"
#include "dataserver/store/store_directory.h"
#include "dataserver/targets/target_link.h"
#include "rpc/control/group_state.h"
#include "rpc/control/heartbeat.h"
#include "rpc/control/messages.h"
#include "rpc/control/target_keys.h"
#include "rpc/control/target_options.h"
#include "rpc/control/transports.h"
#include "rpc/peer/keyring.h"

namespace weft::ds {

struct SumView;

class StoreChain {
 public:
  // Errors of FileStore::open() and StoreDirectory::open(); kInvalid for a folder of another kind.
  [[nodiscard]] static Result<std::unique_ptr<StoreChain>> open(const DsConfig& config,
                                                                BufferPool& pool);
  virtual ~StoreChain() = default;
  StoreChain(const StoreChain&) = delete;
  StoreChain& operator=(const StoreChain&) = delete;

  // Before store() is used, once there are rings. `dial_rdma` is for targets that RDMA is named
  // for; without it they are gone to by TCP.
  [[nodiscard]] virtual Result<> connect(std::shared_ptr<const rpc::peer::Keyring> keys,
                                         std::vector<IoRing*> rings, DialRdma dial_rdma) = 0;
  // The uppermost link.
  [[nodiscard]] Store& store() { return cached_ == nullptr ? beneath_cache() : *cached_; }
  [[nodiscard]] virtual StoreDirectory& directory() = 0;
  [[nodiscard]] virtual bool workers_idle() const { return true; }
  // Whether large writes had best come with their bytes still in the kernel (StoreWrite::piped).
  [[nodiscard]] virtual bool takes_pipes() const { return false; }
  // "folder", how the target is reached ("shared memory", "tcp", "rdma", "no target"), or "parity"
  // and how the group is: ", starting", ", degraded", ", rebuilding 37 %", ", scrubbing 37 %". For
  // people: programs go by group_state().
  [[nodiscard]] virtual std::string kind() const = 0;
  // How much room there is. An error, with words for people, while nothing can be read or written:
  // the folder's disk takes nothing, the target does not answer, the group waits for members.
  [[nodiscard]] virtual Result<StoreStat> usage() { return store().usage(); }
  // Whether operations are to wait for a single target that is not there; a group's members are
  // never waited for as long.
  virtual void wait_for_target(bool /*wait*/) {}
  // Whether its single target was found to have been rolled back; and whether it is refused for
  // that, as it is from serve() on. `as_it_is`: it is taken all the same. A parity group changes
  // no object at its targets before serve(): this data server may be an old copy.
  [[nodiscard]] virtual bool rolled_back() const { return false; }
  [[nodiscard]] virtual bool refused() const { return false; }
  virtual void serve(bool /*as_it_is*/) {}
  // The folder store, if that is the only one.
  [[nodiscard]] virtual const FileStore* folder() const { return nullptr; }

  // Of a parity group; kNotSupported without one. kBusy: a scrub goes on. To end none is no error.
  [[nodiscard]] virtual rpc::control::GroupScrub scrub_state() const { return {}; }
  [[nodiscard]] virtual rpc::control::TellGroup group_state() const { return {}; }
  [[nodiscard]] virtual Result<> scrub(const rpc::control::Scrub& request);
  [[nodiscard]] virtual Result<> give_up(const rpc::control::GiveUp& request);

  // Which cluster keys each of its targets has; none without targets.
  [[nodiscard]] virtual std::vector<rpc::control::TargetKeys> target_keys() const { return {}; }

  // Version and options of one of its targets; none without.
  [[nodiscard]] virtual rpc::control::AboutTarget about_target(std::uint32_t /*at*/) const {
    return {};
  }

  // How each of its targets is reached now; none without targets.
  [[nodiscard]] virtual std::vector<rpc::control::TargetTransports> target_transports() const {
    return {};
  }

  // Rates and intervals; for what is under way they stay as they were.
  virtual void reload(const DsConfig& /*next*/) {}

  // Null without a target, a group, segments, an emulated disk, checksums, a cache.
  [[nodiscard]] virtual const TargetView* target() const { return nullptr; }
  [[nodiscard]] virtual SegmentStore* segments() const { return nullptr; }
  [[nodiscard]] virtual const EmulatedDisk* emulated() const { return nullptr; }
  [[nodiscard]] virtual const SumView* checksums() const { return nullptr; }
  [[nodiscard]] virtual const ParityView* parity() const { return nullptr; }
  [[nodiscard]] const CacheView* cache() const {
    return cache_ == nullptr ? nullptr : &cache_->view();
  }

  // Ends the connections to targets, and what a group or segments do in the background; before the
  // I/O threads end.
  virtual void disconnect() {}
  // Closes clean; nothing but directory() may be used after that. Precondition: no operation is in
  // flight, and the I/O threads have ended, but their contexts are still there: links to targets
  // have timers in them.
  [[nodiscard]] Result<> close();

 protected:
  explicit StoreChain(std::unique_ptr<BlockCache> cache) : cache_(std::move(cache)) {}

  [[nodiscard]] virtual Store& beneath_cache() = 0;
  [[nodiscard]] virtual Result<> close_links() = 0;
  // When beneath_cache() is there.
  void begin_caching() {
    if (cache_ != nullptr) cached_ = std::make_unique<CachedStore>(beneath_cache(), *cache_);
  }

 private:
  const std::unique_ptr<BlockCache> cache_;  // null: none
  std::unique_ptr<CachedStore> cached_;      // over beneath_cache()
};

// The arena for buffers that are lent to a target; null when there is none to lend them to.
[[nodiscard]] Result<std::shared_ptr<Arena>> arena_for(const DsConfig& config);

}  // namespace weft::ds
