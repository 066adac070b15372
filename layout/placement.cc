#include "layout/placement.h"

#include <algorithm>

#include "rpc/base/assert.h"

namespace weft::layout {
namespace {

constexpr std::uint64_t kWholeShare = 1024;

bool has_room(const Candidate& candidate, const PlacementPolicy& policy) {
  return candidate.free_bytes >= policy.reserve_bytes;
}

double free_part(const Candidate& candidate) {
  if (candidate.capacity_bytes == 0) return 1;
  return static_cast<double>(candidate.free_bytes) / static_cast<double>(candidate.capacity_bytes);
}

// SplitMix64's finish: spreads turns, so that shares do not beat against the rotation, and numbers.
std::uint64_t mixed(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ value >> 27) * 0x94D049BB133111EBULL;
  return value ^ value >> 31;
}

struct Stripe {
  const MirrorGroup* group = nullptr;
  std::vector<MemberView> views;  // of its members
  MemberChoice choice;
  double free = 1;  // of the fullest member
};

class Placer {
 public:
  Placer(std::span<const Candidate> candidates, const PlacementPolicy& policy,
         const ChoiceRules& rules, std::uint64_t turn, PlacementMemory& memory)
      : policy_(policy), rules_(rules), turn_(turn), memory_(memory) {
    by_id_.reserve(candidates.size());
    for (const Candidate& candidate : candidates) by_id_.push_back(&candidate);
    const auto id = [](const Candidate* candidate) { return candidate->ds_id; };
    std::ranges::sort(by_id_, {}, id);
    WEFT_ASSERT(std::ranges::adjacent_find(by_id_, {}, id) == by_id_.end());
  }

  Result<PlacementChoice> place() {
    if (policy_.copies < 1 || policy_.copies > kMaxMirrors) {
      return fail(Errc::kInvalid, "a file has 1 to 3 copies");
    }
    if (auto enough = group_servers(); !enough) return pass(enough);
    judge();
    const std::size_t groups = stripes_.size();
    share_by_space();
    const std::size_t wanted = policy_.stripe_count == 0 ? groups : policy_.stripe_count;
    const Stripe skipped = leave_out_loaded(wanted);
    return make(wanted, groups, skipped);
  }

 private:
  [[nodiscard]] const Candidate& find(std::uint32_t ds_id) const {
    const auto id = [](const Candidate* candidate) { return candidate->ds_id; };
    const auto at = std::ranges::lower_bound(by_id_, ds_id, {}, id);
    WEFT_ASSERT(at != by_id_.end() && (*at)->ds_id == ds_id);
    return **at;
  }

  // Whether the grouping is of just these; if not, it is made to be.
  static bool regroup(PlacementMemory::Grouping& grouping, const MirrorGroups& previous,
                      const std::vector<const Candidate*>& servers, std::uint32_t copies) {
    const auto same = [](const GroupServer& server, const Candidate* candidate) {
      return server.ds_id == candidate->ds_id && server.domain == candidate->domain;
    };
    if (std::ranges::equal(grouping.servers, servers, same)) return false;
    grouping.servers.clear();
    for (const Candidate* server : servers) {
      grouping.servers.push_back({server->ds_id, server->domain});
    }
    grouping.groups = form_groups(previous, grouping.servers, copies);
    return true;
  }

  // Brings the memory's groups up to date.
  Result<> group_servers() {
    std::vector<const Candidate*> fit;
    std::size_t up = 0;
    for (const Candidate* candidate : by_id_) {
      if (candidate->state != ServerState::kUp) continue;
      ++up;
      if (has_room(*candidate, policy_)) fit.push_back(candidate);
    }
    if (!by_id_.empty() && by_id_.size() < policy_.copies) {
      return fail(Errc::kInvalid, "fewer data servers than copies");
    }
    if (up < policy_.copies) return fail(Errc::kLayoutTryLater, "too few data servers are up");
    if (fit.size() < policy_.copies) return fail(Errc::kNoSpace, "too few data servers have room");
    PlacementMemory::Grouping& whole = memory_.all[policy_.copies - 1];
    PlacementMemory::Grouping& now = memory_.fit[policy_.copies - 1];
    if (regroup(whole, whole.groups, by_id_, policy_.copies)) now = {};
    if (regroup(now, whole.groups, fit, policy_.copies)) memory_.choices.clear();
    return {};
  }

  // Chooses each group's leading member.
  void judge() {
    const auto& groups = memory_.fit[policy_.copies - 1].groups.groups;
    stripes_.reserve(groups.size());
    for (const MirrorGroup& group : groups) {
      Stripe stripe{.group = &group};
      stripe.views.reserve(group.members.size());
      for (const std::uint32_t id : group.members) {
        stripe.views.push_back({find(id).load, true});
        stripe.free = std::min(stripe.free, free_part(find(id)));
      }
      // By whole rounds, or the leader would depend on the group a file starts at.
      const std::uint64_t turn = turn_ / groups.size() + stripes_.size();
      GroupMemory& before = memory_.choices[group.members];
      stripe.choice = choose_member(stripe.views, rules_, before, turn);
      before = stripe.choice.memory;
      stripes_.push_back(std::move(stripe));
    }
  }

  // Rule 2.
  void share_by_space() {
    double most = 0;
    for (const Stripe& stripe : stripes_) most = std::max(most, stripe.free);
    const double whole = std::min(kFilling, most);
    std::uint64_t salt = mixed(turn_);
    std::vector<Stripe> chosen;
    for (Stripe& stripe : stripes_) {
      salt = mixed(salt);
      const double part = whole > 0 ? stripe.free / whole : 1;
      const bool in = static_cast<double>(salt % kWholeShare) < part * kWholeShare;
      if (in) chosen.push_back(std::move(stripe));
    }
    stripes_ = std::move(chosen);  // the emptiest group's part is 1: some are left
  }

  // Rule 3: takes loaded groups out; returns one of them to be recorded.
  Stripe leave_out_loaded(std::size_t wanted) {
    std::vector<std::size_t> loaded;
    for (std::size_t i = 0; i < stripes_.size(); ++i) {
      if (stripes_[i].choice.loaded) loaded.push_back(i);
    }
    if (loaded.empty()) memory_.skipped.clear();
    if (loaded.empty() || stripes_.size() < 2) return {};
    if (!policy_.skip && stripes_.size() <= wanted) return {};
    const auto as_first = [&](std::size_t i) {
      return stripes_[i].choice.reason == stripes_[loaded.front()].choice.reason;
    };
    // All are alike: without one the others would only have more to do.
    if (loaded.size() == stripes_.size() && std::ranges::all_of(loaded, as_first)) return {};
    const std::size_t out = to_skip(loaded);
    Stripe skipped = stripes_[out];
    memory_.skipped = skipped.group->members;
    const std::size_t others = stripes_.size() - loaded.size();
    if (others >= wanted && others >= loaded.size()) {
      std::erase_if(stripes_, [](const Stripe& stripe) { return stripe.choice.loaded; });
    } else {
      stripes_.erase(stripes_.begin() + static_cast<std::ptrdiff_t>(out));
    }
    return skipped;
  }

  // The group left out before if it is still loaded, else by what is short, by turn within that.
  std::size_t to_skip(const std::vector<std::size_t>& loaded) const {
    const auto reason = [&](std::size_t i) { return stripes_[i].choice.reason; };
    const Reason first = reason(*std::ranges::min_element(loaded, {}, reason));
    std::vector<std::size_t> alike;
    for (const std::size_t i : loaded) {
      if (stripes_[i].group->members == memory_.skipped) return i;
      if (reason(i) == first) alike.push_back(i);
    }
    return alike[turn_ % alike.size()];
  }

  // The members that hold the copies, the leading one first.
  [[nodiscard]] std::vector<std::uint32_t> holders(const Stripe& stripe) const {
    const auto& members = stripe.group->members;
    std::vector<std::uint32_t> chosen{members[stripe.choice.member]};
    if (members.size() == policy_.copies) {  // no choice
      for (std::size_t i = 1; i < members.size(); ++i) {
        chosen.push_back(members[(stripe.choice.member + i) % members.size()]);
      }
      return chosen;
    }
    while (chosen.size() < policy_.copies) {
      std::uint32_t best = 0;
      int best_score = -1;
      for (std::size_t i = 1; i < members.size(); ++i) {
        const std::size_t at = (stripe.choice.member + i) % members.size();
        if (std::ranges::find(chosen, members[at]) != chosen.end()) continue;
        const auto shares = [&](std::uint32_t id) {
          return find(id).domain == find(members[at]).domain;
        };
        const Capability capable = capability(stripe.views, at, rules_);
        const int score = (std::ranges::none_of(chosen, shares) ? 2 : 0) +
                          (capable.cap > capable.threshold ? 1 : 0);
        if (score > best_score) {
          best_score = score;
          best = members[at];
        }
      }
      chosen.push_back(best);
    }
    return chosen;
  }

  // Rule 5. By number, the group that the number weighs most (rendezvous hashing).
  [[nodiscard]] std::size_t first_group() const {
    if (policy_.first == kFirstByTurn) return turn_ % stripes_.size();
    const auto weight = [this](const Stripe& stripe) {
      std::uint64_t sum = mixed(policy_.first);
      for (const std::uint32_t id : stripe.group->members) sum = mixed(sum ^ id);
      return sum;
    };
    const auto heaviest = std::ranges::max_element(stripes_, {}, weight);
    return static_cast<std::size_t>(heaviest - stripes_.begin());
  }

  Result<PlacementChoice> make(std::size_t wanted, std::size_t groups, const Stripe& skipped) {
    const std::size_t width = std::min({wanted, stripes_.size(), kMaxLayoutServers});
    const std::size_t start = first_group();
    PlacementChoice made;
    LayoutMap& map = made.map;
    map.type = policy_.type;
    map.stripe_unit = policy_.stripe_unit;
    map.copies.resize(policy_.copies);
    if (policy_.copies > 1) {
      map.duplication = policy_.duplication;
      map.reads = policy_.reads;
    }
    // Files over all the groups share one list and differ in where they begin.
    const bool whole = width == stripes_.size();
    std::string leaders;
    for (std::size_t i = 0; i < width; ++i) {
      const Stripe& stripe = stripes_[whole ? i : (start + i) % stripes_.size()];
      const auto ids = holders(stripe);
      for (std::size_t copy = 0; copy < ids.size(); ++copy)
        map.copies[copy].ds_ids.push_back(ids[copy]);
      map.placed.reasons.push_back(stripe.choice.reason);
      leaders += " " + std::to_string(ids.front()) + ":";
      leaders += to_string(stripe.choice.reason);
    }
    map.placed.reasons.resize(width * policy_.copies, Reason::kMirror);
    if (whole) {
      for (Copy& copy : map.copies) copy.first_index = static_cast<std::uint32_t>(start);
    }
    made.reason = "load turn=" + std::to_string(turn_) + " groups=" + std::to_string(width) +
                  " of " + std::to_string(groups);
    if (skipped.group != nullptr) {
      map.placed.skipped_ds = skipped.group->members.front();
      map.placed.skipped_for = skipped.choice.reason;
      made.reason += " skipped=" + std::to_string(map.placed.skipped_ds) + ":";
      made.reason += to_string(skipped.choice.reason);
    }
    made.reason += " leads" + leaders;
    if (auto valid = validate(map); !valid) return pass(valid);
    return made;
  }

  const PlacementPolicy& policy_;
  const ChoiceRules& rules_;
  const std::uint64_t turn_;
  PlacementMemory& memory_;
  std::vector<const Candidate*> by_id_;  // in order of id
  std::vector<Stripe> stripes_;
};

}  // namespace

Result<PlacementChoice> place_by_load(std::span<const Candidate> candidates,
                                      const PlacementPolicy& policy, const ChoiceRules& rules,
                                      std::uint64_t turn, PlacementMemory& memory) {
  return Placer(candidates, policy, rules, turn, memory).place();
}

Result<PlacementChoice> Placement::choose(std::span<const Candidate> candidates,
                                          const PlacementPolicy& policy) {
  const MutexLock lock(mutex_);
  return place_by_load(candidates, policy, rules_, turn_++, memory_);
}

std::vector<std::string> Placement::warnings(std::uint32_t copies) const {
  WEFT_ASSERT(copies >= 1 && copies <= kMaxMirrors);
  const MutexLock lock(mutex_);
  return memory_.all[copies - 1].groups.warnings;
}

}  // namespace weft::layout
