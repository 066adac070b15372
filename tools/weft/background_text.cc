// What goes on beside the data path, for people: scrubs of copies and of parity groups, rebalances.
#include "tools/weft/background_text.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "tools/weft/table.h"

namespace weft::cli {
namespace {

// Coarser than human_duration(): what it is said of takes long, and is told once a heartbeat.
std::string coarse(std::uint64_t seconds) {
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7200) return fmt::format("{} min", seconds / 60);
  return fmt::format("{} h", seconds / 3600);
}

std::string mib(std::uint64_t bytes) { return fmt::format("{} MiB", bytes >> 20); }

std::string title(const mds::ServerName& server) {
  return fmt::format("data server {} ({})", server.id, server.name);
}

std::string targets_of(std::uint32_t awaited) {
  std::string targets;
  for (unsigned target = 0; target < 32; ++target) {
    if ((awaited >> target & 1) == 0) continue;
    targets += (targets.empty() ? "" : ", ") + std::to_string(target);
  }
  return targets;
}

void group_problems(const mds::GroupReport& group, std::vector<Problem>& out) {
  const std::string server = title(group.server);
  if (group.awaited != 0) {
    const std::string targets = targets_of(group.awaited);
    out.push_back(
        {"GROUP_WAITS",
         fmt::format("the parity group of {} waits for target {} and serves nothing: start it{}",
                     server, targets,
                     group.may_give_up
                         ? fmt::format("; if it is lost for ever: weft ds give-up {} {}",
                                       group.server.id, targets)
                         : "")});
  }
  if (group.given_up > 0) {
    out.push_back(
        {"BLOCKS_GIVEN_UP",
         fmt::format("the parity group of {} has given up {} blocks with a target that was lost; "
                     "those that "
                     "were not written anew cannot be read (event=parity_given_up in its log)",
                     server, group.given_up)});
  }
  if (group.lost > 0) {
    out.push_back(
        {"BLOCKS_LOST",
         fmt::format(
             "the parity group of {} has {} blocks that cannot be computed (weft scrub status)",
             server, group.lost)});
  }
}

}  // namespace

void scrub_problems(const mds::ScrubReport& scrub, std::vector<Problem>& out) {
  const auto mended = std::ranges::count(scrub.findings, true, &mds::ScrubFindingReport::mended);
  const std::uint64_t open =
      scrub.unlisted + scrub.findings.size() - static_cast<std::uint64_t>(mended);
  if (open > 0) {
    out.push_back(
        {"COPIES_DIFFER",
         fmt::format(
             "{} copies of files differ, and nothing was changed. Look at both, and say which "
             "is right: weft scrub status, weft scrub resolve",
             open)});
  }
  for (const mds::GroupReport& group : scrub.groups) group_problems(group, out);
  if (mended > 0) {
    out.push_back(
        {"COPIES_MENDED",
         fmt::format("scrubs found {} copies that were damaged, and made them equal to the others "
                     "(weft scrub status)",
                     mended)});
  }
}

std::string group_text(const mds::GroupReport& group) {
  std::string text = title(group.server) + ": ";
  if (group.running) {
    text += fmt::format("{} %{}", group.permille / 10, group.only_tell ? ", changing nothing" : "");
    if (group.waiting) {
      text += ", waiting for the group to be whole";
    } else if (group.remaining_s > 0) {
      text += fmt::format(", {} left", coarse(group.remaining_s));
    }
  } else if (group.bytes == 0 && group.rounds == 0) {
    return text + "not gone through yet";
  } else {
    text += fmt::format("ended {} ago", coarse(group.ended_s_ago));
  }
  return text + fmt::format("; {} read, {} wrong{}, {} lost, {} could not be looked at",
                            mib(group.bytes), group.wrong,
                            group.only_tell ? "" : " and written anew", group.lost, group.failed);
}

std::string rebalance_text(const mds::RebalanceReport& rebalance) {
  return fmt::format("{}, {} objects, {} moved or being moved, {:.1f} % apart, {:.1f} % before",
                     rebalance.running ? "running" : "ended", rebalance.objects,
                     mib(rebalance.bytes), rebalance.spread * 100, rebalance.spread_before * 100);
}

std::string stuck_text(const mds::StuckReport& stuck) {
  return fmt::format("{} objects: {}", stuck.objects, stuck.why);
}

std::string skipped_text(const mds::SkippedReport& skipped) {
  return fmt::format("the group of data server {}, short of {}", skipped.ds_id, skipped.short_of);
}

std::string moving_text(const mds::MovingReport& moving) {
  if (moving.left) {
    return fmt::format("data server {} has left; its object there is to be removed", moving.from);
  }
  return fmt::format("data server {} is being filled to take the place of {}", moving.to,
                     moving.from);
}

}  // namespace weft::cli
