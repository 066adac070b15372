#include "tools/weft/segments.h"

#include <spdlog/fmt/fmt.h>

#include "ganesha-fsal/admin/client.h"
#include "rpc/xdr/describe_json.h"
#include "tools/weft/output.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

// Data servers that do not answer cost their deadline.
constexpr std::chrono::milliseconds kPatience{30'000};

std::string share(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace

std::string segments_text(const mds::SegmentsReport& report) {
  Table now({"ID", "NAME", "SEGMENTS", "ON DISK", "OF", "IN MEMORY", "OF"});
  Table since({"ID", "READS", "HITS", "WAITED", "READ", "BUILT", "CHANGED", "REPLACED", "DAMAGED"});
  std::string unknown;
  for (const mds::ServerSegmentsReport& of : report.data_servers) {
    const std::string id = std::to_string(of.server.id);
    const std::string name = printable(of.server.name);
    if (!of.kept) {
      unknown += fmt::format("data server {} ({}): {}\n", id, name, printable(of.why));
      continue;
    }
    const auto& counts = of.counts;
    now.add({id, name, human_count(counts.segments), human_bytes(counts.bytes),
             human_bytes(counts.most_bytes), human_bytes(counts.memory_bytes),
             human_bytes(counts.most_memory_bytes)});
    since.add({id, human_count(counts.reads), share(counts.hits + counts.waits, counts.reads),
               share(counts.waits, counts.reads), human_bytes(counts.loaded_bytes),
               human_bytes(counts.built_bytes), human_count(counts.invalidated),
               human_count(counts.replaced), human_count(counts.damaged)});
  }
  if (report.data_servers.empty()) return "there are no data servers\n";
  std::string text;
  if (!now.empty()) {
    text = now.text() + "\nsince they started:\n" + since.text();
    if (!unknown.empty()) text += "\n";
  }
  return text + unknown;
}

int ds_segments_command(const Settings& settings) {
  const auto report = mds::admin::Client(settings.socket, kPatience).ask(mds::admin::GetSegments{});
  if (!report) return complain_of_admin(settings.socket, report.error());
  settings.json ? print(to_json(*report)) : print(segments_text(*report));
  return kExitGood;
}

}  // namespace weft::cli
