#include "layout/member_choice.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "rpc/base/assert.h"

namespace weft::layout {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// What is known of a device's greatest speed: unlimited when nothing is.
double greatest(const DeviceLoad& device) {
  return device.max == 0 ? kUnlimited : static_cast<double>(device.max);
}

double left(const DeviceLoad& device) { return device.max == 0 ? kUnlimited : available(device); }

double when_idle(const ServerLoad& load) {
  return std::min(greatest(load.disk), greatest(load.network));
}

bool contains(const std::vector<std::uint8_t>& list, std::uint8_t value) {
  return std::ranges::find(list, value) != list.end();
}

class Chooser {
 public:
  Chooser(std::span<const MemberView> members, const ChoiceRules& rules, const GroupMemory& memory)
      : members_(members), rules_(rules), memory_(memory) {
    idle_ = kUnlimited;
    for (const MemberView& member : members) idle_ = std::min(idle_, when_idle(member.load));
    if (idle_ == kUnlimited) idle_ = 1;  // nothing is known of any: all alike unless CPU-busy
    for (std::size_t i = 0; i < members.size(); ++i) {
      caps_.push_back(cap_of(members[i].load, rules.memory_floor));
      ranks_.push_back(cap_of(members[i].load, floor_of(i)));
    }
  }

  [[nodiscard]] double cap(std::size_t member) const { return caps_[member]; }
  [[nodiscard]] double threshold() const { return idle_ / 2; }

  [[nodiscard]] MemberChoice choose(std::uint64_t turn) const {
    std::vector<std::uint8_t> eligible;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (members_[i].eligible) eligible.push_back(static_cast<std::uint8_t>(i));
    }
    WEFT_ASSERT(!eligible.empty());
    const std::uint8_t best = greatest_of(eligible, caps_);
    const double needed = threshold() * (memory_.loaded ? 1 + rules_.margin : 1);
    MemberChoice choice;
    choice.loaded = caps_[best] <= needed;
    choice.memory = memory_;
    choice.memory.loaded = choice.loaded;
    if (choice.loaded) {
      choice.member = best;
      choice.reason = shortage(eligible, needed);
      return choice;
    }
    std::erase_if(eligible, [&](std::uint8_t i) { return caps_[i] <= threshold(); });
    prefer_memory(eligible);
    settle(eligible, turn, choice);
    return choice;
  }

 private:
  // The memory a member is to have free: less for the leader, more for who would take its place.
  [[nodiscard]] std::uint64_t floor_of(std::size_t member) const {
    if (memory_.leader == GroupMemory::kNobody) return rules_.memory_floor;
    const double part = member == memory_.leader ? 1 - rules_.margin : 1 + rules_.margin;
    return static_cast<std::uint64_t>(static_cast<double>(rules_.memory_floor) * part);
  }

  [[nodiscard]] double cap_of(const ServerLoad& load, std::uint64_t memory_floor) const {
    if (cpu_is_busy(load)) return 0;
    double cap = left(load.network);
    if (load.memory_free <= memory_floor) cap = std::min(cap, left(load.disk));
    return cap == kUnlimited ? std::min(when_idle(load), idle_) : cap;
  }

  [[nodiscard]] bool has_memory(const ServerLoad& load) const {
    return load.memory_free > rules_.memory_floor;
  }

  // Equal ones: the leader, else the first.
  [[nodiscard]] std::uint8_t greatest_of(const std::vector<std::uint8_t>& among,
                                         const std::vector<double>& caps) const {
    std::uint8_t best = among.front();
    for (const std::uint8_t i : among) {
      if (caps[i] > caps[best] || (caps[i] == caps[best] && i == memory_.leader)) best = i;
    }
    return best;
  }

  void prefer_memory(std::vector<std::uint8_t>& fit) const {
    const auto has = [&](std::uint8_t i) { return members_[i].load.memory_free > floor_of(i); };
    if (std::ranges::any_of(fit, has)) std::erase_if(fit, [&](auto i) { return !has(i); });
  }

  // Rules 2 and 3, among fit members of the same memory.
  void settle(const std::vector<std::uint8_t>& fit, std::uint64_t turn,
              MemberChoice& choice) const {
    const std::uint8_t best = greatest_of(fit, ranks_);
    const double margin = rules_.margin * idle_;
    std::vector<std::uint8_t> alike;
    for (const std::uint8_t i : fit) {
      if (ranks_[i] >= ranks_[best] - margin) alike.push_back(i);
    }
    if (contains(alike, memory_.leader)) {
      choice.member = memory_.leader;
      choice.reason = alike.size() == 1 ? advantage(best) : Reason::kSteady;
      if (all_level(margin / 2)) choice.memory.leader = GroupMemory::kNobody;
    } else if (alike.size() > 1) {
      choice.member = alike[turn % alike.size()];
      choice.reason = Reason::kTurn;
      choice.memory.leader = GroupMemory::kNobody;
    } else {
      choice.member = best;
      choice.reason = advantage(best);
      const bool led = members_.size() > 1 && choice.reason != Reason::kOnly;
      choice.memory.leader = led ? best : GroupMemory::kNobody;
    }
  }

  // Whether nothing speaks for any member: the leader of before is one no more.
  [[nodiscard]] bool all_level(double within) const {
    const auto [low, high] = std::ranges::minmax(caps_);
    const auto alike = [&](const MemberView& member) {
      return member.eligible && has_memory(member.load) == has_memory(members_.front().load);
    };
    return high - low <= within && std::ranges::all_of(members_, alike);
  }

  // What the others lack, by the priority network, memory, disk, CPU.
  [[nodiscard]] Reason advantage(std::uint8_t best) const {
    bool memory = false;
    bool disk = false;
    bool cpu = false;
    bool others = false;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (i == best || !members_[i].eligible) continue;
      const ServerLoad& load = members_[i].load;
      others = true;
      if (left(load.network) <= threshold()) return Reason::kNetwork;
      memory |= has_memory(members_[best].load) && !has_memory(load);
      disk |= !has_memory(load) && left(load.disk) < left(load.network);
      cpu |= cpu_is_busy(load);
    }
    if (!others) return Reason::kOnly;
    return memory ? Reason::kMemory : disk ? Reason::kDisk : cpu ? Reason::kCpu : Reason::kNetwork;
  }

  // What a loaded group is short of, by the same priority. Without memory it is the disk that
  // is too slow.
  [[nodiscard]] Reason shortage(const std::vector<std::uint8_t>& eligible, double needed) const {
    const auto load = [&](std::uint8_t i) -> const ServerLoad& { return members_[i].load; };
    if (eligible.size() < members_.size() && eligible.size() == 1) return Reason::kOnly;
    const auto slow_network = [&](auto i) { return left(load(i).network) <= needed; };
    if (std::ranges::any_of(eligible, slow_network)) return Reason::kNetwork;
    const auto idle_cpu = [&](auto i) { return !cpu_is_busy(load(i)); };
    return std::ranges::any_of(eligible, idle_cpu) ? Reason::kDisk : Reason::kCpu;
  }

  std::span<const MemberView> members_;
  const ChoiceRules& rules_;
  const GroupMemory& memory_;
  double idle_ = 0;            // what the slowest member can do when idle
  std::vector<double> caps_;   // what makes a member fit
  std::vector<double> ranks_;  // what orders fit members: with a margin for memory
};

}  // namespace

std::string_view to_string(Reason reason) {
  switch (reason) {
    case Reason::kUnknown: return "unknown";
    case Reason::kOnly: return "only";
    case Reason::kTurn: return "turn";
    case Reason::kSteady: return "steady";
    case Reason::kNetwork: return "network";
    case Reason::kMemory: return "memory";
    case Reason::kDisk: return "disk";
    case Reason::kCpu: return "cpu";
    case Reason::kMoved: return "moved";
    case Reason::kMirror: return "mirror";
  }
  return "unknown";
}

MemberChoice choose_member(std::span<const MemberView> members, const ChoiceRules& rules,
                           const GroupMemory& memory, std::uint64_t turn) {
  WEFT_ASSERT(!members.empty() && members.size() <= GroupMemory::kNobody);
  return Chooser(members, rules, memory).choose(turn);
}

Capability capability(std::span<const MemberView> members, std::size_t member,
                      const ChoiceRules& rules) {
  WEFT_ASSERT(member < members.size());
  const Chooser chooser(members, rules, {});
  return {chooser.cap(member), chooser.threshold()};
}

}  // namespace weft::layout
