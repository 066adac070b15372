// What goes on beside the data path, for people: scrubs of copies and of parity groups, rebalances.
#include "tools/weft/background_text.h"

#include <spdlog/fmt/fmt.h>

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

constexpr std::size_t kLongestName = 50;  // columns, in a sentence

std::string title(const mds::ServerName& server) {
  return fmt::format("data server {} ({})", server.id,
                     shortened(printable(server.name), kLongestName));
}

}  // namespace

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
