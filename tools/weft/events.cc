#include "tools/weft/events.h"

#include <spdlog/fmt/chrono.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <thread>

#include "ganesha-fsal/admin/client.h"
#include "rpc/base/clock.h"
#include "rpc/xdr/describe_json.h"
#include "tools/weft/output.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

constexpr std::chrono::seconds kLookAgain{1};

// "11-25 14:03:59".
std::string local_time(std::uint64_t ms) {
  const auto at = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  if (::localtime_r(&at, &parts) == nullptr) return std::to_string(ms);
  return fmt::format("{:%m-%d %H:%M:%S}", parts);
}

void show(const Settings& settings, const mds::EventsReport& report, bool each) {
  if (settings.json && !each) return print(to_json(report));
  for (const mds::EventReport& event : report.events) {
    print(settings.json ? write_json(to_json(event)) + "\n" : event_text(event));
  }
  std::fflush(stdout);
}

}  // namespace

std::string event_text(const mds::EventReport& event) {
  std::string text;
  if (event.server) {
    const std::string& name = event.server->name;
    text = fmt::format("data server {}{}: ", event.server->id,
                       name.empty() ? "" : " (" + printable(name) + ")");
  }
  text += printable(event.text);
  if (event.times > 1) {
    text +=
        fmt::format(" ({} times since {})", human_count(event.times), local_time(event.first_ms));
  }
  return wrapped(fmt::format("{}  {:<7}  ", local_time(event.at_ms), to_string(event.level)), text);
}

mds::EventsReport events_since(mds::EventsReport report, std::uint64_t ms) {
  std::erase_if(report.events, [ms](const mds::EventReport& event) { return event.at_ms < ms; });
  return report;
}

int events_command(const Settings& settings, const EventsOptions& options) {
  const mds::admin::Client client(settings.socket);
  auto report = client.ask(mds::admin::GetEvents{});
  if (!report) return complain_of_admin(settings.socket, report.error());
  std::uint64_t seen = report->newest;
  if (options.since_s) {
    const double now_ms = static_cast<double>(system_clock().wall_ns()) / 1e6;
    const double from_ms = std::max(0.0, now_ms - *options.since_s * 1e3);
    report = events_since(std::move(*report), static_cast<std::uint64_t>(from_ms));
  }
  show(settings, *report, options.follow);
  while (options.follow) {
    std::this_thread::sleep_for(kLookAgain);
    report = client.ask(mds::admin::GetEvents{.after = seen});
    if (!report) continue;
    // One that has forgotten what was before counts anew.
    if (report->newest < seen) {
      seen = 0;
      continue;
    }
    seen = report->newest;
    show(settings, *report, true);
  }
  return kExitGood;
}

}  // namespace weft::cli
