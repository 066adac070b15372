#include "dataserver/main/store_chain.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "dataserver/store/disk.h"
#include "rpc/base/clock.h"
#include "rpc/base/shared_memory.h"

namespace weft::ds {

namespace {

constexpr std::chrono::seconds kGroupQuiet{5};

}  // namespace

Result<std::shared_ptr<Arena>> arena_for(const DsConfig& config) {
  if (!config.target && config.parity.empty()) return std::shared_ptr<Arena>{};
  // Room for all that may be in use, and as much for what is idle or does not fit together.
  auto memory = SharedMemory::create(2 * config.memory_limit_bytes, "weft-arena");
  if (!memory) return pass(memory);
  return std::make_shared<Arena>(std::move(*memory));
}

Result<std::unique_ptr<StoreChain>> StoreChain::open(const DsConfig& config, BufferPool& pool) {
  std::unique_ptr<StoreChain> chain(new StoreChain(config, pool));
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
  if (config.cache_bytes > 0) {
    auto cache = BlockCache::create(config.cache_bytes);
    if (!cache) return pass(cache);
    chain->cache_ = std::move(*cache);
  }
  if (!config.target && config.parity.empty()) {
    FileStoreOptions options = config.store;
    if (config.cache_bytes > 0) options.zero_copy_min_bytes = SIZE_MAX;  // a cache wants the bytes
    auto store = FileStore::open(std::move(options), pool);
    if (!store) return pass(store);
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
  auto folder = StoreDirectory::open(config.store.path, config.store.create, system_random());
  if (!folder) return pass(folder);
  chain->folder_ = std::move(*folder);
  if (!of_target && !of_group && chain->folder_->identity().ds_id != 0) {
    return fail(Errc::kInvalid, config.store.path +
                                    " has objects of its own: store.target and store.parity need "
                                    "a new folder");
  }
  return chain;
}

Result<std::unique_ptr<RemoteStore>> StoreChain::open_remote(const TargetAddress& address,
                                                             const LinkOptions& options, int folder,
                                                             std::optional<std::size_t> member) {
  std::function<Result<>(const Uuid&)> may_be;
  if (member) {
    may_be = [ids = identities_.get(), member = *member](const Uuid& store) {
      return ids->claim(member, store, false);
    };
  }
  auto opened = RemoteStore::open({.address = address,
                                   .space = folder_->identity().uuid,
                                   .keys = keys_,
                                   .options = options,
                                   .pool = pool_,
                                   .random = system_random(),
                                   .rings = rings_,
                                   .folder = folder,
                                   .may_be = std::move(may_be),
                                   .replaceable = member.has_value(),
                                   // Sums and caches need the bytes.
                                   .bypass = member || cache_ ? 0 : config_.store.max_open_files});
  if (opened && member && (*opened)->identity() != Uuid{}) {
    if (auto own = identities_->claim(*member, (*opened)->identity(), true); !own) return pass(own);
  }
  return opened;
}

Result<> MemberIdentities::claim(std::size_t member, const Uuid& store, bool now) {
  const MutexLock lock(mutex_);
  for (std::size_t other = 0; other < stores_.size(); ++other) {
    if (other == member || stores_[other] != store) continue;
    return fail(Errc::kStale, "the store at the address of target " + std::to_string(member) +
                                  " of the parity group is that of target " +
                                  std::to_string(other));
  }
  if (now || stores_[member] == Uuid{}) stores_[member] = store;
  return {};
}

Result<> StoreChain::accept(unsigned member) {
  auto accepted = members_[member]->accept();
  if (!accepted) return accepted;
  return identities_->claim(member, members_[member]->identity(), true);
}

Result<> StoreChain::connect(std::shared_ptr<const rpc::control::Keyring> keys,
                             std::vector<IoRing*> rings) {
  if (file_ != nullptr) return {};
  keys_ = std::move(keys);
  rings_ = std::move(rings);
  if (!config_.parity.empty()) return connect_group();
  LinkOptions options;
  options.patience = config_.target_patience;
  auto remote = open_remote(*config_.target, options, folder_->root(), {});
  if (!remote) return pass(remote);
  remote_ = std::move(*remote);
  begin_caching();
  return {};
}

Result<> StoreChain::connect_group() {
  LinkOptions options;
  options.patience = config_.parity_patience;
  options.silence = std::min(options.silence, config_.parity_patience);
  options.commit_patience = 3 * config_.parity_patience;
  identities_ = std::make_unique<MemberIdentities>(config_.parity.size());
  std::vector<Store*> members;
  for (std::size_t i = 0; i < config_.parity.size(); ++i) {
    const std::string name = "member-" + std::to_string(i);
    if (auto made = ensure_directory(folder_->root(), name.c_str()); !made) return made;
    auto folder = open_directory(config_.store.path + "/" + name);
    if (!folder) return pass(folder);
    member_folders_.push_back(std::move(*folder));
    auto remote = open_remote(config_.parity[i], options, member_folders_.back().get(), i);
    if (!remote) return pass(remote);
    members_.push_back(std::move(*remote));
    members.push_back(members_.back().get());
  }
  group_folder_ = std::make_unique<GroupFolder>(folder_->root());
  ParityOptions group;
  group.geometry = {.members = static_cast<unsigned>(members.size()),
                    .chunk = config_.parity_chunk};
  group.rebuild_rate = config_.parity_rebuild_rate;
  group.scrub_every = config_.parity_scrub_every;
  group.scrub_rate = config_.parity_scrub_rate;
  parity_ = std::make_unique<ParityStore>(ParityStore::Parts{.members = std::move(members),
                                                             .disk = *group_folder_,
                                                             .pool = pool_,
                                                             .clock = system_clock(),
                                                             .random = system_random(),
                                                             .rings = rings_,
                                                             .options = group,
                                                             .replacements = this});
  begin_caching();
  parity_->start();
  return {};
}

void StoreChain::begin_caching() {
  if (cache_ != nullptr) cached_ = std::make_unique<CachedStore>(beneath_cache(), *cache_);
}

Store& StoreChain::store() {
  if (cached_ != nullptr) return *cached_;
  return beneath_cache();
}

Store& StoreChain::beneath_cache() {
  if (emulated_ != nullptr) return *emulated_;
  if (file_ != nullptr) return *file_;
  if (parity_ != nullptr) return *parity_;
  return *remote_;
}

StoreDirectory& StoreChain::directory() { return file_ != nullptr ? file_->directory() : *folder_; }

std::string StoreChain::given_up() const {
  const std::uint64_t blocks = parity_->view().given_up.load();
  return blocks == 0 ? "" : fmt::format(", {} blocks given up", blocks);
}

std::string StoreChain::kind() const {
  if (parity_ != nullptr) {
    const ScrubView& scrub = parity_->view().scrub;
    switch (parity_->view().state.load()) {
      case GroupState::kStarting: {
        const std::uint32_t awaited = parity_->view().awaited;
        if (awaited == 0) return "parity, starting";
        return fmt::format("parity, waits for target {}{}", std::countr_zero(awaited),
                           parity_->view().may_give_up.load() < 0
                               ? ""
                               : ": start it; if it is lost for ever, weft ds give-up");
      }
      case GroupState::kWhole:
        if (!scrub.running.load()) return "parity" + given_up();
        return fmt::format("parity, scrubbing {} %{}", scrub.permille.load() / 10, given_up());
      case GroupState::kDegraded: return "parity, degraded" + given_up();
      case GroupState::kRebuilding:
        return fmt::format("parity, rebuilding {} %{}",
                           parity_->view().rebuild_permille.load() / 10, given_up());
    }
  }
  if (remote_ == nullptr) return "folder";
  const TargetTransport transport = remote_->view().transport;
  return std::string(transport == TargetTransport::kNone ? "no target" : to_string(transport));
}

Result<StoreStat> StoreChain::usage() {
  if (parity_ != nullptr && parity_->view().state.load() == GroupState::kStarting) {
    return fail(Errc::kUnreachable, "its group: " + kind());
  }
  return store().usage();
}

rpc::control::GroupScrub StoreChain::scrub_state() const {
  if (parity_ == nullptr) return {};
  const ScrubView& scrub = parity_->view().scrub;
  const auto now = static_cast<std::uint64_t>(system_clock().wall_ns()) / 1'000'000'000;
  const std::uint64_t ended = scrub.ended.load();
  return {.group = true,
          .running = scrub.running.load(),
          .only_tell = scrub.only_tell.load(),
          .waiting = scrub.waiting.load(),
          .permille = scrub.permille.load(),
          .remaining_s = scrub.remaining_s.load(),
          .bytes = scrub.bytes.load(),
          .mended = scrub.corrupt.load() + scrub.parity.load(),
          .lost = scrub.lost.load(),
          .failed = scrub.failed.load(),
          .rounds = static_cast<std::uint32_t>(scrub.rounds.load()),
          .ended_s_ago = now > ended ? now - ended : 0,
          .awaited = parity_->view().awaited.load(),
          .may_give_up = parity_->view().may_give_up.load() >= 0,
          .given_up = parity_->view().given_up.load()};
}

Result<> StoreChain::give_up(const rpc::control::GiveUp& request) {
  if (parity_ == nullptr) return fail(Errc::kNotSupported, "no parity group");
  return parity_->give_up(request.target);
}

Result<> StoreChain::scrub(const rpc::control::Scrub& request) {
  if (parity_ == nullptr) return fail(Errc::kNotSupported, "no parity group");
  if (request.start) return parity_->begin_scrub(request.only_tell);
  parity_->end_scrub();
  return {};
}

void StoreChain::disconnect() {
  if (remote_ != nullptr) remote_->close();
  if (parity_ == nullptr) return;
  parity_->close();
  for (const auto& member : members_) member->close();
  // What it waited for has failed by now.
  const auto end = system_clock().now() + kGroupQuiet;
  while (!parity_->idle() && system_clock().now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (parity_->idle()) parity_.reset();
}

Result<> StoreChain::close() {
  if (parity_ != nullptr) return fail(Errc::kTimedOut, "the parity group did not end in time");
  cached_.reset();
  remote_.reset();
  members_.clear();
  return file_ != nullptr ? file_->close() : Result<>{};
}

}  // namespace weft::ds
