#include "dataserver/main/group_chain.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <thread>

#include "dataserver/main/target_told.h"
#include "dataserver/store/disk.h"
#include "rpc/base/clock.h"

namespace weft::ds {
namespace {

constexpr std::chrono::seconds kGroupQuiet{5};

ParityRates rates_of(const DsConfig& config) {
  return {.rebuild = config.parity_rebuild_rate,
          .scrub = config.parity_scrub_rate,
          .scrub_every = config.parity_scrub_every};
}

}  // namespace

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

Result<> GroupChain::connect(std::shared_ptr<const rpc::peer::Keyring> keys,
                             std::vector<IoRing*> rings, DialRdma dial_rdma) {
  std::vector<Store*> members;
  for (std::size_t i = 0; i < config_.parity.size(); ++i) {
    auto remote = open_member(i, keys, rings, dial_rdma);
    if (!remote) return pass(remote);
    members_.push_back(std::move(*remote));
    members.push_back(members_.back().get());
  }
  group_folder_ = std::make_unique<GroupFolder>(folder_->root());
  ParityOptions group;
  group.geometry = {.members = static_cast<unsigned>(members.size()),
                    .chunk = config_.parity_chunk};
  group.rates = rates_of(config_);
  parity_ = std::make_unique<ParityStore>(ParityStore::Parts{.members = std::move(members),
                                                             .disk = *group_folder_,
                                                             .pool = pool_,
                                                             .clock = system_clock(),
                                                             .random = system_random(),
                                                             .rings = std::move(rings),
                                                             .options = group,
                                                             .replacements = this});
  begin_caching();
  parity_->start();
  return {};
}

Result<std::unique_ptr<RemoteStore>> GroupChain::open_member(
    std::size_t member, std::shared_ptr<const rpc::peer::Keyring> keys, std::vector<IoRing*> rings,
    DialRdma dial_rdma) {
  const std::string name = "member-" + std::to_string(member);
  if (auto made = ensure_directory(folder_->root(), name.c_str()); !made) return pass(made);
  auto folder = open_directory(config_.store.path + "/" + name);
  if (!folder) return pass(folder);
  member_folders_.push_back(std::move(*folder));
  // The group has its own patience with a member, and goes on without it.
  LinkOptions options;
  options.patience = config_.parity_patience;
  options.silence = std::min(options.silence, config_.parity_patience);
  options.commit_patience = 3 * config_.parity_patience;
  auto opened = RemoteStore::open(
      {.address = config_.parity[member],
       .space = folder_->identity().uuid,
       .keys = std::move(keys),
       .options = options,
       .pool = pool_,
       .random = system_random(),
       .rings = std::move(rings),
       .folder = member_folders_.back().get(),
       .may_be = [this,
                  member](const Uuid& store) { return identities_.claim(member, store, false); },
       .replaceable = true,
       .dial_rdma = std::move(dial_rdma),
       .bypass = 0});  // sums need the bytes
  if (opened && (*opened)->identity() != Uuid{}) {
    if (auto own = identities_.claim(member, (*opened)->identity(), true); !own) return pass(own);
  }
  return opened;
}

Result<> GroupChain::accept(unsigned member) {
  auto accepted = members_[member]->accept();
  if (!accepted) return accepted;
  return identities_.claim(member, members_[member]->identity(), true);
}

void GroupChain::reload(const DsConfig& next) {
  if (parity_ != nullptr) parity_->set_rates(rates_of(next));
}

// For people. rpc::control::read_group_words() knows what versions without TellGroup say here.
std::string GroupChain::kind() const {
  if (parity_ == nullptr) return "parity, stopped";
  const ParityView& view = parity_->view();
  const std::uint64_t blocks = view.given_up.load();
  const std::string given_up = blocks == 0 ? "" : fmt::format(", {} blocks given up", blocks);
  const std::uint64_t bad = view.corrupt_blocks.load();
  const std::string mended = bad == 0 ? "" : fmt::format(", {} bad blocks mended", bad);
  switch (view.state.load()) {
    case GroupState::kStarting: {
      const std::uint32_t awaited = view.awaited;
      if (awaited == 0) return "parity, starting";
      return fmt::format(
          "parity, waits for target {}{}", std::countr_zero(awaited),
          view.may_give_up.load() < 0 ? "" : ": start it; if it is lost for ever, weft ds give-up");
    }
    case GroupState::kWhole:
      if (!view.scrub.running.load()) return "parity" + given_up + mended;
      return fmt::format("parity, scrubbing {} %{}{}", view.scrub.permille.load() / 10, given_up,
                         mended);
    case GroupState::kDegraded: return "parity, degraded" + given_up + mended;
    case GroupState::kRebuilding:
      return fmt::format("parity, rebuilding {} %{}", view.rebuild_permille.load() / 10, given_up);
  }
  return "parity";
}

std::vector<rpc::control::TargetKeys> GroupChain::target_keys() const {
  std::vector<rpc::control::TargetKeys> told;
  for (const auto& member : members_) told.push_back(keys_of(*member));
  return told;
}

rpc::control::AboutTarget GroupChain::about_target(std::uint32_t at) const {
  rpc::control::AboutTarget told =
      at < members_.size() ? about(*members_[at]) : rpc::control::AboutTarget{};
  told.targets = static_cast<std::uint32_t>(members_.size());
  return told;
}

std::vector<rpc::control::TargetTransports> GroupChain::target_transports() const {
  std::vector<rpc::control::TargetTransports> told;
  for (const auto& member : members_) told.push_back(transport_of(*member));
  return told;
}

void GroupChain::serve(bool /*as_it_is*/) {
  parity_->allow_changes();
  serving_.store(true);
}

// Before it serves nothing but that is waited for: the data server registers with the room that the
// group has.
Result<StoreStat> GroupChain::usage() {
  if (serving_.load() && parity_->view().state.load() == GroupState::kStarting) {
    return fail(Errc::kUnreachable, "its group: " + kind());
  }
  return store().usage();
}

rpc::control::GroupScrub GroupChain::scrub_state() const {
  const ParityView& view = parity_->view();
  const ScrubView& scrub = view.scrub;
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
          .awaited = view.awaited.load(),
          .may_give_up = view.may_give_up.load() >= 0,
          .given_up = view.given_up.load()};
}

rpc::control::TellGroup GroupChain::group_state() const {
  using Told = rpc::control::GroupState;
  if (parity_ == nullptr) return {};
  const ParityView& view = parity_->view();
  switch (view.state.load()) {
    case GroupState::kStarting: return {.state = Told::kStarting};
    case GroupState::kWhole: return {.state = Told::kWhole};
    case GroupState::kDegraded: return {.state = Told::kDegraded};
    case GroupState::kRebuilding:
      return {.state = Told::kRebuilding, .rebuilt_permille = view.rebuild_permille.load()};
  }
  return {};
}

Result<> GroupChain::scrub(const rpc::control::Scrub& request) {
  if (request.start) return parity_->begin_scrub(request.only_tell);
  parity_->end_scrub();
  return {};
}

Result<> GroupChain::give_up(const rpc::control::GiveUp& request) {
  return parity_->give_up(request.target);
}

void GroupChain::disconnect() {
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

Result<> GroupChain::close_links() {
  if (parity_ != nullptr) return fail(Errc::kTimedOut, "the parity group did not end in time");
  members_.clear();
  return {};
}

}  // namespace weft::ds
