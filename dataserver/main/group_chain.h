// A data server's objects at a parity group of targets (dataserver/parity). The group's record and
// log are in the data server's folder, and a folder `member-<n>` for each target, with the file
// `target` that says which store it is.
//
// Threading and ownership: store_chain.h. What Replacements asks comes from rings[0].
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "dataserver/main/store_chain.h"
#include "dataserver/parity/parity_store.h"
#include "dataserver/targets/remote_store.h"
#include "rpc/base/mutex.h"

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

class GroupChain final : public StoreChain, private Replacements {
 public:
  // `folder` is the data server's own.
  GroupChain(const DsConfig& config, BufferPool& pool, std::unique_ptr<BlockCache> cache,
             std::unique_ptr<StoreDirectory> folder)
      : StoreChain(std::move(cache)),
        config_(config),
        pool_(pool),
        folder_(std::move(folder)),
        identities_(config.parity.size()) {}

  [[nodiscard]] Result<> connect(std::shared_ptr<const rpc::peer::Keyring> keys,
                                 std::vector<IoRing*> rings, DialRdma dial_rdma) override;
  [[nodiscard]] StoreDirectory& directory() override { return *folder_; }
  [[nodiscard]] std::string kind() const override;
  [[nodiscard]] Result<StoreStat> usage() override;
  // This is no old copy of the data server: the group may be recovered.
  void serve(bool as_it_is) override;
  [[nodiscard]] rpc::control::GroupScrub scrub_state() const override;
  [[nodiscard]] rpc::control::TellGroup group_state() const override;
  [[nodiscard]] Result<> scrub(const rpc::control::Scrub& request) override;
  [[nodiscard]] Result<> give_up(const rpc::control::GiveUp& request) override;
  [[nodiscard]] const ParityView* parity() const override {
    return parity_ == nullptr ? nullptr : &parity_->view();
  }
  [[nodiscard]] std::vector<rpc::control::TargetKeys> target_keys() const override;
  [[nodiscard]] rpc::control::AboutTarget about_target(std::uint32_t at) const override;
  [[nodiscard]] std::vector<rpc::control::TargetTransports> target_transports() const override;
  void disconnect() override;
  void reload(const DsConfig& next) override;

 private:
  [[nodiscard]] Result<std::unique_ptr<RemoteStore>> open_member(
      std::size_t member, std::shared_ptr<const rpc::peer::Keyring> keys,
      std::vector<IoRing*> rings, DialRdma dial_rdma);
  // Replacements
  [[nodiscard]] bool offered(unsigned member) override { return members_[member]->offered(); }
  [[nodiscard]] Result<> accept(unsigned member) override;

  [[nodiscard]] Store& beneath_cache() override { return *parity_; }
  [[nodiscard]] Result<> close_links() override;

  const DsConfig& config_;
  BufferPool& pool_;
  const std::unique_ptr<StoreDirectory> folder_;
  std::vector<OwnedFd> member_folders_;
  MemberIdentities identities_;  // members' links use it
  std::vector<std::unique_ptr<RemoteStore>> members_;
  std::unique_ptr<GroupFolder> group_folder_;
  std::unique_ptr<ParityStore> parity_;  // over members_; from connect() to disconnect()
  std::atomic<bool> serving_{false};
};

}  // namespace weft::ds
