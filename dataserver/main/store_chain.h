// The store that a data server's configuration names: objects in its own folder (FileStore), at a
// target (RemoteStore) or at a parity group of targets (ParityStore), with identity and fences in
// its own folder always. Over any of them there may be a cache (CachedStore). A group's record and
// log are there too, and a folder `member-<n>` for each target, with the file `target` that says
// which store it is.
//
// A folder is of one kind for ever: with objects of its own a target's would hide them, and the
// other way round. What tells is the file `target`, which the first connection to one leaves, or
// `parity`, the group's record.
//
// Threading: from the program's main thread. Ownership: the pool outlives it; connect()'s rings
// live until close().
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataserver/main/config.h"
#include "dataserver/parity/parity_store.h"
#include "dataserver/store/cached_store.h"
#include "dataserver/store/emulated_disk.h"
#include "dataserver/store/file_store.h"
#include "dataserver/targets/remote_store.h"
#include "rpc/base/mutex.h"
#include "rpc/control/messages.h"

namespace weft::ds {

// Which store each member of a group is: no two may be one. Any thread.
class MemberIdentities {
 public:
  explicit MemberIdentities(std::size_t members) : stores_(members) {}
  // kStale if another member has it; otherwise this one does, if `now`.
  [[nodiscard]] Result<> claim(std::size_t member, const Uuid& store, bool now);

 private:
  Mutex mutex_;
  std::vector<Uuid> stores_ WEFT_GUARDED_BY(mutex_);
};

class StoreChain final : public Replacements {
 public:
  // Errors of FileStore::open() and StoreDirectory::open(); kInvalid for a folder of the other
  // kind.
  [[nodiscard]] static Result<std::unique_ptr<StoreChain>> open(const DsConfig& config,
                                                                BufferPool& pool);
  // Before store() is used, once there are rings.
  [[nodiscard]] Result<> connect(std::shared_ptr<const rpc::control::Keyring> keys,
                                 std::vector<IoRing*> rings);

  [[nodiscard]] Store& store();
  [[nodiscard]] StoreDirectory& directory();
  [[nodiscard]] bool workers_idle() const { return file_ == nullptr || file_->workers_idle(); }
  // "folder", how the target is reached ("shared memory", "tcp", "no target"), or "parity" and how
  // the group is: ", starting", ", degraded", ", rebuilding 37 %", ", scrubbing 37 %".
  [[nodiscard]] std::string kind() const;
  // How much room there is. An error, with words for people, while nothing can be read or written:
  // the folder's disk takes nothing, the target does not answer, the group waits for members.
  [[nodiscard]] Result<StoreStat> usage();
  // Whether operations are to wait for a single target that is not there; a group's members are
  // never waited for as long. Any thread.
  void wait_for_target(bool wait) {
    if (remote_ != nullptr) remote_->wait_for_target(wait);
  }
  // The only folder store there is, or null.
  [[nodiscard]] const FileStore* folder() const { return file_.get(); }
  [[nodiscard]] rpc::control::GroupScrub scrub_state() const;
  // kNotSupported: no parity group; kBusy: a scrub goes on. To end none is no error.
  [[nodiscard]] Result<> scrub(const rpc::control::Scrub& request);
  // ParityStore::give_up(); kNotSupported: no parity group.
  [[nodiscard]] Result<> give_up(const rpc::control::GiveUp& request);
  // Replacements, of a group's members.
  [[nodiscard]] bool offered(unsigned member) override { return members_[member]->offered(); }
  [[nodiscard]] Result<> accept(unsigned member) override;

  // Null without a target.
  [[nodiscard]] const TargetView* target() const {
    return remote_ == nullptr ? nullptr : &remote_->view();
  }
  // Null without a parity group.
  [[nodiscard]] const ParityView* parity() const {
    return parity_ == nullptr ? nullptr : &parity_->view();
  }
  // Null without a cache.
  [[nodiscard]] const CacheView* cache() const {
    return cache_ == nullptr ? nullptr : &cache_->view();
  }
  // Ends the connections to targets, and what a group does in the background; before the I/O
  // threads end.
  void disconnect();
  // Closes clean; nothing but directory() may be used after that. Precondition: no operation is in
  // flight, and the I/O threads have ended, but their contexts are still there: links to targets
  // have timers in them.
  [[nodiscard]] Result<> close();

 private:
  StoreChain(const DsConfig& config, BufferPool& pool) : config_(config), pool_(pool) {}

  const DsConfig& config_;
  BufferPool& pool_;
  std::unique_ptr<FileStore> file_;
  std::unique_ptr<EmulatedDisk> disk_;       // for benchmarks
  std::unique_ptr<EmulatedStore> emulated_;  // over file_
  std::unique_ptr<StoreDirectory> folder_;   // without file_
  std::unique_ptr<RemoteStore> remote_;      // likewise
  [[nodiscard]] Result<std::unique_ptr<RemoteStore>> open_remote(const TargetAddress& address,
                                                                 const LinkOptions& options,
                                                                 int folder,
                                                                 std::optional<std::size_t> member);
  [[nodiscard]] Result<> connect_group();
  [[nodiscard]] Store& beneath_cache();
  void begin_caching();
  [[nodiscard]] std::string given_up() const;

  std::shared_ptr<const rpc::control::Keyring> keys_;
  std::vector<IoRing*> rings_;
  std::vector<OwnedFd> member_folders_;           // of a parity group
  std::unique_ptr<MemberIdentities> identities_;  // members' links use it
  std::vector<std::unique_ptr<RemoteStore>> members_;
  std::unique_ptr<GroupFolder> group_folder_;
  std::unique_ptr<ParityStore> parity_;
  std::unique_ptr<BlockCache> cache_;
  std::unique_ptr<CachedStore> cached_;  // over one of those
};

// The arena for buffers that are lent to a target; null when there is none to lend them to.
[[nodiscard]] Result<std::shared_ptr<Arena>> arena_for(const DsConfig& config);

}  // namespace weft::ds
