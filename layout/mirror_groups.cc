#include "layout/mirror_groups.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "rpc/base/assert.h"

namespace weft::layout {
namespace {

using Ids = std::vector<std::uint32_t>;

bool contains(const std::vector<std::uint32_t>& list, std::uint32_t value) {
  return std::ranges::find(list, value) != list.end();
}

class Former {
 public:
  Former(std::span<const GroupServer> servers, std::uint32_t copies) : copies_(copies) {
    for (const GroupServer& server : servers) {
      const bool added = domains_.emplace(server.ds_id, server.domain).second;
      WEFT_ASSERT(added);
    }
  }

  // What is left of a sound group of before: whole, or a beginning to be filled up again.
  void keep(const MirrorGroup& group) {
    if (!group.sound) return;
    Ids left;
    for (const std::uint32_t id : group.members) {
      const bool free = domains_.contains(id) && !taken_.contains(id);
      if (free && left.size() < copies_ && fits(left, id)) left.push_back(id);
    }
    if (left.empty()) return;
    taken_.insert(left.begin(), left.end());
    groups_.push_back(std::move(left));
  }

  void add_the_rest() {
    for (const auto& [id, domain] : domains_) {
      if (taken_.contains(id)) continue;
      pool_.push_back(id);
      while (fill() || form() || swap()) {
      }
    }
    while (fill() || form() || swap()) {
    }
    for (std::size_t i = groups_.size(); i-- > 0;) {
      if (groups_[i].size() == copies_) continue;  // could not be filled up
      pool_.insert(pool_.end(), groups_[i].begin(), groups_[i].end());
      groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    std::ranges::sort(pool_);
    while (form() || swap()) {
    }
  }

  // The servers left over become unsound groups, or further members of groups.
  [[nodiscard]] MirrorGroups finish() {
    MirrorGroups made;
    for (Ids& group : groups_) made.groups.push_back({std::move(group), true});
    std::string unsound;
    while (pool_.size() >= copies_) {
      MirrorGroup group = take_unsound();
      unsound += unsound.empty() ? " " : "; ";
      for (const std::uint32_t id : group.members) {
        unsound += (id == group.members.front() ? "" : " and ") + std::to_string(id);
      }
      made.groups.push_back(std::move(group));
    }
    if (!unsound.empty()) {
      made.warnings.push_back("Copies at data servers" + unsound +
                              " share a failure domain: too few domains have servers left.");
    }
    if (made.groups.empty() && !domains_.empty()) {
      made.warnings.push_back(std::to_string(domains_.size()) + " data servers cannot hold " +
                              std::to_string(copies_) + " copies.");
      return made;
    }
    for (const std::uint32_t id : pool_) {
      auto least = std::ranges::min_element(
          made.groups, {}, [](const MirrorGroup& group) { return group.members.size(); });
      least->members.push_back(id);
    }
    return made;
  }

 private:
  [[nodiscard]] const std::string& domain_of(std::uint32_t id) const { return domains_.at(id); }

  // Whether no member but `except` is in the server's domain.
  [[nodiscard]] bool fits(const Ids& group, std::uint32_t id, std::uint32_t except = 0) const {
    return std::ranges::none_of(group, [&](std::uint32_t member) {
      return member != except && domain_of(member) == domain_of(id);
    });
  }

  // Completes a group that lost members, if the pool can.
  bool fill() {
    for (Ids& group : groups_) {
      if (group.size() == copies_) continue;
      Ids whole = group;
      for (const std::uint32_t id : pool_) {
        if (whole.size() < copies_ && fits(whole, id)) whole.push_back(id);
      }
      if (whole.size() < copies_) continue;
      std::erase_if(pool_, [&](std::uint32_t id) { return contains(whole, id); });
      group = std::move(whole);
      return true;
    }
    return false;
  }

  // A sound group from the pool alone, as long as it can be.
  [[nodiscard]] Ids from_pool(std::size_t size) const {
    Ids group;
    for (const std::uint32_t id : pool_) {
      if (group.size() < size && fits(group, id)) group.push_back(id);
    }
    return group;
  }

  bool form() {
    Ids group = from_pool(copies_);
    if (group.size() < copies_) return false;
    std::erase_if(pool_, [&](std::uint32_t id) { return contains(group, id); });
    groups_.push_back(std::move(group));
    return true;
  }

  // A sound group from the pool and, for each member missing, one that another group gives away
  // for a server of the pool; the youngest groups are asked first.
  bool swap() {
    if (pool_.size() < copies_) return false;
    for (std::size_t own = copies_ - 1; own >= 1; --own) {
      const auto groups = groups_;
      const auto pool = pool_;
      Ids made = from_pool(own);
      std::erase_if(pool_, [&](std::uint32_t id) { return contains(made, id); });
      while (made.size() < copies_) {
        const auto got = exchange(made);
        if (!got) break;
        made.push_back(*got);
      }
      if (made.size() == copies_) {
        std::ranges::sort(made);
        groups_.push_back(std::move(made));
        return true;
      }
      groups_ = groups;
      pool_ = pool;
    }
    return false;
  }

  std::optional<std::uint32_t> exchange(const Ids& wanting) {
    for (std::size_t i = groups_.size(); i-- > 0;) {
      for (std::uint32_t& member : groups_[i]) {
        if (!fits(wanting, member)) continue;
        const auto in = std::ranges::find_if(
            pool_, [&](std::uint32_t id) { return fits(groups_[i], id, member); });
        if (in == pool_.end()) continue;
        const std::uint32_t out = std::exchange(member, *in);
        pool_.erase(in);
        return out;
      }
    }
    return std::nullopt;
  }

  // k servers in as many domains as the pool has.
  MirrorGroup take_unsound() {
    Ids group = from_pool(copies_);
    for (const std::uint32_t id : pool_) {
      if (group.size() < copies_ && !contains(group, id)) group.push_back(id);
    }
    std::erase_if(pool_, [&](std::uint32_t id) { return contains(group, id); });
    return {std::move(group), false};
  }

  std::size_t copies_;
  std::map<std::uint32_t, std::string> domains_;
  std::set<std::uint32_t> taken_;
  std::vector<Ids> groups_;
  Ids pool_;
};

}  // namespace

MirrorGroups form_groups(const MirrorGroups& previous, std::span<const GroupServer> servers,
                         std::uint32_t copies) {
  WEFT_ASSERT(copies >= 1 && copies <= kMaxMirrors);
  Former former(servers, copies);
  for (const MirrorGroup& group : previous.groups) former.keep(group);
  former.add_the_rest();
  return former.finish();
}

bool shares_domain(const LayoutMap& map, std::span<const GroupServer> servers) {
  std::map<std::uint32_t, std::string_view> domain_of;
  std::set<std::string_view> domains;
  for (const GroupServer& server : servers) {
    domain_of.emplace(server.ds_id, server.domain);
    domains.insert(server.domain);
  }
  if (domains.size() < map.copies.size()) return false;
  const std::size_t stripes = map.copies.empty() ? 0 : map.copies.front().ds_ids.size();
  for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
    std::set<std::string_view> taken;
    for (const Copy& copy : map.copies) {
      if (!copy.holds(stripe)) continue;
      const auto domain = domain_of.find(copy.ds_ids[stripe]);
      if (domain != domain_of.end() && !taken.insert(domain->second).second) return true;
    }
  }
  return false;
}

}  // namespace weft::layout
